//! The numbers that definitions have in a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compile::Unit;
use crate::value::Word;

/// Names of definitions by number and numbers by name. Those of the program are numbered since it was compiled.
pub(crate) struct Numbers {
    program: Arc<Unit>,
    /// Names of functions from earlier programs, numbered as they are met, after those of the program.
    others: Vec<Word>,
    /// All of them by name, built at the first lookup by name.
    by_name: BTreeMap<Word, u32>,
}

impl Numbers {
    pub(crate) fn new(program: Arc<Unit>) -> Self {
        Numbers { program, others: Vec::new(), by_name: BTreeMap::new() }
    }

    /// Whether these are the numbers of this program.
    pub(crate) fn is_of(&self, program: &Arc<Unit>) -> bool {
        Arc::ptr_eq(&self.program, program)
    }

    /// Goes back to the names of the program.
    pub(crate) fn forget_others(&mut self) {
        self.others.clear();
        if !self.by_name.is_empty() {
            self.by_name.clear();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.program.globals.len() + self.others.len()
    }

    /// All names with their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Word)> {
        (0..).zip(self.program.globals.iter().chain(&self.others))
    }

    /// Whether there are others than those of the program.
    pub(crate) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// All names with their numbers, those of the program first and sorted by name.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = (u32, &Word)> {
        let program = &self.program;
        let name = |number: &u32| Some((*number, program.globals.get(*number as usize)?));
        let others = (program.globals.len() as u32..).zip(&self.others);
        program.sorted.iter().filter_map(name).chain(others)
    }

    /// The number of a name that has one.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.all().find(|(_, known)| known.as_bytes() == name.as_bytes()).map(|(number, _)| number)
    }

    /// The number of a name, a new one if it has none.
    pub(crate) fn number(&mut self, name: &Word) -> u32 {
        if self.by_name.is_empty() {
            self.by_name = self.all().map(|(number, name)| (name.clone(), number)).collect();
        }
        if let Some(number) = self.by_name.get(name) {
            return *number;
        }
        let number = self.count() as u32;
        self.others.push(name.clone());
        self.by_name.insert(name.clone(), number);
        number
    }
}
