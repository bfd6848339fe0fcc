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

/// Names met lately, by a few of their bytes.
const RECENT: usize = 128;

/// Names that are found by looking at all of them; beyond that they are hashed.
const FEW: usize = 24;

/// All names of a program.
pub(crate) struct Symbols<'s> {
    names: Vec<Name<'s>>,
    numbers: HashMap<Cow<'s, str>, Symbol>,
    /// Where a name probably is. Most names are written many times, and this finds them without a real hash.
    recent: [Symbol; RECENT],
}

struct Name<'s> {
    text: Cow<'s, str>,
    /// The same, as what is left of the program keeps it.
    word: Option<Word>,
}

impl Default for Symbols<'_> {
    fn default() -> Self {
        Symbols { names: Vec::with_capacity(FEW), numbers: HashMap::new(), recent: [NONE; RECENT] }
    }
}

impl<'s> Symbols<'s> {
    pub(crate) fn intern(&mut self, name: Cow<'s, str>) -> Symbol {
        let place = probable(name.as_bytes());
        if let Some(symbol) = self.recent.get(place)
            && let Some(known) = self.names.get(symbol.index())
            && known.text == name
        {
            return *symbol;
        }
        let symbol = if let Some(symbol) = self.find(&name) {
            symbol
        } else {
            let symbol = Symbol(self.names.len() as u32);
            if self.names.len() >= FEW {
                self.numbers.insert(name.clone(), symbol);
            }
            self.names.push(Name { text: name, word: None });
            symbol
        };
        if let Some(recent) = self.recent.get_mut(place) {
            *recent = symbol;
        }
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
