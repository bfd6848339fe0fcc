//! Gemini's clients: recorded, curated and passed on as the others are.

use serde_json::{Value, json};

use crate::client::{Answer, request, send};
use crate::process::{Server, Setup};
use crate::upstream::{Says, Then, Upstream};

const WHOLE: &str = "/v1beta/models/gemini-2.5-pro:generateContent";
const LIST: &str = "/v1beta/models/gemini-2.5-pro:streamGenerateContent";
const EVENTS: &str = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse";

fn user(text: &str) -> Value {
    json!({ "role": "user", "parts": [{ "text": text }] })
}

fn model(text: &str) -> Value {
    json!({ "role": "model", "parts": [{ "text": text }] })
}

fn asking(contents: &[Value]) -> String {
    json!({
        "systemInstruction": { "parts": [{ "text": "Be brief." }] }, "contents": contents,
        "generationConfig": { "maxOutputTokens": 100 },
    })
    .to_string()
}

fn candidate(parts: &Value, finish: Option<&str>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({
        "candidates": [candidate], "modelVersion": "gemini-2.5-pro", "responseId": "r1",
        "usageMetadata": { "promptTokenCount": 12, "candidatesTokenCount": 3, "cachedContentTokenCount": 4, "totalTokenCount": 15 },
    })
}

fn saying(text: &str) -> Says {
    Says::Json(200, candidate(&json!([{ "text": text }]), Some("STOP")).to_string())
}

/// Two texts as the elements of a stream.
fn two() -> [String; 2] {
    [
        candidate(&json!([{ "text": "Good " }]), None).to_string(),
        candidate(&json!([{ "text": "day" }]), Some("STOP")).to_string(),
    ]
}

fn said(texts: &[(&str, &str)]) -> Vec<(String, String)> {
    texts.iter().map(|(role, text)| ((*role).to_string(), (*text).to_string())).collect()
}

#[test]
fn a_conversation_goes_through_byte_for_byte_and_is_recorded() {
    let upstream = Upstream::start(|number, _| saying(["one", "two"][number % 2]));
    let server = Server::before("gemini", upstream.address, "");
    let first = asking(&[user("a")]);
    let second = asking(&[user("a"), model("one"), user("b")]);
    let answers: Vec<Answer> = [&first, &second].map(|body| server.post(WHOLE, body)).into();
    for (answer, text) in answers.iter().zip(["one", "two"]) {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["candidates"][0]["content"]["parts"][0]["text"], text);
        assert_eq!(answer.view().1, "passthrough");
        assert_eq!(answer.header("x-scrollback-model"), Some("gemini:gemini-2.5-pro"));
    }
    let received = upstream.received();
    assert_eq!(received[0].path, WHOLE);
    assert_eq!(received[0].body, first.as_bytes());
    assert_eq!(received[1].body, second.as_bytes());
    assert_eq!(answers[0].conversation(), answers[1].conversation());
    let expected =
        [("system", "Be brief."), ("user", "a"), ("assistant", "one"), ("user", "b"), ("assistant", "two")];
    assert_eq!(server.record(&answers[1].conversation()), said(&expected));
    server.verified();
    // The older version of the path is the same.
    let answer = server.post("/v1/models/gemini-2.5-pro:generateContent", &asking(&[user("c")]));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(upstream.received()[2].path, "/v1/models/gemini-2.5-pro:generateContent");
}

#[test]
fn both_kinds_of_streams_come_as_they_were_sent_and_are_recorded_whole() {
    let [one, other] = two();
    let events = format!("data: {one}\r\n\r\ndata: {other}\r\n\r\n").into_bytes();
    let list = format!("[{one}\r\n,\r\n{other}\r\n]\n").into_bytes();
    for (name, path, stream) in [("events", EVENTS, events), ("list", LIST, list)] {
        let sent = stream.clone();
        let is_list = path == LIST;
        let upstream = Upstream::start(move |number, _| {
            let (before, after) = sent.split_at(1 + number * 7 % (sent.len() - 1));
            let pieces = vec![before.to_vec(), after.to_vec()];
            if is_list { Says::Pieces(pieces, Then::End) } else { Says::Events(pieces, Then::End) }
        });
        let server = Server::before(&format!("gemini-{name}"), upstream.address, "");
        for number in 0..24 {
            let answer = server.post(path, &asking(&[user(&format!("Hi {number}"))]));
            assert_eq!((answer.status, answer.whole), (200, true), "{name} {number}");
            assert_eq!(answer.body, stream, "{name} {number}");
            let record = server.record(&answer.conversation());
            assert_eq!(record.last().unwrap().1, "Good day", "{name} {number}: {record:?}");
        }
        assert_eq!(upstream.received()[0].path, path);
        server.verified();
    }
}

