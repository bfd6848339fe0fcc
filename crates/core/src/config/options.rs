//! The options of one manager: named, checked for type and range, every one accounted for.

use serde_json::Number;

use super::syntax::{ConfigNode, spelled_number};
use super::{ConfigError, ConfigErrorKind};
use crate::nearest::nearest;

/// Options as they were written, to be taken out one by one.
pub(super) struct ManagerOptions<'n> {
    manager: &'static str,
    known: &'static [&'static str],
    given: Vec<(&'static str, &'n ConfigNode)>,
    /// Path of the manager.
    pub(super) path: String,
}

impl<'n> ManagerOptions<'n> {
    /// Puts names to values: `positional` in the order of `known`, then `named`.
    pub(super) fn new(
        manager: &'static str,
        known: &'static [&'static str],
        positional: &'n [ConfigNode],
        named: &'n [(String, ConfigNode)],
        path: String,
    ) -> Result<Self, ConfigError> {
        // `notice` behind all others is given by name only.
        let places = match known {
            [places @ .., "notice"] => places,
            all => all,
        };
        if positional.len() > places.len() {
            let message = match places {
                [] => format!("{manager} takes no options"),
                _ => format!("{manager} takes at most {} values: {}", places.len(), places.join(", ")),
            };
            return Err(ConfigError::new(ConfigErrorKind::BadOption, &path, message));
        }
        let mut given: Vec<(&'static str, &'n ConfigNode)> = places.iter().copied().zip(positional).collect();
        for (name, value) in named {
            let Some(&name) = known.iter().find(|known| **known == name) else {
                return Err(unknown(
                    ConfigErrorKind::UnknownOption,
                    &format!("{path}/{name}"),
                    name,
                    manager,
                    known,
                ));
            };
            if given.iter().any(|(other, _)| *other == name) {
                let message = format!("{manager} is given `{name}` twice");
                return Err(ConfigError::new(ConfigErrorKind::BadOption, &format!("{path}/{name}"), message));
            }
            given.push((name, value));
        }
        Ok(ManagerOptions { manager, known, given, path })
    }

    /// Whether nothing at all is given.
    pub(super) fn is_empty(&self) -> bool {
        self.given.iter().all(|(_, value)| **value == ConfigNode::Null)
    }

    /// The value of an option; one that is null counts as not given.
    pub(super) fn get(&self, name: &str) -> Option<&'n ConfigNode> {
        debug_assert!(self.known.contains(&name));
        self.given
            .iter()
            .find(|(given, _)| *given == name)
            .map(|(_, value)| *value)
            .filter(|value| **value != ConfigNode::Null)
    }

    pub(super) fn bad(&self, name: &str, message: impl std::fmt::Display) -> ConfigError {
        ConfigError::new(
            ConfigErrorKind::BadOption,
            &format!("{}/{name}", self.path),
            format!("{}: {message}", self.manager),
        )
    }

    pub(super) fn missing(&self, name: &str) -> ConfigError {
        let path = format!("{}/{name}", self.path);
        let example = match (self.known.first(), name) {
            (Some(first), "inner") if *first == name => "sliding_window(20)",
            (Some(first), _) if *first == name => "20",
            _ => "…",
        };
        let message = format!("{} needs `{name}`, as in {}({example})", self.manager, self.manager);
        ConfigError::new(ConfigErrorKind::MissingOption, &path, message).with_known(self.known)
    }

    pub(super) fn missing_one_of(&self, names: &[&str]) -> ConfigError {
        let message = format!("{} needs at least one of {}", self.manager, names.join(", "));
        ConfigError::new(ConfigErrorKind::MissingOption, &self.path, message).with_known(self.known)
    }

    fn wrong(&self, name: &str, wanted: &str, found: &ConfigNode) -> ConfigError {
        self.bad(name, format_args!("`{name}` must be {wanted}, not {}", found.describe()))
    }

    /// Something that can be read as a manager.
    pub(super) fn manager(&self, name: &str) -> Result<&'n ConfigNode, ConfigError> {
        match self.get(name) {
            None => Err(self.missing(name)),
            Some(other @ (ConfigNode::Number(_) | ConfigNode::Bool(_))) => {
                Err(self.wrong(name, "a manager", other))
            }
            Some(node) => Ok(node),
        }
    }

    /// A whole number of at least `least`.
    pub(super) fn whole(&self, name: &str, least: u64) -> Result<Option<usize>, ConfigError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let spelled = match value {
            // In JSON and YAML `16k` and `16_000` are texts.
            ConfigNode::Text(text) | ConfigNode::Word(text) if text.contains(['k', '_']) => {
                spelled_number(text)
            }
            ConfigNode::Number(number) => Some(number.clone()),
            _ => None,
        };
        let Some(number) = spelled else { return Err(self.wrong(name, "a whole number", value)) };
        match as_whole(&number) {
            Some(number) if number >= least => {
                usize::try_from(number).map(Some).map_err(|_| self.wrong(name, "a smaller number", value))
            }
            Some(_) => Err(self.wrong(name, &format!("at least {least}"), value)),
            None => Err(self.wrong(name, &format!("a whole number of at least {least}"), value)),
        }
    }

    pub(super) fn required_whole(&self, name: &str, least: u64) -> Result<usize, ConfigError> {
        self.whole(name, least)?.ok_or_else(|| self.missing(name))
    }

    /// A finite number.
    pub(super) fn decimal(&self, name: &str) -> Result<Option<f64>, ConfigError> {
        match self.get(name) {
            None => Ok(None),
            Some(ConfigNode::Number(number)) => Ok(number.as_f64().filter(|number| number.is_finite())),
            Some(other) => Err(self.wrong(name, "a number", other)),
        }
    }

    /// True or false.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, ConfigError> {
        match self.get(name) {
            None => Ok(None),
            Some(ConfigNode::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.wrong(name, "true or false", other)),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, ConfigError> {
        match self.get(name) {
            None => Ok(None),
            Some(ConfigNode::Text(text) | ConfigNode::Word(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.wrong(name, "a text", other)),
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, ConfigError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let ConfigNode::List(items) = value else { return Err(self.wrong(name, "a list of texts", value)) };
        let text = |item: &ConfigNode| match item {
            ConfigNode::Text(text) | ConfigNode::Word(text) => Ok(text.clone()),
            other => Err(self.wrong(name, "a list of texts", other)),
        };
        items.iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&'static str, T)],
    ) -> Result<Option<T>, ConfigError> {
        let Some(word) = self.text(name)? else { return Ok(None) };
        if let Some((_, value)) = choices.iter().find(|(choice, _)| *choice == word) {
            Ok(Some(*value))
        } else {
            let words: Vec<&'static str> = choices.iter().map(|(choice, _)| *choice).collect();
            Err(self
                .bad(name, format_args!("`{name}` must be one of {}, not {word:?}", words.join(", ")))
                .with_known(&words))
        }
    }

    /// The options of an object that is itself an option.
    pub(super) fn object(
        &self,
        name: &'static str,
        known: &'static [&'static str],
    ) -> Result<Option<ManagerOptions<'n>>, ConfigError> {
        match self.get(name) {
            None => Ok(None),
            Some(ConfigNode::Object(members)) => {
                ManagerOptions::new(name, known, &[], members, format!("{}/{name}", self.path)).map(Some)
            }
            Some(other) => {
                Err(self.wrong(name, &format!("an object with some of {}", known.join(", ")), other))
            }
        }
    }
}

/// A number without a fraction, however it is spelled; none if it is negative.
fn as_whole(number: &Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        let value = number.as_f64()?;
        (value >= 0.0 && value.fract() == 0.0 && value < 9e15).then_some(value as u64)
    })
}

/// The error for an unknown name, with those that are known and the nearest of them.
pub(super) fn unknown(
    kind: ConfigErrorKind,
    path: &str,
    name: &str,
    owner: &str,
    known: &'static [&'static str],
) -> ConfigError {
    let what = match kind {
        ConfigErrorKind::UnknownManager => format!("unknown manager `{name}`"),
        _ => format!("{owner} has no option `{name}`"),
    };
    let hint = nearest(name, known.iter().copied())
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    let list =
        if known.is_empty() { " (it takes none)".into() } else { format!(" (known: {})", known.join(", ")) };
    ConfigError::new(kind, path, format!("{what}{hint}{list}")).with_known(known)
}
