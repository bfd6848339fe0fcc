//! The functions of expressions.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::eval::OperationMeter;
use super::parse::Expr;
use super::{eval, number, value};

/// A function. All of them are total: what they cannot do gives null, and what they are asked and is not so, false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExprFunction {
    Len,
    Lower,
    Upper,
    Trim,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    Number,
    Text,
    Json,
    Default,
}

/// Largest compiled pattern, in bytes: far more than 2,048 characters need without counted repetitions.
const PATTERN_SIZE: usize = 1 << 20;

impl ExprFunction {
    pub(super) const ALL: [ExprFunction; 12] = [
        ExprFunction::Len,
        ExprFunction::Lower,
        ExprFunction::Upper,
        ExprFunction::Trim,
        ExprFunction::Contains,
        ExprFunction::StartsWith,
        ExprFunction::EndsWith,
        ExprFunction::Matches,
        ExprFunction::Number,
        ExprFunction::Text,
        ExprFunction::Json,
        ExprFunction::Default,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            ExprFunction::Len => "len",
            ExprFunction::Lower => "lower",
            ExprFunction::Upper => "upper",
            ExprFunction::Trim => "trim",
            ExprFunction::Contains => "contains",
            ExprFunction::StartsWith => "starts_with",
            ExprFunction::EndsWith => "ends_with",
            ExprFunction::Matches => "matches",
            ExprFunction::Number => "number",
            ExprFunction::Text => "text",
            ExprFunction::Json => "json",
            ExprFunction::Default => "default",
        }
    }

    pub(super) fn named(word: &str) -> Option<ExprFunction> {
        ExprFunction::ALL.into_iter().find(|function| function.name() == word)
    }

    /// What its arguments are called.
    pub(super) const fn arguments(self) -> &'static [&'static str] {
        match self {
            ExprFunction::Contains => &["whole", "part"],
            ExprFunction::StartsWith | ExprFunction::EndsWith => &["text", "part"],
            ExprFunction::Matches => &["text", "pattern"],
            ExprFunction::Default => &["value", "otherwise"],
            ExprFunction::Len | ExprFunction::Text | ExprFunction::Number => &["value"],
            ExprFunction::Lower | ExprFunction::Upper | ExprFunction::Trim | ExprFunction::Json => &["text"],
        }
    }

    /// What can be said about its arguments before they have values.
    pub(super) fn check(self, arguments: &[Expr]) -> Result<(), String> {
        match (self, arguments) {
            (ExprFunction::Matches, [_, Expr::Literal(Value::String(pattern))]) => {
                compile(pattern).map(|_| ()).map_err(|problem| format!("the pattern is refused: {problem}"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn call<'v>(
        self,
        arguments: &mut Vec<Cow<'v, Value>>,
        meter: &mut OperationMeter,
    ) -> Result<Cow<'v, Value>, eval::OutOfOperations> {
        for argument in arguments.iter() {
            meter.charge_for(argument)?;
        }
        if self == ExprFunction::Default {
            let other = arguments.pop();
            let value = arguments.pop().filter(|value| !value.is_null());
            return Ok(value.or(other).unwrap_or_default());
        }
        let second = if arguments.len() > 1 { arguments.pop() } else { None };
        let first = arguments.pop().unwrap_or_default();
        let result = match second {
            None => self.of_one(first),
            Some(second) => Cow::Owned(self.of_two(&first, &second, meter)?),
        };
        Ok(result)
    }

    fn of_one(self, first: Cow<'_, Value>) -> Cow<'_, Value> {
        let made = match (self, &*first) {
            (ExprFunction::Len, Value::String(text)) => text.chars().count().into(),
            (ExprFunction::Len, Value::Array(list)) => list.len().into(),
            (ExprFunction::Len, Value::Object(members)) => members.len().into(),
            (ExprFunction::Lower, Value::String(text)) => text.to_lowercase().into(),
            (ExprFunction::Upper, Value::String(text)) => text.to_uppercase().into(),
            (ExprFunction::Trim, Value::String(text)) => text.trim().into(),
            (ExprFunction::Number, Value::String(text)) => number::read(text).unwrap_or_default(),
            (ExprFunction::Json, Value::String(text)) => serde_json::from_str(text).unwrap_or_default(),
            // What is one already stays what it is.
            (ExprFunction::Number, Value::Number(_))
            | (ExprFunction::Text, Value::String(_))
            | (ExprFunction::Json, _) => {
                return first;
            }
            (ExprFunction::Text, other) => value::as_text(other).into_owned().into(),
            _ => Value::Null,
        };
        Cow::Owned(made)
    }

    fn of_two(
        self,
        first: &Value,
        second: &Value,
        meter: &mut OperationMeter,
    ) -> Result<Value, eval::OutOfOperations> {
        Ok(match (self, first, second) {
            (ExprFunction::Contains, whole, part) => eval::contains(whole, part, meter)?.into(),
            (ExprFunction::StartsWith, Value::String(text), Value::String(part)) => {
                text.starts_with(part.as_str()).into()
            }
            (ExprFunction::EndsWith, Value::String(text), Value::String(part)) => {
                text.ends_with(part.as_str()).into()
            }
            (ExprFunction::Matches, Value::String(text), Value::String(pattern)) => {
                // Compiling is work too, and a long pattern may look at every character once per state.
                meter.charge(16 + pattern.len() as u64)?;
                meter.charge((text.len() / 4096 * (pattern.len() / 16)) as u64)?;
                compile(pattern).map_or(Value::Null, |pattern| pattern.is_match(text).into())
            }
            _ => Value::Bool(false),
        })
    }
}

/// A pattern that takes linear time; what is wrong with it otherwise.
fn compile(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).dfa_size_limit(PATTERN_SIZE).build();
    built.map_err(|error| {
        // The explanation of a syntax error is many lines, the last of which says what is wrong.
        let error = error.to_string();
        error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_string()
    })
}
