//! The configuration grammar: every form, every error, with its path and what it suggests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use scrollback_core::manager::{self, ConfigError};
use serde_json::{Value, json};

fn config(text: &str) -> Value {
    manager::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).config()
}

fn error(text: &str) -> ConfigError {
    match manager::parse(text) {
        Ok(manager) => panic!("{text} was understood as {}", manager.config()),
        Err(error) => error,
    }
}

#[test]
fn every_form_means_the_same() {
    let wanted = json!({ "sliding_window": { "window_size": 20 } });
    for form in [
        "sliding_window(20)",
        "sliding_window(window_size=20)",
        " sliding_window ( window_size = 20 ) ",
        r#"{"sliding_window": 20}"#,
        r#"{"sliding_window": {"window_size": 20}}"#,
        r#"{"sliding_window": {"window_size": 2e1}}"#,
    ] {
        assert_eq!(config(form), wanted, "{form}");
    }
    assert_eq!(config("passthrough"), json!("passthrough"));
    assert_eq!(config("passthrough()"), json!("passthrough"));
    assert_eq!(config(r#"{"passthrough": null}"#), json!("passthrough"));
    let wanted = json!({ "compose": { "managers": [{ "turn_window": { "max_turns": 1 } }, "passthrough"] } });
    for form in [
        "compose(turn_window(1), passthrough)",
        "compose([turn_window(1), passthrough])",
        r#"["turn_window(1)", "passthrough"]"#,
        r#"{"compose": [{"turn_window": 1}, "passthrough"]}"#,
        r#"{"compose": {"managers": ["turn_window(1)", {"passthrough": null}]}}"#,
    ] {
        assert_eq!(config(form), wanted, "{form}");
    }
    let wanted =
        json!({ "sticky": { "inner": { "sliding_window": { "window_size": 20 } }, "high": 20, "low": 12 } });
    for form in [
        "sticky(sliding_window(20))",
        r#"{"sticky": {"sliding_window": 20}}"#,
        r#"{"sticky": "sliding_window(20)"}"#,
        r#"{"sticky": {"inner": {"sliding_window": 20}, "low": 12}}"#,
        "sticky(inner=sliding_window(20), high=20)",
    ] {
        assert_eq!(config(form), wanted, "{form}");
    }
    assert_eq!(manager::parse_value(&Value::Null).unwrap().name(), "passthrough");
    assert_eq!(config("[]"), json!({ "compose": { "managers": [] } }));
}

#[test]
fn values_of_every_kind() {
    assert_eq!(
        config("tool_result_truncator(5, suffix=\"é, (\", keep=both)"),
        json!({ "tool_result_truncator": { "max_length": 5, "suffix": "é, (", "keep": "both" } })
    );
    assert_eq!(
        config("clear_tool_results(exclude_tools=[a, \"b c\"], placeholder=gone)"),
        json!({ "clear_tool_results": { "keep_recent": 3, "exclude_tools": ["a", "b c"], "placeholder": "gone" } })
    );
    assert_eq!(
        config(r#"pin(where={"role": "user", "contains": "x"}, first=1)"#),
        json!({ "pin": { "first": 1, "last": 0, "where": { "role": "user", "contains": "x" } } })
    );
    assert_eq!(
        config("fit(openai:gpt-4o, reserve=100)"),
        json!({ "fit": { "model": "openai:gpt-4o", "reserve": 100 } })
    );
    assert_eq!(config("summarize(ratio=0.25)")["summarize"]["ratio"], json!(0.25));
    assert_eq!(config("active_tools(tools=null)"), json!({ "active_tools": {} }));
}

#[test]
fn the_first_and_last_steps_shrink_to_fit_unless_given() {
    let steps = |text: &str| {
        let config = config(text);
        (
            config["trajectory_window"]["preserve_first"].clone(),
            config["trajectory_window"]["preserve_last"].clone(),
        )
    };
    assert_eq!(steps("trajectory_window"), (json!(2), json!(20)));
    assert_eq!(steps("trajectory_window(10)"), (json!(2), json!(8)));
    assert_eq!(steps("trajectory_window(1)"), (json!(1), json!(0)));
    assert_eq!(steps("trajectory_window(10, preserve_last=9)"), (json!(1), json!(9)));
    assert_eq!(steps("trajectory_window(10, preserve_first=10)"), (json!(10), json!(0)));
}

#[test]
fn every_error_has_a_code_a_path_and_a_next_step() {
    let cases = [
        ("sliding_windows(3)", "unknown_manager", "", "did you mean `sliding_window`?"),
        ("foo", "unknown_manager", "", "known: passthrough, sliding_window"),
        ("sticky(foo(1))", "unknown_manager", "/sticky/inner", "known: "),
        ("[\"passthrough\", \"foo\"]", "unknown_manager", "/1", "unknown manager `foo`"),
        (
            "{\"sliding_window\": {\"size\": 3}}",
            "unknown_option",
            "/sliding_window/size",
            "known: window_size",
        ),
        (
            "sliding_window(windowsize=3)",
            "unknown_option",
            "/sliding_window/windowsize",
            "did you mean `window_size`?",
        ),
        ("passthrough(x=1)", "unknown_option", "/passthrough/x", "it takes none"),
        ("pin(where={\"rule\": \"user\"})", "unknown_option", "/pin/where/rule", "did you mean `role`?"),
        ("relevant(9, weights={\"matches\": 1})", "unknown_option", "/relevant/weights/matches", "match"),
        ("sliding_window", "missing_option", "/sliding_window/window_size", "needs `window_size`"),
        ("sticky", "missing_option", "/sticky/inner", "needs `inner`"),
        ("pin", "missing_option", "/pin", "first, last, where"),
        ("observed(prompt_name=x)", "missing_option", "/observed/inner", "needs `inner`"),
        ("sliding_window(many)", "bad_option", "/sliding_window/window_size", "whole number"),
        ("sliding_window(-1)", "bad_option", "/sliding_window/window_size", "at least 0"),
        ("sliding_window(2.5)", "bad_option", "/sliding_window/window_size", "whole number"),
        ("sliding_window(true)", "bad_option", "/sliding_window/window_size", "not true"),
        ("sliding_window(\"3\")", "bad_option", "/sliding_window/window_size", "the text \"3\""),
        ("sliding_window(1, 2)", "bad_option", "/sliding_window", "at most 1"),
        ("sliding_window(1, window_size=2)", "bad_option", "/sliding_window/window_size", "twice"),
        ("token_budget(0)", "bad_option", "/token_budget/max_tokens", "at least 1"),
        ("token_budget(10, reserve=10)", "bad_option", "/token_budget/reserve", "leaves nothing"),
        (
            "tool_result_truncator(keep=middle)",
            "bad_option",
            "/tool_result_truncator/keep",
            "head, tail, both",
        ),
        (
            "clear_tool_results(exclude_tools=a)",
            "bad_option",
            "/clear_tool_results/exclude_tools",
            "list of texts",
        ),
        ("pin(where={})", "bad_option", "/pin/where", "says nothing"),
        ("pin(where={\"role\": \"robot\"})", "bad_option", "/pin/where/role", "one of system, user"),
        (
            "trajectory_window(10, 5, 6)",
            "bad_option",
            "/trajectory_window/preserve_last",
            "more than max_steps",
        ),
        ("summarize(keep_recent=1, ratio=0.5)", "bad_option", "/summarize/ratio", "exclude each other"),
        ("summarize(ratio=1)", "bad_option", "/summarize/ratio", "between 0 and 1"),
        ("summarize(place=end)", "bad_option", "/summarize/place", "system, assistant"),
        ("summarize(summarizer=gpt)", "bad_option", "/summarize/summarizer", "offline"),
        ("sticky(passthrough)", "bad_option", "/sticky/inner", "wraps one of sliding_window"),
        ("sticky([sliding_window(1)])", "bad_option", "/sticky/inner", "not a list"),
        (
            "sticky(sliding_window(5), high=6)",
            "bad_option",
            "/sticky/high",
            "above the inner manager's bound of 5",
        ),
        ("sticky(sliding_window(5), low=6)", "bad_option", "/sticky/low", "above `high`"),
        ("sticky(sliding_window(0))", "bad_option", "/sticky/inner", "at least 1"),
        ("fit(opnai:gpt-4o)", "bad_option", "/fit/model", "openai"),
        ("fit(window=10, reserve=10)", "bad_option", "/fit/reserve", "leaves nothing"),
        ("relevant(9, weights={\"match\": -1})", "bad_option", "/relevant/weights/match", "negative"),
        ("sticky(3)", "bad_option", "/sticky/inner", "must be a manager, not 3"),
        ("observed(true)", "bad_option", "/observed/inner", "must be a manager"),
        (
            r#"{"sliding_window": {"window_size": 1, "window_size": 2}}"#,
            "bad_option",
            "/sliding_window/window_size",
            "twice",
        ),
        ("sliding_window 3", "bad_syntax", "", "options stand in parentheses"),
        ("sliding_window(window_size: 3)", "bad_syntax", "", "name=value"),
        ("tool_result_truncator(suffix='x')", "bad_syntax", "", "double quotes"),
        ("[sliding_window(3)]", "bad_syntax", "", "texts or objects"),
        ("compose(passthrough, bogus=3)", "unknown_option", "/compose/bogus", "known: managers"),
        ("pin(where={\"role\": null})", "bad_option", "/pin/where", "says nothing"),
        ("{\"pin\": {\"first\": null}}", "missing_option", "/pin", "first, last, where"),
        (
            "trajectory_window(5, 18446744073709551615, 1)",
            "bad_option",
            "/trajectory_window/preserve_last",
            "more than max_steps",
        ),
        ("sliding_window(3", "bad_syntax", "", "column 17"),
        ("sliding_window(3))", "bad_syntax", "", "nothing was expected"),
        ("sliding_window(3,,)", "bad_syntax", "", "column 18"),
        ("sliding_window(window_size=3, 4)", "bad_syntax", "", "come before"),
        ("sliding_window(3x)", "bad_syntax", "", "not a number"),
        ("", "bad_syntax", "", "the end"),
        ("{\"a\": 1, \"b\": 2}", "bad_syntax", "", "one key"),
        ("{}", "bad_syntax", "", "one key"),
        ("{\"a\": ", "bad_syntax", "", "JSON"),
        ("3", "bad_syntax", "", "a manager was expected"),
        ("[3]", "bad_syntax", "/0", "a manager was expected"),
    ];
    for (text, code, path, part) in cases {
        let error = error(text);
        assert_eq!((error.code(), error.path()), (code, path), "{text}: {error}");
        assert!(error.to_string().contains(part), "{text}: {error:?} does not say {part:?}");
        assert_eq!(error.to_string().lines().count(), 1);
        if code.starts_with("unknown") {
            assert!(text.starts_with("passthrough(") || !error.known().is_empty(), "{text}");
        }
    }
}
