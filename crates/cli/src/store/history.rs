//! `scrollback history`: the conversation with one person.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use anstyle::{AnsiColor, Reset, Style};
use scrollback_agent::ModelSummarizer;
use scrollback_core::wire::{RenderOptions, Wire};
use scrollback_core::{Entry, Fidelity, ItemSource, Role, Slot, Time, ViewItem};
use scrollback_store::erasure::ErasureMode;
use scrollback_store::{
    Compaction, Conversation, ConversationId, Erase, Expected, Listing, NewEntry, Offline, Recipient,
    RecordsExt, Status, Store, StoredEntry, Summarizer, Tenant, Which, compact, hex, history,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::args::{AppendArgs, CompactArgs, EraseArgs, HistoryAction, HistoryArgs, ShowArgs, StatusArgs};
use super::{
    Intent, Setup, block_on, conversation_named, now, one_line, recipient_named, short, time_named, width,
};
use crate::agent::provider_named;
use crate::amounts::counted;
use crate::failure::{FAILED, Failure, USAGE};
use crate::{answer, input, load};

pub(crate) fn run(args: &HistoryArgs, json: bool) -> Result<(), Failure> {
    let recipient = recipient_named(&args.recipient)?;
    let setup = Setup::new(&args.store)?;
    let conversation = args.conversation.as_deref().map(conversation_named).transpose()?;
    let cx = Cx { tenant: setup.tenant(), setup, recipient, conversation, json };
    let action = args.action.as_ref();
    match action {
        None => cx.show(&args.show),
        Some(HistoryAction::Show(show)) => cx.show(show),
        Some(HistoryAction::Append(append)) => cx.append(append),
        Some(HistoryAction::Compact(compact)) => cx.compact(compact),
        Some(HistoryAction::Status(status)) => cx.status(status),
        Some(HistoryAction::Close) => {
            cx.status(&StatusArgs { new: Some(Status::Closed.name().into()), at: None })
        }
        Some(HistoryAction::Erase(erase)) => cx.erase(erase),
    }
}

/// Most conversations that are listed with a history.
const MOST: usize = 200;

/// The words of `history` that say what to do.
const ACTIONS: [&str; 6] = ["show", "append", "compact", "status", "close", "erase"];

/// What to write instead, where the action came before the recipient: `history append anna`.
pub(crate) fn swapped(arguments: impl Iterator<Item = String>) -> Option<Failure> {
    let mut words =
        arguments.skip_while(|word| word != "history").skip(1).take_while(|word| !word.starts_with('-'));
    let action = words.next().filter(|word| ACTIONS.contains(&word.as_str()))?;
    let recipient = words.next().filter(|word| !ACTIONS.contains(&word.as_str()))?;
    let message = format!(
        "the recipient comes before `{action}`; did you mean `scrollback history {recipient} {action} …`?"
    );
    let failure = Failure::new(USAGE, "usage", message);
    Some(failure.with("suggestion", format!("scrollback history {recipient} {action}")))
}

/// The role of that name; a usage error that lists the four otherwise.
pub(super) fn role_named(name: &str) -> Result<Role, Failure> {
    let all = [Role::System, Role::User, Role::Assistant, Role::Tool];
    all.into_iter().find(|role| role.as_str() == name).ok_or_else(|| {
        let known = all.map(Role::as_str).to_vec();
        let message = format!("unknown role {name:?} (known: {})", known.join(", "));
        Failure::new(USAGE, "unknown_role", message).with("known", known)
    })
}

/// The status of that name; a usage error that lists the four otherwise.
pub(super) fn status_named(name: &str) -> Result<Status, Failure> {
    Status::named(name).ok_or_else(|| {
        let known = Status::ALL.map(Status::name).to_vec();
        let message = format!("unknown status {name:?} (known: {})", known.join(", "));
        Failure::new(USAGE, "unknown_status", message).with("known", known)
    })
}

struct Cx {
    setup: Setup,
    tenant: Tenant,
    recipient: Recipient,
    /// The conversation that was named.
    conversation: Option<ConversationId>,
    json: bool,
}

impl Cx {
    /// The conversation that was named, else the current one, else the one with them that was written last.
    async fn current(&self, store: &dyn Store) -> Result<Conversation, Failure> {
        let none = |what: String| {
            let message = format!("there is no conversation{what} with {:?}", self.recipient.as_str());
            Failure::new(FAILED, "not_found", message)
        };
        if let Some(id) = &self.conversation {
            let found = store.conversation(&self.tenant, id).await?;
            let theirs = found.recipient.as_ref() == Some(&self.recipient);
            return if theirs { Ok(found) } else { Err(none(format!(" {id}"))) };
        }
        match store.current(&self.tenant, &self.recipient).await? {
            Some(current) => Ok(current),
            None => self.all(store, 1).await?.pop().map(|(row, _)| row).ok_or_else(|| none(String::new())),
        }
    }

    /// The conversations with the recipient, written last first.
    async fn all(&self, store: &dyn Store, limit: usize) -> Result<Vec<(Conversation, u64)>, Failure> {
        let listing = Listing { which: Which::With(self.recipient.clone()), limit, ..Listing::default() };
        Ok(store.list(Some(&self.tenant), listing).await?.conversations)
    }

    /// A line for each of several conversations, above the one that is shown.
    fn others(&self, all: &[(Conversation, u64)], shown: &ConversationId) -> String {
        if all.len() < 2 || self.conversation.is_some() {
            return String::new();
        }
        let dim = Style::new().dimmed();
        let mut out = format!("{dim}{} conversations (--conversation ID shows another):{Reset}\n", all.len());
        for (row, messages) in all {
            let mark = if row.id == *shown { '*' } else { ' ' };
            let title = row.title.as_deref().unwrap_or_default();
            let _ = writeln!(
                out,
                "{mark} {}  {}  {messages:>5} entries  {}",
                row.id,
                short(row.updated_at),
                one_line(title, 40)
            );
        }
        out.push('\n');
        out
    }

    /// Prints an object for programs, or text for people.
    fn print(&self, object: &Value, text: &str) -> Result<(), Failure> {
        if self.json { input::print(&format!("{object}\n")) } else { input::print_styled(text) }
    }

    fn show(&self, args: &ShowArgs) -> Result<(), Failure> {
        let wire = input::wire_named(Some(&args.to))?.unwrap_or(Wire::OpenaiChat);
        block_on(async {
            let store = self.setup.open(Intent::Look).await?;
            let conversation = self.current(store.as_ref()).await?;
            let settings = conversation.settings.unwrap_or(self.setup.config.history()?);
            let turns = args.turns.unwrap_or(settings.max_recent_turns);
            let told = history(store.as_ref(), &self.tenant, &conversation.id, turns).await?;
            let places = if args.all {
                store.entries(&self.tenant, &conversation.id, 0, u64::MAX).await?
            } else {
                Vec::new()
            };
            let all = self.all(store.as_ref(), MOST).await?;
            if !self.json {
                let lines = if args.all { all_lines(&places) } else { lines(&told.items) };
                return input::print_styled(&(self.others(&all, &conversation.id) + &lines));
            }
            let positions = if args.all {
                places.iter().map(|placed| placed.position).collect()
            } else {
                let entry = |item: &ViewItem| match item.source {
                    ItemSource::Entry(position) => Some(position),
                    _ => None,
                };
                told.items.iter().filter_map(entry).collect()
            };
            let (system, messages) = if args.all {
                (None, places.iter().flat_map(|placed| said(placed, wire)).collect())
            } else {
                let rendered = told.render(wire);
                for lost in &rendered.lost {
                    input::note(&format!("not in {wire}: {} ({})", lost.what, lost.reason));
                }
                (rendered.system, rendered.messages)
            };
            let raw = |text: String| RawValue::from_string(text).ok();
            let shown = HistoryJson {
                recipient: self.recipient.as_str(),
                key: self.recipient.key(),
                conversation: conversation.id.as_str(),
                status: conversation.status().name(),
                summary: told.summary,
                system: system.and_then(raw),
                messages: messages.into_iter().filter_map(raw).collect(),
                positions,
                conversations: all.iter().map(|(row, messages)| brief(row, *messages)).collect(),
                counts: json!({
                    "entries": told.messages,
                    "turns": conversation.turns,
                    "covered_turns": conversation.turns.saturating_sub(conversation.uncovered_turns),
                }),
                head: json!({ "position": conversation.head, "link": hex(&conversation.head_link) }),
            };
            input::print(&format!("{}\n", answer::to_json(&shown)?))
        })
    }

    fn append(&self, args: &AppendArgs) -> Result<(), Failure> {
        let role = role_named(&args.role)?;
        if role == Role::Tool && args.content.is_some() && args.call_id.is_none() {
            let message = "a tool's result answers a call: name it with --call-id ID";
            return Err(Failure::new(USAGE, "usage", message));
        }
        let entries = match (&args.content, args.file.as_ref().or(args.input.as_ref())) {
            (Some(text), _) if role == Role::Tool && args.call_id.is_some() => {
                vec![Entry::result(args.call_id.as_deref().unwrap_or_default(), text)]
            }
            (Some(text), _) => vec![Entry::text(role, text)],
            (None, Some(file)) => messages(file)?,
            (None, None) => Vec::new(),
        };
        if entries.is_empty() {
            return Err(Failure::new(crate::failure::INVALID, "bad_input", "there are no messages in it"));
        }
        let expected = args.expect.map_or(Expected::Any, Expected::At);
        block_on(async {
            let store = self.setup.open(Intent::Write).await?;
            let at = now();
            let said = NewEntry::evaluation(entries, at);
            let done = if self.conversation.is_some() {
                let id = self.current(store.as_ref()).await?.id;
                store.append(&self.tenant, at, &id, expected, said).await?
            } else {
                store.append_for(&self.tenant, at, &self.recipient, expected, said).await?
            };
            let text = if done.first == done.last {
                format!("appended at position {}\n", done.first)
            } else {
                format!("appended at positions {} to {}\n", done.first, done.last)
            };
            self.print(&json!({ "first": done.first, "last": done.last, "link": hex(&done.link) }), &text)
        })
    }

    fn compact(&self, args: &CompactArgs) -> Result<(), Failure> {
        let writer: Box<dyn Summarizer> = match args.model.as_str() {
            "offline" => Box::new(Offline),
            model => Box::new(ModelSummarizer::new(provider_named(&self.setup.config.catalog(), model)?)),
        };
        block_on(async {
            let store = self.setup.open(Intent::Look).await?;
            let conversation = self.current(store.as_ref()).await?;
            let mut settings = conversation.settings.unwrap_or(self.setup.config.history()?);
            settings.recent_turns_to_keep = args.keep.unwrap_or(settings.recent_turns_to_keep);
            let done =
                compact(store.as_ref(), &self.tenant, &conversation.id, &settings, &*writer, now()).await?;
            let not = |reason: &str| json!({ "compacted": false, "covers": null, "summary": null, "reason": reason });
            match done {
                Compaction::Done { covers: (first, last), text, .. } => self.print(
                    &json!({ "compacted": true, "covers": [first, last], "summary": text }),
                    &format!("positions {first} to {last} are now summarised as:\n{text}\n"),
                ),
                Compaction::UnderBound => {
                    let max = settings.max_turns_before_compaction;
                    let told = format!("nothing to do: at most {max} turns since the last summary\n");
                    self.print(&not("under_bound"), &told)
                }
                Compaction::Stale => {
                    self.print(&not("stale"), "another summary was written first and is kept\n")
                }
                Compaction::Failed(reason) => Err(Failure::new(FAILED, "summary_failed", reason)),
            }
        })
    }

    fn status(&self, args: &StatusArgs) -> Result<(), Failure> {
        let wanted = args.new.as_deref().map(status_named).transpose()?;
        let at = time_named(args.at.as_deref())?.unwrap_or_else(now);
        let follow_ups = self.setup.config.follow_ups();
        block_on(async {
            let intent = if wanted.is_some() { Intent::Write } else { Intent::Look };
            // A status of nothing is not set, and no store is made for it.
            let store = self.setup.open(if self.setup.exists() { intent } else { Intent::Look }).await?;
            let mut conversation = self.current(store.as_ref()).await?;
            if let Some(status) = wanted {
                store.write(&self.tenant, at, |tx| _ = tx.status(&conversation.id, status)).await?;
                conversation = self.current(store.as_ref()).await?;
            }
            let follow_up = follow_ups.of(&conversation, at);
            let text = |time: Option<Time>| time.map(|time| time.to_string());
            let object = json!({
                "recipient": self.recipient.as_str(),
                "status": conversation.status().name(),
                "status_at": text(conversation.status_at),
                "last_role": conversation.last_role.map(Role::as_str),
                "last_at": text(conversation.last_said_at),
                "turns": conversation.turns,
                "follow_up": { "due": follow_up.due, "at": text(follow_up.at) },
            });
            let due = match follow_up.at {
                Some(at) if follow_up.due => format!("follow up: due since {}", short(at)),
                Some(at) => format!("follow up: at {}", short(at)),
                None => "follow up: not due".into(),
            };
            self.print(&object, &format!("{}\n{due}\n", conversation.status()))
        })
    }

    fn erase(&self, args: &EraseArgs) -> Result<(), Failure> {
        let what = args.positions.as_deref().map(positions).transpose()?;
        if !args.yes {
            let message = "what is erased cannot be brought back; say --yes to do it";
            return Err(Failure::new(USAGE, "usage", message));
        }
        block_on(async {
            let store = self.setup.open(Intent::Look).await?;
            if what.is_none() && self.conversation.is_none() {
                // A person's data are in all conversations with them, those that were rewound included.
                let mode = ErasureMode::Erase;
                let done =
                    super::erase::certify(store.as_ref(), &self.tenant, &self.recipient, &args.reason, mode);
                return super::erase::tell(&done.await?, self.json);
            }
            let current = self.current(store.as_ref()).await?;
            let count = store
                .erase(&self.tenant, &current.id, what.unwrap_or(Erase::All), &args.reason, now())
                .await?;
            if count.pending {
                input::note("copies stay in the log until current readers finish; they go by themselves");
            }
            for left in store.leftovers() {
                input::note(&format!("left: {} ({}), until {}", left.what, left.place, left.until));
            }
            let text = format!(
                "{} erased, {} and {} emptied, {} touched\n",
                counted(count.erased, "message"),
                counted(count.sent, "model call"),
                counted(count.runs, "run"),
                counted(count.forks, "fork")
            );
            self.print(&serde_json::to_value(count).unwrap_or_default(), &text)
        })
    }
}

/// The `--json` object of `show`.
#[derive(serde::Serialize)]
struct HistoryJson<'a> {
    recipient: &'a str,
    key: String,
    conversation: &'a str,
    status: &'a str,
    summary: Option<String>,
    /// Where the wire has a field for instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Box<RawValue>>,
    messages: Vec<Box<RawValue>>,
    counts: Value,
    head: Value,
    /// The positions of what is shown, in order; what stands for others has none.
    positions: Vec<u64>,
    /// All conversations with the recipient, written last first.
    conversations: Vec<Value>,
}

