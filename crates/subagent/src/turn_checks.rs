//! What a turn may leave behind: a value that fits its type, definitions that are not too many.

use std::cmp::Reverse;
use std::collections::HashMap;

use scrollback_lisp::{Memory, Text, Type, Validation, Value};

use super::turn::changed;

/// Mismatches that are listed.
const MISMATCHES: usize = 10;
/// Names of large definitions that are listed.
const LARGEST: usize = 3;

/// Why a returned value does not fit, as the model is told: one line for each part of it.
pub(crate) fn mismatch(output: &Type, mode: Validation, value: &Value) -> Option<String> {
    let found = output.validate_in(mode, value);
    if found.is_empty() {
        return None;
    }
    let mut lines: Vec<String> =
        found.iter().take(MISMATCHES).map(|mismatch| format!("- {mismatch}")).collect();
    if found.len() > MISMATCHES {
        lines.push(format!("- … and {} more", found.len() - MISMATCHES));
    }
    Some(format!("Return value does not match {output}:\n{}", lines.join("\n")))
}

/// Bytes of each definition, written down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sizes(HashMap<String, usize>);

impl Sizes {
    /// Those of a whole memory.
    pub(crate) fn of(memory: &Memory) -> Self {
        Sizes(memory.iter().map(|(name, _)| (name.into(), size_of(memory, name, usize::MAX))).collect())
    }

    /// Those after a program, of which only what it changed is looked at; why not, if they are more than `most` together.
    pub(crate) fn after(&self, before: &Memory, after: &Memory, most: usize) -> Result<Self, String> {
        let mut sizes = self.0.clone();
        for name in changed(before, after) {
            let size = size_of(after, &name, most);
            sizes.insert(name, size);
        }
        if sizes.values().fold(0, |sum: usize, size| sum.saturating_add(*size)) <= most {
            return Ok(Sizes(sizes));
        }
        let mut largest: Vec<(&String, &usize)> = sizes.iter().collect();
        largest.sort_by_key(|(name, size)| (Reverse(**size), (*name).clone()));
        let names: Vec<&str> = largest.iter().take(LARGEST).map(|(name, _)| name.as_str()).collect();
        Err(format!(
            "definitions would take more than {most} bytes, so none of this program's were kept; \
             define less (largest: {})",
            names.join(", ")
        ))
    }
}

/// Bytes of a definition; beyond `most` nothing is looked at.
fn size_of(memory: &Memory, name: &str, most: usize) -> usize {
    let Some(definition) = memory.get(name) else { return 0 };
    let value = match &definition.value {
        Some(Value::Function(function)) => {
            let captured: usize = function.captures().map(|(_, value)| value.to_text(most).0.len()).sum();
            function.source().map_or(0, |source| source.len()) + captured
        }
        Some(value) => value.to_text(most).0.len(),
        None => 0,
    };
    name.len() + value + definition.doc.as_ref().map_or(0, Text::bytes)
}
