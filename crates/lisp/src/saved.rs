//! Memory as JSON, so that a session can go on another day.
//!
//! A value is kept as its text; a function as an expression that makes it again, with the values it closes over. What has
//! neither, such as a tool taken as a value, cannot be kept and is named.

use crate::env::Env;
use crate::memory::{Definition, Memory};
use crate::program::Program;
use crate::value::{Derived, Map, Test, Text, Value};

/// Functions in the captures of functions in captures: deeper than this nothing is kept.
const MAX_NESTING: usize = 32;

/// A memory as JSON, and the names that could not be kept.
pub struct Saved {
    /// An object from names to definitions.
    pub json: String,
    /// Definitions whose values have no text.
    pub skipped: Vec<String>,
}

impl Memory {
    /// This memory as JSON.
    ///
    /// ```
    /// use scrollback_lisp::{Env, Memory, Program};
    /// let outcome = Program::compile("(def n 2) (defn twice \"Doubles.\" [x] (* n x))")?.run(&mut Env::new());
    /// let memory = Memory::from_json(&outcome.memory.to_json().json).unwrap_or_default();
    /// let again = Program::compile("(twice 21)")?.run(&mut Env::new().memory(&memory));
    /// assert_eq!(again.value().map(|value| value.to_string()).as_deref(), Some("42"));
    /// # Ok::<(), scrollback_lisp::Error>(())
    /// ```
    pub fn to_json(&self) -> Saved {
        let mut skipped = Vec::new();
        let mut entries = Vec::new();
        for (name, definition) in self.iter() {
            let Some(mut entry) = definition.value.as_ref().map_or(Some(Vec::new()), |value| entry(value, 0))
            else {
                skipped.push(name.to_string());
                continue;
            };
            let mut put = |key: &str, text: Option<&str>| {
                entry.extend(text.map(|text| (Value::from(key), Value::from(text))));
            };
            put("doc", definition.doc.as_ref().map(Text::as_str));
            put("returns", definition.returns.as_deref());
            entries.push((Value::from(name), Value::Map(entry.into_iter().collect())));
        }
        Saved { json: Value::Map(entries.into_iter().collect()).to_json(), skipped }
    }

    /// Reads what [`to_json`](Memory::to_json) wrote. A definition may also be just the text of its value.
    pub fn from_json(text: &str) -> Result<Memory, String> {
        let Some(Value::Map(entries)) = Value::from_json(text) else {
            return Err("a memory is a JSON object from names to definitions".into());
        };
        let mut memory = Memory::default();
        memory.take(&entries)?;
        Ok(memory)
    }

    /// Adds what [`to_json`](Memory::to_json) wrote to what is here, replacing definitions of the same names.
    pub fn extend_json(&mut self, text: &str) -> Result<(), String> {
        match Value::from_json(text) {
            Some(Value::Map(entries)) => self.take(&entries),
            _ => Err("a memory is a JSON object from names to definitions".into()),
        }
    }

    fn take(&mut self, entries: &Map) -> Result<(), String> {
        for (name, entry) in entries.iter() {
            let Value::Str(name) = name else { continue };
            // Functions are told apart by their ids, so no two restored ones may share one.
            let definition = definition(entry, &mut self.last_id)
                .map_err(|trouble| format!("{}: {trouble}", name.as_str()))?;
            self.insert(name.as_str(), definition);
        }
        Ok(())
    }
}

impl Value {
    /// Reads what a value prints as.
    ///
    /// ```
    /// use scrollback_lisp::Value;
    /// assert_eq!(Value::read("{:a [1 2.5]}").map(|value| value.to_string()).as_deref(), Ok("{:a [1 2.5]}"));
    /// assert!(Value::read("[1 2").is_err());
    /// ```
    pub fn read(text: &str) -> Result<Value, String> {
        evaluate(&format!("(quote {text}\n)"), &Memory::default(), &mut 0).or_else(|problem| {
            // A var cannot be quoted. Without a parenthesis there is nothing that could run.
            if !text.contains("#'") || text.contains('(') {
                return Err(problem);
            }
            let ends = |c: char| c.is_whitespace() || matches!(c, ']' | '}' | ',');
            let names = text.split("#'").skip(1).filter_map(|rest| rest.split(ends).next());
            let mut defined = Memory::default();
            let something = Definition { value: Some(Value::Nil), ..Definition::default() };
            names.for_each(|name| defined.insert(name, something.clone()));
            evaluate(text, &defined, &mut 0)
        })
    }

    /// This value as JSON from which [`restore`](Value::restore) makes it again, functions included; none if it holds
    /// something that cannot be written down.
    pub fn save(&self) -> Option<String> {
        Some(Value::Map(entry(self, 0)?.into_iter().collect()).to_json())
    }

