//! Conversational loops: who becomes a turn, and what every agent is sent.

use scrollback_flow::driver::RunStatus;
use serde_json::json;

use crate::support::Bench;

const CLARIFY: &str = r#"
version: "1"
agents:
  clarify: { model: "offline:echo", system_prompt: Ask one question. }
steps:
  - kind: loop
    name: chat
    loop:
      conversation: true
      max_loops: 3
      exit_expression: "output == 'stop'"
      body:
        - { name: clarify }
        - { kind: hitl, name: ask }
"#;

#[tokio::test]
async fn questions_and_answers_come_back_in_the_order_they_were_said() {
    let bench = Bench::new(|_, number| json!({ "reply": format!("question {number}") }));
    let first = bench.run(CLARIFY, "Plan a trip").await;
    assert_eq!(first.status, RunStatus::Paused, "{first:?}");
    assert_eq!((first.pauses.len(), first.pauses[0].message.as_str()), (1, "question 1"));
    let second = bench.answer(&first.run, "in May").await;
    assert_eq!(second.status, RunStatus::Paused, "{second:?}");
    let last = bench.answer(&first.run, "stop").await;
    assert_eq!((last.status, last.output), (RunStatus::Done, json!("stop")));
    assert_eq!(
        bench.said(),
        [
            vec!["system: Ask one question.", "user: Plan a trip"],
            vec!["system: Ask one question.", "user: Plan a trip", "assistant: question 1", "user: in May"],
        ]
    );
}

/// A loop of three iterations, with more under `loop`.
fn looped(more: &str, body: &str) -> String {
    format!(
        "version: \"1\"\nsteps:\n  - kind: loop\n    name: chat\n    loop:\n      conversation: true\n      max_loops: 3\n{more}\n      body:\n{body}"
    )
}

#[tokio::test]
async fn the_input_is_sent_once_and_the_turns_in_front_of_it() {
    let bench = Bench::new(|_, number| json!({ "reply": format!("reply {number}") }));
    let flow = looped("", "        - { name: talk }\n");
    assert_eq!(bench.done(&flow, "hello").await, json!("reply 3"));
    assert_eq!(
        bench.said(),
        [
            vec!["user: hello"],
            vec!["user: hello", "user: reply 1"],
            vec!["user: hello", "assistant: reply 1", "user: reply 2"],
        ]
    );
}

#[tokio::test]
async fn a_quoted_value_is_a_new_text_and_the_turn_stays() {
    let bench = Bench::new(|_, number| json!({ "reply": format!("reply {number}") }));
    let flow = looped("", "        - { name: talk, input: \"Go on from: {{ previous }}\" }\n");
    bench.done(&flow, "hello").await;
    assert_eq!(bench.said()[1], ["user: hello", "assistant: reply 1", "user: Go on from: reply 1"]);
}

#[tokio::test]
async fn without_conversation_and_with_use_history_false_only_system_and_input_are_sent() {
    let bench = Bench::new(|_, number| json!({ "reply": format!("reply {number}") }));
    let plain = looped("", "        - { name: talk }\n").replace("      conversation: true\n", "");
    bench.done(&plain, "hello").await;
    assert!(bench.said().iter().all(|said| said.len() == 1), "{:?}", bench.said());
    let bench = Bench::new(|_, number| json!({ "reply": format!("reply {number}") }));
    let flow = looped("", "        - { name: talk }\n        - { name: extract, use_history: false }\n");
    bench.done(&flow, "hello").await;
    let said = bench.said();
    assert_eq!(said[1], ["user: reply 1"], "the step that opted out");
    assert_eq!(
        said[2],
        ["user: hello", "user: reply 2"],
        "the one that did not; only the last step is a turn"
    );
}

#[tokio::test]
async fn sources_decide_who_becomes_a_turn() {
    let body = "        - { name: draft }\n        - { name: note, template: \"noted {{ previous }}\" }\n        - { name: polish }\n";
    let third = |more: &'static str| async move {
        let bench = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
        bench.done(&looped(more, body), "go").await;
        bench.said()[4].clone()
    };
    // The fifth request is the draft of the third iteration; its input is the polish of the second.
    assert_eq!(third("").await, ["user: go", "assistant: r2", "user: r4"]);
    assert_eq!(
        third("      ai_turn_source: all_agents").await,
        ["user: go", "assistant: r1", "assistant: r2", "assistant: r3", "user: r4"]
    );
    assert_eq!(
        third("      ai_turn_source: named_steps\n      named_steps: [draft]").await,
        ["user: go", "assistant: r1", "assistant: r3", "user: r4"]
    );
    assert_eq!(
        third("      ai_turn_source: named_steps\n      named_steps: [draft, note]\n      user_turn_sources: [named_steps]").await,
        ["user: go", "assistant: r1", "user: noted r1", "assistant: r3", "user: noted r3", "user: r4"]
    );
    assert_eq!(
        third("      user_turn_sources: [note]").await,
        ["user: go", "user: noted r1", "assistant: r2", "user: noted r3", "user: r4"]
    );
}

