//! `scrollback import`: other tools' conversations, and our own exports.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use scrollback_core::transcript::{self, Format, Transcript, TranscriptStream};
use scrollback_core::wire::Wire;
use scrollback_core::{InputFormat, Time};
use scrollback_store::transfer::{
    Course, ExportImport, ImportMode, Imported, Importer, LinkCheck, MAX_FAILED, is_header, read_body,
    session_name,
};
use scrollback_store::{Memory, Recipient, Store};
use serde_json::{Value, json};

use super::args::ImportArgs;
use super::lines::{Lines, TextLine};
use super::progress::ImportProgress;
use super::{Intent, Setup, block_on, now, recipient_named};
use crate::amounts::counted;
use crate::failure::{FAILED, Failure};
use crate::input;
use crate::load::format_named;

/// Bytes of conversations, each a line, that are read before they are written.
const TOGETHER: usize = 1 << 20;

/// A file that could not be read, or a line of one.
struct FailedFile {
    file: String,
    line: usize,
    problem: String,
}

pub(crate) fn run(args: &ImportArgs, json: bool) -> Result<ExitCode, Failure> {
    let format = format_named(args.format.as_deref())?;
    let recipient = args.recipient.as_deref().map(recipient_named).transpose()?;
    let setup = Setup::new(&args.store)?;
    block_on(async {
        let intent = if args.dry_run { Intent::Rehearse } else { Intent::Write };
        let store = setup.open(intent).await?;
        let mut import = Import {
            args,
            setup: &setup,
            store,
            format,
            recipient,
            progress: ImportProgress::new(&args.files),
            done: Imported::default(),
            failed: Vec::new(),
        };
        for file in &args.files {
            import.progress.next(file);
            if let Err(problem) = import.file(file).await {
                import.bad(file, 0, problem.to_string());
            }
        }
        import.progress.finish();
        import.print(json)
    })
}

