//! Every hostile text in every place where the lens shows a text, in a headless Chromium, by `tests/browser/inert.py`.
//!
//! What a page may be made of is learnt from harmless texts in the same places. `./dev trial lens` tries all payloads; the tests
//! try some of each kind.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    ConversationId, Event, Expected, Memory, NewConversation, NewEntry, Recipient, RecordsExt, Run,
    RunStatus, Sent, Step, StepStatus, Store, Tenant, new_evaluation,
};
use serde_json::{Value, json};

use crate::browser::{hostile, root, start};
use crate::support::{coded, required};

/// Ways out of the place a text stands in, before the text itself.
const AROUND: [(&str, &str); 8] = [
    ("", ""),
    ("\"> ", ""),
    ("'/> ", " <i x='"),
    ("</textarea></title></pre></option> ", ""),
    ("--> ", " <!--"),
    ("{\"a\":\"", "\"}"),
    ("\u{202e}\u{2066}", "\u{2069}"),
    ("</script><script>window.hit=1</script>", "<script>"),
];

/// Texts that want nothing: a word, a link, a long text of several lines, controls, JSON.
fn harmless() -> [String; 5] {
    [
        "a word".into(),
        "[a link](https://a.example/)".into(),
        format!("{}\nand the last line", "a line of a long text\n".repeat(60)),
        "turned \u{202e} around \u{1b}[31m".into(),
        json!({ "a": ["json", 1], "b": null }).to_string(),
    ]
}

fn payloads() -> Vec<String> {
    let plain = hostile();
    AROUND
        .iter()
        .flat_map(|(before, after)| plain.iter().map(move |text| format!("{before}{text}{after}")))
        .collect()
}

/// One text in every place that has a renderer of its own: differences, files, patches, commands, plans, code, tables, links, replies of
/// a sub-agent.
fn rendered(text: &str) -> Vec<Entry> {
    // Long texts stand in the other places already.
    let text = &text.chars().take(300).collect::<String>();
    let patch =
        format!("*** Begin Patch\n*** Update File: {text}\n@@\n-{text}\n+{text}{text}\n*** End Patch");
    let calls = [
        (
            "r1",
            "Edit",
            json!({ "file_path": text, "old_string": text, "new_string": format!("{text}{text}") }),
        ),
        (
            "r2",
            "Write",
            json!({ "file_path": format!("{text}.rs"), "content": format!("fn main() {{}}\n{text}") }),
        ),
        ("r3", "Bash", json!({ "command": text, "description": text })),
        (
            "r4",
            "TodoWrite",
            json!({ "todos": [{ "content": text, "status": text }, { "content": text, "status": "completed" }] }),
        ),
        ("r5", "apply_patch", json!({ "input": patch })),
        ("r6", "Task", json!({ "description": text, "prompt": text })),
    ];
    let asked: Vec<(&str, &str, String)> =
        calls.iter().map(|(id, name, arguments)| (*id, *name, arguments.to_string())).collect();
    let asked: Vec<(&str, &str, &str)> =
        asked.iter().map(|(id, name, arguments)| (*id, *name, arguments.as_str())).collect();
    let mut entries = vec![Entry::calling(Some(text), &asked)];
    entries.extend(asked.iter().map(|(id, ..)| Entry::result(id, &format!("Exit code 1\n{text}"))));
    entries.push(Entry::text(
        Role::Assistant,
        &format!("```rust\n// {text}\nlet a = \"{text}\";\n```\n\n```{text}\n{text}\n```"),
    ));
    entries.push(Entry::text(Role::Assistant, &format!("| a |\n|-|\n| {text} |\n\n[x]({text})\n\n> {text}")));
    entries
}

