//! Names as numbers: a name is looked at once for each place it is written, and compared as a number from then on.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::value::Word;

/// A name of one program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Symbol(u32);

impl Symbol {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// No name.
const NONE: Symbol = Symbol(u32::MAX);

/// Names met recently, by a few of their bytes.
const RECENT: usize = 128;

/// Names that are found by looking at all of them; beyond that they are hashed.
const FEW: usize = 24;

/// All names of a program.
pub(crate) struct Symbols<'s> {
    names: Vec<SymbolName<'s>>,
    numbers: HashMap<Cow<'s, str>, Symbol>,
}

/// Where a name probably is. Most names are written many times, and this finds them without a real hash.
pub(super) struct Recent([Symbol; RECENT]);

impl Default for Recent {
    fn default() -> Self {
        Recent([NONE; RECENT])
    }
}

struct SymbolName<'s> {
    text: Cow<'s, str>,
    /// The same, as what is left of the program keeps it.
    word: Option<Word>,
    /// The constant that is the keyword of this text.
    keyword: Option<u32>,
}

impl Default for Symbols<'_> {
    fn default() -> Self {
        Symbols { names: Vec::with_capacity(16), numbers: HashMap::new() }
    }
}

impl<'s> Symbols<'s> {
    /// The symbol of a name in the source.
    pub(super) fn read(&mut self, name: &'s str, recent: &mut Recent) -> Symbol {
        let Some(recent) = recent.0.get_mut(probable(name.as_bytes())) else { return NONE };
        match self.names.get(recent.index()) {
            Some(known) if known.text == name => {}
            Some(_) => *recent = self.intern(name.into()),
            // Every name that was read has left a trace in its place.
            None => *recent = self.add(name.into()),
        }
        *recent
    }

    /// The symbol of a name that is met for the first time in a while.
    pub(crate) fn intern(&mut self, name: Cow<'s, str>) -> Symbol {
        match self.find(&name) {
            Some(symbol) => symbol,
            None => self.add(name),
        }
    }

    /// The symbol of a name that is new.
    fn add(&mut self, name: Cow<'s, str>) -> Symbol {
        let symbol = Symbol(self.names.len() as u32);
        // They are all hashed when the first of them is looked for, and from then on each as it comes.
        if !self.numbers.is_empty() {
            self.numbers.insert(name.clone(), symbol);
        }
        self.names.push(SymbolName { text: name, word: None, keyword: None });
        symbol
    }

    fn find(&mut self, name: &str) -> Option<Symbol> {
        if self.names.len() < FEW {
            let at = self.names.iter().position(|known| known.text == name);
            return at.map(|at| Symbol(at as u32));
        }
        if self.numbers.is_empty() {
            let known = (0..).zip(&self.names).map(|(at, name)| (name.text.clone(), Symbol(at)));
            self.numbers = known.collect();
        }
        self.numbers.get(name).copied()
    }

    /// The constant that is the keyword of a name, to be looked up or set.
    pub(super) fn keyword(&mut self, symbol: Symbol) -> Option<&mut Option<u32>> {
        self.names.get_mut(symbol.index()).map(|name| &mut name.keyword)
    }

    pub(crate) fn text(&self, symbol: Symbol) -> &str {
        self.names.get(symbol.index()).map_or("", |name| &name.text)
    }

    /// A name to keep; of a long one all share one copy.
    pub(crate) fn word(&mut self, symbol: Symbol) -> Word {
        match self.names.get_mut(symbol.index()) {
            Some(name) => name.word.get_or_insert_with(|| Word::from(&*name.text)).clone(),
            None => Word::from(""),
        }
    }
}

/// Where among the recent ones a name would be.
fn probable(name: &[u8]) -> usize {
    let (first, middle, last) = match name {
        [] => (0, 0, 0),
        [first, .., last] => (*first, name.get(name.len() / 2).copied().unwrap_or_default(), *last),
        [only] => (*only, *only, *only),
    };
    let spread = usize::from(first) ^ (usize::from(middle) << 2) ^ (usize::from(last) << 4);
    (name.len() ^ spread) % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_however_many_there_are_and_wherever_it_is_met() {
        let names: Vec<String> = (0..200).map(|number| format!("name{number}")).collect();
        let (mut symbols, mut recent) = (Symbols::default(), Recent::default());
        for (met, name) in names.iter().enumerate() {
            let new = symbols.read(name, &mut recent);
            assert_eq!(new.index(), met, "{name}");
            for (at, known) in names.iter().enumerate().take(met + 1) {
                assert_eq!(symbols.read(known, &mut recent).index(), at, "{known} after {name}");
                assert_eq!(symbols.intern(known.as_str().into()).index(), at, "{known} after {name}");
            }
        }
        // Nothing is looked for before the last is read.
        let (mut symbols, mut recent) = (Symbols::default(), Recent::default());
        let letters: Vec<String> = ('a'..='z').map(String::from).collect();
        for name in &letters {
            symbols.read(name, &mut recent);
        }
        for (at, name) in letters.iter().enumerate() {
            assert_eq!(symbols.intern(name.as_str().into()).index(), at, "{name}");
        }
    }
}
