//! Transcripts of files and folders, read for a replay.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use scrollback_core::transcript::{self, Format, Transcript};
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{InputFormat, Record, Slot, Tools, json};
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};

/// Larger files are not read: their text and its record must fit into memory together.
const MOST_BYTES: u64 = 256 << 20;
/// Bytes of files whose conversations stay in memory. Those of further files are read again when they are replayed.
const HELD_BYTES: u64 = 256 << 20;
/// Endings of files that are looked at in folders.
const READ: [&str; 7] = ["json", "jsonl", "ndjson", "traj", "yaml", "yml", "log"];

/// A transcript, or a line of one, that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadTranscript {
    /// The file or folder.
    pub file: String,
    /// The line, from 1; 0 where the whole file is meant.
    pub line: u64,
    /// One lower-case line, without the file's name.
    pub problem: String,
}

/// What is replayed of one conversation.
#[derive(Clone, Debug)]
pub struct ReplayContent {
    /// What was said and decided.
    pub slots: Vec<Slot>,
    /// The tools its calls offered, where they are known.
    pub tools: Option<Tools>,
    /// The wire its calls were made on, where it is known.
    pub wire: Option<Wire>,
    /// How many tokens its calls allowed the reply, where it is known.
    pub output: Option<u64>,
}

/// One conversation to replay.
#[derive(Clone, Debug)]
pub struct ReplaySource {
    /// The file it is from; none for one of a store.
    pub file: Option<PathBuf>,
    /// Its place in the file, from 0, or its id in the store.
    pub id: Value,
    /// None where the file is read again.
    pub(super) content: Option<ReplayContent>,
    format: Option<InputFormat>,
}

impl ReplaySource {
    /// A conversation of a store.
    pub fn stored(id: &str, content: ReplayContent) -> Self {
        ReplaySource { file: None, id: id.into(), content: Some(content), format: None }
    }

    /// How a place of it is named: by handle in a store, by file elsewhere.
    pub fn place(&self, position: u64) -> String {
        match (&self.file, self.id.as_str()) {
            (None, Some(id)) => {
                let tail = id.get(id.len().saturating_sub(10)..).unwrap_or(id).to_lowercase();
                format!("sb:{tail}#{position}")
            }
            (file, _) => format!("{}#{position}", file.as_deref().unwrap_or(Path::new("-")).display()),
        }
    }

    fn number(&self) -> usize {
        self.id.as_u64().map_or(0, |number| number as usize)
    }
}

/// Conversations to replay, and what could not be read.
#[derive(Debug, Default)]
pub struct ReplaySources {
    /// In the order of files, and as they stand in each.
    pub conversations: Vec<ReplaySource>,
    /// Transcripts and lines that could not be read.
    pub failed: Vec<UnreadTranscript>,
}

impl ReplaySources {
    /// Reads these files and folders; `-` is standard input. `format` is detected where it is none. Stops after `enough`
    /// conversations. A path that does not exist is an error; what cannot be read of the rest is listed as failed.
    pub fn read(paths: &[PathBuf], format: Option<InputFormat>, enough: Option<usize>) -> Result<Self> {
        let mut sources = ReplaySources::default();
        let mut held = 0;
        for path in paths {
            for file in sources.files_of(path)? {
                if enough.is_some_and(|enough| sources.conversations.len() >= enough) {
                    sources.conversations.truncate(enough.unwrap_or(usize::MAX));
                    return Ok(sources);
                }
                held += sources.take(&file, format, held);
            }
        }
        sources.conversations.truncate(enough.unwrap_or(usize::MAX));
        Ok(sources)
    }

    /// Reads one file; returns its bytes if its conversations stay in memory, of which `held` bytes are used.
    fn take(&mut self, file: &Path, format: Option<InputFormat>, held: u64) -> u64 {
        let failed = |line, problem| UnreadTranscript { file: file.display().to_string(), line, problem };
        let read = match read(file, format) {
            Ok(read) => read,
            Err((line, problem)) => {
                self.failed.push(failed(line, problem));
                return 0;
            }
        };
        self.failed.extend(read.failed.into_iter().map(|(line, problem)| failed(line, problem)));
        // Standard input cannot be read twice.
        let is_held = file == Path::new("-") || held + read.bytes <= HELD_BYTES;
        for (number, content) in read.conversations.into_iter().enumerate() {
            self.conversations.push(ReplaySource {
                file: Some(file.into()),
                id: number.into(),
                content: is_held.then_some(content),
                format,
            });
        }
        if is_held { read.bytes } else { 0 }
    }

