//! Spans as a collector gets them: of calls through the proxy, of agents, tools and flows.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{chat, request, send};
use crate::process::Server;
use crate::support::{folder, scripted};
use crate::upstream::{Says, Then, Upstream, completion, completion_stream};

const KEY: &str = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH";

/// A collector that keeps what it is sent.
struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// One span as it was sent.
#[derive(Debug)]
struct Span {
    name: String,
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    times: (u64, u64),
    failed: bool,
    attributes: BTreeMap<String, Value>,
}

impl Span {
    fn text(&self, name: &str) -> &str {
        self.attributes.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

impl Collector {
    /// A collector that answers every request with a status.
    fn answering(status: &'static str) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let kept = Arc::clone(&received);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                while let Some((head, body)) = receive(&mut stream) {
                    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
                    assert!(
                        head.to_ascii_lowercase().contains("content-type: application/x-protobuf"),
                        "{head}"
                    );
                    kept.lock().unwrap().push(body);
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                }
            }
        });
        Collector { address, received }
    }

    fn config(&self) -> String {
        format!("[telemetry]\nendpoint = \"http://{}\"\n", self.address)
    }

    /// The spans, once there are so many, by name.
    fn spans(&self, count: usize) -> Vec<Span> {
        for _ in 0..400 {
            let mut spans: Vec<Span> =
                self.received.lock().unwrap().iter().flat_map(|body| spans_of(body)).collect();
            if spans.len() >= count {
                assert_eq!(spans.len(), count, "{spans:#?}");
                spans.sort_by_key(|span| (span.times.0, span.name.clone()));
                return spans;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("{} batches came, and not {count} spans in them", self.received.lock().unwrap().len());
    }

    /// Whether a text stands anywhere in what was sent.
    fn has(&self, text: &str) -> bool {
        let received = self.received.lock().unwrap();
        received.iter().any(|body| body.windows(text.len()).any(|part| part == text.as_bytes()))
    }
}

fn receive(stream: &mut std::net::TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 16 << 10]);
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break end;
        }
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
    };
    let head = String::from_utf8(bytes[..end + 2].to_vec()).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
    });
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length.unwrap_or(0) {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        body.extend_from_slice(&piece[..count]);
    }
    Some((head, body))
}

/// A field of a protobuf message.
enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

impl<'b> Field<'b> {
    fn bytes(&self) -> &'b [u8] {
        match self {
            Field::Bytes(bytes) => bytes,
            Field::Number(number) => panic!("{number} is no bytes"),
        }
    }

    fn number(&self) -> u64 {
        match self {
            Field::Number(number) => *number,
            Field::Bytes(bytes) => panic!("{bytes:?} is no number"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }
}

/// The fields of a protobuf message, read without the package that wrote them.
fn fields(mut rest: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(rest: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let (first, after) = rest.split_first().unwrap();
            *rest = after;
            number |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        number
    }
    let mut found = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut rest)),
            1 => {
                let (number, after) = rest.split_at(8);
                rest = after;
                Field::Number(u64::from_le_bytes(number.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut rest) as usize;
                let (bytes, after) = rest.split_at(length);
                rest = after;
                Field::Bytes(bytes)
            }
            5 => {
                let (number, after) = rest.split_at(4);
                rest = after;
                Field::Number(u32::from_le_bytes(number.try_into().unwrap()).into())
            }
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, field));
    }
    found
}

fn inner(message: &[u8], number: u64) -> Vec<&[u8]> {
    fields(message)
        .into_iter()
        .filter(|(found, _)| *found == number)
        .map(|(_, field)| field.bytes())
        .collect()
}

/// `ExportTraceServiceRequest.resource_spans.scope_spans.spans`
fn spans_of(body: &[u8]) -> Vec<Span> {
    let resources = inner(body, 1);
    for resource in &resources {
        let about: Vec<_> =
            inner(resource, 1).into_iter().flat_map(|resource| inner(resource, 1)).map(pair).collect();
        assert!(about.contains(&("service.name".into(), json!("scrollback"))), "{about:?}");
    }
    let scopes = resources.into_iter().flat_map(|resource| inner(resource, 2));
    scopes.flat_map(|scope| inner(scope, 2)).map(span).collect()
}