#[test]
fn a_list_that_breaks_off_is_recorded_as_cut_with_what_came() {
    let [one, _] = two();
    let begun = format!("[{one}\r\n,\r\n{{\"candidates\":[").into_bytes();
    let sent = begun.clone();
    let upstream = Upstream::start(move |_, _| Says::Pieces(vec![sent.clone()], Then::Break));
    let server = Server::before("gemini-cut", upstream.address, "");
    let answer = server.post(LIST, &asking(&[user("a")]));
    assert_eq!((answer.body.as_slice(), answer.whole), (begun.as_slice(), false));
    let calls = server.call("GET", &format!("/api/conversations/{}/calls", answer.conversation()), &[], "");
    assert_eq!(calls.json()["calls"][0]["status"], "truncated_upstream", "{}", calls.text());
    assert_eq!(server.record(&answer.conversation()).last().unwrap().1, "Good ");
}

#[test]
fn calls_without_ids_stay_in_one_conversation_and_keep_their_results() {
    let call = |city: &str| json!({ "functionCall": { "name": "weather", "args": { "city": city } } });
    let result =
        |text: &str| json!({ "functionResponse": { "name": "weather", "response": { "output": text } } });
    let (first, second) = (json!([call("Oslo"), call("Rome")]), json!([call("Bonn")]));
    let replies = [
        candidate(&first, Some("STOP")),
        candidate(&second, Some("STOP")),
        candidate(&json!([{ "text": "mild" }]), Some("STOP")),
    ];
    let upstream = Upstream::start(move |number, _| Says::Json(200, replies[number % 3].to_string()));
    let server = Server::before("gemini-calls", upstream.address, "");
    let mut contents = vec![user("How is the weather?")];
    let mut conversations = Vec::new();
    for (asked, answers) in [
        (first.clone(), json!([result("snow"), result("sun")])),
        (second.clone(), json!([result("rain")])),
        (json!([{ "text": "mild" }]), json!([{ "text": "Thanks." }])),
    ] {
        let answer = server.post(WHOLE, &asking(&contents));
        assert_eq!((answer.status, answer.view().1.as_str()), (200, "passthrough"), "{}", answer.text());
        conversations.push(answer.conversation());
        contents.push(json!({ "role": "model", "parts": asked }));
        contents.push(json!({ "role": "user", "parts": answers }));
    }
    conversations.dedup();
    assert_eq!(conversations.len(), 1, "{conversations:?}");
    let received = upstream.received();
    assert_eq!(received[2].body, asking(&contents[..5]).into_bytes());
    // Only the newest turn is shown, whole: its call with its result.
    let headers = [("x-scrollback-managers", "sliding_window(3)")];
    let answer = server.call("POST", WHOLE, &headers, &asking(&contents));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let sent = upstream.received()[3].json();
    let (calls, results) = (
        sent.to_string().matches("functionCall").count(),
        sent.to_string().matches("functionResponse").count(),
    );
    assert_eq!(calls, results, "{sent}");
    assert_eq!(answer.view().1, "sliding_window");
    // The record has every call once, and says the same after a restart.
    let server = server.again();
    let record = server.record(&conversations[0]);
    assert_eq!(record.iter().filter(|(role, _)| role == "tool").count(), 3, "{record:?}");
    server.verified();
}

#[test]
fn views_are_cut_and_counted() {
    let upstream = Upstream::start(|_, received| {
        if received.path.contains(":countTokens") {
            Says::Json(200, "{\"totalTokens\":7}".into())
        } else {
            saying("ok")
        }
    });
    let server = Server::before("gemini-views", upstream.address, "");
    let contents = [user("first words"), model("x"), user("second"), model("y"), user("third")];
    let headers = [("x-scrollback-managers", "turn_window(1)")];
    let answer = server.call("POST", WHOLE, &headers, &asking(&contents));
    let (numbers, by) = answer.view();
    assert_eq!((&numbers[..2], by.as_str()), (&[2, 6][..], "turn_window"), "{answer:?}");
    let count = "/v1beta/models/gemini-2.5-pro:countTokens";
    assert_eq!(server.call("POST", count, &headers, &asking(&contents)).json()["totalTokens"], 7);
    let whole: Value = serde_json::from_str(&asking(&contents)).unwrap();
    let inside = json!({ "generateContentRequest": whole }).to_string();
    assert_eq!(server.call("POST", count, &headers, &inside).status, 200);
    assert_eq!(server.call("POST", count, &[], &inside).status, 200);
    let received = upstream.received();
    assert_eq!(received[0].json()["contents"], json!([user("third")]));
    assert_eq!(received[0].json()["generationConfig"]["maxOutputTokens"], 100);
    assert_eq!(received[1].json()["contents"], json!([user("third")]));
    assert_eq!(received[2].json()["generateContentRequest"]["contents"], json!([user("third")]));
    assert_eq!(received[3].body, inside.as_bytes(), "what needs no change is not changed");
    assert_eq!(
        server.command(&["list"])["conversations"].as_array().unwrap().len(),
        1,
        "counting records nothing"
    );
}

