//! How compression is chosen: `on`, `off`, a name, a name with options. One syntax everywhere.

use std::sync::Arc;

use scrollback_core::manager::{ConfigCall, read_call};
use scrollback_core::nearest::nearest;
use serde_json::{Map, Value, json};

use super::{Coalescing, Compression, RollingWindow, SingleUserCoalesced, ToolResults, Uncompressed};
use crate::error::{SubagentError, SubagentErrorKind};

/// The strategies there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// [`SingleUserCoalesced`], the default.
    SingleUserCoalesced,
    /// [`RollingWindow`].
    RollingWindow,
}

/// The names of all strategies.
const NAMES: [&str; 2] = [SingleUserCoalesced::NAME, RollingWindow::NAME];
/// The options of every strategy.
const COALESCING: [&str; 11] = [
    "println_limit",
    "tool_call_limit",
    "sample_limit",
    "sample_printable_limit",
    "tool_results",
    "last_result",
    "note_dropped",
    "failed_output",
    "trigger",
    "hide_private",
    "fence_output",
];
/// Those of the rolling window alone.
const ROLLING: [&str; 2] = ["keep", "slack"];

impl Strategy {
    fn name(self) -> &'static str {
        match self {
            Strategy::SingleUserCoalesced => SingleUserCoalesced::NAME,
            Strategy::RollingWindow => RollingWindow::NAME,
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Strategy::SingleUserCoalesced, Strategy::RollingWindow].into_iter().find(|one| one.name() == name)
    }

    /// Its options, those that may stand without a name first.
    fn options(self) -> Vec<&'static str> {
        match self {
            Strategy::SingleUserCoalesced => COALESCING.to_vec(),
            Strategy::RollingWindow => ROLLING.into_iter().chain(COALESCING).collect(),
        }
    }
}

/// The options of a strategy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How much is shown.
    pub coalescing: Coalescing,
    /// How many turns the window keeps raw; the usual number if nothing is said.
    pub keep: Option<usize>,
    /// How many more may gather.
    pub slack: Option<usize>,
}

/// What was chosen: a strategy or none, and its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// The strategy; none if history is sent as it was.
    pub strategy: Option<Strategy>,
    /// Its options.
    pub options: Options,
}

impl Chosen {
    /// The strategy itself.
    pub fn build(&self) -> Arc<dyn Compression> {
        let options = self.options.coalescing.clone();
        match self.strategy {
            None => Arc::new(Uncompressed { shown: options }),
            Some(Strategy::SingleUserCoalesced) => Arc::new(SingleUserCoalesced { options }),
            Some(Strategy::RollingWindow) => {
                let usual = RollingWindow::default();
                Arc::new(RollingWindow {
                    keep: self.options.keep.unwrap_or(usual.keep),
                    slack: self.options.slack.unwrap_or(usual.slack),
                    options,
                })
            }
        }
    }

    /// The name, or `off`.
    pub fn name(&self) -> &'static str {
        self.strategy.map_or("off", Strategy::name)
    }

    /// The same with options laid over its own.
    pub fn with_options(mut self, options: &Map<String, Value>) -> Result<Self, SubagentError> {
        let strategy = self.strategy.unwrap_or(Strategy::SingleUserCoalesced);
        for (name, value) in options {
            self.options.set(strategy, name, value)?;
        }
        Ok(self)
    }

    /// What was chosen, as it can be written down: reading it gives the same.
    pub fn to_json(&self) -> Value {
        let Some(strategy) = self.strategy else { return json!("off") };
        let Coalescing { trigger, .. } = &self.options.coalescing;
        let shown = &self.options.coalescing;
        let mut options = json!({
            "println_limit": shown.println_limit,
            "tool_call_limit": shown.tool_call_limit,
            "sample_limit": shown.sample_limit,
            "sample_printable_limit": shown.sample_printable_limit,
            "tool_results": match shown.tool_results {
                ToolResults::Auto => "auto",
                ToolResults::Never => "never",
                ToolResults::Always => "always",
            },
            "last_result": shown.last_result,
            "note_dropped": shown.note_dropped,
            "failed_output": shown.failed_output,
            "hide_private": shown.hide_private,
            "fence_output": shown.fence_output,
        });
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                options[name] = value;
            }
        };
        let named = [("turns", trigger.turns), ("tokens", trigger.tokens)];
        let given: Map<String, Value> =
            named.into_iter().filter_map(|(name, most)| Some((name.into(), most?.into()))).collect();
        put("trigger", (!given.is_empty()).then_some(Value::Object(given)));
        put("keep", self.options.keep.map(Value::from));
        put("slack", self.options.slack.map(Value::from));
        json!({ strategy.name(): options })
    }
}

