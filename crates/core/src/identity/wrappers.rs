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
pub const WRAPPERS: [Wrapper; 27] = [
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

/// A text without its wrappers. Borrowed where it has none.
///
/// A wrapper begins at the start of a line and ends at its closing tag; one that is never closed is left as it is.
///
/// ```
/// use scrollback_core::identity::without_wrappers;
/// assert_eq!(without_wrappers("<system-reminder>be kind</system-reminder>\nhello"), "\nhello");
/// assert_eq!(without_wrappers("what is <system-reminder>?"), "what is <system-reminder>?");
/// ```
pub fn without_wrappers(text: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let mut copied = 0;
    let mut at = 0;
    // Whether the line so far holds nothing but white space and wrappers.
    let mut line_is_free = true;
    // Tags that are closed nowhere behind this place: looked for once, so that the work stays linear.
    let mut unclosed = [false; WRAPPERS.len()];
    while let Some(gap) = text.get(at..).and_then(|rest| rest.split_once('<')).map(|(gap, _)| gap) {
        line_is_free = match gap.rsplit_once('\n') {
            Some((_, line)) => line.trim().is_empty(),
            None => line_is_free && gap.trim().is_empty(),
        };
        let open = at + gap.len();
        let end = if line_is_free { wrapper_end(text, open, &mut unclosed) } else { None };
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

/// Where the wrapper that opens at `open` ends; none if there is no wrapper.
fn wrapper_end(text: &str, open: usize, unclosed: &mut [bool; WRAPPERS.len()]) -> Option<usize> {
    let rest = text.get(open + 1..)?;
    let (wrapper, is_unclosed) = WRAPPERS.iter().zip(unclosed).find(|(wrapper, _)| {
        rest.strip_prefix(wrapper.tag).is_some_and(|after| after.starts_with(['>', ' ', '\n']))
    })?;
    if *is_unclosed {
        return None;
    }
    let close = format!("</{}>", wrapper.tag);
    let end = rest.find(&close);
    *is_unclosed = end.is_none();
    Some(open + 1 + end? + close.len())
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
    fn two_on_one_line_go_both() {
        let text = "<bash-stdout>1</bash-stdout><bash-stderr></bash-stderr>";
        assert_eq!(without_wrappers(text), "");
    }
}
