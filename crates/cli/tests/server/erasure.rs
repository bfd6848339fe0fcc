//! Erasing a person: words planted in every field through every door are gone from everywhere, and no one else's data changed.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Answer, chat};
use crate::many::postgres;
use crate::process::{Server, Setup};
use crate::support::{folder, scrollback_in};
use crate::upstream::{Says, Then, Upstream, completion_stream};

/// Words that are nowhere else, one for each field.
#[derive(Default)]
struct Canaries(Vec<String>);

impl Canaries {
    fn new_word(&mut self) -> String {
        self.0.push(format!("kanarie{:04}zq", self.0.len()));
        self.0.last().unwrap().clone()
    }

    /// Those that are in a text.
    fn in_text(&self, text: &str) -> Vec<&String> {
        self.0.iter().filter(|word| text.contains(word.as_str())).collect()
    }

    fn in_bytes(&self, bytes: &[u8]) -> Vec<&String> {
        // All begin alike, so one look at the bytes finds them all.
        let places = bytes.windows(7).enumerate().filter(|(_, part)| *part == b"kanarie");
        let mut found: Vec<&String> = Vec::new();
        for (at, _) in places {
            let word = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 13)]).into_owned();
            found.extend(self.0.iter().filter(|known| **known == word));
        }
        found
    }
}

const ANNA: (&str, &str) = ("x-scrollback-recipient", "anna kanarie0000zq");

/// Every file below a folder that has one of the words, and which.
fn left(folder: &Path, canaries: &Canaries) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(left(&path, canaries));
            continue;
        }
        let words = canaries.in_bytes(&std::fs::read(&path).unwrap());
        if !words.is_empty() {
            found.push(format!("{}: {words:?}", path.display()));
        }
    }
    found
}

/// A provider whose replies say words of their own, in every field that is kept.
fn provider() -> (Upstream, std::sync::Arc<std::sync::Mutex<Canaries>>) {
    let words = std::sync::Arc::new(std::sync::Mutex::new(Canaries::default()));
    let said = std::sync::Arc::clone(&words);
    let upstream = Upstream::start(move |number, received| {
        // The other person's replies have none.
        if String::from_utf8_lossy(&received.body).contains("bert") {
            return crate::upstream::completion("good day, bert");
        }
        // Numbers of their own, above those of the requests.
        let mut words = said.lock().unwrap();
        let mut word = || {
            let next = format!("kanarie{:04}zq", 5000 + words.0.len());
            words.0.push(next.clone());
            next
        };
        if received.path.contains("messages") {
            let body = json!({
                "id": format!("msg_{}", word()), "type": "message", "role": "assistant", "model": "claude-opus-4-8",
                "content": [
                    { "type": "thinking", "thinking": word(), "signature": word() },
                    { "type": "text", "text": word() },
                    { "type": "tool_use", "id": format!("toolu_{}", word()), "name": "look_up", "input": { "of": word() } },
                ],
                "stop_reason": "tool_use", "stop_sequence": null, "usage": { "input_tokens": 1, "output_tokens": 1 },
            });
            return Says::Json(200, body.to_string());
        }
        if received.path.contains("responses") {
            let body = json!({
                "id": format!("resp_{}", word()), "object": "response", "created_at": 1, "status": "completed",
                "model": "gpt-5", "error": null,
                "output": [
                    { "id": format!("rs_{}", word()), "type": "reasoning", "summary": [{ "type": "summary_text", "text": word() }] },
                    { "id": format!("msg_{number}"), "type": "message", "role": "assistant", "status": "completed",
                      "content": [{ "type": "output_text", "text": word(), "annotations": [] }] },
                ],
                "usage": { "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 },
            });
            return Says::Json(200, body.to_string());
        }
        if received.json()["stream"] == true {
            return Says::Events(vec![completion_stream(&word()).into_bytes()], Then::End);
        }
        let body = json!({
            "id": format!("chatcmpl-{}", word()), "object": "chat.completion", "created": 1, "model": "gpt-4o",
            "system_fingerprint": word(),
            "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": word(), "refusal": null,
                "tool_calls": [{ "id": format!("call_{}", word()), "type": "function",
                    "function": { "name": "look_up", "arguments": json!({ "of": word() }).to_string() } }],
            } }],
            "usage": { "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 },
        });
        Says::Json(200, body.to_string())
    });
    (upstream, words)
}

