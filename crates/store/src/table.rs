//! Tables as the engine sees them: typed rows, and the few ways they are looked up.
//!
//! Everything the store keeps is a row of a [`Table`]. A database has to put, get, remove and scan rows, and nothing else;
//! what rows mean is decided once, in the engine, for all databases.

use scrollback_core::Time;

use crate::error::StoreError;

/// What stands in one column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ColumnValue {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&str> for ColumnValue {
    fn from(text: &str) -> Self {
        ColumnValue::Text(text.into())
    }
}

impl From<String> for ColumnValue {
    fn from(text: String) -> Self {
        ColumnValue::Text(text)
    }
}

impl From<u64> for ColumnValue {
    fn from(number: u64) -> Self {
        ColumnValue::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<Time> for ColumnValue {
    fn from(time: Time) -> Self {
        ColumnValue::Text(time.to_string())
    }
}

impl From<&[u8]> for ColumnValue {
    fn from(bytes: &[u8]) -> Self {
        ColumnValue::Bytes(bytes.into())
    }
}

impl From<&[u8; 32]> for ColumnValue {
    fn from(bytes: &[u8; 32]) -> Self {
        ColumnValue::Bytes(bytes.to_vec())
    }
}

impl<T: Into<ColumnValue>> From<Option<T>> for ColumnValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(ColumnValue::Null, Into::into)
    }
}

/// The columns of one row on their way out, in the order of [`Table::COLUMNS`].
pub(crate) struct Cells {
    table: &'static str,
    cells: std::vec::IntoIter<ColumnValue>,
}

impl Cells {
    pub(crate) fn new(table: &'static str, cells: Vec<ColumnValue>) -> Self {
        Cells { table, cells: cells.into_iter() }
    }

    fn next(&mut self) -> ColumnValue {
        self.cells.next().unwrap_or(ColumnValue::Null)
    }

    fn bad(&self, what: &str) -> StoreError {
        StoreError::damaged(format!("a row of {} holds something that is not a {what}", self.table))
    }

    /// A text; none if the column is null. A number that stands where a text should is shown as one.
    pub(crate) fn maybe_text(&mut self) -> Option<String> {
        match self.next() {
            ColumnValue::Null => None,
            ColumnValue::Text(text) => Some(text),
            ColumnValue::Int(number) => Some(number.to_string()),
            ColumnValue::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    pub(crate) fn text(&mut self) -> String {
        self.maybe_text().unwrap_or_default()
    }

    pub(crate) fn maybe_number(&mut self) -> Option<u64> {
        match self.next() {
            ColumnValue::Int(number) => u64::try_from(number).ok(),
            _ => None,
        }
    }

    pub(crate) fn number(&mut self) -> Result<u64, StoreError> {
        self.maybe_number().ok_or_else(|| self.bad("number"))
    }

    pub(crate) fn maybe_bytes(&mut self) -> Option<Vec<u8>> {
        match self.next() {
            ColumnValue::Null => None,
            ColumnValue::Bytes(bytes) => Some(bytes),
            ColumnValue::Text(text) => Some(text.into_bytes()),
            ColumnValue::Int(number) => Some(number.to_be_bytes().to_vec()),
        }
    }

    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        self.maybe_bytes().unwrap_or_default()
    }

    pub(crate) fn link(&mut self) -> Result<[u8; 32], StoreError> {
        self.bytes().try_into().map_err(|_| self.bad("hash"))
    }

    pub(crate) fn time(&mut self) -> Result<Time, StoreError> {
        self.maybe_time()?.ok_or_else(|| self.bad("time"))
    }

    pub(crate) fn maybe_time(&mut self) -> Result<Option<Time>, StoreError> {
        match self.maybe_text() {
            None => Ok(None),
            Some(text) => Time::parse(&text).map(Some).ok_or_else(|| self.bad("time")),
        }
    }

    /// A word of a closed list; none if the column is null.
    pub(crate) fn word<T>(&mut self, named: impl Fn(&str) -> Option<T>) -> Result<Option<T>, StoreError> {
        match self.maybe_text() {
            None => Ok(None),
            Some(word) => named(&word).map(Some).ok_or_else(|| self.bad("known word")),
        }
    }

    /// The same of a type that is read from text.
    pub(crate) fn maybe_known<T: std::str::FromStr>(&mut self) -> Result<Option<T>, StoreError> {
        self.word(|word| word.parse().ok())
    }

    /// The same where the column is never null.
    pub(crate) fn known<T: std::str::FromStr>(&mut self) -> Result<T, StoreError> {
        let word = self.text();
        word.parse().map_err(|_| self.bad("known word"))
    }

    /// A value kept as JSON; none if the column is null.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>, StoreError> {
        match self.maybe_text() {
            None => Ok(None),
            Some(text) => serde_json::from_str(&text).map(Some).map_err(|_| self.bad("JSON")),
        }
    }
}

