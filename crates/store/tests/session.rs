//! A session of a coding agent as its client sends it: in Anthropic's form, each request with everything that was said.
#![allow(clippy::unwrap_used, unreachable_pub)]

use std::fmt::Write;

use scrollback_core::request::BodyTemplate;
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{Entry, Time, json};
use scrollback_store::{
    ConversationId, Expected, NewConversation, NewEntry, RecordsExt, Sent, Store, Tenant, Tx,
};

use crate::support::Dice;

const WORDS: [&str; 24] = [
    "the",
    "request",
    "parser",
    "returns",
    "an",
    "error",
    "when",
    "connection",
    "closed",
    "before",
    "headers",
    "were",
    "read",
    "let",
    "value",
    "=",
    "self.next()?;",
    "fn",
    "assert_eq!",
    "tests/server.rs",
    "warning:",
    "unused",
    "variable",
    "in",
];

/// What looks like the output of a tool.
pub fn prose(dice: &mut Dice, length: usize) -> String {
    let mut text = String::new();
    while text.len() < length {
        match dice.roll(12) {
            0 => write!(text, "\\n{:>4} | ", dice.roll(2_000)).unwrap(),
            1 => write!(text, "0x{:08x} ", dice.roll(usize::MAX)).unwrap(),
            roll => write!(text, "{} ", WORDS[(roll + dice.roll(20)) % WORDS.len()]).unwrap(),
        }
    }
    text
}

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// One message, block by block; the client puts a cache mark at the end of the last one of some.
#[derive(Clone)]
enum Said {
    User(Vec<String>),
    /// As the client sends it back.
    Assistant(String),
}

impl Said {
    fn text(&self, marked: bool) -> String {
        match self {
            Said::User(blocks) => {
                let mut blocks = blocks.clone();
                let last = blocks.last_mut().unwrap();
                last.pop();
                last.push_str(if marked { MARK } else { "" });
                last.push('}');
                format!(r#"{{"role":"user","content":[{}]}}"#, blocks.join(","))
            }
            Said::Assistant(echoed) => echoed.clone(),
        }
    }
}

/// A session that grows.
pub struct Session {
    pub dice: Dice,
    pub tools: String,
    prompt: String,
    /// Bytes of the longest result.
    pub longest: usize,
    said: Vec<Said>,
    calls: usize,
    /// What is recorded, by position.
    pub record: Vec<Entry>,
}

impl Session {
    pub fn new(seed: u64, tools: usize, longest: usize) -> Self {
        let mut dice = Dice(seed);
        let mut list = Vec::new();
        while list.iter().map(String::len).sum::<usize>() < tools {
            let (number, text) = (list.len(), prose(&mut dice, 1_500));
            list.push(format!(
                r#"{{"name":"tool_{number}","description":"{text}","input_schema":{{"type":"object","properties":{{"path":{{"type":"string"}}}}}}}}"#
            ));
        }
        let (tools, prompt) = (format!("[{}]", list.join(",")), prose(&mut dice, tools / 3));
        Session { dice, tools, prompt, longest, said: Vec::new(), calls: 0, record: Vec::new() }
    }