    /// Reads what [`save`](Value::save) wrote.
    pub fn restore(json: &str) -> Result<Value, String> {
        let Some(Value::Map(fields)) = Value::from_json(json) else {
            return Err("a saved value is a JSON object".into());
        };
        restore(&fields, 0, &mut 0)?.ok_or_else(|| "a saved value needs `value` or `function`".into())
    }
}

/// How a value is kept; `None` if it has no text.
fn entry(value: &Value, nesting: usize) -> Option<Vec<(Value, Value)>> {
    if nesting > MAX_NESTING {
        return None;
    }
    if !matches!(value, Value::Function(_)) {
        let text = value.to_string();
        // Only what reads back is worth keeping.
        if Value::read(&text).is_ok_and(|back| back == *value) {
            return Some(vec![(Value::from("value"), Value::from(text))]);
        }
        // A source has its limit; JSON has none.
        let json = value.to_json();
        if Value::from_json(&json).is_some_and(|back| back == *value) {
            return Some(vec![(Value::from("json"), Value::from(json))]);
        }
    }
    let mut captures = Vec::new();
    let source = expression(value, &mut captures, 0)?;
    let mut kept = vec![(Value::from("function"), Value::from(source))];
    if !captures.is_empty() {
        let mut saved = Vec::new();
        for (name, value) in captures {
            saved.push((Value::from(name), Value::Map(entry(&value, nesting + 1)?.into_iter().collect())));
        }
        kept.push((Value::from("captures"), Value::Map(saved.into_iter().collect())));
    }
    Some(kept)
}

/// An expression that makes a value again, given its captures as locals.
fn expression(value: &Value, captures: &mut Vec<(String, Value)>, nesting: usize) -> Option<String> {
    if nesting > MAX_NESTING {
        return None;
    }
    let parts = |items: &mut dyn Iterator<Item = &Value>, captures: &mut Vec<(String, Value)>| {
        let parts: Option<Vec<String>> = items.map(|item| expression(item, captures, nesting + 1)).collect();
        parts.map(|parts| parts.join(" "))
    };
    match value {
        // Its own captures must not meet those of its neighbours.
        Value::Function(_) if nesting > 0 => Some(captured(value, captures)),
        Value::Function(function) => match function.as_derived() {
            None => {
                captures.extend(function.captures().map(|(name, value)| (name.to_string(), value.clone())));
                function.source()
            }
            Some(derived) => derived_expression(derived, captures),
        },
        Value::Vector(items) => Some(format!("[{}]", parts(&mut items.iter(), captures)?)),
        Value::Set(items) => Some(format!("#{{{}}}", parts(&mut items.iter(), captures)?)),
        Value::Map(entries) => {
            let mut flat = entries.iter().flat_map(|(key, value)| [key, value]);
            Some(format!("{{{}}}", parts(&mut flat, captures)?))
        }
        _ => Some(value.to_string()),
    }
}

/// A name that stands for a value in an expression.
fn captured(value: &Value, captures: &mut Vec<(String, Value)>) -> String {
    let name = format!("kept-{}", captures.len());
    captures.push((name.clone(), value.clone()));
    name
}

/// The call that makes a function of other functions.
fn derived_expression(derived: &Derived, captures: &mut Vec<(String, Value)>) -> Option<String> {
    let (name, values): (&str, Vec<&Value>) = match derived {
        Derived::Composed(all) => ("comp", all.iter().collect()),
        Derived::Juxtaposed(all) => ("juxt", all.iter().collect()),
        Derived::EveryPredicate(all) => ("every-pred", all.iter().collect()),
        Derived::SomeFunction(all) => ("some-fn", all.iter().collect()),
        Derived::AllOf(all) => ("all-of", all.iter().collect()),
        Derived::AnyOf(all) => ("any-of", all.iter().collect()),
        Derived::NoneOf(all) => ("none-of", all.iter().collect()),
        Derived::Partial(first, rest) => ("partial", [first].into_iter().chain(rest).collect()),
        Derived::NilSafe(first, rest) => ("fnil", [first].into_iter().chain(rest).collect()),
        Derived::Complement(inner) => ("complement", vec![inner]),
        Derived::Constantly(inner) => ("constantly", vec![inner]),
        Derived::Where(path, test, wanted) => return Some(where_expression(path, *test, wanted, captures)),
        // What `reduced` marks never leaves a `reduce`.
        Derived::Reduced(_) => return None,
    };
    let names: Vec<String> = values.into_iter().map(|value| captured(value, captures)).collect();
    Some(format!("({name} {})", names.join(" ")))
}

