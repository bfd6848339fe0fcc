//! `--batch`: one JSON case a line in, one JSON answer a line out, in one process.
//!
//! A bad line is answered with its error and the batch goes on.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use scrollback_core::json::{self, Kind, Raw};
use scrollback_core::nearest::nearest;
use scrollback_core::wire::WireError;
use scrollback_core::{CurationContext, Tools, Unfinished, manager};

use crate::config::Config;
use crate::curate::{self, Job, to_json};
use crate::failure::{FAILED, Failure, INVALID};
use crate::{input, tokens};

/// What a line may say. It is one list for every command with `--batch`, so that one file of cases serves them all; a
/// command passes over what is not its business.
const KEYS: [&str; 9] = ["id", "messages", "file", "take", "managers", "model", "from", "to", "context"];

pub(crate) fn curate(file: &Path, config: &Config) -> Result<(), Failure> {
    answer_lines(file, |line| {
        line.check_keys()?;
        let mut cx = curate::context(input::model_named(line.text("model")?.as_deref())?, config);
        line.read_context(&mut cx)?;
        let job = Job {
            manager: line.raw.get("managers").map_or_else(|| manager::parse_list(&[]), manager::parse_raw)?,
            cx,
            from: input::wire_named(line.text("from")?.as_deref())?,
            to: input::wire_named(line.text("to")?.as_deref())?,
            take: line.number("take")?,
        };
        line.with_body(|body| job.run(body, |curated| to_json(&curated.answer()?)))
    })
}

pub(crate) fn tokens(file: &Path) -> Result<(), Failure> {
    answer_lines(file, |line| {
        line.check_keys()?;
        let model = input::model_named(line.text("model")?.as_deref())?;
        let from = input::wire_named(line.text("from")?.as_deref())?;
        let take = line.number("take")?;
        line.with_body(|body| to_json(&tokens::count(body, model, from, take)?))
    })
}

/// Answers every line of `file` in order; blank lines are passed over.
fn answer_lines(file: &Path, answer: impl Fn(&Line<'_>) -> Result<String, Failure>) -> Result<(), Failure> {
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
            Failure::new(FAILED, "broken_pipe", "the reader of the output left")
        }
        _ => Failure::io("standard output", &error),
    };
    for number in 1.. {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(|error| Failure::io(&name, &error))? == 0 {
            break;
        }
        let line = bytes.trim_ascii();
        if line.is_empty() {
            continue;
        }
        writeln!(out, "{}", answer_line(line, number, &answer)).map_err(broken)?;
        // Whoever feeds the batch line by line is waiting for the answer.
        if file == Path::new("-") {
            out.flush().map_err(broken)?;
        }
    }
    out.flush().map_err(broken)
}

/// The answer to one line, the line's id first.
fn answer_line(
    bytes: &[u8],
    number: usize,
    answer: &impl Fn(&Line<'_>) -> Result<String, Failure>,
) -> String {
    let (id, result) = match json::check_bytes(bytes) {
        Err(error) => (None, Err(Failure::from(WireError::from(error)).with("line", number))),
        Ok(raw) if raw.kind() != Kind::Object => {
            let message = format!("a batch line must be an object, not {}", raw.kind().name());
            (None, Err(Failure::from(WireError::bad_input(message)).with("line", number)))
        }
        Ok(raw) => (raw.get("id").map(Raw::text), answer(&Line { raw })),
    };
    let body = result.unwrap_or_else(|failure| serde_json::json!({ "error": failure.to_json() }).to_string());
    match id {
        Some(id) => format!("{{\"id\":{id},{}", body.strip_prefix('{').unwrap_or(&body)),
        None if body.starts_with("{\"error\"") => {
            format!("{{\"id\":null,{}", body.strip_prefix('{').unwrap_or(&body))
        }
        None => body,
    }
}

/// One case, its values in their own spelling.
struct Line<'a> {
    raw: Raw<'a>,
}

impl Line<'_> {
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

    /// The messages: those in the line, or those of the file it names.
    fn with_body(&self, then: impl FnOnce(Raw<'_>) -> Result<String, Failure>) -> Result<String, Failure> {
        match (self.raw.get("messages"), self.text("file")?) {
            (Some(messages), None) => {
                if messages.kind() != Kind::Array {
                    return Err(bad_value(
                        "messages",
                        &format!("must be a list, not {}", messages.kind().name()),
                    ));
                }
                then(messages)
            }
            (None, Some(file)) => {
                let file = Path::new(&file);
                let bytes = input::read(file)?;
                input::check(&bytes).and_then(then).map_err(|failure| failure.about(file))
            }
            (Some(_), Some(_)) => Err(WireError::bad_input("give `messages` or `file`, not both").into()),
            (None, None) => Err(WireError::bad_input("the line has neither `messages` nor `file`").into()),
        }
    }

    /// What the line's `context` asks for.
    fn read_context(&self, cx: &mut CurationContext) -> Result<(), Failure> {
        let Some(context) = self.raw.get("context").filter(|context| context.kind() != Kind::Null) else {
            return Ok(());
        };
        if context.kind() != Kind::Object {
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
            (raw.kind() == Kind::Array)
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
    match object.get(key).filter(|raw| raw.kind() != Kind::Null) {
        None => Ok(None),
        Some(raw) => read(raw).map(Some).ok_or_else(|| {
            bad_value(&format!("{path}/{key}"), &format!("must be {wanted}, not {}", raw.kind().name()))
        }),
    }
}

fn check_keys(object: Raw<'_>, path: &str, known: &[&'static str]) -> Result<(), Failure> {
    if let Err(key) = object.object() {
        let message = format!("the key `{key}` stands twice");
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
