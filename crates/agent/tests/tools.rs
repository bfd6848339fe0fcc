//! Tools of every kind, and everything that can go wrong with them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Reply, Server};
use scrollback_agent::tool::{
    Call, Command, Effects, HttpCall, HttpTool, Human, Spec, Tool, ToolOutcome, ToolOutput, Toolbox, tool,
};
use serde_json::{Map, Value, json};

fn arguments(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn call(value: &Value) -> Call {
    Call { id: "call_7".into(), arguments: arguments(value) }
}

fn command(argv: &[&str]) -> Command {
    let argv = argv.iter().map(|part| (*part).to_string()).collect();
    Command::new(Spec::new("t", "a tool"), argv, ".", Vec::new())
}

fn text(outcome: ToolOutcome) -> String {
    match outcome {
        ToolOutcome::Done(output) => output.into_text(),
        other => panic!("{other:?}"),
    }
}

fn failure(outcome: ToolOutcome) -> String {
    match outcome {
        ToolOutcome::Failed(problem) => problem,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_function_gets_typed_arguments() {
    #[derive(serde::Deserialize)]
    struct Sum {
        a: i64,
        b: i64,
    }
    let sum = tool("sum", "adds", json!({ "type": "object" }), |sum: Sum| async move {
        if sum.a == 0 { Err("nothing to add".to_string()) } else { Ok(json!(sum.a + sum.b)) }
    })
    .with(|spec| spec.effects = Effects::Read);
    assert_eq!(text(sum.call(call(&json!({ "a": 2, "b": 3 }))).await), "5");
    assert_eq!(failure(sum.call(call(&json!({ "a": 0, "b": 3 }))).await), "nothing to add");
    assert!(
        failure(sum.call(call(&json!({ "a": "x" }))).await)
            .starts_with("the arguments do not fit the tool: ")
    );
    assert_eq!(sum.spec().effects, Effects::Read);
}

#[tokio::test]
async fn a_command_reads_json_and_each_part_stays_one_argument() {
    let echo = command(&[
        "sh",
        "-c",
        "cat; printf ' [%s] [%s] %s' \"$1\" \"$2\" \"$SCROLLBACK_CALL_ID\"",
        "x",
        "{city}",
        "a {n} b",
    ]);
    let hostile = "Paris; echo pwned $(id)";
    let said = text(echo.call(call(&json!({ "city": hostile, "n": 3 }))).await);
    assert_eq!(said, format!("{{\"city\":{},\"n\":3}} [{hostile}] [a 3 b] call_7", json!(hostile)));
}

#[tokio::test]
async fn a_command_inherits_nothing_but_what_it_lists() {
    // Cargo sets both of these for its tests.
    let names = ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME"];
    let script = format!("echo \"${{{}-none}} ${{{}-none}} ${{PATH:+path}}\"", names[0], names[1]);
    let argv = vec!["sh".into(), "-c".into(), script];
    let listed = Command::new(Spec::new("t", ""), argv, ".", vec![names[1].into()]);
    assert_eq!(text(listed.call(call(&json!({}))).await), "none scrollback-agent path\n");
}

#[tokio::test]
async fn a_command_that_fails_says_how() {
    let fails = command(&["sh", "-c", "echo 'out'; echo 'it broke' >&2; exit 3"]);
    assert_eq!(failure(fails.call(call(&json!({}))).await), "exit code 3: it broke\n");
    let missing = command(&["no-such-program-here"]);
    assert!(failure(missing.call(call(&json!({}))).await).contains("cannot be started"));
    let silent = command(&["true"]);
    assert_eq!(text(silent.call(call(&json!({}))).await), "");
}

#[tokio::test]
async fn output_that_is_too_long_or_no_text_is_cut_and_replaced() {
    let argv = ["sh", "-c", "yes 0123456789 | head -c 100000000; printf 'the end'"];
    let mut spec = Spec::new("t", "");
    spec.max_output = 1_000;
    let much = Command::new(spec, argv.iter().map(|part| (*part).to_string()).collect(), ".", Vec::new());
    let said = text(much.call(call(&json!({}))).await);
    assert!(said.starts_with("0123456789\n") && said.ends_with("the end"), "{said}");
    assert!(said.contains("[... 99999007 bytes left out ...]") && said.len() < 1_100, "{said}");
    let garbage = command(&["printf", "a\\377b"]);
    assert_eq!(text(garbage.call(call(&json!({}))).await), "a\u{fffd}b");
}

#[tokio::test]
async fn a_command_that_is_given_up_ends_with_its_children() {
    let folder = std::env::temp_dir().join(format!("scrollback-tools-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mark = folder.join("alive");
    // The grandchild would write the mark a second later.
    let script = format!("(sleep 1; touch {}) & wait", mark.display());
    let hangs = command(&["sh", "-c", &script]);
    let late = tokio::time::timeout(Duration::from_millis(200), hangs.call(call(&json!({})))).await;
    assert!(late.is_err());
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(!mark.exists(), "a child went on after its tool was given up");
    std::fs::remove_dir_all(&folder).unwrap();
}

fn get(server: &Server, path: &str) -> HttpTool {
    let url = format!("{}{path}", server.url);
    let headers = vec![("Authorization".into(), "Bearer t".into())];
    HttpTool::new(Spec::new("t", ""), &HttpCall { method: "GET".into(), url, headers }).unwrap()
}

#[tokio::test]
async fn a_request_has_its_arguments_encoded() {
    let server = Server::start(vec![Reply::of(200, "1.25")]).await;
    let rates = get(&server, "/r/{code}?x={n}");
    assert_eq!(text(rates.call(call(&json!({ "code": "a/b?c", "n": "ä" }))).await), "1.25");
    let head = &server.seen()[0].head;
    assert!(head.starts_with("GET /v1/r/a%2Fb%3Fc?x=%C3%A4 "), "{head}");
    assert!(head.contains("authorization: Bearer t"));
}

#[tokio::test]
async fn what_the_url_does_not_name_is_the_body() {
    let server = Server::start(vec![Reply::of(200, "ok"), Reply::of(422, "no such thing")]).await;
    let url = format!("{}/items/{{id}}", server.url);
    let post =
        HttpTool::new(Spec::new("t", ""), &HttpCall { method: "POST".into(), url, headers: Vec::new() })
            .unwrap();
    let given = json!({ "id": 4, "name": "x" });
    assert_eq!(text(post.call(call(&given)).await), "ok");
    assert_eq!(server.seen()[0].body, r#"{"name":"x"}"#);
    assert_eq!(failure(post.call(call(&given)).await), "status 422: no such thing");
}

#[tokio::test]
async fn redirects_to_other_hosts_are_refused() {
    let elsewhere = Reply::of(302, "").header("location", "http://localhost:9/stolen");
    let here = Reply::of(302, "").header("location", "/v1/other");
    let server = Server::start(vec![elsewhere, here, Reply::of(200, "found")]).await;
    let tool = get(&server, "/start");
    assert!(failure(tool.call(call(&json!({}))).await).contains("redirect to another host"));
    assert_eq!(text(tool.call(call(&json!({}))).await), "found");
}

#[test]
fn requests_go_over_https_to_a_host_that_arguments_do_not_choose() {
    let refused = |url: &str| {
        let call = HttpCall { method: "GET".into(), url: url.into(), headers: Vec::new() };
        HttpTool::new(Spec::new("t", ""), &call).err().unwrap_or_default()
    };
    assert!(refused("http://example.org/x").contains("must be https"));
    assert!(refused("https://{host}/x").contains("must not decide the host"));
    assert_eq!(refused("https://example.org/{x}"), "");
}

#[tokio::test]
async fn a_person_is_asked_in_the_models_words() {
    let ask = Human::new(Spec::new("ask", ""), "{text} (a or b)");
    let outcome = ask.call(call(&json!({ "text": "Which?" }))).await;
    assert_eq!(outcome, ToolOutcome::Ask("Which? (a or b)".into()));
}

#[test]
fn a_toolbox_tells_the_model_what_was_wrong() {
    let schema =
        json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let mut tools = Toolbox::default();
    for name in ["weather", "clock"] {
        let any = tool(name, "", schema.clone(), |_: Value| async move { Ok(Value::Null) });
        tools.add(Arc::new(any)).unwrap();
    }
    let problem = |name: &str, arguments: &str| tools.resolve(name, arguments).err().unwrap_or_default();
    assert_eq!(problem("weather", r#"{"city":"Oslo"}"#), "");
    assert_eq!(problem("wether", "{}"), "unknown tool \"wether\"; known: weather, clock");
    assert!(problem("weather", "{city").starts_with("the arguments are not JSON: "));
    assert_eq!(problem("weather", "[1]"), "the arguments must be a JSON object, not a list");
    assert!(problem("weather", "").contains("\"city\" is a required property"));
    assert!(
        problem("weather", r#"{"city":3}"#).starts_with("the arguments do not fit the tool: /city: 3 is not")
    );
    let names: Vec<&str> = tools.specs().iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["weather", "clock"]);

    let refused = |name: &str, schema: Value, tools: &mut Toolbox| {
        let any = tool(name, "", schema, |_: Value| async move { Ok(Value::Null) });
        tools.add(Arc::new(any)).unwrap_err().to_string()
    };
    assert!(refused("clock", json!({}), &mut tools.clone()).contains("two tools have this name"));
    assert!(refused("a b", json!({}), &mut tools.clone()).contains("letters, digits"));
    assert!(refused("x", json!({ "type": 3 }), &mut tools.clone()).contains("not a JSON Schema"));
    assert_eq!(ToolOutput::Json(json!({ "a": 1 })).into_text(), r#"{"a":1}"#);
}
