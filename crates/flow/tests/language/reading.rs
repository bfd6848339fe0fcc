//! Reading flows: the corpus with its expected messages, what is decided for a flow, and bad input.

use std::fmt::Write as _;
use std::path::Path;

use scrollback_flow::{
    Code, FlowProblem, FlowSettings, HistoryManagement, SeedFrom, Step, StepKind, Strategy, TurnRole,
};

use crate::{files, flow, read, read_in, repository};

/// Errors, then warnings, one a line.
fn told(errors: &[FlowProblem], warnings: &[FlowProblem]) -> String {
    let mut out = String::new();
    for (word, problems) in [("error", errors), ("warning", warnings)] {
        for problem in problems {
            let near = problem.suggestion.as_ref().map_or_else(String::new, |near| format!(" -> {near}"));
            let _ = writeln!(out, "{word} {problem}{near}");
        }
    }
    out
}

fn read_file(path: &Path) -> (Vec<FlowProblem>, Vec<FlowProblem>) {
    let text = std::fs::read_to_string(path).unwrap();
    match read_in(path.parent().unwrap(), &text, &FlowSettings::default()) {
        Ok(read) => (Vec::new(), read.warnings),
        Err(problems) => (problems.errors, problems.warnings),
    }
}

#[test]
fn good_flows_are_read_without_a_word() {
    for path in files(&repository("corpus/flows/good")) {
        let (errors, warnings) = read_file(&path);
        assert_eq!(told(&errors, &warnings), "", "{}", path.display());
    }
}

/// The expected messages stand beside each flow. `BLESS=1` writes them; read the difference before keeping it.
#[test]
fn every_problem_is_told_as_the_file_beside_it_says() {
    let mut codes = Vec::new();
    for folder in ["corpus/flows/broken", "corpus/flows/warned"] {
        for path in files(&repository(folder)) {
            let (errors, warnings) = read_file(&path);
            let told = told(&errors, &warnings);
            let beside = path.with_extension("txt");
            if std::env::var_os("BLESS").is_some() {
                std::fs::write(&beside, &told).unwrap();
            }
            let expected = std::fs::read_to_string(&beside).unwrap_or_default();
            assert_eq!(told, expected, "{}", path.display());
            assert_eq!(errors.is_empty(), folder.ends_with("warned"), "{}", path.display());
            codes.extend(errors.iter().chain(&warnings).map(|problem| problem.code));
        }
    }
    for code in Code::ALL {
        assert!(codes.contains(&code), "no flow of the corpus shows {code}");
    }
}

#[test]
fn codes_and_their_words_are_one_to_one() {
    let mut words: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), Code::ALL.len());
    let json: Vec<String> = Code::ALL.iter().map(|code| serde_json::to_string(code).unwrap()).collect();
    for (code, json) in Code::ALL.iter().zip(json) {
        assert_eq!(json, format!("\"{code}\""));
    }
}

/// The steps that make turns in a loop, with their roles.
fn roles(text: &str) -> Vec<(String, TurnRole)> {
    let flow = flow(text);
    let StepKind::Loop(inner) = &flow.steps[0].kind else { panic!("a loop comes first") };
    let conversation = inner.conversation.as_ref().unwrap();
    conversation.turns.iter().map(|(step, role)| (step.to_string(), role)).collect()
}

fn talk(settings: &str, body: &str) -> String {
    format!(
        "version: '1'\nagents: {{default: {{}}}}\nsteps:\n- kind: loop\n  name: talk\n  loop: {{conversation: true, {settings} body: [{body}]}}\n"
    )
}

