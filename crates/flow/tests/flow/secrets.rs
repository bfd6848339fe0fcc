//! Secrets of every known shape, and values of known keys: sent as they are, shown nowhere.

use std::sync::{Arc, Mutex};

use scrollback_core::redact::{Options, Redactor};
use scrollback_flow::driver::RunStatus;
use scrollback_flow::lens::{Lens, Listing, Reveal, WithBody};
use serde_json::{Value, json};

use crate::support::{Asked, Bench};

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn letters(&mut self, alphabet: &str, count: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..count).map(|_| letters[self.roll(letters.len())]).collect()
    }

    /// Letters of both cases and digits, some of each.
    fn mixed(&mut self, count: usize) -> String {
        const ALL: &str = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
        format!("{}q7R", self.letters(ALL, count - 3))
    }

    fn upper(&mut self, count: usize) -> String {
        self.letters("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", count)
    }
}

/// Ways to be a secret: what is written, and the part of it that may not be seen.
fn secrets(dice: &mut Dice) -> Vec<(String, String)> {
    let plain = [
        format!("sk-{}", dice.mixed(48)),
        format!("sk-proj-{}", dice.mixed(60)),
        format!("sk-svcacct-{}", dice.mixed(60)),
        format!("sk-ant-api03-{}", dice.mixed(93)),
        format!("AIza{}", dice.mixed(35)),
        format!("ya29.{}", dice.mixed(60)),
        format!("AKIA{}", dice.upper(16)),
        format!("ghp_{}", dice.mixed(36)),
        format!("github_pat_{}_{}", dice.mixed(22), dice.mixed(59)),
        format!("glpat-{}", dice.mixed(20)),
        format!("xoxb-{}-{}", dice.letters("123456789", 12), dice.mixed(24)),
        format!("sk_live_{}", dice.mixed(24)),
        format!("hf_{}", dice.mixed(34)),
        format!("gsk_{}", dice.mixed(52)),
        format!("xai-{}", dice.mixed(80)),
        format!("npm_{}", dice.mixed(36)),
        format!("eyJ{}.eyJ{}.{}", dice.mixed(20), dice.mixed(40), dice.mixed(43)),
    ];
    let mut all: Vec<(String, String)> = plain.into_iter().map(|key| (key.clone(), key)).collect();
    let mut hidden = |before: &str, secret: String, after: &str| {
        all.push((format!("{before}{secret}{after}"), secret));
    };
    hidden("Authorization: Bearer ", dice.mixed(32), "");
    hidden("postgres://ann:", dice.mixed(14), "@db:5432/x");
    hidden("password=", dice.mixed(14), " ");
    hidden("{\"api_key\": \"", dice.mixed(24), "\"}");
    hidden(
        "-----BEGIN PRIVATE KEY-----\n",
        dice.mixed(64),
        &format!("\n{}\n-----END PRIVATE KEY-----", dice.mixed(20)),
    );
    all
}

const FLOW: &str = r#"
version: "1"
agents:
  talk: { system_prompt: Keep secrets., max_retries: 0, tools: [{ name: look, description: looks, parameters: { type: object }, command: [cat] }] }
  form: { output_schema: { type: object, required: [note] } }
  block: { mode: prompt }
  breaks: { max_retries: 0 }
steps:
  - kind: loop
    name: chat
    loop:
      conversation: true
      max_loops: 2
      history_management: { strategy: summarize, max_turns: 3 }
      ai_turn_source: all_agents
      body:
        - { name: talk }
        - { name: block, input: "again: {{ previous }}" }
        - { kind: hitl, name: ask, message: "Is this right? {{ previous }}", input_schema: { type: string, pattern: "^ok" } }
  - { name: form }
  - { kind: map, name: each, over: "[previous.note]", body: [{ name: copy, template: "copied {{ item }}" }] }
  - { name: breaks, input: "break: {{ previous }}" }
"#;

/// Replies repeat what they are asked; the last one breaks, and says why.
fn reply(asked: &Asked, secret: &str, hidden: &str) -> Value {
    let body = asked.body.to_string();
    if asked.last().starts_with("break:") {
        return json!({ "error": { "kind": "invalid_request", "message": format!("refused: {secret} was sent") } });
    }
    if body.contains("\"response_format\"") {
        let form = json!({ "note": format!("keep {secret}"), "login": { "password": hidden } });
        return json!({ "reply": form.to_string() });
    }
    if asked.body.get("tools").is_some() && !body.contains("tool_call_id") {
        return json!({ "calls": [{ "name": "look", "arguments": { "at": secret }, "id": "c1" }] });
    }
    json!({ "reply": format!("You said: {secret} and that is all.") })
}

