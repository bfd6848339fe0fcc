//! `scrollback import`: other tools' conversations, and our own exports.

use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use scrollback_core::transcript::{self, Format, Source, Transcript};
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{Time, json};
use scrollback_store::export::{Check, Reader, is_header};
use scrollback_store::import::{Imported, Importer, Mode};
use scrollback_store::{Memory, Recipient, Store};
use serde_json::{Value, json};

use super::args::ImportArgs;
use super::progress::Progress;
use super::{Intent, Setup, block_on, now, recipient_named};
use crate::failure::{FAILED, Failure};
use crate::input;
use crate::load::{Written, format_named};

/// Longest line that is read as one; more is no message.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// The name under which ids of our own exports are remembered.
const OWN: &str = "scrollback";

/// A file that could not be read, or a line of one.
struct Failed {
    file: String,
    line: usize,
    problem: String,
}

pub(crate) fn run(args: &ImportArgs, json: bool) -> Result<ExitCode, Failure> {
    let format = format_named(args.format.as_deref())?;
    let recipient = args.recipient.as_deref().map(recipient_named).transpose()?;
    let setup = Setup::new(&args.store)?;
    block_on(async {
        let intent = if args.dry_run { Intent::Look } else { Intent::Write };
        let store = setup.open(intent).await?;
        let mut import = Import {
            args,
            setup: &setup,
            store,
            format,
            recipient,
            done: Imported::default(),
            failed: Vec::new(),
        };
        let progress = Progress::new(args.files.len());
        for file in &args.files {
            progress.next(file);
            if let Err(problem) = import.file(file).await {
                let file = file.display().to_string();
                import.failed.push(Failed { file, line: 0, problem: problem.to_string() });
            }
        }
        progress.finish();
        import.print(json)
    })
}

struct Import<'a> {
    args: &'a ImportArgs,
    setup: &'a Setup,
    store: Arc<dyn Store>,
    format: Option<Written>,
    recipient: Option<Recipient>,
    done: Imported,
    failed: Vec<Failed>,
}

