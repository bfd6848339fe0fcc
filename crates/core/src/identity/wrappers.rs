//! What clients wrap around the words of a person: reminders, the state of an editor, the output of a local command.
//!
//! Wrappers are data: one row for each, with the client that writes it. They are ignored when entries are compared and when a
//! title is chosen; the record keeps them like everything else.

use std::borrow::Cow;

/// A wrapper: everything between an opening and a closing tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// The name of the tag.
    pub tag: &'static str,
    /// The client that writes it.
    pub client: &'static str,
}

const fn of(client: &'static str, tag: &'static str) -> Wrapper {
    Wrapper { tag, client }
}

/// Every wrapper that is known.
pub const WRAPPERS: [Wrapper; 28] = [
    of("claude-code", "system-reminder"),
    of("claude-code", "local-command-caveat"),
    of("claude-code", "local-command-stdout"),
    of("claude-code", "local-command-stderr"),
    of("claude-code", "command-name"),
    of("claude-code", "command-message"),
    of("claude-code", "command-contents"),
    of("claude-code", "bash-stdout"),
    of("claude-code", "bash-stderr"),
    of("claude-code", "user-prompt-submit-hook"),
    of("claude-code", "task-notification"),
    of("claude-code", "ide_selection"),
    of("claude-code", "ide_opened_file"),
    of("claude-code", "ide_diagnostics"),
    of("claude-code", "new-diagnostics"),
    of("codex", "environment_context"),
    of("codex", "user_instructions"),
    of("codex", "permissions instructions"),
    of("codex", "turn_aborted"),
    of("codex", "INSTRUCTIONS"),
    of("codex", "skills_instructions"),
    of("codex", "plugins_instructions"),
    of("codex", "apps_instructions"),
    of("codex", "environments_instructions"),
    of("codex", "startup_context"),
    of("cursor", "attached_files"),
    of("gemini-cli", "session_context"),
    of("opencode", "env"),
];

/// A beginning that a client writes without tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// What it is called here.
    pub name: &'static str,
    /// The client that writes it.
    pub client: &'static str,
    /// The words it begins with.
    pub from: &'static str,
    /// The words it ends with; where none are given, it ends with its line.
    pub upto: Option<&'static str>,
}

/// Every beginning without tags that is known.
pub const PREAMBLES: [Preamble; 2] = [
    Preamble { name: "agents-heading", client: "codex", from: "# AGENTS.md instructions", upto: None },
    Preamble {
        name: "ide-setup",
        client: "codex",
        from: "# Context from my IDE setup:",
        upto: Some("## My request for Codex:"),
    },
];

/// Tags that a client puts around words of the person: the tags are taken off, and the words stay.
pub const FRAMES: [Wrapper; 2] = [of("claude-code", "command-args"), of("cursor", "user_query")];

