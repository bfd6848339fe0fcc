//! Text into pieces: literal texts and tags. Lines that hold only a block tag are gone after this.

use super::{TemplateError, TemplateErrorKind};

/// A piece of a template.
#[derive(Debug, PartialEq)]
pub(super) enum TemplatePiece {
    Text(String),
    Tag(Tag),
}

/// A tag, and the character its inside begins at.
#[derive(Debug, PartialEq)]
pub(super) struct Tag {
    pub(super) what: What,
    pub(super) at: usize,
}

#[derive(Debug, PartialEq)]
pub(super) enum What {
    /// `{{ path }}`
    Value(String),
    /// `{{#word path}}`
    Open(String, String),
    /// `{{else}}`
    Else,
    /// `{{/word}}`
    Close(String),
    /// `{{! … }}`
    Comment,
}

pub(super) fn error(at: usize, message: impl Into<String>) -> TemplateError {
    TemplateError { kind: TemplateErrorKind::Syntax, message: message.into(), at, suggestion: None }
}

/// The pieces of a template.
pub(super) fn pieces(source: &str) -> Result<Vec<TemplatePiece>, TemplateError> {
    let mut found = Vec::new();
    let mut text = String::new();
    let mut rest = source;
    let mut at = 0;
    while let Some(place) = rest.find("{{") {
        let (before, from) = rest.split_at(place);
        at += before.chars().count();
        if let Some(kept) = before.strip_suffix('\\') {
            if let Some(kept) = kept.strip_suffix('\\') {
                // An escaped backslash: the tag behind it is one.
                text.push_str(kept);
                text.push('\\');
            } else {
                text.push_str(kept);
                text.push_str("{{");
                at += 2;
                rest = from.get(2..).unwrap_or_default();
                continue;
            }
        } else {
            text.push_str(before);
        }
        let (inside, after) = inside(from, at)?;
        if !text.is_empty() {
            found.push(TemplatePiece::Text(std::mem::take(&mut text)));
        }
        found.push(TemplatePiece::Tag(Tag { what: what(inside, at)?, at: at + 2 }));
        let tag = from.get(..from.len() - after.len()).unwrap_or_default();
        at += tag.chars().count();
        rest = after;
    }
    text.push_str(rest);
    if !text.is_empty() {
        found.push(TemplatePiece::Text(text));
    }
    Ok(without_empty_lines(found))
}

/// What stands between the braces at the beginning of a text, and what follows them.
fn inside(from: &str, at: usize) -> Result<(&str, &str), TemplateError> {
    let open = from.get(2..).unwrap_or_default();
    if open.starts_with('{') {
        return Err(error(at, "nothing is escaped here, so there are no triple braces; write {{ path }}"));
    }
    let (end, close) = if open.starts_with("!--") {
        (open.find("--}}").map(|end| end + 2), "--}}")
    } else {
        (open.find("}}"), "}}")
    };
    let Some(end) = end else {
        return Err(error(
            at,
            format!("this tag has no end; close it with {close}, or write \\{{{{ for two braces"),
        ));
    };
    Ok((open.get(..end).unwrap_or_default(), open.get(end + 2..).unwrap_or_default()))
}

fn what(inside: &str, at: usize) -> Result<What, TemplateError> {
    let trimmed = inside.trim();
    let words = || trimmed.get(1..).unwrap_or_default().trim();
    match trimmed.chars().next() {
        None => Err(error(at, "an empty tag; write \\{{ for two braces")),
        Some('!') => Ok(What::Comment),
        Some('#') => {
            let (word, path) = words().split_once(char::is_whitespace).unwrap_or((words(), ""));
            Ok(What::Open(word.into(), path.trim().into()))
        }
        Some('/') => Ok(What::Close(words().into())),
        Some('>') => Err(error(at, "there are no partials")),
        Some('^') => Err(error(at, "there are no inverted blocks; write {{#if path}}{{else}}…{{/if}}")),
        Some('&') => Err(error(at, "nothing is escaped here; write {{ path }}")),
        Some('~') => {
            Err(error(at, "there is no white space control; a line with only a block tag yields no line"))
        }
        _ if trimmed == "else" => Ok(What::Else),
        _ => Ok(What::Value(trimmed.into())),
    }
}

/// Takes away the lines that hold only one block tag or comment, and the comments.
fn without_empty_lines(pieces: Vec<TemplatePiece>) -> Vec<TemplatePiece> {
    let alone: Vec<bool> = (0..pieces.len()).map(|place| stands_alone(&pieces, place)).collect();
    let is_alone = |place: Option<usize>| place.and_then(|place| alone.get(place)).copied().unwrap_or(false);
    let mut kept = Vec::with_capacity(pieces.len());
    for (place, piece) in pieces.into_iter().enumerate() {
        match piece {
            TemplatePiece::Text(text) => {
                let start = if is_alone(place.checked_sub(1)) { after_first_line(&text) } else { 0 };
                let end = if is_alone(Some(place + 1)) { before_last_line(&text) } else { text.len() };
                let text = text.get(start..end.max(start)).unwrap_or_default();
                if !text.is_empty() {
                    kept.push(TemplatePiece::Text(text.into()));
                }
            }
            TemplatePiece::Tag(Tag { what: What::Comment, .. }) => {}
            tag @ TemplatePiece::Tag(_) => kept.push(tag),
        }
    }
    kept
}

/// Whether the piece is a block tag or comment with nothing else on its line.
fn stands_alone(pieces: &[TemplatePiece], place: usize) -> bool {
    let before = place.checked_sub(1).and_then(|before| pieces.get(before));
    let after = pieces.get(place + 1);
    let blank = |text: &str| text.chars().all(char::is_whitespace);
    let is_block = match pieces.get(place) {
        Some(TemplatePiece::Tag(tag)) => !matches!(tag.what, What::Value(_)),
        _ => false,
    };
    let free_before = match before {
        None => true,
        Some(TemplatePiece::Tag(_)) => false,
        Some(TemplatePiece::Text(text)) => match text.rsplit_once('\n') {
            Some((_, end)) => blank(end),
            None => place == 1 && blank(text),
        },
    };
    let free_after = match after {
        None => true,
        Some(TemplatePiece::Tag(_)) => false,
        Some(TemplatePiece::Text(text)) => match text.split_once('\n') {
            Some((start, _)) => blank(start),
            None => place + 2 == pieces.len() && blank(text),
        },
    };
    is_block && free_before && free_after
}

fn after_first_line(text: &str) -> usize {
    text.find('\n').map_or(text.len(), |place| place + 1)
}

fn before_last_line(text: &str) -> usize {
    text.rfind('\n').map_or(0, |place| place + 1)
}
