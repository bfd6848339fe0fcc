//! A client that says exactly what a test wants it to say.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body ended as it should.
    pub(crate) whole: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The session of the conversation.
    pub(crate) fn session(&self) -> String {
        self.header("x-scrollback-session").expect("a session").into()
    }

    pub(crate) fn conversation(&self) -> String {
        self.header("x-scrollback-conversation").unwrap_or_else(|| panic!("{self:?}")).to_string()
    }

    /// The numbers of `x-scrollback-view`: entries shown and recorded, tokens shown and recorded; and who did it.
    pub(crate) fn view(&self) -> (Vec<usize>, String) {
        let told = self.header("x-scrollback-view").unwrap().to_string();
        let (numbers, by) = told.split_once("; by=").unwrap();
        let numbers =
            numbers.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
        (numbers, by.to_string())
    }

    /// The error as a provider's client reads it.
    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_string()
    }
}

/// A connection.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// The bytes of a request.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text =
        format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text.push_str("host: 127.0.0.1\r\n");
    }
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}

/// Sends bytes as they are and reads what comes until the connection is closed.
pub(crate) fn send(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = connect(address);
    // A server that refuses early closes its side; what it said is still there to read.
    let _ = stream.write_all(bytes);
    read(&mut stream)
}

/// Reads an answer to its end.
pub(crate) fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Answer {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else {
        return Answer { status: 0, headers: Vec::new(), body: bytes.to_vec(), whole: false };
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()))
        .collect();
    let rest = &bytes[end + 4..];
    let of = |name: &str| headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
    let (body, whole) = if of("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
        unchunk(rest)
    } else {
        let length: Option<usize> = of("content-length").and_then(|length| length.parse().ok());
        (rest.to_vec(), length.is_none_or(|length| length == rest.len()))
    };
    Answer { status, headers, body, whole }
}

/// The content of chunks, and whether the last one came.
pub(crate) fn unchunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|part| part == b"\r\n") else { return (body, false) };
        let size = std::str::from_utf8(&rest[..end])
            .ok()
            .and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let Some(size) = size else { return (body, false) };
        if size == 0 {
            return (body, true);
        }
        rest = &rest[end + 2..];
        if rest.len() < size + 2 {
            body.extend_from_slice(&rest[..size.min(rest.len())]);
            return (body, false);
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}

/// A request of Chat Completions.
pub(crate) fn chat(model: &str, messages: &Value) -> String {
    format!("{{\"model\":\"{model}\",\"messages\":{messages}}}")
}
