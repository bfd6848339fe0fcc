//! What a script expects of a request, judged by the very body that was sent.

use serde_json::Value;

/// What a request must look like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// Texts that must be somewhere in it.
    pub contains: Vec<String>,
    /// Texts that must be nowhere in it.
    pub absent: Vec<String>,
    /// The roles of its messages, in order.
    pub roles: Option<Vec<String>>,
    /// How many messages it has.
    pub count: Option<usize>,
    /// The tools it offers, in order.
    pub tools: Option<Vec<String>>,
}

impl Expect {
    /// What is otherwise than expected, in words; none if nothing is.
    pub(crate) fn mismatch(&self, body: &str) -> Option<String> {
        let Ok(sent) = serde_json::from_str::<Value>(body) else {
            return Some("the request is not JSON".into());
        };
        let messages = sent["messages"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        let mut said = Vec::new();
        texts(&sent, &mut said);
        let has = |wanted: &String| said.iter().any(|text| text.contains(wanted.as_str()));
        let named = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let roles: Vec<String> = messages.iter().map(|message| named(&message["role"])).collect();
        let tools = sent["tools"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        let tools: Vec<String> = tools.iter().map(|tool| named(&tool["function"]["name"])).collect();
        let mut found = Vec::new();
        found.extend(self.contains.iter().filter(|text| !has(text)).map(|text| format!("no {text:?} in it")));
        found.extend(self.absent.iter().filter(|text| has(text)).map(|text| format!("{text:?} is in it")));
        if let Some(wanted) = self.roles.as_ref().filter(|wanted| **wanted != roles) {
            found.push(format!("roles {roles:?} instead of {wanted:?}"));
        }
        if let Some(wanted) = self.count.filter(|wanted| *wanted != messages.len()) {
            found.push(format!("{} messages instead of {wanted}", messages.len()));
        }
        if let Some(wanted) = self.tools.as_ref().filter(|wanted| **wanted != tools) {
            found.push(format!("tools {tools:?} instead of {wanted:?}"));
        }
        (!found.is_empty())
            .then(|| format!("the request is not what the script expects: {}", found.join("; ")))
    }
}

// The depth is that of the request, which its own check limits.
/// Every text in a value.
fn texts<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(list) => list.iter().for_each(|value| texts(value, found)),
        Value::Object(map) => map.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}
