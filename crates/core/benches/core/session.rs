//! A generated agent session: a programmer's assistant that searches, reads, runs and explains.
//!
//! Turns are numbered from the moment of the call, backwards and forwards, and each is generated from its number
//! alone. Sessions of any length therefore end with the same turns, and a view of the last few thousand tokens is
//! the same whether a hundred entries came before or a hundred thousand.

use scrollback_core::Entry;
use serde_json::{Value, json};

/// Chosen so that the cuts of both `sticky` managers fall on the same entry at every length measured.
const SEED: u64 = 120;
/// A question, three rounds of tools (one of them two calls at once), and an answer.
pub(crate) const ENTRIES_PER_TURN: usize = 9;

/// `SplitMix64`: the same session on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        let at = self.between(0, words.len() - 1);
        words.get(at).copied().unwrap_or_default()
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.between(1, chances) == 1
    }
}

/// The messages that lead up to the call: a system message and whole turns, at most `entries` of them.
/// It is exactly that many where `entries` is a power of ten.
pub(crate) fn before(entries: usize) -> Vec<String> {
    let turns = (entries.saturating_sub(1) / ENTRIES_PER_TURN) as u64;
    let newest_last = (1..=turns).rev().flat_map(|back| turn(back.wrapping_neg()));
    std::iter::once(system()).chain(newest_last).collect()
}

/// The messages that follow the call.
pub(crate) fn after(turns: usize) -> Vec<String> {
    (0..turns as u64).flat_map(turn).collect()
}

/// The messages as the body of a request would hold them.
pub(crate) fn as_list(messages: &[String]) -> String {
    format!("[{}]", messages.join(","))
}

/// A list of about `bytes` bytes in which people only talk: no tools, nothing to escape.
pub(crate) fn plain_list(bytes: usize) -> String {
    let mut dice = Dice(SEED);
    let mut list = String::from("[");
    while list.len() < bytes {
        let role = if dice.one_in(2) { "user" } else { "assistant" };
        let sentences = dice.between(2, 8);
        let message = json!({ "role": role, "content": prose(&mut dice, sentences) });
        list.push_str(if list.len() > 1 { "," } else { "" });
        list.push_str(&message.to_string());
    }
    list + "]"
}

/// A conversation in which people talk and now and then a tool is asked, some 500 bytes a message: a system message, a
/// question, and so many exchanges that `enough` says yes. It ends with a question.
pub(crate) fn talk(enough: impl Fn(&[String]) -> bool) -> Vec<String> {
    let mut dice = Dice(SEED);
    let said = |role: &str, dice: &mut Dice| {
        let sentences = dice.between(3, 7);
        json!({ "role": role, "content": prose(dice, sentences) }).to_string()
    };
    let mut messages = vec![system(), said("user", &mut dice)];
    while !enough(&messages) {
        if dice.one_in(3) {
            let (ask, [answer]) = round(&mut dice);
            messages.extend([ask, answer]);
        }
        messages.extend([said("assistant", &mut dice), said("user", &mut dice)]);
    }
    messages
}

/// Everything in an entry that a model reads as text.
pub(crate) fn text_of(entry: &Entry) -> String {
    let mut text = entry.content().unwrap_or_default();
    for call in entry.tool_calls() {
        text.push_str(&call.name.as_str());
        text.push_str(&call.arguments.as_str());
    }
    text
}

fn system() -> String {
    let text = "You are a careful programmer's assistant. Work in small steps: search before you read, read before \
        you change, and run the tests after every change. Never invent a file name or a test result. When a tool \
        fails, say so and try another way. Answer in the user's language, briefly, with the file and line of \
        everything you claim.";
    json!({ "role": "system", "content": text }).to_string()
}

