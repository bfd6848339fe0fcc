//! One session of a client is one session in the record, with everything it said and nothing of anybody else's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::client::{Answer, chat};
use crate::process::Server;
use crate::upstream::{Received, Says, Upstream, completion};

const SESSION: (&str, &str) = ("x-claude-code-session-id", "1f837821-49b2-4195-a99c-efd4bef103d5");

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

/// A request of Messages as Claude Code sends it, with tools or without.
fn messages(system: &str, tools: &[&str], messages: &[Value]) -> String {
    let mut body = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 100, "system": system, "messages": messages,
    });
    if !tools.is_empty() {
        let tool = |name: &&str| json!({ "name": name, "input_schema": { "type": "object" } });
        body["tools"] = tools.iter().map(tool).collect();
    }
    body.to_string()
}

/// A reply of Messages with these blocks.
fn reply(number: usize, blocks: &Value) -> Says {
    let body = json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": blocks, "stop_reason": "end_turn", "stop_sequence": null,
        "usage": { "input_tokens": 10, "output_tokens": 5 },
    });
    Says::Json(200, body.to_string())
}

fn text(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

const SUMMARY: &str = "The parser was rewritten. Two helpers looked at the grammar and at the tests.";

/// A model that answers the calls of an interactive session.
fn model(number: usize, received: &Received) -> Says {
    let body = received.json();
    let asked = body["messages"].to_string();
    let system = body["system"].to_string();
    if system.contains("sentence-case title") {
        return reply(number, &text(r#"{"title": "Fix the parser"}"#));
    }
    if asked.contains("detailed summary") {
        return reply(number, &text(SUMMARY));
    }
    if asked.contains("Please fix it") && !asked.contains("tool_result") && !asked.contains("continued") {
        let call = |id: &str, prompt: &str| json!({ "type": "tool_use", "id": id, "name": "Agent", "input": { "description": "look", "prompt": prompt } });
        return reply(
            number,
            &json!([call("toolu_1", "Look at the grammar"), call("toolu_2", "Look at the tests")]),
        );
    }
    reply(number, &text(&format!("answer {number}")))
}

/// What the API says about the sessions: title, and the kind and depth of each conversation.
fn trees(server: &Server) -> Vec<(String, Vec<(u64, String)>)> {
    let sessions = server.call("GET", "/api/sessions", &[], "");
    assert_eq!(sessions.status, 200, "{}", sessions.text());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let tree = |session: &Value| {
        let nodes = session["conversations"].as_array().unwrap();
        let node = |node: &Value| (node["depth"].as_u64().unwrap(), text(&node["conversation"]["kind"]));
        (text(&session["title"]), nodes.iter().map(node).collect())
    };
    sessions.json()["sessions"].as_array().unwrap().iter().map(tree).collect()
}

#[test]
fn an_interactive_session_is_one_session_with_its_conversations_as_a_tree() {
    let upstream = Upstream::start(model);
    let server = Server::before("one-session", upstream.address, "");
    let sent = Mutex::new(Vec::new());
    let ask = |headers: &[(&str, &str)], body: String| -> Answer {
        let all: Vec<(&str, &str)> = [SESSION].into_iter().chain(headers.iter().copied()).collect();
        let answer = server.call("POST", "/v1/messages", &all, &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        sent.lock().unwrap().push(body);
        answer
    };
    let tools = ["Agent", "Edit"];
    let mut answers = Vec::new();
    // The title call comes first, and says the words of the person too.
    let title = "Generate a concise, sentence-case title (3-7 words) that captures the main topic.";
    answers.push(ask(&[], messages(title, &[], &[user("Please fix it")])));
    let reminder = "<system-reminder>\nToday's date is 2026-11-18.\n</system-reminder>\n";
    let mut list = vec![json!({ "role": "user", "content": [
        { "type": "text", "text": reminder }, { "type": "text", "text": "Please fix it" }] })];
    let main = ask(&[], messages("You are an agent.", &tools, &list));
    assert_ne!(main.conversation(), answers[0].conversation(), "a side call is not the root");
    list.push(json!({ "role": "assistant", "content": main.json()["content"] }));
    // One helper is named by a header, the other is known by what it was asked.
    let agent = [("x-claude-code-agent-id", "a43338d473356f6f9")];
    let first = ask(&agent, messages("You are a helper.", &["Read"], &[user("Look at the grammar")]));
    let second = ask(&[], messages("You are a helper.", &["Read"], &[user("Look at the tests")]));
    let again = [user("Look at the grammar"), assistant("answer 2"), user("Go on")];
    let more = ask(&agent, messages("You are a helper.", &["Read"], &again));
    assert_eq!(more.conversation(), first.conversation());
    list.push(json!({ "role": "user", "content": [
        { "type": "tool_result", "tool_use_id": "toolu_1", "content": "the grammar is fine" },
        { "type": "tool_result", "tool_use_id": "toolu_2", "content": "the tests are fine" }] }));
    let third = ask(&[], messages("You are an agent.", &tools, &list));
    assert_eq!(third.conversation(), main.conversation());
    list.push(json!({ "role": "assistant", "content": third.json()["content"] }));
    list.push(user("Your task is to create a detailed summary of the conversation so far."));
    let summary = ask(&[], messages("You are an agent.", &tools, &list));
    assert_eq!(summary.conversation(), main.conversation());
    // The client goes on from its own summary.
    let begun = format!("This session is being continued from a previous conversation.\n\n{SUMMARY}");
    let compacted = ask(&[], messages("You are an agent.", &tools, &[user(&begun)]));
    let later = [
        user(&begun),
        json!({ "role": "assistant", "content": compacted.json()["content"] }),
        user("And now?"),
    ];
    let branch = ask(&[], messages("You are an agent.", &tools, &later));
    assert_eq!(branch.conversation(), compacted.conversation());
    answers.extend([main, first, second, more, third, summary, compacted, branch]);
    let sessions: BTreeSet<String> = answers.iter().map(Answer::session).collect();
    assert_eq!(sessions.len(), 1, "every call says the same session");
    let wanted = [(0, "main"), (1, "side"), (1, "sub-agent"), (1, "sub-agent"), (1, "branch")];
    let wanted: Vec<(u64, String)> = wanted.iter().map(|(depth, kind)| (*depth, (*kind).into())).collect();
    assert_eq!(trees(&server), [("Fix the parser".into(), wanted)]);
    let received: Vec<String> =
        upstream.received().into_iter().map(|received| String::from_utf8(received.body).unwrap()).collect();
    assert_eq!(received, *sent.lock().unwrap(), "the model is sent what the client wrote");
    // The command line, one session and search say the same.
    let listed = server.command(&["list", "--tree"]);
    assert_eq!(listed["sessions"][0]["title"], "Fix the parser");
    assert_eq!(listed["sessions"][0]["client"], "claude-code");
    assert_eq!(listed["sessions"][0]["conversations"].as_array().unwrap().len(), 5);
    let id = sessions.first().unwrap();
    let one = server.call("GET", &format!("/api/sessions/{id}"), &[], "").json();
    assert_eq!((&one["client_id"], &one["total"]), (&json!(SESSION.1), &json!(5)));
    let hits = server.call("GET", "/api/search?q=grammar&role=user", &[], "").json();
    assert_eq!(hits["hits"][0]["kind"], "sub-agent", "{hits}");
    assert_eq!(hits["hits"][0]["session"], json!(id));
    let page = server.call("GET", "/lens", &[], "").text();
    assert!(page.contains("Fix the parser") && page.contains("sub-agent"), "the lens lists the tree");
    server.verified();
}

/// Sub-agents that no header names, more of them at once than a session has other conversations.
#[test]
fn many_sub_agents_at_once_are_all_known_by_what_they_were_asked() {
    const AGENTS: usize = 12;
    let upstream = Upstream::start(|number, received| {
        let asked = received.json()["messages"].to_string();
        if asked.contains("Look everywhere") {
            let call = |place: usize| {
                json!({ "type": "tool_use", "id": format!("toolu_{place}"), "name": "Agent",
                "input": { "prompt": format!("Look at place {place}") } })
            };
            return reply(number, &(0..AGENTS).map(call).collect());
        }
        reply(number, &text("fine"))
    });
    let server = Server::before("many-agents", upstream.address, "");
    let ask = |list: &[Value]| {
        let body = messages("You are an agent.", &["Agent"], list);
        server.call("POST", "/v1/messages", &[SESSION], &body).conversation()
    };
    let main = ask(&[user("Look everywhere")]);
    let agents: BTreeSet<String> =
        (0..AGENTS).map(|place| ask(&[user(&format!("Look at place {place}"))])).collect();
    assert!(agents.len() == AGENTS && !agents.contains(&main));
    let kinds: Vec<String> =
        trees(&server).remove(0).1.into_iter().map(|(depth, kind)| format!("{depth} {kind}")).collect();
    assert_eq!(kinds[0], "0 main");
    assert_eq!(kinds[1..], vec!["1 sub-agent"; AGENTS]);
}

/// What a client says about its calls goes before what they look like: here a title with tools, a sub-agent that nobody
/// waits for, a question beside the conversation with its whole history, and a history that was made short.
#[test]
fn the_kind_that_a_client_states_counts() {
    let upstream = Upstream::start(|number, _| reply(number, &text(&format!("answer {number}"))));
    let server = Server::before("stated-kinds", upstream.address, "");
    let ask = |class: &'static str, list: &[Value]| -> Answer {
        let headers = [SESSION, ("x-claude-code-request-class", class)];
        let answer =
            server.call("POST", "/v1/messages", &headers, &messages("You are an agent.", &["Edit"], list));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
    };
    let title = ask("auxiliary", &[user("Fix it")]);
    let main = ask("main", &[user("Fix it")]);
    assert_ne!(title.conversation(), main.conversation());
    let agent = ask("subagent", &[user("Look around")]);
    let mut list = vec![user("Fix it"), json!({ "role": "assistant", "content": main.json()["content"] })];
    let beside: Vec<Value> = list.iter().cloned().chain([user("By the way?")]).collect();
    let reply = ask("side_reply", &beside);
    list.push(user("Go on"));
    assert_eq!(
        ask("main", &list).conversation(),
        main.conversation(),
        "the question beside it left no trace"
    );
    let short = ask("main", &[user("What was done so far: all of it")]);
    let conversations = [&title, &main, &agent, &reply, &short].map(Answer::conversation);
    assert_eq!(conversations.iter().collect::<BTreeSet<_>>().len(), 5);
    let kind = |conversation: &String| {
        let path = format!("/api/conversations/{conversation}");
        server.call("GET", &path, &[], "").json()["kind"].as_str().unwrap_or_default().to_string()
    };
    assert_eq!(conversations.each_ref().map(kind), ["side", "main", "sub-agent", "side", "branch"]);
    server.verified();
}

/// Responses: the reply's message is sent back in other words under the id it was given.
#[test]
fn a_message_with_the_id_of_a_recorded_one_is_that_one() {
    let message = |text: &str| {
        json!({ "type": "message", "id": "msg_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }] })
    };
    let said = message("It is the second one.");
    let response = json!({ "id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5",
        "output": [said], "usage": { "input_tokens": 9, "output_tokens": 9, "total_tokens": 18 } });
    let upstream = Upstream::start(move |_, _| Says::Json(200, response.to_string()));
    let server = Server::before("item-ids", upstream.address, "");
    let ask = |headers: &[(&str, &str)], input: Value| {
        let body = json!({ "model": "gpt-5", "store": false, "input": input }).to_string();
        let answer = server.call("POST", "/v1/responses", headers, &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        (answer.conversation(), body)
    };
    for headers in [&[("session-id", "one")][..], &[]] {
        let (first, _) = ask(headers, json!([user("Which?")]));
        let shorter = json!([user("Which?"), message("The second."), user("Why?")]);
        let (second, body) = ask(headers, shorter);
        assert_eq!(first, second, "{headers:?}");
        assert_eq!(
            upstream.received().last().unwrap().body,
            body.as_bytes(),
            "the client's own words are sent"
        );
        let kept = server.command(&["show", &first]).to_string();
        assert!(kept.contains("It is the second one."), "the record keeps what was said: {kept}");
    }
    server.verified();
}

/// Claude Code keeps its last reply back from the list that asks for a summary, and puts it behind the summary.
#[test]
fn a_summary_that_is_asked_for_without_the_last_reply_makes_no_branch() {
    let upstream = Upstream::start(model);
    let server = Server::before("summary", upstream.address, "");
    let sent = Mutex::new(Vec::new());
    let ask = |list: &[Value]| {
        let body = messages("You are an agent.", &["Edit"], list);
        let answer = server.call("POST", "/v1/messages", &[SESSION], &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        sent.lock().unwrap().push(body);
        answer.conversation()
    };
    let (begun, question) = (user("Look around"), user("And now?"));
    let main = ask(std::slice::from_ref(&begun));
    let compact = user("Your task is to create a detailed summary of the conversation so far.");
    assert_eq!(ask(&[begun.clone(), compact]), main);
    let said: Vec<String> = server.record(&main).into_iter().map(|(_, text)| text).collect();
    assert!(said.contains(&"answer 0".into()), "the reply that was left out stays in the record: {said:?}");
    assert_eq!(said.last().unwrap(), SUMMARY);
    let summed = user(&format!("This session is being continued from a previous conversation.\n\n{SUMMARY}"));
    let branch = ask(&[summed.clone(), assistant("answer 0"), question.clone()]);
    let on = [summed, assistant("answer 0"), question, assistant("answer 2"), user("And then?")];
    assert_eq!(ask(&on), branch);
    assert_eq!(kinds(&server), ["main", "branch"]);
    // Who goes back to before the summary branches off there.
    assert_ne!(ask(&[begun, assistant("answer 0"), user("Another way")]), main);
    assert_eq!(kinds(&server), ["main", "branch", "branch"]);
    let received = upstream.received().into_iter().map(|received| String::from_utf8(received.body).unwrap());
    assert_eq!(
        received.collect::<Vec<_>>(),
        *sent.lock().unwrap(),
        "the model is sent what the client wrote"
    );
    server.verified();
}

/// The words with which clients ask for a title change with every release; what they want for an answer does not.
#[test]
fn a_call_whose_answer_is_a_title_names_the_session() {
    let upstream = Upstream::start(|number, received| {
        let answer = if received.json()["tools"].is_array() { "done" } else { r#"{"title": "Six apples"}"# };
        reply(number, &text(answer))
    });
    let server = Server::before("named", upstream.address, "");
    let ask = |body: &str| assert_eq!(server.call("POST", "/v1/messages", &[SESSION], body).status, 200);
    ask(&messages("You are an agent.", &["Edit"], &[user("Count the apples, please")]));
    assert_eq!(trees(&server)[0].0, "Count the apples, please");
    let schema = |members: Value| json!({ "format": { "type": "json_schema", "schema": { "type": "object", "properties": members } } });
    let title = |members: Value| {
        let plain =
            messages("In words of no release we know.", &[], &[user("<session>Count the apples</session>")]);
        let mut body: Value = serde_json::from_str(&plain).unwrap();
        body["output_config"] = schema(members);
        body.to_string()
    };
    let string = || json!({ "type": "string" });
    ask(&title(json!({ "title": string(), "topic": string() })));
    assert_eq!(
        trees(&server)[0].0,
        "Count the apples, please",
        "an object with a title among other things is none"
    );
    ask(&title(json!({ "title": string() })));
    assert_eq!(trees(&server)[0].0, "Six apples");
}

#[test]
fn six_edits_in_a_session_are_one_conversation() {
    let upstream = Upstream::start(|number, _| {
        let call = json!({ "type": "tool_use", "id": format!("toolu_{number}"), "name": "Edit",
            "input": { "file_path": "a.rs", "old_string": format!("{number}"), "new_string": "x" } });
        reply(number, &json!([call]))
    });
    let server = Server::before("six-edits", upstream.address, "");
    let mut list = vec![user("Fix the bug.")];
    let mut conversations = BTreeSet::new();
    for number in 0..6 {
        let body = messages("Edit files.", &["Edit"], &list);
        let answer = server.call("POST", "/v1/messages", &[SESSION], &body);
        conversations.insert(answer.conversation());
        let mut blocks = answer.json()["content"].clone();
        blocks[0]["input"]["replace_all"] = json!(false);
        list.push(json!({ "role": "assistant", "content": blocks }));
        list.push(json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": format!("toolu_{number}"), "content": "done" }] }));
    }
    assert_eq!(conversations.len(), 1);
    assert_eq!(trees(&server), [("Fix the bug.".to_string(), vec![(0, "main".to_string())])]);
}

fn says(server: &Server, headers: &[(&str, &str)], list: &[Value]) -> Answer {
    let body = chat("offline:echo", &Value::from(list.to_vec()));
    let answer = server.call("POST", "/v1/chat/completions", headers, &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// The same with a tool on offer.
fn says_with_tools(server: &Server, headers: &[(&str, &str)], list: &[Value]) -> Answer {
    let body = json!({ "model": "offline:echo", "messages": list, "tools": [
        { "type": "function", "function": { "name": "look", "parameters": { "type": "object" } } }] });
    let answer = server.call("POST", "/v1/chat/completions", headers, &body.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

fn kinds(server: &Server) -> Vec<String> {
    let mut all = trees(server);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0).1.into_iter().map(|(_, kind)| kind).collect()
}

#[test]
fn a_side_call_that_goes_on_is_promoted() {
    let server = Server::start("promoted");
    let session = [("x-session-id", "s")];
    let first = says(&server, &session, &[user("hi")]);
    assert_eq!(kinds(&server), ["side"]);
    // A chat without tools is the main conversation once it goes on.
    let second = says(&server, &session, &[user("hi"), assistant("hi"), user("more")]);
    assert_eq!(second.conversation(), first.conversation());
    assert_eq!(kinds(&server), ["main"]);
    let beside = says(&server, &session, &[user("a topic?")]);
    assert_eq!(kinds(&server), ["main", "side"]);
    let on = [user("a topic?"), assistant("a topic?"), user("and with tools")];
    let promoted = says_with_tools(&server, &session, &on);
    assert_eq!(promoted.conversation(), beside.conversation());
    assert_eq!(kinds(&server), ["main", "branch"]);
}

#[test]
fn first_messages_start_conversations_unless_they_repeat_one_that_failed() {
    let upstream = Upstream::start(|number, _| match number {
        2 => Says::Json(500, r#"{"error":{"message":"busy"}}"#.into()),
        _ => completion("hello"),
    });
    let server = Server::before("first-messages", upstream.address, "");
    let anna = [("authorization", "Bearer sk-anna")];
    let ben = [("authorization", "Bearer sk-ben")];
    let ask = |headers: &[(&str, &str)], list: Value| {
        server.call("POST", "/v1/chat/completions", headers, &chat("gpt-4o", &list)).conversation()
    };
    let first = ask(&anna, json!([user("hi")]));
    let second = ask(&anna, json!([user("hi")]));
    assert_ne!(first, second, "the same first message starts another conversation");
    let failed = ask(&anna, json!([user("once more")]));
    assert_ne!(ask(&ben, json!([user("once more")])), failed, "another caller never goes on there");
    assert_eq!(ask(&anna, json!([user("once more")])), failed, "a request that failed goes on in place");
    // Of two equal conversations the one that was not continued is, the newest first.
    let talk = json!([user("hi"), assistant("hello"), user("more")]);
    assert_eq!(ask(&anna, talk.clone()), second);
    let other = json!([user("hi"), assistant("hello"), user("something else")]);
    assert_eq!(ask(&anna, other.clone()), first);
    assert!(![&first, &second].contains(&&ask(&ben, talk)), "another caller has conversations of its own");
    for (name, value) in [("x-scrollback-recipient", "carla"), ("x-api-key", "another")] {
        let headers = [anna[0], (name, value)];
        let found = ask(&headers, other.clone());
        assert!(![&first, &second].contains(&&found), "{name} tells callers apart");
    }
    server.verified();
}

#[test]
fn overlapping_appends_are_both_kept_in_one_conversation() {
    let upstream = Upstream::start(|number, _| {
        // Both are under way before either is answered.
        std::thread::sleep(std::time::Duration::from_millis(300));
        completion(&format!("answer {number}"))
    });
    let server = Server::before("overlapping", upstream.address, "");
    let thin = [("x-scrollback-mode", "append"), ("x-scrollback-conversation", "thin")];
    let ask = |text: &str| {
        let answer =
            server.call("POST", "/v1/chat/completions", &thin, &chat("gpt-4o", &json!([user(text)])));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.conversation()
    };
    let begun = ask("zero");
    let conversations: BTreeSet<String> = std::thread::scope(|scope| {
        let asking: Vec<_> = ["one", "two"].map(|text| scope.spawn(move || ask(text))).into_iter().collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(conversations, BTreeSet::from([begun.clone()]), "the header names what was written");
    let mut texts: Vec<String> = server.record(&begun).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts.len(), 6, "{texts:?}");
    texts.sort();
    assert_eq!(texts, ["answer 0", "answer 1", "answer 2", "one", "two", "zero"]);
    server.verified();
}

#[test]
fn two_callers_with_one_session_id_have_two_sessions() {
    let server = Server::start("two-callers");
    let list = [user("hi"), assistant("hi"), user("more")];
    let headers = |key: &'static str| [SESSION, ("authorization", key)];
    let anna = says_with_tools(&server, &headers("Bearer a"), &list[..1]);
    let ben = says_with_tools(&server, &headers("Bearer b"), &list);
    assert_ne!((anna.session(), anna.conversation()), (ben.session(), ben.conversation()));
    assert_eq!(server.record(&anna.conversation()).len(), 2, "nothing of the other is here");
    assert_eq!(says_with_tools(&server, &headers("Bearer a"), &list).conversation(), anna.conversation());
    // Agents of the same name are two as well.
    let agent = |key: &'static str| [SESSION, ("authorization", key), ("x-claude-code-agent-id", "x")];
    let first = says(&server, &agent("Bearer a"), &[user("look")]);
    let second = says(&server, &agent("Bearer b"), &[user("look")]);
    assert_ne!(first.conversation(), second.conversation());
    assert_eq!((first.session(), second.session()), (anna.session(), ben.session()));
    server.verified();
}

#[test]
fn ids_that_contradict_each_other_or_lead_nowhere_lose_nothing() {
    let server = Server::start("contradictions");
    // A header is believed before the body.
    let body = |session: &str, list: &[Value]| {
        json!({ "model": "offline:echo", "max_tokens": 9, "messages": list,
            "metadata": { "user_id": json!({ "device_id": "d", "session_id": session }).to_string() } })
        .to_string()
    };
    let first = server.call("POST", "/v1/messages", &[SESSION], &body("other", &[user("one")]));
    let talk = [user("one"), assistant("one"), user("two")];
    let second = server.call("POST", "/v1/messages", &[SESSION], &body("another", &talk));
    assert_eq!(second.conversation(), first.conversation());
    // A sub-agent whose parent is not known begins the session; the parent joins it.
    let child = [("x-session-affinity", "child"), ("x-parent-session-id", "parent")];
    let agent = says(&server, &child, &[user("look")]);
    let parent = says_with_tools(&server, &[("x-session-affinity", "parent")], &[user("do it")]);
    assert_eq!(agent.session(), parent.session());
    // A sub-agent of the sub-agent belongs to the same session.
    let below = [("x-session-affinity", "grandchild"), ("x-parent-session-id", "child")];
    assert_eq!(says(&server, &below, &[user("look closer")]).session(), parent.session());
    // The id of an agent without a session, and a session that is its own parent.
    says(&server, &[("x-claude-code-agent-id", "x")], &[user("three")]);
    says(&server, &[("x-session-id", "me"), ("x-parent-session-id", "me")], &[user("four")]);
    server.verified();
}

#[test]
fn hostile_ids_are_data_or_refused() {
    let server = Server::start("hostile-ids");
    let long = "x".repeat(10_000);
    let body = chat("offline:echo", &json!([user("x")]));
    for name in ["session-id", "x-claude-code-session-id", "x-session-id"] {
        let refused = server.call("POST", "/v1/chat/completions", &[(name, &long)], &body);
        assert_eq!((refused.status, refused.code().as_str()), (400, "bad_session"), "{name}");
    }
    let metadata = json!({ "model": "offline:echo", "max_tokens": 9, "messages": [user("x")],
        "metadata": { "user_id": format!("user_a_account_b_session_{long}") } });
    let refused = server.post("/v1/messages", &metadata.to_string());
    assert_eq!((refused.status, refused.code().as_str()), (400, "bad_session"));
    let hostile = [
        "'; drop table sessions; --",
        "../../etc/passwd",
        "<script>alert(1)</script>",
        "session:01/agent",
        "%00",
        "{\"a\":1}",
        "Grüße 🎉",
    ];
    let mut sessions = BTreeSet::new();
    for id in hostile {
        let first = says_with_tools(&server, &[("x-session-id", id)], &[user("hi")]);
        let list = [user("hi"), assistant("hi"), user("more")];
        let second = says_with_tools(&server, &[("x-session-id", id)], &list);
        assert_eq!(first.conversation(), second.conversation(), "{id}");
        sessions.insert(first.session());
    }
    assert_eq!(sessions.len(), hostile.len());
    let page = server.call("GET", "/lens", &[], "").text();
    assert!(!page.contains("<script>alert(1)"), "an id is never markup");
    server.verified();
}

#[test]
fn a_client_that_edits_its_whole_history_at_every_call_loses_nothing() {
    let server = Server::start("rewriting");
    let mut conversations = BTreeMap::new();
    let mut sessions = BTreeSet::new();
    for number in 0..8 {
        let list: Vec<Value> = (0..5)
            .map(|at| {
                let words = format!("message {at} of call {number}");
                if at % 2 == 0 { user(&words) } else { assistant(&words) }
            })
            .collect();
        let answer = says_with_tools(&server, &[SESSION], &list);
        sessions.insert(answer.session());
        conversations.insert(number, answer.conversation());
    }
    assert_eq!(sessions.len(), 1);
    for (number, conversation) in &conversations {
        let said = server.record(conversation);
        let own = said.iter().filter(|(_, text)| text.ends_with(&format!("of call {number}"))).count();
        assert_eq!(own, 6, "five messages and the reply: {said:?}");
    }
    assert_eq!(kinds(&server).iter().filter(|kind| *kind == "main").count(), 1);
    server.verified();
}

#[test]
fn a_first_request_of_ten_thousand_messages_is_recorded_whole() {
    let server = Server::start("ten-thousand");
    let list: Vec<Value> =
        (0..9_999)
            .map(|at| {
                if at % 2 == 0 { user(&format!("question {at}")) } else { assistant(&format!("answer {at}")) }
            })
            .collect();
    let first = says_with_tools(&server, &[SESSION], &list);
    assert_eq!(server.record(&first.conversation()).len(), 10_000);
    let more: Vec<Value> =
        list.iter().cloned().chain([assistant("question 9998"), user("and now?")]).collect();
    assert_eq!(says_with_tools(&server, &[SESSION], &more).conversation(), first.conversation());
}

/// A generator of numbers that is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

#[test]
fn no_conversation_and_no_session_is_ever_two_callers() {
    let server = Server::start("never-merged");
    let mut owners: BTreeMap<String, usize> = BTreeMap::new();
    // All callers use the same few words, ids of sessions and ids of agents.
    for seed in 1..=3_u64 {
        let mut dice = Dice(seed);
        for _ in 0..80 {
            let caller = dice.roll(4);
            let key = format!("Bearer caller-{}", caller % 2);
            let mut headers = vec![("authorization", key.as_str())];
            // Two of the callers share a key and differ by the recipient.
            if caller >= 2 {
                headers.push(("x-scrollback-recipient", "anna"));
            }
            match dice.roll(5) {
                0 => headers.push(("x-session-id", "one")),
                1 => headers.push(("x-claude-code-session-id", "one")),
                2 => headers.extend([("x-claude-code-session-id", "one"), ("x-claude-code-agent-id", "a")]),
                3 => headers.extend([("x-session-affinity", "two"), ("x-parent-session-id", "one")]),
                _ => {}
            }
            let mut list = vec![user(["hi", "ho"][dice.roll(2)])];
            for _ in 0..dice.roll(3) {
                let newest = list.last().unwrap()["content"].as_str().unwrap().to_string();
                list.push(assistant(&newest));
                list.push(user(["hi", "ho"][dice.roll(2)]));
            }
            let answer = match dice.roll(2) {
                0 => says(&server, &headers, &list),
                _ => says_with_tools(&server, &headers, &list),
            };
            for id in [format!("s {}", answer.session()), format!("c {}", answer.conversation())] {
                let owner = *owners.entry(id.clone()).or_insert(caller);
                assert_eq!(owner, caller, "seed {seed}: {id} was another caller's");
            }
        }
    }
    server.verified();
}
