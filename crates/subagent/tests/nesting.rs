//! Agents as tools, prompts as tools, expressions, and one agent after another.

use std::collections::BTreeMap;

use scrollback_subagent::compression::parse;
use scrollback_subagent::{InheritedSettings, SubAgent, SubagentErrorKind, print_chain};
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
async fn what_an_agent_does_not_say_it_has_from_its_caller() {
    // Compression and instructions, of the caller and of the one that is called: the shape of the latter's second request.
    let careful = "system_prompt: {prefix: You are careful.}\n";
    for (caller, called, messages, instructed) in [
        ("compression: on\n", "", 2, "You solve"),
        ("", "compression: on\n", 2, "You solve"),
        ("compression: on\n", "compression: off\n", 4, "You solve"),
        (careful, "", 4, "You are careful."),
        (careful, "system_prompt: Be quick.\n", 4, "Be quick."),
    ] {
        let mut boss = agent(&format!("name: boss\nmission: Ask.\n{caller}")).await;
        boss.add_tool(numbered("helper", called).await.as_tool("helper", None).unwrap()).unwrap();
        let (host, bodies) = host();
        let model = programs(&["(tool/helper {:n 1})", "(def x 1)", "(return x)", "(return 0)"]);
        assert_eq!(ended(&run(&boss, &with(model), &host).await), "done 0");
        let sent = bodies.lock().unwrap()[2]["messages"].as_array().unwrap().len();
        assert_eq!(sent, messages, "{caller}{called}");
        assert!(text(&bodies, 2, 0).starts_with(instructed), "{caller}{called}");
        assert!(text(&bodies, 2, 1).starts_with("helper 1."));
    }
    // What is given to a run stands over what the agents say.
    let mut boss = agent("name: boss\nmission: Ask.\ncompression: off\n").await;
    boss.add_tool(numbered("helper", "").await.as_tool("helper", None).unwrap()).unwrap();
    let (host, bodies) = host();
    let model = programs(&["(tool/helper {:n 1})", "(def x 1)", "(return x)", "(return 0)"]);
    let given = InheritedSettings { compression: parse("on").ok(), ..with(model) };
    run(&boss, &given, &host).await;
    assert_eq!(bodies.lock().unwrap()[2]["messages"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn expressions_prompts_and_agents_have_the_time_they_are_given() {
    let agent = agent(
        "mission: Go.\nmax_turns: 9\ntools:\n  spin: {signature: '() -> :any', lisp: '(loop [i 0] (recur (inc i)))', timeout: 20ms}\n  \
         ask: {signature: '(text :string) -> :any', llm: 'Say {{text}}.', timeout: 500ms}\n",
    )
    .await;
    let clock = std::sync::Arc::new(scrollback_agent::FakeClock::default());
    let (mut host, bodies) = crate::support::plain_host();
    host.clock = clock.clone();
    // The model takes longer than its time for the second question.
    host.bus.subscribe::<scrollback_agent::event::RequestSent>(move |_| {
        if bodies.lock().unwrap().len() == 2 {
            clock.advance(std::time::Duration::from_secs(1));
        }
        Ok(())
    });
    let model = programs(&["(tool/spin)", "(tool/ask \"x\")", "1", "(return 1)"]);
    let step = run(&agent, &with(model), &std::sync::Arc::new(host)).await;
    let error = |turn: usize| step.turns[turn].tool_calls[0].result.clone().unwrap_err();
    assert_eq!(error(0), "execution exceeded 20 ms");
    assert_eq!(error(1), "mission_timeout: the deadline has passed; raise mission_timeout");
    assert_eq!(ended(&step), "done 1");
}

/// An agent that takes and returns a number.
async fn numbered(name: &str, more: &str) -> SubAgent {
    agent(&format!("name: {name}\nmission: '{name} {{{{n}}}}.'\nsignature: '(n :int) -> :int'\n{more}")).await
}

#[tokio::test]
async fn agents_call_agents_only_so_deep() {
    let leaf = numbered("leaf", "").await;
    let told = "max_depth_exceeded: agents may call agents 2 deep; raise max_depth";
    // What the one at the top says holds, and what one on the way says besides.
    for (top, middle) in
        [("max_depth: 2\n", ""), ("", "max_depth: 1\n"), ("max_depth: 2\n", "max_depth: 5\n")]
    {
        let mut middle = numbered("middle", middle).await;
        middle.add_tool(leaf.as_tool("leaf", None).unwrap()).unwrap();
        let mut top = agent(&format!("name: top\nmission: Go.\n{top}")).await;
        top.add_tool(middle.as_tool("middle", None).unwrap()).unwrap();
        let (host, bodies) = host();
        let model =
            programs(&["(tool/middle {:n 1})", "(tool/leaf {:n 1})", "(fail \"no leaf\")", "(return 0)"]);
        let step = run(&top, &with(model), &host).await;
        assert_eq!(ended(&step), "done 0");
        assert_eq!(bodies.lock().unwrap().len(), 4, "the leaf asked no model");
        assert_eq!(text(&bodies, 2, 3), format!("Error: Tool 'leaf' failed: {told}\n\nTurns left: 4"));
        assert_eq!(step.turns[0].tool_calls[0].result, Err("failed: no leaf".into()));
    }
    let mut alone = agent("name: alone\nmission: Go.\nmax_depth: 1\nmax_turns: 1\n").await;
    alone.add_tool(leaf.as_tool("leaf", None).unwrap()).unwrap();
    let (host, _) = host();
    let step = run(&alone, &with(programs(&["(tool/leaf {:n 1})"])), &host).await;
    let error = step.turns[0].error.as_ref().unwrap();
    assert_eq!(error.reason, "tool_error");
    assert_eq!(
        error.message,
        "Tool 'leaf' failed: max_depth_exceeded: agents may call agents 1 deep; raise max_depth"
    );
}

#[tokio::test]
async fn turns_are_shared_in_the_family_and_a_child_may_have_fewer() {
    let (host, bodies) = host();
    let mut top = agent("name: top\nmission: Go.\nturn_budget: 2\n").await;
    top.add_tool(numbered("leaf", "turn_budget: 9\n").await.as_tool("leaf", None).unwrap()).unwrap();
    let step = run(&top, &with(programs(&["(tool/leaf {:n 1})", "(return 1)", "(return 2)"])), &host).await;
    assert_eq!(
        ended(&step),
        "turn_budget_exhausted 2 turns were used by this agent and those it called; raise turn_budget"
    );
    assert_eq!(bodies.lock().unwrap().len(), 2, "the turn that was too much asked no model");

    let mut top = agent("name: top\nmission: Go.\n").await;
    top.add_tool(numbered("leaf", "turn_budget: 1\n").await.as_tool("leaf", None).unwrap()).unwrap();
    let step = run(&top, &with(programs(&["(tool/leaf {:n 1})", "1", "(return 2)"])), &host).await;
    assert_eq!(ended(&step), "done 2", "its caller goes on");
    let told = "turn_budget_exhausted: 1 turn was used by this agent and those it called; raise turn_budget";
    assert_eq!(step.turns[0].tool_calls[0].result, Err(told.into()));
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

    let asked = bodies.lock().unwrap().len();
    let lacking = run(&first, &with(programs(&["(return {:m 4})"])), &host).await;
    let kind = |chained: Result<SubAgent, scrollback_subagent::SubagentError>| {
        chained.err().map(|error| error.kind())
    };
    assert_eq!(kind(second.then(&lacking)), Some(SubagentErrorKind::Data));
    let bare = run(&first, &with(programs(&["(return 4)"])), &host).await;
    assert_eq!(kind(second.then(&bare)), Some(SubagentErrorKind::NotAMap));
    assert_eq!(bodies.lock().unwrap().len(), asked + 2, "chaining asks no model");
}

#[tokio::test]
async fn after_a_step_that_failed_nobody_is_asked() {
    let first = agent("name: first\nmission: Find a number.\n").await;
    let (second, third) = (numbered("second", "").await, numbered("third", "").await);
    let (host, bodies) = host();
    let model = with(programs(&["(fail \"none\")"]));
    let failed = run(&first, &model, &host).await;
    let after = run(&second.then(&failed).unwrap(), &model, &host).await;
    assert_eq!(ended(&after), "chained_failure first ended before it (failed): none");
    assert_eq!((after.name.as_str(), after.turns.len(), after.sent.calls.len()), ("second", 0, 0));
    let last = run(&third.then(&after).unwrap(), &model, &host).await;
    assert_eq!(ended(&last), ended(&after), "the first cause, however long the chain is");
    assert_eq!(last.to_json()["fail"]["reason"], "chained_failure");
    assert_eq!(bodies.lock().unwrap().len(), 1, "only the first asked");
    let lines = print_chain(&[&failed, &after, &last]);
    assert_eq!(
        lines[1..],
        ["second  chained_failure  0 turns  0.0 s", "third  chained_failure  0 turns  0.0 s"]
    );
}

#[tokio::test]
async fn what_a_step_says_about_its_return_goes_with_it() {
    let first =
        agent("name: first\nmission: Find.\ndescriptions: {n: 'How many; at most', m: Not returned}\n").await;
    let plain = agent("name: plain\nmission: 'Take {{n}}.'\nsignature: '(n :int) -> :int'\n").await;
    let own =
        agent("name: own\nmission: Take.\ndescriptions: {n: Its own words, x: The other}\ndata: {x: 1}\n")
            .await;
    let (host, bodies) = host();
    let found = run(&first, &with(programs(&["(return {:n 4})"])), &host).await;
    for next in [&plain, &own] {
        let model = with(programs(&["(def y 1)", "(return 1)"]));
        let mut journal = host.journal();
        let step =
            next.then(&found).unwrap().run(&BTreeMap::new(), &model, &host, &mut journal).await.unwrap();
        assert_eq!(ended(&step), "done 1");
        let recorded = scrollback_subagent::RecordedMission::of(journal.record()).unwrap();
        assert_eq!(recorded.input.descriptions, step.sent.input.descriptions, "kept with the mission");
    }
    let line =
        "\n;; === data/ ===\ndata/n                        ; \"How many at most\" integer, sample: 4\n";
    for request in [1, 2] {
        assert!(text(&bodies, request, 1).contains(line), "{}", text(&bodies, request, 1));
    }
    assert!(
        text(&bodies, 3, 1)
            .contains("data/n                        ; \"Its own words\" integer, sample: 4\n")
    );
    assert!(
        text(&bodies, 3, 1).contains("data/x                        ; \"The other\" integer, sample: 1\n")
    );
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