    /// The files below a path, in order of their names. The folder of a session is one transcript. A folder that cannot be
    /// listed is failed, and one that was met before, by a link, is passed over.
    fn files_of(&mut self, path: &Path) -> Result<Vec<PathBuf>> {
        if path == Path::new("-") {
            return Ok(vec![path.into()]);
        }
        fs::metadata(path).map_err(|error| {
            let message = format!("{}: {error}", path.display());
            Error::new(ErrorKind::Input, message).at("not_found", "")
        })?;
        let mut files = BTreeSet::new();
        let (mut open, mut seen) = (vec![path.to_path_buf()], HashSet::new());
        while let Some(next) = open.pop() {
            if !next.is_dir() || next.join("agents").is_dir() {
                files.insert(next);
                continue;
            }
            if !seen.insert(fs::canonicalize(&next).unwrap_or_else(|_| next.clone())) {
                continue;
            }
            let listed = fs::read_dir(&next).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
            match listed {
                Ok(entries) => open.extend(entries.into_iter().map(|entry| entry.path())),
                Err(error) => self.failed.push(UnreadTranscript {
                    file: next.display().to_string(),
                    line: 0,
                    problem: format!("the folder cannot be listed: {error}"),
                }),
            }
        }
        // What is named is read whatever it is; of a folder only what may be a transcript.
        if path.is_dir() {
            let looked_at =
                |file: &Path| file.extension().is_some_and(|end| READ.iter().any(|one| end == *one));
            files.retain(|file| file.is_dir() || looked_at(file));
        }
        Ok(files.into_iter().collect())
    }
}

/// Some conversations of one file that are replayed together.
pub(super) struct ReplayJob {
    /// Where they begin in the list of all.
    pub(super) first: usize,
    pub(super) count: usize,
}

/// The conversations in jobs: one each where they are in memory, else all of one file, which is then read once.
pub(super) fn jobs(conversations: &[ReplaySource]) -> Vec<ReplayJob> {
    let is_together = |one: &ReplaySource, next: &ReplaySource| {
        one.content.is_none() && next.content.is_none() && one.file == next.file
    };
    let mut first = 0;
    let chunks = conversations.chunk_by(is_together);
    let jobs = chunks.map(|chunk| {
        let job = ReplayJob { first, count: chunk.len() };
        first += chunk.len();
        job
    });
    jobs.collect()
}

/// The contents of the conversations of one job. One that is no longer there, because its file changed, is empty.
pub(super) fn contents(job: &[ReplaySource]) -> Vec<Cow<'_, ReplayContent>> {
    let gone = || ReplayContent { slots: Vec::new(), tools: None, wire: None, output: None };
    let mut again: Option<Vec<Option<ReplayContent>>> = None;
    let mut contents = Vec::with_capacity(job.len());
    for source in job {
        contents.push(match (&source.content, &source.file) {
            (Some(content), _) => Cow::Borrowed(content),
            (None, Some(file)) => {
                let all = again.get_or_insert_with(|| {
                    let read = read(file, source.format).map(|read| read.conversations).unwrap_or_default();
                    read.into_iter().map(Some).collect()
                });
                Cow::Owned(all.get_mut(source.number()).and_then(Option::take).unwrap_or_else(gone))
            }
            (None, None) => Cow::Owned(gone()),
        });
    }
    contents
}

/// A line and what is wrong with it.
type Problem = (u64, String);

/// One file, read.
struct ReadFile {
    conversations: Vec<ReplayContent>,
    failed: Vec<Problem>,
    bytes: u64,
}