struct Import<'a> {
    args: &'a ImportArgs,
    setup: &'a Setup,
    store: Arc<dyn Store>,
    format: Option<InputFormat>,
    recipient: Option<Recipient>,
    progress: ImportProgress,
    done: Imported,
    failed: Vec<FailedFile>,
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
        if matches!(self.format, None | Some(InputFormat::Wire(Wire::Scrollback))) && begins_like_ours(file)?
        {
            return self.own(file).await;
        }
        let mut lines = Lines::open(file)?;
        let named = match self.format {
            Some(InputFormat::Transcript(format)) => Some(format),
            _ => None,
        };
        if !matches!(self.format, Some(InputFormat::Wire(_)))
            && let Some(format) = lines.format(named)?
            && let Some(stream) = TranscriptStream::new(format)
        {
            return self.stream(format, stream, lines, file).await;
        }
        let bytes = lines.rest()?;
        self.progress.read(bytes.len() as u64);
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            Failure::new(FAILED, "bad_input", format!("not UTF-8 at byte {}", error.valid_up_to()))
        })?;
        let format = match self.format {
            Some(InputFormat::Transcript(format)) => Some(format),
            Some(InputFormat::Wire(_)) => None,
            None => transcript::detect(text),
        };
        match format {
            Some(format) => self.transcript(format, transcript::read(Some(format), text), file).await,
            None => self.body(text, file).await,
        }
    }

    fn bad(&mut self, file: &Path, line: usize, problem: String) {
        if self.failed.len() < MAX_FAILED {
            self.failed.push(FailedFile { file: file.display().to_string(), line, problem });
        }
    }

    /// A transcript whose lines stand for themselves: read line by line, written piece by piece.
    async fn stream(
        &mut self,
        format: Format,
        mut stream: TranscriptStream,
        mut lines: Lines,
        file: &Path,
    ) -> Result<(), Failure> {
        let importer = self.importer(format.name(), file);
        let (mut number, mut course) = (0, Course::default());
        while let Some(line) = lines.next()? {
            match line {
                TextLine::Text(text) => {
                    self.progress.read(text.len() as u64 + 1);
                    stream.line(&text);
                }
                TextLine::Bad(bytes, problem) => {
                    self.progress.read(bytes as u64);
                    stream.skip(bytes, problem);
                }
            }
            if stream.held() > TOGETHER || stream.ready_pieces() {
                let read = stream.take();
                if !self.pieces(&importer, read, file, &mut number, &mut course).await? {
                    return Ok(());
                }
            }
        }
        let rest = stream.finish().map_err(|error| Failure::new(FAILED, "bad_input", error.to_string()))?;
        self.pieces(&importer, rest, file, &mut number, &mut course).await.map(|_| ())
    }

    /// Imports what a stream handed over; whether to go on.
    async fn pieces(
        &mut self,
        importer: &Importer,
        read: Transcript,
        file: &Path,
        number: &mut usize,
        course: &mut Course,
    ) -> Result<bool, Failure> {
        let stop = self.args.strict && !read.failed.is_empty();
        for error in read.failed {
            self.bad(file, error.line, error.problem);
        }
        if stop {
            return Ok(false);
        }
        for conversation in read.conversations {
            if conversation.before == 0 {
                *course = Course::default();
                *number += 1;
            }
            let session = session(file, *number - 1);
            self.done.and(importer.piece(conversation, &session, course).await?);
        }
        Ok(true)
    }

    fn importer(&self, format: &str, file: &Path) -> Importer {
        let modified = std::fs::metadata(file).and_then(|file| file.modified()).ok();
        let since =
            modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
        // A dry run knows what is there, and writes nothing.
        let mode = if self.args.dry_run { ImportMode::DryRun } else { ImportMode::Write };
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
        let importer = self.importer(format.name(), file);
        self.pieces(&importer, read, file, &mut 0, &mut Course::default()).await.map(|_| ())
    }

    /// A request or a list of messages of some wire.
    async fn body(&mut self, text: &str, file: &Path) -> Result<(), Failure> {
        let (wire, conversation) = read_body(text, self.format.and_then(InputFormat::wire))
            .map_err(|problem| Failure::new(FAILED, "bad_input", problem))?;
        let importer = self.importer(wire.name(), file);
        self.done.and(importer.conversation(conversation, &session(file, 0)).await?);
        Ok(())
    }

    /// Our own export, read line by line: a file of any size takes the memory of its largest conversation.
    async fn own(&mut self, file: &Path) -> Result<(), Failure> {
        let mut lines = Lines::open(file)?;
        let check = if self.args.no_verify { LinkCheck::Nothing } else { LinkCheck::Links };
        let dry = Memory::new();
        let store = Arc::clone(&self.store);
        let target: &dyn Store = if self.args.dry_run { &dry } else { store.as_ref() };
        let mut reader = ExportImport::new(target, self.setup.named_tenant().cloned(), check);
        let result = self.own_lines(&mut lines, &mut reader, file).await;
        self.done.and(reader.done);
        result
    }

    async fn own_lines(
        &mut self,
        lines: &mut Lines,
        reader: &mut ExportImport<'_>,
        file: &Path,
    ) -> Result<(), Failure> {
        let mut number = 0;
        while let Some(line) = lines.next()? {
            number += 1;
            let problem = match line {
                TextLine::Text(line) => {
                    self.progress.read(line.len() as u64 + 1);
                    reader.line(&line).await?
                }
                TextLine::Bad(_, problem) => Some(problem),
            };
            if let Some(problem) = problem {
                self.bad(file, number, problem);
                return Ok(());
            }
        }
        reader.finish().await?;
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
                "skipped": done.skipped, "notes": done.note_lines(), "failed": failed,
            });
            input::print(&format!("{object}\n"))?;
        } else {
            for note in done.note_lines() {
                input::note(&note);
            }
            for failed in &self.failed {
                let place = if failed.line > 0 { format!(", line {}", failed.line) } else { String::new() };
                input::note(&format!("{}{place}: {}", failed.file, failed.problem));
            }
            let would = if self.args.dry_run { "would be added" } else { "added" };
            let files = counted(self.args.files.len() as u64, "file");
            let conversations = counted(done.conversations, "conversation");
            let entries = counted(done.added, "entry");
            input::print(&format!(
                "{files}, {conversations}: {entries} {would}, {} already there\n",
                done.skipped
            ))?;
        }
        Ok(if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

/// The name of a conversation whose source has none: the file and its place in it.
fn session(file: &Path, number: usize) -> String {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    session_name(&name, number)
}

/// Whether the first line of a file is a header of ours.
fn begins_like_ours(file: &Path) -> Result<bool, Failure> {
    if file == Path::new("-") {
        return Ok(false);
    }
    let opened =
        std::fs::File::open(file).map_err(|error| Failure::io(&file.display().to_string(), &error))?;
    let mut first = Vec::new();
    let _ = opened.take(64 * 1024).read_to_end(&mut first);
    let first = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(std::str::from_utf8(first).is_ok_and(is_header))
}
