//! Which tokenizer counts for which model, and whether its count is exact.

use serde::Serialize;

use super::Factor;
use crate::model::{ModelName, Provider};

/// A way to count the tokens of a text.
///
/// Counts are the same on every machine. A vocabulary is unpacked the first time it is asked for, which takes
/// about a tenth of a second, and stays in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tokenizer {
    /// `OpenAI`'s vocabulary since gpt-4o.
    O200kBase,
    /// `OpenAI`'s vocabulary of gpt-4 and gpt-3.5.
    Cl100kBase,
    /// No vocabulary: four ASCII characters are one token, any other character is one.
    Characters,
}

impl Tokenizer {
    /// Every way to count.
    pub const ALL: [Tokenizer; 3] = [Tokenizer::O200kBase, Tokenizer::Cl100kBase, Tokenizer::Characters];

    /// Its place in [`Tokenizer::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// How many tokens `text` is; text that looks like a special token is counted as ordinary text.
    ///
    /// ```
    /// use scrollback_core::tokens::Tokenizer;
    /// assert_eq!(Tokenizer::O200kBase.count("hello world"), 2);
    /// assert_eq!(Tokenizer::Characters.count("hello world"), 3);
    /// ```
    pub fn count(self, text: &str) -> usize {
        let vocabulary = match self {
            // Both are compiled in, so this is never `None`.
            Tokenizer::O200kBase | Tokenizer::Cl100kBase => tiktoken::get_encoding(self.name()),
            Tokenizer::Characters => None,
        };
        vocabulary.map_or_else(|| by_characters(text), |vocabulary| vocabulary.count(text))
    }

    /// The name shown beside a count.
    pub const fn name(self) -> &'static str {
        match self {
            Tokenizer::O200kBase => "o200k_base",
            Tokenizer::Cl100kBase => "cl100k_base",
            Tokenizer::Characters => "characters",
        }
    }
}

/// ceil(ASCII characters / 4 + other characters).
fn by_characters(text: &str) -> usize {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    // Every other character has exactly one byte that begins it.
    let other = text.bytes().filter(|byte| *byte >= 0xC0).count();
    ascii.div_ceil(4) + other
}

/// How far a count can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// The model's own vocabulary: exact for the texts counted and the constants added.
    Exact,
    /// A stand-in, because the model's vocabulary is not public or not known here.
    Estimate,
}

impl Method {
    /// The word shown beside a count.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Exact => "exact",
            Method::Estimate => "estimate",
        }
    }
}

/// The tokenizer that stands for a model and how far to trust it; every shown count carries both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Counter {
    /// What counts.
    pub tokenizer: Tokenizer,
    /// Whether that is what the model itself uses.
    pub method: Method,
    /// What estimates are multiplied by, learnt from what the provider reported; 1 for exact counts.
    #[serde(skip)]
    pub factor: Factor,
}

impl Counter {
    /// Chooses by the model's name alone; without a model it is `o200k_base`, exact.
    pub fn for_model(model: Option<&ModelName>) -> Counter {
        let exact = |tokenizer| Counter { tokenizer, method: Method::Exact, factor: Factor::ONE };
        let estimate = |tokenizer| Counter { tokenizer, method: Method::Estimate, factor: Factor::ONE };
        let Some(model) = model else { return exact(Tokenizer::O200kBase) };
        match model.provider() {
            Provider::OpenAi => {
                openai_vocabulary(model.model()).map_or_else(|| estimate(Tokenizer::O200kBase), exact)
            }
            Provider::Offline => exact(Tokenizer::O200kBase),
            Provider::Anthropic | Provider::Gemini | Provider::Bedrock | Provider::OpenAiCompatible => {
                estimate(Tokenizer::Characters)
            }
        }
    }
}

impl Counter {
    /// The same, with estimates multiplied by a factor; exact counts stay exact.
    #[must_use]
    pub fn with_factor(self, factor: Factor) -> Self {
        match self.method {
            Method::Exact => self,
            Method::Estimate => Counter { factor, ..self },
        }
    }
}

