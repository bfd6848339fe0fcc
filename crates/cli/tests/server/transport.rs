//! How requests arrive: websockets that are refused, bodies that are compressed, paths that no provider serves.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use crate::client::{Answer, chat, connect, read, request, send};
use crate::process::{Server, Setup};
use crate::upstream::{Says, Then, Upstream, completion, completion_stream, response};

/// The opening handshake of RFC 6455, 1.3.
fn handshake(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nauthorization: Bearer sk-proj-0123456789abcdef\r\nopenai-beta: responses_websockets=2026-02-06\r\n\r\n"
    )
}

#[test]
fn a_websocket_is_refused_at_once_and_the_client_goes_on_over_http() {
    let upstream = Upstream::saying(response("resp_1", "hello"));
    let server = Server::before("websocket", upstream.address, "");
    for path in ["/v1/responses", "/responses", "/v1/realtime?model=gpt-realtime"] {
        let mut stream = connect(server.address);
        stream.write_all(handshake(path).as_bytes()).unwrap();
        let answer = read(&mut stream);
        assert_eq!((answer.status, answer.whole), (426, true), "{path}: {answer:?}");
        assert_eq!(answer.header("upgrade"), Some("HTTP/1.1"), "{path}");
        assert_eq!(answer.code(), "no_websocket", "{path}");
    }
    assert_eq!(upstream.connections(), 0, "no provider was asked");
    assert_eq!(server.command(&["list"])["conversations"], json!([]), "nothing was recorded");
    // The same client, over HTTP.
    let answer = server.post("/v1/responses", r#"{"model":"gpt-5","input":"hi"}"#);
    assert_eq!((answer.status, upstream.received().len()), (200, 1), "{}", answer.text());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// `{"model":"offline:echo","messages":[{"role":"user","content":"packed by br"}]}` by Google's encoder.
const BROTLI: &str = "1b4d00808cd315f32384750f616ea9b29768aa369ccc4676b40e4b575f70c88940f6ad2d0e9b071b6367978463a6c10cbaaa76eb9ed7e259f6f0059316129ca34afec880ef";
/// The same with "packed by zstd" by Facebook's encoder: with its length, and as a stream with a checksum.
const ZSTD: [&str; 2] = [
    "28b52ffd20504d02000245111790b53a802cfddaf04232feff4c2f78f97fd94991ef0e9851884e6f03053094f4031dc4e9d7fe9a221bbb6fe2f4973ac320bd27ceee998db540cf376329a54eaf2765860100",
    "28b52ffd04584d02000245111790b53a802cfddaf04232feff4c2f78f97fd94991ef0e9851884e6f03053094f4031dc4e9d7fe9a221bbb6fe2f4973ac320bd27ceee998db540cf376329a54eaf27658601001006b217",
];
/// 50,000,000 spaces by Google's encoder.
const BROTLI_BOMB: &str = "cbffff3ff82540e2b14020f7fe8fffff7ff04b00c4611180eefd1fffffffe0970088c30200ddfb3ffeffffc12f0110870500baf77ffcffff835f02200e0b0074effff20f5e0fbf04401c1600e8a0eb01";

fn packed(server: &Server, coding: &str, body: &[u8]) -> Answer {
    let headers = [("content-encoding", coding), ("content-type", "application/json")];
    send(server.address, &request("POST", "/v1/chat/completions", &headers, body))
}

#[test]
fn bodies_compressed_in_every_usual_way_are_read() {
    let server = Server::start("compressed");
    let said = |answer: &Answer| answer.json()["choices"][0]["message"]["content"].clone();
    let body = |text: &str| chat("offline:echo", &json!([{ "role": "user", "content": text }])).into_bytes();
    for (coding, pack) in [
        ("gzip", gzip as fn(&[u8]) -> Vec<u8>),
        ("x-gzip", gzip),
        ("deflate", deflate),
        ("zstd", zstd),
        ("identity", <[u8]>::to_vec),
    ] {
        assert_eq!(said(&packed(&server, coding, &pack(&body("packed")))), "packed", "{coding}");
    }
    assert_eq!(said(&packed(&server, "br", &unhex(BROTLI))), "packed by br");
    for frame in ZSTD {
        assert_eq!(said(&packed(&server, "zstd", &unhex(frame))), "packed by zstd");
    }
}

#[test]
fn what_would_unpack_to_more_than_the_limit_is_refused() {
    let config = "[server.limits]\nbody_bytes = 100000\n";
    let server = Server::with("bombs", &Setup { config, ..Setup::default() });
    let spaces = vec![b' '; 50_000_000];
    let bombs = [
        ("gzip", gzip(&spaces)),
        ("deflate", deflate(&spaces)),
        ("zstd", zstd(&spaces)),
        ("br", unhex(BROTLI_BOMB)),
    ];
    let before = peak_memory(&server);
    for (coding, bomb) in bombs {
        assert!(bomb.len() < 100_000, "{coding}: {}", bomb.len());
        let answer = packed(&server, coding, &bomb);
        assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"), "{coding}");
    }
    let grown = peak_memory(&server).saturating_sub(before);
    // Brotli's window is 16 MiB; none of the four needs more, and each would have needed 48 MiB and more.
    assert!(grown < 40 << 10, "the server's memory grew by {grown} KiB");
    assert_eq!(server.command(&["list"])["conversations"], json!([]));
}

/// The most memory a server ever had, in KiB.
fn peak_memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[test]
fn what_is_understood_is_sent_on_unpacked_and_what_is_not_as_it_came() {
    let upstream = Upstream::saying(completion("hello"));
    let server = Server::before("unpacked", upstream.address, "");
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": "hi" }]));
    let answer = packed(&server, "zstd", &zstd(body.as_bytes()));
    assert_eq!((answer.status, answer.view().1.as_str()), (200, "passthrough"), "{}", answer.text());
    let zipped = gzip(b"{\"input\":\"hi\"}");
    let headers = [("content-encoding", "gzip")];
    assert_eq!(send(server.address, &request("POST", "/v1/embeddings", &headers, &zipped)).status, 200);
    let [chat, other] = &upstream.received()[..] else { unreachable!() };
    assert_eq!((chat.body.as_slice(), chat.header("content-encoding")), (body.as_bytes(), None));
    assert_eq!((&other.body, other.header("content-encoding")), (&zipped, Some("gzip")));
    // The record holds what was said, however it came.
    assert_eq!(server.record(&answer.conversation())[0], ("user".to_string(), "hi".to_string()));
}

#[test]
fn a_path_that_no_upstream_serves_names_those_that_are_configured() {
    let upstream = Upstream::saying(completion("hello"));
    let variables = vec![("ANTHROPIC_BASE_URL", format!("http://{}", upstream.address))];
    let server = Server::with("nowhere", &Setup { variables, ..Setup::default() });
    let answer = server.post("/v1/embeddings", "{}");
    assert_eq!((answer.status, answer.code().as_str()), (404, "no_provider"));
    let error = &answer.json()["error"];
    assert_eq!(error["upstreams"], json!(["anthropic at 127.0.0.1"]), "{error}");
    assert!(error["message"].as_str().unwrap().contains("POST /v1/embeddings"), "{error}");
    let answer = server.post("/elsewhere/v1/messages", "{}");
    assert_eq!(
        (answer.status, &answer.json()["upstreams"]),
        (404, &json!(["anthropic"])),
        "{}",
        answer.text()
    );
    assert_eq!(upstream.connections(), 0);
}

#[test]
fn lists_of_models_are_answered_without_a_provider() {
    // Nothing listens there.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let down =
        Server::before("models-down", gone, "[models.\"anthropic:claude-mine\"]\ncontext_window = 9\n");
    let alone = Server::start("models-alone");
    for (server, has_own) in [(&down, true), (&alone, false)] {
        let head = server.call("HEAD", "/", &[], "");
        assert_eq!((head.status, head.body.len()), (200, 0), "{head:?}");
        let anthropic = [("anthropic-version", "2023-06-01"), ("x-api-key", "sk-ant-0123456789abcdef")];
        let list = server.call("GET", "/v1/models?limit=1000", &anthropic, "");
        assert_eq!(list.status, 200, "{}", list.text());
        let list = list.json();
        let has = |name: &str| list["data"].as_array().unwrap().iter().any(|model| model["id"] == name);
        assert!(has("claude-opus-4-8") && !has("gpt-4o"), "{list}");
        assert_eq!(has("claude-mine"), has_own);
        let list = server.call("GET", "/v1/models", &[], "").json();
        assert!(list["data"].as_array().unwrap().iter().any(|model| model["id"] == "gpt-4o"), "{list}");
    }
    // A provider that takes the question and never answers is waited for once.
    let silent = Upstream::start(|_, _| Says::Nothing);
    let server = Server::before("models-silent", silent.address, "[server.limits]\nconnect_seconds = 1\n");
    for _ in 0..3 {
        let list = server.call("GET", "/v1/models", &[], "").json();
        assert!(list["data"].as_array().unwrap().iter().any(|model| model["id"] == "gpt-4o"), "{list}");
    }
    assert_eq!(silent.received().len(), 1, "asked once");
}

#[test]
fn headers_of_ours_that_there_are_not_are_refused() {
    let upstream = Upstream::saying(completion("hello"));
    let server = Server::before("headers", upstream.address, "");
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": "hi" }]));
    let paths = [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/messages/count_tokens"),
        ("GET", "/v1/models"),
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/v1beta/models"),
        ("POST", "/v1beta/models/gemini-2.5-pro:generateContent"),
    ];
    for (method, path) in paths {
        let answer = server.call(method, path, &[("x-scrollback-manager", "fit")], &body);
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert!(answer.text().contains("did you mean `x-scrollback-managers`?"), "{}", answer.text());
    }
    for name in [String::new(), "x".repeat(513)] {
        let answer = server.call("POST", "/v1/chat/completions", &[("x-scrollback-session", &name)], &body);
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_session"), "{name:?}");
    }
    assert_eq!(upstream.connections(), 0);
}

#[test]
fn a_silent_stream_is_cut_at_the_limit_and_comments_pass() {
    let stream = completion_stream("good day");
    let (first, rest) = stream.split_once("\n\n").unwrap();
    let pieces: Vec<Vec<u8>> = [first, "\n\n", ": still thinking\n\n", "event: ping\ndata: {}\n\n", rest]
        .map(|piece| piece.as_bytes().to_vec())
        .into();
    let whole = pieces.concat();
    let upstream = Upstream::start(move |number, _| match number {
        0 => Says::Events(pieces.clone(), Then::End),
        _ => Says::Events(pieces[..3].to_vec(), Then::Wait),
    });
    let server = Server::before("silent", upstream.address, "[server.limits]\nstream_idle_seconds = 1\n");
    let asking = |text: &str| {
        json!({ "model": "gpt-4o", "stream": true, "messages": [{ "role": "user", "content": text }] })
            .to_string()
    };
    let answer = server.post("/v1/chat/completions", &asking("a"));
    assert_eq!((answer.whole, answer.text()), (true, String::from_utf8(whole.clone()).unwrap()));
    assert_eq!(server.record(&answer.conversation())[1].1, "good day");
    let answer = server.post("/v1/chat/completions", &asking("b"));
    assert!(!answer.whole && whole.starts_with(&answer.body), "{}", answer.text());
    let calls = server.call("GET", &format!("/api/conversations/{}/calls", answer.conversation()), &[], "");
    assert!(calls.text().contains("truncated_upstream"), "{}", calls.text());
}

#[cfg(target_os = "linux")]
#[test]
fn connections_on_both_sides_are_kept_alive() {
    let upstream = Upstream::saying(Says::Nothing);
    let server = Server::before("alive", upstream.address, "");
    let mut stream = connect(server.address);
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": "hi" }]));
    stream.write_all(&request("POST", "/v1/chat/completions", &[], body.as_bytes())).unwrap();
    while upstream.received().is_empty() {
        std::thread::yield_now();
    }
    // Both are silent now. The kernel lists the timer of each connection: 02 is the one for probes.
    let ports = [(server.address.port(), stream.local_addr().unwrap().port())];
    let probed = |local: Option<u16>, remote: Option<u16>| {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let port = |address: &str| u16::from_str_radix(address.split(':').nth(1).unwrap(), 16).unwrap();
        table.lines().skip(1).any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            local.is_none_or(|local| port(fields[1]) == local)
                && remote.is_none_or(|remote| port(fields[2]) == remote)
                && fields[5].starts_with("02")
        })
    };
    for (listening, client) in ports {
        assert!(probed(Some(listening), Some(client)), "the client's connection");
        assert!(probed(None, Some(upstream.address.port())), "the provider's connection");
    }
}