/// Settings of a loop, its body, and the steps that make turns.
type Case<'c> = (&'c str, String, Vec<(&'c str, TurnRole)>);

#[test]
fn which_steps_make_turns_is_decided_by_position() {
    use TurnRole::{Assistant, User};
    let agent = |name: &str| format!("{{name: {name}}}");
    let (a, b, ask) = (agent("a"), agent("b"), "{kind: hitl, name: ask}".to_string());
    let frame = "{name: frame, template: x}";
    let route = "{kind: conditional, name: r, condition_expression: input, branches: {x: [{name: x1}, {name: x2}]}, default_branch: [{name: y}]}";
    let people = "{kind: map, name: m, over: '[1]', body: [{kind: hitl, name: h}]}";
    let plain = "{kind: loop, name: l, loop: {body: [{name: p}, {kind: hitl, name: q}]}}";
    let inner = "{kind: loop, name: i, loop: {conversation: true, body: [{name: deep}]}}";

    let cases: Vec<Case<'_>> = vec![
        ("", format!("{a}, {b}"), vec![("b", Assistant)]),
        ("", format!("{a}, {ask}"), vec![("a", Assistant), ("ask", User)]),
        ("", format!("{a}, {frame}"), vec![]),
        ("", format!("{a}, {route}"), vec![("x2", Assistant), ("y", Assistant)]),
        ("", format!("{a}, {people}"), vec![("a", Assistant), ("h", User)]),
        ("", format!("{a}, {plain}"), vec![("p", Assistant), ("q", User)]),
        ("", format!("{a}, {inner}"), vec![]),
        ("", ask.clone(), vec![("ask", User)]),
        (
            "ai_turn_source: all_agents,",
            format!("{a}, {plain}, {inner}, {frame}"),
            vec![("a", Assistant), ("p", Assistant), ("q", User)],
        ),
        (
            "ai_turn_source: named_steps, named_steps: [a, i],",
            format!("{a}, {b}, {inner}"),
            vec![("a", Assistant), ("i", Assistant)],
        ),
        ("user_turn_sources: [],", format!("{a}, {ask}"), vec![("a", Assistant)]),
        (
            "user_turn_sources: [frame],",
            format!("{a}, {ask}, {frame}, {b}"),
            vec![("b", Assistant), ("frame", User)],
        ),
        (
            "user_turn_sources: [named_steps], named_steps: [a],",
            format!("{a}, {b}"),
            vec![("a", User), ("b", Assistant)],
        ),
        (
            "ai_turn_source: named_steps, user_turn_sources: [named_steps], named_steps: [a, ask, frame, i],",
            format!("{a}, {ask}, {frame}, {inner}"),
            vec![("a", Assistant), ("ask", User), ("frame", User), ("i", Assistant)],
        ),
        ("user_turn_sources: [a],", a.clone(), vec![("a", User)]),
    ];
    for (settings, body, expected) in cases {
        let expected: Vec<_> = expected.into_iter().map(|(step, role)| (step.to_string(), role)).collect();
        assert_eq!(roles(&talk(settings, &body)), expected, "{settings} {body}");
    }
}

fn conversation_of(text: &str, see: impl FnOnce(&scrollback_flow::LoopMemory)) {
    let flow = flow(text);
    let StepKind::Loop(inner) = &flow.steps[0].kind else { panic!("a loop comes first") };
    see(inner.conversation.as_ref().unwrap());
}

