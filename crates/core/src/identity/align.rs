//! Where a client's list of messages stands in a record.

use super::items::{Items, names_items, says_items};
use super::titles::asks_for_summary;
use super::{content_hash, identity};
use crate::chain::Link;
use crate::decision::Decision;
use crate::entry::{Entry, Role, Status};
use crate::record::{Record, Slot};

/// How a list of messages and a record fit together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alignment {
    /// For each entry of the list its position in the record; none where the record does not have it.
    pub places: Vec<Option<u64>>,
    /// How many entries of the list the record has: everything behind them is new.
    pub covered: usize,
    /// Position behind the last entry that both have.
    pub after: u64,
    /// Whether the record goes on differently there, so that the list is a branch of it.
    pub branches: bool,
    /// Replies that broke off and that the list does not have: the client tried again.
    pub superseded: Vec<u64>,
    /// Entries that the list spells differently from the version that is in force: where, and which entry of the list.
    pub echoed: Vec<(u64, usize)>,
    /// The reply that the client leaves out of the list with which it asks for a summary: it will stand behind the summary.
    pub left_out: Option<u64>,
}

/// Compares a list of messages, without its leading instructions, with a record up to position `upto`.
pub fn align(record: &Record, list: &[Entry], upto: u64) -> Alignment {
    let mut said = ComparableEntries::new(record, upto);
    let mut found = Alignment { places: vec![None; list.len()], ..Alignment::default() };
    let mut items: Option<Items<'_>> = None;
    for (index, entry) in list.iter().enumerate() {
        // An item that is named and not sent is the one that the record has.
        let resolved = names_items(entry)
            .then(|| items.get_or_insert_with(|| Items::of(record)).resolve(entry))
            .flatten();
        let Some(wanted) = identity(resolved.as_ref().unwrap_or(entry)) else {
            // What says nothing of its own comes and goes. It is recorded if the same text stands here.
            if let Some(position) = said.take_silent(entry) {
                found.place(index, position);
            }
            continue;
        };
        found.left_out = said.pass_reply(entry).or(found.left_out);
        match said.take(&wanted, entry) {
            RecordNext::Same(position) => {
                found.superseded.append(&mut said.passed);
                found.place(index, position);
                if resolved.is_none() && said.is_spelled_differently(position, entry) {
                    found.echoed.push((position, index));
                }
            }
            RecordNext::Other => {
                found.branches = true;
                return found;
            }
            RecordNext::End => break,
        }
    }
    found.branches = said.has_more();
    if !found.branches {
        found.superseded.append(&mut said.passed);
    }
    found
}

impl Alignment {
    fn place(&mut self, index: usize, position: u64) {
        if let Some(place) = self.places.get_mut(index) {
            *place = Some(position);
        }
        self.covered = index + 1;
        self.after = position + 1;
    }
}

/// What comes next in a record, beside an entry of a list.
enum RecordNext {
    /// The same entry, at this position.
    Same(u64),
    /// Another entry.
    Other,
    /// Nothing.
    End,
}

/// The entries of a record that a client would send back, one after the other.
struct ComparableEntries<'r> {
    record: &'r Record,
    /// Messages that count, by position.
    entries: std::iter::Peekable<std::vec::IntoIter<u64>>,
    /// Replies that broke off and were passed over.
    passed: Vec<u64>,
}

impl<'r> ComparableEntries<'r> {
    fn new(record: &'r Record, upto: u64) -> Self {
        let mut leads = true;
        let mut positions = Vec::new();
        for (position, slot) in (0..upto).zip(record.slots()) {
            match slot {
                Slot::Decision(..) => {}
                Slot::Message(entry) => {
                    leads &= entry.role == Role::System;
                    if !leads && !entry.is_lead() && !record.decided.superseded.contains(position as u32) {
                        positions.push(position);
                    }
                }
                Slot::Erased(tombstone) => {
                    leads &= tombstone.role == Role::System;
                    if !leads {
                        positions.push(position);
                    }
                }
            }
        }
        ComparableEntries { record, entries: positions.into_iter().peekable(), passed: Vec::new() }
    }