impl Import<'_> {
    async fn file(&mut self, file: &Path) -> Result<(), Failure> {
        if file.is_dir() {
            let read = transcript::read_strands_folder(&input::read_folder(file)?);
            return self.transcript(Format::Strands, read, file).await;
        }
        if let Some(rows) = super::goose::sessions(file)? {
            for (session, title, rows) in rows {
                let read = transcript::read_goose_rows(&session, title.as_deref(), &rows);
                self.transcript(Format::Goose, Ok(read), file).await?;
            }
            return Ok(());
        }
        if matches!(self.format, None | Some(Written::Wire(Wire::Scrollback))) && begins_like_ours(file)? {
            return self.own(file).await;
        }
        let bytes = input::read(file)?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            Failure::new(FAILED, "bad_input", format!("not UTF-8 at byte {}", error.valid_up_to()))
        })?;
        let format = match self.format {
            Some(Written::Transcript(format)) => Some(format),
            Some(Written::Wire(_)) => None,
            None => transcript::detect(text),
        };
        match format {
            Some(format) => self.transcript(format, transcript::read(Some(format), text), file).await,
            None => self.body(text, file).await,
        }
    }

    fn importer(&self, format: &str, file: &Path) -> Importer {
        let modified = std::fs::metadata(file).and_then(|file| file.modified()).ok();
        let since =
            modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
        // A dry run knows what is there, and writes nothing.
        let mode = if self.args.dry_run { Mode::DryRun } else { Mode::Write };
        Importer {
            store: Arc::clone(&self.store),
            tenant: self.setup.tenant(),
            format: format.into(),
            recipient: self.recipient.clone(),
            fallback: Time(i64::try_from(since.as_millis()).unwrap_or_default()),
            now: now(),
            mode,
        }
    }

    async fn transcript(
        &mut self,
        format: Format,
        read: Result<Transcript, transcript::TranscriptError>,
        file: &Path,
    ) -> Result<(), Failure> {
        let read = read.map_err(|error| Failure::new(FAILED, "bad_input", error.to_string()))?;
        let bad = read.failed.into_iter().map(|error| Failed {
            file: file.display().to_string(),
            line: error.line,
            problem: error.problem,
        });
        let bad: Vec<Failed> = bad.collect();
        let stop = self.args.strict && !bad.is_empty();
        self.failed.extend(bad);
        if stop {
            return Ok(());
        }
        let importer = self.importer(format.name(), file);
        for (number, conversation) in read.conversations.into_iter().enumerate() {
            let session = session(file, number);
            self.done.and(importer.conversation(conversation, &session).await?);
        }
        Ok(())
    }

    /// A request or a list of messages of some wire.
    async fn body(&mut self, text: &str, file: &Path) -> Result<(), Failure> {
        let bad = |problem: String| Failure::new(FAILED, "bad_input", problem);
        let body = json::check(text)
            .map_err(|error| bad(format!("not valid JSON: {} at line {}", error.problem, error.line)))?;
        let wire = match self.format {
            Some(Written::Wire(wire)) => Some(wire),
            _ => Wire::detect(body),
        };
        let wire = wire.ok_or_else(|| bad("neither messages nor a transcript of a known format".into()))?;
        let parsed = wire.parse(body, &ParseOptions::default()).map_err(|error| bad(error.to_string()))?;
        let sources = (1..=parsed.entries.len()).map(|line| Source { line, id: None }).collect();
        let notes =
            parsed.notes.into_iter().map(|kind| transcript::Note { line: 0, kind, raw: None }).collect();
        let conversation =
            transcript::Conversation { entries: parsed.entries, sources, notes, ..Default::default() };
        let importer = self.importer(wire.name(), file);
        self.done.and(importer.conversation(conversation, &session(file, 0)).await?);
        Ok(())
    }

    /// Our own export, read line by line: a file of any size takes the memory of its largest conversation.
    async fn own(&mut self, file: &Path) -> Result<(), Failure> {
        let opened =
            std::fs::File::open(file).map_err(|error| Failure::io(&file.display().to_string(), &error))?;
        let mut lines = std::io::BufReader::new(opened);
        let check = if self.args.no_verify { Check::Nothing } else { Check::Links };
        let tenant = self.setup.named_tenant().cloned();
        let (mut number, mut reader): (usize, Option<Reader>) = (0, None);
        loop {
            let mut line = String::new();
            let read = std::io::Read::take(&mut lines, MAX_LINE as u64 + 1).read_line(&mut line);
            let length = read.map_err(|error| Failure::io(&file.display().to_string(), &error))?;
            number += 1;
            if length > MAX_LINE {
                return Err(Failure::new(
                    FAILED,
                    "bad_input",
                    format!("line {number} is longer than 64 MiB"),
                ));
            }
            if length == 0 || is_header(&line) {
                if let Some(done) = reader.take() {
                    self.finish(done, check).await?;
                }
                if length == 0 {
                    return Ok(());
                }
                reader = Some(Reader::begin(&line, tenant.as_ref())?);
            } else if line.trim().is_empty() {
            } else if let Some(reader) = &mut reader {
                if let Err(error) = reader.place(&line) {
                    let problem = error.to_string();
                    self.failed.push(Failed { file: file.display().to_string(), line: number, problem });
                    return Ok(());
                }
            } else {
                return Err(Failure::new(FAILED, "bad_input", "the export does not begin with a header"));
            }
        }
    }

    async fn finish(&mut self, reader: Reader, check: Check) -> Result<(), Failure> {
        let dry = Memory::new();
        let store: &dyn Store = if self.args.dry_run { &dry } else { self.store.as_ref() };
        let (added, skipped) = reader.finish(store, check).await?;
        self.done.and(Imported { conversations: 1, added, skipped, notes: Vec::new() });
        Ok(())
    }

    fn print(&self, json: bool) -> Result<ExitCode, Failure> {
        let done = &self.done;
        if json {
            let failed: Vec<Value> = self
                .failed
                .iter()
                .map(|failed| json!({ "file": failed.file, "line": failed.line, "problem": failed.problem }))
                .collect();
            let object = json!({
                "files": self.args.files.len(), "conversations": done.conversations, "added": done.added,
                "skipped": done.skipped, "notes": done.notes, "failed": failed,
            });
            input::print(&format!("{object}\n"))?;
        } else {
            for note in &done.notes {
                input::note(note);
            }
            for failed in &self.failed {
                let place = if failed.line > 0 { format!(", line {}", failed.line) } else { String::new() };
                input::note(&format!("{}{place}: {}", failed.file, failed.problem));
            }
            let would = if self.args.dry_run { "would be added" } else { "added" };
            let (files, conversations) = (self.args.files.len(), done.conversations);
            input::print(&format!(
                "{files} files, {conversations} conversations: {} entries {would}, {} were there already\n",
                done.added, done.skipped
            ))?;
        }
        Ok(if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

/// The name of a conversation whose source has none: the file and its place in it.
fn session(file: &Path, number: usize) -> String {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{OWN}:{name}#{number}")
}

/// Whether the first line of a file is a header of ours.
fn begins_like_ours(file: &Path) -> Result<bool, Failure> {
    if file == Path::new("-") {
        return Ok(false);
    }
    let opened =
        std::fs::File::open(file).map_err(|error| Failure::io(&file.display().to_string(), &error))?;
    let mut first = Vec::new();
    let limited = std::io::Read::take(opened, 64 * 1024);
    let _ = std::io::BufReader::new(limited).read_until(b'\n', &mut first);
    Ok(std::str::from_utf8(&first).is_ok_and(is_header))
}
