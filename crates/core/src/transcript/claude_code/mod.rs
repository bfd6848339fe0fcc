//! Claude Code sessions: JSON lines that form a tree. The path to the newest leaf is the conversation, other branches
//! and sub-agents are conversations of their own, and a compaction is a summary of all that came before it.
//!
//! The format is internal to its tool and changes; whatever has no place in a message stays as a note.

mod line;
mod tree;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;

use self::line::{SessionLine, Strand, blocks};
use self::tree::{MessageNode, ParentLink, Path, Tree};
use super::draft::{BetweenEntries, ConversationDraft, finish};
use super::lines::{MemberReaders, first_objects, lines, not_this_format};
use super::print::{PrintedObject, list};
use super::{FoundMessage, Parent, Relation, Source, Transcript, TranscriptError};
use crate::entry::Meta;
use crate::json::Raw;
use crate::wire::Wire;

/// Members of a message's line that are kept elsewhere, or only say how the line is filed.
const PLACED: [&str; 18] = [
    "agentId",
    "cwd",
    "gitBranch",
    "isCompactSummary",
    "isMeta",
    "isSidechain",
    "isVisibleInTranscriptOnly",
    "logicalParentUuid",
    "message",
    "parentUuid",
    "requestId",
    "sessionId",
    "slug",
    "timestamp",
    "type",
    "userType",
    "uuid",
    "version",
];

/// Whether the text is a session: lines with an id that hang on one another.
pub(crate) fn looks_like(text: &str) -> bool {
    first_objects(text).any(|line| {
        let filed = line.get("sessionId").is_some() && line.get("parentUuid").is_some();
        let has = |kind: &str, key: &str| {
            line.text("type").is_some_and(|word| word == kind) && line.get(key).is_some()
        };
        filed
            || has("summary", "leafUuid")
            || has("file-history-snapshot", "snapshot")
            || has("ai-title", "aiTitle")
    })
}

/// Reads a session, or the file of a sub-agent.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    let (drafts, failed) = found(text)?;
    Ok(finish(drafts, Wire::Anthropic, failed))
}

/// The conversations of a session, the main one first.
fn found(text: &str) -> Result<(Vec<ConversationDraft>, Vec<TranscriptError>), TranscriptError> {
    let mut failed = Vec::new();
    let mut written: Vec<SessionLine<'_>> = Vec::new();
    let mut repeated: Vec<SessionLine<'_>> = Vec::new();
    let mut ids: BTreeSet<Cow<'_, str>> = BTreeSet::new();
    for line in lines(text) {
        match SessionLine::read(line) {
            Ok(line) => {
                let first = line.uuid.as_ref().is_none_or(|uuid| ids.insert(uuid.clone()));
                if first { written.push(line) } else { repeated.push(line) }
            }
            Err(error) => failed.push(error),
        }
    }
    if !written.iter().any(|line| line.members.get("type").is_some()) {
        let problem = "not a Claude Code session: no line is an object with a `type`";
        return Err(failed.into_iter().next().unwrap_or_else(|| not_this_format(problem)));
    }
    let mut session =
        SessionReader { tree: Tree::new(&written), lines: &written, drafts: Vec::new(), heads: Vec::new() };
    session.read();
    session.keep_notes(&repeated);
    Ok((session.drafts, failed))
}

/// A session on its way from lines to conversations.
struct SessionReader<'l, 'a> {
    lines: &'l [SessionLine<'a>],
    tree: Tree<'a>,
    drafts: Vec<ConversationDraft>,
    /// The first conversation of each strand, which also gets the strand's notes.
    heads: Vec<(&'l Strand<'a>, usize)>,
}

impl<'l, 'a> SessionReader<'l, 'a> {
    fn read(&mut self) {
        let strands: BTreeSet<&'l Strand<'a>> =
            self.lines.iter().filter(|line| line.message.is_some()).map(|line| &line.strand).collect();
        for strand in strands {
            let paths = self.tree.paths(self.lines, strand);
            self.read_strand(strand, &paths);
        }
        if self.drafts.is_empty() {
            let id = self.lines.iter().rev().find_map(|line| line.members.text("sessionId"));
            let mut draft = ConversationDraft::default();
            draft.head.id = id.map(Cow::into_owned);
            self.drafts.push(draft);
        }
    }

