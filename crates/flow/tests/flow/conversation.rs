//! Conversational loops: who becomes a turn, and what every agent is sent.

use scrollback_flow::driver::Status;
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
    assert_eq!(first.status, Status::Paused, "{first:?}");
    assert_eq!((first.pauses.len(), first.pauses[0].message.as_str()), (1, "question 1"));
    let second = bench.answer(&first.run, "in May").await;
    assert_eq!(second.status, Status::Paused, "{second:?}");
    let last = bench.answer(&first.run, "stop").await;
    assert_eq!((last.status, last.output), (Status::Done, json!("stop")));
    assert_eq!(
        bench.said(),
        [
            vec!["system: Ask one question.", "user: Plan a trip"],
            vec!["system: Ask one question.", "user: Plan a trip", "assistant: question 1", "user: in May"],
        ]
    );
}
