//! Which setting wins, and what `--effective` lists.

use std::path::PathBuf;

use scrollback_flow::settings::{HistorySettings, LimitSettings, Located, Set, SettingOrigin};
use scrollback_flow::{
    FlowSettings, HistoryManagement, HistoryMode, MicroDollars, QuotaLimits, StepKind, Strategy,
};
use serde_json::{Value, json};

use crate::{read_in, repository};

fn by_file<T>(value: T) -> Set<T> {
    Set { value, from: SettingOrigin::File(PathBuf::from("scrollback.toml")) }
}

fn configured() -> FlowSettings {
    let folder = repository("corpus/flows/good");
    let field = |said: Value| by_file(Located { said, folder: folder.clone() });
    let shared = [
        ("model".to_string(), field(json!("offline:echo"))),
        ("max_output_tokens".to_string(), field(json!(99))),
        ("system_prompt".to_string(), field(json!({ "file": "prompts/writer.md" }))),
    ];
    FlowSettings {
        default_model: Some(by_file(Located { said: "openai:gpt-4o".into(), folder: folder.clone() })),
        max_loops: Some(by_file(9)),
        history: HistorySettings {
            strategy: Some(by_file(Strategy::Summarize)),
            max_tokens: Some(by_file(500)),
            max_turns: Some(by_file(7)),
            summarizer_agent: Some(by_file("shared".into())),
            summarize_ratio: Some(by_file(0.25)),
        },
        limits: LimitSettings { max_tokens: Some(by_file(1000)), max_cost_usd: Some(by_file(0.5)) },
        flags: LimitSettings::default(),
        agents: [("shared".to_string(), shared.into_iter().collect())].into_iter().collect(),
        modes: [("openai:gpt-4o".to_string(), by_file(HistoryMode::Prompt))].into_iter().collect(),
    }
}

