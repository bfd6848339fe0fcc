//! What commands work on: messages of any wire, or a conversation of any transcript, as a record.

use std::path::Path;

use scrollback_core::json::{self, Raw};
use scrollback_core::model::{ModelName, usual_model};
use scrollback_core::transcript::{self, Format, Transcript, TranscriptError};
use scrollback_core::wire::{Body, ParseOptions, Wire, WireError, list_key, system_key};
use scrollback_core::{InputFormat, Record, Slot, Tools};

use crate::args::InputArgs;
use crate::failure::{Failure, INVALID, USAGE};
use crate::input;

/// How an input shall be read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadOptions {
    /// In which format; detected if none.
    pub(crate) from: Option<InputFormat>,
    /// How many messages; all if none.
    pub(crate) take: Option<usize>,
    /// Which conversation of a transcript, from 0; the first if none.
    pub(crate) conversation: Option<usize>,
}

/// How many conversations of an input are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversations {
    /// The one that is named, or the first.
    One,
    /// All of them.
    All,
}

/// An input, read.
pub(crate) struct LoadedInput {
    /// The wire the messages are in.
    pub(crate) wire: Wire,
    /// The transcript they were found in, if it was one.
    pub(crate) transcript: Option<Format>,
    pub(crate) record: Record,
    /// For each position, the message it came from by its place in the input; none for what stands elsewhere.
    pub(crate) indexes: Vec<Option<usize>>,
    pub(crate) body: Body,
    pub(crate) tools: Option<Tools>,
    /// The model that the body or the transcript names.
    pub(crate) model: Option<ModelName>,
    /// What the reader had to assume, and what it could not read.
    pub(crate) notes: Vec<String>,
    /// Which of several conversations of the input it is.
    pub(crate) one_of: Option<OneOf>,
}

/// A conversation of an input that holds several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OneOf {
    /// Its number, from 1.
    pub(crate) number: usize,
    /// How many there are.
    pub(crate) of: usize,
}

/// The format of that name; a usage error that lists them all otherwise.
pub(crate) fn format_named(name: Option<&str>) -> Result<Option<InputFormat>, Failure> {
    let Some(name) = name else { return Ok(None) };
    InputFormat::named(name).map(Some).ok_or_else(|| {
        let known = InputFormat::names();
        let message = format!("unknown wire or transcript format {name:?} (known: {})", known.join(", "));
        Failure::new(USAGE, "unknown_wire", message).with("known", known)
    })
}

impl LoadOptions {
    /// Reads a file, or the folder of a session.
    pub(crate) fn load_file(self, file: &Path) -> Result<LoadedInput, Failure> {
        let all = self.read_file(file)?;
        self.pick(all, file)
    }

    /// Reads the bytes of a file.
    pub(crate) fn load_bytes(self, bytes: &[u8], file: &Path) -> Result<LoadedInput, Failure> {
        let all = self.read(bytes, file).map_err(|failure| failure.about(file))?;
        self.pick(all, file)
    }

    /// Reads the bytes of a file: the conversations a command line asks for.
    pub(crate) fn load_bytes_asked(
        self,
        bytes: &[u8],
        file: &Path,
        which: Conversations,
    ) -> Result<Vec<LoadedInput>, Failure> {
        if which == Conversations::One || self.conversation.is_some() {
            return self.load_bytes(bytes, file).map(|one| vec![one]);
        }
        Ok(numbered(self.read(bytes, file).map_err(|failure| failure.about(file))?))
    }

    /// The conversation that is wanted.
    fn pick(self, mut all: Vec<LoadedInput>, file: &Path) -> Result<LoadedInput, Failure> {
        let several = all.len();
        let wanted = self.conversation.unwrap_or(0);
        if wanted >= several {
            let message = format!(
                "there is no conversation {}: the transcript has {several}, counted from 1",
                wanted + 1
            );
            return Err(Failure::new(INVALID, "bad_input", message)
                .with("conversations", several)
                .about(file));
        }
        let mut loaded = all.swap_remove(wanted);
        loaded.one_of = (several > 1).then_some(OneOf { number: wanted + 1, of: several });
        if several > 1 && self.conversation.is_none() {
            loaded
                .notes
                .insert(0, format!("conversation 1 of {several} (--conversation N for another, --all)"));
        }
        Ok(loaded)
    }

    /// What a command line asks for.
    pub(crate) fn of(args: &InputArgs) -> Result<Self, Failure> {
        let counted_from_1 = args.conversation.map(|number| (number - 1) as usize);
        Ok(LoadOptions {
            from: format_named(args.from.as_deref())?,
            take: args.take,
            conversation: counted_from_1.or(args.take_conversation),
        })
    }

