//! `scrollback chat`, fed with lines as a person would type them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support::{folder, repository, required, scripted, scrollback, scrollback_in};

const AGENT: &str = "name: chatty\nmodel: offline:script=script.yaml\nsystem: Be brief.\n";

#[test]
fn a_chat_answers_line_by_line_and_remembers() {
    let script = "- {expect: {contains: [tangerine]}, reply: Noted.}\n- {expect: {contains: [tangerine, Noted., What]}, reply: It is tangerine.}\n";
    let folder = scripted("chat", "agent.yaml", AGENT, script);
    let run = scrollback_in(
        &folder,
        &["chat", "agent.yaml"],
        b"The word is tangerine.\n\nWhat is it?\n/quit\nnot said\n",
    );
    assert_eq!((run.code, run.stdout.as_str()), (0, "Noted.\nIt is tangerine.\n"), "{run:?}");
}

#[test]
fn a_turn_that_was_taken_back_is_not_sent_again_and_stays_in_the_record() {
    let script = "- {reply: One.}\n- {expect: {contains: [second]}, reply: Two.}\n- {expect: {contains: [first, third], roles: [system, user, assistant, user]}, reply: Three.}\n";
    for store in [&[][..], &["--recipient", "anna"]] {
        let folder = scripted("chat-undo", "agent.yaml", AGENT, script);
        let run = scrollback_in(
            &folder,
            &[&["chat", "agent.yaml"], store].concat(),
            b"first\nsecond\n/undo\nthird\n",
        );
        assert_eq!(
            run.stdout.lines().filter(|line| !line.starts_with("taken back")).collect::<Vec<_>>(),
            ["One.", "Two.", "Three."],
            "{run:?}"
        );
        assert!(run.stdout.contains("taken back: second"), "{run:?}");
        if !store.is_empty() {
            let told = scrollback_in(&folder, &["history", "anna", "--json"], b"").json();
            assert!(!told["messages"].to_string().contains("second"), "{told}");
            let found = scrollback_in(&folder, &["search", "second", "--json"], b"").json();
            assert_eq!(found["hits"].as_array().unwrap().len(), 1, "the record keeps it: {found}");
        }
    }
}

#[test]
fn why_and_recall_look_at_this_conversation() {
    let folder = folder("chat-why");
    let lines = b"apples are red\npears are green\nplums are blue\n/recall PEARS\n/recall nothing-like-it\n/why\n/undoo\n";
    let run = scrollback_in(&folder, &["chat", "--model", "offline:echo", "-m", "turn_window(1)"], lines);
    assert_eq!(run.code, 0, "{run:?}");
    let found: Vec<&str> =
        run.stdout.lines().filter(|line| line.contains("  user ") && line.contains("pears")).collect();
    assert_eq!(found.len(), 1, "{run:?}");
    assert!(run.stdout.contains("nothing was said with \"nothing-like-it\""), "{run:?}");
    assert!(run.stderr.contains("left out by turn_window: in an older turn"), "{run:?}");
    assert!(run.stderr.contains("unknown command /undoo"), "{run:?}");
}

#[test]
fn a_chat_needs_someone_to_talk_to() {
    let no_one = scrollback(&["chat"], "");
    assert_eq!(no_one.code, 2, "{no_one:?}");
    let unknown = scrollback(&["chat", "--model", "gpt-9000"], "");
    assert_eq!(unknown.code, 2, "{unknown:?}");
    let json = scrollback(&["chat", "--model", "offline:echo", "--json"], "");
    assert_eq!(json.code, 2, "{json:?}");
    let undo = scrollback(&["chat", "--model", "offline:echo"], "/undo\n/why\n");
    assert!(undo.code == 0 && undo.stderr.contains("no turn to take back"), "{undo:?}");
}

#[test]
fn a_chat_in_a_terminal_has_a_prompt_streams_takes_back_and_explains() {
    // The same program draws docs/chat.svg: it types into a terminal of its own and waits for what the screen shows.
    let Some(python) = required::program(&["python3"], "a chat in a terminal") else { return };
    let folder = folder("chat-terminal");
    let picture = folder.join("chat.svg");
    let drawn = std::process::Command::new(python)
        .args([repository("tools/chat_screenshot.py").as_str(), env!("CARGO_BIN_EXE_scrollback")])
        .arg(&picture)
        .output()
        .unwrap();
    assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&drawn.stderr));
    let shown = std::fs::read_to_string(picture).unwrap();
    for words in
        ["Gladly. For how many people", "left out by turn_window", "taken back", "/recall may", "94 EUR."]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}
