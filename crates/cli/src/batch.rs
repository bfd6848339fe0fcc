//! `--batch`: one JSON case a line in, one JSON answer a line out, in one process.
//!
//! A bad line is answered with its error and the batch goes on.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use scrollback_core::json::{self, JsonKind, Raw};
use scrollback_core::nearest::nearest;
use scrollback_core::wire::WireError;
use scrollback_core::wire::check::Strictness;
use scrollback_core::{CurationContext, Tools, Unfinished, manager};

use crate::answer::to_json;
use crate::curate::{self, CurateJob};
use crate::failure::{FAILED, Failure, INVALID};
use crate::load::{LoadOptions, LoadedInput, format_named};
use crate::{check, convert, input, tokens};
use scrollback_agent::config::Config;

/// What a line may say. It is one list for every command with `--batch`, so that one file of cases serves them all; a
/// command passes over what is not its business.
const KEYS: [&str; 22] = [
    "id",
    "messages",
    "system",
    "input",
    "instructions",
    "contents",
    "systemInstruction",
    "entries",
    "tools",
    "toolConfig",
    "file",
    "take",
    "take_conversation",
    "managers",
    "model",
    "from",
    "to",
    "for",
    "repair",
    "strict",
    "previous",
    "context",
];

/// The keys of a line that make up a body.
const BODY: [&str; 9] = [
    "system",
    "instructions",
    "systemInstruction",
    "tools",
    "toolConfig",
    "messages",
    "input",
    "contents",
    "entries",
];

pub(crate) fn curate(file: &Path, config: &Config) -> Result<(), Failure> {
    answer_lines(file, |line| {
        let how = line.how()?;
        line.each(how, |loaded| {
            let mut cx = curate::context(input::model_named(line.text("model")?.as_deref())?, config);
            line.read_context(&mut cx)?;
            let job = CurateJob {
                manager: line
                    .raw
                    .get("managers")
                    .map_or_else(|| manager::parse_list(&[]), manager::parse_raw)?,
                cx,
                to: input::wire_named(line.text("to")?.as_deref())?,
                how,
            };
            job.run(loaded, curate::to_json)
        })
    })
}

pub(crate) fn tokens(file: &Path) -> Result<(), Failure> {
    answer_lines(file, |line| {
        let model = input::model_named(line.text("model")?.as_deref())?;
        line.each(line.how()?, |loaded| to_json(&tokens::count(loaded, model.clone())))
    })
}

pub(crate) fn convert(file: &Path) -> Result<(), Failure> {
    answer_lines(file, |line| {
        let to = input::wire_named(line.text("to")?.as_deref())?.ok_or_else(convert::no_target)?;
        line.each(line.how()?, |loaded| convert::to_json(&loaded, &convert::convert(&loaded, to), to))
    })
}

pub(crate) fn check(file: &Path, config: &Config) -> Result<(), Failure> {
    answer_lines(file, |line| {
        let wire = input::wire_named(line.text("for")?.as_deref())?.ok_or_else(check::no_wire)?;
        let model = input::model_named(line.text("model")?.as_deref())?;
        let job = check::CheckJob {
            wire,
            dialect: config.dialect(model.as_ref()),
            model,
            strictness: if line.flag("strict")? { Strictness::Strict } else { Strictness::Lenient },
            repair: if line.flag("repair")? { check::RepairFlag::Yes } else { check::RepairFlag::No },
            how: line.how()?,
        };
        let previous = line.raw.get("previous").filter(|previous| previous.kind() != JsonKind::Null);
        let other = || line.each(job.how, |loaded| job.run_other(&loaded, previous)?.to_json());
        let (bytes, file) = match line.source()? {
            MessagesIn::Body(body) => (body.into_bytes(), None),
            MessagesIn::File(file) if Path::new(&file).is_dir() => return other(),
            MessagesIn::File(file) => (input::read(Path::new(&file))?, Some(file)),
        };
        if job.is_other(&bytes) {
            return other();
        }
        let about = |failure: Failure| match &file {
            Some(file) => failure.about(Path::new(file)),
            None => failure,
        };
        let judged = input::check(&bytes).and_then(|body| job.run_body(body, previous)).map_err(about)?;
        Ok(vec![judged.to_json()?])
    })
}

/// Where the messages of a line are.
enum MessagesIn {
    /// In the line itself.
    Body(String),
    /// In a file.
    File(String),
}

/// Longest line that is read; a longer one is answered with an error.
const MAX_LINE: usize = 64 << 20;

