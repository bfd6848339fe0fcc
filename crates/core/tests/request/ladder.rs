//! The overflow ladder: a request that is too large is made smaller step by step, each step a recorded decision.

use scrollback_core::manager::{self, Keep};
use scrollback_core::request::{
    Ladder, LadderStep, PrepareError, Prepared, RequestTokens, Stated, prepare, too_large,
};
use scrollback_core::wire::Wire;
use scrollback_core::{CurationContext, Decision, Entry, Record, Role, Tools};
use serde_json::{Value, json};

use super::{CLAUDE, GPT, context, messages_of, model, ours, policy, record_all, record_of, text};

const MODELS: [(&str, Wire); 2] = [(CLAUDE, Wire::Anthropic), (GPT, Wire::OpenaiChat)];
/// Characters of a text of ten thousand tokens or a little more, by either count.
const TEN_THOUSAND: usize = 45_000;
const THREE_MEGABYTES: usize = 3_000_000;

fn user(content: &str) -> Value {
    json!({ "role": "user", "content": content })
}

/// One call to a tool for each text, all in one message, and their results.
fn tools(name: &str, texts: &[String]) -> Vec<Value> {
    let id = |n: usize| format!("{name}{n}");
    let call = |n: usize| json!({ "id": id(n), "type": "function", "function": { "name": "read_file", "arguments": "{}" } });
    let calls: Vec<Value> = (0..texts.len()).map(call).collect();
    let mut messages = vec![json!({ "role": "assistant", "content": null, "tool_calls": calls })];
    let result =
        |(n, text): (usize, &String)| json!({ "role": "tool", "tool_call_id": id(n), "content": text });
    messages.extend(texts.iter().enumerate().map(result));
    messages
}

/// A task and twelve results of ten thousand tokens, one call after another.
fn twelve_results() -> Vec<Value> {
    let mut messages = vec![user("Find the bug.")];
    for n in 0..12 {
        messages.extend(tools(&format!("call_{n}_"), &[text(TEN_THOUSAND)]));
    }
    messages
}

fn twelve_results_at_once() -> Vec<Value> {
    let mut messages = vec![user("Find the bug.")];
    messages.extend(tools("call_", &vec![text(TEN_THOUSAND); 12]));
    messages
}

fn one_huge_result() -> Vec<Value> {
    let mut messages = vec![user("Find the bug.")];
    messages.extend(tools("call_", &[text(THREE_MEGABYTES)]));
    messages
}

fn a_huge_task() -> Vec<Value> {
    vec![user(&format!("Find the bug in this log:\n{}", text(THREE_MEGABYTES)))]
}

/// Who says that a request is too large.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Judge {
    /// Our own check, before it is sent.
    Ours,
    /// The provider, which states its limit and the size, by a count a fifth above ours.
    States,
    /// The provider, without any number.
    Refuses,
}

/// What came of a walk up the ladder.
struct Climb {
    steps: Vec<LadderStep>,
    decisions: Vec<Decision>,
    /// Tokens of the requests that were too large, and of the last one.
    totals: Vec<usize>,
    prepared: Option<Prepared>,
    /// Why there is no request.
    message: String,
}

