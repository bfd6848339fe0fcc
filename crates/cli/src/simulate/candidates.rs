//! Who competes: the candidates that were given, or the usual field.

use scrollback_core::manager::{self, SharedManager};

use super::args::SimulateArgs;
use crate::failure::{Failure, USAGE};

/// Budgets of the usual field.
const BUDGETS: [u64; 4] = [8_000, 16_000, 32_000, 64_000];

/// One candidate, as it was written.
pub(crate) struct Entrant {
    pub(crate) name: String,
    pub(crate) manager: SharedManager,
}

/// The candidates. `longest` is the longest history in tokens; `fits` says whether the window of the model is known.
pub(crate) fn entrants(args: &SimulateArgs, longest: u64, fits: bool) -> Result<Vec<Entrant>, Failure> {
    let budgets = if args.budgets.is_empty() { BUDGETS.to_vec() } else { read_budgets(&args.budgets)? };
    let texts = if args.managers.is_empty() {
        let below: Vec<u64> = if args.budgets.is_empty() {
            budgets.into_iter().filter(|budget| *budget < longest).collect()
        } else {
            budgets
        };
        usual(&below, fits)
    } else {
        args.managers.iter().flat_map(|text| expanded(text, &budgets)).collect()
    };
    let mut all: Vec<Entrant> = Vec::new();
    for text in texts {
        if all.iter().all(|one| one.name != text) {
            all.push(Entrant { manager: manager::parse(&text)?, name: text });
        }
    }
    Ok(all)
}

fn usual(budgets: &[u64], fits: bool) -> Vec<String> {
    let mut texts = vec!["passthrough".to_string()];
    texts.extend(fits.then(|| "fit".to_string()));
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
    budgets
        .iter()
        .flat_map(|budget| expanded(&format!("{before}{}{after}", spelled(*budget)), budgets))
        .collect()
}

/// A budget as people write it.
fn spelled(budget: u64) -> String {
    if budget.is_multiple_of(1000) { format!("{}k", budget / 1000) } else { budget.to_string() }
}

fn read_budgets(texts: &[String]) -> Result<Vec<u64>, Failure> {
    let read = |text: &String| {
        let plain = text.trim().replace('_', "");
        let number = match plain.strip_suffix('k') {
            Some(thousands) => thousands.parse::<u64>().ok().and_then(|number| number.checked_mul(1000)),
            None => plain.parse::<u64>().ok(),
        };
        number.filter(|number| *number > 0).ok_or_else(|| {
            Failure::new(USAGE, "usage", format!("{text:?} is not a budget; write 8000, 8_000 or 8k"))
        })
    };
    texts.iter().map(read).collect()
}