fn ask(server: &Server, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let answer = server.call("POST", path, headers, &body.to_string());
    assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text());
    answer
}

/// Plants words through the three APIs of the proxy; the conversations they are in, and the name a client gave its session.
fn plant_through_the_proxy(server: &Server, words: &mut Canaries) -> (Vec<String>, String) {
    let mut conversations = Vec::new();
    let picture = |words: &mut Canaries| {
        let text = format!("data:image/png;base64,{}{}", words.new_word(), "iVBORw0KGgo".repeat(600));
        json!({ "type": "image_url", "image_url": { "url": text } })
    };
    for round in 0..6 {
        let mut list =
            vec![json!({ "role": "system", "content": words.new_word(), "name": words.new_word() })];
        let name = format!("name {}", words.new_word());
        for turn in 0..2 {
            list.push(json!({ "role": "user", "name": words.new_word(), "content": [
                { "type": "text", "text": words.new_word() }, picture(words) ] }));
            let mut body = json!({
                "model": "gpt-4o", "messages": list, "user": words.new_word(), "stop": [words.new_word()],
                "metadata": { "ticket": words.new_word() }, "a_field_of_tomorrow": { "of": words.new_word() },
                "tools": [{ "type": "function", "function": { "name": "look_up", "description": words.new_word(),
                    "parameters": { "type": "object", "properties": { "of": { "type": "string", "description": words.new_word() } } } } }],
            });
            if round % 3 == 2 {
                body["stream"] = json!(true);
            }
            let mut headers = vec![ANNA];
            if round % 2 == 1 {
                headers.push(("x-scrollback-conversation", name.as_str()));
            }
            let answer = ask(server, "/v1/chat/completions", &headers, &body);
            conversations.push(answer.conversation());
            if round % 3 == 2 {
                break;
            }
            let reply = answer.json()["choices"][0]["message"].clone();
            let call = reply["tool_calls"][0]["id"].clone();
            list.push(reply);
            list.push(json!({ "role": "tool", "tool_call_id": call, "content": words.new_word() }));
            if turn == 1 {
                // Cut by a client: the record keeps more than it sends.
                list.truncate(3);
            }
        }
    }
    let session = words.new_word();
    let headers = [ANNA, ("x-claude-code-session-id", session.as_str())];
    let agent = words.new_word();
    let helper = [ANNA, headers[1], ("x-claude-code-agent-id", agent.as_str())];
    for (round, headers) in [&headers[..], &headers[..], &helper[..]].into_iter().enumerate() {
        let body = json!({
            "model": "claude-opus-4-8", "max_tokens": 9, "metadata": { "user_id": words.new_word() },
            "system": [{ "type": "text", "text": format!("Working directory: /home/{} round {round}", words.new_word()) }],
            "messages": [{ "role": "user", "content": [
                { "type": "text", "text": words.new_word() },
                { "type": "document", "title": words.new_word(), "source": { "type": "text", "media_type": "text/plain", "data": words.new_word() } },
            ] }],
        });
        conversations.push(ask(server, "/v1/messages", headers, &body).conversation());
    }
    // The same caller both times: a response is its own.
    let caller = words.new_word();
    let mut previous = Value::Null;
    for _ in 0..2 {
        let mut body = json!({
            "model": "gpt-5", "instructions": words.new_word(), "safety_identifier": caller, "prompt_cache_key": words.new_word(),
            "input": [{ "role": "user", "content": [{ "type": "input_text", "text": words.new_word() }] }],
        });
        if !previous.is_null() {
            body["previous_response_id"] = previous;
        }
        let answer = ask(server, "/v1/responses", &[ANNA], &body);
        previous = answer.json()["id"].clone();
        conversations.push(answer.conversation());
    }
    (conversations, session)
}

