//! The text of a place: exactly what was said, as a model can read it.

use crate::block::{Block, BlockKind, MediaSource};
use crate::decision::Decision;
use crate::entry::Entry;
use crate::record::Slot;

/// The text of what stands at a place. Texts, arguments of calls and results are exact; what is no text is named with its
/// size.
pub fn exact_text(slot: &Slot) -> String {
    match slot {
        Slot::Message(entry) => of_entry(entry),
        Slot::Decision(decision, _) => of_decision(decision),
        Slot::Erased(_) => "erased".into(),
    }
}

fn of_entry(entry: &Entry) -> String {
    let mut parts = Vec::new();
    for block in &entry.blocks {
        of_block(block, &mut parts);
    }
    parts.join("\n")
}

fn of_block(block: &Block, parts: &mut Vec<String>) {
    match &block.kind {
        BlockKind::Text(text) | BlockKind::Refusal(text) => parts.push(text.as_str().into_owned()),
        BlockKind::Reasoning(reasoning) => {
            let texts = reasoning.text.iter().chain(&reasoning.summaries);
            parts.extend(texts.map(|text| text.as_str().into_owned()));
        }
        BlockKind::ToolCall(call) => {
            parts.push(format!("[call {}]\n{}", call.name.as_str(), call.arguments.as_str()));
        }
        BlockKind::ToolResult(result) => result.content.iter().for_each(|block| of_block(block, parts)),
        BlockKind::Media(media) => {
            let kind = media.mime.clone().unwrap_or_else(|| format!("{:?}", media.kind).to_lowercase());
            let name = media.name.as_ref().map(|name| format!(" {}", name.as_str())).unwrap_or_default();
            parts.push(match &media.source {
                Some(MediaSource::Text(text)) => text.as_str().into_owned(),
                Some(MediaSource::Inline(data)) => {
                    format!("[{kind}{name}, {} bytes of base64, not shown]", data.as_str().len())
                }
                Some(MediaSource::Url(url) | MediaSource::File(url)) => {
                    let url = url.as_str();
                    // A data URL is the file itself.
                    if url.starts_with("data:") {
                        format!("[{kind}{name}, {} bytes of base64, not shown]", url.len())
                    } else {
                        format!("[{kind}{name} at {url}]")
                    }
                }
                None => format!("[{kind}{name}]"),
            });
        }
        BlockKind::Compaction(raw) | BlockKind::Opaque(raw) => parts.push(raw.as_str().into()),
    }
}

fn of_decision(decision: &Decision) -> String {
    match decision {
        Decision::Summary { text, covers, .. } => {
            let covers: Vec<String> = covers.iter().map(|(first, last)| format!("{first}-{last}")).collect();
            format!("[summary of positions {}]\n{text}", covers.join(", "))
        }
        other => serde_json::to_string(other).unwrap_or_else(|_| "[decision]".into()),
    }
}

/// A text on one line of at most so many characters.
pub fn one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    let mut space = false;
    for (count, letter) in text.trim_start().chars().enumerate() {
        if line.chars().count() >= most || count > 40 * most {
            line.push('…');
            return line;
        }
        if letter.is_whitespace() || letter.is_control() {
            space = !line.is_empty();
            continue;
        }
        if std::mem::take(&mut space) {
            line.push(' ');
        }
        line.push(letter);
    }
    line
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn text(entry: Entry) -> String {
        exact_text(&Slot::Message(Arc::new(entry)))
    }

    #[test]
    fn texts_calls_and_results_are_exact_and_binary_is_named() {
        assert_eq!(text(Entry::user("  two  spaces\t")), "  two  spaces\t");
        let call = Entry::calling(Some("I look."), &[("c1", "read_file", r#"{"path": "a.rs"}"#)]);
        assert_eq!(text(call), "I look.\n[call read_file]\n{\"path\": \"a.rs\"}");
        assert_eq!(text(Entry::result("c1", "fn main() {}\n")), "fn main() {}\n");
        let picture = serde_json::json!({
            "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=" }
        });
        let shown = text(Entry::answer("c1", &[picture], false));
        assert!(shown.contains("not shown") && !shown.contains("iVBOR"), "{shown}");
    }

    #[test]
    fn lines_are_short_and_have_no_control_characters() {
        assert_eq!(one_line("  a\n\n b\u{1b}[2Jc ", 20), "a b [2Jc");
        assert_eq!(one_line("abcdef", 3), "abc…");
        assert_eq!(one_line("abc", 3), "abc");
        assert!(one_line(&" ".repeat(1_000_000), 10).chars().count() <= 11);
    }
}
