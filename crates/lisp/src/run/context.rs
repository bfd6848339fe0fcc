//! What builtins see of a run: its meter, its output, its warnings.

use std::sync::Arc;

use super::meter::Meter;
use super::prints::Prints;
use crate::env::Granted;
use crate::error::{Error, Fault, Reason, fault};
use crate::value::{Derived, Function, Map, Value, Vector, function, number, order, print};

/// The part of a run that builtins work with.
pub(crate) struct Context {
    pub(crate) meter: Meter,
    /// What the running branch printed.
    pub(crate) prints: Prints,
    pub(crate) warnings: Vec<String>,
    /// The host's clock value, in milliseconds since 1970.
    pub(crate) now: Option<i64>,
    /// The id of the next function.
    pub(crate) next_id: u64,
    /// The last key that was not found, with the keys there were, for a hint.
    pub(crate) missing: Option<(Value, Map)>,
    /// The last keyword that was asked of a list of maps, for a hint.
    pub(crate) missing_in_list: Option<Value>,
}

/// Bytes of a leaf or branch besides its items.
pub(crate) const NODE_BYTES: usize = 88;
/// Bytes of a value where it stands.
pub(crate) const VALUE_BYTES: usize = 16;
/// Bytes of a string besides its text.
pub(crate) const TEXT_BYTES: usize = 48;
/// Bytes of a function besides what it holds.
pub(crate) const FUNCTION_BYTES: usize = 96;

/// Bytes of a sequence of so many values.
pub(crate) fn sequence_bytes(length: usize) -> usize {
    length.saturating_mul(VALUE_BYTES).saturating_add((length / 32 + 1).saturating_mul(NODE_BYTES))
}

impl Context {
    /// What builtins see of a run that has not begun.
    pub(crate) fn new(env: &Arc<Granted>) -> Self {
        Context {
            meter: Meter::new(env),
            prints: Prints::default(),
            warnings: Vec::new(),
            now: env.now,
            next_id: env.memory.last_id.max(function::FIRST_ID),
            missing: None,
            missing_in_list: None,
        }
    }

    /// The same for another run in the environment of one that has ended, and taken its prints and warnings along.
    pub(crate) fn renew(&mut self, env: &Granted) {
        self.meter.renew();
        self.next_id = env.memory.last_id.max(function::FIRST_ID);
        self.missing = None;
        self.missing_in_list = None;
    }

    /// Fuel and memory for a sequence of so many values that is about to be made.
    pub(crate) fn sequence(&mut self, length: usize) -> Result<(), Fault> {
        self.meter.reserve(sequence_bytes(length))?;
        self.meter.visit(length)
    }

    /// A vector, charged for.
    pub(crate) fn vector(&mut self, items: Vec<Value>) -> Result<Value, Fault> {
        self.meter.reserve(sequence_bytes(items.len()))?;
        Ok(Value::Vector(items.into()))
    }

    /// Memory for one more element in a collection: one path of it is copied.
    pub(crate) fn grow(&mut self) -> Result<(), Fault> {
        self.meter.reserve(NODE_BYTES + 4 * VALUE_BYTES)
    }

    /// A string, charged for.
    pub(crate) fn text(&mut self, text: String) -> Result<Value, Fault> {
        self.meter.reserve(text.len() + TEXT_BYTES)?;
        self.meter.visit(text.len() / 64)?;
        Ok(Value::str(text))
    }

    /// A function made of others.
    pub(crate) fn derived(&mut self, derived: Derived) -> Result<Value, Fault> {
        self.meter.reserve(FUNCTION_BYTES + 64)?;
        Ok(Value::Function(Arc::new(Function::derived(self.fresh_id(), derived))))
    }

    pub(crate) fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Whether two values are `=`; every pair looked at costs a unit.
    pub(crate) fn equal(&mut self, a: &Value, b: &Value) -> Result<bool, Fault> {
        order::equal(a, b, &mut || self.meter.tick())
    }

    /// The order of two values by `compare`.
    pub(crate) fn compare(&mut self, a: &Value, b: &Value) -> Result<std::cmp::Ordering, Fault> {
        match order::compare(a, b, &mut || self.meter.tick())? {
            Some(order) => Ok(order),
            None => fault(
                Reason::TypeError,
                format!("compare: cannot compare {} with {}", describe(a), describe(b)),
            ),
        }
    }