fn read(text: &str, settings: &FlowSettings) -> scrollback_flow::Read {
    read_in(&repository("corpus/flows/good"), text, settings).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A setting's value and source, as they are listed.
fn listed(read: &scrollback_flow::Read, setting: &str) -> Option<(Value, String)> {
    let found = read.settings.iter().find(|one| one.setting == setting)?;
    Some((found.value.clone(), found.from.to_string()))
}

const CHAT: &str = "version: '1'\nsteps:\n- kind: loop\n  name: chat\n  loop: {conversation: true, SETTINGS body: [{name: a, agent: shared}]}\n";

fn bounds(
    settings: &str,
    configured: &FlowSettings,
) -> (Strategy, Option<u64>, Option<u64>, f64, Option<String>) {
    let read = read(&CHAT.replace("SETTINGS", settings), configured);
    let StepKind::Loop(inner) = &read.flow.steps[0].kind else { panic!("a loop") };
    let HistoryManagement::Bounds(bounds) = &inner.conversation.as_ref().unwrap().history else {
        panic!("bounds")
    };
    let summarizer = bounds.summarizer.as_ref().map(|agent| agent.name.clone());
    (bounds.strategy, bounds.max_tokens, bounds.max_turns, bounds.summarize_ratio, summarizer)
}

#[test]
fn a_loop_wins_field_by_field_and_its_bounds_stand_alone() {
    let settings = configured();
    let shared = Some("shared".to_string());
    assert_eq!(bounds("", &settings), (Strategy::Summarize, Some(500), Some(7), 0.25, shared.clone()));
    assert_eq!(
        bounds("history_management: {max_turns: 3},", &settings),
        (Strategy::Summarize, None, Some(3), 0.25, shared.clone()),
        "a loop that writes a bound gets none from elsewhere"
    );
    assert_eq!(
        bounds("history_management: {strategy: truncate_turns},", &settings),
        (Strategy::TruncateTurns, Some(500), Some(7), 0.25, None),
        "what was configured may be what a strategy needs"
    );
    assert_eq!(
        bounds("history_management: {strategy: summarize, summarize_ratio: 0.75},", &settings),
        (Strategy::Summarize, Some(500), Some(7), 0.75, shared)
    );
    let read = read(&CHAT.replace("SETTINGS", "history_management: [fit],"), &settings);
    let listed_as = listed(&read, "steps.chat.history_management");
    assert_eq!(listed_as, Some((json!(["fit"]), "flow".into())), "a list replaces the whole");
    assert_eq!(listed(&read, "steps.chat.history_management.max_tokens"), None);
}

#[test]
fn every_setting_is_listed_with_its_source() {
    let mut settings = configured();
    let file = || "scrollback.toml".to_string();
    let text = "version: '1'
limits: {max_tokens: 300}
agents:
  shared: {max_output_tokens: 5}
  own: {}
steps:
  - kind: loop
    name: chat
    loop: {conversation: true, max_loops: 2, body: [{name: a, agent: shared}]}
  - kind: loop
    name: plain
    loop: {body: [{name: own}]}
";
    let got = read(text, &settings);
    for (setting, value, source) in [
        ("agents.shared.max_output_tokens", json!(5), "flow".into()),
        ("agents.shared.model", json!("offline:echo"), file()),
        ("agents.own.model", json!("openai:gpt-4o"), file()),
        ("agents.own.mode", json!("prompt"), file()),
        ("agents.own.timeout", json!(120.0), "built-in".into()),
        ("steps.chat.max_loops", json!(2), "flow".into()),
        ("steps.plain.max_loops", json!(9), file()),
        ("steps.chat.conversation", json!(true), "flow".into()),
        ("steps.chat.ai_turn_source", json!("last"), "built-in".into()),
        ("steps.chat.user_turn_sources", json!(["hitl"]), "built-in".into()),
        ("steps.a.agent", json!("shared"), "flow".into()),
        ("steps.a.use_history", json!(true), "built-in".into()),
        ("steps.own.agent", json!("own"), "built-in".into()),
        ("steps.chat.history_management.strategy", json!("summarize"), file()),
        ("steps.chat.history_management.summarizer_agent", json!("shared"), file()),
        ("limits.max_tokens", json!(300), "flow".into()),
        ("limits.max_cost_usd", json!(0.5), file()),
    ] {
        assert_eq!(listed(&got, setting), Some((value, source)), "{setting}");
    }
    let shared = &got.flow.agents["shared"];
    assert_eq!(shared.system_prompt.as_deref(), Some("Write plainly.\n"), "fields are merged one by one");
    assert_eq!(got.flow.agents["own"].mode, HistoryMode::Prompt, "the model's mode is the agent's");
    assert_eq!(got.flow.limits, QuotaLimits { max_tokens: Some(300), max_cost: Some(MicroDollars(500_000)) });
    settings.flags.max_tokens = Some(Set { value: 10, from: SettingOrigin::Flag });
    let flagged = read(text, &settings);
    assert_eq!(flagged.flow.limits.max_tokens, Some(10));
    assert_eq!(listed(&flagged, "limits.max_tokens"), Some((json!(10), "flag".into())));
    let bare = read(
        "version: '1'\nsteps: [{kind: loop, name: l, loop: {body: [{name: a}]}}]\n",
        &FlowSettings::default(),
    );
    assert_eq!(listed(&bare, "steps.l.max_loops"), Some((json!(5), "built-in".into())));
    assert_eq!(listed(&bare, "default_model"), Some((json!("offline:echo"), "built-in".into())));
}

#[test]
fn settings_survive_being_stored() {
    let settings = configured();
    let text = serde_json::to_string(&settings).unwrap();
    assert_eq!(serde_json::from_str::<FlowSettings>(&text).unwrap(), settings);
    assert_eq!(serde_json::from_str::<FlowSettings>("{}").unwrap(), FlowSettings::default());
}

#[test]
fn a_configured_cost_needs_prices_too() {
    let mut settings = configured();
    let text = "version: '1'\nagents: {a: {model: 'openai-compatible:mine'}}\nsteps: [{name: a}]\n";
    let problems = read_in(&repository("corpus/flows/good"), text, &settings).err().unwrap();
    assert!(problems.to_string().contains("no_price"), "{problems}");
    settings.limits.max_cost_usd = None;
    assert!(read_in(&repository("corpus/flows/good"), text, &settings).is_ok());
}

#[test]
fn money_is_counted_whole() {
    assert_eq!(MicroDollars::from_dollars(0.1), Some(MicroDollars(100_000)));
    assert_eq!(MicroDollars::from_dollars(1.000_000_4), Some(MicroDollars(1_000_000)));
    assert_eq!(MicroDollars::from_dollars(-1.0), None);
    assert_eq!(MicroDollars::from_dollars(f64::NAN), None);
    assert_eq!(MicroDollars::from_dollars(1e300), None);
    assert_eq!(MicroDollars(1_500_000).dollars().to_string(), "1.5");
}
