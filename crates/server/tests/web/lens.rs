//! The pages as programs see them: what they hold, how they are sent, who is let in. How they look is the browser's matter.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use scrollback_server::KeyScope;
use scrollback_store::Tenant;
use serde_json::json;

use crate::api::filled;
use crate::support::{ADDRESS, Answer, Server, coded, exchange};

/// A page that must be well: its headers say that nothing else may be loaded, and nothing in it is inline.
async fn page(server: &Server, path: &str) -> String {
    let answer = server.get(path).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
    strict(path, &answer);
    answer.text
}

fn strict(path: &str, answer: &Answer) {
    let header =
        |name: &str| answer.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_string();
    assert_eq!(header("content-type"), "text/html; charset=utf-8", "{path}");
    let policy = header("content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    ] {
        assert!(policy.contains(part), "{path}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{path}");
    assert_eq!(
        (header("x-content-type-options"), header("referrer-policy")),
        ("nosniff".into(), "no-referrer".into()),
        "{path}"
    );
    let text = &answer.text;
    for inline in [" style=", " onclick=", " onload=", "<style", "javascript:", "http://www.", "https://"] {
        assert!(!text.contains(inline), "{path} has {inline}");
    }
    assert_eq!(text.matches("<script").count(), 1, "{path}: only our own script, from a file");
}

/// The sample, loaded as the button does; the path of its page.
async fn sample(server: &Server) -> String {
    let loaded = server.form("/lens/sample", &[]).await;
    assert_eq!(loaded.status, StatusCode::SEE_OTHER, "{}", loaded.text);
    loaded.location().to_string()
}

#[tokio::test]
async fn an_empty_store_says_what_to_paste_and_offers_a_sample() {
    let server = Server::new();
    assert_eq!(server.get("/").await.location(), "/lens");
    let first = page(&server, "/lens").await;
    for line in [
        "OPENAI_BASE_URL=http://127.0.0.1:7275/v1",
        "ANTHROPIC_BASE_URL=http://127.0.0.1:7275",
        "wire_api = &quot;responses&quot;",
        "action=\"/lens/sample\"",
    ] {
        assert!(first.contains(line), "{line}");
    }
    assert_eq!(
        server.get("/lens/sample").await.status,
        StatusCode::METHOD_NOT_ALLOWED,
        "looking changes nothing"
    );
    let path = sample(&server).await;
    let list = page(&server, "/lens").await;
    assert!(list.contains("bicycle workshop") && list.contains(&path));
    let conversation = page(&server, &path).await;
    for part in [
        "Call 21 of 21",
        "left out · sticky · before_cut",
        "class=\"cut\"",
        "The record",
        "fate-dropped",
        "get_order",
    ] {
        assert!(conversation.contains(part), "{part}");
    }
}

#[tokio::test]
async fn every_call_of_the_sample_is_repeated_as_it_was_sent() {
    let server = Server::new();
    let path = sample(&server).await;
    let id = path.rsplit('/').next().unwrap();
    let calls = server.get(&format!("/api/conversations/{id}/calls?limit=500")).await.json();
    let calls = calls["calls"].as_array().unwrap();
    assert!(calls.len() > 10);
    let mut cuts = 0;
    for call in calls {
        let call = server.get(&format!("/api/calls/{}", call["id"].as_str().unwrap())).await.json();
        let wish = json!({ "managers": call["managers"], "model": call["model"], "upto": call["upto"], "wire": call["wire"] });
        let view = server.post(&format!("/api/conversations/{id}/views"), wish).await.json();
        let sent: serde_json::Value = serde_json::from_str(call["request"].as_str().unwrap()).unwrap();
        assert_eq!(
            view["body"]["messages"], sent["messages"],
            "the record and the managers give what was sent"
        );
        cuts = cuts.max(view["epoch"]["id"].as_u64().unwrap());
        let shown = page(&server, &format!("/lens/calls/{}", call["id"].as_str().unwrap())).await;
        assert!(shown.contains("No rule is broken"), "what was sent is valid");
    }
    assert!(cuts >= 2);
}

#[tokio::test]
async fn a_call_shows_its_difference_to_the_one_before() {
    let server = Server::new();
    let path = sample(&server).await;
    let id = path.rsplit('/').next().unwrap();
    let calls = server.get(&format!("/api/conversations/{id}/calls?limit=500")).await.json();
    let mut pages = Vec::new();
    for call in calls["calls"].as_array().unwrap() {
        pages.push(page(&server, &format!("/lens/calls/{}", call["id"].as_str().unwrap())).await);
    }
    assert!(pages.last().unwrap().contains("This is the first call"));
    let cut = pages.iter().filter(|page| page.contains("prefix cut after")).count();
    let kept = pages.iter().filter(|page| page.contains("prefix kept")).count();
    assert!(cut >= 2 && kept > cut, "{cut} cuts, {kept} kept");
}

#[tokio::test]
async fn secrets_are_hidden_unless_somebody_asks_who_may() {
    let secret = format!("sk-ant-api03-{}", "aB3dE5fG7h".repeat(9));
    let admin = Server::new().with_key("default", KeyScope::Admin).await;
    let talk = json!([{ "role": "user", "content": format!("my key is {secret}, what now?") }]);
    let id = admin.talk(talk).await;
    let reader = admin.with_key("default", KeyScope::Read).await;
    let path = format!("/lens/conversations/{id}");
    for at in [&path, "/lens", "/lens/search?q=key", &format!("{path}/entries/0")] {
        let shown = page(&reader, at).await;
        assert!(!shown.contains("aB3dE5"), "{at}");
    }
    assert!(page(&reader, &path).await.contains("[redacted:anthropic]"));
    assert!(!page(&reader, &format!("{path}?reveal=1")).await.contains("aB3dE5"), "a reader may not");
    assert!(page(&admin, &format!("{path}?reveal=1")).await.contains(&secret));
    assert!(!page(&admin, &path).await.contains("aB3dE5"));
}

#[tokio::test]
async fn with_keys_the_lens_wants_a_login_and_gives_a_cookie() {
    let keyed = Server::new().with_key("default", KeyScope::Read).await;
    let stranger = keyed.without_key();
    for path in ["/lens", "/lens/runs", "/lens/search?q=x", "/lens/import", "/lens/simulate"] {
        let answer = stranger.get(path).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{path}");
        assert_eq!(answer.location(), format!("/lens/login?to={}", coded(path)), "{path}");
    }
    let login = stranger.get("/lens/login?to=%2Flens%2Fruns").await;
    strict("/lens/login", &login);
    let wrong = stranger.form("/lens/login", &[("key", "sb_nonsense"), ("to", "/lens/runs")]).await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert!(wrong.headers.get(header::SET_COOKIE).is_none());
    let right = stranger.form("/lens/login", &[("key", keyed.key()), ("to", "/lens/runs")]).await;
    assert_eq!((right.status, right.location()), (StatusCode::SEE_OTHER, "/lens/runs"));
    let cookie = right.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let held = cookie.split(';').next().unwrap();
    let request = |method: Method, path: &str| {
        Request::builder().method(method).uri(path).header(header::HOST, ADDRESS).header(header::COOKIE, held)
    };
    let runs = stranger.send(request(Method::GET, "/lens/runs").body(Body::empty()).unwrap()).await;
    assert_eq!(runs.status, StatusCode::OK);
    // A reader may look, and not change; and no other site may do it for them.
    let write = stranger.send(request(Method::POST, "/lens/sample").body(Body::empty()).unwrap()).await;
    assert_eq!(write.status, StatusCode::FORBIDDEN);
    let foreign = request(Method::POST, "/lens/sample").header(header::ORIGIN, "https://evil.example");
    assert_eq!(stranger.send(foreign.body(Body::empty()).unwrap()).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_paused_run_shows_its_question_and_takes_the_answer() {
    use scrollback_server::runs::{AnswerRefused, PersonAnswer as Given, Runs};
    use std::sync::{Arc, Mutex};
    struct Heard(Arc<Mutex<Vec<Given>>>);
    impl Runs for Heard {
        fn answer(
            &self,
            answer: Given,
            _: scrollback_flow::driver::StatusWatcher,
        ) -> scrollback_store::BoxFuture<'_, Result<scrollback_store::RunStatus, AnswerRefused>> {
            self.0.lock().unwrap().push(answer);
            Box::pin(async { Ok(scrollback_store::RunStatus::Running) })
        }
    }
    let server = Server::new();
    let heard = Arc::new(Mutex::new(Vec::new()));
    filled(&server, &Tenant::default()).await;
    let path = "/lens/runs/run00000000000001";
    let shown = page(&server, path).await;
    for part in ["Which date?", "This run waits for an answer", "name=\"text\"", "chat[1]/ask"] {
        assert!(shown.contains(part), "{part}");
    }
    let without =
        server.form(&format!("{path}/answer"), &[("text", "tomorrow"), ("step", "chat[1]/ask")]).await;
    assert!(without.text.contains("scrollback resume"), "a server that runs no flows says who does");
    server.app.continue_runs_with(Arc::new(Heard(Arc::clone(&heard))));
    let taken =
        server.form(&format!("{path}/answer"), &[("text", "tomorrow"), ("step", "chat[1]/ask")]).await;
    assert_eq!((taken.status, taken.location()), (StatusCode::SEE_OTHER, path));
    let heard = heard.lock().unwrap().clone();
    assert_eq!((heard[0].text.as_str(), heard[0].step.as_deref()), ("tomorrow", Some("chat[1]/ask")));
    assert!(page(&server, "/lens/runs?status=paused").await.contains("trip"));
    assert!(!page(&server, "/lens/runs?status=done").await.contains("trip"));
}

#[tokio::test]
async fn a_long_record_is_shown_page_by_page() {
    let server = Server::new();
    let messages: Vec<_> = (0..5_000)
        .flat_map(|turn| {
            [
                json!({ "role": "user", "content": format!("question number {turn}") }),
                json!({ "role": "assistant", "content": "yes" }),
            ]
        })
        .collect();
    let id = server.talk(json!(messages)).await;
    let first = page(&server, &format!("/lens/conversations/{id}")).await;
    assert_eq!(first.matches("class=\"entry").count(), 200, "never everything");
    assert!(first.contains("question number 4999") && !first.contains("question number 4899<"));
    assert!(
        first.contains("data-part=") && first.len() < 300_000,
        "what costs more comes after the first paint"
    );
    let middle = page(&server, &format!("/lens/conversations/{id}?at=5000")).await;
    assert!(middle.contains("id=\"e5000\"") && !middle.contains("id=\"e5200\""));
    let part = server.get(&format!("/lens/conversations/{id}/sight?m=sliding_window(20)")).await;
    assert!(part.text.contains("#9980–9999") && part.text.contains("outside_window"), "{}", part.text);
}

#[tokio::test]
async fn files_are_imported_by_the_form() {
    let server = Server::new();
    let boundary = "----x";
    let file = exchange().to_string();
    let body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"<b>.json\"\r\nContent-Type: application/json\r\n\r\n{file}\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"format\"\r\n\r\n\r\n--{boundary}--\r\n"
    );
    let kind = format!("multipart/form-data; boundary={boundary}");
    let taken = server.ask(Method::POST, "/lens/import", Some(&kind), body).await;
    assert!(taken.text.contains("1 conversation found, 7 entries added"), "{}", taken.text);
    assert!(page(&server, "/lens").await.contains("What is the weather in Paris?"));
    let nothing = server.form("/lens/import", &[("text", " ")]).await;
    assert_eq!(nothing.status, StatusCode::BAD_REQUEST);
    let broken = server.form("/lens/import", &[("text", "{\"no\": \"<script>\"}")]).await;
    assert!(broken.text.contains("Not read") && !broken.text.contains("<script>\"}"));
}

#[tokio::test]
async fn managers_are_compared_side_by_side() {
    let server = Server::new();
    let path = sample(&server).await;
    let id = path.rsplit('/').next().unwrap();
    let shown = page(
        &server,
        &format!("/lens/simulate?conversation={id}&m=passthrough&m=sliding_window(6)&model=openai:gpt-4o"),
    )
    .await;
    assert!(shown.contains("Side by side") && shown.contains("1.00×") && shown.contains("sliding_window(6)"));
    let wrong = page(&server, &format!("/lens/simulate?conversation={id}&m=slidin_window(6)")).await;
    assert!(
        wrong.contains("role=\"alert\"") && wrong.contains("sliding_window"),
        "a wrong name says the right one"
    );
    let tried = page(&server, &format!("{path}?m=turn_window(1)")).await;
    assert!(tried.contains("What a call would see now") && tried.contains("older_turn"));
}

#[tokio::test]
async fn erased_entries_and_decisions_have_their_place_on_the_timeline() {
    let server = Server::new();
    let id = server.talk(exchange()).await;
    server
        .post(&format!("/api/conversations/{id}/decisions"), json!({ "decision": "pin", "positions": [1] }))
        .await;
    server.post(&format!("/api/conversations/{id}/erase"), json!({ "positions": [5, 5] })).await;
    let shown = page(&server, &format!("/lens/conversations/{id}")).await;
    assert!(shown.contains("Erased. Its place and its hash stay.") && !shown.contains("And tomorrow?"));
    assert!(shown.contains("pinned") && shown.contains("#1"));
    assert_eq!(server.get("/lens/conversations/nonsense").await.status, StatusCode::NOT_FOUND);
    assert_eq!(server.get(&format!("/lens/conversations/{id}?call=9")).await.status, StatusCode::NOT_FOUND);
    assert_eq!(server.get("/lens/assets/nonsense").await.status, StatusCode::NOT_FOUND);
}

/// Everything that can be read of a store, as one text.
async fn everything(server: &Server) -> String {
    let mut all = String::new();
    for path in ["/api/export?all=true", "/api/conversations?limit=100", "/api/runs", "/api/calls?limit=100"]
    {
        let answer = server.get(path).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.text);
        all.push_str(&answer.text);
    }
    all
}