#[test]
fn what_a_loop_leaves_open_is_decided() {
    conversation_of(&talk("", "{name: a}"), |talk| {
        let HistoryManagement::Bounds(bounds) = &talk.history else { panic!("bounds") };
        assert_eq!(
            (bounds.strategy, bounds.max_tokens, bounds.max_turns),
            (Strategy::TruncateTokens, Some(16_384), None)
        );
        assert!(matches!(talk.seed.from, SeedFrom::Input) && talk.history_template.is_none());
    });
    conversation_of(&talk("history_management: {max_turns: 3},", "{name: a}"), |talk| {
        let HistoryManagement::Bounds(bounds) = &talk.history else { panic!("bounds") };
        assert_eq!(
            (bounds.max_tokens, bounds.max_turns),
            (None, Some(3)),
            "a bound that is given stands alone"
        );
    });
    conversation_of(&talk("history_management: {strategy: summarize},", "{name: a}"), |talk| {
        let HistoryManagement::Bounds(bounds) = &talk.history else { panic!("bounds") };
        assert_eq!((bounds.max_tokens, bounds.summarize_ratio), (Some(16_384), 0.5));
        assert!(bounds.summarizer.is_none());
    });
    conversation_of(&talk("history_management: [fit],", "{name: a}"), |talk| {
        assert!(
            matches!(&talk.history, HistoryManagement::Managers(list) if list.manager.name() == "compose")
        );
    });
    conversation_of(
        &talk("init: {history: {start_with: {from_initial_input: false}}},", "{name: a}"),
        |talk| {
            assert!(matches!(talk.seed.from, SeedFrom::Nothing));
        },
    );
    conversation_of(
        &talk("init: {history: {start_with: {text: hi, prefix: 'U: '}}},", "{name: a}"),
        |talk| {
            assert!(matches!(talk.seed.from, SeedFrom::Text(_)));
            assert_eq!(talk.seed.prefix, "U: ");
        },
    );
}

fn step<'f>(flow: &'f scrollback_flow::Flow, name: &str) -> &'f Step {
    flow.step(name).unwrap_or_else(|| panic!("there is no {name}"))
}

#[test]
fn steps_find_their_agents_and_histories() {
    let flow = flow(
        "version: '1'
agents:
  default: {max_output_tokens: 10}
  named: {max_output_tokens: 20}
  other: {max_output_tokens: 30}
steps:
  - {name: named}
  - {name: anonymous}
  - {name: explicit, agent: other}
  - kind: loop
    name: chat
    loop:
      conversation: true
      body:
        - {name: inside}
        - {name: without, use_history: false}
        - {kind: loop, name: plain, loop: {body: [{name: deep}]}}
",
    );
    let agent = |name: &str| match &step(&flow, name).kind {
        StepKind::Agent(step) => (step.agent.max_output_tokens, step.use_history),
        _ => panic!("{name} is an agent step"),
    };
    assert_eq!(agent("named"), (20, false));
    assert_eq!(agent("anonymous"), (10, false));
    assert_eq!(agent("explicit"), (30, false));
    assert_eq!(agent("inside"), (10, true));
    assert_eq!(agent("without"), (10, false));
    assert_eq!(agent("deep"), (10, true), "a plain loop is transparent");
    assert_eq!(flow.all_steps().len(), 8);
    assert_eq!(step(&flow, "named").input.as_str(), "{{ previous }}");
}

#[test]
fn prompt_files_are_kept_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.md"), "Line one.\n").unwrap();
    let text = "version: '1'\nagents: {a: {system_prompt: {file: ./p.md}}}\nsteps: [{name: a}]\n";
    let read = read_in(folder.path(), text, &FlowSettings::default())
        .unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(read.flow.agents["a"].system_prompt.as_deref(), Some("Line one.\n"));
    assert_eq!(read.flow.prompt_files["./p.md"], "Line one.\n");
    std::fs::remove_file(folder.path().join("p.md")).unwrap();
    let settings = FlowSettings::default();
    let catalog = scrollback_agent::provider::Catalog::default();
    let environment: scrollback_agent::provider::Environment = std::sync::Arc::new(|_| None);
    let source = scrollback_flow::ReadOptions {
        stem: "again",
        folder: folder.path(),
        prompts: scrollback_flow::Prompts::Kept(&read.flow.prompt_files),
        settings: &settings,
        catalog: &catalog,
        environment: &environment,
    };
    let again = scrollback_flow::Flow::read(text, &source).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(again.flow.agents["a"].system_prompt.as_deref(), Some("Line one.\n"));
    assert_eq!(again.flow.name, "again");
}