    /// The conversations a command line asks for: all of them, or one.
    pub(crate) fn load_asked(self, file: &Path, which: Conversations) -> Result<Vec<LoadedInput>, Failure> {
        match which {
            Conversations::One => self.load_file(file).map(|one| vec![one]),
            Conversations::All => self.load_all(file),
        }
    }

    /// Reads a file with all its conversations, or only the one that is wanted.
    pub(crate) fn load_all(self, file: &Path) -> Result<Vec<LoadedInput>, Failure> {
        if self.conversation.is_some() {
            return self.load_file(file).map(|one| vec![one]);
        }
        self.read_file(file).map(numbered)
    }

    fn read_file(self, file: &Path) -> Result<Vec<LoadedInput>, Failure> {
        // A folder that is no session is only a folder, which cannot be read.
        if file.join("agents").is_dir() {
            let read = transcript::read_strands_folder(&input::read_folder(file)?);
            return self.conversations(Format::Strands, read, file).map_err(|failure| failure.about(file));
        }
        let bytes = input::read(file)?;
        self.read(&bytes, file).map_err(|failure| failure.about(file))
    }

    /// Reads bytes: a body of some wire, or a transcript.
    fn read(self, bytes: &[u8], file: &Path) -> Result<Vec<LoadedInput>, Failure> {
        let text = match (std::str::from_utf8(bytes), self.from) {
            (_, Some(InputFormat::Wire(_))) | (Err(_), None) => None,
            (Ok(text), _) => Some(text),
            (Err(error), Some(InputFormat::Transcript(_))) => {
                let message = format!("not UTF-8 at byte {}", error.valid_up_to());
                return Err(Failure::new(INVALID, "bad_json", message).with("byte", error.valid_up_to()));
            }
        };
        let format = match (self.from, text) {
            (Some(InputFormat::Transcript(format)), _) => Some(format),
            (None, Some(text)) => transcript::detect(text),
            _ => None,
        };
        match (format, text) {
            (Some(format), Some(text)) => {
                self.conversations(format, transcript::read(Some(format), text), file)
            }
            _ => input::check(bytes).and_then(|body| self.load_body(body)),
        }
    }

    /// Reads a body that is JSON already, with all its conversations or only the one that is wanted.
    pub(crate) fn load_body(self, body: Raw<'_>) -> Result<Vec<LoadedInput>, Failure> {
        let named = match self.from {
            Some(InputFormat::Wire(wire)) => Some(wire),
            Some(InputFormat::Transcript(format)) => {
                let file = Path::new("-");
                let all = self.conversations(format, transcript::read(Some(format), body.text()), file)?;
                return match self.conversation {
                    Some(_) => self.pick(all, file).map(|one| vec![one]),
                    None => Ok(all),
                };
            }
            None => None,
        };
        let wire = named.or_else(|| Wire::detect(body)).ok_or_else(|| no_messages(body))?;
        let model = model_of_body(body, wire);
        let mut parsed = wire.parse(body, &ParseOptions { take: self.take, ..ParseOptions::default() })?;
        let notes = std::mem::take(&mut parsed.notes);
        let (body, tools) = (parsed.body.clone(), parsed.tools.take());
        let indexes = parsed.indexes.clone();
        let record = parsed.into_record()?;
        let indexes = by_position(&record, &indexes);
        let (transcript, one_of) = (None, None);
        Ok(vec![LoadedInput { wire, transcript, record, indexes, body, tools, model, notes, one_of }])
    }

    fn conversations(
        self,
        format: Format,
        read: Result<Transcript, TranscriptError>,
        file: &Path,
    ) -> Result<Vec<LoadedInput>, Failure> {
        let read = read.map_err(|error| {
            Failure::new(INVALID, "bad_input", format!("{format}: {error}"))
                .with("line", error.line)
                .with("byte", error.byte)
        })?;
        for error in &read.failed {
            input::note(&format!("{}: not read: {error}", file.display()));
        }
        let mut all = Vec::with_capacity(read.conversations.len());
        for mut conversation in read.conversations {
            let (wire, tools) = (conversation.wire(), conversation.tools.take());
            let (record, found) = conversation.into_record(self.take)?;
            let notes = kinds(&found);
            let numbers: Vec<_> = (0..record.message_count()).map(Some).collect();
            let indexes = by_position(&record, &numbers);
            let transcript = Some(format);
            let model = usual_model(record.slots());
            all.push(LoadedInput {
                wire,
                transcript,
                record,
                indexes,
                body: Body::List,
                tools,
                model,
                notes,
                one_of: None,
            });
        }
        if all.is_empty() {
            let message = format!("the {format} transcript holds no conversation");
            return Err(Failure::new(INVALID, "bad_input", message));
        }
        Ok(all)
    }
}