    /// The next entry, if it is the wanted one. Wrappers and replies that broke off are passed over.
    fn take(&mut self, wanted: &Link, asked: &Entry) -> RecordNext {
        while let Some(position) = self.entries.peek().copied() {
            let Some(Slot::Message(entry)) = self.record.get(position) else {
                // What was erased cannot be compared: the same role at the same place is taken for it.
                let erased =
                    matches!(self.record.get(position), Some(Slot::Erased(gone)) if gone.role == asked.role);
                return if erased { self.advance(position) } else { RecordNext::Other };
            };
            match identity(entry) {
                Some(identity) if identity == *wanted => return self.advance(position),
                Some(_) if says_items(entry, asked) => return self.advance(position),
                Some(_) if entry.status() == Status::Complete => return RecordNext::Other,
                Some(_) => self.passed.push(position),
                None => {}
            }
            self.entries.next();
        }
        RecordNext::End
    }

    fn advance(&mut self, position: u64) -> RecordNext {
        self.entries.next();
        RecordNext::Same(position)
    }

    /// The next entry, if it says nothing of its own and has the same content.
    fn take_silent(&mut self, wanted: &Entry) -> Option<u64> {
        let position = *self.entries.peek()?;
        let entry = self.record.entry(position)?;
        let same = identity(entry).is_none() && content_hash(entry) == content_hash(wanted);
        same.then(|| self.entries.next()).flatten()
    }

    /// Passes over the next entry, if it is the last reply and has no calls, and the client asks for a summary instead. The
    /// question itself may be recorded already.
    fn pass_reply(&mut self, asking: &Entry) -> Option<u64> {
        let position = *self.entries.peek()?;
        let reply = self.record.entry(position)?;
        let is_reply = reply.role == Role::Assistant
            && reply.status() == Status::Complete
            && reply.tool_calls().next().is_none();
        if !is_reply || !asks_for_summary(asking) {
            return None;
        }
        let mut later = self.entries.clone().skip(1).filter_map(|position| self.record.entry(position));
        let is_last = later.next().is_none_or(|entry| asks_for_summary(entry));
        is_last.then(|| self.entries.next()).flatten()
    }

    /// Whether anything is left that a client would have to send back.
    fn has_more(&mut self) -> bool {
        for position in self.entries.by_ref() {
            match self.record.entry(position) {
                Some(entry) if identity(entry).is_none() => {}
                Some(entry) if entry.status() != Status::Complete => self.passed.push(position),
                _ => return true,
            }
        }
        false
    }

    /// Whether an entry differs from the version of it that is in force: the client's last one, or what was recorded.
    fn is_spelled_differently(&self, position: u64, entry: &Entry) -> bool {
        if let Some(echo) = self.record.decided.echoes.get(&(position as u32)) {
            return echo.content != content_hash(entry);
        }
        let Some(recorded) = self.record.entry(position) else { return false };
        recorded.origin.raw != entry.origin.raw && content_hash(recorded) != content_hash(entry)
    }
}

