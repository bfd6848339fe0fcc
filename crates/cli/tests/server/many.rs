//! Many requests at once, servers that are killed, and several servers on one store.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use crate::client::chat;
use crate::process::{Server, Setup};

#[path = "../../../store/tests/support/mod.rs"]
pub(crate) mod postgres;

/// Asks until it is told to stop; the conversations whose reply came whole, with the word that was said in them.
fn ask_until(servers: &[&Server], stop: &AtomicBool, lane: usize, answered: &Mutex<Vec<(String, String)>>) {
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        let word = format!("word{lane}x{number}");
        let streams = number % 2 == 0;
        let body = json!({ "model": "offline:echo", "stream": streams, "messages": [{ "role": "user", "content": word }] });
        let server = servers[number % servers.len()];
        let bytes = crate::client::request("POST", "/v1/chat/completions", &[], body.to_string().as_bytes());
        let Ok(mut stream) = std::net::TcpStream::connect(server.address) else { return };
        if std::io::Write::write_all(&mut stream, &bytes).is_err() {
            return;
        }
        let answer = crate::client::read(&mut stream);
        // A completed exchange: the client has all of the reply.
        if answer.status == 200 && answer.whole {
            answered.lock().unwrap().push((answer.conversation(), word));
        }
        number += 1;
    }
}

#[test]
fn whatever_was_answered_survives_a_kill() {
    let mut server = Server::start("killed");
    for round in 0..4 {
        let (stop, answered, begun) = (AtomicBool::new(false), Mutex::new(Vec::new()), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for lane in 0..6 {
                let (server, stop, answered, begun) = (&server, &stop, &answered, &begun);
                scope.spawn(move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    ask_until(&[server], stop, round * 10 + lane, answered);
                });
            }
            // Some exchanges are over, others are under way: that is when it dies.
            while answered.lock().unwrap().len() < 25 {
                std::thread::yield_now();
            }
            let id = server.child.id().to_string();
            assert!(std::process::Command::new("kill").args(["-9", &id]).status().unwrap().success());
            stop.store(true, Ordering::SeqCst);
        });
        server = server.again();
        let answered = answered.into_inner().unwrap();
        server.verified();
        for (conversation, word) in answered.iter().rev().take(12) {
            let said = server.record(conversation);
            assert_eq!(said, [("user".into(), word.clone()), ("assistant".into(), word.clone())]);
        }
        let entries = server.verified()["entries"].as_u64().unwrap();
        assert!(entries >= 2 * answered.len() as u64, "{entries} of {}", answered.len());
    }
}

#[test]
fn a_server_that_is_asked_to_stop_finishes_what_it_began() {
    let upstream = crate::upstream::Upstream::start(|_, _| {
        std::thread::sleep(std::time::Duration::from_millis(500));
        crate::upstream::completion("done")
    });
    let mut server = Server::before("stopping", upstream.address, "");
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": "hi" }]));
    let address = server.address;
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            crate::client::send(
                address,
                &crate::client::request("POST", "/v1/chat/completions", &[], body.as_bytes()),
            )
        });
        while upstream.received().is_empty() {
            std::thread::yield_now();
        }
        let id = server.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        asking.join().unwrap()
    });
    assert_eq!((answer.status, answer.whole), (200, true));
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert_eq!(server.record(&answer.conversation()).len(), 2);
}