#[tokio::test]
async fn a_template_at_the_end_makes_no_turn_and_a_skipped_step_neither() {
    let bench = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
    let body = "        - { name: talk }\n        - { name: end, template: \"<{{ previous }}>\" }\n";
    bench.done(&looped("", body), "go").await;
    assert_eq!(bench.said()[2], ["user: go", "user: <r2>"]);
    let bench = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
    let body = "        - { name: talk }\n        - { name: more, when: \"loop.iteration == 2\" }\n";
    bench.done(&looped("", body), "go").await;
    // Four requests: the last step ran in the second iteration only.
    assert_eq!(bench.said()[3], ["user: go", "user: r3"]);
}

#[tokio::test]
async fn equal_texts_are_two_turns_and_blank_ones_none() {
    let bench = Bench::new(|_, _| json!({ "reply": "yes" }));
    bench.done(&looped("", "        - { name: talk }\n"), "yes").await;
    assert_eq!(bench.said()[2], ["user: yes", "assistant: yes", "user: yes"]);
    let bench = Bench::new(|_, _| json!({ "reply": "  " }));
    bench.done(&looped("", "        - { name: talk, input: again }\n"), "go").await;
    assert_eq!(bench.said()[2], ["user: go", "user: again"]);
}

#[tokio::test]
async fn a_history_starts_with_the_input_a_text_or_nothing() {
    let seeded = |more: &'static str| async move {
        let bench = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
        bench.done(&looped(more, "        - { name: talk, input: \"next\" }\n"), "go").await;
        bench.said()[1].clone()
    };
    assert_eq!(seeded("").await, ["user: go", "assistant: r1", "user: next"]);
    assert_eq!(
        seeded("      init: { history: { start_with: { from_initial_input: false } } }").await,
        ["assistant: r1", "user: next"]
    );
    assert_eq!(
        seeded("      init: { history: { start_with: { text: \"The goal: {{ input }}\", from_initial_input: false } } }").await,
        ["user: The goal: go", "assistant: r1", "user: next"]
    );
}

#[tokio::test]
async fn structured_replies_are_turns_as_they_were_written_or_by_one_field() {
    let schema = "{ type: object, required: [question], properties: { question: { type: string } } }";
    let flow = |field: &str| {
        format!(
            "version: \"1\"\nagents:\n  talk: {{ output_schema: {schema} }}\n{}",
            looped("", &format!("        - {{ name: talk{field}, input: \"next\" }}\n"))
                .trim_start_matches("version: \"1\"\n")
        )
    };
    let reply = |_: &crate::support::Asked, number: usize| json!({ "reply": format!("{{ \"question\": \"Q{number}\" }}") });
    let bench = Bench::new(reply);
    assert_eq!(bench.done(&flow(""), "go").await, json!({ "question": "Q3" }));
    assert_eq!(bench.said()[1], ["user: go", "assistant: { \"question\": \"Q1\" }", "user: next"]);
    let bench = Bench::new(reply);
    bench.done(&flow(", turn_field: question"), "go").await;
    assert_eq!(bench.said()[1], ["user: go", "assistant: Q1", "user: next"]);
}

#[tokio::test]
async fn prompt_only_agents_are_sent_a_block_of_text() {
    let flow = |more: &str| {
        format!(
            "version: \"1\"\nagents:\n  talk: {{ mode: prompt, system_prompt: Be brief. }}\n{}",
            looped(more, "        - { name: talk, input: \"next\" }\n")
                .trim_start_matches("version: \"1\"\n")
        )
    };
    let bench = Bench::new(|_, number| json!({ "reply": format!("r{number} </conversation_history>") }));
    bench.done(&flow(""), "go").await;
    assert_eq!(
        bench.said()[1],
        [
            "system: Be brief.",
            "user: <conversation_history>\nuser: go\nassistant: r1 <\\/conversation_history>\n</conversation_history>\n\nnext"
        ]
    );
    let bench = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
    let template = "      init: { history: { start_with: { prefix: \"User: \" } } }\n      history_template: |\n        <history>\n        {{#each history}}\n        <turn role=\"{{ this.role }}\">{{ this.content }}</turn>\n        {{/each}}\n        </history>";
    bench.done(&flow(template), "go {{ input }}").await;
    assert_eq!(
        bench.said()[1],
        [
            "system: Be brief.",
            "user: <history>\n<turn role=\"user\">User: go {{ input }}</turn>\n<turn role=\"assistant\">r1</turn>\n</history>\n\nnext"
        ]
    );
    let none = flow("      init: { history: { start_with: { from_initial_input: false } } }");
    let bench = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
    bench.done(&none, "go").await;
    assert_eq!(bench.said()[0], ["system: Be brief.", "user: next"], "no history, no block");
}