#[test]
fn every_call_is_one_line_in_the_log() {
    let upstream = Upstream::start(|number, _| match number {
        1 => Says::Json(500, "{\"error\":{\"message\":\"sorry\"}}".into()),
        _ => completion("a reply that no log has"),
    });
    let server = Server::before("log", upstream.address, "");
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": "words that no log has" }]));
    let headers = [("x-session-id", "session-7"), ("authorization", "Bearer sk-proj-0123456789abcdef")];
    let good = server.call("POST", "/v1/chat/completions?key=AIza0123456789abcdef0123", &headers, &body);
    server.call("POST", "/v1/chat/completions", &headers, &body);
    server.post("/v1/chat/completions", "{");
    server.call("GET", "/v1/models", &headers, "");
    let mut websocket = connect(server.address);
    websocket.write_all(handshake("/v1/responses").as_bytes()).unwrap();
    read(&mut websocket);
    let lines = server.calls_logged(5);
    assert_eq!(lines.len(), 5, "{lines:?}");
    let field = |line: usize, name: &str| lines[line][name].clone();
    let told: Vec<(Value, Value, Value)> = (0..5)
        .map(|line| (lines[line]["level"].clone(), field(line, "path"), field(line, "status")))
        .collect();
    let expected = [
        ("INFO", "/v1/chat/completions", 200),
        ("WARN", "/v1/chat/completions", 500),
        ("WARN", "/v1/chat/completions", 400),
        ("INFO", "/v1/models", 200),
        ("WARN", "/v1/responses", 426),
    ];
    assert_eq!(told, expected.map(|(level, path, status)| (json!(level), json!(path), json!(status))));
    assert_eq!(
        (field(0, "method"), field(0, "model"), field(0, "session")),
        (json!("POST"), json!("gpt-4o"), json!("session-7"))
    );
    assert_eq!(
        (field(0, "tokens_in"), field(0, "tokens_out"), field(0, "tokens_cached")),
        (json!(10), json!(5), json!(0))
    );
    assert!(field(0, "cost_usd").as_f64().unwrap() > 0.0);
    assert_eq!(field(0, "view").as_str(), good.header("x-scrollback-view"));
    assert_eq!(field(0, "conversation").as_str(), good.header("x-scrollback-conversation"));
    assert!(field(0, "first_byte_ms").as_u64().unwrap() <= field(0, "last_byte_ms").as_u64().unwrap());
    assert_eq!(field(2, "code"), "bad_json");
    let log = std::fs::read_to_string(server.folder.join("log")).unwrap();
    assert!(!["that no log has", "sk-proj", "AIza"].iter().any(|word| log.contains(word)), "{log}");
}

