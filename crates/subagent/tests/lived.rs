//! The agreed cases as missions: a model that writes the programs of a case is sent the very bytes of the case.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use scrollback_agent::tool::tool;
use scrollback_lisp::{Signature, Value};
use scrollback_subagent::compression::{Chosen, parse};
use scrollback_subagent::{AgentTool, InheritedSettings, OutputForm, SubAgent};
use serde_json::{Value as Json, json};

use crate::rendering::corpus;
use crate::support::{host, scripted, text, with};

/// The worked examples of the format, by their ids. In `co-013` a name stands for nothing, which is found out before
/// anything is called; there the case alone can show what a call before an error looks like.
const WORKED: [&str; 9] =
    ["co-003", "co-004", "co-006", "co-007", "co-011", "co-012", "co-014", "co-016", "co-019"];

/// The agent of a case; its tools answer as they did there, in order.
fn agent(case: &Json) -> SubAgent {
    let signature = |value: &Json| value.as_str().map(|text| Signature::parse(text).unwrap());
    let mut agent = SubAgent::new(case["mission"].as_str().unwrap(), signature(&case["signature"])).unwrap();
    agent.max_turns = case["max_turns"].as_u64().unwrap() as usize;
    for (name, value) in case["data"].as_object().unwrap() {
        agent.add_data(name, Value::from_json(&value.to_string()).unwrap()).unwrap();
    }
    let calls =
        case["turns"].as_array().unwrap().iter().flat_map(|turn| turn["tool_calls"].as_array().unwrap());
    let answers: Arc<Mutex<VecDeque<Json>>> = Arc::new(Mutex::new(calls.cloned().collect()));
    for told in case["tools"].as_array().unwrap() {
        let answers = Arc::clone(&answers);
        let description = told["description"].as_str().unwrap_or_default();
        let made =
            tool(told["name"].as_str().unwrap(), description, json!({ "type": "object" }), move |_: Json| {
                let answer = answers.lock().unwrap().pop_front().unwrap_or_default();
                async move {
                    match answer["error"].as_str() {
                        Some(error) => Err(error.to_string()),
                        None => Ok(answer["result"].clone()),
                    }
                }
            });
        let made = AgentTool::new(Arc::new(made), signature(&told["signature"]), OutputForm::Text).unwrap();
        agent.add_tool(made).unwrap();
    }
    agent
}

#[tokio::test]
async fn a_model_that_writes_the_programs_of_a_case_is_sent_its_bytes() {
    let mut lived = Vec::new();
    for line in corpus("coalesced.jsonl").lines() {
        let case: Json = serde_json::from_str(line).unwrap();
        let id = case["id"].as_str().unwrap();
        if !WORKED.contains(&id) {
            continue;
        }
        let turns = case["turns"].as_array().unwrap();
        let programs = turns.iter().map(|turn| match turn["program"].as_str() {
            Some(program) => json!({ "reply": format!("Well.\n```clojure\n{program}\n```") }),
            None => json!({ "reply": "I do not know." }),
        });
        let replies: Vec<Json> = programs.chain([json!({ "reply": "(fail \"enough\")" })]).collect();
        let (host, bodies) = host();
        let chosen: Chosen = parse("on").unwrap().with_options(case["options"].as_object().unwrap()).unwrap();
        let settings =
            InheritedSettings { compression: Some(chosen), ..with(scripted(&json!(replies).to_string())) };
        let step = agent(&case).run(&BTreeMap::new(), &settings, &host, &mut host.journal()).await.unwrap();
        assert_eq!(text(&bodies, turns.len(), 1), case["user"].as_str().unwrap(), "{id}");
        assert_eq!(step.turns.len(), turns.len() + 1, "{id}");
        lived.push(id.to_string());
    }
    assert_eq!(lived, WORKED);
}
