//! Which managers are compared: those that are named, or a field that is useful for most conversations.

use crate::manager::SharedManager;

/// Budgets of the usual field, in tokens.
const BUDGETS: [u64; 4] = [8_000, 16_000, 32_000, 64_000];

/// A manager that takes part in a comparison, with the text that names it.
#[derive(Clone)]
pub struct Entrant {
    /// As it was given.
    pub name: String,
    /// The manager.
    pub manager: SharedManager,
}

impl std::fmt::Debug for Entrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entrant").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a caller asks to compare.
///
/// A `B` in the text of a manager stands for each of the budgets in turn.
#[derive(Clone, Debug, Default)]
pub struct Field {
    /// Texts of managers; the usual field where there is none.
    pub managers: Vec<String>,
    /// Budgets in tokens; 8k, 16k, 32k and 64k where there is none.
    pub budgets: Vec<u64>,
}

impl Field {
    /// Whether the length of the conversations decides which managers take part.
    pub fn needs_lengths(&self) -> bool {
        self.managers.is_empty() && self.budgets.is_empty()
    }

    /// The texts of all managers, without repetition. `longest` is the longest history in tokens: of the usual budgets only
    /// those below it are tried. `fit` takes part where the window of the model is known.
    ///
    /// ```
    /// use scrollback_core::replay::Field;
    /// let field = Field { managers: vec!["auto(B)".into()], budgets: vec![8_000, 1_500] };
    /// assert_eq!(field.texts(0, true), ["auto(8k)", "auto(1500)"]);
    /// assert!(Field::default().texts(10_000, false).contains(&"auto(8k)".to_string()));
    /// ```
    pub fn texts(&self, longest: u64, knows_window: bool) -> Vec<String> {
        let budgets: Vec<u64> = if self.budgets.is_empty() { BUDGETS.to_vec() } else { self.budgets.clone() };
        let texts: Vec<String> = if self.managers.is_empty() {
            let tried = |budget: &u64| !self.budgets.is_empty() || *budget < longest;
            usual(&budgets.into_iter().filter(tried).collect::<Vec<_>>(), knows_window)
        } else {
            self.managers.iter().flat_map(|text| expanded(text, &budgets)).collect()
        };
        let mut unique: Vec<String> = Vec::with_capacity(texts.len());
        for text in texts {
            if !unique.contains(&text) {
                unique.push(text);
            }
        }
        unique
    }
}

fn usual(budgets: &[u64], knows_window: bool) -> Vec<String> {
    let mut texts = vec!["passthrough".to_string()];
    texts.extend(knows_window.then(|| "fit".to_string()));
    texts.extend(
        ["sliding_window(20)", "tool_result_truncator(2000)", "clear_tool_results(3)"].map(String::from),
    );
    for budget in budgets {
        let budget = spelled(*budget);
        texts.push(format!("sticky(token_budget({budget}))"));
        texts.push(format!("auto({budget})"));
    }
    texts
}

/// A manager for each budget, where it has a `B` for one.
fn expanded(text: &str, budgets: &[u64]) -> Vec<String> {
    let is_word = |letter: Option<char>| {
        letter.is_some_and(|letter| letter.is_alphanumeric() || "_\"".contains(letter))
    };
    let place = text.match_indices('B').map(|(at, _)| at).find(|at| {
        let (before, after) = text.split_at(*at);
        !is_word(before.chars().next_back()) && !is_word(after.chars().nth(1))
    });
    let Some(at) = place else { return vec![text.into()] };
    let (before, after) = text.split_at(at);
    let after = after.get(1..).unwrap_or_default();
    let with = |budget: &u64| expanded(&format!("{before}{}{after}", spelled(*budget)), &[*budget]);
    budgets.iter().flat_map(with).collect()
}

/// A budget as people write it.
fn spelled(budget: u64) -> String {
    if budget.is_multiple_of(1000) { format!("{}k", budget / 1000) } else { budget.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_b_stands_for_each_budget_and_words_stay() {
        let field = Field {
            managers: vec![
                "sticky(token_budget(B), low=B)".into(),
                "Budget(1)".into(),
                "fit".into(),
                "fit".into(),
            ],
            budgets: vec![2_000, 500],
        };
        let wanted =
            ["sticky(token_budget(2k), low=2k)", "sticky(token_budget(500), low=500)", "Budget(1)", "fit"];
        assert_eq!(field.texts(0, false), wanted);
    }

    #[test]
    fn the_usual_field_tries_the_budgets_below_the_longest_history() {
        let texts = Field::default().texts(16_001, true);
        let tried: Vec<&str> =
            texts.iter().filter(|text| text.starts_with("auto")).map(String::as_str).collect();
        assert_eq!(tried, ["auto(8k)", "auto(16k)"]);
        assert_eq!((texts.len(), texts[0].as_str(), texts[1].as_str()), (9, "passthrough", "fit"));
        let given = Field { budgets: vec![90_000], ..Field::default() };
        assert!(
            given.texts(10, false).contains(&"auto(90k)".to_string()),
            "budgets that are named are always tried"
        );
    }
}
