//! Tokens of a request: three parts that add up, exact where the vocabulary is known, corrected where it is not.

use proptest::prelude::*;
use scrollback_core::request::{RequestTokens, prepare};
use scrollback_core::tokens::{Counter, Factor, OVERHEAD, Tokenizer, entry_tokens};
use scrollback_core::wire::Wire;
use scrollback_core::{CurationContext, Entry, Record, Role, Tools};
use serde_json::json;

use super::{CLAUDE, GPT, context, model, ours, policy, read_chat, record_of, session, step};
use crate::support::cases;

fn tokens_of(record: &Record, name: &str, wire: Wire, cx: &CurationContext, manager: &str) -> RequestTokens {
    prepare(record, &ours(wire, name), &policy(manager), cx).unwrap().tokens.unwrap()
}

fn with_tool(cx: CurationContext, wire: Wire) -> (CurationContext, String) {
    let tool = json!({ "name": "read_file", "description": "Reads a file.", "input_schema": {} }).to_string();
    let tools = Some(Tools::defined(wire, vec!["read_file".into()], vec![tool.clone()]));
    (CurationContext { tools, ..cx }, tool)
}

#[test]
fn every_part_is_counted_apart_and_exactly_for_gpt_4o() {
    let wire = Wire::OpenaiChat;
    let (cx, tool) = with_tool(context(GPT, wire), wire);
    let record = record_of(&[
        json!({ "role": "system", "content": "hello" }),
        json!({ "role": "user", "content": "hello world" }),
    ]);
    let tokens = tokens_of(&record, GPT, wire, &cx, "fit");
    // A message is three tokens, its role one, and "hello" and " world" one each; a tool is eight and its definition.
    let tools = Tokenizer::O200kBase.count(&tool) + 8;
    assert_eq!((tokens.instructions, tokens.messages, tokens.tools), (5, 6, tools));
    assert_eq!(tokens.total, 5 + 6 + tools + OVERHEAD);
    assert_eq!(tokens.counted, tokens.total);
    assert!(tokens.exact);
    assert_eq!(tokens.factor, Factor::ONE);
    // An exact count takes no factor.
    let corrected = CurationContext { counter: cx.counter.with_factor(Factor::of(1.7)), ..cx };
    assert_eq!(tokens_of(&record, GPT, wire, &corrected, "fit"), tokens);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(100), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_parts_add_up_and_the_factor_is_in_all_of_them_but_not_in_what_was_counted(
        steps in prop::collection::vec(step(600), 0..10), ratio in 0.5..2.0f64, is_claude in any::<bool>(), fits in any::<bool>()
    ) {
        let (name, wire) = if is_claude { (CLAUDE, Wire::Anthropic) } else { (GPT, Wire::OpenaiChat) };
        let counter = Counter::for_model(Some(&model(name))).with_factor(Factor::of(ratio));
        let (cx, tool) = with_tool(CurationContext { counter, ..context(name, wire) }, wire);
        let mut entries = vec![Entry::text(Role::System, "Be brief.")];
        entries.extend(read_chat(&session(&steps).concat(), 1));
        let mut record = Record::new();
        for entry in entries {
            record.append(entry).unwrap();
        }
        let manager = if fits { "fit(window=600, reserve=0)" } else { "passthrough" };
        let Ok(prepared) = prepare(&record, &ours(wire, name), &policy(manager), &cx) else { return Ok(()) };
        let tokens = prepared.tokens.unwrap();

        let factor = cx.counter.factor;
        prop_assert_eq!(tokens.total, tokens.instructions + tokens.tools + tokens.messages + factor.apply(OVERHEAD));
        prop_assert_eq!(tokens.exact, !is_claude);
        prop_assert_eq!(tokens.factor, if is_claude { Factor::of(ratio) } else { Factor::ONE });
        prop_assert_eq!(tokens.tools, factor.apply(cx.counter.tokenizer.count(&tool) + 8));

        // Counted anew from what the request shows.
        let view = record.view(&cx, &*policy(manager).manager).unwrap();
        let shown: Vec<(Role, usize)> =
            view.items().map(|item| (item.entry.role, entry_tokens(cx.counter.tokenizer, &item.entry))).collect();
        let sum = |wanted: bool, factor: Factor| -> usize {
            shown.iter().filter(|(role, _)| (*role == Role::System) == wanted).map(|(_, tokens)| factor.apply(*tokens)).sum()
        };
        if prepared.decisions.is_empty() {
            prop_assert_eq!(tokens.instructions, sum(true, factor));
            prop_assert_eq!(tokens.messages, sum(false, factor));
            let plain = sum(true, Factor::ONE) + sum(false, Factor::ONE) + cx.counter.tokenizer.count(&tool) + 8 + OVERHEAD;
            prop_assert_eq!(tokens.counted, plain);
        }
    }
}