/// Runs the flow with a secret in every place there is, and gathers all that anybody is shown.
async fn shown(written: &str, hidden: &str, options: &Options) -> (Vec<(String, String)>, Vec<Asked>) {
    let (secret, part) = (written.to_string(), hidden.to_string());
    let mut bench = Bench::new(move |asked, _| reply(asked, &secret, &part));
    bench.engine.redactor = Arc::new(Redactor::new(options).unwrap());
    let told: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    for (place, name) in [(0, "watcher"), (1, "exporter")] {
        let told = Arc::clone(&told);
        let watcher: scrollback_flow::driver::Watcher = Arc::new(move |event| {
            told.lock().unwrap().push((name.into(), serde_json::to_string(event).unwrap()));
        });
        if place == 0 {
            bench.engine.watcher = Some(watcher);
        } else {
            bench.engine.exporter = Some(watcher);
        }
    }
    let mut all = Vec::new();
    let mut report = bench.run(FLOW, &format!("Remember {written} for me")).await;
    while report.status == RunStatus::Paused {
        all.push(("pauses".into(), json!(report.pauses).to_string()));
        let refused = bench.try_answer(&report.run, None, &format!("no: {written}")).await.unwrap_err();
        all.push(("refused answer".into(), format!("{refused} {}", json!(refused.errors))));
        report = bench.answer(&report.run, &format!("ok: {written}")).await;
    }
    assert_eq!(report.status, RunStatus::Failed, "{report:?}");
    all.push(("error".into(), json!(report.error).to_string()));
    let run = bench.engine.find(&report.run).await.unwrap();
    let flow = bench.engine.flow_of(&run).ok();
    let lens = Lens {
        store: &bench.engine.store,
        tenant: &bench.engine.tenant,
        redactor: &bench.engine.redactor,
        reveal: Reveal::Redacted,
        now: bench.engine.clock.now(),
    };
    let listing = Listing { limit: 9, ..Listing::default() };
    all.push(("list".into(), lens.list(&listing).await.unwrap().to_string()));
    all.push(("show".into(), lens.show(&run, flow.as_ref()).await.unwrap().to_string()));
    all.push(("trace".into(), lens.trace(&run).await.unwrap().to_string()));
    all.push(("exported".into(), json!(lens.exported(&run).await.unwrap()).to_string()));
    for step in ["talk", "block", "form", "breaks", "each[1]/copy"] {
        let prompt = lens.prompt(&run, step, WithBody::Whole).await.unwrap().unwrap();
        all.push((format!("prompt {step}"), prompt.to_string()));
    }
    all.extend(told.lock().unwrap().clone());
    (all, bench.asked())
}

#[tokio::test]
async fn no_secret_is_shown_anywhere_and_every_one_is_sent() {
    let mut dice = Dice(20_26);
    let mut configured = Vec::new();
    for number in 0..3 {
        // Nothing about these looks like a key; they are known because the configuration knows them.
        let words = dice.letters("abcdefghijklmnopqrstuvwxyz", 9);
        configured.push(format!("{words}-{number}-{}", dice.letters("aeiou", 5)));
    }
    let options = Options { configured: configured.clone(), ..Options::default() };
    let mut all = secrets(&mut dice);
    all.extend(configured.into_iter().map(|value| (format!("key {value}"), value)));
    for (written, hidden) in all {
        let (shown, asked) = shown(&written, &hidden, &options).await;
        for (place, text) in &shown {
            let at = text.find(&hidden).map(|at| text.get(at.saturating_sub(80)..).unwrap_or(text));
            assert_eq!(at, None, "{hidden} is shown: {place}");
        }
        let exported = shown.iter().any(|(place, text)| place == "exported" && text.contains("[redacted:"));
        assert!(exported, "the messages are there, without {hidden}");
        // As JSON writes it.
        let sent = json!(hidden).to_string();
        let sent = sent.trim_matches('"');
        for name in ["You said", "again:", "break:", "Remember"] {
            let request = asked.iter().find(|asked| asked.body.to_string().contains(name));
            let request = request.map(|asked| asked.body.to_string()).unwrap_or_default();
            assert!(request.contains(sent), "{hidden} was sent with {name:?}: {request}");
        }
    }
}

#[tokio::test]
async fn whoever_asks_to_see_everything_sees_the_question_that_waits_as_it_was_asked() {
    let secret = format!("sk-proj-{}", Dice(7).mixed(60));
    let bench = Bench::echo();
    let flow = "{version: '1', steps: [{name: ask, kind: hitl, message: 'Use {{ input }}?'}]}";
    let report = bench.run(flow, &secret).await;
    assert_eq!(report.status, RunStatus::Paused);
    assert_eq!(report.pauses[0].message, "Use [redacted:openai]?");
    let run = bench.engine.find(&report.run).await.unwrap();
    let flow = bench.engine.flow_of(&run).ok();
    for (reveal, shown) in [(Reveal::Redacted, "[redacted:openai]"), (Reveal::Everything, secret.as_str())] {
        let lens = Lens {
            store: &bench.engine.store,
            tenant: &bench.engine.tenant,
            redactor: &bench.engine.redactor,
            reveal,
            now: bench.engine.clock.now(),
        };
        let document = lens.show(&run, flow.as_ref()).await.unwrap();
        assert_eq!(document["pauses"][0]["message"], format!("Use {shown}?"));
        assert_eq!(document["input"], shown);
    }
}