fn turn(number: u64) -> [String; ENTRIES_PER_TURN] {
    let mut dice = Dice(SEED ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
    let dice = &mut dice;
    let ask = json!({ "role": "user", "content": question(dice) }).to_string();
    let (search, [found]) = round(dice);
    let (look, [first, second]) = round(dice);
    let (run, [printed]) = round(dice);
    let sentences = dice.between(3, 7);
    let answer = json!({ "role": "assistant", "content": prose(dice, sentences) }).to_string();
    [ask, search, found, look, first, second, run, printed, answer]
}

/// An assistant message with `N` calls, and their results.
fn round<const N: usize>(dice: &mut Dice) -> (String, [String; N]) {
    let ids: [String; N] =
        std::array::from_fn(|_| format!("call_{:016x}{:08x}", dice.next(), dice.next() as u32));
    let calls: Vec<Value> = ids.iter().map(|id| call(dice, id)).collect();
    let content = if dice.one_in(3) { Value::from(prose(dice, 1)) } else { Value::Null };
    let message = json!({ "role": "assistant", "content": content, "tool_calls": calls }).to_string();
    let results =
        ids.map(|id| json!({ "role": "tool", "tool_call_id": id, "content": output(dice) }).to_string());
    (message, results)
}

fn call(dice: &mut Dice, id: &str) -> Value {
    let (name, arguments) = match dice.between(0, 3) {
        0 => (
            "search",
            json!({ "pattern": identifier(dice), "path": path(dice), "limit": dice.between(10, 200) }),
        ),
        1 => ("read_file", json!({ "path": path(dice), "from": dice.between(1, 900), "lines": 40 })),
        2 => (
            "run",
            json!({ "command": ["cargo", "test", identifier(dice)], "timeout": dice.between(10, 300) }),
        ),
        _ => ("edit", json!({ "path": path(dice), "old": line(dice), "new": line(dice) })),
    };
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments.to_string() } })
}

/// What a tool prints: code, rows of JSON or a log; mostly short, sometimes long.
fn output(dice: &mut Dice) -> String {
    let lines = if dice.one_in(15) { dice.between(30, 70) } else { dice.between(2, 7) };
    match dice.between(0, 2) {
        0 => (0..lines).map(|_| line(dice) + "\n").collect(),
        1 => (0..lines.div_ceil(3)).map(|_| row(dice)).collect::<Value>().to_string(),
        _ => (0..lines.div_ceil(2)).map(|_| log_line(dice) + "\n").collect(),
    }
}

fn question(dice: &mut Dice) -> String {
    let sentences = dice.between(1, 4);
    let mut text = prose(dice, sentences);
    if dice.one_in(4) {
        text = format!("{text}\n\n```rust\n{}\n{}\n```", line(dice), line(dice));
    }
    text
}

fn prose(dice: &mut Dice, sentences: usize) -> String {
    let sentences: Vec<String> = (0..sentences).map(|_| sentence(dice)).collect();
    sentences.join(" ")
}

fn sentence(dice: &mut Dice) -> String {
    if dice.one_in(15) {
        return dice.pick(ELSEWHERE).to_string();
    }
    let words: Vec<String> = (0..dice.between(6, 18))
        .map(|_| match dice.between(0, 15) {
            0 => format!("`{}`", identifier(dice)),
            1 => dice.between(2, 90_000).to_string(),
            2 => format!("{},", word(dice)),
            _ => word(dice),
        })
        .collect();
    format!("{} {}.", dice.pick(OPENINGS), words.join(" "))
}

fn line(dice: &mut Dice) -> String {
    let indent = "    ".repeat(dice.between(0, 3));
    let (a, b, c) = (identifier(dice), identifier(dice), identifier(dice));
    let number = dice.between(0, 4096);
    match dice.between(0, 7) {
        0 => format!("{indent}let {a} = {b}.{c}({number})?;"),
        1 => format!("{indent}if {a}.len() > {number} && !{b}.is_empty() {{"),
        2 => format!("{indent}pub fn {a}(&self, {b}: &str) -> Result<Vec<{c}>, Error> {{"),
        3 => format!("{indent}// {}", sentence(dice)),
        4 => format!("{indent}match {a} {{ Some({b}) => {c}::new({number}), None => return None }}"),
        5 => format!("{indent}self.{a}.insert(\"{b}\".to_string(), {c} as u64 * {number});"),
        6 => format!("{indent}def {a}(self, {b}=None): return [x['{c}'] for x in {b} or []]"),
        _ => format!("{indent}}}"),
    }
}

fn row(dice: &mut Dice) -> Value {
    json!({
        "id": format!("{:012x}", dice.next() >> 16), "path": path(dice), "line": dice.between(1, 2000),
        "score": dice.between(0, 10_000) as f64 / 10_000.0, "text": sentence(dice), "tags": [identifier(dice), null, true],
    })
}