/// Plants words through the REST API and the command line.
fn plant_by_hand(server: &Server, store: &str, words: &mut Canaries, conversations: &[String]) {
    let post = |path: &str, body: &Value| {
        let answer = server.call("POST", path, &[("content-type", "application/json")], &body.to_string());
        assert!(answer.status < 300, "{path} {body}: {}", answer.text());
        answer.json()
    };
    let made = post("/api/conversations", &json!({ "title": words.new_word(), "recipient": ANNA.1 }));
    let id = made["id"].as_str().or(made["conversation"].as_str()).unwrap().to_string();
    for role in ["user", "assistant"] {
        let message = json!({ "role": role, "content": words.new_word() });
        post(&format!("/api/conversations/{id}/entries"), &json!({ "messages": [message] }));
    }
    let fork = post(&format!("/api/conversations/{id}/fork"), &json!({ "at": 2 }));
    let fork = fork["id"].as_str().or(fork["conversation"].as_str()).unwrap().to_string();
    let said = json!({ "messages": [{ "role": "user", "content": words.new_word() }] });
    post(&format!("/api/conversations/{fork}/entries"), &said);
    assert!(!conversations.is_empty());

    let run = |args: &[&str]| {
        let all: Vec<&str> = args.iter().copied().chain(["--store", store]).collect();
        let run = scrollback_in(&server.folder, &all, b"");
        assert_eq!(run.code, 0, "{all:?}: {run:?}");
        run
    };
    for turn in 0..24 {
        let role = if turn % 2 == 0 { "user" } else { "assistant" };
        run(&["history", ANNA.1, "append", "--role", role, "--content", &words.new_word()]);
    }
    // What a summary says is what was said, shortened.
    run(&["history", ANNA.1, "compact"]);
    run(&["history", ANNA.1, "status", "awaiting_answer"]);
    let agent = "name: desk\nmodel: offline:echo\nsystem: Be brief.\n";
    // Files that are read, not written, lie elsewhere: what an operator has is not the store's.
    let own = folder(&format!("{}-files", server.folder.file_name().unwrap().to_str().unwrap()));
    std::fs::write(own.join("desk.yaml"), agent).unwrap();
    let agent = own.join("desk.yaml").display().to_string();
    run(&["agent", &agent, "--recipient", ANNA.1, "--input", &words.new_word()]);
    let flow = "version: \"1\"\nname: trip\nagents: {talk: {model: \"offline:echo\"}}\nsteps:\n  - {name: talk, input: \"{{ input }}\"}\n";
    std::fs::write(own.join("trip.yaml"), flow).unwrap();
    let flow = own.join("trip.yaml").display().to_string();
    run(&["run", &flow, "--recipient", ANNA.1, "--input", &words.new_word()]);
    let codex = [
        json!({ "timestamp": "2026-01-01T00:00:00Z", "type": "session_meta",
            "payload": { "id": words.new_word(), "timestamp": "2026-01-01T00:00:00Z", "cwd": format!("/home/{}", words.new_word()), "originator": "codex", "cli_version": "1", "instructions": words.new_word() } }),
        json!({ "timestamp": "2026-01-01T00:00:01Z", "type": "response_item",
            "payload": { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": words.new_word() }] } }),
        json!({ "timestamp": "2026-01-01T00:00:02Z", "type": "response_item",
            "payload": { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": words.new_word() }] } }),
    ];
    let lines: Vec<String> = codex.iter().map(Value::to_string).collect();
    std::fs::write(own.join("rollout.jsonl"), lines.join("\n")).unwrap();
    run(&["import", &own.join("rollout.jsonl").display().to_string(), "--recipient", ANNA.1]);
}

/// Everything that can be read of the store, as texts with the name of the door.
fn readable(server: &Server, store: &str, also: &[String]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut get = |path: String| {
        let answer = server.call("GET", &path, &[], "");
        all.push((path, answer.text()));
    };
    for path in [
        "/metrics",
        "/readyz",
        "/lens",
        "/lens/people",
        "/lens/runs",
        "/lens/search?q=kanarie*",
        "/api/conversations?limit=500",
        "/api/sessions?limit=100",
        "/api/calls?limit=500",
        "/api/search?q=kanarie*&limit=100",
        "/api/runs",
        "/api/recipients?due=365d",
    ] {
        get(path.into());
    }
    for id in also {
        for path in ["/lens/conversations/", "/api/conversations/"] {
            get(format!("{path}{id}"));
        }
        get(format!("/api/conversations/{id}/entries?limit=500"));
        get(format!("/api/conversations/{id}/calls"));
    }
    let calls = server.call("GET", "/api/calls?limit=500", &[], "").json();
    for call in calls["calls"].as_array().into_iter().flatten() {
        let id = call["id"].as_str().unwrap();
        let answer = server.call("GET", &format!("/api/calls/{id}?reveal=true"), &[], "");
        all.push((format!("call {id}"), answer.text()));
    }
    for args in [
        &["export", "--all", "--format", "scrollback"][..],
        &["list", "--json"],
        &["verify", "--json"],
        &["search", "kanarie*", "--json"],
    ] {
        let all_args: Vec<&str> = args.iter().copied().chain(["--store", store]).collect();
        all.push((args.join(" "), scrollback_in(&server.folder, &all_args, b"").stdout));
    }
    all
}

/// What is kept of the other person.
fn of_bert(server: &Server, store: &str, conversation: &str) -> String {
    let args = ["export", "--recipient", "bert", "--format", "scrollback", "--store", store];
    let exported = scrollback_in(&server.folder, &args, b"");
    assert_eq!(exported.code, 0, "{exported:?}");
    let calls = server.call("GET", &format!("/api/conversations/{conversation}/calls"), &[], "").text();
    format!("{}{calls}", exported.stdout)
}

fn canary_test(name: &str, store: Option<String>, rows: impl Fn() -> Option<String>) {
    let (upstream, replied) = provider();
    let config = "[server]\nrecipient_from = [\"safety_identifier\"]\n";
    let url = store.clone().unwrap_or_else(|| "sqlite:record.db".into());
    let variables = ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"].map(|name| {
        let path = if name == "OPENAI_BASE_URL" { "/v1" } else { "" };
        (name, format!("http://{}{path}", upstream.address))
    });
    let server = Server::with(name, &Setup { config, variables: variables.to_vec(), store });
    let bert = [("x-scrollback-recipient", "bert")];
    let asked = chat(
        "gpt-4o",
        &json!([{ "role": "user", "content": format!("bert here {}", "hello ".repeat(900)) }]),
    );
    let answer = server.call("POST", "/v1/chat/completions", &bert, &asked);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let berts = answer.conversation();
    let before = of_bert(&server, &url, &berts);

    let mut words = Canaries::default();
    // The name itself is one.
    assert!(ANNA.1.ends_with(&words.new_word()));
    let (mut conversations, session) = plant_through_the_proxy(&server, &mut words);
    plant_by_hand(&server, &url, &mut words, &conversations);
    words.0.extend(replied.lock().unwrap().0.clone());
    assert!(words.0.len() >= 200, "{} words were planted", words.0.len());
    let listed = server.call("GET", "/api/conversations?limit=500", &[], "").json();
    conversations.extend(
        listed["conversations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].as_str().or(row["conversation"].as_str()).unwrap().to_string()),
    );
    conversations.sort();
    conversations.dedup();
    let everything: String =
        readable(&server, &url, &conversations).into_iter().map(|(_, text)| text).collect();
    let there = words.in_text(&everything).len();
    // Headers that no one keeps, and bytes in pictures, are not shown; nearly everything is.
    assert!(there * 10 >= words.0.len() * 9, "only {there} of {} can be read at all", words.0.len());

    let dry = server.command(&["erase", ANNA.1, "--dry-run"]);
    let post = |body: &Value| {
        let path = "/api/recipients/anna%20kanarie0000zq/erase";
        server.call("POST", path, &[("content-type", "application/json")], &body.to_string())
    };
    let erased = post(&json!({ "all": true, "reason": "asked" }));
    assert_eq!(erased.status, 200, "{}", erased.text());
    let certificate = erased.json();
    println!("{certificate}");
    assert_eq!(certificate["conversations"], dry["conversations"]);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&certificate), keys(&dry), "the command line and the API say the same");
    for kind in ["erased", "summaries", "sent", "words", "blobs", "names", "sub_agents"] {
        assert!(certificate[kind].as_u64().unwrap() > 0, "{kind}: {certificate}");
    }
    assert_eq!(certificate["under_way"], 0);
    let pseudonym = certificate["pseudonym"].as_str().unwrap();

    // Once more: nothing is left, under the same name; and it says whether anything is pending.
    let again = server.command(&["erase", ANNA.1, "--yes"]);
    assert_eq!(
        (&again["erased"], &again["sent"], &again["names"]),
        (&json!(0), &json!(0), &json!(0)),
        "{again}"
    );
    assert_eq!(again["pseudonym"], pseudonym);
    if url.starts_with("sqlite") {
        assert_eq!(again["pending"], false, "{again}");
    }

    for (door, text) in readable(&server, &url, &conversations) {
        if door.contains("search") {
            // It repeats what was looked for.
            continue;
        }
        assert_eq!(words.in_text(&text), Vec::<&String>::new(), "{door}");
    }
    let found = server.command(&["search", "kanarie*"]);
    assert_eq!(found["hits"], json!([]));
    assert_eq!(server.call("GET", "/api/recipients/anna%20kanarie0000zq", &[], "").status, 404);
    assert_eq!(
        of_bert(&server, &url, &berts),
        before,
        "the other person's data are as they were, to the byte"
    );
    server.verified();
    if url.starts_with("sqlite") {
        let backup = scrollback_in(&server.folder, &["backup", "later.db", "--verify", "--store", &url], b"");
        assert_eq!(backup.code, 0, "{backup:?}");
        // The server's own log names sessions as their clients do, which the certificate says, and nothing else.
        let session = words.in_text(&session).into_iter().cloned().collect::<Vec<_>>();
        assert!(erased.text().contains("the log of the server"), "{certificate}");
        let others = Canaries(words.0.iter().filter(|word| !session.contains(word)).cloned().collect());
        assert_eq!(left(&server.folder, &others), Vec::<String>::new());
        let log = left(&server.folder, &words);
        assert!(log.iter().all(|line| line.contains("/log: ")), "{log:?}");
    }
    if let Some(rows) = rows() {
        assert_eq!(words.in_text(&rows), Vec::<&String>::new());
    }
    // Importing the same transcript again does not bring it back.
    let file = format!("{}-files/rollout.jsonl", server.folder.display());
    let import = server.command(&["import", &file, "--recipient", ANNA.1]);
    assert_eq!(import["added"], 0, "{import}");
    // Who writes again is there again, and what was erased is not.
    let back = json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": "it is me" }] });
    ask(&server, "/v1/chat/completions", &[ANNA], &back);
    let history = server.command(&["history", ANNA.1]);
    assert_eq!(history["conversations"].as_array().unwrap().len(), 1, "{history}");
}

#[test]
fn two_hundred_words_of_a_person_are_gone_from_a_file_and_everything_made_of_it() {
    canary_test("erasure", None, || None);
}

#[test]
fn two_hundred_words_of_a_person_are_gone_from_postgresql() {
    let Some(database) = postgres::Server::start() else { return };
    let tables = "select table_name from information_schema.tables where table_schema = 'scrollback'";
    canary_test("erasure-pg", Some(database.url()), || {
        let names = database.ask("app", tables);
        assert!(names.lines().count() > 10, "{names}");
        let rows = |name: &str| database.ask("app", &format!("select t::text from scrollback.{name} t"));
        Some(names.lines().map(rows).collect())
    });
}

#[test]
fn a_reply_that_comes_after_the_erasure_is_given_to_its_client_and_not_kept() {
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    let may_go = std::sync::Mutex::new(may_go);
    let upstream = Upstream::start(move |_, received| {
        may_go.lock().unwrap().recv().unwrap();
        if received.json()["stream"] == true {
            Says::Events(vec![completion_stream("kanarie7777zq is what you said").into_bytes()], Then::End)
        } else {
            crate::upstream::completion("kanarie7777zq is what you said")
        }
    });
    let server = Server::before("erasure-late", upstream.address, "");
    let mut canaries = Canaries(vec!["kanarie7777zq".into(), "kanarie7778zq".into()]);
    for (round, streams) in [true, false].into_iter().enumerate() {
        let body = json!({ "model": "gpt-4o", "stream": streams, "messages": [{ "role": "user", "content": "kanarie7778zq" }] });
        let answer = std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                server.call(
                    "POST",
                    "/v1/chat/completions",
                    &[("x-scrollback-recipient", "anna")],
                    &body.to_string(),
                )
            });
            while upstream.received_unjudged().len() <= round {
                std::thread::yield_now();
            }
            let erased = server.command(&["erase", "anna", "--yes"]);
            assert_eq!((&erased["under_way"], &erased["erased"]), (&json!(1), &json!(1)), "{erased}");
            go.send(()).unwrap();
            asking.join().unwrap()
        });
        assert_eq!((answer.status, answer.whole), (200, true), "{}", answer.text());
        assert!(answer.text().contains("kanarie7777zq"), "the client has its reply");
        let calls = server.call("GET", "/api/calls", &[], "").json();
        let statuses: Vec<&Value> =
            calls["calls"].as_array().unwrap().iter().map(|call| &call["status"]).collect();
        assert!(statuses.iter().all(|status| **status == "erased") && statuses.len() == round + 1, "{calls}");
    }
    // What the client sent is a line of no log, and what it was sent is nowhere.
    canaries.new_word();
    assert_eq!(server.command(&["search", "kanarie*"])["hits"], json!([]));
    let exported = scrollback_in(&server.folder, &["export", "--all", "--store", "sqlite:record.db"], b"");
    assert_eq!(canaries.in_text(&exported.stdout), Vec::<&String>::new());
    assert_eq!(left(&server.folder, &canaries), Vec::<String>::new());
    server.verified();
}

