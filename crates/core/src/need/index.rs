//! The index of a record's identifiers, kept up to date entry by entry.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::identifiers::identifiers;
use super::score::IdentifierShape;
use super::segments::{EntrySegments, IdentifierKind, entry_identifiers, fields};
use crate::entry::Role;
use crate::record::Record;

/// Groups of an identifier that are remembered: more are never read.
const POSTS: usize = 32;
/// Stands for "none" where a number is kept in 32 bits.
const NONE: u32 = u32::MAX;

/// What is known of one identifier.
#[derive(Clone, Debug)]
pub(crate) struct IdentifierUse {
    start: u32,
    length: u32,
    /// Last group that holds it.
    pub(crate) last: u32,
    /// Number of groups that hold it.
    pub(crate) groups: u32,
    /// Its newest groups in `posts`, where there is more than one.
    posts: u32,
    /// Last group in which the assistant said it.
    last_said: u32,
    /// Number of entries in which it is a whole argument.
    pub(crate) leaf: u32,
    /// Fewest identifiers of any entry that holds it.
    pub(crate) crowd: u32,
    /// Name of the field whose value it was last.
    field: u32,
    pub(crate) is_argument: bool,
    pub(crate) in_result: bool,
    pub(crate) is_key: bool,
    pub(crate) shape: IdentifierShape,
}

impl IdentifierUse {
    /// Last group in which the assistant said it; none if it never did.
    pub(crate) fn last_said(&self) -> Option<u32> {
        (self.last_said != NONE).then_some(self.last_said)
    }
}

/// One segment: how long its shown text is, and where its identifiers end in the list of all.
#[derive(Clone, Copy, Debug)]
struct SegmentRow {
    bytes: u32,
    ids_end: u32,
}

/// What is known of one place of the record.
#[derive(Clone, Copy, Debug, Default)]
struct EntryRow {
    /// Its group, or none for what belongs to no group.
    group: Option<u32>,
    /// Bytes of content and arguments.
    bytes: u32,
    calls: u32,
    ids_end: u32,
    segments_end: u32,
    /// Where the identifiers of its segments begin.
    segment_ids: u32,
}

/// Numbers of identifiers in open places, found by the hash of the text. Never iterated, so nothing depends on the hash.
///
/// A map that holds keys would take four times the memory, for texts that stand in one list already.
#[derive(Debug, Default)]
struct TextTable {
    /// A power of two of places; [`NONE`] where one is free.
    places: Vec<u32>,
    used: usize,
}

impl TextTable {
    /// The number for which `is_it` holds, among those of this hash.
    fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.places.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            match *self.places.get(at)? {
                NONE => return None,
                id if is_it(id) => return Some(id),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Adds a number that is not there. `hash_of` gives the hash of one that is, when they move to more places.
    fn insert(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        if (self.used + 1) * 4 > self.places.len() * 3 {
            let more = (self.places.len() * 2).max(64);
            for known in std::mem::replace(&mut self.places, vec![NONE; more]) {
                if known != NONE {
                    self.put(hash_of(known), known);
                }
            }
        }
        self.put(hash, id);
        self.used += 1;
    }

    fn put(&mut self, hash: u64, id: u32) {
        let mask = self.places.len().saturating_sub(1);
        let mut at = hash as usize & mask;
        while let Some(place) = self.places.get_mut(at) {
            if *place == NONE {
                *place = id;
                return;
            }
            at = (at + 1) & mask;
        }
    }
}

/// Makes room for more in steps of an eighth: doubling would leave up to half of a long list empty.
fn grow<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more.max(list.len() / 8));
    }
}

/// Identifiers and segments of the entries before a position of a record.
#[derive(Debug, Default)]
pub(crate) struct NeedIndex {
    /// The text of every identifier, one behind the other.
    texts: String,
    known: Vec<IdentifierUse>,
    by_text: TextTable,
    posts: Vec<Vec<u32>>,
    entries: Vec<EntryRow>,
    /// Identifiers of the entries, one list behind the other.
    ids: Vec<u32>,
    segments: Vec<SegmentRow>,
    segment_ids: Vec<u32>,
    /// Names of arguments, and of fields that hold identifiers.
    names: HashMap<Box<str>, u32>,
    argument_names: HashSet<u32>,
}

