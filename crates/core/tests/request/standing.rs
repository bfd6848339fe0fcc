//! What stays in a request wherever a cut lies: compactions, changes of tools, the newest instructions in the middle.

use scrollback_core::request::{Fidelity, Invalid, Policy, prepare, provider_edits};
use scrollback_core::stream::AppliedEdit;
use scrollback_core::wire::Wire;
use scrollback_core::{CurationContext, Record, Role, manager};
use serde_json::{Value, json};

use super::{client, context, record_all};

const OPUS: &str = "anthropic:claude-opus-5";
const GPT_5: &str = "openai:gpt-5";

fn policy(text: &str) -> Policy {
    Policy::for_client(manager::parse(text).unwrap(), Invalid::RepairedOrSent)
}

/// What is sent of a conversation whose client says all of it at once.
fn sent(wire: Wire, name: &str, body: &Value, manager: &str) -> (Record, CurationContext, Value) {
    let client = client(wire, name, &body.to_string());
    let mut record = Record::new();
    client.record(&mut record, 0);
    let cx = CurationContext { tools: client.tools.clone(), ..context(name, wire) };
    let prepared = prepare(&record, &client.asked, &policy(manager), &cx).unwrap();
    record_all(&mut record, &prepared.decisions);
    let again = prepare(&record, &client.asked, &policy(manager), &cx).unwrap();
    assert_eq!(again.body, prepared.body, "what was decided gives the same request");
    let body = serde_json::from_slice(&prepared.body).unwrap();
    (record, cx, body)
}

fn long(word: &str) -> String {
    format!("{word} {}", "many words ".repeat(60))
}

/// Messages of a talk, with something put in before turn number `at`.
fn talk(turns: usize, at: usize, put: &[Value]) -> Vec<Value> {
    let mut messages = Vec::new();
    for turn in 0..turns {
        if turn == at {
            messages.extend(put.iter().cloned());
        }
        messages.push(json!({ "role": "user", "content": long(&format!("question {turn}")) }));
        if turn + 1 < turns {
            messages.push(json!({ "role": "assistant", "content": long(&format!("answer {turn}")) }));
        }
    }
    messages
}

#[test]
fn changes_of_tools_survive_every_cut_of_messages() {
    let add =
        json!({ "role": "system", "content": [{ "type": "tool_addition", "tool": { "name": "new" } }] });
    let remove = json!({ "role": "system", "content": [{ "type": "tool_removal", "tool_name": "old" }] });
    let mut messages = talk(10, 99, &[]);
    messages.insert(1, add.clone());
    messages.insert(4, remove.clone());
    let body =
        json!({ "model": "claude-opus-5", "max_tokens": 100, "system": "Be brief.", "messages": messages });
    for manager in [
        "fit(window=1200, reserve=0)",
        "sticky(token_budget(1000), low=600)",
        "sliding_window(3)",
        "turn_window(2)",
    ] {
        let (_, _, sent) = sent(Wire::Anthropic, OPUS, &body, manager);
        let messages = sent["messages"].as_array().unwrap();
        assert!(messages.len() < 12, "{manager} cuts: {}", messages.len());
        let system: Vec<&Value> = messages.iter().filter(|message| message["role"] == "system").collect();
        let blocks: Vec<&Value> =
            system.iter().flat_map(|message| message["content"].as_array().unwrap()).collect();
        assert_eq!(blocks, [&add["content"][0], &remove["content"][0]], "{manager}: {sent}");
        assert_eq!(sent["system"], "Be brief.", "{manager}");
        let first = messages.iter().position(|message| message["role"] == "system").unwrap();
        assert_eq!(messages[first - 1]["role"], "user", "{manager}: {sent}");
    }
}

#[test]
fn the_newest_instructions_of_each_kind_survive_a_cut_of_items() {
    let developer = |text: &str| json!({ "type": "message", "role": "developer", "content": text });
    let surroundings = |text: &str| json!({ "role": "user", "content": [{ "type": "input_text", "text": format!("<environment_context>{text}</environment_context>") }] });
    let tools = json!({ "type": "additional_tools", "role": "developer", "tools": [{ "type": "function", "name": "new" }] });
    let update = json!({ "type": "configuration_update", "reasoning": { "effort": "low" } });
    let put = [
        developer("old"),
        surroundings("/old"),
        tools.clone(),
        update.clone(),
        developer("new"),
        surroundings("/new"),
    ];
    let input = talk(10, 1, &put);
    let body = json!({ "model": "gpt-5", "instructions": "Be brief.", "input": input, "prompt_cache_key": "k", "prompt_cache_options": { "mode": "explicit", "ttl": "30m" }, "prompt_cache_retention": "24h" });
    for manager in ["fit(window=1200, reserve=0)", "sticky(token_budget(1000), low=600)", "sliding_window(3)"]
    {
        let (_, _, sent) = sent(Wire::OpenaiResponses, GPT_5, &body, manager);
        let input = sent["input"].as_array().unwrap();
        assert!(input.len() < 14, "{manager} cuts: {}", input.len());
        for item in [&tools, &update, &put[4], &put[5]] {
            assert!(input.contains(item), "{manager}: {item} is missing in {sent}");
        }
        for item in &put[..2] {
            assert!(!input.contains(item), "{manager}: {item} is old");
        }
        for key in ["prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"] {
            assert_eq!(sent[key], body[key], "{manager}");
        }
    }
}