/// Answers every line of `file` in order; blank lines are passed over.
fn answer_lines(
    file: &Path,
    answer: impl Fn(&BatchLine<'_>) -> Result<Vec<String>, Failure>,
) -> Result<(), Failure> {
    let name = file.display().to_string();
    let mut reader: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(BufReader::new(std::fs::File::open(file).map_err(|error| Failure::io(&name, &error))?))
    };
    let mut bytes = Vec::new();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let broken = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => {
            Failure::new(FAILED, "broken_pipe", "the program that reads the output has ended")
        }
        _ => Failure::io("standard output", &error),
    };
    let mut start = 0;
    for number in 1.. {
        bytes.clear();
        let length = read_line(&mut *reader, &mut bytes).map_err(|error| Failure::io(&name, &error))?;
        if length == 0 {
            break;
        }
        let line = bytes.trim_ascii();
        if !line.is_empty() {
            let answers = if length > MAX_LINE {
                let message = format!("line {number} (byte {start}) is longer than 64 MiB");
                let failure = Failure::new(INVALID, "bad_json", message);
                vec![refused(None, &failure.with("line", number).with("byte", start))]
            } else {
                answer_line(line, number, start, &answer)
            };
            for answer in answers {
                writeln!(out, "{answer}").map_err(broken)?;
            }
        }
        start += length;
        // A caller that feeds the batch line by line is waiting for the answer.
        if file == Path::new("-") {
            out.flush().map_err(broken)?;
        }
    }
    out.flush().map_err(broken)
}

/// Reads a line and tells its length; of one that is too long only the start is kept.
fn read_line(reader: &mut dyn BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut length = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(length);
        }
        let end = buffer.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        let used = end.unwrap_or(buffer.len());
        if length <= MAX_LINE {
            line.extend_from_slice(buffer.get(..used).unwrap_or_default());
        }
        length += used;
        reader.consume(used);
        if end.is_some() {
            return Ok(length);
        }
    }
}

/// The answers to one line, the line's id first in each.
fn answer_line(
    bytes: &[u8],
    number: usize,
    start: usize,
    answer: &impl Fn(&BatchLine<'_>) -> Result<Vec<String>, Failure>,
) -> Vec<String> {
    let at = |failure: Failure| failure.with("line", number).with("byte", start);
    let raw = match json::check_bytes(bytes) {
        Err(error) => {
            let byte = start + error.offset;
            let failure = Failure::from(WireError::from(error)).with("line", number).with("byte", byte);
            return vec![refused(None, &failure)];
        }
        Ok(raw) if raw.kind() != JsonKind::Object => {
            let message = format!("a batch line must be an object, not {}", raw.kind().name());
            return vec![refused(None, &at(WireError::bad_input(message).into()))];
        }
        Ok(raw) => raw,
    };
    let id = raw.get("id").map(Raw::text);
    let line = BatchLine { raw };
    match line.check_keys().and_then(|()| answer(&line)) {
        Ok(answers) => answers
            .into_iter()
            .map(|body| match id {
                Some(id) => format!("{{\"id\":{id},{}", body.strip_prefix('{').unwrap_or(&body)),
                None => body,
            })
            .collect(),
        Err(failure) => vec![refused(id, &failure)],
    }
}

/// The answer to a line that has none.
fn refused(id: Option<&str>, failure: &Failure) -> String {
    let error = serde_json::json!({ "error": failure.to_json() }).to_string();
    format!("{{\"id\":{},{}", id.unwrap_or("null"), error.strip_prefix('{').unwrap_or(&error))
}

/// One case, its values in their own spelling.
struct BatchLine<'a> {
    raw: Raw<'a>,
}