    /// The conversations of one strand, those after the first in the order in which they begin.
    fn read_strand(&mut self, strand: &'l Strand<'a>, paths: &[Path]) {
        let ids: Vec<Option<String>> =
            paths.iter().enumerate().map(|(number, path)| self.id(strand, path, number == 0)).collect();
        let mut order: Vec<usize> = (0..paths.len()).collect();
        order.sort_by_key(|number| {
            let first = paths.get(*number).and_then(|path| self.line_of(*path.nodes.first()?));
            (*number > 0, first.map(|line| line.line.number))
        });
        self.heads.push((strand, self.drafts.len()));
        for number in order {
            let Some(path) = paths.get(number) else { continue };
            let mut draft = self.draft(path);
            draft.head.id = ids.get(number).cloned().flatten();
            draft.head.parent = match path.branch {
                Some((node, other)) => {
                    let id = ids.get(other).cloned().flatten();
                    id.map(|id| Parent { id, at: self.uuid_of(node) })
                }
                None => self.employer(strand, path),
            };
            if path.branch.is_none() && *strand != Strand::Main {
                draft.head.relation = Relation::Helper;
            }
            self.drafts.push(draft);
        }
    }

    /// The session is known by its id, a sub-agent within it by its own, a branch by its first message.
    fn id(&self, strand: &Strand<'_>, path: &Path, first: bool) -> Option<String> {
        let session = self.line_of(*path.nodes.last()?)?.members.text("sessionId")?;
        let own = || self.uuid_of(*path.nodes.first()?);
        Some(match strand {
            Strand::Main if first => session.into_owned(),
            Strand::Side(Some(agent)) if first => format!("{session}/{agent}"),
            _ => format!("{session}/{}", own()?),
        })
    }

    /// For whom a sub-agent works: the session, and the message its first line hangs on.
    fn employer(&self, strand: &Strand<'_>, path: &Path) -> Option<Parent> {
        let first = *self.tree.nodes.get(*path.nodes.first()?)?.lines.first()?;
        if *strand == Strand::Main {
            return None;
        }
        let session = self.lines.get(first)?.members.text("sessionId")?;
        let at = match self.tree.links.get(first)? {
            ParentLink::Line(up) => self.lines.get(*up)?.uuid.as_ref().map(|uuid| uuid.clone().into_owned()),
            ParentLink::Missing(uuid, _) => Some(uuid.clone().into_owned()),
            ParentLink::Root => None,
        };
        Some(Parent { id: session.into_owned(), at })
    }

    fn draft(&self, path: &Path) -> ConversationDraft {
        let mut draft = ConversationDraft::default();
        for &at in &path.nodes {
            let Some(node) = self.tree.nodes.get(at) else { continue };
            let Some(first) = self.line_of(at) else { continue };
            self.note_envelopes(node, &mut draft);
            if let (true, false, Some(message)) = (first.is_summary(), draft.found.is_empty(), &first.message)
            {
                let covers = self.kept(node).and_then(|kept| {
                    draft.found.iter().position(|found| found.source.id.as_deref() == Some(kept.as_ref()))
                });
                let covers = covers.unwrap_or(draft.found.len());
                draft.say(BetweenEntries::Summary { text: message.texts(), covers, by: "claude-code" });
                draft.note(first.line.number, "isCompactSummary", Some(first.line.text));
            } else {
                let lines: Vec<&SessionLine<'_>> =
                    node.lines.iter().filter_map(|at| self.lines.get(*at)).collect();
                draft.push(first.line.byte, message(&lines));
            }
        }
        draft
    }

    /// Members of the lines that a message has no place for, and what was assumed about where they belong.
    fn note_envelopes(&self, node: &MessageNode, draft: &mut ConversationDraft) {
        for &at in &node.lines {
            let Some(line) = self.lines.get(at) else { continue };
            draft.note_rest(line.line.number, &line.members, &PLACED);
            if let Some(ParentLink::Missing(_, Some(before))) = self.tree.links.get(at) {
                let before = self.lines.get(*before).map_or(0, |line| line.line.number);
                let assumed =
                    format!("parentUuid names no line of this file; read as following line {before}");
                draft.note(line.line.number, assumed, None);
            }
        }
    }

