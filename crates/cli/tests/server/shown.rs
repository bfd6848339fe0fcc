//! What reaches a provider: the client's own bytes as long as they fit, a written intent before they leave, and a history
//! that its cache still knows after cuts.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scrollback_core::Time;
use scrollback_core::json::{self, Raw};
use scrollback_core::wire::Wire;
use scrollback_core::wire::check::{CheckOptions, Strictness, check};
use scrollback_store::{CallListing, Sent, Tenant};
use serde_json::{Value, json};

use crate::client::{connect, request};
use crate::process::Server;
use crate::upstream::{Says, Then, Upstream, completion, completion_stream, message, response};

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// Every call in the store of a server, oldest first, with its bytes.
pub(crate) fn calls(server: &Server) -> Vec<Sent> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite:{}", server.folder.join("record.db").display());
        let store = scrollback_store::open(&url, Time(1)).await.unwrap();
        let what = CallListing { conversation: None, limit: 1000, after: None };
        let page = store.calls(&Tenant::default(), what).await.unwrap();
        let mut all = Vec::new();
        for call in page.calls.iter().rev() {
            all.push(store.call(&Tenant::default(), &call.id).await.unwrap());
        }
        all
    })
}

/// Bodies as clients spell them: spaces, escapes, numbers and orders of their own, tools and cache marks.
fn odd_bodies(wire: Wire, rounds: usize) -> Vec<String> {
    // More bytes than the model takes tokens, so that looking at the size of the body is not enough.
    let long = "lorem ipsum dolor sit amet ".repeat(12_000);
    let text = |round: usize| {
        if round + 2 == rounds {
            long.clone()
        } else {
            format!("{} question {round} \\u00e9 \\/", wire.name())
        }
    };
    let mut said: Vec<String> = Vec::new();
    let mut bodies = Vec::new();
    for round in 0..rounds {
        let mark = if wire == Wire::Anthropic { MARK } else { "" };
        match wire {
            Wire::Anthropic => {
                let unmarked: Vec<String> = said.iter().map(|message| message.replace(MARK, "")).collect();
                said = unmarked;
                said.push(format!(
                    r#"{{ "content" : [{{"type":"text","text":"{}"{mark}}}], "role":"user" }}"#,
                    text(round)
                ));
                bodies.push(format!(
                    r#"{{"max_tokens":1e3, "model":"claude-sonnet-4-5","system":[{{"type":"text","text":"Be brief."{mark}}}],"tools":[{{"name":"read","input_schema":{{"type":"object","properties":{{"big":{{"type":"integer","maximum":12345678901234567890}}}}}}{mark}}}],"messages":[{}] ,"x_unknown":1.50}}"#,
                    said.join(", ")
                ));
                said.push(format!(
                    r#"{{"role":"assistant","content":[{{"type":"text","text":"answer {round}"}}]}}"#
                ));
            }
            Wire::OpenaiChat => {
                said.push(format!(r#"{{ "content" : "{}", "role":"user" }}"#, text(round)));
                bodies.push(format!(
                    r#"{{"seed":12345678901234567890, "model":"gpt-4o","tools":[{{"type":"function","function":{{"name":"read","parameters":{{"type":"object"}}}}}}],"messages":[{{"role":"system","content":"Be brief."}},{}] ,"x_unknown":1.50}}"#,
                    said.join(", ")
                ));
                said.push(format!(r#"{{"role":"assistant","content":"answer {round}"}}"#));
            }
            _ => {
                said.push(format!(
                    r#"{{ "content" : [{{"type":"input_text","text":"{}"}}], "role":"user" }}"#,
                    text(round)
                ));
                bodies.push(format!(
                    r#"{{"store":false, "model":"gpt-5","instructions":"Be brief.","tools":[{{"type":"function","name":"read","parameters":{{"type":"object"}},"strict":false}}],"input":[{}] ,"top_p":1.0}}"#,
                    said.join(", ")
                ));
                said.push(format!(
                    r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"answer {round}","annotations":[]}}]}}"#
                ));
            }
        }
    }
    bodies
}