    /// The next thing the user or the tools say, and the request that follows. What is new in it is recorded: the
    /// entries to append, and the body.
    pub fn ask(&mut self) -> (Vec<Entry>, String) {
        let call = self.calls;
        self.calls += 1;
        let blocks = if call == 0 {
            let text = prose(&mut self.dice, 900);
            vec![format!(r#"{{"type":"text","text":"{text}"}}"#)]
        } else {
            let results = if call % 4 == 3 { 3 } else { 1 };
            let result = |number| {
                let length = 200 + self.dice.roll(self.longest - 200);
                let text = prose(&mut self.dice, length);
                format!(
                    r#"{{"type":"tool_result","tool_use_id":"toolu_{call:04}_{number}","content":"{text}"}}"#
                )
            };
            (0..results).map(result).collect()
        };
        self.said.push(Said::User(blocks));
        let users: Vec<usize> =
            (0..self.said.len()).filter(|at| matches!(self.said[*at], Said::User(_))).collect();
        let marked: Vec<usize> = users.into_iter().rev().take(2).collect();
        let messages: Vec<String> =
            self.said.iter().enumerate().map(|(at, said)| said.text(marked.contains(&at))).collect();
        let billing = self.dice.roll(usize::MAX);
        let system = format!(
            r#"[{{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch={billing:x};"}},{{"type":"text","text":"{}"{MARK}}}]"#,
            self.prompt
        );
        let body = format!(
            r#"{{"model":"claude-sonnet-4-5","messages":[{}],"system":{system},"tools":{},"metadata":{{"user_id":"u"}},"max_tokens":32000,"stream":true}}"#,
            messages.join(","),
            self.tools
        );
        let new = if call == 0 { body.clone() } else { format!("[{}]", messages.last().unwrap()) };
        (self.recorded(&new), body)
    }

    /// The reply, which is recorded in another spelling than the client will send it back in.
    pub fn reply(&mut self) -> Vec<Entry> {
        let length = 100 + self.dice.roll(700);
        let text = prose(&mut self.dice, length);
        let call = self.calls;
        let calls = if call % 4 == 3 { 3 } else { 1 };
        let (mut recorded, mut echoed) = (String::new(), String::new());
        for number in 0..calls {
            let (id, input) = (format!("toolu_{call:04}_{number}"), r#"{"path":"src/main.rs","limit":200}"#);
            write!(recorded, r#",{{"type":"tool_use","id":"{id}","name":"tool_1","input":{input}}}"#)
                .unwrap();
            write!(echoed, r#",{{"input":{input},"name":"tool_1","id":"{id}","type":"tool_use"}}"#).unwrap();
        }
        let recorded = format!(
            r#"{{"id":"msg_{call}","type":"message","role":"assistant","content":[{{"type":"text","text":"{text}"}}{recorded}],"stop_reason":"tool_use"}}"#
        );
        let echoed =
            format!(r#"{{"content":[{{"text":"{text}","type":"text"}}{echoed}],"role":"assistant"}}"#);
        let new = self.recorded(&format!("[{recorded}]"));
        self.said.push(Said::Assistant(echoed));
        new
    }

    fn recorded(&mut self, list: &str) -> Vec<Entry> {
        let parsed = Wire::Anthropic.parse(json::check(list).unwrap(), &ParseOptions::default()).unwrap();
        self.record.extend(parsed.entries.iter().cloned());
        parsed.entries
    }
}

/// A call of a session.
pub fn call(conversation: &ConversationId, number: usize, upto: usize) -> Sent {
    Sent {
        id: format!("{conversation} {number:04}"),
        conversation: conversation.clone(),
        run: None,
        step: None,
        evaluation: Some(uuid::Uuid::from_u128(number as u128 + 1)),
        upto: upto as u64,
        managers: "[]".into(),
        wire: "anthropic".into(),
        model: "claude-sonnet-4-5".into(),
        epoch: None,
        prefix_hash: Some(vec![7; 32]),
        request: None,
        response: None,
        status: "sent".into(),
        attempt: 1,
        usage: None,
        started_at: Time(i64::try_from(1_000 * number).unwrap()),
        ended_at: None,
        tokens: None,
        factor: None,
        holder: Some("process".into()),
    }
}

/// Whether the calls of a session are written, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    Written,
    /// With each request as a blob of its own.
    Whole,
    LeftOut,
}

/// Runs a session of so many calls against a store; the requests as they were sent.
pub async fn run(
    store: &dyn Store,
    id: &ConversationId,
    mut session: Session,
    calls: usize,
    which: Calls,
) -> Vec<Sent> {
    let tenant = Tenant::default();
    store.write(&tenant, Time(0), |tx| _ = tx.create(NewConversation::new(id.clone()))).await.unwrap();
    let mut sent = Vec::new();
    for number in 0..calls {
        let (new, body) = session.ask();
        let entries = NewEntry::continued(new, uuid::Uuid::from_u128(2 * number as u128 + 1), 0, Time(1));
        store.append(&tenant, Time(1), id, Expected::Any, entries).await.unwrap();
        let template = BodyTemplate::of(Wire::Anthropic, body.as_bytes(), (0..).zip(&session.record));
        let row = call(id, number, session.record.len());
        let whole = Sent { request: Some(body.clone().into_bytes()), ..row.clone() };
        let sending = |tx: &mut Tx| match which {
            Calls::Written => _ = tx.sent_as(row.clone(), template),
            Calls::Whole => _ = tx.sent(whole),
            Calls::LeftOut => {}
        };
        store.write(&tenant, Time(1), sending).await.unwrap();
        let reply = session.reply();
        let entries = NewEntry::continued(reply, uuid::Uuid::from_u128(2 * number as u128 + 2), 0, Time(1));
        store.append(&tenant, Time(1), id, Expected::Any, entries).await.unwrap();
        let done = Sent { status: "ok".into(), ended_at: Some(Time(2)), ..row };
        if which != Calls::LeftOut {
            store.write(&tenant, Time(1), |tx| _ = tx.sent(done.clone())).await.unwrap();
        }
        sent.push(Sent { request: Some(body.into_bytes()), ..done });
    }
    sent
}