/// One segment as the planner sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentView<'i> {
    /// Bytes of what a ledger shows of it.
    pub(crate) bytes: u64,
    /// Its identifiers, without repetition.
    pub(crate) ids: &'i [u32],
}

impl NeedIndex {
    /// How many places of the record are read.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Reads the places before `end` that were not read yet.
    pub(crate) fn advance(&mut self, record: &Record, end: usize) {
        while self.entries.len() < end.min(record.len()) {
            self.push(record, self.entries.len() as u32);
        }
    }

    fn push(&mut self, record: &Record, position: u32) {
        let before = self.entries.last().copied().unwrap_or_default();
        let mut row = EntryRow {
            group: None,
            bytes: 0,
            calls: 0,
            segment_ids: self.segment_ids.len() as u32,
            ..before
        };
        if let Some((entry, group)) = record.entry(position.into()).zip(record.groups.of(position)) {
            let reading = EntrySegments::of(entry);
            row.group = Some(group);
            row.bytes = u32::try_from(reading.bytes()).unwrap_or(NONE);
            row.calls = reading.calls() as u32;
            let ids = self.note(&reading, group, entry.role);
            if entry.role == Role::Tool {
                self.note_fields(&reading.content, &ids);
            }
            grow(&mut self.ids, ids.len());
            self.ids.extend(&ids);
            self.note_segments(&reading);
        }
        row.ids_end = self.ids.len() as u32;
        row.segments_end = self.segments.len() as u32;
        grow(&mut self.entries, 1);
        self.entries.push(row);
    }

    /// Takes in the identifiers of an entry, and returns them without repetition.
    fn note(&mut self, reading: &EntrySegments, group: u32, role: Role) -> Vec<u32> {
        let mut found: HashMap<u32, IdentifierKind> = HashMap::new();
        let mut ids = Vec::new();
        entry_identifiers(reading, |name, kind| {
            let id = self.intern(name);
            found.entry(id).and_modify(|known| *known = kind.max(*known)).or_insert_with(|| {
                ids.push(id);
                kind
            });
        });
        if role == Role::Assistant {
            reading.arguments(|key, _| {
                let name = intern_name(&mut self.names, key);
                self.argument_names.insert(name);
            });
        }
        let crowd = ids.len() as u32;
        for id in &ids {
            let kind = found.get(id).copied().unwrap_or(IdentifierKind::Said);
            let Some(known) = self.known.get_mut(*id as usize) else { continue };
            add_post(known, &mut self.posts, group);
            known.crowd = known.crowd.min(crowd);
            match role {
                Role::Assistant => {
                    let last = known.last_said().map_or(group, |last| last.max(group));
                    known.last_said = last;
                    known.is_argument |= kind > IdentifierKind::Said;
                }
                Role::Tool => known.in_result = true,
                Role::System | Role::User => {}
            }
            known.leaf += u32::from(kind == IdentifierKind::Whole);
        }
        ids
    }

    fn note_fields(&mut self, content: &str, ids: &[u32]) {
        let own: HashSet<u32> = ids.iter().copied().collect();
        fields(content, |name, value| {
            let named = self.find(name).filter(|id| own.contains(id));
            if let Some(known) = named.and_then(|id| self.known.get_mut(id as usize)) {
                known.is_key = true;
            }
            if let Some(id) = self.find(value).filter(|id| own.contains(id)) {
                let field = intern_name(&mut self.names, name);
                if let Some(known) = self.known.get_mut(id as usize) {
                    known.field = field;
                }
            }
        });
    }

    fn note_segments(&mut self, reading: &EntrySegments) {
        let mut rows: Vec<(u32, Vec<u32>)> = Vec::new();
        reading.segments(|segment| {
            let mut ids: Vec<u32> = identifiers(segment.text).iter().map(|name| self.intern(name)).collect();
            if segment.argument {
                let whole = self.intern(segment.text);
                if !ids.contains(&whole) {
                    ids.push(whole);
                }
            }
            rows.push((segment.shown.len() as u32, ids));
        });
        grow(&mut self.segments, rows.len());
        grow(&mut self.segment_ids, rows.iter().map(|(_, ids)| ids.len()).sum());
        for (bytes, ids) in rows {
            self.segment_ids.extend(ids);
            self.segments.push(SegmentRow { bytes, ids_end: self.segment_ids.len() as u32 });
        }
    }

