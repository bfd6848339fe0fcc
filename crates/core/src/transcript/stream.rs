//! Transcripts of JSON lines, read line by line: a file of any size takes the memory of one piece of it.
//!
//! Formats in which a line is a conversation give them one by one. Those in which a line is a message give a conversation in
//! pieces, cut where no entry is split.

use super::lines::JsonLine;
use super::{Format, ReadConversation, Transcript, TranscriptError, codex, goose, openai_finetune, sharegpt};
use crate::decision::Decision;
use crate::entry::Role;

/// Messages after which a piece ends, and bytes of them.
const PIECE: usize = 1_000;
const PIECE_BYTES: usize = 4 << 20;

/// Reads a transcript line by line.
///
/// ```
/// use scrollback_core::transcript::{Format, TranscriptStream};
/// let mut stream = TranscriptStream::new(Format::OpenaiFinetune).unwrap();
/// for line in [r#"{"messages":[{"role":"user","content":"a"}]}"#, "broken", r#"{"messages":[{"role":"user","content":"b"}]}"#] {
///     stream.line(line);
/// }
/// let read = stream.finish()?;
/// assert_eq!((read.conversations.len(), read.failed[0].line), (2, 2));
/// # Ok::<(), scrollback_core::transcript::TranscriptError>(())
/// ```
pub struct TranscriptStream {
    reading: StreamState,
    number: usize,
    byte: usize,
    ready: Transcript,
    bytes: usize,
    /// Entries of the conversation in pieces that were handed over, and how many of them lead.
    before: usize,
    lead: usize,
}

enum StreamState {
    Finetune { examples: usize },
    Sharegpt { conversations: usize },
    Codex(Box<codex::Rollout>),
    Goose(Box<goose::GooseSession>),
}

impl TranscriptStream {
    /// A reader of a format; none if its lines do not stand for themselves.
    pub fn new(format: Format) -> Option<Self> {
        let reading = match format {
            Format::OpenaiFinetune => StreamState::Finetune { examples: 0 },
            Format::Sharegpt => StreamState::Sharegpt { conversations: 0 },
            Format::Codex => StreamState::Codex(Box::default()),
            Format::Goose => StreamState::Goose(Box::default()),
            _ => return None,
        };
        let ready = Transcript::default();
        Some(TranscriptStream { reading, number: 0, byte: 0, ready, bytes: 0, before: 0, lead: 0 })
    }

    /// Reads the next line, given without its end.
    pub fn line(&mut self, text: &str) {
        self.number += 1;
        let line = JsonLine { number: self.number, byte: self.byte, text };
        self.byte += text.len() + 1;
        if text.trim().is_empty() {
            return;
        }
        if let Err(error) = self.read(line) {
            self.ready.failed.push(error);
        }
        self.bytes += text.len();
    }

    /// Passes over a line that was not even taken into memory.
    pub fn skip(&mut self, bytes: usize, problem: String) {
        self.number += 1;
        self.ready.failed.push(TranscriptError { line: self.number, byte: self.byte, problem });
        self.byte += bytes;
    }

    fn read(&mut self, line: JsonLine<'_>) -> Result<(), TranscriptError> {
        let members = line.object()?;
        let large = self.bytes > PIECE_BYTES;
        match &mut self.reading {
            StreamState::Finetune { examples } => {
                let read = openai_finetune::conversations(line, &members, &mut self.ready.failed)?;
                *examples += 1;
                self.ready.conversations.extend(read);
                Ok(())
            }
            StreamState::Sharegpt { conversations } => {
                let read = sharegpt::conversation_in(line, &members, &mut self.ready.failed)?;
                *conversations += 1;
                self.ready.conversations.push(read);
                Ok(())
            }
            StreamState::Codex(rollout) => {
                let full = large || rollout.len() >= PIECE;
                let piece = if full { rollout.take_before(&members, &mut self.ready.failed) } else { None };
                let read = rollout.line(line, &members);
                self.hand_over(piece);
                read
            }
            StreamState::Goose(session) => {
                let full = large || session.len() >= PIECE;
                let piece = if full { Some(session.take(&mut self.ready.failed)) } else { None };
                let read = session.line(line, &members);
                self.hand_over(piece);
                read
            }
        }
    }

    /// What is complete: whole conversations, and pieces of one.
    pub fn take(&mut self) -> Transcript {
        if matches!(self.reading, StreamState::Finetune { .. } | StreamState::Sharegpt { .. }) {
            self.bytes = 0;
        }
        std::mem::take(&mut self.ready)
    }

    /// Whether a piece of a conversation waits to be taken.
    pub fn ready_pieces(&self) -> bool {
        let whole = matches!(self.reading, StreamState::Finetune { .. } | StreamState::Sharegpt { .. });
        !whole && !self.ready.conversations.is_empty()
    }

    /// Bytes that were read since something was handed over.
    pub fn held(&self) -> usize {
        self.bytes
    }

