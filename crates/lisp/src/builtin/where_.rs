//! Predicates about fields: `where`, `all-of`, `any-of`, `none-of`. As special forms they are called from code only.

use super::collect::{arg, take};
use super::table::{Builtin, MANY, pure};
use crate::error::Fault;
use crate::run::Context;
use crate::value::{Derived, Test, Value, order};

pub(super) const TABLE: &[Builtin] = &[
    pure(
        "where",
        (1, 3),
        "field operator? value?",
        "a predicate on a field or path: = not= > < >= <= includes in",
        "(filter (where :n > 3) [{:n 5} {:n 1}]) ; => [{:n 5}]",
        where_,
    ),
    pure(
        "all-of",
        (0, MANY),
        "pred …",
        "a predicate that is true if all are",
        "((all-of pos? even?) 2) ; => true",
        |cx, args| joined(cx, args, Derived::AllOf),
    ),
    pure(
        "any-of",
        (0, MANY),
        "pred …",
        "a predicate that is true if one is",
        "((any-of neg? even?) 2) ; => true",
        |cx, args| joined(cx, args, Derived::AnyOf),
    ),
    pure(
        "none-of",
        (0, MANY),
        "pred …",
        "a predicate that is true if none is",
        "((none-of neg? odd?) 2) ; => true",
        |cx, args| joined(cx, args, Derived::NoneOf),
    ),
];

fn joined(cx: &mut Context, args: &mut [Value], make: fn(Vec<Value>) -> Derived) -> Result<Value, Fault> {
    cx.sequence(args.len())?;
    let predicates = args.iter_mut().map(std::mem::take).collect();
    cx.derived(make(predicates))
}

fn where_(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let path = match take(args, 0) {
        Value::Vector(path) => path.iter().cloned().collect(),
        field => vec![field],
    };
    let test = match arg(args, 1) {
        Value::Keyword(operator) => match operator.as_str() {
            "=" => Test::Equal,
            "not=" => Test::NotEqual,
            ">" => Test::Greater,
            "<" => Test::Less,
            ">=" => Test::GreaterOrEqual,
            "<=" => Test::LessOrEqual,
            "includes" => Test::Includes,
            _ => Test::In,
        },
        _ => Test::Truthy,
    };
    let wanted = take(args, 2);
    cx.derived(Derived::Where(path, test, wanted))
}

/// Whether a field of a value passes a test.
pub(super) fn holds(
    cx: &mut Context,
    subject: &Value,
    path: &[Value],
    test: Test,
    wanted: &Value,
) -> Result<bool, Fault> {
    let mut field = subject.clone();
    for key in path {
        cx.meter.tick()?;
        cx.key(key)?;
        field = match &field {
            Value::Map(map) => map.get(key).cloned().unwrap_or_default(),
            Value::Vector(items) => {
                let at = crate::value::number::index(key).and_then(|at| usize::try_from(at).ok());
                at.and_then(|at| items.get(at)).cloned().unwrap_or_default()
            }
            _ => Value::Nil,
        };
    }
    match test {
        Test::Truthy => Ok(field.is_truthy()),
        Test::Equal => loosely_equal(cx, &field, wanted),
        Test::NotEqual => loosely_equal(cx, &field, wanted).map(|equal| !equal),
        Test::Includes => match (&field, wanted) {
            (Value::Str(whole), Value::Str(part)) => {
                cx.meter.visit(whole.bytes() / 8)?;
                Ok(whole.as_str().contains(part.as_str()))
            }
            (Value::Str(whole), Value::Keyword(part)) => Ok(whole.as_str().contains(part.as_str())),
            _ => member(cx, &field, wanted),
        },
        Test::In => member(cx, wanted, &field),
        _ => {
            if matches!(field, Value::Nil) || matches!(wanted, Value::Nil) {
                return Ok(false);
            }
            let Some(order) = order::compare(&field, wanted, &mut || cx.meter.tick())? else {
                return Ok(false);
            };
            Ok(match test {
                Test::Greater => order.is_gt(),
                Test::Less => order.is_lt(),
                Test::GreaterOrEqual => order.is_ge(),
                _ => order.is_le(),
            })
        }
    }
}

/// Whether a collection has an element that loosely equals a value.
fn member(cx: &mut Context, collection: &Value, wanted: &Value) -> Result<bool, Fault> {
    let items = match collection {
        Value::Map(map) => return Ok(map.entry(wanted).is_some()),
        Value::Vector(_) | Value::Set(_) => super::to_vector(cx, "where", collection, 1)?,
        _ => return Ok(false),
    };
    for item in items.iter() {
        if loosely_equal(cx, item, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `=`, and a keyword equals the string of its name: data has strings where programs have keywords.
fn loosely_equal(cx: &mut Context, a: &Value, b: &Value) -> Result<bool, Fault> {
    match (a, b) {
        (Value::Keyword(keyword), Value::Str(text)) | (Value::Str(text), Value::Keyword(keyword)) => {
            Ok(keyword.as_str() == text.as_str())
        }
        _ => cx.equal(a, b),
    }
}