    /// Pays for using a value as a key: comparing it costs no more than it has parts.
    pub(crate) fn key(&mut self, key: &Value) -> Result<(), Fault> {
        match key {
            Value::Str(text) if text.bytes() > 256 => self.meter.charge(text.bytes() as u64 / 64),
            Value::Vector(_) | Value::Map(_) | Value::Set(_) => {
                // Comparing with itself through a copy of the top would be skipped; counting parts is not.
                let parts = self.parts(key)?;
                self.meter.charge(parts.saturating_mul(4))
            }
            _ => Ok(()),
        }
    }

    /// How many values a value is made of, itself included. Each costs a unit.
    pub(crate) fn parts(&mut self, value: &Value) -> Result<u64, Fault> {
        let mut count = 0;
        let mut pending = vec![value.clone()];
        while let Some(value) = pending.pop() {
            self.meter.tick()?;
            count += 1;
            match value {
                Value::Vector(Vector(items)) | Value::Set(crate::value::Set(items)) => {
                    self.meter.visit(items.len())?;
                    count += items.iter().filter(|item| !item.is_collection()).count() as u64;
                    pending.extend(items.iter().filter(|item| item.is_collection()).cloned());
                }
                Value::Map(Map(entries)) => {
                    self.meter.visit(entries.len() * 2)?;
                    for (key, value) in entries.iter() {
                        count += 2;
                        pending.extend([key, value].into_iter().filter(|part| part.is_collection()).cloned());
                    }
                }
                _ => {}
            }
        }
        Ok(count)
    }

    /// A value as `str` shows it, at the cost of its text.
    pub(crate) fn display(&mut self, value: &Value) -> Result<String, Fault> {
        self.printed(value, print::display)
    }

    /// A value as the reader reads it, at the cost of its text.
    pub(crate) fn readable(&mut self, value: &Value) -> Result<String, Fault> {
        self.printed(value, print::readable)
    }

    fn printed(
        &mut self,
        value: &Value,
        how: fn(&Value, usize) -> print::PrintedValue,
    ) -> Result<String, Fault> {
        if let Value::Big(_) = value {
            let limbs = number::limbs(value);
            self.meter.charge(limbs.saturating_mul(limbs) / 64)?;
        }
        let printed = how(value, self.meter.room());
        if printed.truncated {
            self.meter.out_of_memory()?;
        }
        self.meter.charge(printed.text.len() as u64 / 8)?;
        Ok(printed.text)
    }

    /// Notes a key that a lookup did not find.
    pub(crate) fn note_missing(&mut self, key: &Value, map: &Map) {
        if !map.is_empty() {
            self.missing = Some((key.clone(), map.clone()));
        }
    }

    /// Notes that a keyword was asked of something that has no keys.
    pub(crate) fn note_subject(&mut self, key: &Value, subject: &Value) {
        if let Value::Vector(items) = subject
            && let Some(Value::Map(first)) = items.get(0)
            && first.get(key).is_some()
        {
            self.missing_in_list = Some(key.clone());
        }
    }

    /// A warning, kept unless there are very many.
    pub(crate) fn warn(&mut self, warning: String) {
        if self.warnings.len() < 100 && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// An error about the type of an argument, counted from 1.
    pub(crate) fn wrong<T>(
        &self,
        who: &str,
        expected: &str,
        got: &Value,
        argument: usize,
    ) -> Result<T, Fault> {
        let message = format!("{who}: expected {expected}, got {} (argument {argument})", kind(got));
        let mut error = Error::new(Reason::TypeError, message);
        if matches!(got, Value::Nil) {
            error.hint = match (&self.missing_in_list, &self.missing) {
                (Some(key), _) => Some(format!("{key} was asked of a list: use (map {key} coll)")),
                (None, Some((key, map))) => Some(crate::hint::missing_key(key, map)),
                (None, None) => None,
            };
        }
        Err(Box::new(error))
    }
}

/// The kind of a value as errors name it.
pub(crate) fn kind(value: &Value) -> &'static str {
    value.kind()
}

/// A value for an error: short, with its kind.
pub(crate) fn describe(value: &Value) -> String {
    let text = print::readable(value, 200).text;
    let text = crate::value::text::shorten(&text, 40);
    match value {
        Value::Nil => text.into_owned(),
        _ => format!("{text} ({})", value.kind()),
    }
}