fn span(message: &[u8]) -> Span {
    let mut span = Span {
        name: String::new(),
        trace: Vec::new(),
        id: Vec::new(),
        parent: Vec::new(),
        times: (0, 0),
        failed: false,
        attributes: BTreeMap::new(),
    };
    for (number, field) in fields(message) {
        match number {
            1 => span.trace = field.bytes().to_vec(),
            2 => span.id = field.bytes().to_vec(),
            4 => span.parent = field.bytes().to_vec(),
            5 => span.name = field.text(),
            7 => span.times.0 = field.number(),
            8 => span.times.1 = field.number(),
            9 => span.attributes.extend([pair(field.bytes())]),
            15 => {
                span.failed =
                    fields(field.bytes()).iter().any(|(number, code)| *number == 3 && code.number() == 2);
            }
            _ => {}
        }
    }
    assert!(span.trace.len() == 16 && span.id.len() == 8 && span.times.0 <= span.times.1, "{span:?}");
    span
}

fn pair(message: &[u8]) -> (String, Value) {
    let all = fields(message);
    let of = |wanted: u64| all.iter().find(|(number, _)| *number == wanted).map(|(_, field)| field);
    (of(1).unwrap().text(), value(of(2).unwrap().bytes()))
}

fn value(message: &[u8]) -> Value {
    let all = fields(message);
    match all.first().unwrap() {
        (1, field) => json!(field.text()),
        (3, field) => json!(field.number()),
        (5, field) => inner(field.bytes(), 1).into_iter().map(value).collect(),
        (number, _) => panic!("field {number} of a value"),
    }
}