#[test]
fn nothing_behind_the_newest_compaction_is_left_out() {
    let compaction = |id: &str| json!({ "type": "compaction", "id": id, "encrypted_content": "opaque, and of no known form!" });
    let mut input = talk(4, 99, &[]);
    input.push(json!({ "role": "assistant", "content": "one" }));
    input.push(compaction("cmp_old"));
    input.extend(talk(4, 99, &[]));
    input.push(compaction("cmp_new"));
    let after = talk(5, 99, &[]);
    input.extend(after.iter().cloned());
    let body = json!({ "model": "gpt-5", "input": input });
    for manager in [
        "fit(window=1200, reserve=0)",
        "sticky(token_budget(400), low=200)",
        "sliding_window(2)",
        "turn_window(1)",
    ] {
        let (_, _, sent) = sent(Wire::OpenaiResponses, GPT_5, &body, manager);
        let sent = sent["input"].as_array().unwrap();
        let from = sent
            .iter()
            .position(|item| *item == compaction("cmp_new"))
            .unwrap_or_else(|| panic!("{manager}: {sent:?}"));
        assert_eq!(sent[from + 1..], after[..], "{manager}");
    }
    // Below the window the client's own list is sent, and what lies before the compaction is not counted.
    let client = client(Wire::OpenaiResponses, GPT_5, &body.to_string());
    let mut record = Record::new();
    client.record(&mut record, 0);
    let cx = context(GPT_5, Wire::OpenaiResponses);
    let prepared = prepare(&record, &client.asked, &policy("fit(window=1800, reserve=0)"), &cx).unwrap();
    assert_eq!((prepared.fidelity, prepared.repairs.len()), (Fidelity::Untouched, 0));
    assert_eq!(prepared.body, body.to_string());
    assert!(prepared.tokens.unwrap().total < 1800, "{:?}", prepared.tokens);
}

#[test]
fn what_a_provider_clears_is_not_counted_again() {
    let call = |n: usize| {
        let name = if n == 1 { "keep" } else { "look" };
        json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": format!("t{n}"), "name": name, "input": {} }] })
    };
    let result = |n: usize| json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": format!("t{n}"), "content": long("found") }] });
    let mut messages = vec![json!({ "role": "user", "content": "look" })];
    for n in 0..5 {
        messages.extend([call(n), result(n)]);
    }
    let management = json!({ "edits": [{ "type": "clear_tool_uses_20250919", "exclude_tools": ["keep"] }] });
    let body = json!({ "model": "claude-opus-5", "max_tokens": 100, "messages": messages, "context_management": management });
    let client = client(Wire::Anthropic, OPUS, &body.to_string());
    let mut record = Record::new();
    client.record(&mut record, 0);
    let cx = context(OPUS, Wire::Anthropic);
    let tokens =
        |record: &Record| prepare(record, &client.asked, &policy("fit(window=100000)"), &cx).unwrap();
    let before = tokens(&record).tokens.unwrap().total;
    let applied = [AppliedEdit { edit: "clear_tool_uses_20250919".into(), cleared_tool_uses: 2 }];
    let decisions = provider_edits(&record, body.to_string().as_bytes(), &applied, &cx);
    record_all(&mut record, &decisions);
    let after = tokens(&record);
    assert!(after.tokens.unwrap().total + 200 < before, "{:?} of {before}", after.tokens);
    assert_eq!((after.fidelity, &after.body[..]), (Fidelity::Untouched, body.to_string().as_bytes()));
    let results = |positions: &[u64]| {
        positions.iter().map(|at| record.entry(*at).unwrap().tool_call_id().unwrap()).collect::<Vec<_>>()
    };
    let scrollback_core::Decision::ProviderEdit { positions, .. } = &decisions[0] else {
        panic!("{decisions:?}")
    };
    assert_eq!(results(positions), ["t0", "t2"], "results of `keep` are not cleared");
    assert_eq!(
        provider_edits(&record, body.to_string().as_bytes(), &applied, &cx),
        [],
        "it is recorded once"
    );
    assert!(record.slots().len() > 10 && record.entry(2).unwrap().role == Role::Tool);
}
