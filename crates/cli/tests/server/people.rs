//! One person through every door: the proxy, the REST API and the command line mean the same recipient by the same name.

use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};

use crate::client::{Answer, chat, connect, request};
use crate::process::{Server, Setup};
use crate::support::{folder, scrollback_in};

fn say(server: &Server, headers: &[(&str, &str)], text: &str) -> Answer {
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": text }]));
    let answer = server.call("POST", "/v1/chat/completions", headers, &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

fn get(server: &Server, path: &str) -> Value {
    let answer = server.call("GET", path, &[], "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn post(server: &Server, path: &str, body: &Value) -> Answer {
    server.call("POST", path, &[("content-type", "application/json")], &body.to_string())
}

#[test]
fn a_recipient_is_one_person_through_proxy_api_and_command_line() {
    let server = Server::start("people");
    let proxied = say(&server, &[("x-scrollback-recipient", "anna")], "from the proxy").conversation();
    let again = say(&server, &[("x-scrollback-recipient", "anna")], "another matter").conversation();
    assert_ne!(proxied, again);
    say(&server, &[("x-scrollback-recipient", "bert")], "from the proxy");
    say(&server, &[], "from no one in particular");

    let history = server.command(&["history", "anna"]);
    let listed: Vec<&str> = history["conversations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["conversation"].as_str().unwrap())
        .collect();
    assert_eq!(listed.len(), 2, "{history}");
    assert!(listed.contains(&&*proxied) && listed.contains(&&*again), "{history}");
    let one = server.command(&["history", "anna", "--conversation", &proxied]);
    assert_eq!(one["messages"][0]["content"], "from the proxy");
    assert_eq!(one["positions"], json!([0, 1]));
    let bert = server.command(&["history", "bert"]);
    assert_eq!(bert["conversations"].as_array().unwrap().len(), 1);

    server.command(&["history", "anna", "append", "--content", "by hand"]);
    let rest = get(&server, "/api/recipients/anna");
    assert_eq!((&rest["recipient"], &rest["conversations"]), (&json!("anna"), &json!(3)));
    let current = rest["conversation"].as_str().unwrap();
    assert!(current != proxied && current != again, "what was said by hand is their current conversation");
    let told = get(&server, "/api/recipients/anna/history");
    assert_eq!((&told["messages"][0]["content"], &told["positions"]), (&json!("by hand"), &json!([0])));
    let told = get(&server, &format!("/api/recipients/anna/history?conversation={proxied}&to=anthropic"));
    assert_eq!(told["messages"][0]["role"], "user");
    let all = get(&server, "/api/recipients/anna/conversations");
    assert_eq!(all["conversations"].as_array().unwrap().len(), 3);
    let exported = server.call("GET", "/api/recipients/anna/export", &[], "").text();
    for text in ["from the proxy", "another matter", "by hand"] {
        assert!(exported.contains(text), "{text}: {exported}");
    }
    assert!(!exported.contains("from no one"));
    let status = post(&server, "/api/recipients/anna/status", &json!({ "status": "closed" }));
    assert_eq!(status.json()["status"], "closed", "{}", status.text());
    assert_eq!(server.command(&["history", "anna", "status"])["status"], "closed");
    assert_eq!(server.call("GET", "/api/recipients/carla", &[], "").status, 404);

    let dry = post(&server, "/api/recipients/anna/erase", &json!({ "dry_run": true }));
    assert_eq!((&dry.json()["conversations"], dry.status), (&json!(3), 200));
    assert_eq!(post(&server, "/api/recipients/anna/erase", &json!({})).status, 400);
    let erased = post(&server, "/api/recipients/anna/erase", &json!({ "all": true })).json();
    assert_eq!((&erased["conversations"], &erased["erased"]), (&json!(3), &json!(5)), "{erased}");
    let left = server.command(&["search", "matter"]);
    assert_eq!(left["hits"], json!([]));
    assert_eq!(server.command(&["history", "bert"])["messages"][0]["content"], "from the proxy");
    server.verified();
}

#[test]
fn names_of_conversations_are_not_people_and_two_people_never_share_one() {
    let server = Server::start("people-names");
    let named = say(&server, &[("x-scrollback-conversation", "alice")], "hello").conversation();
    let missing =
        scrollback_in(&server.folder, &["history", "alice", "--json", "--store", "sqlite:record.db"], b"");
    assert_eq!(
        (missing.code, missing.json()["error"]["code"].as_str()),
        (1, Some("not_found")),
        "{missing:?}"
    );
    assert_eq!(get(&server, &format!("/api/conversations/{named}"))["recipient"], Value::Null);
    let headers = |who| [("x-scrollback-conversation", "shared"), ("x-scrollback-recipient", who)];
    say(&server, &headers("anna"), "mine");
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": "whose?" }]));
    let refused = server.call("POST", "/v1/chat/completions", &headers("bert"), &body);
    assert_eq!((refused.status, refused.code().as_str()), (409, "other_recipient"), "{}", refused.text());
    // The same first words of two people are two conversations.
    let (anna, bert) = (
        say(&server, &[("x-scrollback-recipient", "anna")], "Hi").conversation(),
        say(&server, &[("x-scrollback-recipient", "bert")], "Hi").conversation(),
    );
    assert_ne!(anna, bert);
    for odd in ["../../etc/passwd", "'; drop table entries; --", "jos\u{e9} \u{1f600}\u{1f600}"] {
        let said = say(&server, &[("x-scrollback-recipient", odd)], "odd");
        assert_eq!(server.command(&["history", odd])["conversation"], said.conversation(), "{odd}");
    }
    let long = "x".repeat(513);
    let refused = server.call("POST", "/v1/chat/completions", &[("x-scrollback-recipient", &long)], &body);
    assert_eq!((refused.status, refused.code().as_str()), (400, "bad_recipient"), "{}", refused.text());
    let emoji = "\u{1f600}".repeat(128);
    say(&server, &[("x-scrollback-recipient", &emoji)], "512 bytes");
    server.verified();
}

#[test]
fn fields_of_a_request_name_the_recipient_where_the_configuration_trusts_them() {
    let config = "[server]\nrecipient_from = [\"safety_identifier\", \"user\", \"metadata.user_id\"]\n";
    let server = Server::with("people-fields", &Setup { config, ..Setup::default() });
    let whose = |answer: &Answer| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        get(&server, &format!("/api/conversations/{}", answer.conversation()))["recipient"].clone()
    };
    let body = |more: Value| {
        let mut body = json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": "hi" }] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body.to_string()
    };
    let ask = |headers: &[(&str, &str)], more: Value| {
        server.call("POST", "/v1/chat/completions", headers, &body(more))
    };
    assert_eq!(whose(&ask(&[], json!({ "user": "anna" }))), "anna");
    assert_eq!(whose(&ask(&[], json!({ "user": "anna", "safety_identifier": "bert" }))), "bert");
    assert_eq!(whose(&ask(&[("x-scrollback-recipient", "carla")], json!({ "user": "anna" }))), "carla");
    assert_eq!(whose(&ask(&[], json!({}))), Value::Null);
    let anthropic = |user: &str| {
        let body = json!({ "model": "claude-opus-4-8", "max_tokens": 9, "metadata": { "user_id": user },
            "messages": [{ "role": "user", "content": "hi" }] });
        server.post("/v1/messages", &body.to_string())
    };
    assert_eq!(whose(&anthropic("dora")), "dora");
    // The session in it is another one every day, and no person.
    let (one, other) = ("user_ab_account_cd_session_1", "user_ab_account_cd_session_2");
    assert_eq!(whose(&anthropic(one)), whose(&anthropic(other)));
    let plain = Server::start("people-no-fields");
    let answer = plain.post("/v1/chat/completions", &body(json!({ "user": "anna" })));
    let row = get(&plain, &format!("/api/conversations/{}", answer.conversation()));
    assert_eq!(row["recipient"], Value::Null, "fields count only where the configuration lists them");
    let folder = folder("people-bad-field");
    std::fs::write(folder.join("scrollback.toml"), "[server]\nrecipient_from = [\"email\"]\n").unwrap();
    let bad = scrollback_in(&folder, &["serve", "--json"], b"");
    assert_eq!((bad.code, bad.json()["error"]["code"].as_str()), (2, Some("bad_config")), "{bad:?}");
}

#[test]
fn follow_ups_are_listed_when_due_and_told_when_they_become_due() {
    let server = Server::start("people-due");
    let append = |who: &str, role: &str| {
        server.command(&["history", who, "append", "--role", role, "--content", "hello"]);
    };
    append("anna", "user");
    append("anna", "assistant");
    append("bert", "user");
    let due = |args: &[&str]| server.command(&[&["list", "--due"], args].concat());
    assert_eq!(due(&[])["conversations"], json!([]), "after 30 minutes, not at once");
    let soon = due(&["--within", "31m"]);
    assert_eq!(soon["conversations"][0]["recipient"], "anna", "{soon}");
    assert_eq!(soon["conversations"][0]["follow_up"]["due"], false);
    assert_eq!(
        soon["conversations"].as_array().unwrap().len(),
        1,
        "who spoke last needs no follow-up: {soon}"
    );
    assert_eq!(get(&server, "/api/recipients?due=now")["recipients"], json!([]));
    let soon = get(&server, "/api/recipients?due=1h");
    assert_eq!((&soon["recipients"][0]["recipient"], &soon["more"]), (&json!("anna"), &json!(0)), "{soon}");
    for bad in ["0h", "soon", "", "1", "-1h"] {
        let refused = server.call("GET", &format!("/api/recipients?due={bad}"), &[], "");
        assert_eq!(refused.status, 400, "{bad}");
        let refused = scrollback_in(&server.folder, &["list", "--due", &format!("--within={bad}")], b"");
        assert_eq!(refused.code, 2, "{bad}");
    }

    let config = "[history.follow_up]\nactive = 0\n";
    let server = Server::with("people-due-event", &Setup { config, ..Setup::default() });
    let mut stream = connect(server.address);
    stream.write_all(&request("GET", "/api/events", &[], b"")).unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut next = |name: &str| loop {
        let line = lines.next().expect("the stream goes on").unwrap();
        if line == format!("event: {name}") {
            let data = lines.next().unwrap().unwrap();
            return serde_json::from_str::<Value>(data.trim_start_matches("data: ")).unwrap();
        }
    };
    next("Listening");
    server.command(&["history", "anna", "append", "--content", "one moment"]);
    server.command(&["history", "anna", "append", "--role", "assistant", "--content", "are you there?"]);
    let told = next("FollowUpDue");
    assert_eq!((&told["recipient"], &told["status"]), (&json!("anna"), &json!("active")), "{told}");
    assert!(!told.to_string().contains("are you there"), "events have no text: {told}");
    assert_eq!(server.command(&["list", "--due"])["conversations"][0]["recipient"], "anna");
}

#[test]
fn a_key_works_at_once_and_its_successor_beside_it() {
    let server = Server::start("people-keys");
    let made =
        server.command(&["key", "add", "laptop", "--rpm", "1000"])["key"].as_str().unwrap().to_string();
    let ask = |key: &str, text: &str| {
        let body = chat("gpt-4o", &json!([{ "role": "user", "content": text }]));
        let bearer = format!("Bearer {key}");
        server.call("POST", "/v1/chat/completions", &[("authorization", &bearer)], &body)
    };
    assert_eq!(ask(&made, "hi").status, 200);
    let second = server.command(&["key", "add", "desktop"])["key"].as_str().unwrap().to_string();
    assert_eq!(ask(&second, "hi").status, 200, "a new key works at once");
    let rotated = server.command(&["key", "rotate", "laptop"]);
    assert_eq!((&rotated["name"], &rotated["replaces"]), (&json!("laptop@2"), &json!("laptop")));
    let newer = rotated["key"].as_str().unwrap();
    let first = ask(&made, "what is it?");
    assert_eq!((first.status, ask(newer, "x").status), (200, 200), "both are valid");
    // The conversation goes on under the new key: it is the same caller.
    let reply = first.json()["choices"][0]["message"]["content"].clone();
    let body = chat(
        "gpt-4o",
        &json!([{ "role": "user", "content": "what is it?" }, { "role": "assistant", "content": reply },
            { "role": "user", "content": "go on" }]),
    );
    let bearer = format!("Bearer {newer}");
    let on = server.call("POST", "/v1/chat/completions", &[("authorization", &bearer)], &body);
    assert_eq!(on.conversation(), first.conversation());
    let listed = server.command(&["key", "list"]);
    let keys = listed["keys"].as_array().unwrap();
    let of = |name: &str| keys.iter().find(|key| key["name"] == name).unwrap();
    assert_eq!(
        (&of("laptop@2")["rpm"], &of("laptop@2")["scope"]),
        (&json!(1000), &json!("proxy")),
        "{listed}"
    );
    assert!(
        of("laptop")["last_used_at"].is_string() && of("laptop@2")["last_used_at"].is_string(),
        "{listed}"
    );
    assert_eq!(server.command(&["key", "rotate", "laptop"])["name"], "laptop@3");
    let none =
        scrollback_in(&server.folder, &["key", "rotate", "nothing", "--store", "sqlite:record.db"], b"");
    assert_eq!(none.code, 1);
}

#[test]
fn bodies_of_calls_can_be_pruned_and_the_record_stays() {
    let server = Server::start("people-prune");
    let mut list = Vec::new();
    for turn in 0..6 {
        list.push(json!({ "role": "user", "content": format!("question {turn} {}", "word ".repeat(2_000)) }));
        let answer = server.post("/v1/chat/completions", &chat("gpt-4o", &Value::Array(list.clone())));
        list.push(answer.json()["choices"][0]["message"].clone());
    }
    let calls = server.command(&["prune", "--sent-older-than", "1d", "--dry-run"]);
    assert_eq!(calls["calls"], 0, "they are not that old: {calls}");
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let dry = server.command(&["prune", "--sent-older-than", "1s", "--dry-run"]);
    assert_eq!((&dry["calls"], &dry["dry_run"]), (&json!(6), &json!(true)), "{dry}");
    let done = server.command(&["prune", "--sent-older-than", "1s"]);
    assert_eq!((&done["calls"], &done["conversations"]), (&json!(6), &json!(0)), "{done}");
    assert!(done["bytes_after"].as_u64().unwrap() <= done["bytes_before"].as_u64().unwrap(), "{done}");
    assert_eq!(
        server.command(&["prune", "--sent-older-than", "1s"])["calls"],
        0,
        "a second time there is nothing"
    );
    let verified = server.verified();
    assert_eq!(verified["ok"], true);
    let found = server.command(&["search", "question"]);
    assert!(!found["hits"].as_array().unwrap().is_empty(), "entries stay");
    // The server goes on as if nothing had happened.
    list.push(json!({ "role": "user", "content": "still there?" }));
    assert_eq!(server.post("/v1/chat/completions", &chat("gpt-4o", &Value::Array(list))).status, 200);
    let too_small = scrollback_in(
        &server.folder,
        &["prune", "--to-size", "1kB", "--json", "--store", "sqlite:record.db"],
        b"",
    );
    assert_eq!(too_small.code, 1, "{too_small:?}");
    assert!(too_small.json()["over"].as_u64().unwrap() > 0, "it is said, and nothing else is removed");
    assert!(!server.command(&["search", "question"])["hits"].as_array().unwrap().is_empty());
    let old = server.command(&["prune", "--conversations-older-than", "1d"]);
    assert_eq!(old["conversations"], 0);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let old = server.command(&["prune", "--conversations-older-than", "1s"]);
    assert_eq!(old["conversations"], 1, "{old}");
    assert_eq!(server.command(&["search", "question"])["hits"], json!([]));
    server.verified();
    for bad in
        [&["--sent-older-than", "0d"][..], &["--to-size", "20"], &["--conversations-older-than", "soon"], &[]]
    {
        let run =
            scrollback_in(&server.folder, &[&["prune", "--store", "sqlite:record.db"], bad].concat(), b"");
        assert_eq!(run.code, 2, "{bad:?}: {run:?}");
    }
}

#[test]
fn the_room_a_store_takes_is_told_by_kind() {
    let server = Server::start("people-size");
    say(&server, &[], &"word ".repeat(5_000));
    let metrics = server.call("GET", "/metrics", &[], "").text();
    for kind in ["entries", "sent", "blobs", "index", "other", "free"] {
        assert!(metrics.contains(&format!("scrollback_store_bytes{{kind=\"{kind}\"}}")), "{kind}: {metrics}");
    }
    let doctor = server.command(&["doctor"]);
    let size = doctor["checks"].as_array().unwrap().iter().find(|check| check["name"] == "size").unwrap();
    assert!(size["bytes"]["entries"].as_u64().unwrap() > 20_000, "{size}");
    let live = scrollback_in(&server.folder, &["doctor", "--server"], b"");
    assert_eq!(live.code, 1, "no server is on the usual port of this folder: {live:?}");
    std::fs::write(
        server.folder.join("scrollback.toml"),
        format!("[server]\nlisten = \"{}\"\n", server.address),
    )
    .unwrap();
    let live = scrollback_in(&server.folder, &["doctor", "--server"], b"");
    assert_eq!(live.code, 0, "{live:?}");
}

#[test]
fn a_store_that_others_may_write_is_not_served() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::start("people-rights");
    for file in ["record.db", "record.db-wal", "record.db-shm"] {
        let mode = std::fs::metadata(server.folder.join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file}");
    }
    let folder = server.folder.clone();
    drop(server);
    let file = folder.join("record.db");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let refused = scrollback_in(
        &folder,
        &["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:record.db", "--json"],
        b"",
    );
    assert_eq!(
        (refused.code, refused.json()["error"]["code"].as_str()),
        (1, Some("unsafe_store")),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("chmod 600"), "{refused:?}");
}
