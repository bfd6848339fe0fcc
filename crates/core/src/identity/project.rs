//! The project of a session: the working directory or repository that its client reports in the first things it says.

use crate::entry::{Entry, Role};

/// Words in front of the directory, and the client that writes them. The rest of the line is the path.
const LINES: [(&str, &str); 5] = [
    ("claude-code", "Primary working directory:"),
    ("claude-code, opencode", "Working directory:"),
    ("gemini-cli", "I'm currently working in the directory:"),
    ("gemini-cli", "Current working directory:"),
    ("crush", "Working Directory:"),
];
/// Tags around the directory, and the client that writes them.
const TAGS: [(&str, &str, &str); 1] = [("codex", "<cwd>", "</cwd>")];
/// Where an imported transcript of Claude Code has it.
const TAG: &str = "claude-code.cwd";
/// Entries at the start in which clients report it.
const FIRST: usize = 8;
/// Longer paths are none.
const LONGEST: usize = 1_024;

/// The directory that a client reports in a list of messages.
///
/// ```
/// use scrollback_core::identity::project_of;
/// use scrollback_core::Entry;
/// let said = [Entry::user("<environment_context>\n  <cwd>/srv/app</cwd>\n</environment_context>")];
/// assert_eq!(project_of(&said).as_deref(), Some("/srv/app"));
/// ```
pub fn project_of(list: &[Entry]) -> Option<String> {
    let tagged = |entry: &Entry| entry.meta.as_ref()?.tags.get(TAG).and_then(|folder| path(folder));
    if let Some(found) = list.iter().take(FIRST).find_map(tagged) {
        return Some(found);
    }
    let spoken = list.iter().filter(|entry| matches!(entry.role, Role::System | Role::User)).take(FIRST);
    spoken.flat_map(Entry::texts).find_map(|text| in_text(&text.as_str()))
}

fn in_text(text: &str) -> Option<String> {
    let tagged = TAGS.iter().find_map(|(_, open, close)| {
        let after = text.split_once(open)?.1;
        path(after.split_once(close)?.0)
    });
    tagged.or_else(|| {
        text.lines().find_map(|line| {
            let line =
                line.trim_start_matches(|letter: char| letter.is_whitespace() || "-*".contains(letter));
            LINES.iter().find_map(|(_, words)| path(line.strip_prefix(words)?))
        })
    })
}

/// An absolute path without what would make it another spelling of the same folder.
fn path(text: &str) -> Option<String> {
    let text = text.trim().trim_matches('`');
    let absolute =
        text.starts_with('/') || text.get(1..3).is_some_and(|drive| drive == ":\\" || drive == ":/");
    if !absolute || text.len() > LONGEST || text.chars().any(char::is_control) {
        return None;
    }
    let bare = text.trim_end_matches(['/', '\\']);
    Some(if bare.is_empty() { "/".into() } else { bare.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_found_as_each_client_writes_it() {
        for (text, found) in [
            (
                "Here is useful information:\n<env>\nWorking directory: /srv/app\nIs git repo: Yes",
                Some("/srv/app"),
            ),
            ("# Environment\n - Primary working directory: /srv/app/\n - Platform: linux", Some("/srv/app")),
            ("<environment_context>\n  <cwd>C:\\work\\app</cwd>\n", Some("C:\\work\\app")),
            ("I'm currently working in the directory: /home/a b", Some("/home/a b")),
            ("Working directory: relative/path", None),
            ("the Working directory: /in/prose", None),
            ("<cwd></cwd>", None),
            ("hello", None),
        ] {
            assert_eq!(project_of(&[Entry::system(text)]).as_deref(), found, "{text}");
        }
        assert_eq!(
            project_of(&[Entry::assistant("Working directory: /srv/app")]),
            None,
            "a model reports nothing"
        );
    }
}
