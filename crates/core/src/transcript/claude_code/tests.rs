#![allow(clippy::unwrap_used)]
use super::*;
use crate::decision::Decision;

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../../../corpus/transcript/claude-code/", $name, ".jsonl"))
    };
}

/// The uuids of each conversation's messages, in order.
fn uuids(drafts: &[ConversationDraft]) -> Vec<Vec<String>> {
    let of =
        |draft: &ConversationDraft| draft.found.iter().filter_map(|found| found.source.id.clone()).collect();
    drafts.iter().map(of).collect()
}

fn notes(draft: &ConversationDraft) -> Vec<(usize, &str)> {
    let mut notes: Vec<_> = draft.head.notes.iter().map(|note| (note.line, note.kind.as_str())).collect();
    notes.sort_unstable();
    notes
}

#[test]
fn a_reply_over_several_lines_is_one_message_and_its_results_follow_it() {
    let text = fixture!("parallel-calls");
    let (drafts, failed) = found(text).unwrap();
    assert!(looks_like(text) && failed.is_empty());
    assert_eq!(uuids(&drafts), [["u1", "a1", "r1", "r2", "a4"]], "no result leads nowhere");
    assert_eq!(
        drafts[0].found[1].raw,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"two calls","signature":"c2ln"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls t1"}},{"type":"tool_use","id":"t2","name":"Bash","input":{"command":"ls t2"}}]}"#
    );
    assert_eq!(drafts[0].found[0].raw, r#"{"role":"user","content":"list both"}"#);
    assert_eq!(drafts[0].head.id.as_deref(), Some("5e55-1"));
    assert_eq!(drafts[0].head.title.as_deref(), Some("Listing twice"));
}

#[test]
fn what_a_reply_reported_last_is_its_meta() {
    let (drafts, _) = found(fixture!("parallel-calls")).unwrap();
    let meta = drafts[0].found[1].meta.as_ref().unwrap();
    assert_eq!(meta.model_served.as_deref(), Some("claude-opus-4-6"));
    assert_eq!(meta.response_id.as_deref(), Some("msg_1"));
    assert_eq!(meta.request_id.as_deref(), Some("req_msg_1"));
    assert_eq!(meta.stop_raw.as_deref(), Some("tool_use"));
    let usage = meta.usage.as_ref().unwrap();
    assert_eq!((usage.output, usage.cache_read, usage.cache_write["1h"]), (Some(9), Some(100), 20));
    let tags: Vec<_> = meta.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(
        tags,
        [("claude-code.cwd", "/srv/app"), ("claude-code.gitBranch", "main"), ("claude-code.uuid", "a1")]
    );
    assert_eq!(drafts[0].found[1].time, super::super::Time::parse("2026-02-10T21:00:02.000Z"));
}

#[test]
fn what_is_no_message_and_what_a_message_has_no_place_for_are_notes() {
    let (drafts, _) = found(fixture!("parallel-calls")).unwrap();
    assert_eq!(
        notes(&drafts[0]),
        [
            (1, "file-history-snapshot"),
            (2, "permissionMode"),
            (5, "progress"),
            (6, "toolUseResult"),
            (9, "progress"),
            (11, "ai-title"),
        ]
    );
    let kept = drafts[0].head.notes.iter().find(|note| note.line == 6).unwrap();
    assert_eq!(kept.raw.as_deref(), Some(r#"{"stdout":"one"}"#));
}

#[test]
fn lines_between_the_blocks_of_a_reply_stand_after_it() {
    let (drafts, _) = found(fixture!("interleaved")).unwrap();
    assert_eq!(uuids(&drafts), [["u1", "a1", "r1", "m1", "r2", "a3"]]);
    let meta = drafts[0].found[3].meta.as_ref().unwrap();
    assert_eq!(meta.tags["claude-code.isMeta"], "true");
}

#[test]
fn the_newest_leaf_is_the_conversation_and_other_branches_are_forks() {
    let (drafts, _) = found(fixture!("branches")).unwrap();
    assert_eq!(uuids(&drafts), [vec!["u1", "a1", "u3", "a3"], vec!["u2", "a2"], vec!["v1"]]);
    let parents: Vec<_> = drafts.iter().map(|draft| draft.head.parent.clone()).collect();
    let fork = Parent { id: "5e55-1".into(), at: Some("a1".into()) };
    assert_eq!(parents, [None, Some(fork), None], "what starts anew shares nothing");
    let ids: Vec<_> = drafts.iter().filter_map(|draft| draft.head.id.as_deref()).collect();
    assert_eq!(ids, ["5e55-1", "5e55-1/u2", "5e55-1/v1"]);
    assert_eq!(drafts[0].head.title.as_deref(), Some("Counting"));
}

#[test]
fn a_compaction_is_a_summary_of_everything_before_it() {
    let (drafts, _) = found(fixture!("compaction")).unwrap();
    assert_eq!(
        uuids(&drafts),
        [["u1", "a1", "r1", "u2", "a2"]],
        "the chain goes on through the logical parent"
    );
    let text = "This session is being continued. They counted.".into();
    assert_eq!(drafts[0].between, [(3, BetweenEntries::Summary { text, covers: 3, by: "claude-code" })]);
    assert_eq!(notes(&drafts[0]), [(4, "system"), (5, "isCompactSummary")]);
}

#[test]
fn messages_that_a_compaction_kept_are_not_covered() {
    let (drafts, _) = found(fixture!("kept-segment")).unwrap();
    let text = "They counted.".into();
    assert_eq!(drafts[0].between, [(4, BetweenEntries::Summary { text, covers: 2, by: "claude-code" })]);
}

#[test]
fn a_summary_with_nothing_before_it_is_a_message() {
    let line = fixture!("compaction").lines().nth(4).unwrap();
    let (drafts, _) = found(line).unwrap();
    assert_eq!(uuids(&drafts), [["s1"]]);
    assert_eq!(drafts[0].found[0].meta.as_ref().unwrap().tags["claude-code.isCompactSummary"], "true");
}

#[test]
fn sub_agents_are_conversations_of_their_own() {
    let (drafts, _) = found(fixture!("sidechains")).unwrap();
    assert_eq!(uuids(&drafts)[0], ["u1", "a1", "r1"]);
    let mut rest: Vec<_> = drafts[1..]
        .iter()
        .map(|draft| {
            (draft.head.id.as_deref().unwrap(), draft.head.parent.clone().unwrap(), draft.found.len())
        })
        .collect();
    rest.sort_by_key(|(id, ..)| *id);
    let parent = |at: Option<&str>| Parent { id: "5e55-1".into(), at: at.map(Into::into) };
    assert_eq!(
        rest,
        [
            ("5e55-1/a7", parent(Some("a1")), 2),
            ("5e55-1/y1", parent(None), 2),
            ("5e55-1/z1", parent(None), 1)
        ]
    );
}

#[test]
fn a_file_of_a_sub_agent_alone_names_the_session_it_works_for() {
    let lines: Vec<&str> = fixture!("sidechains").lines().skip(2).take(2).collect();
    let (drafts, _) = found(&lines.join("\n")).unwrap();
    assert_eq!(drafts.len(), 1);
    assert_eq!(drafts[0].head.parent, Some(Parent { id: "5e55-1".into(), at: Some("a1".into()) }));
}

#[test]
fn broken_lines_fail_alone_and_everything_else_is_accounted_for() {
    let text = fixture!("broken");
    let (drafts, failed) = found(text).unwrap();
    let failures: Vec<_> = failed.iter().map(|failure| failure.line).collect();
    assert_eq!(failures, [1, 3, 6, 11]);
    assert!(failed[1].problem.contains("appears twice"), "{}", failed[1]);
    assert_eq!(failed[3].byte, text.len(), "the line that was cut off ends where the text does");
    assert_eq!(uuids(&drafts), [vec!["u1", "a1"], vec!["c2", "c1"]], "a circle is opened");
    assert_eq!(
        notes(&drafts[0]),
        [
            (4, "parentUuid names no line of this file; read as following line 2"),
            (5, "uuid appears twice; the first line with it is read"),
            (8, "attachment"),
        ]
    );
}

#[test]
fn what_is_no_session_is_an_error() {
    for text in ["", "words", "{}", "[1]", r#"{"messages":[]}"#] {
        assert!(found(text).is_err() && !looks_like(text), "{text}");
    }
    let title = r#"{"type":"summary","summary":"A title alone","leafUuid":"x"}"#;
    let (drafts, _) = found(title).unwrap();
    assert!(looks_like(title) && drafts[0].found.is_empty());
    assert_eq!(drafts[0].head.title.as_deref(), Some("A title alone"));
}

#[test]
fn a_compaction_becomes_a_decision_about_entries() {
    let read = read(fixture!("compaction")).unwrap();
    let conversation = &read.conversations[0];
    assert!(read.failed.is_empty(), "{:?}", read.failed);
    let roles: Vec<_> = conversation.entries.iter().map(|entry| entry.role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"]);
    let decided = &conversation.decisions[0];
    assert!(matches!(&decided.decision, Decision::Summary { covers, .. } if *covers == [(0, 2)]));
    assert_eq!(decided.after, 3);
}

#[test]
fn parallel_results_become_entries_after_their_call() {
    let read = read(fixture!("parallel-calls")).unwrap();
    let conversation = &read.conversations[0];
    let roles: Vec<_> = conversation.entries.iter().map(|entry| entry.role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant"]);
    assert_eq!(conversation.entries[1].tool_calls().count(), 2);
    let lines: Vec<usize> = conversation.sources.iter().map(|source| source.line).collect();
    assert_eq!(lines, [2, 3, 6, 8, 10]);
}
