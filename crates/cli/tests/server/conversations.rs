//! Which conversation a request belongs to.

use serde_json::{Value, json};

use crate::client::{Answer, chat};
use crate::process::Server;
use crate::upstream::{Upstream, completion};

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

fn system(text: &str) -> Value {
    json!({ "role": "system", "content": text })
}

/// A client that sends lists of messages.
struct Client<'s>(&'s Server, Vec<(&'static str, &'static str)>);

impl Client<'_> {
    fn says(&self, messages: &[Value]) -> Answer {
        let body = chat("offline:echo", &Value::from(messages.to_vec()));
        let answer = self.0.call("POST", "/v1/chat/completions", &self.1, &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
    }
}

#[test]
fn a_list_goes_on_where_its_record_ends_and_forks_where_it_differs() {
    let server = Server::start("prefix");
    let client = Client(&server, Vec::new());
    let first = client.says(&[system("Today is Monday."), user("one")]);
    let second = client.says(&[system("Today is Monday."), user("one"), assistant("one"), user("two")]);
    assert_eq!(second.conversation(), first.conversation());
    // The instructions may change: the conversation stays, and the new text is recorded with a decision.
    let talk = [user("one"), assistant("one"), user("two"), assistant("two"), user("three")];
    let third = client.says(&[&[system("Today is Tuesday.")], &talk[..]].concat());
    assert_eq!(third.conversation(), first.conversation());
    let said = server.record(&first.conversation());
    let roles: Vec<&str> = said.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "user", "assistant", "system", "decision", "user", "assistant"],
        "{said:?}"
    );
    let fourth = client
        .says(&[&[system("Today is Tuesday.")], &talk[..], &[assistant("three"), user("four")]].concat());
    assert_eq!(fourth.conversation(), first.conversation(), "the new instructions are not in the way");
    assert_eq!(server.record(&first.conversation()).len(), 11);
    // A client that edits an earlier message goes another way from there.
    let edited = client.says(&[user("one"), assistant("one"), user("something else")]);
    assert_ne!(edited.conversation(), first.conversation());
    let texts: Vec<String> =
        server.record(&edited.conversation()).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Today is Monday.", "one", "one", "something else", "something else"]);
    // Instructions alone are many conversations'.
    let stranger = client.says(&[system("Today is Monday."), user("hello")]);
    assert_ne!(stranger.conversation(), first.conversation());
    let texts: Vec<String> =
        server.record(&stranger.conversation()).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Today is Monday.", "hello", "hello"]);
    server.verified();
}

#[test]
fn a_name_is_believed_and_differing_lists_fork_below_it() {
    let server = Server::start("named");
    let named = Client(&server, vec![("x-scrollback-conversation", "order 4711 / Grüße")]);
    let first = named.says(&[user("one")]);
    let second = named.says(&[user("one"), assistant("one"), user("two")]);
    assert_eq!(second.conversation(), first.conversation());
    assert_eq!(first.conversation().len(), 26, "the header is always the id");
    // The same words under another name are another conversation.
    let other = Client(&server, vec![("x-scrollback-conversation", "order 4712")]).says(&[user("one")]);
    assert_ne!(other.conversation(), first.conversation());
    // A list that shares nothing is a fork of the named conversation.
    let apart = named.says(&[user("a title for this, please")]);
    assert_ne!(apart.conversation(), first.conversation());
    // By the id it is found too, and goes on.
    let id: &'static str = Box::leak(first.conversation().into_boxed_str());
    let by_id = Client(&server, vec![("x-scrollback-conversation", id)]);
    let third = by_id.says(&[user("one"), assistant("one"), user("two"), assistant("two"), user("three")]);
    assert_eq!(third.conversation(), first.conversation());
    for bad in ["", &"x".repeat(513)] {
        let body = chat("offline:echo", &json!([user("x")]));
        let answer =
            server.call("POST", "/v1/chat/completions", &[("x-scrollback-conversation", bad)], &body);
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_conversation"));
    }
    server.verified();
}