/// A text without its wrappers. Borrowed where it has none.
///
/// A wrapper begins at the start of a line and ends at its closing tag; one that is never closed is left as it is. A
/// [`Preamble`] stands at the start of the text.
///
/// ```
/// use scrollback_core::identity::without_wrappers;
/// assert_eq!(without_wrappers("<system-reminder>be kind</system-reminder>\nhello"), "\nhello");
/// assert_eq!(without_wrappers("what is <system-reminder>?"), "what is <system-reminder>?");
/// ```
pub fn without_wrappers(text: &str) -> Cow<'_, str> {
    let text = without_preambles(text);
    let mut kept = String::new();
    let mut copied = 0;
    let mut at = 0;
    // Whether the line so far holds nothing but white space and wrappers.
    let mut line_is_free = true;
    // Tags that are closed nowhere behind this place: looked for once, so that the work stays linear.
    let mut unclosed = Unclosed::default();
    // Where the frame that is open is closed, and where that ends.
    let mut frame: Option<(usize, usize)> = None;
    while let Some(gap) = text.get(at..).and_then(|rest| rest.split_once('<')).map(|(gap, _)| gap) {
        line_is_free = match gap.rsplit_once('\n') {
            Some((_, line)) => line.trim().is_empty(),
            None => line_is_free && gap.trim().is_empty(),
        };
        let open = at + gap.len();
        let mut end = frame.filter(|(close, _)| *close == open).map(|(_, end)| end);
        if end.is_some() {
            frame = None;
        } else if line_is_free {
            end = wrapper_end(text, open, &mut unclosed);
            if end.is_none() && frame.is_none() {
                (end, frame) = frame_of(text, open, &mut unclosed).unzip();
            }
        }
        at = end.unwrap_or(open + 1);
        if end.is_some() {
            kept.push_str(text.get(copied..open).unwrap_or_default());
            copied = at;
        } else {
            line_is_free = false;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    kept.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(kept)
}

/// A text without the beginnings that clients write without tags.
fn without_preambles(text: &str) -> &str {
    let mut rest = text;
    loop {
        let start = rest.trim_start();
        let Some(known) = PREAMBLES.iter().find(|known| start.starts_with(known.from)) else { return rest };
        let after = match known.upto {
            None => Some(start.split_once('\n').map_or("", |(_, after)| after)),
            Some(words) => start.split_once(words).map(|(_, after)| after),
        };
        let Some(after) = after else { return rest };
        rest = after;
    }
}

/// Which tags are closed nowhere behind a place.
#[derive(Default)]
struct Unclosed {
    wrappers: [bool; WRAPPERS.len()],
    frames: [bool; FRAMES.len()],
}

/// Where the wrapper that opens at `open` ends; none if there is no wrapper.
fn wrapper_end(text: &str, open: usize, unclosed: &mut Unclosed) -> Option<usize> {
    let rest = text.get(open + 1..)?;
    let (wrapper, is_unclosed) = WRAPPERS
        .iter()
        .zip(&mut unclosed.wrappers)
        .find(|(wrapper, _)| rest.strip_prefix(wrapper.tag).is_some_and(ends_name))?;
    let (_, end) = closed(rest, wrapper.tag, is_unclosed)?;
    Some(open + 1 + end)
}

/// The frame that opens at `open`: where its opening tag ends, and where its closing tag begins and ends.
fn frame_of(text: &str, open: usize, unclosed: &mut Unclosed) -> Option<(usize, (usize, usize))> {
    let rest = text.get(open + 1..)?;
    let opened = |tag: &str| rest.strip_prefix(tag).is_some_and(|after| after.starts_with('>'));
    let (frame, is_unclosed) =
        FRAMES.iter().zip(&mut unclosed.frames).find(|(frame, _)| opened(frame.tag))?;
    let (close, end) = closed(rest, frame.tag, is_unclosed)?;
    Some((open + frame.tag.len() + 2, (open + 1 + close, open + 1 + end)))
}

fn ends_name(after: &str) -> bool {
    after.starts_with(['>', ' ', '\n'])
}

/// Where the closing tag begins and ends.
fn closed(rest: &str, tag: &str, is_unclosed: &mut bool) -> Option<(usize, usize)> {
    if *is_unclosed {
        return None;
    }
    let close = format!("</{tag}>");
    let at = rest.find(&close);
    *is_unclosed = at.is_none();
    at.map(|at| (at, at + close.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrapper_is_taken_off() {
        for Wrapper { tag, client } in WRAPPERS {
            let text = format!("<{tag}>\nsomething of {client}\n</{tag}>\nfix the bug\n<{tag}>again</{tag}>");
            assert_eq!(without_wrappers(&text).trim(), "fix the bug", "{tag}");
        }
    }

    #[test]
    fn what_a_person_writes_stays() {
        for text in [
            "a <b> c",
            "<system-reminder>never closed",
            "say `<env>x</env>` please",
            "<environment>x</environment>",
            "",
        ] {
            assert_eq!(without_wrappers(text), text);
        }
    }

    #[test]
    fn beginnings_without_tags_are_taken_off() {
        let agents = "# AGENTS.md instructions for /home/anna\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>\nfix the bug";
        assert_eq!(without_wrappers(agents).trim(), "fix the bug");
        let ide = "# Context from my IDE setup:\n\n## Open tabs:\n- a.rs\n\n## My request for Codex:\nfix the bug\n";
        assert_eq!(without_wrappers(ide).trim(), "fix the bug");
        for text in ["say # AGENTS.md instructions", "# Context from my IDE setup: never ends"] {
            assert_eq!(without_wrappers(text), text);
        }
    }

    #[test]
    fn words_of_the_person_stay_when_their_frame_is_taken_off() {
        let command = "<command-name>/review</command-name>\n<command-args>pull <b> 12</command-args>";
        assert_eq!(without_wrappers(command).trim(), "pull <b> 12");
        assert_eq!(without_wrappers("<user_query>\nfix\n</user_query>"), "\nfix\n");
        assert_eq!(without_wrappers("<user_query>\nfix"), "<user_query>\nfix");
        assert_eq!(without_wrappers("<command-args></command-args>"), "");
    }

    #[test]
    fn two_on_one_line_go_both() {
        let text = "<bash-stdout>1</bash-stdout><bash-stderr></bash-stderr>";
        assert_eq!(without_wrappers(text), "");
    }
}
