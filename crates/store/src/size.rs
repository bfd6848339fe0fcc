//! How much room a store takes, by what takes it.

/// Bytes of a store, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// What was said: entries and what is known about conversations and runs.
    pub entries: u64,
    /// What model calls were sent, as far as it is not shared with entries.
    pub sent: u64,
    /// Large parts of entries, and whole requests and replies of calls.
    pub blobs: u64,
    /// What searches look through.
    pub index: u64,
    /// Everything else.
    pub other: u64,
    /// Room that is free for what comes next.
    pub free: u64,
}

/// What was given back to the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Pages that were given back.
    pub given: u64,
    /// Pages that could still be given back.
    pub left: u64,
}

impl Sizes {
    /// What is in use.
    pub fn used(&self) -> u64 {
        self.entries + self.sent + self.blobs + self.index + self.other
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.used() + self.free
    }

    /// The kinds by name.
    pub fn kinds(&self) -> [(&'static str, u64); 6] {
        [
            ("entries", self.entries),
            ("sent", self.sent),
            ("blobs", self.blobs),
            ("index", self.index),
            ("other", self.other),
            ("free", self.free),
        ]
    }

    /// Adds what a table or an index of that name takes.
    pub(crate) fn add(&mut self, name: &str, bytes: u64) {
        let kind = match name {
            name if name.starts_with("entries_fts")
                || name.starts_with("waiting")
                || name.starts_with("words") =>
            {
                &mut self.index
            }
            name if name.starts_with("sent") => &mut self.sent,
            name if name.starts_with("blobs") => &mut self.blobs,
            name if [
                "entries",
                "conversations",
                "summaries",
                "calls",
                "evaluations",
                "runs",
                "steps",
                "spans",
                "events",
            ]
            .iter()
            .any(|table| name.starts_with(table)) =>
            {
                &mut self.entries
            }
            _ => &mut self.other,
        };
        *kind += bytes;
    }
}
