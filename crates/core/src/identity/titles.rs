//! What people call a conversation: the first words of the person, or what the client's own title call answered.

use crate::entry::{Entry, Role};
use crate::json::{self, JsonKind, Raw};

use super::without_wrappers;

/// Most characters of a title: a line of a list.
const MAX_TITLE: usize = 80;

/// Words by which a call that asks for a title is known, and the client that sends them.
const TITLE_CALLS: [(&str, &str); 7] = [
    ("claude-code", "You are naming a coding session"),
    ("claude-code", "Generate a concise, sentence-case title"),
    ("claude-code", "Analyze if this message indicates a new conversation topic"),
    ("opencode", "You are a title generator"),
    ("open-webui", "Generate a concise, 3-5 word title"),
    ("librechat", "Provide a concise, 5-word-or-less title"),
    ("ai-sdk", "you will generate a short title based on the first message"),
];

/// Words with which a client begins again after it replaced its history by a summary, and the client that writes them.
const COMPACTIONS: [(&str, &str); 3] = [
    ("claude-code", "This session is being continued from a previous conversation"),
    ("codex", "Another language model started to solve this problem and produced a summary"),
    ("gemini-cli", "<state_snapshot>"),
];

/// Words by which a call that asks for a summary of the history is known, and the client that sends them.
const SUMMARY_CALLS: [(&str, &str); 4] = [
    ("claude-code", "Your task is to create a detailed summary of the conversation so far"),
    ("claude-code", "Your task is to create a detailed summary of the RECENT portion of the conversation"),
    ("codex", "You are performing a CONTEXT CHECKPOINT COMPACTION"),
    ("gemini-cli", "generate the <state_snapshot>"),
];

/// The first words of the person in a list of messages, without what the client wrapped around them.
///
/// ```
/// use scrollback_core::identity::title_of;
/// use scrollback_core::{Entry, Role};
/// let said = [Entry::text(Role::User, "<system-reminder>be kind</system-reminder>\nFix the\nbug")];
/// assert_eq!(title_of(&said).as_deref(), Some("Fix the bug"));
/// ```
pub fn title_of(list: &[Entry]) -> Option<String> {
    let users = list.iter().filter(|entry| entry.role == Role::User);
    users.filter_map(first_text).find_map(|text| first_words(&text))
}

/// What the person says in the first user entry that says something, without client wrappers.
pub fn first_request(list: &[Entry]) -> Option<String> {
    let users = list.iter().filter(|entry| entry.role == Role::User);
    users.filter_map(first_text).map(|text| text.trim().to_string()).find(|text| !text.is_empty())
}

/// The texts of an entry without client wrappers.
fn first_text(entry: &Entry) -> Option<String> {
    let mut text = String::new();
    for words in super::texts(entry) {
        let bare = without_wrappers(&words);
        if !text.is_empty() && !bare.trim().is_empty() {
            text.push('\n');
        }
        text.push_str(bare.trim());
    }
    (!text.is_empty()).then_some(text)
}

/// A text on one line, cut at a word where it is long. Control characters are left out.
fn first_words(text: &str) -> Option<String> {
    let mut title = String::new();
    let mut length = 0;
    for word in text.split(|letter: char| letter.is_whitespace() || letter.is_control()) {
        if word.is_empty() {
            continue;
        }
        let letters = word.chars().count();
        if length + letters + 1 > MAX_TITLE {
            if title.is_empty() {
                title.extend(word.chars().take(MAX_TITLE - 1));
            }
            title.push('…');
            break;
        }
        if !title.is_empty() {
            title.push(' ');
            length += 1;
        }
        title.push_str(word);
        length += letters;
    }
    (!title.is_empty()).then_some(title)
}