#[test]
fn sessions_of_known_clients_are_conversations() {
    let server = Server::start("sessions");
    for header in ["x-claude-code-session-id", "session-id", "x-session-id"] {
        let client = Client(&server, vec![(header, "s-1")]);
        assert_eq!(client.says(&[user("hi")]).conversation().len(), 26);
    }
    let sessions: Vec<String> = ["x-claude-code-session-id", "session-id"]
        .iter()
        .map(|header| {
            Client(&server, vec![(header, "s-2")])
                .says(&[user("hi"), assistant("hi"), user("more")])
                .conversation()
        })
        .collect();
    assert_ne!(sessions[0], sessions[1], "the second said the same again, while it had been answered");
    let anthropic = |user_id: &str, messages: Value| {
        let body = json!({ "model": "offline:echo", "max_tokens": 9, "metadata": { "user_id": user_id }, "messages": messages });
        server.post("/v1/messages", &body.to_string()).conversation()
    };
    let old = anthropic("user_ab_account_cd_session_0000-1", json!([user("a")]));
    let new = anthropic(
        r#"{"device_id":"ab","account_uuid":"cd","session_id":"0000-1"}"#,
        json!([user("a"), assistant("a"), user("b")]),
    );
    assert_eq!(old, new);
}

#[test]
fn thin_clients_send_only_what_is_new() {
    let upstream = Upstream::start(|number, _| completion(&format!("answer {number}")));
    let server = Server::before("thin", upstream.address, "");
    let says = |text: &str, headers: &[(&str, &str)]| {
        server.call("POST", "/v1/chat/completions", headers, &chat("gpt-4o", &json!([user(text)])))
    };
    let append = [("x-scrollback-mode", "append"), ("x-scrollback-conversation", "thin")];
    let first = server.call(
        "POST",
        "/v1/chat/completions",
        &append,
        &chat("gpt-4o", &json!([system("Be brief."), user("one")])),
    );
    let second = says("two", &append);
    assert_eq!(second.conversation(), first.conversation());
    let sent = upstream.received()[1].json()["messages"].clone();
    assert_eq!(sent, json!([system("Be brief."), user("one"), assistant("answer 0"), user("two")]));
    let (numbers, _) = second.view();
    assert_eq!((numbers[0], numbers[1]), (4, 4));
    // The history is that of the fork written last.
    let fork = server.call(
        "POST",
        "/v1/chat/completions",
        &[("x-scrollback-conversation", "thin")],
        &chat("gpt-4o", &json!([system("Be brief."), user("one"), assistant("answer 0"), user("other")])),
    );
    assert_ne!(fork.conversation(), first.conversation());
    assert_eq!(says("three", &append).conversation(), fork.conversation());
    let sent = upstream.received()[3].json()["messages"].clone();
    assert_eq!(sent[3], user("other"));
    assert_eq!(says("x", &[("x-scrollback-mode", "append")]).code(), "no_conversation");
    assert_eq!(
        says("x", &[("x-scrollback-mode", "whole"), ("x-scrollback-conversation", "thin")]).code(),
        "bad_mode"
    );
}

#[test]
fn the_same_request_twice_at_once_is_two_branches() {
    let upstream = Upstream::start(|number, _| {
        std::thread::sleep(std::time::Duration::from_millis(300));
        completion(&format!("answer {number}"))
    });
    let server = Server::before("twice", upstream.address, "");
    let says = || server.post("/v1/chat/completions", &chat("gpt-4o", &json!([user("hi")]))).conversation();
    let before = says();
    let talk = json!([user("hi"), assistant("answer 0"), user("more")]);
    let conversations: Vec<String> = std::thread::scope(|scope| {
        let ask = || server.post("/v1/chat/completions", &chat("gpt-4o", &talk)).conversation();
        let all: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(conversations.contains(&before));
    for conversation in &conversations {
        let said = server.record(conversation);
        assert_eq!(said.len(), 4, "{said:?}");
        assert_eq!(said[2].1, "more");
    }
    let mut distinct = conversations.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 4, "each reply is a branch of its own");
    server.verified();
}

#[test]
fn two_wires_share_one_conversation() {
    let server = Server::start("wires");
    let id = [("x-scrollback-conversation", "both")];
    let first =
        server.call("POST", "/v1/chat/completions", &id, &chat("offline:echo", &json!([user("one")])));
    let body = json!({ "model": "offline:echo", "max_tokens": 9, "messages": [user("one"), assistant("one"), user("two")] });
    let second = server.call("POST", "/v1/messages", &id, &body.to_string());
    assert_eq!(second.conversation(), first.conversation());
    let texts: Vec<String> = server.record(&first.conversation()).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["one", "one", "two", "two"]);
}