fn bad<T>(message: impl Into<String>) -> Result<T, SubagentError> {
    Err(SubagentError::new(SubagentErrorKind::Compression, message))
}

/// Reads a choice from text, as on the command line: `on`, `off`, `rolling_window(keep=3)`, or JSON.
///
/// ```
/// use scrollback_subagent::compression::parse;
/// assert_eq!(parse("rolling_window(keep=2)")?.options.keep, Some(2));
/// assert!(parse("rollin_window").is_err());
/// # Ok::<(), scrollback_subagent::SubagentError>(())
/// ```
pub fn parse(text: &str) -> Result<Chosen, SubagentError> {
    normalize(&Value::String(text.into()))
}

/// What a setting in any of its forms means.
pub fn normalize(setting: &Value) -> Result<Chosen, SubagentError> {
    let usual = || Chosen { strategy: Some(Strategy::SingleUserCoalesced), ..Chosen::default() };
    match setting {
        Value::Null | Value::Bool(false) => Ok(Chosen::default()),
        Value::Bool(true) => Ok(usual()),
        Value::String(text) => match text.trim() {
            "off" | "false" | "nil" | "" => Ok(Chosen::default()),
            "on" | "true" => Ok(usual()),
            text if text.starts_with('{') => match serde_json::from_str(text) {
                Ok(value) => normalize(&value),
                Err(error) => bad(format!("not JSON: {error}")),
            },
            text => {
                let call = read_call(text).or_else(|error| bad(error.to_string()))?;
                called(&call)
            }
        },
        Value::Object(members) => {
            let mut members = members.iter();
            let (Some((name, options)), None) = (members.next(), members.next()) else {
                return bad(format!("an object has one key, the strategy ({})", NAMES.join(", ")));
            };
            let (positional, named) = match options {
                Value::Null => (Vec::new(), Vec::new()),
                Value::Object(options) => (Vec::new(), options.clone().into_iter().collect()),
                one => (vec![one.clone()], Vec::new()),
            };
            called(&ConfigCall { name: name.clone(), positional, named })
        }
        other => bad(format!("must be on, off, or a strategy ({}), not {other}", NAMES.join(", "))),
    }
}

/// A strategy with its options.
fn called(call: &ConfigCall) -> Result<Chosen, SubagentError> {
    let Some(strategy) = Strategy::named(&call.name) else {
        let hint =
            nearest(&call.name, NAMES).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return bad(format!(
            "there is no strategy `{}` (known: on, off, {}){hint}",
            call.name,
            NAMES.join(", ")
        ));
    };
    let known = strategy.options();
    if call.positional.len() > known.len() {
        return bad(format!("{} has {} options", call.name, known.len()));
    }
    let mut options = Options::default();
    for (name, value) in known.into_iter().zip(&call.positional) {
        options.set(strategy, name, value)?;
    }
    for (name, value) in &call.named {
        options.set(strategy, name, value)?;
    }
    Ok(Chosen { strategy: Some(strategy), options })
}