impl BatchLine<'_> {
    /// Unknown keys are mistakes, and a mistake is worth a word.
    fn check_keys(&self) -> Result<(), Failure> {
        check_keys(self.raw, "", &KEYS)
    }

    fn text(&self, key: &str) -> Result<Option<String>, Failure> {
        optional(self.raw, "", key, |raw| raw.string().map(std::borrow::Cow::into_owned), "a text")
    }

    fn number(&self, key: &str) -> Result<Option<usize>, Failure> {
        optional(self.raw, "", key, |raw| raw.text().parse().ok(), "a whole number of at least 0")
    }

    fn flag(&self, key: &str) -> Result<bool, Failure> {
        let flag = optional(self.raw, "", key, |raw| raw.text().parse::<bool>().ok(), "true or false")?;
        Ok(flag.unwrap_or(false))
    }

    fn how(&self) -> Result<LoadOptions, Failure> {
        Ok(LoadOptions {
            from: format_named(self.text("from")?.as_deref())?,
            take: self.number("take")?,
            conversation: self.number("take_conversation")?,
        })
    }

    /// The messages: those in the line, or those of the file it names.
    fn source(&self) -> Result<MessagesIn, Failure> {
        let held: Vec<(&str, Raw<'_>)> =
            BODY.iter().filter_map(|key| Some((*key, self.raw.get(key)?))).collect();
        let lists = ["messages", "input", "contents", "entries"];
        let mut found = held.iter().filter(|(key, _)| lists.contains(key));
        let (list, second) = (found.next(), found.next());
        if let Some((key, _)) = second {
            let message = format!("one list of messages is enough: `{key}` is a second one");
            return Err(Failure::new(INVALID, "bad_input", message).with("path", format!("/{key}")));
        }
        match (list, self.text("file")?) {
            (Some((key, value)), None) => {
                let textual = *key == "input" && value.kind() == JsonKind::String;
                if value.kind() != JsonKind::Array && !textual {
                    let problem = format!("must be a list, not {}", value.kind().name());
                    return Err(bad_value(&format!("/{key}"), &problem));
                }
                if let ("messages", [_]) = (*key, held.as_slice()) {
                    return Ok(MessagesIn::Body(value.text().into()));
                }
                let version = if *key == "entries" { "\"scrollback\":1," } else { "" };
                let members: Vec<String> =
                    held.iter().map(|(key, value)| format!("\"{key}\":{}", value.text())).collect();
                Ok(MessagesIn::Body(format!("{{{version}{}}}", members.join(","))))
            }
            (None, Some(file)) => Ok(MessagesIn::File(file)),
            (Some(_), Some(_)) => Err(WireError::bad_input("give `messages` or `file`, not both").into()),
            (None, None) => Err(WireError::bad_input("the line has neither `messages` nor `file`").into()),
        }
    }

    /// Answers for the messages of the line; for each conversation, where its file has several.
    fn each(
        &self,
        how: LoadOptions,
        answer: impl Fn(LoadedInput) -> Result<String, Failure>,
    ) -> Result<Vec<String>, Failure> {
        let all = match self.source()? {
            MessagesIn::Body(body) => how.load_body(input::check(body.as_bytes())?)?,
            MessagesIn::File(file) => how.load_all(Path::new(&file))?,
        };
        let several = all.len() > 1;
        let numbered = |(number, mut loaded): (usize, LoadedInput)| {
            // A batch counts conversations from 0, as `take_conversation` of its lines does.
            loaded.one_of = None;
            let body = answer(loaded)?;
            let rest = body.strip_prefix('{').unwrap_or(&body);
            Ok(if several { format!("{{\"conversation\":{number},{rest}") } else { body })
        };
        all.into_iter().enumerate().map(numbered).collect()
    }

    /// What the line's `context` asks for.
    fn read_context(&self, cx: &mut CurationContext) -> Result<(), Failure> {
        let Some(context) = self.raw.get("context").filter(|context| context.kind() != JsonKind::Null) else {
            return Ok(());
        };
        if context.kind() != JsonKind::Object {
            return Err(bad_value("/context", &format!("must be an object, not {}", context.kind().name())));
        }
        check_keys(
            context,
            "/context",
            &["preserve_system", "preserve_task", "preserve_last_n", "unfinished", "tools"],
        )?;
        let flag = |key: &str| {
            optional(context, "/context", key, |raw| raw.text().parse::<bool>().ok(), "true or false")
        };
        cx.preserve_system = flag("preserve_system")?.unwrap_or(true);
        cx.preserve_task = flag("preserve_task")?.unwrap_or(true);
        cx.preserve_last_n = optional(
            context,
            "/context",
            "preserve_last_n",
            |raw| raw.text().parse().ok(),
            "a whole number of at least 0",
        )?;
        let unfinished = |raw: Raw<'_>| match raw.string()?.as_ref() {
            "drop" => Some(Unfinished::Drop),
            "close" => Some(Unfinished::Close),
            _ => None,
        };
        cx.unfinished = optional(context, "/context", "unfinished", unfinished, "\"drop\" or \"close\"")?
            .unwrap_or_default();
        let names = |raw: Raw<'_>| {
            (raw.kind() == JsonKind::Array)
                .then(|| {
                    raw.elements()
                        .map(|name| name.string().map(std::borrow::Cow::into_owned))
                        .collect::<Option<Vec<_>>>()
                })
                .flatten()
        };
        cx.tools = optional(context, "/context", "tools", names, "a list of names")?.map(Tools::named);
        Ok(())
    }
}

/// The value of `key` through `read`; null counts as not there.
fn optional<'a, T>(
    object: Raw<'a>,
    path: &str,
    key: &str,
    read: impl FnOnce(Raw<'a>) -> Option<T>,
    wanted: &str,
) -> Result<Option<T>, Failure> {
    match object.get(key).filter(|raw| raw.kind() != JsonKind::Null) {
        None => Ok(None),
        Some(raw) => read(raw).map(Some).ok_or_else(|| {
            bad_value(&format!("{path}/{key}"), &format!("must be {wanted}, not {}", raw.kind().name()))
        }),
    }
}

fn check_keys(object: Raw<'_>, path: &str, known: &[&'static str]) -> Result<(), Failure> {
    if let Err(key) = object.object() {
        let message = format!("the key `{key}` appears twice");
        return Err(Failure::new(INVALID, "bad_json", message).with("path", path));
    }
    let Some((key, _)) = object.members().find(|(key, _)| !known.contains(&key.as_ref())) else {
        return Ok(());
    };
    let hint = nearest(&key, known.iter().copied())
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    let message = format!("unknown key `{key}`{hint} (known: {})", known.join(", "));
    Err(Failure::new(INVALID, "bad_input", message)
        .with("path", format!("{path}/{}", json::escape_pointer(&key)))
        .with("known", known.to_vec()))
}

fn bad_value(path: &str, problem: &str) -> Failure {
    let key = path.rsplit('/').next().unwrap_or_default();
    Failure::new(INVALID, "bad_input", format!("`{key}` {problem}")).with("path", path)
}