/// A conversation in a list of them.
fn brief(row: &Conversation, messages: u64) -> Value {
    json!({
        "conversation": row.id.as_str(), "kind": row.kind.as_str(), "title": row.title,
        "status": row.status().name(), "updated_at": row.updated_at.to_string(), "entries": messages,
    })
}

/// The messages of a file, whatever wire or transcript it is.
fn messages(file: &Path) -> Result<Vec<Entry>, Failure> {
    let how = load::LoadOptions { from: None, take: None, conversation: None };
    let loaded = match how.load_file(file) {
        // A text that is no text is refused as such, not as bad JSON.
        Err(failure) if failure.says("surrogate") => return Err(failure.turned(FAILED, "bad_text")),
        other => other?,
    };
    let message = |slot: &Slot| match slot {
        Slot::Message(entry) => Some(Entry::clone(entry)),
        _ => None,
    };
    Ok(loaded.record.slots().iter().filter_map(message).collect())
}

/// A range of positions, as in `4-7` or `4`.
fn positions(text: &str) -> Result<Erase, Failure> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.trim().parse().ok().zip(last.trim().parse().ok()).filter(|(first, last)| first <= last);
    let bad =
        || Failure::new(USAGE, "usage", format!("{text:?} is not a range of positions; write it as in 4-7"));
    range.map(|range| Erase::Positions(vec![range])).ok_or_else(bad)
}