fn where_expression(
    path: &[Value],
    test: Test,
    wanted: &Value,
    captures: &mut Vec<(String, Value)>,
) -> String {
    let path: Vec<String> = path.iter().map(|step| captured(step, captures)).collect();
    let path = path.join(" ");
    let operator = match test {
        Test::Truthy => return format!("(where [{path}])"),
        Test::Equal => "=",
        Test::NotEqual => "not=",
        Test::Greater => ">",
        Test::Less => "<",
        Test::GreaterOrEqual => ">=",
        Test::LessOrEqual => "<=",
        Test::Includes => "includes",
        Test::In => "in",
    };
    format!("(where [{path}] {operator} {})", captured(wanted, captures))
}

fn definition(entry: &Value, ids: &mut u64) -> Result<Definition, String> {
    let fields = match entry {
        Value::Str(text) => {
            return Ok(Definition { value: Some(Value::read(text.as_str())?), ..Definition::default() });
        }
        Value::Map(fields) => fields,
        _ => {
            return Err(
                "expected the text of a value, or an object with value, doc, function or captures".into()
            );
        }
    };
    let text = |key: &str| match fields.get_exact(&Value::from(key)) {
        Some(Value::Str(text)) => Some(text.clone()),
        _ => None,
    };
    Ok(Definition {
        value: restore(fields, 0, ids)?,
        doc: text("doc"),
        returns: text("returns").map(|text| text.as_str().to_string().into()),
        run: 0,
    })
}

fn restore(fields: &Map, nesting: usize, ids: &mut u64) -> Result<Option<Value>, String> {
    if nesting > MAX_NESTING {
        return Err(format!("functions are nested deeper than {MAX_NESTING}"));
    }
    if let Some(Value::Str(text)) = fields.get_exact(&Value::from("value")) {
        return Value::read(text.as_str()).map(Some);
    }
    if let Some(Value::Str(text)) = fields.get_exact(&Value::from("json")) {
        return Value::from_json(text.as_str()).map(Some).ok_or_else(|| "what was kept is not JSON".into());
    }
    let Some(Value::Str(source)) = fields.get_exact(&Value::from("function")) else { return Ok(None) };
    let mut memory = Memory::default();
    let mut bindings = Vec::new();
    if let Some(Value::Map(captures)) = fields.get_exact(&Value::from("captures")) {
        for (name, capture) in captures.iter() {
            let (Value::Str(name), Value::Map(capture)) = (name, capture) else { continue };
            let value = restore(capture, nesting + 1, ids)?;
            memory.insert(name.as_str(), Definition { value, ..Definition::default() });
            bindings.push(format!("{0} user/{0}", name.as_str()));
        }
    }
    evaluate(&format!("(let [{}] {})", bindings.join(" "), source.as_str()), &memory, ids).map(Some)
}

/// The value of a program that is nothing but an expression. Functions it makes get ids above `ids`, which moves on.
fn evaluate(source: &str, memory: &Memory, ids: &mut u64) -> Result<Value, String> {
    let program = Program::compile(source).map_err(|error| error.message)?;
    let mut memory = memory.clone();
    memory.last_id = *ids;
    let outcome = program.run_unchecked(&mut Env::new().memory(&memory));
    *ids = outcome.memory.last_id.max(*ids);
    outcome.value().cloned().ok_or_else(|| match outcome.result {
        Err(error) => error.message,
        Ok(_) => String::new(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn functions_of_functions_and_in_collections_are_kept() {
        let source = "(def n 2) (defn twice [x] (* n x)) (def both (comp twice inc)) (def safe (fnil + 1))
            (def table {:a twice :b [(partial + n) #{1 2}]}) (def big (where [:a :b] >= 3)) (def no (complement big))
            (def up inc) (def pair [(fn [x] (+ x n)) (fn [x] (- x n))])";
        let outcome = Program::compile(source).unwrap().run(&mut Env::new());
        let saved = outcome.memory.to_json();
        assert_eq!(saved.skipped, Vec::<String>::new());
        let memory = Memory::from_json(&saved.json).unwrap();
        let check = "[(both 4) (safe nil 2) ((:a table) 3) ((first (:b table)) 5) (big {:a {:b 3}}) (no {:a {:b 3}}) (up 1)
            (map #(% 10) pair) (= (first pair) (second pair))]";
        let again = Program::compile(check).unwrap().run(&mut Env::new().memory(&memory));
        assert_eq!(again.value().unwrap().to_string(), "[10 3 6 7 true false 2 [12 8] false]");
        let wide = Value::vector(std::iter::repeat_n(Value::from("some text"), 100_000));
        assert!(Value::restore(&wide.save().unwrap()).unwrap() == wide, "more than a source can hold");
        assert_eq!(Value::read("[#'x 1]").unwrap().to_string(), "[#'x 1]");
        for name in ["both", "table", "big", "twice"] {
            let value = outcome.memory.get(name).unwrap().value.clone().unwrap();
            assert_eq!(Value::restore(&value.save().unwrap()).unwrap().to_string(), value.to_string());
        }
    }
}