    /// The number of an identifier, which it is given where it has none.
    fn intern(&mut self, name: &str) -> u32 {
        if let Some(id) = self.find(name) {
            return id;
        }
        let id = self.known.len() as u32;
        let start = self.texts.len() as u32;
        if self.texts.capacity() - self.texts.len() < name.len() {
            self.texts.reserve_exact(name.len().max(self.texts.len() / 8));
        }
        self.texts.push_str(name);
        let mut table = std::mem::take(&mut self.by_text);
        table.insert(hash_of(name), id, |known| hash_of(self.text(known)));
        self.by_text = table;
        grow(&mut self.known, 1);
        self.known.push(IdentifierUse {
            start,
            length: name.len() as u32,
            last: 0,
            groups: 0,
            posts: NONE,
            last_said: NONE,
            leaf: 0,
            crowd: NONE,
            field: NONE,
            is_argument: false,
            in_result: false,
            is_key: false,
            shape: IdentifierShape::of(name),
        });
        id
    }

    fn find(&self, name: &str) -> Option<u32> {
        self.by_text.find(hash_of(name), |id| self.text(id) == name)
    }

    /// An identifier as it is spelled.
    pub(crate) fn text(&self, id: u32) -> &str {
        let Some(known) = self.known.get(id as usize) else { return "" };
        let (start, length) = (known.start as usize, known.length as usize);
        self.texts.get(start..start + length).unwrap_or_default()
    }

    /// Everything known, by number of the identifier.
    pub(crate) fn known(&self) -> &[IdentifierUse] {
        &self.known
    }

    /// The newest groups that hold an identifier, oldest first; at most [`POSTS`].
    pub(crate) fn posts<'i>(&'i self, known: &'i IdentifierUse) -> &'i [u32] {
        match self.posts.get(known.posts as usize) {
            Some(posts) => posts,
            None if known.groups == 0 => &[],
            None => std::slice::from_ref(&known.last),
        }
    }

    /// Whether the identifier was the value of a field that has the name of an argument.
    pub(crate) fn fills_an_argument(&self, known: &IdentifierUse) -> bool {
        self.argument_names.contains(&known.field)
    }

    /// The identifiers of the entry at a position.
    pub(crate) fn ids(&self, position: u32) -> &[u32] {
        let Some(row) = self.entries.get(position as usize) else { return &[] };
        let start = self.before(position).ids_end;
        self.ids.get(start as usize..row.ids_end as usize).unwrap_or_default()
    }

    /// The segments of the entry at a position.
    pub(crate) fn segments(&self, position: u32) -> impl Iterator<Item = SegmentView<'_>> {
        let row = self.entries.get(position as usize).copied().unwrap_or_default();
        let start = self.before(position).segments_end.min(row.segments_end);
        let rows = self.segments.get(start as usize..row.segments_end as usize).unwrap_or_default();
        rows.iter().scan(row.segment_ids, move |from, segment| {
            let ids = self.segment_ids.get(*from as usize..segment.ids_end as usize).unwrap_or_default();
            *from = segment.ids_end;
            Some(SegmentView { bytes: segment.bytes.into(), ids })
        })
    }

    /// The identifiers of one segment.
    pub(crate) fn segment_ids(&self, position: u32, number: u32) -> &[u32] {
        let Some(row) = self.entries.get(position as usize) else { return &[] };
        let first = self.before(position).segments_end as usize;
        let at = first + number as usize;
        let Some(segment) = self.segments.get(at).filter(|_| at < row.segments_end as usize) else {
            return &[];
        };
        // The identifiers of a segment begin where those of the one before it end.
        let before = at.checked_sub(1).filter(|before| *before >= first).and_then(|at| self.segments.get(at));
        let start = before.map_or(row.segment_ids, |before| before.ids_end);
        self.segment_ids.get(start as usize..segment.ids_end as usize).unwrap_or_default()
    }

    /// Bytes of content and arguments of the entry at a position, and the number of its calls.
    pub(crate) fn size(&self, position: u32) -> (u64, u64) {
        let row = self.entries.get(position as usize).copied().unwrap_or_default();
        (row.bytes.into(), row.calls.into())
    }

    fn before(&self, position: u32) -> EntryRow {
        let before = position.checked_sub(1).and_then(|before| self.entries.get(before as usize));
        before.copied().unwrap_or_default()
    }

    /// Bytes it takes in memory, about.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        use std::mem::size_of;
        let posts: usize = self.posts.iter().map(|posts| posts.capacity() * 4 + size_of::<Vec<u32>>()).sum();
        let names: usize = self.names.keys().map(|name| name.len() + 32).sum();
        self.texts.capacity()
            + self.known.capacity() * size_of::<IdentifierUse>()
            + self.by_text.places.capacity() * 4
            + posts
            + names
            + self.entries.capacity() * size_of::<EntryRow>()
            + (self.ids.capacity() + self.segment_ids.capacity()) * 4
            + self.segments.capacity() * size_of::<SegmentRow>()
    }
}

