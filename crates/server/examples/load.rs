//! A provider that answers at once, and a client that measures how long answers take; `./dev bench proxy` uses both.
//!
//! ```text
//! load upstream                                   answers on a free port, whose address it prints
//! load ask URL [--bytes N] [--stream] [--rate R] [--count N] [--connections N]
//! ```
//!
//! `ask` sends requests at a steady rate, whatever the answers take, over kept connections, and prints one JSON line: times to
//! the first and to the last byte in milliseconds, counted from when a request was due.
//!
//! Each connection has a thread that only waits for it: what is measured shall not share its cores with the machinery of
//! those who measure, and a thread wakes within microseconds of a moment where timers of a runtime take milliseconds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const REPLY: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"Fine, thank you."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("upstream") => upstream(),
        Some("ask") => ask(&args[1..]),
        _ => {
            eprintln!(
                "load upstream | load ask URL [--bytes N] [--stream] [--rate R] [--count N] [--connections N]"
            );
            std::process::exit(2);
        }
    }
}

/// Answers every request at once: whole, or as a stream of twenty events.
fn upstream() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        stream.set_nodelay(true).unwrap();
        thread::spawn(move || {
            let mut buffer = Vec::new();
            while let Some(body) = request(&mut stream, &mut buffer) {
                // At one end or the other, depending on the writer.
                let (start, end) = (&body[..body.len().min(300)], &body[body.len().saturating_sub(300)..]);
                let asks = |part: &[u8]| {
                    find(part, b"\"stream\":true").or(find(part, b"\"stream\": true")).is_some()
                };
                let streams = asks(start) || asks(end);
                if answer(&mut stream, streams).is_err() {
                    return;
                }
            }
        });
    }
}

fn answer(stream: &mut TcpStream, streams: bool) -> std::io::Result<()> {
    if !streams {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            REPLY.len()
        );
        return stream.write_all(format!("{head}{REPLY}").as_bytes());
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    let event = |delta: &str, reason: &str| {
        let event = format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o\",\"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"finish_reason\":{reason}}}]}}\n\n"
        );
        format!("{:x}\r\n{event}\r\n", event.len())
    };
    for number in 0..20 {
        let delta = format!("\"role\":\"assistant\",\"content\":\"word {number} \"");
        stream.write_all(event(&delta, "null").as_bytes())?;
    }
    stream.write_all(event("", "\"stop\"").as_bytes())?;
    stream.write_all(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
}

/// Reads a message up to the end of its body; none when the connection is closed.
fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
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
        if more(stream, buffer).ok()? == 0 {
            return None;
        }
    }
}

/// Reads what has come; how many bytes that was.
fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut piece = [0; 16 << 10];
    let read = stream.read(&mut piece)?;
    buffer.extend_from_slice(&piece[..read]);
    Ok(read)
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

fn ask(args: &[String]) {
    let plan = plan(args);
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now() + Duration::from_millis(100);
    let lanes: Vec<_> = (0..plan.connections)
        .map(|_| {
            let (plan, next) = (plan.clone(), Arc::clone(&next));
            thread::spawn(move || lane(&plan, &next, began))
        })
        .collect();
    let times: Vec<_> = lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect();
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

/// Sends one request after the other on a connection; how long each took to its first and to its last byte.
fn lane(plan: &Plan, next: &AtomicUsize, began: Instant) -> Vec<(Duration, Duration)> {
    let mut stream = TcpStream::connect(&plan.host).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut times = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= plan.count {
            return times;
        }
        let body = body(plan, number);
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            plan.path,
            plan.host,
            plan.key,
            body.len()
        );
        let due = began + Duration::from_secs_f64(number as f64 / plan.rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let (first, last) = reply(&mut stream);
        times.push((first.duration_since(due), last.duration_since(due)));
    }
}

/// Reads a reply; when its first byte and its last came.
fn reply(stream: &mut TcpStream) -> (Instant, Instant) {
    let mut buffer = Vec::with_capacity(16 << 10);
    let (mut first, mut head_end) = (None, None);
    loop {
        assert!(
            more(stream, &mut buffer).unwrap() > 0,
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