#[tokio::test]
async fn looking_changes_nothing_and_neither_does_somebody_elses_page() {
    let server = Server::new();
    let (id, call) = filled(&server, &Tenant::default()).await;
    let before = everything(&server).await;
    let run = "run00000000000001";
    for path in [
        "/lens".to_string(),
        "/lens/sample".into(),
        "/lens/import".into(),
        "/lens/login".into(),
        "/lens/search?q=weather".into(),
        format!("/lens/conversations/{id}"),
        format!("/lens/conversations/{id}?m=turn_window(1)"),
        format!("/lens/conversations/{id}/entries/0"),
        format!("/lens/calls/{call}"),
        "/lens/runs".into(),
        format!("/lens/runs/{run}"),
        format!("/lens/runs/{run}/answer"),
        format!("/lens/simulate?conversation={id}&m=sliding_window(2)&m=summarize(keep_recent=1)"),
    ] {
        let answer = server.get(&path).await;
        assert!(!answer.status.is_server_error(), "{path}: {}", answer.text);
    }
    for path in [
        "/lens/sample".to_string(),
        "/lens/import".into(),
        "/lens/login".into(),
        format!("/lens/runs/{run}/answer"),
    ] {
        let request = Request::post(&path)
            .header("host", ADDRESS)
            .header("origin", "https://evil.example")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from("text=yes"));
        let answer = server.send(request.unwrap()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}: {}", answer.text);
    }
    assert_eq!(everything(&server).await, before);
}

