//! Manager configuration: one grammar for the command line, JSON, YAML, TOML, HTTP and Python.
//!
//! A manager is written as a name, as an object with one key (`{"sliding_window": {"window_size": 20}}`, or the value
//! of the first option alone), as a list of managers, or as text (`sticky(sliding_window(20), low=5)`).

mod build;
mod options;
mod syntax;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::json::{JsonKind, Raw};
use crate::manager::{Passthrough, SharedManager};
use syntax::ConfigNode;
pub use syntax::spelled_number;

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    kind: ConfigErrorKind,
    message: String,
    path: String,
    known: Vec<&'static str>,
}

/// The kinds of [`ConfigError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigErrorKind {
    /// No manager has that name.
    UnknownManager,
    /// The manager has no such option.
    UnknownOption,
    /// An option that is needed was not given.
    MissingOption,
    /// A value of the wrong type, out of range, or at odds with another.
    BadOption,
    /// Not a configuration at all.
    BadSyntax,
}

impl ConfigError {
    pub(crate) fn new(kind: ConfigErrorKind, path: &str, message: impl Into<String>) -> Self {
        ConfigError { kind, message: message.into(), path: path.into(), known: Vec::new() }
    }

    pub(crate) fn with_known(mut self, known: &[&'static str]) -> Self {
        self.known = known.to_vec();
        self
    }

    /// Which kind it is.
    pub fn kind(&self) -> ConfigErrorKind {
        self.kind
    }

    /// The code programs act on.
    pub fn code(&self) -> &'static str {
        match self.kind {
            ConfigErrorKind::UnknownManager => "unknown_manager",
            ConfigErrorKind::UnknownOption => "unknown_option",
            ConfigErrorKind::MissingOption => "missing_option",
            ConfigErrorKind::BadOption => "bad_option",
            ConfigErrorKind::BadSyntax => "bad_syntax",
        }
    }

    /// Where: `/0/sticky/inner`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The names that would have been understood, where that is the question.
    pub fn known(&self) -> &[&'static str] {
        &self.known
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}

/// Reads a manager from text: a name, the short form, or JSON.
///
/// ```
/// use scrollback_core::manager;
/// let sticky = manager::parse("sticky(sliding_window(20), low=5)")?;
/// assert_eq!(sticky.name(), "sticky");
/// let error = manager::parse("slidin_window(3)").err().unwrap();
/// assert!(error.to_string().contains("sliding_window"));
/// # Ok::<(), manager::ConfigError>(())
/// ```
pub fn parse(text: &str) -> Result<SharedManager, ConfigError> {
    build::manager(&ConfigNode::Text(text.into()), "", 0)
}

/// Reads a manager from a value in any of its forms; null is `passthrough`.
pub fn parse_value(value: &Value) -> Result<SharedManager, ConfigError> {
    match value {
        Value::Null => Ok(Arc::new(Passthrough)),
        value => build::manager(&ConfigNode::from(value), "", 0),
    }
}

/// Reads a manager from JSON in its own spelling; null is `passthrough`.
pub fn parse_raw(value: Raw<'_>) -> Result<SharedManager, ConfigError> {
    match value.kind() {
        JsonKind::Null => Ok(Arc::new(Passthrough)),
        _ => build::manager(&ConfigNode::from(value), "", 0),
    }
}

/// Several texts, each a manager, composed in order.
pub fn parse_list(texts: &[String]) -> Result<SharedManager, ConfigError> {
    match texts {
        [one] => parse(one),
        several => {
            build::manager(&ConfigNode::List(several.iter().cloned().map(ConfigNode::Text).collect()), "", 0)
        }
    }
}

/// A name with options as it was written, not interpreted yet.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigCall {
    /// The name.
    pub name: String,
    /// Values without a name, in order.
    pub positional: Vec<Value>,
    /// Options by name.
    pub named: Vec<(String, Value)>,
}

/// Reads the text form `name(value, option=value)` in the grammar of managers, for callers with names of their own.
///
/// ```
/// use scrollback_core::manager;
/// let call = manager::read_call("rolling_window(keep=3)")?;
/// assert_eq!((call.name.as_str(), call.named[0].1.as_u64()), ("rolling_window", Some(3)));
/// # Ok::<(), manager::ConfigError>(())
/// ```
pub fn read_call(text: &str) -> Result<ConfigCall, ConfigError> {
    match syntax::read(text, "")? {
        ConfigNode::Word(name) => Ok(ConfigCall { name, positional: Vec::new(), named: Vec::new() }),
        ConfigNode::Call { name, positional, named } => Ok(ConfigCall {
            name,
            positional: positional.into_iter().map(Value::from).collect(),
            named: named.into_iter().map(|(name, node)| (name, Value::from(node))).collect(),
        }),
        other => {
            let message = format!("a name was expected, found {}", other.describe());
            Err(ConfigError::new(ConfigErrorKind::BadSyntax, "", message))
        }
    }
}
