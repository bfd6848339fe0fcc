//! Files read line by line, however long they and their lines are.

use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use scrollback_core::transcript::{self, Format};

use crate::failure::Failure;

/// A line of so many bytes is not read as one; it is no message.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// Bytes of a file that are looked at to tell its format; the line they end in is read to its end.
const HEAD: usize = 256 * 1024;

/// The lines of a file or of standard input.
pub(crate) struct Lines {
    from: Box<dyn BufRead>,
    name: String,
}

/// A line without its end.
pub(crate) enum TextLine {
    Text(String),
    /// One that was passed over: its bytes, and why.
    Bad(usize, String),
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        if path == Path::new("-") {
            let from = Box::new(BufReader::new(std::io::stdin()));
            return Ok(Lines { from, name: "standard input".into() });
        }
        let file = std::fs::File::open(path).map_err(|error| Failure::io(&name, &error))?;
        Ok(Lines { from: Box::new(BufReader::with_capacity(1 << 16, file)), name })
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        Failure::io(&self.name, error)
    }

    /// The format in which every line of the file stands for itself, if it is one: the one named, or the one its beginning
    /// looks like. The beginning is still read afterwards.
    pub(crate) fn format(&mut self, named: Option<Format>) -> Result<Option<Format>, Failure> {
        let mut head = Vec::new();
        let read = self.from.by_ref().take(HEAD as u64).read_to_end(&mut head);
        read.map_err(|error| self.failed(&error))?;
        // The two lines that tell lines from a document may be long.
        while head.len() >= HEAD && head.len() < MAX_LINE && head.split(|byte| *byte == b'\n').count() < 3 {
            let before = head.len();
            let more = self.from.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut head);
            more.map_err(|error| self.failed(&error))?;
            if head.len() == before {
                break;
            }
        }
        let whole = match std::str::from_utf8(&head) {
            Ok(text) => text,
            Err(error) => {
                let good = head.get(..error.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(good).unwrap_or_default()
            }
        };
        let mut lines = whole.lines().filter(|line| !line.trim().is_empty());
        let mut object = || lines.next().is_some_and(|line| line.trim_start().starts_with('{'));
        let format = if object() && object() { named.or_else(|| transcript::detect(whole)) } else { None };
        let from = std::mem::replace(&mut self.from, Box::new(std::io::empty()));
        self.from = Box::new(Cursor::new(head).chain(from));
        Ok(format)
    }

    /// All that is left.
    pub(crate) fn rest(mut self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        self.from.read_to_end(&mut bytes).map_err(|error| self.failed(&error))?;
        Ok(bytes)
    }

    /// The next line; none at the end. One that is too long is not taken into memory.
    pub(crate) fn next(&mut self) -> Result<Option<TextLine>, Failure> {
        let mut bytes = Vec::new();
        let read = self.from.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut bytes);
        let mut length = read.map_err(|error| self.failed(&error))?;
        if length == 0 {
            return Ok(None);
        }
        if length == MAX_LINE && bytes.last() != Some(&b'\n') {
            drop(bytes);
            length += self.pass()?;
            return Ok(Some(TextLine::Bad(length, format!("{} MiB or longer", MAX_LINE >> 20))));
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        Ok(Some(match String::from_utf8(bytes) {
            Ok(text) => TextLine::Text(text),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                TextLine::Bad(length, format!("not UTF-8 at byte {at} of the line"))
            }
        }))
    }

    /// Passes over what is left of a line.
    fn pass(&mut self) -> Result<usize, Failure> {
        let mut passed = 0;
        loop {
            let name = &self.name;
            let part = self.from.fill_buf().map_err(|error| Failure::io(name, &error))?;
            let end = part.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(part.len(), |end| end + 1);
            let last = end.is_some() || part.is_empty();
            self.from.consume(length);
            passed += length;
            if last {
                return Ok(passed);
            }
        }
    }
}
