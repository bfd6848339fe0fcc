//! Rendering cases: a mission and its turns as JSON, to see what the next call would be sent without asking a model.

use std::collections::BTreeMap;

use scrollback_core::json::{self, JsonKind, Raw};
use scrollback_core::nearest::nearest;
use scrollback_lisp::{Definition, Map, Memory, Signature, Text, ToolRecord, Value};
use serde_json::{Value as Json, json};

use super::compression::{Chosen, Rendered, normalize};
use super::error::SubagentError;
use super::input::{Input, ToolLine};
use super::mission::PromptTemplate;
use super::system_prompt::SystemPrompt;
use super::turn::{Turn, TurnError, TurnUsage, changed};

/// A case: what a sub-agent was given, what it did, and how that is to be told.
pub struct Case {
    /// Its id, as JSON, if it has one.
    pub id: Option<String>,
    /// What was given.
    pub input: Input,
    /// What was done.
    pub turns: Vec<Turn>,
    /// The definitions now.
    pub memory: Memory,
    /// How it is told.
    pub compression: Chosen,
}

fn bad<T>(path: &str, message: impl Into<String>) -> Result<T, SubagentError> {
    Err(SubagentError::case(path, message))
}

const FIELDS: [&str; 10] =
    ["id", "user", "mission", "signature", "tools", "data", "max_turns", "compression", "options", "turns"];
const TURN_FIELDS: [&str; 8] =
    ["program", "result", "prints", "tool_calls", "memory", "success", "error", "raw_response"];

impl Case {
    /// Reads a case.
    pub fn parse(text: &[u8]) -> Result<Self, SubagentError> {
        let raw = json::check_bytes(text).map_err(|error| SubagentError::case("", error.to_string()))?;
        Case::read(raw)
    }

    /// Reads a case from JSON that was checked.
    pub fn read(raw: Raw<'_>) -> Result<Self, SubagentError> {
        let case = Object::of(raw, "", &FIELDS)?;
        let signature = case.text("signature")?.map(|text| signature(&text, "signature")).transpose()?;
        let data = case.get("data").map_or(Ok(BTreeMap::new()), |raw| data(raw, "data"))?;
        let Some(mission) = case.text("mission")? else { return bad("", "`mission` is missing") };
        let template = PromptTemplate::parse(&mission);
        if let Err(error) = template.check(signature.as_ref()) {
            return bad("mission", error.to_string());
        }
        if mission.trim().is_empty() {
            return bad("mission", "must say what is to be done");
        }
        let usual = Input::default();
        let input = Input {
            mission: template.expand(&data),
            signature,
            tools: case
                .list("tools")?
                .into_iter()
                .map(|(raw, path)| tool(raw, &path))
                .collect::<Result<_, _>>()?,
            data,
            system: SystemPrompt::default().generate(),
            max_turns: case.count("max_turns")?.unwrap_or(usual.max_turns),
            ..usual
        };
        let setting = case.get("compression").map_or(Json::Bool(true), as_json);
        let options = match case.get("options").map(as_json) {
            Some(Json::Object(options)) => options,
            None | Some(Json::Null) => serde_json::Map::new(),
            Some(_) => return bad("options", "must be an object from options to their values"),
        };
        let compression = normalize(&setting)
            .and_then(|chosen| chosen.with_options(&options))
            .map_err(|error| SubagentError::case("compression", error.to_string()))?;
        let (turns, memory) = turns(&case)?;
        let id = case.get("id").map(|id| id.text().to_string());
        Ok(Case { id, input, turns, memory, compression })
    }

    /// What the next call would be sent.
    pub fn render(&self) -> Rendered {
        self.compression.build().to_messages(&self.turns, &self.memory, &self.input)
    }
}

impl Rendered {
    /// The messages and the numbers about them, as programs read them.
    pub fn to_json(&self) -> Json {
        json!({ "messages": self.messages_json(), "stats": self.stats })
    }

    /// The messages, as programs read them.
    pub fn messages_json(&self) -> Vec<Json> {
        let messages = self.messages.iter();
        messages.map(|message| json!({ "role": message.role.as_str(), "content": message.text })).collect()
    }
}