fn read(file: &Path, format: Option<InputFormat>) -> Result<ReadFile, Problem> {
    if file.is_dir() {
        let files = files_with_text(file)?;
        let bytes = files.iter().map(|(_, text)| text.len() as u64).sum();
        let read =
            transcript::read_strands_folder(&files).map_err(|error| (error.line as u64, error.problem))?;
        return conversations(Format::Strands, read, bytes);
    }
    let bytes = bytes_of(file)?;
    let size = bytes.len() as u64;
    let wire = format.and_then(InputFormat::wire);
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        Err(error) => return Err((0, format!("not UTF-8 at byte {}", error.valid_up_to()))),
    };
    let named = format.and_then(InputFormat::transcript);
    let found = if wire.is_some() { None } else { named.or_else(|| transcript::detect(text)) };
    if let Some(found) = found {
        let read = transcript::read(Some(found), text)
            .map_err(|error| (error.line as u64, format!("{found}: {}", error.problem)))?;
        return conversations(found, read, size);
    }
    let body = json::check(text).map_err(|error| {
        let line = text.get(..error.offset).map_or(0, |before| before.matches('\n').count() as u64 + 1);
        (line, error.to_string())
    })?;
    let wire = wire
        .or_else(|| Wire::detect(body))
        .ok_or((0, "no transcript and no list of messages of a format that is known".to_string()))?;
    let parsed = wire.parse(body, &ParseOptions::default()).map_err(|error| (0, error.to_string()))?;
    let tools = parsed.tools.clone();
    let record = parsed.into_record().map_err(|error| (0, error.to_string()))?;
    Ok(ReadFile { conversations: vec![content(&record, tools, wire)], failed: Vec::new(), bytes: size })
}

fn content(record: &Record, tools: Option<Tools>, wire: Wire) -> ReplayContent {
    let wire = Some(wire).filter(|wire| *wire != Wire::Scrollback);
    ReplayContent { slots: record.slots().to_vec(), tools, wire, output: None }
}

fn conversations(format: Format, read: Transcript, bytes: u64) -> Result<ReadFile, Problem> {
    let mut failed: Vec<Problem> = read
        .failed
        .into_iter()
        .map(|error| (error.line as u64, format!("{format}: {}", error.problem)))
        .collect();
    let mut found = Vec::with_capacity(read.conversations.len());
    for mut conversation in read.conversations {
        let (wire, tools) = (conversation.wire(), conversation.tools.take());
        match conversation.into_record(None) {
            Ok((record, _)) => found.push(content(&record, tools, wire)),
            Err(error) => failed.push((0, error.to_string())),
        }
    }
    if found.is_empty() && failed.is_empty() {
        return Err((0, format!("the {format} transcript holds no conversation")));
    }
    Ok(ReadFile { conversations: found, failed, bytes })
}

/// The bytes of a file, if it is not too large.
fn bytes_of(file: &Path) -> Result<Vec<u8>, Problem> {
    let failed = |error: std::io::Error| (0, error.to_string());
    let too_large = |size: u64| {
        (0, format!("{size} bytes are more than the {MOST_BYTES} that are read of one file; split it"))
    };
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin().lock().take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        let open = fs::File::open(file).map_err(failed)?;
        let size = open.metadata().map_err(failed)?.len();
        if size > MOST_BYTES {
            return Err(too_large(size));
        }
        open.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    }
    if bytes.len() as u64 > MOST_BYTES { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
}

/// The files of the folder of a session, by their path inside it; what is no text is passed over.
fn files_with_text(folder: &Path) -> Result<Vec<(String, String)>, Problem> {
    let (mut files, mut size) = (Vec::new(), 0_u64);
    let (mut open, mut seen) = (vec![folder.to_path_buf()], HashSet::new());
    while let Some(next) = open.pop() {
        if !seen.insert(fs::canonicalize(&next).unwrap_or_else(|_| next.clone())) {
            continue;
        }
        for entry in fs::read_dir(&next).map_err(|error| (0, error.to_string()))? {
            let path = entry.map_err(|error| (0, error.to_string()))?.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            size += path.metadata().map_or(0, |found| found.len());
            if size > MOST_BYTES {
                return Err((
                    0,
                    format!("its files have more than the {MOST_BYTES} bytes that are read of one session"),
                ));
            }
            if let Ok(text) = fs::read_to_string(&path) {
                let inside = path.strip_prefix(folder).unwrap_or(&path);
                files.push((inside.to_string_lossy().replace('\\', "/"), text));
            }
        }
    }
    files.sort();
    Ok(files)
}