#[test]
fn calls_are_told_without_what_was_said_and_without_keys() {
    let collector = Collector::answering("200 OK");
    let upstream = Upstream::start(|number, _| match number {
        0 => completion("the plan is to wait"),
        1 => Says::Events(vec![completion_stream("the plan is to wait").into_bytes()], Then::End),
        2 => {
            Says::Json(429, json!({ "error": { "message": "slow down", "type": "rate_limit" } }).to_string())
        }
        _ => Says::Events(
            vec![b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"wait\"}}]}\n\n".to_vec()],
            Then::End,
        ),
    });
    let server = Server::before("spans", upstream.address, &collector.config());
    let said = "What is the secret plan?";
    let messages = json!([{ "role": "user", "content": said }]);
    let key = format!("Bearer {KEY}");
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let unwanted = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let streamed = json!({ "model": "gpt-4o", "stream": true, "messages": messages }).to_string();
    let ask = |body: &str, trace: Option<&str>| {
        let mut headers = vec![("authorization", key.as_str())];
        headers.extend(trace.map(|trace| ("traceparent", trace)));
        send(server.address, &request("POST", "/v1/chat/completions", &headers, body.as_bytes()))
    };
    let first = ask(&chat("gpt-4o", &messages), Some(traceparent));
    assert_eq!(first.status, 200);
    assert_eq!(ask(&streamed, None).status, 200);
    assert_eq!(ask(&chat("gpt-4o", &messages), None).status, 429);
    // The caller that began the trace does not want it.
    assert_eq!(ask(&streamed, Some(unwanted)).status, 200);
    assert_eq!(ask(&streamed, None).status, 200);

    let spans = collector.spans(4);
    assert!(
        spans
            .iter()
            .all(|span| span.name == "chat gpt-4o" && !span.text("gen_ai.conversation.id").is_empty())
    );
    let whole = spans.iter().find(|span| !span.parent.is_empty()).unwrap();
    assert_eq!(scrollback_store::hex(&whole.trace), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(scrollback_store::hex(&whole.parent), "b7ad6b7169203331");
    assert_eq!(whole.text("gen_ai.conversation.id"), first.conversation());
    assert_eq!(whole.text("scrollback.call.id"), first.header("x-scrollback-call").unwrap());
    for (name, wanted) in [
        ("gen_ai.operation.name", json!("chat")),
        ("gen_ai.provider.name", json!("openai")),
        ("gen_ai.request.model", json!("gpt-4o")),
        ("gen_ai.response.model", json!("gpt-4o-2024")),
        ("gen_ai.response.id", json!("chatcmpl-1")),
        ("gen_ai.response.finish_reasons", json!(["stop"])),
        ("gen_ai.usage.input_tokens", json!(10)),
        ("gen_ai.usage.output_tokens", json!(5)),
        ("gen_ai.usage.cache_read.input_tokens", json!(0)),
        ("scrollback.tenant", json!("default")),
    ] {
        assert_eq!(whole.attributes.get(name), Some(&wanted), "{name}");
    }
    assert!(!whole.failed && !whole.attributes.contains_key("error.type"));
    let errors: Vec<&str> =
        spans.iter().filter(|span| span.failed).map(|span| span.text("error.type")).collect();
    assert_eq!(errors, ["rate_limit", "truncated_upstream"]);
    for text in [said, "the plan is to wait", "slow down", KEY, "abcdefghijklmnop", "gen_ai.input.messages"] {
        assert!(!collector.has(text), "{text} is in what was sent");
    }
    let metrics = server.call("GET", "/metrics", &[], "").text();
    assert!(metrics.contains("scrollback_spans_total{outcome=\"sent\"} 4"), "{metrics}");
}

#[test]
fn content_is_told_where_it_was_asked_for_and_never_a_secret() {
    let collector = Collector::answering("200 OK");
    let upstream = Upstream::saying(completion("the plan is to wait"));
    let config = format!("{}content = true\n", collector.config());
    let server = Server::before("spans-content", upstream.address, &config);
    let said = format!("My key is {KEY}, what is the plan?");
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": said }]));
    assert_eq!(server.post("/v1/chat/completions", &body).status, 200);
    let spans = collector.spans(1);
    let of = |name: &str| serde_json::from_str::<Value>(spans[0].text(name)).unwrap();
    assert_eq!(
        of("gen_ai.output.messages"),
        json!([{ "role": "assistant", "parts": [{ "type": "text", "content": "the plan is to wait" }] }])
    );
    let input = of("gen_ai.input.messages").to_string();
    assert!(input.contains("what is the plan?") && input.contains("[redacted:"), "{input}");
    assert!(!collector.has("abcdefghijklmnop"));
    // The record keeps what was said; only what is shown is redacted.
    assert!(upstream.received()[0].json()["messages"][0]["content"].as_str().unwrap().contains(KEY));
}

#[test]
fn a_collector_that_refuses_changes_no_answer_and_is_counted() {
    let collector = Collector::answering("400 Bad Request");
    let server = Server::with(
        "spans-refused",
        &crate::process::Setup { config: &collector.config(), ..Default::default() },
    );
    for number in 0..5 {
        let body = chat("offline:echo", &json!([{ "role": "user", "content": format!("Hi {number}") }]));
        assert_eq!(server.post("/v1/chat/completions", &body).status, 200);
    }
    let wanted = "scrollback_spans_total{outcome=\"dropped\"} 5";
    let told = || server.call("GET", "/metrics", &[], "").text();
    for _ in 0..400 {
        if told().contains(wanted) {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    assert!(told().contains(wanted), "{}", told());
    let log = std::fs::read_to_string(server.folder.join("log")).unwrap();
    assert!(log.contains("spans could not be sent"), "{log}");
}

/// Runs the binary with the collector named by the usual variable.
fn run(folder: &Path, collector: &Collector, args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_scrollback"))
        .args(args)
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder.join("none"))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.address))
        .output()
        .unwrap()
}

/// Fails unless all spans are in one trace, and each of these inside the one it names.
fn nested(spans: &[Span], wanted: &[(&str, Option<&str>)]) {
    let find = |name: &str| {
        spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:#?}"))
    };
    for (name, parent) in wanted {
        let parent = parent.map_or(Vec::new(), |parent| find(parent).id.clone());
        assert_eq!(find(name).parent, parent, "{name}");
        assert_eq!(find(name).trace, spans[0].trace, "{name}");
        assert_eq!(
            find(name).text("gen_ai.conversation.id"),
            spans[0].text("gen_ai.conversation.id"),
            "{name}"
        );
    }
}

