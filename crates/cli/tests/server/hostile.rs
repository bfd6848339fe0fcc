//! Clients that mean harm or are broken: refused or cut off, and all others are served.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{chat, connect, read, request, send};
use crate::process::Server;

/// A server with little patience.
const QUICK: &str =
    "[server.limits]\nbody_bytes = 100000\nheader_seconds = 1\nbody_seconds = 1\nconcurrent_requests = 3\n";

fn good(server: &Server) {
    let body = chat("offline:echo", &json!([{ "role": "user", "content": "still there?" }]));
    let answer = server.post("/v1/chat/completions", &body);
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "still there?", "{}", answer.text());
}

#[test]
fn bodies_that_are_no_requests_are_refused() {
    let server = Server::with("bodies", &crate::process::Setup { config: QUICK, ..Default::default() });
    let post = |body: &[u8], headers: &[(&str, &str)]| {
        send(server.address, &request("POST", "/v1/chat/completions", headers, body))
    };
    let deep =
        format!("{{\"model\":\"m\",\"messages\":[],\"x\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let cases: [(&[u8], u16, &str); 8] = [
        (b"", 400, "bad_json"),
        (b"{", 400, "bad_json"),
        (b"\xff\xfe{}", 400, "bad_json"),
        (b"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\xc3\"}]}", 400, "bad_json"),
        (deep.as_bytes(), 400, "bad_json"),
        (b"[1,2]", 400, "bad_input"),
        (b"{\"model\":\"m\"}", 400, "bad_input"),
        (
            b"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"role\":\"tool\",\"content\":\"a\"}]}",
            400,
            "bad_json",
        ),
    ];
    for (body, status, code) in cases {
        let answer = post(body, &[]);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
    }
    let large = vec![b' '; 200_000];
    let answer = post(&large, &[]);
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    // A length that is a lie is refused before anything is read.
    let lie =
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n{";
    assert_eq!(send(server.address, lie).status, 413);
    // Chunks say no length; what comes is counted.
    let mut chunked = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n".to_vec();
    for _ in 0..20 {
        chunked.extend_from_slice(b"2710\r\n");
        chunked.extend_from_slice(&[b' '; 10_000]);
        chunked.extend_from_slice(b"\r\n");
    }
    assert_eq!(send(server.address, &chunked).status, 413);
    for coding in ["compress", "gzip, gzip", "br, zstd"] {
        assert_eq!(post(b"{}", &[("content-encoding", coding)]).status, 415, "{coding}");
    }
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let answer = post(b"{}", &[("content-encoding", coding)]);
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_encoding"), "{coding}");
    }
    good(&server);
}