/// Whether a list of messages asks for the title of a session.
pub fn asks_for_title(list: &[Entry]) -> bool {
    let last_user = list.iter().rposition(|entry| entry.role == Role::User);
    list.iter().enumerate().any(|(at, entry)| {
        let asks = entry.role == Role::System || Some(at) == last_user;
        asks && super::texts(entry).any(|text| TITLE_CALLS.iter().any(|(_, words)| text.contains(words)))
    })
}

/// The title in the answer of a title call: the `title` of a JSON object, or the first line.
///
/// ```
/// use scrollback_core::identity::title_in;
/// assert_eq!(title_in(r#"{"title":"Fix the parser"}"#).as_deref(), Some("Fix the parser"));
/// assert_eq!(title_in("\"Fix the parser\"\n").as_deref(), Some("Fix the parser"));
/// assert_eq!(title_in(r#"{"isNewTopic":false,"title":null}"#), None);
/// ```
pub fn title_in(answer: &str) -> Option<String> {
    let answer = answer.trim();
    let fenced = answer.strip_prefix("```json").or_else(|| answer.strip_prefix("```"));
    let bare = fenced.map_or(answer, |rest| rest.trim_end_matches("```")).trim();
    if let Ok(raw) = json::check(bare)
        && raw.kind() == JsonKind::Object
    {
        return raw.get("title").and_then(Raw::string).and_then(|title| first_words(&title));
    }
    let line = bare.lines().map(str::trim).find(|line| !line.is_empty())?;
    first_words(line.trim_matches(['"', '*', '#', ' ']))
}

/// Whether an entry asks for a summary of what stands before it, which the client will put in its place.
pub(super) fn asks_for_summary(entry: &Entry) -> bool {
    entry.role == Role::User
        && super::texts(entry).any(|text| SUMMARY_CALLS.iter().any(|(_, words)| text.contains(words)))
}

/// Whether a list of messages begins with a summary that the client put in place of its history.
pub fn begins_after_compaction(list: &[Entry]) -> bool {
    let replies = list.iter().position(|entry| entry.role == Role::Assistant).unwrap_or(list.len());
    let first = list.get(..replies).unwrap_or_default().iter().filter(|entry| entry.role == Role::User);
    let begins = |text: &str| COMPACTIONS.iter().any(|(_, words)| text.trim_start().starts_with(words));
    first.into_iter().any(|entry| super::texts(entry).any(|text| begins(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Entry {
        Entry::text(Role::User, text)
    }

    #[test]
    fn a_title_is_one_short_line_of_what_the_person_said() {
        let env = user("<environment_context>\n<cwd>/x</cwd>\n</environment_context>");
        assert_eq!(title_of(&[env.clone(), user("  fix\n\tthe  bug ")]).as_deref(), Some("fix the bug"));
        assert_eq!(title_of(&[env]), None);
        let long = title_of(&[user(&"word ".repeat(100))]).unwrap_or_default();
        assert!(long.chars().count() <= MAX_TITLE && long.ends_with('…'), "{long}");
        let unbroken = title_of(&[user(&"x".repeat(1000))]).unwrap_or_default();
        assert_eq!(unbroken.chars().count(), MAX_TITLE);
        assert_eq!(title_of(&[user("a\u{0}b\u{1b}[31m")]).as_deref(), Some("a b [31m"));
    }

    #[test]
    fn title_calls_and_compactions_are_known_by_their_words() {
        for (_, words) in TITLE_CALLS {
            assert!(asks_for_title(&[Entry::text(Role::System, words), user("fix the bug")]));
        }
        assert!(!asks_for_title(&[Entry::text(Role::System, "Be brief."), user("a title?")]));
        for (_, words) in SUMMARY_CALLS {
            assert!(asks_for_summary(&user(&format!("Be brief. {words} …"))));
        }
        assert!(!asks_for_summary(&user("a summary?")));
        for (_, words) in COMPACTIONS {
            assert!(begins_after_compaction(&[user(&format!("{words} …"))]));
        }
        assert!(!begins_after_compaction(&[user("fix the bug")]));
    }
}