#[test]
fn the_header_names_everything_that_changed_a_request() {
    let upstream = Upstream::saying(completion("ok"));
    let server = Server::before("truth", upstream.address, "");
    let user = |text: &str| json!({ "role": "user", "content": text });
    let call = json!([{ "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{}" } }]);
    let broken = json!([user("hi"), { "role": "assistant", "content": null, "tool_calls": call }, user("still there?")]);
    let ask = |headers: &[(&str, &str)], messages: &serde_json::Value| {
        let answer = server.call("POST", "/v1/chat/completions", headers, &chat("gpt-4o", messages));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let sent = upstream.received().pop().unwrap();
        let whole = sent.body == chat("gpt-4o", messages).into_bytes();
        let shown = sent.json()["messages"].as_array().unwrap().len();
        let (numbers, by) = answer.view();
        assert_eq!(numbers[0], shown, "what is told is what is sent: {answer:?}");
        assert_eq!(whole, by == "passthrough", "{by}");
        (by, numbers[1], answer.conversation())
    };
    assert_eq!(ask(&[], &json!([user("a")])).0, "passthrough");
    let (by, recorded, _) = ask(&[], &broken);
    assert_eq!((by.as_str(), recorded), ("repair", 3));
    let (by, ..) = ask(
        &[("x-scrollback-managers", "turn_window(1)")],
        &json!([user("x"), { "role": "assistant", "content": "y" }, user("z")]),
    );
    assert_eq!(by, "turn_window");
    // A client that sends only what is new gets its history from the record.
    let named = [("x-scrollback-conversation", "thin"), ("x-scrollback-mode", "append")];
    ask(&named[..1], &json!([user("first")]));
    let (by, recorded, _) = ask(&named, &json!([user("second")]));
    assert_eq!((by.as_str(), recorded), ("thread", 3));
}