/// A place of the record as JSON: a message of the wire, a decision or a tombstone in the neutral form.
fn said(placed: &StoredEntry, wire: Wire) -> Vec<String> {
    let position = placed.position;
    match &placed.slot {
        Slot::Message(entry) => {
            let source = ItemSource::Entry(position);
            let item = ViewItem { source, entry: Arc::clone(entry), fidelity: Fidelity::AsSaid };
            let rendered = wire.render([item], RenderOptions::default());
            match rendered.system {
                Some(system) if rendered.messages.is_empty() => {
                    vec![format!("{{\"role\":\"system\",\"content\":{system}}}")]
                }
                _ => rendered.messages,
            }
        }
        Slot::Decision(decision, at) => {
            vec![json!({ "position": position, "created_at": at.to_string(), "decision": **decision }).to_string()]
        }
        Slot::Erased(erased) => vec![
            json!({
                "position": position, "role": erased.role, "created_at": erased.created_at.to_string(), "erased": true,
                "body_hash": hex(&erased.body_hash),
            })
            .to_string(),
        ],
    }
}

/// What an entry says in a few words.
fn gist(entry: &Entry) -> String {
    let mut parts: Vec<String> = entry.content().into_iter().filter(|text| !text.trim().is_empty()).collect();
    for call in entry.tool_calls() {
        parts.push(format!("{}({})", call.name.as_str(), call.arguments.as_str()));
    }
    if parts.is_empty() { "(nothing)".into() } else { parts.join(" ") }
}