impl Options {
    fn set(&mut self, strategy: Strategy, name: &str, value: &Value) -> Result<(), SubagentError> {
        let known = strategy.options();
        if !known.contains(&name) {
            let hint = nearest(name, known.iter().copied())
                .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            return bad(format!(
                "{} has no option `{name}` (known: {}){hint}",
                strategy.name(),
                known.join(", ")
            ));
        }
        let shown = &mut self.coalescing;
        match name {
            "println_limit" => shown.println_limit = count(name, value)?,
            "tool_call_limit" => shown.tool_call_limit = count(name, value)?,
            "sample_limit" => shown.sample_limit = count(name, value)?,
            "sample_printable_limit" => shown.sample_printable_limit = count(name, value)?,
            "last_result" => shown.last_result = flag(name, value)?,
            "note_dropped" => shown.note_dropped = flag(name, value)?,
            "failed_output" => shown.failed_output = flag(name, value)?,
            "hide_private" => shown.hide_private = flag(name, value)?,
            "fence_output" => shown.fence_output = flag(name, value)?,
            "tool_results" => {
                shown.tool_results = match value.as_str() {
                    Some("auto") => ToolResults::Auto,
                    Some("never") => ToolResults::Never,
                    Some("always") => ToolResults::Always,
                    _ => {
                        return bad(format!("tool_results must be auto, never or always, not {value}"));
                    }
                };
            }
            "trigger" => self.set_trigger(value)?,
            "keep" => self.keep = Some(count(name, value)?),
            _ => self.slack = Some(count(name, value)?),
        }
        Ok(())
    }

    fn set_trigger(&mut self, value: &Value) -> Result<(), SubagentError> {
        let trigger = &mut self.coalescing.trigger;
        let members = match value {
            Value::Null => return Ok(()),
            Value::String(none) if none == "none" => return Ok(()),
            Value::Object(members) => members,
            other => return bad(format!("trigger must be like {{turns: 8}}, not {other}")),
        };
        for (name, value) in members {
            match name.as_str() {
                "turns" => trigger.turns = Some(count("trigger.turns", value)?),
                "tokens" => trigger.tokens = Some(count("trigger.tokens", value)?),
                other => {
                    return bad(format!("trigger has no option `{other}` (known: turns, tokens)"));
                }
            }
        }
        Ok(())
    }
}

fn count(name: &str, value: &Value) -> Result<usize, SubagentError> {
    match value.as_u64().and_then(|number| usize::try_from(number).ok()) {
        Some(number) => Ok(number),
        None => bad(format!("{name} must be a whole number, not {value}")),
    }
}

fn flag(name: &str, value: &Value) -> Result<bool, SubagentError> {
    match value.as_bool() {
        Some(flag) => Ok(flag),
        None => bad(format!("{name} must be true or false, not {value}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_form_of_a_setting_means_what_it_says() {
        let coalesced = Some(Strategy::SingleUserCoalesced);
        for (setting, strategy) in [
            (Value::Null, None),
            (json!(false), None),
            (json!("off"), None),
            (json!("nil"), None),
            (json!(true), coalesced),
            (json!("on"), coalesced),
            (json!("single_user_coalesced"), coalesced),
            (json!({ "single_user_coalesced": {} }), coalesced),
            (json!("rolling_window"), Some(Strategy::RollingWindow)),
            (json!("rolling_window(5, slack=1)"), Some(Strategy::RollingWindow)),
        ] {
            let chosen = normalize(&setting).unwrap();
            assert_eq!(chosen.strategy, strategy, "{setting}");
            assert_eq!(normalize(&chosen.to_json()).unwrap(), chosen, "{setting}");
        }
        let chosen = normalize(
            &json!({ "single_user_coalesced": { "println_limit": 10, "trigger": { "turns": 8 } } }),
        )
        .unwrap();
        assert_eq!(chosen.options.coalescing.println_limit, 10);
        assert_eq!(chosen.options.coalescing.tool_call_limit, 20, "defaults are overlaid");
        assert_eq!(chosen.options.coalescing.trigger.turns, Some(8));
        assert_eq!(normalize(&chosen.to_json()).unwrap(), chosen);
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        for (setting, told) in [
            (json!("rolling_windw"), "did you mean `rolling_window`?"),
            (json!({ "single_user_coalesced": { "printn_limit": 1 } }), "did you mean `println_limit`?"),
            (json!({ "single_user_coalesced": { "keep": 1 } }), "known: println_limit"),
            (json!({ "rolling_window": { "keep": -1 } }), "whole number"),
            (json!({ "rolling_window": {}, "x": {} }), "one key"),
            (json!([1]), "must be on, off"),
            (json!({ "single_user_coalesced": { "trigger": { "turn": 1 } } }), "known: turns, tokens"),
            (json!("single_user_coalesced(tool_results=\"some\")"), "auto, never or always"),
        ] {
            let error = normalize(&setting).unwrap_err().to_string();
            assert!(error.contains(told), "{setting}: {error}");
        }
    }
}
