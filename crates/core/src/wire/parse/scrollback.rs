//! Our own form: every place of a record, with the exact text of what was said there.

use std::sync::Arc;

use uuid::Uuid;

use super::at::At;
use super::read::{message_list, object};
use crate::chain::Link;
use crate::decision::Decision;
use crate::entry::{Entry, Meta, Part, Role, Time};
use crate::json::{self, JsonKind, Object, Raw};
use crate::record::{Slot, Tombstone};
use crate::wire::{Between, ParseOptions, Parsed, Wire, WireError};

/// Where the entries are.
const ENTRIES: At<'_> = At::Key(&At::Body, "entries");

/// Reads a record in the neutral form. Entries keep the evaluation, sequence and time they have there.
pub(crate) fn parse(body: Raw<'_>, options: &ParseOptions) -> Result<Parsed, WireError> {
    if body.kind() == JsonKind::Object {
        let version = body.get("scrollback").map(Raw::text);
        if version != Some("1") {
            let found = version.unwrap_or("none");
            let problem = format!("unsupported version: `scrollback` must be 1, not {found}");
            return Err(WireError::bad_input(problem).at("/scrollback"));
        }
    }
    let (list, _, shape) = message_list(body, "entries")?;
    let mut parsed = Parsed::around(shape);
    for (index, place) in list.elements().take(options.take.unwrap_or(usize::MAX)).enumerate() {
        let path = ENTRIES.index(index);
        let place = NeutralEntry { members: object(place, &path, "an entry")?, path };
        if place.number("position")? != index as u64 {
            return Err(
                place.bad("position", format!("positions count from 0 without gaps: this is {index}"))
            );
        }
        if let Some(decision) = place.members.get("decision") {
            let decision: Decision = serde_json::from_str(decision.text())
                .map_err(|error| place.bad("decision", format!("not a decision: {error}")))?;
            let slot = Slot::Decision(Arc::new(decision), place.time()?);
            parsed.between.push(Between { position: index as u64, slot });
        } else if place.members.get("erased").is_some() {
            let slot = Slot::Erased(Box::new(place.tombstone()?));
            parsed.between.push(Between { position: index as u64, slot });
        } else {
            let entry = place.entry()?;
            parsed.entries.push(entry);
            parsed.indexes.push(Some(index));
        }
    }
    // Ids that were given because the wire has none are no part of the text: they are given again.
    super::gemini::give_ids(&mut parsed.entries);
    Ok(parsed)
}

/// One place of the record.
struct NeutralEntry<'a> {
    members: Object<'a>,
    path: At<'a>,
}

impl NeutralEntry<'_> {
    fn bad(&self, key: &str, problem: String) -> WireError {
        WireError::bad_message(self.path.key(key), problem)
    }

    fn text(&self, key: &str) -> Result<String, WireError> {
        let text = self.members.get(key).and_then(Raw::string);
        text.map(std::borrow::Cow::into_owned).ok_or_else(|| self.bad(key, format!("`{key}` must be a text")))
    }

    fn number(&self, key: &str) -> Result<u64, WireError> {
        let number = self.members.get(key).and_then(|value| value.text().parse().ok());
        number.ok_or_else(|| self.bad(key, format!("`{key}` must be a whole number")))
    }

    fn time(&self) -> Result<Time, WireError> {
        Time::parse(&self.text("created_at")?)
            .ok_or_else(|| self.bad("created_at", "`created_at` must be a time as in RFC 3339".into()))
    }

    fn role(&self) -> Result<Role, WireError> {
        Ok(match self.text("role")?.as_str() {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            _ => {
                return Err(self.bad("role", "unknown role: expected system, user, assistant or tool".into()));
            }
        })
    }

    fn evaluation(&self) -> Result<Uuid, WireError> {
        Uuid::parse_str(&self.text("evaluation_id")?)
            .map_err(|_| self.bad("evaluation_id", "`evaluation_id` must be a UUID".into()))
    }

    fn tombstone(&self) -> Result<Tombstone, WireError> {
        let hash = self.text("body_hash")?;
        let bytes = (hash.len() == 64).then(|| {
            let digits = hash.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
            digits.map(|pair| u8::from_str_radix(pair, 16)).collect::<Result<Vec<u8>, _>>().ok()
        });
        let body_hash: Link = bytes
            .flatten()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| self.bad("body_hash", "`body_hash` must be 64 hexadecimal digits".into()))?;
        Ok(Tombstone {
            role: self.role()?,
            evaluation_id: self.evaluation()?,
            sequence: self.number("sequence")?,
            created_at: self.time()?,
            body_hash,
        })
    }

    fn entry(&self) -> Result<Entry, WireError> {
        let word = self.text("wire")?;
        let wire = Wire::named(&word)
            .filter(|wire| *wire != Wire::Scrollback)
            .ok_or_else(|| self.bad("wire", format!("unknown wire {word:?}")))?;
        let raw = self.text("raw")?;
        let message = json::check(&raw).map_err(|error| self.bad("raw", format!("not JSON: {error}")))?;
        let role = self.role()?;
        let entry = wire.read_entry(role, message).map_err(|error| self.bad("raw", error.to_string()))?;
        let mut entry = entry.stamped(self.evaluation()?, self.number("sequence")?, self.time()?);
        if entry.role != role {
            return Err(self.bad("role", format!("the message was said by {}, not by {role}", entry.role)));
        }
        if let Some(part) = self.members.get("part").filter(|part| part.kind() != JsonKind::Null) {
            let part: Part = serde_json::from_str(part.text())
                .map_err(|error| self.bad("part", format!("not a part: {error}")))?;
            entry.origin.part = Some(Box::new(part));
        }
        if let Some(meta) = self.members.get("meta").filter(|meta| meta.members().next().is_some()) {
            let meta: Meta = serde_json::from_str(meta.text())
                .map_err(|error| self.bad("meta", format!("not what is known about an entry: {error}")))?;
            entry.meta = Some(Box::new(meta));
        }
        Ok(entry)
    }
}