#[test]
fn keys_reach_their_own_provider_and_no_other() {
    let upstream = Upstream::start(|_, _| saying("ok"));
    let server = Server::before("gemini-keys", upstream.address, "");
    let body = asking(&[user("a")]);
    let (openai, anthropic, google) =
        ("sk-proj-0123456789abcdef", "sk-ant-0123456789abcdef", "AIza0123456789abcdef0123");
    let all = [
        ("authorization", format!("Bearer {openai}")),
        ("x-api-key", anthropic.to_string()),
        ("x-goog-api-key", google.to_string()),
    ];
    let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(server.call("POST", WHOLE, &all, &body).status, 200);
    let chat = json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": "hi" }] }).to_string();
    server.call("POST", &format!("/v1/chat/completions?key={google}"), &all, &chat);
    server.call(
        "POST",
        "/v1/messages",
        &all,
        r#"{"model":"claude-opus-4-8","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#,
    );
    assert_eq!(server.post(&format!("{WHOLE}?key={google}&x=1"), &body).status, 200);
    let received = upstream.received();
    let shown = |number: usize| format!("{} {:?}", received[number].path, received[number].headers);
    let has = |number: usize, key: &str| shown(number).contains(key);
    assert!(has(0, google) && !has(0, openai) && !has(0, anthropic), "{}", shown(0));
    assert!(has(1, openai) && !has(1, google), "{}", shown(1));
    assert!(has(2, anthropic) && !has(2, google), "{}", shown(2));
    assert_eq!(received[3].path, format!("{WHOLE}?x=1"));
    assert_eq!(received[3].header("x-goog-api-key"), Some(google), "a key in the URL goes on in its header");
    let log = std::fs::read_to_string(server.folder.join("log")).unwrap();
    assert!(![openai, anthropic, google].iter().any(|key| log.contains(key)), "{log}");
}

#[test]
fn a_configured_key_takes_the_place_of_the_clients() {
    let upstream = Upstream::start(|_, _| saying("ok"));
    let config = format!(
        "[providers.gemini]\nbase_url = \"http://{}/v1beta\"\nkey_env = \"MY_GEMINI\"\n",
        upstream.address
    );
    let variables = vec![("MY_GEMINI", "AIza-configured-0123456789".to_string())];
    let server = Server::with("gemini-ours", &Setup { config: &config, variables, store: None });
    let headers = [("x-goog-api-key", "AIza-theirs-0123456789abc")];
    assert_eq!(server.call("POST", WHOLE, &headers, &asking(&[user("a")])).status, 200);
    let received = &upstream.received()[0];
    assert_eq!(
        (received.path.as_str(), received.header("x-goog-api-key")),
        (WHOLE, Some("AIza-configured-0123456789"))
    );
}

#[test]
fn errors_have_googles_form_and_other_paths_are_passed_through() {
    let upstream = Upstream::start(|_, _| Says::Json(200, "{\"models\":[]}".into()));
    let server = Server::before("gemini-errors", upstream.address, "");
    let broken = server.post(WHOLE, "{\"contents\":7}");
    let error = &broken.json()["error"];
    assert_eq!(
        (&error["code"], &error["status"]),
        (&json!(400), &json!("INVALID_ARGUMENT")),
        "{}",
        broken.text()
    );
    assert_eq!(error["details"][0]["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
    assert!(error["message"].as_str().unwrap().contains("contents"), "{}", broken.text());
    assert_eq!(upstream.connections(), 0);
    assert_eq!(server.call("GET", "/v1beta/models?pageSize=5", &[], "").text(), "{\"models\":[]}");
    let embed = "/v1beta/models/text-embedding-004:embedContent";
    assert_eq!(send(server.address, &request("POST", embed, &[], b"{}")).status, 200);
    let received = upstream.received();
    assert_eq!((received[0].path.as_str(), received[1].path.as_str()), ("/v1beta/models?pageSize=5", embed));
    // Without a provider the words of the user come back, in each form.
    let server = Server::start("gemini-echo");
    let body = asking(&[user("Hello there, friend")]);
    assert_eq!(
        server.post(WHOLE, &body).json()["candidates"][0]["content"]["parts"][0]["text"],
        "Hello there, friend"
    );
    let list = server.post(LIST, &body).json();
    let texts = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["candidates"][0]["content"]["parts"][0]["text"].as_str().unwrap());
    assert_eq!(texts.collect::<String>(), "Hello there, friend");
    assert!(server.post(EVENTS, &body).text().starts_with("data: {"));
    assert!(
        server.post("/v1beta/models/gemini-2.5-pro:countTokens", &body).json()["totalTokens"]
            .as_u64()
            .unwrap()
            > 3
    );
    let models = server.call("GET", "/v1beta/models", &[], "").json();
    assert!(
        models["models"].as_array().unwrap().iter().any(|one| one["name"] == "models/gemini-2.5-pro"),
        "{models}"
    );
}
