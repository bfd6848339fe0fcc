//! A provider's server on this machine that does exactly as it is told, and keeps what it was sent.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server answers to one request.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    /// Written piece by piece.
    pub body: Vec<Vec<u8>>,
    pub end: End,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The connection is closed, as an end should be.
    Closed,
    /// Nothing more comes, for as long as the other side waits.
    Hanging,
}

impl Reply {
    pub fn of(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Reply { status, headers: Vec::new(), body: vec![body.into()], end: End::Closed }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub head: String,
    pub body: String,
}

pub struct Server {
    pub url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Answers one request after the other with these, on a free port.
    pub async fn start(replies: Vec<Reply>) -> Self {
        let replies = Mutex::new(VecDeque::from(replies));
        Server::answering(move |_| {
            replies.lock().unwrap().pop_front().unwrap_or_else(|| Reply::of(500, "no more"))
        })
        .await
    }

    /// Answers every request by what its body says.
    pub async fn answering(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (kept, reply) = (Arc::clone(&seen), Arc::new(reply));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (kept, reply) = (Arc::clone(&kept), Arc::clone(&reply));
                tokio::spawn(async move { answer(stream, &*reply, &kept).await });
            }
        });
        Server { url, seen }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn answer(
    mut stream: TcpStream,
    reply: &(dyn Fn(&str) -> Reply + Send + Sync),
    seen: &Mutex<Vec<Seen>>,
) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let (head, length) = loop {
        let count = stream.read(&mut buffer).await.unwrap();
        bytes.extend_from_slice(&buffer[..count]);
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            break (head, end + 4 + length.unwrap_or(0));
        }
        assert!(count > 0, "the request broke off");
    };
    while bytes.len() < length {
        let count = stream.read(&mut buffer).await.unwrap();
        bytes.extend_from_slice(&buffer[..count]);
    }
    let body = String::from_utf8(bytes[head.len() + 4..length].to_vec()).unwrap();
    let reply = reply(&body);
    seen.lock().unwrap().push(Seen { head, body });
    let mut start = format!("HTTP/1.1 {} Told\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        let _ = write!(start, "{name}: {value}\r\n");
    }
    start.push_str("\r\n");
    // The caller may have left; that is not a failure here.
    let _ = stream.write_all(start.as_bytes()).await;
    for piece in &reply.body {
        let _ = stream.write_all(piece).await;
        let _ = stream.flush().await;
    }
    match reply.end {
        End::Closed => drop(stream),
        End::Hanging => {
            let _ = stream.read(&mut buffer).await;
        }
    }
}
