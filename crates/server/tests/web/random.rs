//! Random requests over the document: whatever is asked, the answer is one the document knows, and never a failure of ours.

use axum::body::Body;
use axum::http::Method;
use scrollback_store::Tenant;
use serde_json::{Value, json};

use crate::api::{Contract, filled};
use crate::support::{Server, coded};

/// Requests of one trial.
const REQUESTS: u64 = 600;

/// A small generator: the same seed gives the same requests.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn text(&mut self, id: &str) -> String {
        let texts = [
            id,
            "",
            "x",
            "0",
            "-1",
            "18446744073709551616",
            "null",
            "true",
            "1e9",
            "\0",
            "a\nb",
            "\u{202E}",
            "«»",
            "%",
            "é😀",
            "../../etc/passwd",
            "' or 1=1 --",
            "{\"a\":",
            "passthrough",
            "sliding_window(3)",
            "sticky(sticky(fit))",
            "openai:gpt-4o",
            "nobody:model",
            "active",
            "user",
            "scrollback",
            "anthropic",
            "2026-01-01T00:00:00Z",
            "17.x",
            "1.00",
        ];
        texts[self.roll(texts.len())].to_string()
    }

    fn value(&mut self, id: &str, depth: usize) -> Value {
        match self.roll(if depth > 2 { 6 } else { 9 }) {
            0 => Value::Null,
            1 => json!(self.roll(2) == 0),
            2 => json!(self.roll(9)),
            3 => json!([-1, 3, 1_000_000_007, 0][self.roll(4)]),
            4 => json!(1.5),
            5 => json!(self.text(id)),
            6 => (0..self.roll(4)).map(|_| self.value(id, depth + 1)).collect(),
            7 => {
                let messages = [
                    json!({ "role": "user", "content": self.text(id) }),
                    json!({ "role": "tool", "content": "x" }),
                    json!({ "role": 7 }),
                ];
                json!([messages[self.roll(3)]])
            }
            _ => {
                let names = [
                    "text",
                    "at",
                    "positions",
                    "managers",
                    "messages",
                    "role",
                    "content",
                    "sliding_window",
                    "all",
                    "conversation",
                ];
                (0..self.roll(4))
                    .map(|_| (names[self.roll(names.len())].to_string(), self.value(id, depth + 1)))
                    .collect()
            }
        }
    }
}

#[tokio::test]
async fn no_request_gets_an_answer_the_document_does_not_know() {
    let seed =
        std::env::var("SCROLLBACK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed_1234);
    let mut dice = Dice(seed);
    let server = Server::new();
    let (id, call) = filled(&server, &Tenant::default()).await;
    let mut contract = Contract::new();
    let operations = contract.operations();
    for number in 0..REQUESTS {
        let (path, verb) = operations[dice.roll(operations.len())].clone();
        if path == "/api/events" {
            continue;
        }
        let name = match dice.roll(4) {
            0 => coded(&dice.text(&id)),
            _ if path.starts_with("/api/calls") => call.clone(),
            _ if path.starts_with("/api/runs") => "run00000000000001".into(),
            _ => id.clone(),
        };
        let operation = contract.operation(&path, &verb).clone();
        let mut pairs = Vec::new();
        for parameter in operation["parameters"].as_array().unwrap().iter().filter(|one| one["in"] == "query")
        {
            if dice.roll(3) == 0 || parameter["required"] == true {
                pairs.push(format!("{}={}", parameter["name"].as_str().unwrap(), coded(&dice.text(&id))));
            }
        }
        let body = body_of(&mut dice, &contract, &operation, &id);
        // An empty name is another path.
        let name = if name.is_empty() { "x".into() } else { name };
        let address = format!("{}?{}", path.replace("{id}", &name), pairs.join("&"));
        let answer = match &body {
            Some(body) => {
                server.ask(Method::POST, &address, Some("application/json"), body.to_string()).await
            }
            None if verb == "post" => server.ask(Method::POST, &address, None, dice.text(&id)).await,
            None => server.ask(Method::GET, &address, None, Body::empty()).await,
        };
        eprintln!("seed {seed}, request {number}: {verb} {address} {body:?} → {}", answer.status);
        assert!(answer.status.as_u16() != 500, "{}", answer.text);
        contract.check(&path, &verb, &answer);
    }
}

/// A body with the names of the schema and values of any kind.
fn body_of(dice: &mut Dice, contract: &Contract, operation: &Value, id: &str) -> Option<Value> {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let name = schema["$ref"].as_str()?.rsplit('/').next()?;
    if dice.roll(12) == 0 {
        return Some(dice.value(id, 0));
    }
    let members = contract.schema(name)["properties"].as_object()?.clone();
    let mut body = serde_json::Map::new();
    for key in members.keys() {
        if dice.roll(3) > 0 {
            body.insert(key.clone(), dice.value(id, 0));
        }
    }
    Some(Value::Object(body))
}