#[test]
fn servers_on_one_database_write_at_once_and_know_each_others_conversations() {
    let Some(database) = postgres::Server::start() else { return };
    let store = database.url();
    let server = |name: &str| Server::with(name, &Setup { store: Some(store.clone()), ..Setup::default() });
    let (one, two) = (server("first"), server("second"));
    let (stop, answered) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for lane in 0..4 {
            let (one, two, stop, answered) = (&one, &two, &stop, &answered);
            scope.spawn(move || ask_until(&[one, two], stop, lane, answered));
        }
        while answered.lock().unwrap().len() < 60 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::SeqCst);
    });
    let answered = answered.into_inner().unwrap();
    let conversations: BTreeSet<&String> = answered.iter().map(|(conversation, _)| conversation).collect();
    assert_eq!(conversations.len(), answered.len());
    // One conversation, carried on by both in turn; and both at once under one name.
    let mut messages = Vec::new();
    let mut conversation = None;
    for turn in 0..6 {
        messages.push(json!({ "role": "user", "content": format!("turn {turn}") }));
        let server = [&one, &two][turn % 2];
        let answer = server.post("/v1/chat/completions", &chat("offline:echo", &json!(messages)));
        assert_eq!(conversation.get_or_insert(answer.conversation()), &answer.conversation());
        messages.push(json!({ "role": "assistant", "content": format!("turn {turn}") }));
    }
    let named = [("x-scrollback-conversation", "shared")];
    let both: Vec<String> = std::thread::scope(|scope| {
        let ask = |number: usize| {
            let server = [&one, &two][number % 2];
            let body =
                chat("offline:echo", &json!([{ "role": "user", "content": format!("racer {number}") }]));
            server.call("POST", "/v1/chat/completions", &named, &body).conversation()
        };
        let all: Vec<_> = (0..6).map(|number| scope.spawn(move || ask(number))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(
        both.iter().collect::<BTreeSet<_>>().len(),
        6,
        "one name, one conversation, and a fork for each other list"
    );
    let roots: BTreeSet<String> = both.iter().filter(|id| one.record(id).len() == 2).cloned().collect();
    assert_eq!(roots.len(), 6);
    one.verified();
}

#[test]
fn a_store_that_is_away_is_told_or_passed_over_as_configured() {
    let Some(database) = postgres::Server::start() else { return };
    let store = database.url();
    let upstream = crate::upstream::Upstream::saying(crate::upstream::completion("ok"));
    let server = |name: &str, config: &str| {
        let variables = vec![("OPENAI_BASE_URL", format!("http://{}/v1", upstream.address))];
        Server::with(name, &Setup { config, variables, store: Some(store.clone()) })
    };
    let strict = server("strict", "");
    let easy = server("easy", "[server]\nrecord = \"best-effort\"\n");
    let body = chat("gpt-4o", &json!([{ "role": "user", "content": "hi" }]));
    let ask = |server: &Server| server.post("/v1/chat/completions", &body);
    assert_eq!((ask(&strict).status, ask(&easy).status), (200, 200));
    database.crash();
    let (refused, passed) = (ask(&strict), ask(&easy));
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!((passed.status, passed.header("x-scrollback-conversation")), (200, None), "{}", passed.text());
    assert_eq!(
        upstream.received().len(),
        3,
        "nothing is sent that cannot be recorded, where that is required"
    );
    let metrics = easy.call("GET", "/metrics", &[], "").text();
    assert!(metrics.contains("scrollback_record_failures_total{part=\"request\"} 1"), "{metrics}");
    database.launch();
    assert_eq!((ask(&strict).status, ask(&easy).status), (200, 200));
}

#[test]
fn a_role_that_bypasses_row_security_is_refused_with_keys() {
    let Some(database) = postgres::Server::start() else { return };
    let store = database.url();
    let folder = crate::support::folder("bypassing-role");
    let run =
        |args: &[&str]| crate::support::scrollback_in(&folder, &[args, &["--store", &store]].concat(), b"");
    assert_eq!(run(&["key", "add", "one"]).code, 0);
    // The role of the database's support code is held by row security.
    drop(Server::with("held-role", &Setup { store: Some(store.clone()), ..Setup::default() }));
    for right in ["bypassrls", "superuser"] {
        database.sql(&format!("alter role app {right}"));
        let refused = run(&["serve", "--listen", "127.0.0.1:0"]);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        for part in ["\"app\"", "row-level security", "--allow-superuser"] {
            assert!(refused.stderr.contains(part), "{}", refused.stderr);
        }
    }
}
