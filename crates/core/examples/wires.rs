//! Reads, checks, repairs and sends requests of several wires: `cargo run -p scrollback-core --example wires`.

use scrollback_core::json::{self, Raw};
use scrollback_core::model::ModelName;
use scrollback_core::wire::check::{CheckOptions, Strictness, check};
use scrollback_core::wire::repair::repair;
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{CurationContext, manager};

const REQUEST: &str = r#"{"system":"Be brief.","max_tokens":500,"messages":[
    {"role":"user","content":"What is the weather in Bergen?"},
    {"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Bergen"}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"rain, 9 degrees"}]},
    {"role":"assistant","content":"It rains."},
    {"role":"user","content":"And tomorrow?"}]}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    send_elsewhere()?;
    // A result was cut out of the list.
    let cut =
        REQUEST.replace("tool_result", "text").replace(r#""tool_use_id":"toolu_1","content""#, r#""text""#);
    println!("{}", valid(json::check(&cut)?, &ModelName::parse("anthropic:claude-opus-4-8")?));
    Ok(())
}

/// A conversation that began on one wire, sent on another.
fn send_elsewhere() -> Result<(), Box<dyn std::error::Error>> {
    let body = json::check(REQUEST)?;
    let wire = Wire::detect(body).ok_or("no request")?;
    let parsed = wire.parse(body, &ParseOptions::default())?;
    let tools = parsed.tools.clone();
    let record = parsed.into_record()?;

    let mut cx = CurationContext::for_model(Some(ModelName::parse("gemini:gemini-2.5-pro")?));
    cx.tools = tools;
    let view = record.view(&cx, &*manager::parse("sliding_window(4)")?)?;
    let request = view.render(Wire::Gemini, &cx);
    for lost in &request.lost {
        eprintln!("lost: {} at {} ({})", lost.what, lost.path, lost.reason);
    }
    println!("{}", request.body(Wire::Gemini, None));
    Ok(())
}

/// The body, made valid if its provider would refuse it.
fn valid(body: Raw<'_>, model: &ModelName) -> String {
    let options = CheckOptions { model: Some(model), ..CheckOptions::default() };
    let violations = check(Wire::Anthropic, body, options);
    if !violations.iter().any(|violation| violation.is_fatal(Strictness::Lenient)) {
        return body.text().into();
    }
    let repaired = repair(Wire::Anthropic, body, options, Strictness::Lenient);
    for done in &repaired.repairs {
        println!("{} at {}: {}", done.rule, done.path, done.action);
    }
    repaired.body
}