/// One text in every place of a conversation, its call and its run; the pages that show them.
async fn places(store: &dyn Store, number: i64, text: &str) -> Value {
    let (tenant, now) = (Tenant::default(), Time(1_000 * (number + 1)));
    let id = ConversationId::new(now);
    let run = format!("run{number:017}");
    let picture = json!([
        { "type": "text", "text": text },
        { "type": "image_url", "image_url": { "url": text } },
        { "type": "file", "file": { "filename": text, "file_data": "data:application/pdf;base64,AAAA" } },
    ]);
    let mut entries = vec![
        Entry::text(Role::System, text),
        Entry::text(Role::User, text),
        Entry::calling(Some(text), &[(text, text, &json!({ text: text }).to_string())]),
        Entry::answer(text, picture.as_array().unwrap(), true),
        Entry::calling(None, &[("c2", "weather", text)]),
        Entry::result("c2", text),
    ];
    entries.extend(rendered(text));
    let body =
        json!({ "model": text, text: text, "messages": [{ "role": text, "content": text, "name": text }] });
    let call = Sent {
        id: new_evaluation().to_string(),
        conversation: id.clone(),
        run: Some(text.into()),
        step: Some(text.into()),
        evaluation: None,
        upto: 6,
        managers: json!(text).to_string(),
        wire: "openai-chat".into(),
        model: text.into(),
        epoch: None,
        prefix_hash: None,
        request: Some(body.to_string().into_bytes()),
        response: Some(text.into()),
        status: text.into(),
        attempt: 2,
        usage: Some(json!({ "input": 30_000, "output": 9, text: text }).to_string()),
        started_at: now,
        ended_at: Some(Time(now.0 + 500)),
        tokens: None,
        factor: None,
        holder: None,
    };
    let mut prompt = call.clone();
    (prompt.id, prompt.run, prompt.step) =
        (new_evaluation().to_string(), Some(run.clone()), Some("ask".into()));
    // The one before it, so that the page of the other always shows what differs.
    prompt.started_at = Time(now.0 - 1);
    // Its message is another one, so the page of cost and cache shows where the two part.
    let other =
        json!({ "model": text, "messages": [{ "role": text, "content": [text, "before"], "name": text }] });
    prompt.request = Some(other.to_string().into_bytes());
    let (shown, flow) = (call.id.clone(), flow(&run, &id, text));
    let step = |key: &str, status: StepStatus| Step {
        run: run.clone(),
        key: key.into(),
        kind: scrollback_store::StepType::Step,
        status,
        attempt: 2,
        input: Some(json!(text).to_string()),
        output: Some(json!({ text: text }).to_string()),
        evaluation: None,
        usage: Some(json!({ "total_tokens": 9 }).to_string()),
        started_at: Some(now),
        ended_at: Some(now),
        error: Some(json!({ "code": text, "message": text }).to_string()),
    };
    let event = Event {
        run: run.clone(),
        sequence: 0,
        at: now,
        key: Some(text.into()),
        kind: text.into(),
        data: Some(json!({ text: text }).to_string()),
    };
    let written = store.write(&tenant, now, |tx| {
        tx.create(NewConversation { title: Some(text.into()), ..NewConversation::new(id.clone()) });
        tx.append(&id, Expected::At(0), NewEntry::evaluation(entries, now)).sent(call).sent(prompt);
        tx.run(flow).step(step(text, StepStatus::Failed)).step(step("ask", StepStatus::Paused)).event(event);
        // A recipient has no control characters; anything else it may have.
        if let Ok(recipient) = Recipient::parse(text) {
            tx.append_for(
                &recipient,
                Expected::Any,
                NewEntry::evaluation([Entry::text(Role::User, text)], now),
            );
        }
    });
    written.await.unwrap();
    let asked = coded(text);
    json!({
        "text": text,
        "pages": {
            "conversation": format!("/lens/conversations/{id}"),
            "entry": format!("/lens/conversations/{id}/entries/2"),
            "tried": format!("/lens/conversations/{id}?m={asked}"),
            "call": format!("/lens/calls/{shown}"),
            "run": format!("/lens/runs/{run}"),
            "search": format!("/lens/search?q={asked}"),
            "cache": format!("/lens/sessions/{id}/cache"),
            "person": format!("/lens/people/{asked}"),
            "filtered": format!("/lens?q={asked}&model={asked}&project={asked}&client={asked}&sort={asked}"),
            "simulate": format!("/lens/simulate?conversation={id}&m={asked}&model={asked}"),
            "of_recipient": format!("/lens?recipient={asked}"),
            "of_status": format!("/lens?status={asked}"),
            "login": format!("/lens/login?to={asked}"),
        },
    })
}

fn flow(id: &str, conversation: &ConversationId, text: &str) -> Run {
    Run {
        id: id.into(),
        tenant: Tenant::default(),
        kind: scrollback_store::RunKind::Flow,
        name: text.into(),
        hash: text.into(),
        text: text.into(),
        settings: None,
        status: RunStatus::Paused,
        conversation: Some(conversation.clone()),
        input: Some(text.into()),
        output: Some(text.into()),
        error: Some(text.into()),
        usage: None,
        lease: None,
        started_at: Time(1_000),
        ended_at: None,
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A server that shows each of some texts in every place; where it is, and its pages by text.
async fn shown(texts: &[String]) -> Value {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let (_, base) = start(Arc::clone(&store)).await;
    let mut sets = Vec::new();
    for (number, text) in (0..).zip(texts) {
        sets.push(places(store.as_ref(), number, text).await);
    }
    json!({ "base": base, "sets": sets })
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_texts_do_nothing_in_any_place() {
    if required::program(&["chromium", "chromium-browser"], "hostile texts in a browser").is_none() {
        return;
    }
    let all = payloads();
    assert!(all.len() >= 500, "{}", all.len());
    let wanted: usize =
        std::env::var("SCROLLBACK_TRIAL_PAYLOADS").ok().and_then(|count| count.parse().ok()).unwrap_or(17);
    let lines = all.len() / AROUND.len();
    let every = all.len().div_ceil(wanted.clamp(1, all.len()));
    // Each way out of a place meets other lines of the list.
    let every = (every..=every + lines).find(|step| gcd(*step, lines) == 1).unwrap_or(1);
    let plain = shown(&harmless()).await;
    let tried = shown(&all.into_iter().step_by(every).collect::<Vec<_>>()).await;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("inert");
    std::fs::create_dir_all(&folder).unwrap();
    let facts = folder.join("facts.json");
    std::fs::write(&facts, json!({ "harmless": plain, "hostile": tried }).to_string()).unwrap();
    let script = root().join("tests/browser/inert.py");
    let run =
        tokio::task::spawn_blocking(move || Command::new("python3").arg(script).arg(facts).output().unwrap());
    let output = run.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}