/// The vocabulary `OpenAI` states for a model; a fine-tune has its base's.
fn openai_vocabulary(name: &str) -> Option<Tokenizer> {
    let base = match name.strip_prefix("ft:") {
        Some(tuned) => tuned.split(':').next().unwrap_or(tuned),
        None => name,
    };
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| base.starts_with(prefix));
    if begins(&["gpt-4o", "gpt-4.1", "chatgpt-4o", "o1", "o3", "o4"])
        || gpt_generation(base).is_some_and(|generation| (5..35).contains(&generation))
    {
        Some(Tokenizer::O200kBase)
    } else if base == "gpt-4" || begins(&["gpt-4-", "gpt-3.5", "gpt-35"]) {
        Some(Tokenizer::Cl100kBase)
    } else {
        None
    }
}

/// The number right after `gpt-`.
fn gpt_generation(name: &str) -> Option<u32> {
    let tail = name.strip_prefix("gpt-")?;
    let digits = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    tail.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_rounded_up_once_per_text() {
        for (text, expected) in [
            ("", 0),
            ("a", 1),
            ("abcd", 1),
            ("abcde", 2),
            ("é", 1),
            ("abé", 2),
            ("日本語", 3),
            ("ab 日本語 cd", 5),
            ("e\u{301}", 2),
            ("👩‍👩‍👧", 5),
            ("\u{0}\u{7f}\u{80}", 2),
        ] {
            assert_eq!(Tokenizer::Characters.count(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_model_has_its_tokenizer_and_label() {
        use Method::{Estimate, Exact};
        use Tokenizer::{Characters, Cl100kBase, O200kBase};
        for (name, tokenizer, method) in [
            ("openai:gpt-4o", O200kBase, Exact),
            ("openai:gpt-4o-mini-2024-07-18", O200kBase, Exact),
            ("openai:gpt-4.1-nano", O200kBase, Exact),
            ("openai:gpt-5", O200kBase, Exact),
            ("openai:gpt-5.4-mini", O200kBase, Exact),
            ("openai:gpt-6-sol", O200kBase, Exact),
            ("openai:gpt-10", O200kBase, Exact),
            ("openai:chatgpt-4o-latest", O200kBase, Exact),
            ("openai:o1", O200kBase, Exact),
            ("openai:o3-mini", O200kBase, Exact),
            ("openai:o4-mini-2025-04-16", O200kBase, Exact),
            ("openai:ft:gpt-4o-2024-08-06:org::id", O200kBase, Exact),
            ("openai:ft:gpt-4o", O200kBase, Exact),
            ("openai:gpt-4", Cl100kBase, Exact),
            ("openai:gpt-4-0613", Cl100kBase, Exact),
            ("openai:gpt-4-turbo-2024-04-09", Cl100kBase, Exact),
            ("openai:gpt-3.5-turbo", Cl100kBase, Exact),
            ("openai:gpt-35-turbo", Cl100kBase, Exact),
            ("openai:ft:gpt-3.5-turbo-0125:org::id", Cl100kBase, Exact),
            ("openai:gpt-3", O200kBase, Estimate),
            ("openai:gpt-4.5-preview", O200kBase, Estimate),
            ("openai:gpt-99999999999999999999", O200kBase, Estimate),
            ("openai:gpt-audio", O200kBase, Estimate),
            ("openai:codex-mini", O200kBase, Estimate),
            ("openai:ft:gpt-oss:gpt-4o", O200kBase, Estimate),
            ("anthropic:claude-opus-5", Characters, Estimate),
            ("gemini:gemini-2.5-pro", Characters, Estimate),
            ("bedrock:openai.gpt-oss-120b-1:0", Characters, Estimate),
            ("openai-compatible:gpt-4o", Characters, Estimate),
            ("offline:echo", O200kBase, Exact),
        ] {
            let counter = ModelName::parse(name).map(|model| Counter::for_model(Some(&model)));
            assert_eq!(counter, Ok(Counter { tokenizer, method, factor: Factor::ONE }), "{name}");
        }
        assert_eq!(
            Counter::for_model(None),
            Counter { tokenizer: O200kBase, method: Exact, factor: Factor::ONE }
        );
    }

    #[test]
    fn labels_are_the_same_in_json_and_in_text() {
        for tokenizer in [Tokenizer::O200kBase, Tokenizer::Cl100kBase, Tokenizer::Characters] {
            for method in [Method::Exact, Method::Estimate] {
                assert_eq!(
                    serde_json::to_value(Counter { tokenizer, method, factor: Factor::of(1.5) }).ok(),
                    Some(serde_json::json!({"tokenizer": tokenizer.name(), "method": method.name()}))
                );
            }
        }
    }
}