fn line(out: &mut String, position: Option<u64>, when: Option<Time>, who: &str, what: &str) {
    let dim = Style::new().dimmed();
    let colour = match who {
        "user" => AnsiColor::Cyan.on_default(),
        "assistant" => AnsiColor::Green.on_default(),
        "tool" => AnsiColor::Yellow.on_default(),
        _ => dim,
    };
    let when = when.filter(|time| *time != Time(0)).map(short).unwrap_or_default();
    let position = position.map_or_else(String::new, |position| position.to_string());
    let text = one_line(what, width().saturating_sub(20 + when.len().max(16)));
    let _ = writeln!(out, "{dim}{position:>5}  {when:16}{Reset}  {colour}{who:9}{Reset}  {text}");
}

fn lines(items: &[ViewItem]) -> String {
    let mut out = String::new();
    for item in items {
        match &item.source {
            ItemSource::Summary { .. } => line(&mut out, None, None, "summary", &gist(&item.entry)),
            ItemSource::Ledger { .. } => line(&mut out, None, None, "ledger", &gist(&item.entry)),
            ItemSource::Entry(position) => {
                let (when, who) = (Some(item.entry.created_at), item.entry.role.as_str());
                line(&mut out, Some(*position), when, who, &gist(&item.entry));
            }
            ItemSource::Interrupted { .. } => {
                line(&mut out, None, None, item.entry.role.as_str(), &gist(&item.entry));
            }
        }
    }
    out
}

fn all_lines(places: &[StoredEntry]) -> String {
    let mut out = String::new();
    for placed in places {
        let (at, when) = (Some(placed.position), Some(placed.slot.created_at()));
        match &placed.slot {
            Slot::Message(entry) => line(&mut out, at, when, entry.role.as_str(), &gist(entry)),
            Slot::Decision(decision, _) => {
                line(&mut out, at, when, "decision", &serde_json::to_string(&**decision).unwrap_or_default());
            }
            Slot::Erased(erased) => line(&mut out, at, when, erased.role.as_str(), "(erased)"),
        }
    }
    out
}