/// Prepares, and takes a step of the ladder for as long as the request is refused.
fn climb(
    record: &mut Record,
    name: &str,
    wire: Wire,
    manager: &str,
    cx: &CurationContext,
    judge: Judge,
) -> Climb {
    let window = cx.window_of(&model(name)).unwrap();
    let asked = ours(wire, name);
    let mut policy = policy(manager);
    if judge != Judge::Ours {
        policy = scrollback_core::request::Policy::for_client(
            policy.manager,
            scrollback_core::request::Invalid::RepairedOrSent,
        );
    }
    let mut ladder = Ladder::default();
    let mut climb = Climb {
        steps: Vec::new(),
        decisions: Vec::new(),
        totals: Vec::new(),
        prepared: None,
        message: String::new(),
    };
    loop {
        let (stated, tokens) = match prepare(record, &asked, &policy, cx) {
            Ok(prepared) => {
                record_all(record, &prepared.decisions);
                let tokens = prepared.tokens.unwrap();
                // A provider counts a fifth more than we do; our own check trusts our count.
                let size = if judge == Judge::Ours { tokens.total } else { tokens.total / 5 * 6 } as u64;
                if size <= window {
                    climb.totals.push(tokens.total);
                    climb.prepared = Some(prepared);
                    return climb;
                }
                let stated = match judge {
                    Judge::Refuses => Stated::default(),
                    Judge::Ours | Judge::States => Stated { limit: Some(window), size: Some(size) },
                };
                (stated, tokens)
            }
            Err(PrepareError::TooLarge { stated, tokens }) => (stated, tokens),
            Err(other) => panic!("{other}"),
        };
        climb.totals.push(tokens.total);
        let Some((step, decision)) = ladder.next(record, &*policy.manager, cx, stated, tokens.total) else {
            climb.message = too_large(stated, &tokens);
            return climb;
        };
        record_all(record, std::slice::from_ref(&decision));
        climb.steps.push(step);
        climb.decisions.push(decision);
    }
}

/// A context for a model whose window is configured.
fn with_window(name: &str, wire: Wire, window: u64) -> CurationContext {
    let mut cx = context(name, wire);
    cx.windows.insert(name.into(), window);
    cx
}