#[cfg(unix)]
#[test]
fn a_prompt_file_may_not_lie_outside_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("flow");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(folder.path().join("out.md"), "out").unwrap();
    std::os::unix::fs::symlink(folder.path().join("out.md"), inside.join("link.md")).unwrap();
    let absolute = folder.path().join("out.md").display().to_string();
    for file in ["../out.md", "link.md", "a/../../out.md", &absolute, ""] {
        let text = format!(
            "version: '1'\nagents: {{a: {{system_prompt: {{file: {file:?}}}}}}}\nsteps: [{{name: a}}]\n"
        );
        let problems = read_in(&inside, &text, &FlowSettings::default()).err().unwrap();
        assert_eq!(problems.errors.len(), 1, "{problems}");
        assert!(problems.errors[0].message.contains("outside the flow's folder"), "{problems}");
    }
}

#[test]
fn bad_input_is_refused_quickly_and_with_a_reason() {
    let code = |text: &str| {
        let problems = read(text).err().unwrap();
        (problems.errors[0].code, problems.errors.len())
    };
    // A megabyte in one scalar, one byte too much, and a lot of names.
    let scalar =
        |length: usize| format!("version: '1'\nsteps: [{{name: a, template: {}}}]", "x".repeat(length));
    assert!(read(&scalar((1 << 20) - 60)).is_ok());
    assert_eq!(code(&scalar(1 << 20)), (Code::YamlSyntax, 1));
    let keys = (0..6_000)
        .fold(String::from("version: '1'\nsteps: []\n"), |text, number| text + &format!("k{number}: 1\n"));
    assert_eq!(code(&keys), (Code::OutOfRange, 1000), "the first thousand are enough");
    let twice = "version: '1'\n".repeat(5_000);
    assert_eq!(code(&twice).0, Code::MissingKey);
    for deep in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(50_000)] {
        assert_eq!(code(&deep).0, Code::YamlSyntax);
    }
    let bodies = |depth: usize| {
        let mut text = String::from("{name: a, template: x}");
        for number in 0..depth {
            text = format!("{{kind: loop, name: l{number}, loop: {{body: [{text}]}}}}");
        }
        format!("version: '1'\nsteps: [{text}]\n")
    };
    assert!(read(&bodies(15)).is_ok());
    assert_eq!(code(&bodies(40)).0, Code::YamlSyntax, "people do not nest this deep by hand");
    // Work is linear in the tags, right or wrong.
    let tags = |tag: &str| format!("version: '1'\nsteps: [{{name: a, template: '{}'}}]\n", tag.repeat(5_000));
    assert!(read(&tags("{{ input }} {{ steps.a.output }}")).is_ok());
    assert_eq!(code(&tags("{{ steps.b.output }}")), (Code::UnknownStep, 1000));
    assert_eq!(code(&tags("{{ item }}")).0, Code::UnknownName);
    // An alias inside what it names, and one of nothing.
    assert_eq!(code("a: &a [*a]\n").0, Code::YamlSyntax);
    assert_eq!(code("a: *b\n").0, Code::YamlSyntax);
}

#[test]
fn aliases_may_add_ten_thousand_values_and_not_more() {
    let text = |uses: usize| {
        let list = vec!["x"; 99].join(", ");
        let uses = vec!["*a"; uses].join(", ");
        format!(
            "version: '1'\nagents: {{z: {{output_schema: {{enum: &a [{list}], examples: [{uses}]}}}}}}\nsteps: [{{name: z}}]\n"
        )
    };
    assert!(read(&text(100)).is_ok(), "a list of 99 is 100 values");
    let problems = read(&text(101)).err().unwrap();
    assert!(problems.errors[0].message.contains("10,000"), "{problems}");
}

#[test]
fn messages_about_secrets_do_not_tell_them() {
    let path = repository("corpus/flows/broken/secret_in_flow.yaml");
    let (errors, warnings) = read_file(&path);
    let told = told(&errors, &warnings);
    assert!(!told.contains("Zx8Zx8") && !told.contains("hunter2") && !told.contains("a1B2"), "{told}");
    assert_eq!(errors.iter().filter(|problem| problem.code == Code::SecretInFlow).count(), 5, "{told}");
}