    /// The first message that the compaction above a summary kept.
    fn kept(&self, summary: &MessageNode) -> Option<Cow<'a, str>> {
        let mut at = *summary.lines.first()?;
        while let Some(ParentLink::Line(up)) = self.tree.links.get(at) {
            let line = self.lines.get(*up)?;
            if line.message.is_some() {
                return None;
            }
            if line.kind == "system" {
                return line.first_kept();
            }
            at = *up;
        }
        None
    }

    /// Lines that are no messages, in the first conversation of their strand; among them are the titles.
    fn keep_notes(&mut self, repeated: &[SessionLine<'_>]) {
        let main = self.heads.iter().find(|(strand, _)| **strand == Strand::Main).map_or(0, |(_, at)| *at);
        let mut titles: [Option<String>; 3] = [None, None, None];
        for line in self.lines.iter().filter(|line| line.message.is_none()) {
            let ranks = [("custom-title", "customTitle"), ("ai-title", "aiTitle"), ("summary", "summary")];
            for (title, (kind, key)) in titles.iter_mut().zip(ranks) {
                if let Some(text) = line.members.text(key).filter(|_| line.kind == kind) {
                    *title = Some(text.into_owned());
                }
            }
            let head =
                self.heads.iter().find(|(strand, _)| **strand == line.strand).map_or(main, |(_, at)| *at);
            if let Some(draft) = self.drafts.get_mut(head) {
                draft.note(line.line.number, line.kind.as_ref(), Some(line.line.text));
            }
        }
        if let Some(draft) = self.drafts.get_mut(main) {
            draft.head.title = titles.into_iter().flatten().next();
            for line in repeated {
                draft.note(
                    line.line.number,
                    "uuid appears twice; the first line with it is read",
                    Some(line.line.text),
                );
            }
        }
    }

    fn line_of(&self, node: usize) -> Option<&'l SessionLine<'a>> {
        self.tree.first_line(self.lines, node)
    }

    fn uuid_of(&self, node: usize) -> Option<String> {
        self.line_of(node)?.uuid.as_ref().map(|uuid| uuid.clone().into_owned())
    }
}

/// One message from all its lines: what a request would hold of it, and the rest as meta.
fn message(lines: &[&SessionLine<'_>]) -> FoundMessage {
    let Some(first) = lines.first() else { return FoundMessage::default() };
    let messages = || lines.iter().filter_map(|line| line.message.as_ref());
    let plain =
        |keys: &[(Cow<'_, str>, Raw<'_>)]| keys.iter().all(|(key, _)| key == "role" || key == "content");
    let raw = match (&first.message, lines.len()) {
        (Some(message), 1) if plain(message.members.members()) && message.members.get("role").is_some() => {
            message.raw.text().to_string()
        }
        (Some(message), count) => {
            let content = if count == 1 {
                message.content.text().to_string()
            } else {
                list(&messages().flat_map(|message| blocks(message.content)).collect::<Vec<_>>())
            };
            let role = if message.is_assistant() { "assistant" } else { "user" };
            PrintedObject::message(role).raw("content", &content).end()
        }
        (None, _) => String::new(),
    };
    let last = |key: &str| {
        let text = messages().filter_map(|message| message.members.text(key)).next_back();
        text.map(Cow::into_owned)
    };
    let mut meta = Meta {
        model_served: last("model"),
        response_id: last("id"),
        stop_raw: last("stop_reason"),
        usage: messages().filter_map(line::LineMessage::usage).next_back(),
        request_id: lines.iter().find_map(|line| line.members.text("requestId")).map(Cow::into_owned),
        ..Meta::default()
    };
    for key in ["uuid", "cwd", "gitBranch"] {
        if let Some(value) = first.members.text(key).filter(|value| !value.is_empty()) {
            meta.tags.insert(format!("claude-code.{key}"), value.into_owned());
        }
    }
    for key in ["isMeta", "isCompactSummary"] {
        if first.members.is_true(key) {
            meta.tags.insert(format!("claude-code.{key}"), "true".into());
        }
    }
    let id = first.uuid.as_ref().map(|uuid| uuid.clone().into_owned());
    FoundMessage { raw, source: Source { line: first.line.number, id }, time: first.time, meta: Some(meta) }
}