fn log_line(dice: &mut Dice) -> String {
    let (hour, minute, millis) = (dice.between(0, 23), dice.between(0, 59), dice.between(0, 59_999));
    format!(
        "2026-11-15T{hour:02}:{minute:02}:{:02}.{:03}Z {:5} {} {}={} {}",
        millis / 1000,
        millis % 1000,
        dice.pick(&["INFO", "WARN", "DEBUG", "ERROR"]),
        path(dice),
        identifier(dice),
        dice.between(0, 1_000_000),
        sentence(dice),
    )
}

/// A name as programmers make them.
fn identifier(dice: &mut Dice) -> String {
    let words: Vec<String> = (0..dice.between(1, 3)).map(|_| word(dice)).collect();
    match dice.between(0, 2) {
        0 => words.iter().map(|word| capitalized(word)).collect(),
        _ => words.join("_"),
    }
}

/// A word, now and then one that is in no dictionary: names are what makes counting slow.
fn word(dice: &mut Dice) -> String {
    if dice.one_in(16) {
        return (0..dice.between(2, 4)).map(|_| dice.pick(SYLLABLES)).collect();
    }
    dice.pick(WORDS).to_string()
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

fn path(dice: &mut Dice) -> String {
    format!(
        "{}/{}/{}.{}",
        dice.pick(WORDS),
        dice.pick(WORDS),
        identifier(dice),
        dice.pick(&["rs", "py", "ts", "toml"])
    )
}

#[rustfmt::skip]
const SYLLABLES: &[&str] = &[
    "ba", "bri", "cel", "dro", "eth", "fi", "gan", "hul", "ith", "jo", "kra", "lem", "mon", "nuv", "ost",
    "pra", "qui", "ros", "sta", "tri", "ul", "vex", "wen", "xa", "yor", "zim",
];

#[rustfmt::skip]
const OPENINGS: &[&str] = &[
    "I think", "The", "It looks as if", "Please check whether", "So", "After that", "We saw that",
    "Nobody knows why", "In short,", "Wait:", "First", "This", "Here", "However,",
];

const ELSEWHERE: &[&str] = &[
    "Könnten Sie bitte prüfen, ob die Größe des Puffers überhaupt stimmt?",
    "¿Por qué falla la migración cuando la sesión está vacía?",
    "Пожалуйста, проверьте журнал ошибок за последние сутки.",
    "テストが失敗する理由を調べて、修正案を出してください。",
    "请检查这个函数为什么会返回空列表。",
    "Ça marche 🎉, mais le délai d'attente reste trop court 😕.",
];

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "account", "after", "agent", "always", "answer", "append", "array", "async", "author", "balance",
    "before", "billing", "branch", "buffer", "build", "bytes", "cache", "calculate", "callback",
    "channel", "character", "client", "column", "commit", "compare", "compile", "config", "connection",
    "context", "conversation", "counter", "customer", "database", "deadline", "decode", "default",
    "delete", "dependency", "directory", "document", "duplicate", "encode", "endpoint", "engine", "entry",
    "error", "evaluate", "event", "example", "expected", "export", "failure", "feature", "fetch", "field",
    "filter", "format", "fragment", "function", "gateway", "generate", "global", "group", "handle",
    "hash", "header", "history", "identifier", "index", "inner", "input", "invoice", "iterator",
    "latency", "layout", "limit", "listener", "logger", "lookup", "manager", "matrix", "memory", "merge",
    "message", "method", "middleware", "model", "module", "network", "notification", "number", "object",
    "offset", "option", "order", "orphan", "output", "package", "parser", "partial", "password",
    "payment", "pending", "permission", "pipeline", "policy", "position", "prefix", "process", "product",
    "protocol", "provider", "query", "queue", "random", "record", "reference", "refund", "register",
    "release", "render", "replica", "request", "reservation", "resolve", "response", "result", "retry",
    "return", "schema", "search", "sequence", "server", "session", "shipment", "signature", "snapshot",
    "socket", "source", "stream", "string", "subscription", "summary", "switch", "symbol", "table",
    "target", "template", "thread", "timeout", "token", "transaction", "transport", "truncate", "tuple",
    "unique", "update", "upload", "user", "validate", "value", "vector", "version", "warehouse",
    "webhook", "window", "worker", "wrapper", "the", "is", "of", "and", "when", "not", "to", "with",
    "that",
];
