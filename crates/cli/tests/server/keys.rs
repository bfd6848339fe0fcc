//! Who may do what, and how much.

use serde_json::{Value, json};

use crate::client::{Answer, chat};
use crate::process::{Server, Setup};
use crate::support::scrollback_in;

fn key(server: &Server, args: &[&str]) -> String {
    let all: Vec<&str> = ["key", "add"].iter().chain(args).copied().collect();
    server.command(&all)["key"].as_str().unwrap().to_string()
}

/// Keys are read again within a second.
fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(1100));
}

fn ask(server: &Server, key: &str, text: &str) -> Answer {
    let bearer = format!("Bearer {key}");
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": text }]));
    server.call("POST", "/v1/chat/completions", &[("authorization", &bearer)], &body)
}

#[test]
fn keys_open_their_tenant_and_nothing_else() {
    let server = Server::start("keys");
    let (anna, bert) = (key(&server, &["anna", "--tenant", "a"]), key(&server, &["bert", "--tenant", "b"]));
    let reader = key(&server, &["reader", "--tenant", "a", "--scope", "read"]);
    settle();
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": "hi" }]));
    let answer = server.post("/v1/chat/completions", &body);
    assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"));
    assert_eq!(ask(&server, "sb_wrong", "hi").status, 401);
    assert_eq!(ask(&server, &reader, "hi").status, 403);
    let first = ask(&server, &anna, "hi");
    assert_eq!((first.status, first.header("x-scrollback-model")), (200, Some("offline:echo")));
    // The same words of another tenant are no prefix of these, and the id names nothing there.
    let other = ask(&server, &bert, "hi");
    assert_ne!(other.conversation(), first.conversation());
    let bearer = format!("Bearer {bert}");
    let headers = [("authorization", bearer.as_str()), ("x-scrollback-conversation", &*first.conversation())];
    let stolen = server.call("POST", "/v1/chat/completions", &headers, &body);
    assert_eq!(stolen.status, 200);
    assert_ne!(stolen.conversation(), first.conversation());
    let response = server.call(
        "POST",
        "/v1/responses",
        &[("authorization", &format!("Bearer {anna}"))],
        r#"{"model":"gpt-5","input":"secret"}"#,
    );
    let id = response.json()["id"].as_str().unwrap().to_string();
    let got = server.call("GET", &format!("/v1/responses/{id}"), &[("authorization", &bearer)], "");
    assert_eq!(got.status, 404);
    let on = json!({ "model": "gpt-5", "input": "x", "previous_response_id": id }).to_string();
    let answer = server.call("POST", "/v1/responses", &[("authorization", &bearer)], &on);
    assert_eq!((answer.status, answer.code().as_str()), (400, "previous_response_not_found"));
    // A key comes as x-api-key too, and is worth nothing once revoked.
    let anthropic =
        r#"{"model":"claude-opus-4-8","max_tokens":9,"messages":[{"role":"user","content":"x"}]}"#;
    assert_eq!(server.call("POST", "/v1/messages", &[("x-api-key", &anna)], anthropic).status, 200);
    assert_eq!(server.command(&["key", "revoke", "anna"])["name"], "anna");
    settle();
    assert_eq!(ask(&server, &anna, "hi").status, 401);
    let listed = server.command(&["key", "list"]);
    assert_eq!(listed["keys"].as_array().unwrap().len(), 3);
    let shown = listed.to_string() + &std::fs::read_to_string(server.folder.join("log")).unwrap();
    assert!(!shown.contains(&anna) && !shown.contains(&bert));
    for file in std::fs::read_dir(&server.folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(bert.len()).any(|part| part == bert.as_bytes()), "only the hash is kept");
    }
}

#[test]
fn a_key_may_be_used_only_so_much() {
    let config = "[models.\"openai:gpt-4o\"]\ninput_per_mtok = 100000.0\noutput_per_mtok = 100000.0\n";
    let upstream = crate::upstream::Upstream::saying(crate::upstream::completion("ok"));
    let variables = vec![("OPENAI_BASE_URL", format!("http://{}/v1", upstream.address))];
    let server = Server::with("quotas", &Setup { config, variables, store: None });
    let few = key(&server, &["few", "--rpm", "2"]);
    let short = key(&server, &["short", "--tpm", "15"]);
    let poor = key(&server, &["poor", "--usd-per-day", "1"]);
    settle();
    let statuses = |key: &str| {
        (0..3).map(|number| ask(&server, key, &format!("hi {number}")).status).collect::<Vec<_>>()
    };
    // A minute may end between two of these; the second try is then within one.
    let within_a_minute = |key: &str, wanted: &[u16]| statuses(key) == wanted || statuses(key).contains(&429);
    assert!(within_a_minute(&few, &[200, 200, 429]));
    assert!(within_a_minute(&short, &[200, 429, 429]));
    assert_eq!(statuses(&poor), [200, 429, 429], "fifteen tokens cost a dollar and a half");
    let refused = ask(&server, &poor, "more");
    assert_eq!(refused.code(), "quota_exceeded");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert!(refused.text().contains("dollars a day"), "{}", refused.text());
    let before = upstream.received().len();
    assert_eq!(ask(&server, &poor, "again").status, 429);
    assert_eq!(upstream.received().len(), before, "nothing was sent");
}

#[test]
fn nothing_but_this_machine_is_served_without_keys() {
    let server = Server::start("open");
    let run = scrollback_in(
        &server.folder,
        &["serve", "--listen", "0.0.0.0:0", "--store", "sqlite:record.db", "--json"],
        b"",
    );
    assert_eq!(run.code, 2);
    let told: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(told["error"]["code"], "no_keys", "{told}");
    assert!(run.stderr.contains("scrollback key add") || told.to_string().contains("scrollback key add"));
    let taken = server.address.to_string();
    let run =
        scrollback_in(&server.folder, &["serve", "--listen", &taken, "--store", "sqlite:record.db"], b"");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("--listen"), "{}", run.stderr);
    for bad in [
        &["key", "add", "bad name"][..],
        &["key", "add", "x", "--scope", "all"],
        &["key", "add", "x", "--rpm", "0"],
        &["serve", "--listen", "nowhere"],
    ] {
        assert_eq!(scrollback_in(&server.folder, bad, b"").code, 2, "{bad:?}");
    }
    assert_eq!(
        scrollback_in(&server.folder, &["key", "revoke", "nobody", "--store", "sqlite:record.db"], b"").code,
        1
    );
}