/// A request of a client with a tool and cache marks, sent on through the proxy; what the API says about its call, and its page.
async fn proxied(
    server: &Server,
    managers: &str,
    messages: &serde_json::Value,
) -> (serde_json::Value, String) {
    let body = json!({ "model": "claude-sonnet-4-5", "max_tokens": 50,
        "system": [{ "type": "text", "text": "Be brief.", "cache_control": { "type": "ephemeral" } }],
        "tools": [{ "name": "weather", "description": "Looks up the weather.", "input_schema": { "type": "object" } }],
        "messages": messages });
    let request = Request::builder()
        .method(Method::POST)
        .uri("/v1/messages")
        .header(header::HOST, ADDRESS)
        .header(header::CONTENT_TYPE, "application/json")
        .header("x-scrollback-managers", managers);
    let answer = server.send(request.body(Body::from(body.to_string())).unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let told = answer.headers["x-scrollback-view"].to_str().unwrap();
    assert!(told.contains(" (tools "), "{told}");
    let id = answer.headers["x-scrollback-call"].to_str().unwrap();
    let call = server.get(&format!("/api/calls/{id}")).await.json();
    (call, page(server, &format!("/lens/calls/{id}")).await)
}

/// A tool exchange on the wire of Anthropic; the last message has a cache mark.
fn marked(turns: usize) -> serde_json::Value {
    let mut messages = Vec::new();
    for turn in 0..turns {
        let id = format!("toolu_{turn}");
        messages.extend([
            json!({ "role": "user", "content": format!("What is the weather in city {turn}?") }),
            json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": id, "name": "weather", "input": { "city": turn } }] }),
            json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": id, "content": format!("{turn} degrees, and a long story about the clouds") }] }),
            json!({ "role": "assistant", "content": [{ "type": "text", "text": format!("{turn} degrees.") }] }),
        ]);
    }
    let text = json!({ "type": "text", "text": "And now?", "cache_control": { "type": "ephemeral" } });
    messages.push(json!({ "role": "user", "content": [text] }));
    messages.into()
}

#[tokio::test]
async fn an_untouched_request_shows_nothing_as_rewritten() {
    let server = Server::new();
    let (call, shown) = proxied(&server, "passthrough", &marked(2)).await;
    let entries = &call["entries"];
    assert_eq!(
        (&entries["basis"], &entries["sent"], &entries["of"]),
        (&json!("bytes"), &json!(10), &json!(10))
    );
    assert_eq!((&entries["rewritten"], &entries["dropped"]), (&json!([]), &json!([])));
    assert_eq!(entries["marks_moved"], json!([]), "the client's own marks stand where it put them");
    assert!(!shown.contains("fate changed") && !shown.contains("fate dropped"));
    assert!(!shown.contains("cache mark moved"));
    // Each number says which part it covers, and that it is an estimate.
    let tokens = &call["request_tokens"];
    let part = |name: &str| tokens[name].as_u64().unwrap();
    assert_eq!(tokens["method"], "estimate");
    assert!(part("instructions") > 0 && part("tools") > 0 && part("messages") > part("instructions"));
    assert!(part("total") >= part("instructions") + part("tools") + part("messages"));
    for word in ["Request tokens", "Instructions", "Tools", "Messages", "estimate"] {
        assert!(shown.contains(word), "{word}");
    }
    assert_eq!(shown.contains("Reported input"), !call["reported_input"].is_null());
}

#[tokio::test]
async fn what_was_left_out_or_rewritten_is_read_from_the_bytes_and_explained_by_the_managers() {
    let server = Server::new();
    let (call, shown) = proxied(&server, "turn_window(1)", &marked(2)).await;
    let dropped = call["entries"]["dropped"].as_array().unwrap();
    assert_eq!(dropped.len(), 8, "{}", call["entries"]);
    assert_eq!(
        (&dropped[0]["manager"], &dropped[0]["reason"]),
        (&json!("turn_window"), &json!("older_turn"))
    );
    assert_eq!(call["entries"]["rewritten"], json!([]));
    assert!(shown.contains("left out · turn_window · older_turn") && !shown.contains("fate changed"));

    let server = Server::new();
    let (call, shown) = proxied(&server, "clear_tool_results(1)", &marked(3)).await;
    let rewritten = call["entries"]["rewritten"].as_array().unwrap();
    assert!(!rewritten.is_empty(), "{}", call["entries"]);
    assert_eq!((&rewritten[0]["index"], &rewritten[0]["manager"]), (&json!(3), &json!("clear_tool_results")));
    assert_eq!(call["entries"]["dropped"], json!([]));
    assert!(shown.contains("rewritten · clear_tool_results"));
}
