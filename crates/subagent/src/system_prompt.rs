//! The instructions of every request: the language, and the form of a reply. The same bytes for every agent and turn with the
//! same options, so that a provider's cache keeps them; tools, data and mission stand in the user message.

use scrollback_lisp::reference;

/// Changes with the text that [`SystemPrompt::generate`] makes, so that a record says which one was sent.
pub const VERSION: &str = "1";

const ROLE: &str = "You solve a mission by writing programs in PTC-Lisp. Each reply holds one program; it is run, and you are \
told what came of it. Definitions stay for your later programs. The mission, the tools and the data you may use are in the \
user message.";

const FORMAT: &str = "Reply with a short thought, then exactly one fenced block:\n\
```clojure\n\
(def found (tool/search {:query \"x\"}))\n\
(println (count found))\n\
```\n\
End the mission with (return value), where value has the type under \";; === return ===\", or with (fail \"why\").\n\
Sections of the user message: tool/ what you can call; data/ what you can read; user/ what you have defined; then the tool\n\
calls made and what was printed so far. Do not repeat a call whose result is shown.";

/// The instructions, as they are asked for. Static text only.
///
/// ```
/// use scrollback_subagent::SystemPrompt;
/// let usual = SystemPrompt::default().generate();
/// let careful = SystemPrompt { prefix: Some("You are careful.".into()), ..SystemPrompt::default() };
/// assert_eq!(careful.generate(), format!("You are careful.\n\n{usual}"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemPrompt {
    /// What comes before everything else.
    pub prefix: Option<String>,
    /// What comes after everything else.
    pub suffix: Option<String>,
    /// What stands instead of the usual text.
    pub replacement: Option<String>,
}

impl SystemPrompt {
    /// The text.
    pub fn generate(&self) -> String {
        let usual = || format!("{ROLE}\n\n{}\n{FORMAT}", reference::for_models());
        let text = self.replacement.clone().unwrap_or_else(usual);
        let parts = [self.prefix.clone(), Some(text), self.suffix.clone()];
        let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }

    /// The hash of a text that was sent, and the version of what made it.
    pub fn identity(text: &str) -> (String, &'static str) {
        (blake3::hash(text.as_bytes()).to_hex().to_string(), VERSION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_text_is_short_and_has_nothing_of_any_mission() {
        let text = SystemPrompt::default().generate();
        assert!(reference::for_models().len() <= 4096, "{}", reference::for_models().len());
        assert!(text.len() < 6000, "{}", text.len());
        for part in
            ["def what you will need", "println what you want to read", "(return v)", "Not as in Clojure"]
        {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("{{") && !text.contains("202"), "nothing to fill in, no date");
        let replaced =
            SystemPrompt { replacement: Some("Own.".into()), suffix: Some("End.".into()), prefix: None };
        assert_eq!(replaced.generate(), "Own.\n\nEnd.");
    }
}