#[test]
fn the_ladder_ends_in_a_request_that_fits() {
    use LadderStep::{Cut, TruncateResults, TruncateTask};
    let records: [(&str, Vec<Value>, &[LadderStep]); 4] = [
        ("twelve results", twelve_results(), &[Cut]),
        ("twelve results at once", twelve_results_at_once(), &[TruncateResults]),
        ("one huge result", one_huge_result(), &[TruncateResults]),
        ("a huge task", a_huge_task(), &[TruncateTask]),
    ];
    for (what, messages, wanted) in &records {
        for (name, wire) in MODELS {
            for judge in [Judge::Ours, Judge::States, Judge::Refuses] {
                let window = 60_000;
                let cx = with_window(name, wire, window);
                let mut record = record_of(messages);
                let climb = climb(&mut record, name, wire, "passthrough", &cx, judge);
                let why = format!(
                    "{what}, {name}, {judge:?}: {:?} {:?} {}",
                    climb.steps, climb.totals, climb.message
                );
                assert!(climb.prepared.is_some(), "{why}");
                assert!(climb.steps.len() <= 4, "{why}");
                assert!(*climb.totals.last().unwrap() as u64 <= window, "{why}");
                // Where no number was stated, each step takes off what it can, and there may be several.
                assert!(climb.steps.starts_with(wanted), "{why}");
                assert!(judge == Judge::Refuses || climb.steps == *wanted, "{why}");
                assert!(climb.steps.is_sorted_by_key(|step| *step as u8), "{why}");
                for decision in &climb.decisions {
                    if let Decision::Truncate { max_length, keep, .. } = decision {
                        assert!(*max_length >= 2000 && *keep == Keep::Both, "{why}: {decision:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn with_fit_only_what_fit_cannot_do_needs_the_ladder() {
    for (name, wire) in MODELS {
        let cx = with_window(name, wire, 60_000);
        for messages in [twelve_results(), twelve_results_at_once(), one_huge_result()] {
            let climb = climb(&mut record_of(&messages), name, wire, "fit", &cx, Judge::Ours);
            assert_eq!(climb.steps, [], "{name}: {}", climb.message);
            assert!(climb.prepared.is_some());
        }
        let climb = climb(&mut record_of(&a_huge_task()), name, wire, "fit", &cx, Judge::Ours);
        assert_eq!(climb.steps, [LadderStep::TruncateTask], "{name}: {}", climb.message);
        assert!(climb.prepared.is_some(), "{name}: {}", climb.message);
    }
}

#[test]
fn steps_come_in_order_and_only_those_that_change_something() {
    // Old groups that can go, results in the middle that must stay, a long newest result, and a long task.
    let mut messages = vec![user("Before."), json!({ "role": "assistant", "content": text(40_000) })];
    messages.push(user(&format!("The task: {}", text(100_000))));
    for n in 0..6 {
        messages.extend(tools(&format!("old_{n}_"), &[text(20_000)]));
    }
    messages.extend(tools("new_", &[text(100_000)]));
    for (name, wire) in MODELS {
        let mut record = record_of(&messages);
        let stay = (3..record.len() as u64).collect();
        record_all(&mut record, &[Decision::Pin { positions: stay }]);
        let mut cx = with_window(name, wire, 10_000);
        cx.preserve_last_n = Some(15);
        let manager = manager::parse("passthrough").unwrap();
        let mut ladder = Ladder::default();
        let mut steps = Vec::new();
        // A provider that never has enough.
        while let Some((step, decision)) = ladder.next(&record, &*manager, &cx, Stated::default(), 100_000) {
            record_all(&mut record, &[decision]);
            steps.push(step);
        }
        assert_eq!(
            steps,
            [LadderStep::Cut, LadderStep::TruncateResults, LadderStep::TruncateTask],
            "{name}: what is pinned is not cleared"
        );
        assert!(ladder.next(&record, &*manager, &cx, Stated::default(), 100_000).is_none(), "no step twice");

        let mut record = record_of(&messages);
        let mut ladder = Ladder::default();
        let mut steps = Vec::new();
        while let Some((step, decision)) = ladder.next(&record, &*manager, &cx, Stated::default(), 2000) {
            record_all(&mut record, &[decision]);
            steps.push(step);
        }
        assert_eq!(
            steps,
            [LadderStep::Cut, LadderStep::Clear, LadderStep::TruncateResults, LadderStep::TruncateTask],
            "{name}"
        );
        let words: Vec<&str> = steps.iter().map(|step| step.as_str()).collect();
        assert_eq!(words, ["cut", "clear", "truncate", "truncate_task"]);
    }
}

/// Many small groups, so that a cut comes close to its target.
fn many_small_turns() -> Record {
    let mut messages = Vec::new();
    for n in 0..400 {
        messages.push(user(&format!("Question {n}. {}", text(200))));
        messages.push(json!({ "role": "assistant", "content": text(200) }));
    }
    messages.push(user("And now?"));
    record_of(&messages)
}

/// Tokens left after the first step, which is a cut.
fn after_cut(name: &str, wire: Wire, cx: &CurationContext, stated: Stated, tokens: usize) -> usize {
    let mut record = many_small_turns();
    let manager = manager::parse("passthrough").unwrap();
    let (step, decision) =
        Ladder::default().next(&record, &*manager, cx, stated, tokens).expect("there is something to cut");
    assert_eq!(step, LadderStep::Cut);
    record_all(&mut record, &[decision]);
    prepare(&record, &ours(wire, name), &policy("passthrough"), cx).unwrap().tokens.unwrap().total
}

#[test]
fn the_target_is_the_stated_share_and_never_more_than_three_quarters() {
    for (name, wire) in MODELS {
        let cx = context(name, wire);
        let whole = prepare(&many_small_turns(), &ours(wire, name), &policy("passthrough"), &cx).unwrap();
        let tokens = whole.tokens.unwrap().total;
        // Tokens of one turn by either count: how far a cut may stay below its target.
        let turn = 150;
        let reach = |left: usize, target: usize, what: &str| {
            assert!(
                left <= target && left + turn > target,
                "{name}, {what}: {left} tokens, the target is {target}"
            );
        };
        let size = |limit: u64, size: u64| Stated { limit: Some(limit), size: Some(size) };
        reach(after_cut(name, wire, &cx, Stated::default(), tokens), tokens / 4 * 3, "nothing stated");
        let only = Stated { limit: Some(10_000), size: None };
        reach(after_cut(name, wire, &cx, only, tokens), 7500, "only a limit stated");
        let known = with_window(name, wire, 20_000);
        reach(after_cut(name, wire, &known, Stated::default(), tokens), 15_000, "only the window known");
        reach(
            after_cut(name, wire, &cx, size(199_000, 200_000), tokens),
            tokens / 4 * 3,
            "close to the limit",
        );
        // Our tokens × (limit − reserve) ÷ stated size, with an eighth of a small limit as the reserve.
        let room = |limit: u64, reserve: u64, size: u64| (tokens as u64 * (limit - reserve) / size) as usize;
        reach(after_cut(name, wire, &cx, size(32_000, 64_000), tokens), room(32_000, 4_000, 64_000), "half");
        // What the reply needs is what the request says, and at most 8,192.
        reach(
            after_cut(name, wire, &cx, size(100_000, 200_000), tokens),
            room(100_000, 8192, 200_000),
            "large",
        );
        let brief = CurationContext { output: Some(500), ..context(name, wire) };
        reach(
            after_cut(name, wire, &brief, size(100_000, 200_000), tokens),
            room(100_000, 500, 200_000),
            "brief",
        );
    }
}

/// The part that is named, where nothing helps.
fn ends_with(record: &mut Record, cx: &CurationContext, name: &str, wire: Wire) -> (Vec<LadderStep>, String) {
    let climb = climb(record, name, wire, "passthrough", cx, Judge::Ours);
    assert!(climb.prepared.is_none(), "{name}: {:?}", climb.totals);
    (climb.steps, climb.message)
}

#[test]
fn where_nothing_helps_the_part_that_does_not_fit_is_named() {
    for (name, wire) in MODELS {
        let small = || vec![json!({ "role": "system", "content": "Be brief." }), user("Hello.")];
        let mut messages = small();
        messages[0]["content"] = json!(text(THREE_MEGABYTES));
        let cx = with_window(name, wire, 20_000);
        let (steps, message) = ends_with(&mut record_of(&messages), &cx, name, wire);
        assert_eq!(steps, [], "{name}");
        assert!(
            message.contains("the instructions would have") && message.contains("shorten the instructions"),
            "{message}"
        );

        let tool = json!({ "name": "search", "description": text(THREE_MEGABYTES) }).to_string();
        let cx = CurationContext {
            tools: Some(Tools::defined(wire, vec!["search".into()], vec![tool])),
            ..with_window(name, wire, 20_000)
        };
        let (steps, message) = ends_with(&mut record_of(&small()), &cx, name, wire);
        assert_eq!(steps, [], "{name}");
        assert!(
            message.contains("the tool definitions would have") && message.contains("offer fewer tools"),
            "{message}"
        );

        // A window below what is left of a text that was shortened: the messages are named.
        let cx = with_window(name, wire, 300);
        let (steps, message) = ends_with(&mut record_of(&one_huge_result()), &cx, name, wire);
        assert_eq!(steps, [LadderStep::TruncateResults], "{name}");
        assert!(
            message.contains("what must stay of the messages") && message.contains("tool_result_truncator"),
            "{message}"
        );
        assert!(message.contains("the model takes"), "{message}");
    }
}

#[test]
fn the_largest_part_is_named_and_numbers_only_where_they_are_known() {
    let tokens = |instructions, tools, messages| RequestTokens {
        instructions,
        tools,
        messages,
        total: instructions + tools + messages + 3,
        ..RequestTokens::default()
    };
    for (instructions, tools, messages, wanted) in [
        (10, 1, 2, "the instructions would have"),
        (1, 10, 2, "the tool definitions would have"),
        (1, 2, 10, "what must stay of the messages would have"),
    ] {
        let said = too_large(Stated::default(), &tokens(instructions, tools, messages));
        assert!(said.contains(wanted), "{said}");
        assert!(said.contains("can be made has 16 tokens") && !said.contains("the model takes"), "{said}");
    }
    let stated = Stated { limit: Some(7), size: Some(9) };
    let said = too_large(stated, &tokens(1, 2, 10));
    assert!(said.contains("it has 9 tokens, and the model takes 7"), "{said}");
    let entry = Entry::text(Role::User, "a secret");
    assert!(!said.contains(&entry.content().unwrap()));
}

/// Two things to remember, many turns, and the question of now.
fn remembered_then_many_turns() -> Record {
    let mut messages = vec![user("Remember: the key is under the mat."), user("A word between.")];
    messages.extend(tools("plan_", &["Remember: never push to main.".into()]));
    for n in 0..40 {
        messages.push(user(&format!("Question {n}. {}", text(400))));
        messages.push(json!({ "role": "assistant", "content": text(400) }));
    }
    messages.push(user("And now?"));
    record_of(&messages)
}

#[test]
fn what_managers_pin_is_sent_after_an_overflow_cut_and_after_the_next_one() {
    // With `token_budget` the pins alone are too much, and a client's request is sent whole: the pins hold nevertheless.
    let pinned = r#"{"pin": {"where": {"contains": "Remember"}}}"#;
    let lists = [
        format!("[{pinned}]"),
        format!("[{pinned}, \"sticky(token_budget(100000), high=90000, low=60000)\"]"),
        format!("[{pinned}, \"token_budget(20)\"]"),
    ];
    for (name, wire) in MODELS {
        for list in &lists {
            let mut record = remembered_then_many_turns();
            let cx = context(name, wire);
            let policy = scrollback_core::request::Policy::for_client(
                policy(list).manager,
                scrollback_core::request::Invalid::RepairedOrSent,
            );
            for round in 0..2 {
                let before = prepare(&record, &ours(wire, name), &policy, &cx).unwrap();
                record_all(&mut record, &before.decisions);
                let tokens = before.tokens.unwrap().total;
                let mut ladder = Ladder::default();
                let (step, decision) =
                    ladder.next(&record, &*policy.manager, &cx, Stated::default(), tokens).unwrap();
                assert_eq!(step, LadderStep::Cut, "{name} {list}");
                record_all(&mut record, std::slice::from_ref(&decision));
                let after = prepare(&record, &ours(wire, name), &policy, &cx).unwrap();
                record_all(&mut record, &after.decisions);
                let (was, is) =
                    (messages_of(wire, &before.body).join("\n"), messages_of(wire, &after.body).join("\n"));
                let why = format!("{name} {list}, cut {round}: {decision:?}");
                for stays in ["the key is under the mat", "never push to main", "And now?"] {
                    assert!(is.contains(stays), "{why}: {stays:?} is not sent");
                }
                assert!(is.len() < was.len() && !is.contains("A word between."), "{why}");
            }
        }
    }
}

#[test]
fn an_overflow_cut_keeps_what_people_pinned_only_until_they_unpin_it() {
    let (name, wire) = MODELS[0];
    let cx = context(name, wire);
    let mut record = remembered_then_many_turns();
    record_all(&mut record, &[Decision::Pin { positions: vec![0] }]);
    let manager = manager::parse("passthrough").unwrap();
    let (_, cut) = Ladder::default().next(&record, &*manager, &cx, Stated::default(), 5000).unwrap();
    record_all(&mut record, &[cut]);
    let sent = |record: &Record| {
        let prepared = prepare(record, &ours(wire, name), &policy("passthrough"), &cx).unwrap();
        messages_of(wire, &prepared.body).join("\n")
    };
    assert!(sent(&record).contains("under the mat"));
    record_all(&mut record, &[Decision::Unpin { positions: vec![0] }]);
    assert!(!sent(&record).contains("under the mat"));
}
