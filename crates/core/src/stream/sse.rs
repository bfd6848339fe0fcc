//! Server-sent events, read from bytes that arrive in any chunks.
//!
//! The format is that of the WHATWG standard: lines end in LF, CR or both, an empty line ends an event, a line
//! that starts with a colon is a comment, `data` lines of one event are joined by line breaks, a byte order mark at
//! the very start is skipped. `id` and `retry` are for reconnecting and are ignored.

use std::fmt;

use memchr::memchr2;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Its name; empty if it has none.
    pub name: &'a str,
    /// Its data, lines joined by line breaks.
    pub data: &'a str,
}

/// Why the data of an event could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadableEvent {
    /// Its bytes are not UTF-8.
    NotUtf8,
    /// It is larger than the limit.
    TooLarge,
}

impl UnreadableEvent {
    /// The reason as one line for people.
    pub fn as_str(self) -> &'static str {
        match self {
            UnreadableEvent::NotUtf8 => "an event of the stream is not UTF-8",
            UnreadableEvent::TooLarge => "an event of the stream is larger than the limit",
        }
    }
}

impl fmt::Display for UnreadableEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Cuts a stream into events. The same bytes give the same events, however they are cut into chunks.
///
/// ```
/// use scrollback_core::stream::sse::SseParser;
/// let mut found = Vec::new();
/// let mut parser = SseParser::new(1_000_000);
/// for chunk in [&b"event: ping\r\nda"[..], b"ta: {}\r", b"\n\r\n"] {
///     parser.feed(chunk, |event| found.extend(event.map(|event| (event.name.to_string(), event.data.to_string()))));
/// }
/// assert_eq!(found, [("ping".to_string(), "{}".to_string())]);
/// ```
#[derive(Clone, Debug)]
pub struct SseParser {
    max_event_bytes: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// Whether that line is past the limit, and therefore no longer kept.
    line_too_large: bool,
    /// Whether the last byte was a CR, which makes a following LF part of the same line end.
    after_cr: bool,
    /// Whether no line has ended yet, so that a byte order mark may come.
    at_start: bool,
    event: PendingEvent,
}

/// The event that has not ended yet.
#[derive(Clone, Debug, Default)]
struct PendingEvent {
    name: String,
    data: Vec<u8>,
    has_data: bool,
    too_large: bool,
}

impl SseParser {
    /// A parser that reports events whose data, or one of whose lines, is longer than `max_event_bytes`.
    pub fn new(max_event_bytes: usize) -> Self {
        SseParser {
            max_event_bytes,
            line: Vec::new(),
            line_too_large: false,
            after_cr: false,
            at_start: true,
            event: PendingEvent::default(),
        }
    }

    /// Reads on, giving every event that has ended to `found`.
    pub fn feed(&mut self, bytes: &[u8], mut found: impl FnMut(Result<SseEvent<'_>, UnreadableEvent>)) {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let Some((text, end, after)) = split_line(rest) else {
                self.keep(rest);
                return;
            };
            self.after_cr = end == b'\r';
            rest = after;
            if self.line.is_empty() && !self.line_too_large {
                self.line_ended(text, &mut found);
            } else {
                self.keep(text);
                let line = std::mem::take(&mut self.line);
                self.line_ended(&line, &mut found);
                self.line = line;
                self.line.clear();
            }
        }
    }

    /// What is left when the stream ends inside an event: read as if it had ended there. Many hosts leave out the
    /// last empty line, so the caller judges by the data whether it is whole.
    pub fn end(mut self, mut found: impl FnMut(Result<SseEvent<'_>, UnreadableEvent>)) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() || self.line_too_large {
            self.line_ended(&line, &mut found);
        }
        self.line_ended(b"", &mut found);
    }

    /// Keeps a piece of a line for when the rest of it comes.
    fn keep(&mut self, piece: &[u8]) {
        if self.line.len() + piece.len() > self.max_event_bytes {
            self.line_too_large = true;
            self.line = Vec::new();
        }
        if !self.line_too_large {
            self.line.extend_from_slice(piece);
        }
    }

    fn line_ended(&mut self, line: &[u8], found: &mut impl FnMut(Result<SseEvent<'_>, UnreadableEvent>)) {
        let was_first = std::mem::take(&mut self.at_start);
        if std::mem::take(&mut self.line_too_large) || line.len() > self.max_event_bytes {
            self.event.too_large = true;
            return;
        }
        let line = if was_first { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        if line.is_empty() {
            self.event.give(found);
            return;
        }
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.event.append(value, self.max_event_bytes),
            b"event" => self.event.name = String::from_utf8_lossy(value).into_owned(),
            // Comments have an empty field; `id`, `retry` and unknown fields mean nothing here.
            _ => {}
        }
    }
}

