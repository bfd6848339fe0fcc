//! A provider that answers at once, and a client that measures how long answers take; `./dev bench proxy` uses both.
//!
//! ```text
//! load upstream                                   answers on a free port, whose address it prints
//! load ask URL [--bytes N] [--stream] [--rate R] [--count N] [--connections N]
//! ```
//!
//! `ask` sends requests at a steady rate, whatever the answers take, over kept connections, and prints one JSON line: times to
//! the first and to the last byte in milliseconds, counted from when a request was due.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

const REPLY: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"Fine, thank you."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("upstream") => runtime.block_on(upstream()),
        Some("ask") => runtime.block_on(ask(&args[1..])),
        _ => {
            eprintln!(
                "load upstream | load ask URL [--bytes N] [--stream] [--rate R] [--count N] [--connections N]"
            );
            std::process::exit(2);
        }
    }
}

/// Answers every request at once: whole, or as a stream of twenty events.
async fn upstream() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        tokio::spawn(async move {
            let mut buffer = Vec::new();
            while let Some(body) = request(&mut stream, &mut buffer).await {
                let streams =
                    body.windows(13).any(|part| part == b"\"stream\":true" || part == b"\"stream\": tru");
                if answer(&mut stream, streams).await.is_err() {
                    return;
                }
            }
        });
    }
}

async fn answer(stream: &mut TcpStream, streams: bool) -> std::io::Result<()> {
    if !streams {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            REPLY.len()
        );
        return stream.write_all(format!("{head}{REPLY}").as_bytes()).await;
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let event = |delta: &str, reason: &str| {
        let event = format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o\",\"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"finish_reason\":{reason}}}]}}\n\n"
        );
        format!("{:x}\r\n{event}\r\n", event.len())
    };
    for number in 0..20 {
        stream
            .write_all(
                event(&format!("\"role\":\"assistant\",\"content\":\"word {number} \""), "null").as_bytes(),
            )
            .await?;
    }
    stream.write_all(event("", "\"stop\"").as_bytes()).await?;
    stream.write_all(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n").await
}

/// Reads a message up to the end of its body; none when the connection is closed.
async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(end) = find(buffer, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"))
                .map_or(0, |value| value.trim().parse().unwrap());
            if buffer.len() >= end + 4 + length {
                let body = buffer[end + 4..end + 4 + length].to_vec();
                buffer.drain(..end + 4 + length);
                return Some(body);
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|part| part == what)
}

/// How requests are sent.
#[derive(Clone)]
struct Plan {
    host: String,
    path: String,
    bytes: usize,
    streams: bool,
    rate: f64,
    count: usize,
    connections: usize,
    key: String,
}

fn plan(args: &[String]) -> Plan {
    let value = |name: &str, usual: &str| {
        let at = args.iter().position(|arg| arg == name);
        at.and_then(|at| args.get(at + 1)).map_or_else(|| usual.to_string(), Clone::clone)
    };
    let url = args[0].strip_prefix("http://").expect("the URL begins with http://");
    let (host, path) = url.split_once('/').unwrap_or((url, "v1/chat/completions"));
    Plan {
        host: host.into(),
        path: format!("/{path}"),
        bytes: value("--bytes", "1000").parse().unwrap(),
        streams: args.iter().any(|arg| arg == "--stream"),
        rate: value("--rate", "100").parse().unwrap(),
        count: value("--count", "1000").parse().unwrap(),
        connections: value("--connections", "32").parse().unwrap(),
        key: value("--key", "sk-bench-0123456789abcdef"),
    }
}

fn body(plan: &Plan, number: usize) -> String {
    // Each request is a conversation of its own: nothing is answered from what was seen before.
    let filler = "the quick brown fox jumps over the lazy dog ".repeat(plan.bytes / 44 + 1);
    let text = format!(
        "request {number} of {} {}",
        std::process::id(),
        &filler[..plan.bytes.saturating_sub(120).min(filler.len())]
    );
    let stream = if plan.streams { "\"stream\":true," } else { "" };
    format!("{{\"model\":\"gpt-4o\",{stream}\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]}}")
}

async fn ask(args: &[String]) {
    let plan = plan(args);
    let (next, times) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let began = Instant::now() + Duration::from_millis(100);
    let lanes: Vec<_> = (0..plan.connections)
        .map(|_| {
            let (plan, next, times) = (plan.clone(), Arc::clone(&next), Arc::clone(&times));
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(&plan.host).await.unwrap();
                stream.set_nodelay(true).unwrap();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= plan.count {
                        return;
                    }
                    let body = body(&plan, number);
                    let head = format!(
                        "POST {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                        plan.path, plan.host, plan.key, body.len()
                    );
                    let due = began + Duration::from_secs_f64(number as f64 / plan.rate);
                    sleep_until(due).await;
                    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
                    let (first, last) = reply(&mut stream).await;
                    times.lock().await.push((first.duration_since(due), last.duration_since(due)));
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.await.unwrap();
    }
    let times = times.lock().await;
    let milliseconds = |part: fn(&(Duration, Duration)) -> Duration, share: f64| {
        let mut all: Vec<f64> = times.iter().map(|one| part(one).as_secs_f64() * 1000.0).collect();
        all.sort_by(f64::total_cmp);
        all[((all.len() - 1) as f64 * share) as usize]
    };
    println!(
        "{{\"count\":{},\"first_p50\":{:.3},\"first_p99\":{:.3},\"last_p50\":{:.3},\"last_p99\":{:.3},\"per_second\":{:.0}}}",
        times.len(),
        milliseconds(|one| one.0, 0.5),
        milliseconds(|one| one.0, 0.99),
        milliseconds(|one| one.1, 0.5),
        milliseconds(|one| one.1, 0.99),
        times.len() as f64 / began.elapsed().as_secs_f64(),
    );
}

/// Reads a reply; when its first byte and its last came.
async fn reply(stream: &mut TcpStream) -> (Instant, Instant) {
    let mut buffer = Vec::with_capacity(16 << 10);
    let (mut first, mut head_end) = (None, None);
    loop {
        assert!(
            stream.read_buf(&mut buffer).await.unwrap() > 0,
            "the connection was closed: {}",
            String::from_utf8_lossy(&buffer)
        );
        first.get_or_insert_with(Instant::now);
        if head_end.is_none() {
            head_end = find(&buffer, b"\r\n\r\n");
            if head_end.is_some() {
                assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer));
            }
        }
        let Some(end) = head_end else { continue };
        let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
        let whole = match head.lines().find_map(|line| line.strip_prefix("content-length:")) {
            Some(length) => buffer.len() >= end + 4 + length.trim().parse::<usize>().unwrap(),
            None => buffer.ends_with(b"0\r\n\r\n"),
        };
        if whole {
            let now = Instant::now();
            return (first.unwrap_or(now), now);
        }
    }
}