#[test]
fn agents_and_their_tools_are_told_as_one_trace() {
    let yaml = "name: helper\nmodel: offline:script=script.yaml\ntools:\n  - {name: look, description: looks, command: [echo, a hidden thing]}\n";
    let script = "- calls: [{name: look, arguments: {}, id: c1}]\n- {reply: 'I found it.', usage: {input: 10, output: 3}}\n";
    let folder = scripted("spans-agent", "agent.yaml", yaml, script);
    let collector = Collector::answering("200 OK");
    let done = run(&folder, &collector, &["agent", "agent.yaml", "--input", "Find it"]);
    assert!(done.status.success(), "{done:?}");
    let spans = collector.spans(4);
    nested(
        &spans,
        &[
            ("invoke_agent helper", None),
            ("chat script=script.yaml", Some("invoke_agent helper")),
            ("execute_tool look", Some("invoke_agent helper")),
        ],
    );
    let tool = spans.iter().find(|span| span.name == "execute_tool look").unwrap();
    assert_eq!((tool.text("gen_ai.tool.name"), tool.text("gen_ai.tool.call.id")), ("look", "c1"));
    let agent = spans.iter().find(|span| span.name.starts_with("invoke_agent")).unwrap();
    assert_eq!(agent.text("gen_ai.agent.name"), "helper");
    for text in ["hidden", "I found it", "Find it"] {
        assert!(!collector.has(text), "{text} is in what was sent");
    }
}

#[test]
fn sub_agents_and_flows_are_told_too() {
    let yaml = "name: counter\nmodel: offline:script=script.yaml\nmission: Go.\ntools:\n  add: {signature: '(n :int) -> :int', lisp: '(+ n 1)'}\n";
    let script = "- {reply: '(return (tool/add {:n 1}))'}\n";
    let home = scripted("spans-subagent", "agent.yaml", yaml, script);
    let collector = Collector::answering("200 OK");
    let done = run(&home, &collector, &["subagent", "agent.yaml"]);
    assert!(done.status.success(), "{done:?}");
    nested(
        &collector.spans(3),
        &[
            ("invoke_agent counter", None),
            ("chat script=script.yaml", Some("invoke_agent counter")),
            ("execute_tool add", Some("invoke_agent counter")),
        ],
    );

    let flow = "version: '1'\nagents: {guide: {model: 'offline:echo'}}\nsteps:\n  - {name: one, agent: guide}\n  - {name: two, agent: guide}\n";
    let place = folder("spans-flow");
    std::fs::write(place.join("flow.yaml"), flow).unwrap();
    let collector = Collector::answering("200 OK");
    let done = run(&place, &collector, &["run", "flow.yaml", "--input", "Hello there"]);
    assert!(done.status.success(), "{done:?}");
    let spans = collector.spans(4);
    nested(&spans, &[("invoke_agent one", None), ("invoke_agent two", None)]);
    assert!(!collector.has("Hello there"));
}

#[test]
fn a_configuration_that_cannot_be_meant_is_refused() {
    let folder = folder("spans-config");
    for (config, word) in [
        ("[telemetry]\nendpont = \"http://127.0.0.1:1\"\n", "did you mean `endpoint`?"),
        ("[telemetry]\ncontent = true\n", "endpoint is missing"),
        ("[telemetry]\nendpoint = \"ftp://127.0.0.1\"\n", "must begin with https:// or http://"),
        ("[telemetry]\nendpoint = \"nowhere\"\n", "nowhere"),
    ] {
        std::fs::write(folder.join("scrollback.toml"), config).unwrap();
        let refused = crate::support::scrollback_in(&folder, &["serve", "--listen", "127.0.0.1:0"], b"");
        assert_eq!(refused.code, 2, "{config}: {}", refused.stderr);
        assert!(refused.stderr.contains(word), "{config}: {}", refused.stderr);
    }
}
