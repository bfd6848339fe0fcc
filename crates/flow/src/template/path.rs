//! Paths in templates.

use scrollback_core::nearest::nearest_key;

use super::{TemplateError, TemplateErrorKind, scan::error};
use crate::expression::{ROOTS, root};
use crate::reference::{FlowName, PathKey, Reference};

/// What a tag names.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Path {
    /// Something of the flow.
    Reference(Reference),
    /// A part of the item that the innermost `each` is at.
    This(Vec<PathKey>),
    /// Its number, from 0.
    Index,
    /// Whether it is the first.
    First,
    /// Whether it is the last.
    Last,
}

impl Path {
    /// As people write it.
    pub(super) fn shown(&self) -> String {
        match self {
            Path::Reference(reference) => reference.to_string(),
            Path::This(keys) => {
                let dotted = keys.iter().map(|key| match key {
                    PathKey::Member(name) => format!(".{name}"),
                    PathKey::Element(number) => format!("[{number}]"),
                });
                format!("this{}", dotted.collect::<String>())
            }
            Path::Index => "@index".into(),
            Path::First => "@first".into(),
            Path::Last => "@last".into(),
        }
    }
}

/// Whether there is an item to speak of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    Each,
    Nothing,
}

/// Reads a path that begins at a character.
pub(super) fn read(text: &str, at: usize, inside: Inside) -> Result<Path, TemplateError> {
    let item = |path: Path| match inside {
        Inside::Each => Ok(path),
        Inside::Nothing => {
            let message = format!("`{text}` means something inside {{{{#each}}}} only");
            Err(TemplateError { kind: TemplateErrorKind::UnknownName, ..error(at, message) })
        }
    };
    match text {
        "" => return Err(error(at, "a path was expected: {{#each history}}")),
        "@index" => return item(Path::Index),
        "@first" => return item(Path::First),
        "@last" => return item(Path::Last),
        _ if text.starts_with('@') => return Err(unknown(text, at, &["@index", "@first", "@last"], "")),
        _ if text.starts_with("..") => return Err(error(at, "there is no way out of an {{#each}}")),
        "." => return Err(error(at, "write `this`")),
        _ => {}
    }
    let mut keys = keys(text, at)?.into_iter();
    let Some(PathKey::Member(first)) = keys.next() else { return Err(bad(text, at)) };
    let name = match &*first {
        "this" => return item(Path::This(keys.collect())),
        "loop" => match keys.next() {
            Some(PathKey::Member(member)) if &*member == "input" => FlowName::LoopInput,
            Some(PathKey::Member(member)) if &*member == "iteration" => FlowName::LoopIteration,
            other => return Err(no_member("loop", other.as_ref(), at, &["input", "iteration"])),
        },
        "steps" => {
            let Some(PathKey::Member(step)) = keys.next() else {
                return Err(error(at, "a step is named: {{ steps.NAME.output }}"));
            };
            match keys.next() {
                Some(PathKey::Member(member)) if &*member == "output" => FlowName::StepOutput(step),
                Some(PathKey::Member(member)) if &*member == "status" => FlowName::StepStatus(step),
                other => {
                    let of = format!("steps.{step}");
                    return Err(no_member(&of, other.as_ref(), at, &["output", "status"]));
                }
            }
        }
        word => root(word).ok_or_else(|| {
            let of_item = if inside == Inside::Each { "; a part of the item is `this.…`" } else { "" };
            unknown(word, at, &ROOTS, of_item)
        })?,
    };
    Ok(Path::Reference(Reference { name, keys: keys.collect() }))
}

/// `a.b-c.0`, `a.[any key]`, `a[0]`, `a[-1]`, `a['key']`.
fn keys(text: &str, at: usize) -> Result<Vec<PathKey>, TemplateError> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        if let Some(inner) = rest.strip_prefix('[') {
            let Some((key, after)) = inner.split_once(']') else { return Err(bad(text, at)) };
            found.push(bracketed(key.trim()));
            rest = after;
        } else {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
            let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
            if name.is_empty() {
                return Err(bad(text, at));
            }
            found.push(PathKey::Member(name.into()));
            rest = after;
        }
        if rest.is_empty() {
            return Ok(found);
        }
        match rest.strip_prefix('.') {
            Some(after) => rest = after,
            None if rest.starts_with('[') => {}
            None => return Err(bad(text, at)),
        }
    }
}

fn bracketed(key: &str) -> PathKey {
    if let Ok(number) = key.parse() {
        return PathKey::Element(number);
    }
    let quoted = ['\'', '"'].into_iter().find_map(|quote| key.strip_prefix(quote)?.strip_suffix(quote));
    PathKey::Member(quoted.unwrap_or(key).into())
}

fn bad(text: &str, at: usize) -> TemplateError {
    let looks_like_code = text.contains(|c: char| c.is_whitespace() || "()+*/|=<>!,".contains(c));
    if looks_like_code {
        return error(at, format!("`{text}` is not a path; templates have no helpers and no expressions"));
    }
    error(at, format!("`{text}` is not a path; a path is names with dots between them: steps.draft.output"))
}

fn no_member(of: &str, member: Option<&PathKey>, at: usize, known: &[&str]) -> TemplateError {
    match member {
        Some(PathKey::Member(member)) => {
            let near = nearest_key(member, known.iter().copied());
            let hint = near.map_or_else(
                || format!(" (known: {})", known.join(", ")),
                |near| format!("; did you mean `{near}`?"),
            );
            TemplateError {
                kind: TemplateErrorKind::UnknownName,
                message: format!("`{of}` has no `{member}`{hint}"),
                at,
                suggestion: near.map(String::from),
            }
        }
        _ => TemplateError {
            kind: TemplateErrorKind::UnknownName,
            ..error(at, format!("`{of}` is not a value by itself (known: {})", known.join(", ")))
        },
    }
}

fn unknown(word: &str, at: usize, known: &[&str], more: &str) -> TemplateError {
    let near = nearest_key(word, known.iter().copied());
    let hint = near.map_or_else(
        || format!(" (known: {})", known.join(", ")),
        |near| format!("; did you mean `{near}`?"),
    );
    TemplateError {
        kind: TemplateErrorKind::UnknownName,
        message: format!("there is no `{word}` here{hint}{more}"),
        at,
        suggestion: near.map(String::from),
    }
}
