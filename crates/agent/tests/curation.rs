//! Every manager, by what the model was sent in a run. Without curation every one of these cases fails, and a test here
//! makes sure that they would.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::fmt::Write;
use std::sync::Arc;

use scrollback_agent::event::PromptRendered;
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::Scripted;
use scrollback_agent::provider::script::Script;
use scrollback_agent::runner::{EvaluationEnd, Prompt, Runner};
use scrollback_agent::session::{Session, SessionStart, SliceItem, SliceKind, append_unique};
use scrollback_agent::tool::tool;
use scrollback_core::manager::{Passthrough, SharedManager, parse};
use scrollback_core::model::ModelName;
use scrollback_core::{CurationContext, CurationError, HistoryManager, Record, View};
use serde_json::{Value, json};

/// A manager, and what the last request of five queries with a tool exchange each must look like under it.
struct Case {
    manager: &'static str,
    expect: &'static str,
}

/// Five queries: `question N`, a call of `dump` that answers with `result N` and much more, `answer N`.
async fn run(manager: SharedManager, expect: &str) -> Result<(), String> {
    let mut script = String::new();
    for turn in 0..5 {
        let last = turn == 4;
        let expect = if last { format!("expect: {expect}, ") } else { String::new() };
        let _ = writeln!(script, "- {{calls: [{{name: dump, arguments: {{turn: {turn}}}}}]}}");
        let _ = writeln!(script, "- {{{expect}reply: answer {turn}}}");
    }
    let script = Script::parse(&script).unwrap_or_else(|problems| panic!("{problems:?}"));
    let model = ModelName::parse("offline:script=test").unwrap();
    let mut runner = Runner::new(Arc::new(Scripted::new(model, Arc::new(script))));
    runner.manager = manager;
    let dump = tool("dump", "", json!({}), |args: Value| async move {
        Ok(json!(format!("result {} {}", args["turn"], "word ".repeat(200))))
    });
    runner.tools.add(Arc::new(dump)).unwrap();
    let mut journal = Journal::memory(Record::new());
    for turn in 0..5 {
        let user = format!("question {turn}");
        let prompt =
            Prompt { name: "test".into(), system: Some("Be brief.".into()), user, response_format: None };
        let done = runner.run(&mut journal, &prompt).await;
        match done.ended {
            EvaluationEnd::Replied { .. } => {}
            EvaluationEnd::Failed(error) => return Err(error.to_string()),
            EvaluationEnd::Paused(_) => return Err("paused".into()),
        }
    }
    assert_eq!(journal.record().message_count(), 21, "whatever was sent, everything is kept");
    Ok(())
}

macro_rules! cases {
    ($($name:ident: $manager:expr, $expect:expr;)*) => {
        const CASES: &[Case] = &[$(Case { manager: $manager, expect: $expect }),*];
        $(#[tokio::test]
        async fn $name() {
            run(parse($manager).unwrap(), $expect).await.unwrap();
        })*
    };
}

cases! {
    sliding_window: "sliding_window(4)",
        "{absent: [question 3, result 3], contains: [question 4, result 4], count: 5, roles: [system, assistant, user, assistant, tool]}";
    turn_window: "turn_window(2)",
        "{absent: [question 2, answer 2], contains: [question 3, answer 3, question 4, result 4], count: 8}";
    token_budget: "token_budget(600)",
        "{absent: [question 1, result 2], contains: [Be brief., question 4, result 4]}";
    tool_result_truncator: "tool_result_truncator(100)",
        "{contains: ['[truncated]', result 0, result 4], count: 20, absent: ['word word word word word word word word word word word word word word word word word word word word word word word word']}";
    clear_tool_results: "clear_tool_results(1)",
        "{contains: ['[tool result cleared]', result 4, question 0], absent: [result 0, result 3], count: 20}";
    trajectory_window: "trajectory_window(max_steps=8, preserve_first=2, preserve_last=4)",
        "{absent: [result 1, answer 1, question 2], contains: [question 0, question 4, result 4]}";
    summarize: "summarize(max_turns=2, keep_recent=1)",
        "{contains: ['Summary of the earlier conversation:', '- user: question 0', question 4, result 4], absent: [result 0, result 1]}";
    relevant: "relevant(700)",
        "{contains: [question 4, result 4], absent: [result 1]}";
    sticky: "sticky(sliding_window(8), low=4)",
        "{absent: [question 0, result 0], contains: [question 4, result 4]}";
    sticky_budget: "sticky(token_budget(900))",
        "{absent: [question 0, result 0], contains: [question 4, result 4]}";
    compose: "compose(clear_tool_results(1), turn_window(3))",
        "{absent: [question 1, result 2, result 3], contains: ['[tool result cleared]', question 2, question 4], count: 12}";
    fit: "fit(window=1000, reserve=100)",
        "{absent: [question 0, result 0], contains: [question 4, result 4]}";
}

#[tokio::test]
async fn without_curation_every_case_fails() {
    let mut failed = 0;
    for case in CASES {
        match run(Arc::new(Passthrough), case.expect).await {
            Err(why) if why.contains("not what the script expects") => failed += 1,
            other => panic!("{} is not told from passthrough: {other:?}", case.manager),
        }
    }
    assert!(failed >= 10, "{failed}");
}

/// A manager of an application: it keeps what the session says matters.
struct OnlyTopics;

#[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Topic(String);

impl SliceItem for Topic {
    const NAME: &'static str = "Topic";
    const KIND: SliceKind = SliceKind::State;
}

impl HistoryManager for OnlyTopics {
    fn name(&self) -> &'static str {
        "only_topics"
    }

    fn curate<'r>(&self, mut view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        let topics = cx.session::<Session>().map(Session::select_all::<Topic>).unwrap_or_default();
        let matters = |item: &scrollback_core::ViewItem| {
            let text = item.entry.content().unwrap_or_default();
            topics.iter().any(|topic| text.contains(&topic.0))
        };
        view.retain(self.name(), |group| group.iter().any(matters));
        Ok(view)
    }
}

#[tokio::test]
async fn a_manager_of_the_application_reads_its_session() {
    let script = Script::parse(
        "- reply: about cats\n- reply: about dogs\n- expect: {contains: [cats, birds], absent: [dogs]}\n  reply: about birds\n",
    );
    let script = script.unwrap_or_else(|problems| panic!("{problems:?}"));
    let model = ModelName::parse("offline:script=test").unwrap();
    let mut runner = Runner::new(Arc::new(Scripted::new(model, Arc::new(script))));
    let session =
        Session::new(&runner.bus, SessionStart { id: "s".into(), ..SessionStart::default() }).unwrap();
    session.register::<PromptRendered, Topic>(|topics, _, _| Ok(append_unique(topics, Topic("cats".into()))));
    runner.session = Some(session);
    runner.manager = Arc::new(OnlyTopics);
    let mut journal = Journal::memory(Record::new());
    for user in ["tell me of cats", "tell me of dogs", "tell me of birds"] {
        let prompt = Prompt { name: "test".into(), user: user.into(), ..Prompt::default() };
        let done = runner.run(&mut journal, &prompt).await;
        assert!(matches!(done.ended, EvaluationEnd::Replied { .. }), "{:?}", done.ended);
    }
}