#[test]
fn below_the_window_every_byte_reaches_the_provider_as_it_was_sent() {
    let upstream = Upstream::start(|number, received| {
        let text = format!("answer {}", number % 10);
        match received.path.as_str() {
            "/v1/messages" => message(&text),
            "/v1/responses" => response(&format!("resp_{number}"), &text),
            _ => completion(&text),
        }
    });
    let server = Server::before("no-harm", upstream.address, "");
    let mut number = 0;
    for (wire, path) in [
        (Wire::Anthropic, "/v1/messages"),
        (Wire::OpenaiChat, "/v1/chat/completions"),
        (Wire::OpenaiResponses, "/v1/responses"),
    ] {
        let mut conversations = HashSet::new();
        for body in odd_bodies(wire, 10) {
            let answer = server.post(path, &body);
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(answer.view().1, "passthrough");
            conversations.insert(answer.conversation());
            let received = upstream.received();
            assert_eq!(received.len(), number + 1);
            assert!(received[number].body == body.as_bytes(), "{wire:?}, request {number} was changed");
            number += 1;
        }
        assert_eq!(conversations.len(), 1, "{wire:?}: each request goes on from the one before");
    }
    // What the store says was sent is what was sent.
    let kept: Vec<Vec<u8>> = calls(&server).into_iter().filter_map(|call| call.request).collect();
    let received: Vec<Vec<u8>> = upstream.received().into_iter().map(|received| received.body).collect();
    assert!(kept == received, "{} kept, {} received", kept.len(), received.len());
    // A client marks another message in every call. Of a request that was sent as it came nothing was moved.
    assert!(received.iter().any(|body| body.windows(MARK.len()).any(|part| part == MARK.as_bytes())));
    for (number, call) in calls(&server).iter().enumerate() {
        assert_eq!(marks_moved(&server, &call.id), json!([]), "request {number}");
    }
    server.verified();
}

/// The entries that were sent as recorded but for their cache marks, as `/api/calls` says.
fn marks_moved(server: &Server, call: &str) -> Value {
    let answer = server.call("GET", &format!("/api/calls/{call}"), &[], "").json();
    member(&answer, "marks_moved").unwrap_or_else(|| panic!("{answer}")).clone()
}

/// A member of an object, or of an object in it.
fn member<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let object = value.as_object()?;
    object.get(name).or_else(|| object.values().find_map(|inner| member(inner, name)))
}