/// The first line of `bytes`, the byte that ends it and what follows; none if it does not end here.
fn split_line(bytes: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let (line, rest) = bytes.split_at_checked(memchr2(b'\n', b'\r', bytes)?)?;
    let (&end, after) = rest.split_first()?;
    Some((line, end, after))
}

impl PendingEvent {
    fn append(&mut self, value: &[u8], max_bytes: usize) {
        if self.data.len() + value.len() >= max_bytes {
            self.too_large = true;
            self.data = Vec::new();
        }
        if self.too_large {
            return;
        }
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
    }

    /// Gives the event away, if there is one, and begins the next.
    fn give(&mut self, found: &mut impl FnMut(Result<SseEvent<'_>, UnreadableEvent>)) {
        if self.too_large {
            found(Err(UnreadableEvent::TooLarge));
        } else if self.has_data {
            let data = std::str::from_utf8(&self.data).map_err(|_| UnreadableEvent::NotUtf8);
            found(data.map(|data| SseEvent { name: &self.name, data }));
        }
        self.name.clear();
        self.data.clear();
        self.has_data = false;
        self.too_large = false;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    type Found = Vec<Result<(String, String), UnreadableEvent>>;

    fn events(stream: &[u8], chunk: usize) -> Found {
        let mut found = Found::new();
        let mut parser = SseParser::new(64);
        let mut keep = |event: Result<SseEvent<'_>, UnreadableEvent>| {
            found.push(event.map(|event| (event.name.into(), event.data.into())));
        };
        for piece in stream.chunks(chunk) {
            parser.feed(piece, &mut keep);
        }
        parser.end(keep);
        found
    }

    #[test]
    fn reads_the_standard_however_it_is_cut() {
        let long = [b"data: ".as_slice(), &[b'x'; 100], b"\n\ndata: 2\n\n"].concat();
        let split =
            [b"data: ".as_slice(), &[b'x'; 40], b"\ndata: ", &[b'x'; 40], b"\n\ndata: 2\n\n"].concat();
        let ok = |name: &str, data: &str| Ok((name.to_string(), data.to_string()));
        let cases: [(&[u8], Found); 12] = [
            (b"data: 1\n\n", vec![ok("", "1")]),
            (b"data: 1\r\rdata:2\r\n\r\n", vec![ok("", "1"), ok("", "2")]),
            (b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n", vec![ok("", "1")]),
            (
                b": comment\nevent: a\nid: 7\nretry: 1\ndata: 1\n\ndata: 2\n\n",
                vec![ok("a", "1"), ok("", "2")],
            ),
            (b"data: 1\ndata\ndata:  3\n\n", vec![ok("", "1\n\n 3")]),
            (b"event: a\n\ndata: 1\n\n", vec![ok("", "1")]),
            ("data: é😀\n\n".as_bytes(), vec![ok("", "é😀")]),
            (b"data: a\xff\n\ndata: 1\n\n", vec![Err(UnreadableEvent::NotUtf8), ok("", "1")]),
            (b"data: [DONE]", vec![ok("", "[DONE]")]),
            (b"data: 1\n\nevent: cut\n", vec![ok("", "1")]),
            (&long, vec![Err(UnreadableEvent::TooLarge), ok("", "2")]),
            (&split, vec![Err(UnreadableEvent::TooLarge), ok("", "2")]),
        ];
        for (stream, expected) in cases {
            for chunk in 1..=stream.len() {
                assert_eq!(events(stream, chunk), expected, "{:?}", String::from_utf8_lossy(stream));
            }
        }
    }
}