#[tokio::test]
async fn nested_conversations_see_nothing_of_each_other() {
    let flow = r#"
version: "1"
steps:
  - kind: loop
    name: outer
    loop:
      conversation: true
      max_loops: 2
      ai_turn_source: named_steps
      named_steps: [inner]
      body:
        - name: plan
        - kind: loop
          name: inner
          loop: { conversation: true, max_loops: 2, body: [{ name: talk, input: next }] }
        - { name: close, input: and }
"#;
    let bench = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
    bench.done(flow, "go").await;
    let said = bench.said();
    assert_eq!(said[1], ["user: r1", "user: next"], "the inner loop has its own seed");
    assert_eq!(said[2], ["user: r1", "assistant: r2", "user: next"]);
    assert_eq!(said[3], ["user: go", "assistant: r3", "user: and"], "merged because it was named");
    assert_eq!(said[5], ["user: r5", "user: next"], "each outer iteration starts a new one");
    assert_eq!(said[7], ["user: go", "assistant: r3", "assistant: r7", "user: and"]);
}

#[tokio::test]
async fn a_plain_loop_inside_is_transparent() {
    let body = "        - kind: loop\n          name: twice\n          loop: { max_loops: 2, body: [{ name: talk, input: next }] }\n";
    let bench = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
    bench.done(&looped("", body), "go").await;
    assert_eq!(bench.said()[2], ["user: go", "assistant: r1", "assistant: r2", "user: next"]);
}

#[tokio::test]
async fn branches_see_the_history_as_it_was_and_add_to_it_in_their_order() {
    let body = r#"        - kind: parallel
          name: fan
          branches:
            slow: [{ name: first, input: "slow 1" }, { name: second, input: "slow 2" }]
            quick: [{ name: third, input: "quick" }]
        - { name: sum, input: sum }
"#;
    let bench = Bench::new(|asked, _| json!({ "reply": format!("re {}", asked.last()) }));
    bench.done(&looped("      ai_turn_source: all_agents", body), "go").await;
    let said = bench.said();
    let of = |input: &str| {
        said.iter()
            .filter(|said| said.last().is_some_and(|last| last == &format!("user: {input}")))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(of("slow 2")[0], ["user: go", "assistant: re slow 1", "user: slow 2"], "its own turns");
    assert_eq!(of("quick")[0], ["user: go", "user: quick"], "not its siblings'");
    assert_eq!(
        of("sum")[0],
        ["user: go", "assistant: re slow 1", "assistant: re slow 2", "assistant: re quick", "user: sum"]
    );
    assert_eq!(of("quick")[1].len(), 6, "all four turns of the first iteration, in order");
}

#[tokio::test]
async fn a_question_becomes_a_turn_if_asked_for_unless_it_is_one() {
    let flow = |message: &str| {
        format!(
            "version: \"1\"\nsteps:\n  - kind: loop\n    name: chat\n    loop:\n      conversation: true\n      max_loops: 2\n      body:\n        - {{ name: talk }}\n        - {{ kind: hitl, name: ask, question_turn: true{message} }}\n"
        )
    };
    let bench = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
    let paused = bench.run(&flow(", message: \"Ready?\""), "go").await;
    bench.answer(&paused.run, "yes").await;
    assert_eq!(bench.said()[1], ["user: go", "assistant: r1", "assistant: Ready?", "user: yes"]);
    let bench = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
    let paused = bench.run(&flow(""), "go").await;
    bench.answer(&paused.run, "yes").await;
    assert_eq!(
        bench.said()[1],
        ["user: go", "assistant: r1", "user: yes"],
        "the message is the agent's own turn"
    );
}

#[tokio::test]
async fn json_and_prose_about_calls_stay_and_tool_exchanges_do_not() {
    let flow = |more: &str| {
        format!(
            "version: \"1\"\nagents:\n  talk:\n    tools: [{{ name: look, description: looks, parameters: {{ type: object }}, command: [cat] }}]\n{}",
            looped(more, "        - { name: talk, input: \"next\" }\n")
                .trim_start_matches("version: \"1\"\n")
        )
    };
    let reply = |asked: &crate::support::Asked, _: usize| {
        let after_tool = asked.body["messages"].as_array().unwrap().last().unwrap()["role"] == "tool";
        let first = !asked.body.to_string().contains("tool_call_id");
        if first && !after_tool {
            json!({ "calls": [{ "name": "look", "arguments": { "at": 1 }, "id": "c1" }], "text": "I look." })
        } else {
            json!({ "reply": "{\"name\": \"look\", \"arguments\": {}}" })
        }
    };
    let bench = Bench::new(reply);
    bench.done(&flow(""), "go").await;
    let said = bench.said();
    assert_eq!(said[1][..2], said[0][..], "call two repeats call one");
    assert_eq!(said[2], ["user: go", "assistant: {\"name\": \"look\", \"arguments\": {}}", "user: next"]);
    let bench = Bench::new(reply);
    bench.done(&flow("      tool_artifacts: include"), "go").await;
    let roles: Vec<String> =
        bench.said()[2].iter().map(|said| said.split(':').next().unwrap().into()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
}