fn add_post(known: &mut IdentifierUse, posts: &mut Vec<Vec<u32>>, group: u32) {
    if known.groups == 0 {
        (known.groups, known.last) = (1, group);
        return;
    }
    if let Some(list) = posts.get_mut(known.posts as usize) {
        // A result may come late, so its group need not be the newest.
        if let Err(at) = list.binary_search(&group) {
            list.insert(at, group);
            known.groups += 1;
            if list.len() > POSTS {
                list.remove(0);
            }
        }
    } else if known.last != group {
        known.posts = posts.len() as u32;
        posts.push(vec![known.last.min(group), known.last.max(group)]);
        known.groups += 1;
    }
    known.last = known.last.max(group);
}

fn intern_name(names: &mut HashMap<Box<str>, u32>, name: &str) -> u32 {
    if let Some(known) = names.get(name) {
        return *known;
    }
    let number = names.len() as u32;
    names.insert(name.into(), number);
    number
}

/// The same on every machine; only used to find an identifier again.
fn hash_of(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::entry::{Entry, Time};

    /// A session that reads and edits files, as agents do.
    fn session(rounds: usize) -> Record {
        let mut record = Record::new();
        let mut say = |entry: Entry| {
            let sequence = record.message_count() as u64;
            record.append(entry.stamped(uuid::Uuid::nil(), sequence, Time(0))).unwrap();
        };
        say(Entry::text(Role::System, "Work on the files of this project."));
        say(Entry::text(Role::User, "Rename `old_name` in every file."));
        for round in 0..rounds {
            let path = format!("src/part_{}/file_{round}.rs", round % 7);
            let id = format!("call_{round}");
            let text = format!("I look at {path}, line {}.", round * 3);
            say(Entry::calling(Some(&text), &[(&id, "read_file", &format!(r#"{{"path":"{path}"}}"#))]));
            let line = |line: usize| format!("    let value_{line} = old_name({line}, \"{path}\");\n");
            say(Entry::result(&id, &(0..20).map(line).collect::<String>()));
        }
        record
    }

    #[test]
    fn an_index_that_grew_is_one_that_was_made_at_once() {
        let record = session(40);
        let (mut grown, mut at_once) = (NeedIndex::default(), NeedIndex::default());
        for end in 0..=record.len() {
            grown.advance(&record, end);
        }
        at_once.advance(&record, record.len());
        assert_eq!(
            format!("{:?}", (&grown.known, &grown.ids, &grown.segments)),
            format!("{:?}", (&at_once.known, &at_once.ids, &at_once.segments))
        );
        assert_eq!(grown.text(grown.find("old_name").unwrap()), "old_name");
    }

    #[test]
    fn the_index_takes_no_more_memory_than_the_record_has_json() {
        let record = session(500);
        let mut index = NeedIndex::default();
        index.advance(&record, record.len());
        let json: usize = (0..record.len())
            .filter_map(|at| record.entry(at as u64))
            .map(|entry| entry.origin.raw.len())
            .sum();
        let share = index.memory() as f64 / json as f64;
        assert!(share <= 1.0, "{share:.2} times the record's JSON");
    }
}