#[test]
fn a_server_that_is_killed_while_it_waits_leaves_what_it_sent() {
    let begun = completion_stream("never finished").into_bytes()[..300].to_vec();
    for (name, wire, path, streams) in [
        ("killed-chat-waiting", Wire::OpenaiChat, "/v1/chat/completions", false),
        ("killed-chat-streaming", Wire::OpenaiChat, "/v1/chat/completions", true),
        ("killed-messages", Wire::Anthropic, "/v1/messages", false),
    ] {
        let begun = begun.clone();
        let upstream = Upstream::start(move |number, _| match (number, wire) {
            (0, Wire::Anthropic) => message("answer 0"),
            (0, _) => completion("answer 0"),
            _ if streams => Says::Events(vec![begun.clone()], Then::Wait),
            _ => Says::Nothing,
        });
        let mut server = Server::before(name, upstream.address, "");
        let bodies = odd_bodies(wire, 5);
        assert_eq!(server.post(path, &bodies[0]).status, 200);
        let second =
            if streams { bodies[1].replacen('{', r#"{"stream":true,"#, 1) } else { bodies[1].clone() };
        let mut stream = connect(server.address);
        std::io::Write::write_all(&mut stream, &request("POST", path, &[], second.as_bytes())).unwrap();
        let patience = Instant::now() + Duration::from_secs(30);
        while upstream.received().len() < 2 {
            assert!(Instant::now() < patience, "the provider was not asked");
            std::thread::yield_now();
        }
        if streams {
            // The client has the beginning of the reply.
            std::io::Read::read_exact(&mut stream, &mut [0; 64]).unwrap();
        }
        // SIGKILL: nothing can be written any more.
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        let calls = calls(&server);
        let statuses: Vec<&str> = calls.iter().map(|call| call.status.as_str()).collect();
        assert_eq!(statuses, ["ok", "sent"], "{name}");
        assert!(calls[1].request.as_deref() == Some(second.as_bytes()), "{name}: the bytes that were sent");
        assert_eq!(upstream.received()[1].body, second.as_bytes());
        assert_eq!((calls[1].ended_at, calls[1].response.is_some()), (None, false), "{name}");
        assert!(calls[1].holder.is_some(), "{name}: the next start can tell whose call it was");
        assert_eq!(server.record(calls[1].conversation.as_str()).len(), 4, "{name}: what was said is there");
        server.verified();
        // The next start finds that no process will complete the call.
        let mut server = server.again();
        assert_eq!(server.call("GET", "/healthz", &[], "").status, 200);
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        let found = self::calls(&server);
        assert_eq!(found[1].status, scrollback_store::CallStatus::Lost, "{name}");
        assert!(found[1].ended_at.is_some(), "{name}");
        assert!(found[1].request.as_deref() == Some(second.as_bytes()), "{name}: the bytes are still there");
    }
}

/// A provider's prompt cache: what was sent up to a mark is known from then on.
#[derive(Default)]
struct Cache(HashSet<u64>);

/// What one request cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    total: usize,
    /// Read from the cache.
    read: usize,
    /// Written to it.
    written: usize,
}

impl Cost {
    fn uncached(self) -> usize {
        self.total - self.read
    }
}

/// Blocks before a mark at which an earlier entry is still looked for.
const LOOKBACK: usize = 20;

impl Cache {
    /// Takes in a request: tools, system and messages are one list of blocks; what was cached for exactly these bytes, marks
    /// aside, is read; everything up to each mark is cached.
    fn ask(&mut self, body: &[u8]) -> Cost {
        let text = std::str::from_utf8(body).unwrap();
        let raw = json::check(text).unwrap();
        let mut blocks: Vec<String> = Vec::new();
        for key in ["tools", "system"] {
            blocks.extend(
                raw.get(key).into_iter().flat_map(Raw::elements).map(|raw| format!("{key} {}", raw.text())),
            );
        }
        for message in raw.get("messages").into_iter().flat_map(Raw::elements) {
            let role = message.get("role").and_then(Raw::string).unwrap();
            blocks.extend(
                message
                    .get("content")
                    .into_iter()
                    .flat_map(Raw::elements)
                    .map(|raw| format!("{role} {}", raw.text())),
            );
        }
        let (mut hash, mut ends, mut marks, mut total) = (DefaultHasher::new(), Vec::new(), Vec::new(), 0);
        for (at, block) in blocks.iter().enumerate() {
            let plain = block.replace(MARK, "");
            assert!(!plain.contains("cache_control"), "a mark in another spelling: {plain}");
            if plain.len() < block.len() {
                marks.push(at);
            }
            total += plain.len().div_ceil(4);
            plain.hash(&mut hash);
            ends.push((hash.finish(), total));
        }
        assert!(marks.len() <= 4, "{} marks", marks.len());
        let found = marks.iter().flat_map(|mark| mark.saturating_sub(LOOKBACK)..=*mark);
        let read = found.filter(|at| self.0.contains(&ends[*at].0)).map(|at| ends[at].1).max().unwrap_or(0);
        let last = marks.last().map_or(0, |mark| ends[*mark].1);
        self.0.extend(marks.iter().map(|mark| ends[*mark].0));
        Cost { total, read, written: last.saturating_sub(read) }
    }
}

/// A coding agent's session, as Claude Code sends it: one task, then a tool call and its result each round, marks on the
/// instructions and on the last two user messages.
struct Session {
    messages: Vec<(String, Vec<String>)>,
}

impl Session {
    fn body(&self) -> String {
        let users: Vec<usize> =
            (0..self.messages.len()).filter(|at| self.messages[*at].0 == "user").collect();
        let marked = &users[users.len().saturating_sub(2)..];
        let message = |(at, (role, blocks)): (usize, &(String, Vec<String>))| {
            let mut blocks = blocks.clone();
            if marked.contains(&at) {
                let last = blocks.last_mut().unwrap();
                last.truncate(last.len() - 1);
                let _ = write!(last, "{MARK}}}");
            }
            format!(r#"{{"role":"{role}","content":[{}]}}"#, blocks.join(","))
        };
        let messages: Vec<String> = self.messages.iter().enumerate().map(message).collect();
        let tools: Vec<String> = (0..6)
            .map(|number| {
                format!(r#"{{"name":"Tool{number}","description":"{}","input_schema":{{"type":"object","properties":{{"path":{{"type":"string"}}}}}}}}"#, "What it does. ".repeat(20))
            })
            .collect();
        let system = format!(
            r#"{{"type":"text","text":"You are a coding agent."{MARK}}},{{"type":"text","text":"{}"{MARK}}}"#,
            "Follow the conventions of the repository. ".repeat(40)
        );
        format!(
            r#"{{"model":"claude-sonnet-4-5","max_tokens":2000,"system":[{system}],"tools":[{}],"messages":[{}]}}"#,
            tools.join(","),
            messages.join(",")
        )
    }
}

#[test]
fn after_cuts_the_provider_still_reads_its_cache() {
    const ROUNDS: usize = 60;
    const WINDOW: usize = 20_000;
    let costs: Arc<Mutex<(Cache, Vec<Cost>)>> = Arc::default();
    let kept = Arc::clone(&costs);
    let upstream = Upstream::start(move |number, received| {
        let mut kept = kept.lock().unwrap();
        let cost = kept.0.ask(&received.body);
        kept.1.push(cost);
        let call = json!({ "type": "tool_use", "id": format!("toolu_{number:04}"), "name": "Tool1", "input": { "path": format!("src/file{number}.rs") } });
        let text = json!({ "type": "text", "text": format!("I read file {number} next.") });
        let body = json!({
            "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [text, call], "stop_reason": "tool_use", "stop_sequence": null,
            "usage": { "input_tokens": cost.total - cost.read - cost.written, "cache_read_input_tokens": cost.read,
                "cache_creation_input_tokens": cost.written, "output_tokens": 30 },
        });
        Says::Json(200, body.to_string())
    });
    let config = format!("[models.\"anthropic:claude-sonnet-4-5\"]\ncontext_window = {WINDOW}\n");
    let server = Server::before("cached", upstream.address, &config);
    let mut session = Session { messages: Vec::new() };
    let task = r#"{"type":"text","text":"Find the bug."}"#;
    session.messages.push(("user".into(), vec![task.into()]));
    let (mut direct, mut alone) = (Cache::default(), Vec::new());
    let (mut added, mut conversation) = (Vec::new(), String::new());
    for round in 0..ROUNDS {
        let body = session.body();
        alone.push(direct.ask(body.as_bytes()));
        let answer = server.post("/v1/messages", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        conversation = answer.conversation();
        let blocks: Vec<String> =
            answer.json()["content"].as_array().unwrap().iter().map(Value::to_string).collect();
        let id = format!("toolu_{round:04}");
        let lines = 20 + (round * 37) % 90;
        let result = json!({ "type": "tool_result", "tool_use_id": id, "content": format!("line of file {round}: let x = compute();\n").repeat(lines) });
        let result = result.to_string();
        added.push((blocks.iter().map(String::len).sum::<usize>() + result.len()).div_ceil(4));
        session.messages.push(("assistant".into(), blocks));
        session.messages.push(("user".into(), vec![result]));
    }

    // Where the list begins otherwise than before, there was a cut.
    let received = upstream.received();
    assert_eq!(received.len(), ROUNDS, "nothing was refused, nothing was asked twice");
    let second: Vec<String> =
        received.iter().map(|received| received.json()["messages"][1].to_string()).collect();
    let cuts: Vec<usize> = (2..ROUNDS).filter(|round| second[*round] != second[*round - 1]).collect();
    let costs = costs.lock().unwrap().1.clone();
    println!("round  direct  proxy  cut");
    for round in 0..ROUNDS {
        let cut = if cuts.contains(&round) { "cut" } else { "" };
        println!("{round:5}  {:6}  {:5}  {cut}", alone[round].uncached(), costs[round].uncached());
    }
    let sum = |costs: &[Cost]| costs.iter().map(|cost| cost.uncached()).sum::<usize>();
    let all = |costs: &[Cost]| costs.iter().map(|cost| cost.total).sum::<usize>();
    println!(
        "uncached: direct {} of {}, through the proxy {} of {}",
        sum(&alone),
        all(&alone),
        sum(&costs),
        all(&costs)
    );
    assert!(cuts.len() >= 3, "{cuts:?}");
    assert!(cuts.windows(2).all(|pair| pair[1] > pair[0] + 1), "no two calls in a row are cut: {cuts:?}");
    for round in 0..ROUNDS {
        let body = json::check_bytes(&received[round].body).unwrap();
        let broken = check(Wire::Anthropic, body, CheckOptions::default());
        assert!(!broken.iter().any(|one| one.is_fatal(Strictness::Lenient)), "round {round}: {broken:?}");
        let marks = received[round].body.windows(MARK.len()).filter(|part| *part == MARK.as_bytes()).count();
        assert!((1..=4).contains(&marks), "round {round}: {marks} marks");
        assert!(costs[round].total <= WINDOW, "round {round}: {:?}", costs[round]);
        if round == 0 || cuts.contains(&round) {
            continue;
        }
        let (uncached, added) = (costs[round].uncached(), added[round - 1]);
        assert!(uncached <= added + 50, "round {round}: {uncached} tokens were not cached, {added} are new");
    }
    let decisions = server.record(&conversation).iter().filter(|(role, _)| role == "decision").count();
    assert_eq!(decisions, cuts.len(), "each cut is one decision: {cuts:?}");
    // Before the first cut the marks are the client's own; after it they are put anew, and that is shown.
    let calls = calls(&server);
    assert_eq!(marks_moved(&server, &calls[cuts[0] - 1].id), json!([]));
    assert_ne!(marks_moved(&server, &calls[cuts[0] + 1].id), json!([]));
    server.verified();
}
