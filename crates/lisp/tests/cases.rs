//! Every case of the corpus, byte for byte.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support::{cases, env_of, run_in};

/// What differs from what a case says; nothing if it is right.
fn wrong(case: &serde_json::Value) -> Option<String> {
    let program = case["program"].as_str().unwrap();
    let (value, reason, prints, calls) = match run_in(program, &mut env_of(case)) {
        Err(error) => (None, Some(error.clone()), Vec::new(), Vec::new()),
        Ok(outcome) => {
            let value = outcome.value().map(ToString::to_string);
            (value, outcome.result.err(), outcome.prints, outcome.tool_calls)
        }
    };
    let told = || format!("{value:?}, {:?}", reason.as_ref().map(ToString::to_string));
    match case["value"].as_str() {
        Some(wanted) if value.as_deref() != Some(wanted) => return Some(format!("{wanted}, not {}", told())),
        _ => {}
    }
    match case["error"].as_str() {
        Some(wanted) if reason.as_ref().map(|error| error.reason.as_str()) != Some(wanted) => {
            return Some(format!("{wanted}, not {}", told()));
        }
        _ => {}
    }
    if let Some(wanted) = case["prints"].as_array()
        && *wanted != prints
    {
        return Some(format!("prints {wanted:?}, not {prints:?}"));
    }
    if let Some(wanted) = case["tool_calls"].as_array() {
        let made: Vec<serde_json::Value> = calls
            .iter()
            .map(|call| {
                let args = scrollback_lisp::Value::Map(call.args.clone()).to_json();
                let args: serde_json::Value = serde_json::from_str(&args).unwrap();
                serde_json::json!({ "name": call.name, "args": args })
            })
            .collect();
        if *wanted != made {
            return Some(format!("calls {wanted:?}, not {made:?}"));
        }
    }
    None
}

#[test]
fn every_case_of_the_corpus_gives_its_value_or_its_reason() {
    let cases = cases("corpus/lisp/cases.jsonl");
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            wrong(case).map(|wrong| format!("{}: {}\n    {wrong}", case["id"], case["program"]))
        })
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {} cases are wrong:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
    assert!(cases.len() >= 330, "only {} cases were found", cases.len());
}
