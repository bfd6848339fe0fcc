//! What values are, to expressions and templates alike.

use std::borrow::Cow;

use serde_json::Value;

/// Whether a value counts as true: all do but null, false, 0 and what is empty.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// A value as text: a text as it is, a whole number without a fraction, everything else as compact JSON.
///
/// ```
/// use scrollback_flow::expression::as_text;
/// use serde_json::json;
/// assert_eq!(as_text(&json!("bug")), "bug");
/// assert_eq!(as_text(&json!(3.0)), "3");
/// assert_eq!(as_text(&json!([1, null])), "[1,null]");
/// ```
pub fn as_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(number) => match number.as_f64() {
            // 2^53: beyond it a fraction is impossible, and digits would be made up.
            Some(float)
                if number.is_f64() && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 =>
            {
                Cow::Owned(format!("{float:.0}"))
            }
            _ => Cow::Owned(number.to_string()),
        },
        other => Cow::Owned(other.to_string()),
    }
}