    fn hand_over(&mut self, piece: Option<ReadConversation>) {
        let Some(mut piece) = piece else { return };
        self.bytes = 0;
        if self.before == 0 {
            self.lead = piece.entries.iter().take_while(|entry| entry.role == Role::System).count();
        }
        piece.before = self.before;
        for decided in &mut piece.decisions {
            decided.after += self.before;
            shift(&mut decided.decision, self.before, self.lead);
        }
        self.before += piece.entries.len();
        self.ready.conversations.push(piece);
    }

    /// The rest; an error if nothing of the format was in the whole text.
    pub fn finish(mut self) -> Result<Transcript, TranscriptError> {
        let failed = &mut self.ready.failed;
        let (piece, known) = match &mut self.reading {
            StreamState::Finetune { examples } => (None, *examples > 0),
            StreamState::Sharegpt { conversations } => (None, *conversations > 0),
            StreamState::Codex(rollout) => (Some(rollout.take(failed)), rollout.known()),
            StreamState::Goose(session) => {
                let rest = session.take(failed);
                let known = self.before > 0 || !rest.entries.is_empty() || !rest.notes.is_empty();
                (Some(rest), known)
            }
        };
        if !known {
            let problem = "no line is one of this format".into();
            let first = std::mem::take(failed).into_iter().next();
            return Err(first.unwrap_or(TranscriptError { line: 0, byte: 0, problem }));
        }
        self.hand_over(piece);
        Ok(self.ready)
    }
}

/// A decision about the entries of a piece as one about those of the whole: what stands for the beginning of a piece stands
/// for everything before it, except what leads.
fn shift(decision: &mut Decision, before: usize, lead: usize) {
    if before == 0 {
        return;
    }
    match decision {
        Decision::Summary { covers, .. } => {
            for span in covers.iter_mut() {
                *span = (lead as u64, span.1 + before as u64);
            }
        }
        Decision::Cut { before: place, .. } => *place += before as u64,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(format: Format, text: &str) -> Vec<Transcript> {
        let mut stream = TranscriptStream::new(format).unwrap();
        let mut parts = Vec::new();
        for line in text.lines() {
            stream.line(line);
            parts.push(stream.take());
        }
        parts.push(stream.finish().unwrap());
        parts
    }

    #[test]
    fn line_by_line_gives_what_the_whole_text_gives() {
        for (format, text) in [
            (
                Format::OpenaiFinetune,
                include_str!("../../../../corpus/transcript/openai-finetune/chat.jsonl"),
            ),
            (
                Format::OpenaiFinetune,
                include_str!("../../../../corpus/transcript/openai-finetune/preference.jsonl"),
            ),
            (Format::Codex, include_str!("../../../../corpus/transcript/codex/rollout.jsonl")),
            (Format::Codex, include_str!("../../../../corpus/transcript/codex/bare.jsonl")),
        ] {
            let whole = crate::transcript::read(Some(format), text).unwrap();
            let parts = read(format, text);
            let failed: Vec<_> = parts.iter().flat_map(|part| part.failed.clone()).collect();
            let conversations: Vec<_> = parts.into_iter().flat_map(|part| part.conversations).collect();
            assert_eq!(failed, whole.failed, "{format}");
            assert_eq!(format!("{conversations:?}"), format!("{:?}", whole.conversations), "{format}");
        }
    }

    #[test]
    fn a_long_rollout_comes_in_pieces_that_split_no_entry() {
        let item = |kind: &str, rest: &str| {
            format!(r#"{{"type":"response_item","payload":{{"type":"{kind}",{rest}}}}}"#)
        };
        let mut text =
            String::from(r#"{"type":"session_meta","payload":{"id":"s","instructions":"Be brief."}}"#);
        for number in 0..1_500 {
            for line in [
                item("message", r#""role":"user","content":[{"type":"input_text","text":"go on"}]"#),
                item("reasoning", r#""summary":[],"encrypted_content":"x""#),
                item("function_call", &format!(r#""name":"f","arguments":"{{}}","call_id":"c{number}""#)),
                item("function_call_output", &format!(r#""call_id":"c{number}","output":"done""#)),
            ] {
                text.push('\n');
                text.push_str(&line);
            }
            if number == 1_200 {
                text.push_str("\n{\"type\":\"compacted\",\"payload\":{\"message\":\"So far.\"}}");
            }
        }
        let whole = crate::transcript::read(Some(Format::Codex), &text).unwrap();
        let pieces: Vec<_> =
            read(Format::Codex, &text).into_iter().flat_map(|part| part.conversations).collect();
        assert!(pieces.len() > 4, "{}", pieces.len());
        let raws = |conversation: &ReadConversation| -> Vec<String> {
            conversation.entries.iter().map(|entry| entry.origin.raw.to_string()).collect()
        };
        let joined: Vec<String> = pieces.iter().flat_map(raws).collect();
        assert_eq!(joined, raws(&whole.conversations[0]));
        let decided: Vec<_> = pieces.iter().flat_map(|piece| piece.decisions.clone()).collect();
        assert_eq!(format!("{decided:?}"), format!("{:?}", whole.conversations[0].decisions));
        assert!(pieces.iter().all(|piece| piece.id.as_deref() == Some("s")));
    }
}
