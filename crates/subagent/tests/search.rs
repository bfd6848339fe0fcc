//! The failure that sank this design elsewhere: compressed history forgot what the tools had answered, so the model searched
//! again and answered wrongly. Here a model that knows nothing but its request finds the answer under every strategy.

use std::sync::Arc;

use scrollback_lisp::Signature;
use scrollback_subagent::ab::{TrialTask, compare, repeated_calls};
use scrollback_subagent::compression::{Chosen, parse};
use scrollback_subagent::{AgentTool, InheritedSettings, OutputForm, SubAgent};
use serde_json::{Value as Json, json};

use crate::support::{Thinking, agent, function, host, run};

/// The shelves of an archive, each naming the one to look at next; the last has the answer.
const SHELVES: [&str; 9] = ["alder", "birch", "cedar", "dogwood", "elm", "fir", "ginkgo", "hazel", "ivy"];

/// Forty letters, and a hint where to go on.
fn shelf(name: &str) -> Result<Json, String> {
    let at = SHELVES.iter().position(|shelf| *shelf == name).ok_or_else(|| format!("no shelf {name}"))?;
    let hint = match SHELVES.get(at + 1) {
        Some(next) => format!("see {next}"),
        None => "code 7431".into(),
    };
    let letter = |number: usize| json!({ "from": format!("sender {number}"), "text": format!("About the weather on day {number}, at some length, as people do."), "hint": "" });
    let mut letters: Vec<Json> = (0..40).map(letter).collect();
    letters.insert(0, json!({ "hint": hint }));
    Ok(Json::Array(letters))
}

async fn archivist() -> SubAgent {
    let mut agent = agent("name: archivist\nmission: Find the code. Begin at the shelf alder.\nsignature: '{code :int}'\nmax_turns: 12\n").await;
    let tool = function("shelf", |args| shelf(args["name"].as_str().unwrap_or_default()));
    let signature = Signature::parse("(name :string) -> [:map]").ok();
    agent.add_tool(AgentTool::new(tool, signature, OutputForm::Text).unwrap()).unwrap();
    agent
}

/// A model without any memory of its own: it looks for the code in its request, else at the first shelf that its request
/// names and shows no call for. If results are nowhere to be seen, it begins anew.
fn memoryless() -> Arc<Thinking<impl Fn(&Json) -> String + Send + Sync>> {
    Arc::new(Thinking(|request: &Json| {
        let messages = request["messages"].as_array().unwrap();
        let said: Vec<&str> =
            messages.iter().skip(1).map(|message| message["content"].as_str().unwrap()).collect();
        let said = said.join("\n");
        let thought = "I look at what is known so far. The archive refers from one shelf to the next, so the newest reference \
                       that I have not followed is where I go on. Letters about the weather do not matter here, and neither \
                       does who sent them; what matters is the hint. I take care not to look at a shelf twice.";
        let code = said
            .split("code ")
            .skip(1)
            .filter_map(|rest| rest.get(..4))
            .find(|code| code.parse::<u32>().is_ok());
        let program = if let Some(code) = code {
            format!("(return {{:code {code}}})")
        } else {
            let named = |shelf: &&&str| said.contains(&format!("see {shelf}")) || **shelf == SHELVES[0];
            let asked = |shelf: &str| {
                said.contains(&format!("(tool/shelf \"{shelf}\")"))
                    || said.contains(&format!("shelf({{:name \"{shelf}\"}})"))
            };
            let next = SHELVES.iter().filter(named).find(|shelf| !asked(shelf)).unwrap_or(&"alder");
            format!("(tool/shelf \"{next}\")")
        };
        format!("{thought}\n```clojure\n{program}\n```")
    }))
}

#[tokio::test]
async fn compressed_runs_find_what_the_uncompressed_run_finds_without_asking_twice() {
    let agent = archivist().await;
    let mut tokens = Vec::new();
    for spec in ["off", "on", "rolling_window(keep=2, slack=1)"] {
        let (host, bodies) = host();
        let settings = InheritedSettings {
            model: Some(memoryless()),
            compression: Some(parse(spec).unwrap()),
            ..InheritedSettings::default()
        };
        let step = run(&agent, &settings, &host).await;
        let code = step.outcome.as_ref().map(ToString::to_string);
        assert_eq!(code.as_deref().ok(), Some("{:code 7431}"), "{spec}: {:?}", step.outcome.as_ref().err());
        assert_eq!(step.turns.len(), 10, "{spec}");
        assert_eq!(repeated_calls(&step.turns), 0, "{spec}");
        let stats = &step.sent.calls.last().unwrap().stats;
        let counted = stats.tokens.unwrap();
        assert_eq!(stats.triggered, spec != "off");
        assert!(counted.after <= counted.before, "{spec}");
        assert_eq!(bodies.lock().unwrap().len(), 10);
        tokens.push(step.usage.input);
    }
    let saved = 100.0 - tokens[1] as f64 * 100.0 / tokens[0] as f64;
    assert!(saved >= 60.0, "{saved:.0}% of {} input tokens saved", tokens[0]);
    assert!(tokens[2] < tokens[0]);
}

#[tokio::test]
async fn the_report_shows_right_answers_and_tokens_saved() {
    let agent = archivist().await;
    let tasks = TrialTask::read_all("{\"id\": \"code\", \"expected\": {\"code\": 7431}}").unwrap();
    let settings = InheritedSettings { model: Some(memoryless()), ..InheritedSettings::default() };
    let (host, _) = host();
    let mut rows = Vec::new();
    for spec in ["off", "on", "single_user_coalesced(tool_results=\"never\", last_result=false)"] {
        let chosen: Chosen = parse(spec).unwrap();
        rows.push(compare(&agent, &tasks, (spec, &chosen), 2, &settings, &host).await.unwrap());
    }
    assert_eq!((rows[0].right, rows[0].runs, rows[1].right, rows[1].repeated_calls), (2, 2, 2, 0));
    assert!(rows[1].total_tokens_in * 10 <= rows[0].total_tokens_in * 4, "at least 60% fewer");
    // The other design, to the letter: results invisible, the last value lost. It never gets there.
    assert_eq!(rows[2].right, 0, "this test can fail");
    assert!(
        rows[2].repeated_calls > 0 && rows[2].wrong[0].why.contains("max_turns_exceeded"),
        "{:?}",
        rows[2].wrong
    );
}