/// A kind of row.
pub(crate) trait Table: Sized + Send {
    const NAME: &'static str;
    const COLUMNS: &'static [&'static str];
    /// How many of the first columns identify a row.
    const KEY: usize;
    /// Whether each row is kept with a digest of all its columns. Not needed where the row's own hashes say the same, or where it
    /// follows from others.
    const HASHED: bool = true;
    fn cells(&self) -> Vec<ColumnValue>;
    fn read(cells: Cells) -> Result<Self, StoreError>;

    fn key(&self) -> Vec<ColumnValue> {
        let mut cells = self.cells();
        cells.truncate(Self::KEY);
        cells
    }
}

/// The digest of a row: of the name of its table and of every column, each with its kind and length in front.
pub(crate) fn digest(table: &str, cells: &[ColumnValue]) -> ColumnValue {
    let mut hasher = blake3::Hasher::new();
    let mut add = |kind: u8, bytes: &[u8]| {
        hasher.update(&[kind]).update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    add(0, table.as_bytes());
    for cell in cells {
        match cell {
            ColumnValue::Null => add(1, &[]),
            ColumnValue::Int(number) => add(2, &number.to_le_bytes()),
            ColumnValue::Text(text) => add(3, text.as_bytes()),
            ColumnValue::Bytes(bytes) => add(4, bytes),
        }
    }
    // It finds damage, not forgery: what was said has the chain.
    ColumnValue::Bytes(hasher.finalize().as_bytes().iter().take(8).copied().collect())
}

/// A demand on one column.
#[derive(Clone, Debug)]
pub(crate) enum Demand {
    /// Equal to a value.
    Equal(&'static str, ColumnValue),
    /// Equal to a word known when the program was written, so that a partial index can be used.
    Is(&'static str, &'static str),
    /// The same of a number.
    IsNumber(&'static str, i64),
    /// Below a value.
    Below(&'static str, ColumnValue),
    /// A value or above.
    From(&'static str, ColumnValue),
    /// Without a value.
    Absent(&'static str),
    /// With a value.
    Present(&'static str),
}

impl Demand {
    /// The column it is about.
    pub(crate) fn column(&self) -> &'static str {
        match self {
            Demand::Equal(column, _)
            | Demand::Is(column, _)
            | Demand::IsNumber(column, _)
            | Demand::Below(column, _)
            | Demand::From(column, _)
            | Demand::Absent(column)
            | Demand::Present(column) => column,
        }
    }
}

/// Rows wanted: those that meet all demands, in order, from a place on, at most so many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    pub(crate) demands: Vec<Demand>,
    pub(crate) order: Vec<&'static str>,
    pub(crate) descending: bool,
    /// Only what comes after these values of the order's columns.
    pub(crate) after: Option<Vec<ColumnValue>>,
    pub(crate) limit: Option<usize>,
}

impl Scan {
    pub(crate) fn new() -> Self {
        Scan::default()
    }

    pub(crate) fn equal(mut self, column: &'static str, value: impl Into<ColumnValue>) -> Self {
        self.demands.push(Demand::Equal(column, value.into()));
        self
    }

    pub(crate) fn is(mut self, column: &'static str, word: &'static str) -> Self {
        self.demands.push(Demand::Is(column, word));
        self
    }

    pub(crate) fn below(mut self, column: &'static str, value: impl Into<ColumnValue>) -> Self {
        self.demands.push(Demand::Below(column, value.into()));
        self
    }

    pub(crate) fn from(mut self, column: &'static str, value: impl Into<ColumnValue>) -> Self {
        self.demands.push(Demand::From(column, value.into()));
        self
    }

    pub(crate) fn absent(mut self, column: &'static str) -> Self {
        self.demands.push(Demand::Absent(column));
        self
    }

    pub(crate) fn present(mut self, column: &'static str) -> Self {
        self.demands.push(Demand::Present(column));
        self
    }

    pub(crate) fn ascending(mut self, order: &[&'static str]) -> Self {
        self.order = order.to_vec();
        self
    }

    pub(crate) fn descending(mut self, order: &[&'static str]) -> Self {
        self.order = order.to_vec();
        self.descending = true;
        self
    }

    pub(crate) fn after(mut self, values: Option<Vec<ColumnValue>>) -> Self {
        self.after = values;
        self
    }

    pub(crate) fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }
}