/// The model that a request names. A name that nothing is known of says nothing about counting and rules.
pub(crate) fn model_of_body(body: Raw<'_>, wire: Wire) -> Option<ModelName> {
    let name = body.get("model")?.string()?;
    let model = ModelName::resolve(&name, wire.provider()).ok()?;
    scrollback_core::model::facts(&model).map(|_| model)
}

/// Conversations that know their number.
fn numbered(mut all: Vec<LoadedInput>) -> Vec<LoadedInput> {
    let of = all.len();
    for (at, loaded) in all.iter_mut().enumerate() {
        loaded.one_of = (of > 1).then_some(OneOf { number: at + 1, of });
    }
    all
}

/// Notes of one kind in one line.
fn kinds(notes: &[transcript::Note]) -> Vec<String> {
    let mut counts: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for note in notes {
        *counts.entry(note.kind.as_str()).or_default() += 1;
    }
    let line = |(kind, count): (&str, usize)| {
        if count > 1 {
            format!("not imported: {kind}, {count} times")
        } else {
            format!("not imported: {kind}")
        }
    };
    counts.into_iter().map(line).collect()
}

/// The message of each position, decisions and erased places skipped.
fn by_position(record: &Record, indexes: &[Option<usize>]) -> Vec<Option<usize>> {
    let mut indexes = indexes.iter().copied();
    let place = |slot: &Slot| if matches!(slot, Slot::Message(_)) { indexes.next().flatten() } else { None };
    record.slots().iter().map(place).collect()
}

/// Why a body without a known shape cannot be read.
pub(crate) fn no_messages(body: Raw<'_>) -> WireError {
    let what = match body.kind() {
        json::JsonKind::Object if body.get("role").is_some() => {
            "a single message (wrap it in [ ])".to_string()
        }
        json::JsonKind::Object => "an object without `messages`".to_string(),
        other => other.name().to_string(),
    };
    WireError::bad_input(format!("expected a list of messages or an object with `messages`, found {what}"))
}

impl LoadedInput {
    /// The message a position came from, by its place in the input's list; none for what stands elsewhere.
    pub(crate) fn index(&self, position: u64) -> Option<u64> {
        self.indexes.get(position as usize).copied().flatten().map(|index| index as u64)
    }

    /// JSON pointer, from the body, of something inside the message at `position`.
    ///
    /// In the neutral form it ends at the text of the message. A transcript has no list: its entries are counted.
    pub(crate) fn pointer(&self, position: u64, path: &str) -> String {
        if self.wire == Wire::Scrollback {
            return format!("/entries/{position}/raw");
        }
        match self.index(position) {
            Some(index) if self.transcript.is_some() => format!("/entries/{index}{path}"),
            Some(index) => {
                // Several items of one list may be one entry; its text is then a list of them.
                let listed =
                    self.record.entry(position).is_some_and(|entry| entry.origin.raw.starts_with('['));
                let (number, rest) = match path.strip_prefix('/') {
                    Some(inner) if listed => match inner.split_once('/') {
                        Some((number, rest)) => (number, format!("/{rest}")),
                        None => (inner, String::new()),
                    },
                    _ => ("0", path.to_string()),
                };
                let index = index + number.parse::<u64>().unwrap_or_default();
                format!("/{}/{index}{rest}", list_key(self.wire))
            }
            None => system_key(self.wire).map_or_else(|| path.into(), |key| format!("/{key}{path}")),
        }
    }
    /// Says which of several conversations this is: once for each where all are shown, else only if none was named.
    pub(crate) fn say_which(&self, which: Conversations) {
        match (self.one_of, which) {
            (Some(OneOf { number, of }), Conversations::All) => {
                input::note(&format!("conversation {number} of {of}"));
            }
            (Some(_), Conversations::One) => {
                self.notes
                    .iter()
                    .filter(|note| note.starts_with("conversation "))
                    .for_each(|note| input::note(note));
            }
            (None, _) => {}
        }
    }

    /// Members that say which conversation an answer is about, where there are several.
    pub(crate) fn which_members(&self) -> WhichConversation {
        WhichConversation {
            conversation: self.one_of.map(|one| one.number),
            conversations: self.one_of.map(|one| one.of),
        }
    }
}

/// Which conversation an answer is about, in the answer.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct WhichConversation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) conversation: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) conversations: Option<usize>,
}