impl Alignment {
    /// The decisions that keep what was found: replies that were given up, and the client's own versions of entries.
    pub fn decisions(&self, list: &[Entry]) -> Vec<Decision> {
        let superseded = (!self.superseded.is_empty())
            .then(|| Decision::Superseded { positions: self.superseded.clone() });
        let echoed = self.echoed.iter().filter_map(|(position, index)| {
            let Entry { origin, role, .. } = list.get(*index)?;
            Some(Decision::Echo {
                position: *position,
                role: *role,
                wire: origin.wire.name().into(),
                body: origin.raw.to_string(),
            })
        });
        superseded.into_iter().chain(echoed).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::entry::{Meta, Time};
    use uuid::Uuid;

    fn user(text: &str) -> Entry {
        Entry::text(Role::User, text)
    }

    fn reply(text: &str) -> Entry {
        Entry::text(Role::Assistant, text)
    }

    fn broken(text: &str) -> Entry {
        Entry {
            meta: Some(Box::new(Meta { status: Status::TruncatedUpstream, ..Meta::default() })),
            ..reply(text)
        }
    }

    fn record(entries: &[Entry]) -> Record {
        let mut record = Record::new();
        for (number, entry) in entries.iter().enumerate() {
            record.append(entry.clone().stamped(Uuid::nil(), number as u64, Time(1))).unwrap();
        }
        record
    }

    fn aligned(recorded: &[Entry], list: &[Entry]) -> Alignment {
        align(&record(recorded), list, recorded.len() as u64)
    }

    #[test]
    fn a_list_goes_on_where_the_record_ends() {
        let found = aligned(
            &[Entry::text(Role::System, "s"), user("a"), reply("b")],
            &[user("a"), reply("b"), user("c")],
        );
        assert_eq!((found.covered, found.after, found.branches), (2, 3, false));
        assert_eq!(found.places, [Some(1), Some(2), None]);
    }

    #[test]
    fn other_words_are_a_branch() {
        let found =
            aligned(&[user("a"), reply("b"), user("c"), reply("d")], &[user("a"), reply("b"), user("x")]);
        assert_eq!((found.covered, found.after, found.branches), (2, 2, true));
        let shorter = aligned(&[user("a"), reply("b")], &[user("a")]);
        assert_eq!((shorter.covered, shorter.after, shorter.branches), (1, 1, true));
    }

    #[test]
    fn a_reply_that_broke_off_is_superseded_when_the_client_tries_again() {
        let talk = [user("a"), broken("ha")];
        let again = aligned(&talk, &[user("a")]);
        assert_eq!((again.covered, again.branches, again.superseded), (1, false, vec![1]));
        let on = aligned(&talk, &[user("a"), user("c")]);
        assert_eq!((on.covered, on.branches, on.superseded), (1, false, vec![1]));
        // A client that keeps it goes on with it.
        let kept = aligned(&talk, &[user("a"), reply("ha"), user("c")]);
        assert_eq!((kept.covered, kept.branches, kept.superseded), (2, false, vec![]));
    }

    #[test]
    fn what_a_client_changes_under_the_same_identity_is_an_echo_once() {
        let call = Entry::calling(None, &[("c1", "look", r#"{"at":"x"}"#)]);
        let normal = Entry::calling(None, &[("c1", "look", r#"{"at":"x","all":false}"#)]);
        let (result, cleared) = (Entry::result("c1", "a long result"), Entry::result("c1", "[cleared]"));
        let mut record = record(&[user("a"), call, result]);
        let list = [user("a"), normal, cleared, user("more")];
        let found = align(&record, &list, 3);
        assert_eq!((found.covered, found.branches), (3, false));
        assert_eq!(found.echoed, [(1, 1), (2, 2)]);
        for decision in found.decisions(&list) {
            record.decide(decision, Time(2)).unwrap();
        }
        assert_eq!(align(&record, &list, 3).echoed, []);
        let cx = crate::CurationContext::default();
        let view = record.view(&cx, &crate::manager::Passthrough).unwrap();
        let shown: Vec<String> = view.items().filter_map(|item| item.entry.content()).collect();
        assert_eq!(shown.last().unwrap(), "[cleared]", "the client's shorter version is shown");
    }

    #[test]
    fn an_item_that_is_only_named_is_the_recorded_one() {
        let read = |text: &str| {
            crate::wire::Wire::OpenaiResponses.read_message(crate::json::check(text).unwrap()).unwrap()
        };
        let ask = read(r#"{"role":"user","content":"look"}"#);
        let reply = read(
            r#"[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"function_call","id":"fc_1","call_id":"c1","name":"look","arguments":"{}"}]"#,
        );
        let named = read(r#"[{"type":"item_reference","id":"rs_1"},{"type":"item_reference","id":"fc_1"}]"#);
        let output = read(r#"{"type":"function_call_output","call_id":"c1","output":"found"}"#);
        let found = aligned(&[ask.clone(), reply.clone()], &[ask.clone(), named, output.clone()]);
        assert_eq!((found.covered, found.branches, found.echoed), (2, false, vec![]));
        let unknown = read(r#"[{"type":"item_reference","id":"fc_9"}]"#);
        assert!(aligned(&[ask.clone(), reply], &[ask, unknown, output]).branches);
    }

    #[test]
    fn a_message_of_a_reply_is_known_by_its_id_or_else_by_its_text() {
        let read = |text: &str| {
            crate::wire::Wire::OpenaiResponses.read_message(crate::json::check(text).unwrap()).unwrap()
        };
        let ask = read(r#"{"type":"message","id":"msg_u","role":"user","content":"Which?"}"#);
        let said = r#"{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"The second one."}]}"#;
        let reply = read(said);
        let case = |list: &[Entry]| {
            let found = aligned(&[ask.clone(), reply.clone()], list);
            (found.covered, found.branches, found.echoed)
        };
        let edited = read(&said.replace("The second one.", "The second."));
        assert_eq!(case(&[ask.clone(), edited, user("Why?")]), (2, false, vec![(1, 1)]));
        // Some hosts make up another id for each call, and some leave it out.
        for id in [r#""id":"msg_2","#, ""] {
            let renamed = read(&said.replace(r#""id":"msg_1","#, id));
            assert_eq!(case(&[ask.clone(), renamed, user("Why?")]), (2, false, vec![]));
        }
        let other = read(&said.replace("The second one.", "The third.").replace("msg_1", "msg_2"));
        assert_eq!(case(&[ask.clone(), other]), (1, true, vec![]), "another reply");
        let question =
            read(r#"{"type":"message","id":"msg_u","role":"user","content":"Which one of them?"}"#);
        assert_eq!(
            case(&[question, reply.clone()]),
            (0, true, vec![]),
            "what the person says is theirs to change"
        );
    }

    #[test]
    fn a_list_that_asks_for_a_summary_may_leave_the_last_reply_out() {
        let ask = user("Your task is to create a detailed summary of the conversation so far.");
        let list = [user("a"), ask.clone()];
        let found = aligned(&[user("a"), reply("b")], &list);
        assert_eq!((found.covered, found.branches, found.left_out), (1, false, Some(1)));
        let again = aligned(&[user("a"), reply("b"), ask.clone(), broken("ha")], &list);
        assert_eq!((again.covered, again.branches, again.left_out), (2, false, Some(1)));
        assert_eq!(again.superseded, [3]);
        // Only the last reply, and only for a summary.
        assert!(aligned(&[user("a"), reply("b"), user("c"), reply("d")], &list).branches);
        assert!(aligned(&[user("a"), Entry::calling(None, &[("c1", "look", "{}")])], &list).branches);
        assert!(aligned(&[user("a"), reply("b")], &[user("a"), user("c")]).branches);
        let whole = aligned(&[user("a"), reply("b")], &[user("a"), reply("b"), ask]);
        assert_eq!((whole.covered, whole.branches, whole.left_out), (2, false, None));
    }

    #[test]
    fn wrappers_come_and_go() {
        let reminder = user("<system-reminder>be kind</system-reminder>");
        let talk = [user("a"), reminder.clone(), reply("b")];
        let without = aligned(&talk, &[user("a"), reply("b"), user("c")]);
        assert_eq!((without.covered, without.branches), (2, false));
        let with =
            aligned(&[user("a"), reply("b")], &[user("a"), reminder.clone(), reply("b"), reminder.clone()]);
        assert_eq!((with.covered, with.branches), (3, false));
        assert_eq!(with.places, [Some(0), None, Some(1), None], "the new one at the end is new");
    }
}