#[test]
fn a_record_kept_in_memory_is_not_gone_on_from_once_it_was_erased() {
    let upstream = Upstream::saying(crate::upstream::completion("noted"));
    let server = Server::before("erasure-memory", upstream.address, "");
    let headers = [("x-scrollback-recipient", "anna")];
    let mut list = vec![json!({ "role": "user", "content": "kanarie0000zq is the word" })];
    let ask = |list: &[Value]| {
        let body = json!({ "model": "gpt-4o", "messages": list });
        ask(&server, "/v1/chat/completions", &headers, &body).conversation()
    };
    let first = ask(&list);
    list.push(json!({ "role": "assistant", "content": "noted" }));
    list.push(json!({ "role": "user", "content": "and now?" }));
    assert_eq!(ask(&list), first);
    // The server has the record in memory; another process erases it.
    server.command(&["erase", "anna", "--yes"]);
    list.push(json!({ "role": "assistant", "content": "noted" }));
    list.push(json!({ "role": "user", "content": "and then?" }));
    let after = ask(&list);
    assert_ne!(after, first, "what was erased is not gone on from");
    assert_eq!(server.record(&first), []);
    // The client sent its words again, so they are recorded again: as a conversation with the same person.
    assert_eq!(server.record(&after).len(), 6);
    let history = server.command(&["history", "anna"]);
    assert_eq!(history["conversations"].as_array().unwrap().len(), 1, "{history}");
    server.verified();
}