/// The turns in order, and the definitions after the last that succeeded.
fn turns(case: &Object<'_>) -> Result<(Vec<Turn>, Memory), SubagentError> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut memory = Memory::default();
    let mut texts = BTreeMap::new();
    for (at, (raw, path)) in case.list("turns")?.into_iter().enumerate() {
        let turn = Object::of(raw, &path, &TURN_FIELDS)?;
        let error = error(&turn)?;
        let success = turn.flag("success")?;
        if success == Some(false) && error.is_none() {
            return bad(&path, "a turn without success needs an `error`");
        }
        if success == Some(true) && error.is_some() {
            return bad(&path, "a turn with success has no `error`");
        }
        let mut after = memory.clone();
        if error.is_none()
            && let Some(raw) = turn.get("memory")
        {
            after = snapshot(raw, &format!("{path}.memory"), &memory, &mut texts)?;
        }
        let result = turn.text("result")?.filter(|_| error.is_none());
        let result = result.map(|text| value(&text, &format!("{path}.result"))).transpose()?;
        let calls = turn.list("tool_calls")?;
        turns.push(Turn {
            number: at + 1,
            raw_response: turn.text("raw_response")?.unwrap_or_default(),
            program: turn.text("program")?,
            result,
            prints: turn.texts("prints")?,
            tool_calls: calls.into_iter().map(|(raw, path)| call(raw, &path)).collect::<Result<_, _>>()?,
            defined: changed(&memory, &after),
            memory: after.clone(),
            error,
            usage: TurnUsage::default(),
        });
        memory = after;
    }
    Ok((turns, memory))
}

fn error(turn: &Object<'_>) -> Result<Option<TurnError>, SubagentError> {
    let Some(raw) = turn.get("error") else { return Ok(None) };
    let error = Object::of(raw, &format!("{}.error", turn.path), &["reason", "message"])?;
    Ok(Some(TurnError {
        reason: error.text("reason")?.unwrap_or_default(),
        message: error.text("message")?.unwrap_or_default(),
    }))
}

/// A memory. A definition whose text has not changed is the one there was.
fn snapshot(
    raw: Raw<'_>,
    path: &str,
    before: &Memory,
    texts: &mut BTreeMap<String, String>,
) -> Result<Memory, SubagentError> {
    if raw.kind() != JsonKind::Object {
        return bad(path, "must be an object from names to definitions");
    }
    let mut memory = Memory::default();
    for (name, raw) in raw.members() {
        let text = raw.text().to_string();
        let known = before.get(&name).filter(|_| texts.get(&*name) == Some(&text));
        let definition = match known {
            Some(known) => known.clone(),
            None => definition(raw, &format!("{path}.{name}"))?,
        };
        memory.insert(&name, definition);
        texts.insert(name.into_owned(), text);
    }
    Ok(memory)
}

fn definition(raw: Raw<'_>, path: &str) -> Result<Definition, SubagentError> {
    if let Some(text) = raw.string() {
        return Ok(Definition { value: Some(value(&text, path)?), ..Definition::default() });
    }
    let fields = Object::of(raw, path, &["value", "doc", "params", "returns"])?;
    let made = match (fields.text("params")?, fields.text("value")?) {
        (Some(params), None) => function(&params, path)?,
        (None, Some(text)) => value(&text, path)?,
        _ => return bad(path, "needs `value`, or `params` for a function"),
    };
    Ok(Definition {
        value: Some(made),
        doc: fields.text("doc")?.map(Text::from),
        returns: fields.text("returns")?.map(Into::into),
        run: 0,
    })
}

/// A function of which only the parameters are known.
fn function(params: &str, path: &str) -> Result<Value, SubagentError> {
    // One vector, or one per arity.
    for source in [format!("(fn {params} nil)"), format!("(fn {})", arities(params))] {
        let saved = json!({ "function": source }).to_string();
        if let Ok(value @ Value::Function(_)) = Value::restore(&saved) {
            return Ok(value);
        }
    }
    bad(path, format!("{params:?} are not parameters; write them as [x y]"))
}

/// The vectors of several arities, each with a body.
fn arities(params: &str) -> String {
    let mut depth = 0_usize;
    let mut out = String::new();
    for c in params.chars() {
        if c == '[' && depth == 0 {
            out.push('(');
        }
        out.push(c);
        match c {
            '[' => depth += 1,
            ']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    out.push_str(" nil)");
                }
            }
            _ => {}
        }
    }
    out
}

/// A value from its text. Functions print, but do not read: one with the same parameters stands for it.
pub(crate) fn value(text: &str, path: &str) -> Result<Value, SubagentError> {
    match Value::read(text) {
        Ok(value) => Ok(value),
        Err(problem) => match text.trim().strip_prefix("#fn") {
            Some("[...]") => Value::restore(&json!({ "function": "identity" }).to_string())
                .map_err(|message| SubagentError::case(path, message)),
            Some(params) => function(params, path),
            None => bad(path, format!("{text:?} is not a value: {problem}")),
        },
    }
}

fn call(raw: Raw<'_>, path: &str) -> Result<ToolRecord, SubagentError> {
    let call = Object::of(raw, path, &["name", "args", "result", "error", "duration_ms"])?;
    let Some(name) = call.text("name")? else { return bad(path, "`name` is missing") };
    let args = match call.get("args").map(|raw| Value::from_json(raw.text())) {
        None => Map::default(),
        Some(Some(Value::Map(args))) => args,
        Some(_) => return bad(&format!("{path}.args"), "must be an object"),
    };
    let result = match call.text("error")? {
        Some(error) => Err(error),
        None => Ok(call.get("result").and_then(|raw| Value::from_json(raw.text())).unwrap_or_default()),
    };
    Ok(ToolRecord { name, args, result, duration: None })
}

