//! Maps, kept sorted by key, and how a key of one kind finds the entry under another.
//!
//! Data and tool results come from JSON, whose keys are strings; models write keywords. So reading and updating a map
//! by key tries the exact key first, and then spellings that can only have been meant.

use super::tree::Tree;
use super::{Value, order};

/// A persistent map, sorted by key.
#[derive(Clone, Default)]
pub struct Map(pub(crate) Tree<(Value, Value)>);

impl Map {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Value, &Value)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The value under exactly this key.
    pub fn get_exact(&self, key: &Value) -> Option<&Value> {
        self.0.get(self.find(key).ok()?).map(|(_, value)| value)
    }

    /// The value under this key or another spelling of it, as programs read maps.
    ///
    /// ```
    /// use scrollback_lisp::Value;
    /// let Some(Value::Map(row)) = Value::from_json(r#"{"user_id": 7}"#) else { return };
    /// assert_eq!(row.get(&Value::keyword("user-id")), Some(&Value::from(7)));
    /// assert_eq!(row.get(&Value::from("user-id")), None); // strings do not fold
    /// ```
    pub fn get(&self, key: &Value) -> Option<&Value> {
        self.entry(key).map(|(_, value)| value)
    }

    /// The entry under this key or another spelling of it.
    pub(crate) fn entry(&self, key: &Value) -> Option<(&Value, &Value)> {
        self.0.get(self.resolve(key)?).map(|(key, value)| (key, value))
    }

    pub(crate) fn find(&self, key: &Value) -> Result<usize, usize> {
        self.0.search(|(candidate, _)| order::keys(candidate, key))
    }

    /// Where the entry for a key is: under the key itself; for a keyword then under the string of its name, then
    /// under either with hyphens and underscores exchanged; for a string under the keyword of exactly its text.
    pub(crate) fn resolve(&self, key: &Value) -> Option<usize> {
        match key {
            Value::Keyword(keyword) => {
                let name = keyword.as_str();
                if let Some(at) = self.find_keyword(name).or_else(|| self.find_string(name)) {
                    return Some(at);
                }
                [('-', '_'), ('_', '-')].into_iter().filter(|(from, _)| name.contains(*from)).find_map(
                    |(from, to)| {
                        let folded = name.replace(from, to.encode_utf8(&mut [0; 4]));
                        self.find_keyword(&folded).or_else(|| self.find_string(&folded))
                    },
                )
            }
            Value::Str(text) => self.find_string(text.as_str()).or_else(|| self.find_keyword(text.as_str())),
            _ => self.find(key).ok(),
        }
    }

    fn find_keyword(&self, text: &str) -> Option<usize> {
        // Keywords come before strings: a map that starts with a string has none.
        if let Some((Value::Str(_), _)) = self.0.first() {
            return None;
        }
        self.0.search(|(candidate, _)| order::against_keyword(candidate, text)).ok()
    }

    fn find_string(&self, text: &str) -> Option<usize> {
        self.0.search(|(candidate, _)| order::against_string(candidate, text)).ok()
    }

    /// Puts a value under exactly this key.
    pub(crate) fn insert_exact(&mut self, key: Value, value: Value) {
        match self.find(&key) {
            Ok(at) => {
                if let Some(entry) = self.0.get_mut(at) {
                    entry.1 = value;
                }
            }
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    /// Puts a value under this key, or under the spelling of it that the map has.
    pub(crate) fn insert(&mut self, key: Value, value: Value) {
        match self.resolve(&key) {
            Some(at) => {
                if let Some(entry) = self.0.get_mut(at) {
                    entry.1 = value;
                }
            }
            None => self.insert_exact(key, value),
        }
    }

    /// Takes out the entry under this key or another spelling of it.
    pub(crate) fn remove(&mut self, key: &Value) {
        if let Some(at) = self.resolve(key) {
            self.0.remove(at);
        }
    }
}

/// Of equal keys the later entry wins.
impl FromIterator<(Value, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (Value, Value)>>(entries: I) -> Self {
        let mut entries: Vec<(Value, Value)> = entries.into_iter().collect();
        let ascending = |pair: &[(Value, Value)]| matches!(pair, [a, b] if order::keys(&a.0, &b.0).is_lt());
        if !entries.windows(2).all(ascending) {
            entries.sort_by(|a, b| order::keys(&a.0, &b.0));
            entries.dedup_by(|later, kept| {
                let same = order::keys(&later.0, &kept.0).is_eq();
                if same {
                    std::mem::swap(&mut later.1, &mut kept.1);
                }
                same
            });
        }
        Map(entries.into())
    }
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", Value::Map(self.clone()))
    }
}
