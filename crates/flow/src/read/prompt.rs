//! Instructions of agents, and the files they may lie in.

use std::path::{Component, Path};

use scrollback_agent::document::{Fields, Node, Value, code};

use super::Prompts;
use super::context::{FlowReader, Spot};
use crate::problem::Code;

/// The instructions of an agent: a text, or that of a file in `folder`.
pub(super) fn system_prompt(
    fields: &mut Fields<'_, '_>,
    agent: &Node,
    folder: &Path,
    of_flow: bool,
    reading: &mut FlowReader<'_>,
) -> Option<String> {
    let node = fields.node("system_prompt")?;
    let text = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Map(_) => {
            let path = fields.path("system_prompt");
            let file = reading.map(node, &path, |inner, _| inner.required_text("file"))?;
            let place = Spot { path: format!("{path}.file"), at: node.get("file").unwrap_or(agent).at };
            prompt_file(&file, folder, of_flow, &place, reading)?
        }
        _ => {
            let message = format!("must be a text, or a map with `file`, not {}", node.kind());
            fields.problem_of(code::WRONG_TYPE, "system_prompt", message);
            return None;
        }
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

/// The text of a prompt file, which may not lie outside the folder.
fn prompt_file(
    file: &str,
    folder: &Path,
    of_flow: bool,
    place: &Spot,
    reading: &mut FlowReader<'_>,
) -> Option<String> {
    // A configured agent's file is another file than the flow's of that name.
    let kept_as = if of_flow { file.to_string() } else { folder.join(file).display().to_string() };
    let read = match reading.source.prompts {
        Prompts::Kept(texts) => texts.get(&kept_as).cloned().ok_or_else(|| "it was not kept".to_string()),
        Prompts::Disk => read_inside(folder, file),
    };
    match read {
        Ok(text) => {
            reading.prompt_files.insert(kept_as, text.clone());
            Some(text)
        }
        Err(problem) => {
            reading.error(Code::UnknownValue, place, format!("the file {file:?} cannot be read: {problem}"));
            None
        }
    }
}

/// Largest prompt file, in bytes: as large as a flow.
const LARGEST_PROMPT: u64 = 1 << 20;

fn read_inside(folder: &Path, file: &str) -> Result<String, String> {
    let inside =
        Path::new(file).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let outside = || "it lies outside the flow's folder; copy it there".to_string();
    if !inside || file.is_empty() {
        return Err(outside());
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let told = |error: std::io::Error| {
        error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase()
    };
    let root = folder.canonicalize().map_err(told)?;
    let path = folder.join(file).canonicalize().map_err(told)?;
    // A link may lead out.
    if !path.starts_with(&root) {
        return Err(outside());
    }
    if path.metadata().map_err(told)?.len() > LARGEST_PROMPT {
        return Err("it is larger than 1 MiB".into());
    }
    std::fs::read_to_string(&path).map_err(told)
}