fn tool(raw: Raw<'_>, path: &str) -> Result<ToolLine, SubagentError> {
    let tool = Object::of(raw, path, &["name", "signature", "description"])?;
    let Some(name) = tool.text("name")? else { return bad(path, "`name` is missing") };
    let place = format!("{path}.signature");
    let signature = tool.text("signature")?.map(|text| signature(&text, &place)).transpose()?;
    Ok(ToolLine { name, signature, description: tool.text("description")? })
}

fn signature(text: &str, path: &str) -> Result<Signature, SubagentError> {
    Signature::parse(text).map_err(|error| SubagentError::case(path, error.to_string()))
}

/// Data by name, from the text of a file.
pub fn read_data(text: &[u8]) -> Result<BTreeMap<String, Value>, SubagentError> {
    let raw = json::check_bytes(text).map_err(|error| SubagentError::case("", error.to_string()))?;
    data(raw, "data")
}

fn data(raw: Raw<'_>, path: &str) -> Result<BTreeMap<String, Value>, SubagentError> {
    if raw.kind() != JsonKind::Object {
        return bad(path, "must be an object from names to values");
    }
    let value = |raw: Raw<'_>| Value::from_json(raw.text()).unwrap_or_default();
    Ok(raw.members().map(|(name, raw)| (name.into_owned(), value(raw))).collect())
}

fn as_json(raw: Raw<'_>) -> Json {
    serde_json::from_str(raw.text()).unwrap_or(Json::Null)
}

/// An object that is being read; null counts as not there.
struct Object<'a> {
    raw: Raw<'a>,
    path: String,
}

impl<'a> Object<'a> {
    /// An object with none but known fields.
    fn of(raw: Raw<'a>, path: &str, known: &[&str]) -> Result<Self, SubagentError> {
        if raw.kind() != JsonKind::Object {
            return bad(path, format!("must be an object, not {}", raw.kind().name()));
        }
        let members = raw
            .object()
            .map_err(|twice| SubagentError::case(path, format!("the key {twice:?} appears twice")))?;
        for (name, _) in members.members() {
            if !known.contains(&&**name) {
                let hint = nearest(name, known.iter().copied()).map_or_else(
                    || format!(" (known: {})", known.join(", ")),
                    |near| format!("; did you mean `{near}`?"),
                );
                return bad(path, format!("unknown field `{name}`{hint}"));
            }
        }
        Ok(Object { raw, path: path.into() })
    }

    fn get(&self, name: &str) -> Option<Raw<'a>> {
        self.raw.get(name).filter(|raw| raw.kind() != JsonKind::Null)
    }

    fn place(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }

    fn wrong<T>(&self, name: &str, wanted: &str, found: Raw<'_>) -> Result<T, SubagentError> {
        bad(&self.place(name), format!("must be {wanted}, not {}", found.kind().name()))
    }

    fn text(&self, name: &str) -> Result<Option<String>, SubagentError> {
        let Some(raw) = self.get(name) else { return Ok(None) };
        match raw.string() {
            Some(text) => Ok(Some(text.into_owned())),
            None => self.wrong(name, "a text", raw),
        }
    }

    fn count(&self, name: &str) -> Result<Option<usize>, SubagentError> {
        let Some(raw) = self.get(name) else { return Ok(None) };
        match raw.text().parse::<usize>() {
            Ok(number) if number > 0 => Ok(Some(number)),
            _ => self.wrong(name, "a whole number above 0", raw),
        }
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, SubagentError> {
        let Some(raw) = self.get(name) else { return Ok(None) };
        match raw.kind() {
            JsonKind::Bool => Ok(Some(raw.text() == "true")),
            _ => self.wrong(name, "true or false", raw),
        }
    }

    fn list(&self, name: &str) -> Result<Vec<(Raw<'a>, String)>, SubagentError> {
        let Some(raw) = self.get(name) else { return Ok(Vec::new()) };
        if raw.kind() != JsonKind::Array {
            return self.wrong(name, "a list", raw);
        }
        let place = self.place(name);
        Ok(raw.elements().enumerate().map(|(at, item)| (item, format!("{place}[{at}]"))).collect())
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, SubagentError> {
        let items = self.list(name)?.into_iter();
        let text = |(raw, path): (Raw<'_>, String)| match raw.string() {
            Some(text) => Ok(text.into_owned()),
            None => bad(&path, format!("must be a text, not {}", raw.kind().name())),
        };
        items.map(text).collect()
    }
}
