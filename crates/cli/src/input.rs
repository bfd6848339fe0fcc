//! Reading what commands are handed, and printing what they answer.

use std::io::{Read, Write};
use std::path::Path;

use scrollback_core::json::{self, Raw};
use scrollback_core::manager::spelled_number;
use scrollback_core::model::{ModelName, Provider};
use scrollback_core::wire::{Wire, WireError};

use crate::failure::{FAILED, Failure, USAGE};

/// The bytes of a file, or of standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::io("standard input", &error))?;
        return Ok(bytes);
    }
    std::fs::read(path).map_err(|error| Failure::io(&path.display().to_string(), &error))
}

/// The files of a folder, by their path inside it; what is no text is passed over.
pub(crate) fn read_folder(folder: &Path) -> Result<Vec<(String, String)>, Failure> {
    let failed = |path: &Path, error: &std::io::Error| Failure::io(&path.display().to_string(), error);
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).map_err(|error| failed(&next, &error))? {
            let path = entry.map_err(|error| failed(&next, &error))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let inside = path.strip_prefix(folder).unwrap_or(&path);
                files.push((inside.to_string_lossy().replace('\\', "/"), text));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Writes text with colours to standard output, which shows them only on a terminal.
pub(crate) fn print_styled(text: &str) -> Result<(), Failure> {
    let mut plain = Vec::new();
    if anstream::AutoStream::choice(&std::io::stdout()) == anstream::ColorChoice::Never {
        let mut strip = anstream::StripStream::new(&mut plain);
        strip.write_all(text.as_bytes()).map_err(|error| Failure::io("standard output", &error))?;
        return print(&String::from_utf8_lossy(&plain));
    }
    print(text)
}

/// A remark on standard error.
pub(crate) fn note(text: &str) {
    let dim = anstyle::Style::new().dimmed();
    let _ = writeln!(anstream::stderr().lock(), "{dim}note: {text}{}", anstyle::Reset);
}

/// Writes to standard output. A reader that left is not an error worth a word.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => {
            Failure::new(FAILED, "broken_pipe", "the program that reads the output has ended")
        }
        _ => Failure::io("standard output", &error),
    })
}

/// How much of a wrong input is looked at to say what it might be.
const HINT_BYTES: usize = 4096;

/// JSON from outside, checked. Paths into a bare list are given as if it stood under `messages`.
pub(crate) fn check(bytes: &[u8]) -> Result<Raw<'_>, Failure> {
    json::check_bytes(bytes).map_err(|mut error| {
        let rest = bytes.get(error.offset..).unwrap_or_default();
        if error.path.is_empty() && error.offset > 0 && rest.starts_with(b"{") {
            let head = rest.get(..HINT_BYTES).unwrap_or(rest);
            let has = |wanted: &[u8]| head.windows(wanted.len()).any(|window| window == wanted);
            error.problem.push_str(if has(b"\"role\"") && !has(b"\"messages\"") {
                " (JSON lines? make one list of the messages: jq -s . FILE)"
            } else {
                " (JSON lines? cases, one a line, are for --batch)"
            });
        }
        if bytes.trim_ascii_start().starts_with(b"[") && !error.path.is_empty() {
            error.path.insert_str(0, "/messages");
        }
        WireError::from(error).into()
    })
}

/// The wire of that name; a usage error that lists them all otherwise.
pub(crate) fn wire_named(name: Option<&str>) -> Result<Option<Wire>, Failure> {
    let Some(name) = name else { return Ok(None) };
    let known: Vec<&str> = Wire::ALL.iter().map(|wire| wire.name()).collect();
    Wire::named(name).map(Some).ok_or_else(|| {
        let message = format!("unknown wire {name:?} (known: {})", known.join(", "));
        Failure::new(USAGE, "unknown_wire", message).with("known", known)
    })
}

/// The model of that name; a usage error that lists the providers otherwise.
pub(crate) fn model_named(name: Option<&str>) -> Result<Option<ModelName>, Failure> {
    let Some(name) = name else { return Ok(None) };
    ModelName::resolve(name, None).map(Some).map_err(|error| {
        let known: Vec<&str> = Provider::ALL.iter().map(|provider| provider.name()).collect();
        Failure::new(USAGE, "unknown_model", error.to_string()).with("known", known)
    })
}

/// Makes a file for texts of conversations, which only its owner may read. One that is there keeps its rights.
pub(crate) fn create(path: &Path) -> Result<std::fs::File, Failure> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| Failure::io(&path.display().to_string(), &error))
}

/// Where typed lines are kept between sessions.
pub(crate) fn history_file(name: &str) -> Option<std::path::PathBuf> {
    let home = std::env::var_os("XDG_STATE_HOME")
        .map(std::path::PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".local/state")))?;
    let folder = home.join("scrollback");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join(name))
}

/// The full name of a model that was typed on the command line: `openai:gpt-4o` for `gpt-4o`. What is no model stays as it is,
/// for the reader of models to say so.
pub(crate) fn full_model(name: &str) -> String {
    let (model, api) = name.split_once("?api=").map_or((name, None), |(model, api)| (model, Some(api)));
    let Ok(model) = ModelName::resolve(model, None) else { return name.into() };
    api.map_or_else(|| model.to_string(), |api| format!("{model}?api={api}"))
}

/// A count on the command line: `16000`, `16_000` or `16k`, at least 1.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let number = spelled_number(text).and_then(|number| number.as_u64());
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| "write a whole number of at least 1, as 16000, 16_000 or 16k".into())
}
