//! The functions of expressions.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::eval::Meter;
use super::parse::Expr;
use super::{eval, number, value};

/// A function. All of them are total: what they cannot do gives null, and what they are asked and is not so, false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
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

/// Largest compiled pattern, in bytes: far more than anybody writes in 2,048 characters without counted repetitions.
const PATTERN_SIZE: usize = 1 << 20;

impl Function {
    pub(super) const ALL: [Function; 12] = [
        Function::Len,
        Function::Lower,
        Function::Upper,
        Function::Trim,
        Function::Contains,
        Function::StartsWith,
        Function::EndsWith,
        Function::Matches,
        Function::Number,
        Function::Text,
        Function::Json,
        Function::Default,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Function::Len => "len",
            Function::Lower => "lower",
            Function::Upper => "upper",
            Function::Trim => "trim",
            Function::Contains => "contains",
            Function::StartsWith => "starts_with",
            Function::EndsWith => "ends_with",
            Function::Matches => "matches",
            Function::Number => "number",
            Function::Text => "text",
            Function::Json => "json",
            Function::Default => "default",
        }
    }

    pub(super) fn named(word: &str) -> Option<Function> {
        Function::ALL.into_iter().find(|function| function.name() == word)
    }

    /// What its arguments are called.
    pub(super) const fn arguments(self) -> &'static [&'static str] {
        match self {
            Function::Contains => &["whole", "part"],
            Function::StartsWith | Function::EndsWith => &["text", "part"],
            Function::Matches => &["text", "pattern"],
            Function::Default => &["value", "otherwise"],
            Function::Len | Function::Text | Function::Number => &["value"],
            Function::Lower | Function::Upper | Function::Trim | Function::Json => &["text"],
        }
    }

    /// What can be said about its arguments before they have values.
    pub(super) fn check(self, arguments: &[Expr]) -> Result<(), String> {
        match (self, arguments) {
            (Function::Matches, [_, Expr::Literal(Value::String(pattern))]) => {
                compile(pattern).map(|_| ()).map_err(|problem| format!("the pattern is refused: {problem}"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn call<'v>(
        self,
        arguments: &mut Vec<Cow<'v, Value>>,
        meter: &mut Meter,
    ) -> Result<Cow<'v, Value>, eval::Spent> {
        for argument in arguments.iter() {
            meter.charge_for(argument)?;
        }
        if self == Function::Default {
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
            (Function::Len, Value::String(text)) => text.chars().count().into(),
            (Function::Len, Value::Array(list)) => list.len().into(),
            (Function::Len, Value::Object(members)) => members.len().into(),
            (Function::Lower, Value::String(text)) => text.to_lowercase().into(),
            (Function::Upper, Value::String(text)) => text.to_uppercase().into(),
            (Function::Trim, Value::String(text)) => text.trim().into(),
            (Function::Number, Value::String(text)) => number::read(text).unwrap_or_default(),
            (Function::Json, Value::String(text)) => serde_json::from_str(text).unwrap_or_default(),
            // What is one already stays what it is.
            (Function::Number, Value::Number(_))
            | (Function::Text, Value::String(_))
            | (Function::Json, _) => {
                return first;
            }
            (Function::Text, other) => value::as_text(other).into_owned().into(),
            _ => Value::Null,
        };
        Cow::Owned(made)
    }

    fn of_two(self, first: &Value, second: &Value, meter: &mut Meter) -> Result<Value, eval::Spent> {
        Ok(match (self, first, second) {
            (Function::Contains, whole, part) => eval::contains(whole, part, meter)?.into(),
            (Function::StartsWith, Value::String(text), Value::String(part)) => {
                text.starts_with(part.as_str()).into()
            }
            (Function::EndsWith, Value::String(text), Value::String(part)) => {
                text.ends_with(part.as_str()).into()
            }
            (Function::Matches, Value::String(text), Value::String(pattern)) => {
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
