//! Agents as tools, prompts as tools, expressions, and one agent after another.

use std::collections::BTreeMap;

use scrollback_agent::subagent::{EndReason, NotChained, print_chain};
use serde_json::json;

use crate::support::{agent, ended, host, programs, run, scripted, text, value, with};

#[tokio::test]
async fn an_agent_calls_another_and_both_are_linked() {
    let helper = agent("name: helper\nmission: 'Double {{n}}.'\nsignature: '(n :int) -> :int'\n").await;
    let mut boss = agent("name: boss\nmission: Ask the helper.\n").await;
    boss.add_tool(helper.as_tool("helper", Some("Doubles")).unwrap()).unwrap();
    let (host, bodies) = host();
    let model = programs(&["(def x (tool/helper {:n 21}))", "(return (* 2 data/n))", "(return x)"]);
    let step = run(&boss, &with(model), &host).await;
    assert_eq!(ended(&step), "done 42");
    assert!(text(&bodies, 0, 1).contains("tool/helper(n :int) -> :int  ; Doubles"));
    assert!(text(&bodies, 1, 1).starts_with("Double 21."), "the model is inherited");
    assert_eq!(step.children.len(), 1);
    let own: u64 = step.turns.iter().map(|turn| turn.usage.model.total()).sum();
    assert!(step.usage.total() > own, "what the helper used is counted");
    let plain = agent("mission: Do it.\n").await;
    assert!(plain.as_tool("x", None).is_err(), "without a signature it is no tool");
}

#[tokio::test]
async fn depth_and_turns_are_shared_in_the_family() {
    let leaf = agent("name: leaf\nmission: 'Say {{n}}.'\nsignature: '(n :int) -> :int'\n").await;
    let mut middle = agent("name: middle\nmission: 'Pass {{n}}.'\nsignature: '(n :int) -> :int'\n").await;
    middle.add_tool(leaf.as_tool("leaf", None).unwrap()).unwrap();
    let mut top = agent("name: top\nmission: Go.\nmax_depth: 2\n").await;
    top.add_tool(middle.as_tool("middle", None).unwrap()).unwrap();
    let (host, _) = host();
    let model = programs(&["(tool/middle {:n 1})", "(tool/leaf {:n 1})", "(fail \"no leaf\")", "(return 0)"]);
    let step = run(&top, &with(model), &host).await;
    let call = step.turns[0].tool_calls[0].result.as_ref().unwrap_err();
    assert_eq!(call, "failed: no leaf");
    assert_eq!(ended(&step), "done 0");

    let mut top = agent("name: top\nmission: Go.\nturn_budget: 2\n").await;
    top.add_tool(leaf.as_tool("leaf", None).unwrap()).unwrap();
    let step = run(&top, &with(programs(&["(tool/leaf {:n 1})", "(return 1)", "(return 2)"])), &host).await;
    assert_eq!(step.end(), EndReason::TurnBudgetExhausted);
}

#[tokio::test]
async fn prompts_and_expressions_are_tools() {
    let agent = agent(
        "mission: Label and count.\ncompression: on\ntools:\n  classify: {signature: '(text :string) -> {label :keyword}', llm: 'Label this: {{text}}'}\n  \
         weekday: {signature: '(day :string) -> :string', lisp: '(.getDayOfWeek (LocalDate/parse day))'}\n  \
         bad: {signature: '(x :int?) -> :any', lisp: '(fail (str \"x is \" x))'}\n",
    )
    .await;
    let (host, bodies) = host();
    let model = scripted(
        &json!([
            { "reply": "```clojure\n(def l (tool/classify \"buy now\"))\n(def d (tool/weekday \"2024-01-15\"))\n```" },
            { "expect": { "contains": ["Label this: buy now", "(return {label :keyword})", "FINAL TURN"] }, "reply": "```clojure\n{:label :spam}\n```" },
            { "reply": "```clojure\n(tool/bad)\n```" },
            { "reply": "```clojure\n(return [l d])\n```" },
        ])
        .to_string(),
    );
    let step = run(&agent, &with(model), &host).await;
    let errors: Vec<_> = step.turns.iter().map(|turn| turn.error.clone()).collect();
    assert_eq!(ended(&step), "done [{:label :spam} \"MONDAY\"]", "{errors:?}");
    assert_eq!(step.turns[1].error.as_ref().unwrap().message, "Tool 'bad' failed: x is ");
    assert!(text(&bodies, 3, 1).contains(";   classify({:text \"buy now\"}) => {:label :spam}"));
}

#[tokio::test]
async fn one_agent_goes_on_with_what_another_returned() {
    let first = agent("name: first\nmission: Find a number.\n").await;
    let second = agent("name: second\nmission: 'Double {{n}}.'\nsignature: '(n :int) -> :int'\n").await;
    let (host, bodies) = host();
    let found = run(&first, &with(programs(&["(return {:n 4})"])), &host).await;
    let step = run(&second.then(&found).unwrap(), &with(programs(&["(return (* 2 data/n))"])), &host).await;
    assert_eq!(ended(&step), "done 8");
    assert!(text(&bodies, 1, 1).starts_with("Double 4."));
    let lines = print_chain(&[&found, &step]);
    assert_eq!(lines, ["first  done  1 turn  0.0 s", "second  done  1 turn  0.0 s"]);

    let failed = run(&first, &with(programs(&["(fail \"none\")"])), &host).await;
    let asked = bodies.lock().unwrap().len();
    assert!(matches!(second.then(&failed), Err(NotChained::ChainedFailure(why)) if why.contains("none")));
    let lacking = run(&first, &with(programs(&["(return {:m 4})"])), &host).await;
    assert!(matches!(second.then(&lacking), Err(NotChained::Missing(_))));
    let bare = run(&first, &with(programs(&["(return 4)"])), &host).await;
    assert!(matches!(second.then(&bare), Err(NotChained::NoMap(_))));
    assert_eq!(bodies.lock().unwrap().len(), asked + 2, "chaining asks nobody");
}

#[tokio::test]
async fn data_that_does_not_fit_is_refused_before_anybody_is_asked() {
    let agent = agent("mission: 'Take {{n}}.'\nsignature: '(n :int, rows [{id :int}]) -> :int'\n").await;
    let (host, bodies) = host();
    let data: BTreeMap<_, _> =
        [("n".to_string(), value("1")), ("rows".to_string(), value("[{\"id\" \"x\"}]"))].into();
    let refused = agent.run(&data, &with(programs(&["1"])), &host, &mut host.journal()).await.err().unwrap();
    assert_eq!(refused.to_string(), "data rows[0].id: expected int, got string");
    let refused =
        agent.run(&BTreeMap::new(), &with(programs(&["1"])), &host, &mut host.journal()).await.err().unwrap();
    assert!(refused.to_string().contains("data n: expected int, got nil"), "{refused}");
    assert!(bodies.lock().unwrap().is_empty());
}