#[test]
fn badly_framed_requests_end_the_connection() {
    let server = Server::start("framed");
    let heads = [
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n{}",
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n{}",
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: localhost\r\n folded: yes\r\n\r\n",
        "NONSENSE\r\n\r\n",
        "GET / HTTP/1.1\r\nhost : localhost\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
    ];
    for head in heads {
        let mut stream = connect(server.address);
        stream.write_all(head.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let answer = read(&mut stream);
        assert!(answer.status == 0 || (400..500).contains(&answer.status), "{head:?}: {answer:?}");
    }
    // A body shorter than it said is no request.
    let mut stream = connect(server.address);
    stream
        .write_all(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500\r\n\r\n{\"model\"",
        )
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let answer = read(&mut stream);
    assert!(answer.status == 0 || answer.status == 400, "{answer:?}");
    let many: Vec<(String, String)> = (0..200).map(|number| (format!("x-{number}"), "y".into())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert!(server.call("GET", "/healthz", &many, "").status >= 400);
    let long = "y".repeat(100_000);
    assert!([0, 400, 431].contains(&server.call("GET", "/healthz", &[("x-long", &long)], "").status));
    good(&server);
}

#[test]
fn slow_clients_are_cut_off_while_others_are_served() {
    let server = Server::with("slow", &crate::process::Setup { config: QUICK, ..Default::default() });
    let mut slow: Vec<_> = (0..200).map(|_| connect(server.address)).collect();
    for (number, stream) in slow.iter_mut().enumerate() {
        // Half of them never finish their headers, a few are slow with their body.
        let start: &[u8] = if number % 100 == 0 {
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{"
        } else {
            b"POST /v1/chat/compl"
        };
        stream.write_all(start).unwrap();
    }
    good(&server);
    let began = Instant::now();
    for mut stream in slow {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut rest = Vec::new();
        // Closed, with a word or without one; not left open.
        let _ = stream.read_to_end(&mut rest);
        assert!(began.elapsed() < Duration::from_secs(30), "a slow client was never cut off");
        let text = String::from_utf8_lossy(&rest).into_owned();
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{text}");
    }
    good(&server);
}

#[test]
fn requests_for_somebody_else_and_from_somebody_elses_page_are_refused() {
    let server = Server::start("pages");
    let body = chat("offline:echo", &json!([{ "role": "user", "content": "x" }]));
    let hosts = [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io:7275",
        "169.254.169.254",
        "localhost@evil.example",
    ];
    for host in hosts {
        for path in ["/v1/chat/completions", "/api/conversations", "/", "/metrics", "/healthz"] {
            let answer = server.call("POST", path, &[("host", host)], &body);
            assert_eq!(answer.status, 403, "{host} {path}");
        }
    }
    for headers in [("origin", "https://evil.example"), ("origin", "null"), ("sec-fetch-site", "cross-site")]
    {
        let answer = server.call("POST", "/v1/chat/completions", &[headers], &body);
        assert_eq!(answer.status, 403, "{headers:?}");
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    assert_eq!(
        server.call("OPTIONS", "/v1/chat/completions", &[("origin", "https://evil.example")], "").status,
        403
    );
    let own = format!("http://{}", server.address);
    let host = server.address.to_string();
    let answer = server.call("POST", "/v1/chat/completions", &[("host", &host), ("origin", &own)], &body);
    assert_eq!(answer.status, 200);
    good(&server);
}

#[test]
fn one_tenant_has_only_so_many_requests_at_once() {
    let upstream = crate::upstream::Upstream::saying(crate::upstream::Says::Nothing);
    let server = Server::before("crowd", upstream.address, QUICK);
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": "x" }]));
    let mut waiting: Vec<_> = (0..3).map(|_| connect(server.address)).collect();
    for stream in &mut waiting {
        stream.write_all(&request("POST", "/v1/chat/completions", &[], body.as_bytes())).unwrap();
    }
    for _ in 0..400 {
        if upstream.received().len() == 3 {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    let answer = server.post("/v1/chat/completions", &body);
    assert_eq!((answer.status, answer.code().as_str()), (429, "too_many_requests"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(upstream.received().len(), 3);
    drop(waiting);
    for _ in 0..400 {
        if upstream.left() == 3 {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    assert_eq!(upstream.left(), 3, "calls end with their clients, and make room");
}

#[test]
fn one_address_has_only_so_many_connections() {
    let config = "[server.limits]\nconnections_per_ip = 3\n";
    let server = Server::with("neighbours", &crate::process::Setup { config, ..Default::default() });
    let mut open: Vec<_> = (0..3).map(|_| connect(server.address)).collect();
    // Connections are accepted in turn: when the last one was answered, all are counted.
    let health = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for stream in &mut open {
        stream.write_all(health).unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
    }
    let refused = server.call("GET", "/healthz", &[], "");
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{refused:?}");
    drop(open.pop());
    for _ in 0..400 {
        if server.call("GET", "/healthz", &[], "").status == 200 {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("a connection that was closed made no room");
}

#[test]
fn a_message_has_only_so_many_parts() {
    let config = "[server.limits]\nmessage_parts = 3\n";
    let server = Server::with("parts", &crate::process::Setup { config, ..Default::default() });
    let parts =
        |count| -> serde_json::Value { (0..count).map(|_| json!({ "type": "text", "text": "x" })).collect() };
    let ask = |count: usize| {
        let messages = json!([{ "role": "user", "content": parts(count) }]);
        server.post("/v1/chat/completions", &chat("offline:echo", &messages))
    };
    assert_eq!(ask(3).status, 200);
    let refused = ask(4);
    assert_eq!((refused.status, refused.code().as_str()), (400, "bad_input"), "{}", refused.text());
}

/// A program in Python that does something, says so in a line, and ends when its input does.
fn python(folder: &std::path::Path, program: &str) -> (std::process::Child, String) {
    let mut child = std::process::Command::new("python3")
        .args(["-c", program])
        .current_dir(folder)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    (child, line.trim().to_string())
}

#[test]
fn a_store_that_is_slow_has_only_so_much_waiting_for_it() {
    let upstream = crate::upstream::Upstream::saying(crate::upstream::completion("ok"));
    let server = Server::before("waiting", upstream.address, "[server.limits]\nwaiting_entries = 1\n");
    let lock = "import sqlite3, sys\nstore = sqlite3.connect('record.db')\nstore.execute('begin immediate')\n\
                print('locked', flush=True)\nsys.stdin.read()\nstore.rollback()";
    let (mut locker, said) = python(&server.folder, lock);
    assert_eq!(said, "locked");
    let (answers, answered) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (answers, server) = (answers.clone(), &server);
            scope.spawn(move || {
                let body = chat("gpt-4o", &json!([{ "role": "user", "content": format!("Hi {number}") }]));
                answers.send(server.post("/v1/chat/completions", &body)).unwrap();
            });
        }
        // One waits for the store; the second is told to come back.
        let refused = answered.recv().unwrap();
        assert_eq!((refused.status, refused.code().as_str()), (503, "overloaded"), "{}", refused.text());
        assert_eq!(refused.header("retry-after"), Some("1"));
        drop(locker.stdin.take());
        let waited = answered.recv().unwrap();
        assert_eq!(waited.status, 200, "{}", waited.text());
    });
    locker.wait().unwrap();
    assert_eq!(upstream.received().len(), 1, "what is not recorded is not sent");
    good(&server);
}

#[test]
fn a_provider_that_takes_no_connection_is_given_up() {
    // A queue of length zero with one request in it: the next one is refused.
    let deaf = "import socket, sys\nserver = socket.socket()\nserver.bind(('127.0.0.1', 0))\nserver.listen(0)\n\
                place = server.getsockname()\nwaiting = [socket.socket() for _ in range(4)]\n\
                [one.setblocking(False) for one in waiting]\n[one.connect_ex(place) for one in waiting]\n\
                print(place[1], flush=True)\nsys.stdin.read()";
    let (mut child, port) = python(std::path::Path::new("."), deaf);
    let place = std::net::SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
    let server =
        Server::before("deaf", place, "[server.limits]\nconnect_seconds = 1\nfirst_byte_seconds = 50\n");
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": "anybody?" }]));
    let answer = server.post("/v1/chat/completions", &body);
    assert_eq!((answer.status, answer.code().as_str()), (504, "upstream_timeout"), "{}", answer.text());
    // That it would never have answered is another limit, and another word.
    assert!(!answer.text().contains("to answer"), "{}", answer.text());
    drop(child.stdin.take());
    child.wait().unwrap();
    good(&server);
}

#[test]
fn slow_bodies_are_cut_off_wherever_they_are_sent() {
    let server = Server::with("slow-bodies", &crate::process::Setup { config: QUICK, ..Default::default() });
    for path in ["/api/conversations", "/api/import", "/lens/import", "/v1/messages"] {
        let mut stream = connect(server.address);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).unwrap();
        assert_eq!(read(&mut stream).status, 408, "{path}");
    }
}

#[test]
fn a_base_url_that_is_nearly_right_is_explained() {
    let server = Server::start("nearly");
    for (path, hint) in [("/v1/v1/messages", "without /v1"), ("/chat/completions", "ends in /v1")] {
        let answer = server.post(path, "{}");
        assert_eq!(answer.status, 404);
        assert!(answer.text().contains(hint), "{path}: {}", answer.text());
    }
}

#[test]
fn health_and_metrics_are_told() {
    let server = Server::start("health");
    good(&server);
    assert_eq!(server.call("GET", "/healthz", &[], "").text(), "ok\n");
    assert_eq!(server.call("GET", "/readyz", &[], "").status, 200);
    let metrics = server.call("GET", "/metrics", &[], "").text();
    assert!(
        metrics.contains("scrollback_requests_total{route=\"/v1/chat/completions\",status=\"200\"} 1"),
        "{metrics}"
    );
}
