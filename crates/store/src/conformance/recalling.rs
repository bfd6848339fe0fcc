//! Recall: handles, the four tools, scopes, walls between tenants.

use scrollback_core::recall::{Handle, RecallTool, Tail};
use scrollback_core::{Entry, Time};
use serde_json::{Value, json};

use super::{Bench, CaseResult, NOON, assistant, ensure, same, suite, user};
use crate::conversation::NewConversation;
use crate::engine::erase::Erase;
use crate::error::ErrorKind;
use crate::id::{ConversationId, Recipient, Tenant};
use crate::recall::{Deadline, Here, RecallReply, answer};
use crate::session::SessionId;
use crate::store::RecordsExt;

suite![
    every_tool_answers_with_handles,
    handles_outlive_erasure_forks_and_compaction,
    no_two_conversations_of_a_tenant_end_alike,
    scopes_widen_from_the_conversation_to_everything,
    another_tenant_is_never_seen,
    expressions_look_through_what_the_index_does_not_know,
    recall_does_not_find_itself,
    mistakes_are_answered_in_sentences,
];

async fn ask(bench: &Bench, here: &Here, tool: RecallTool, arguments: Value) -> RecallReply {
    answer(bench.store(), &bench.tenant, here, tool, &arguments, &Deadline::default()).await
}

async fn here(bench: &Bench, id: &ConversationId) -> Result<Here, super::Wrong> {
    Ok(Here::of(&bench.store().conversation(&bench.tenant, id).await?, "its id"))
}

fn handle(id: &ConversationId, position: u64) -> Result<String, super::Wrong> {
    let tail = Tail::of(id.as_str()).ok_or_else(|| super::Wrong("an id without a tail".into()))?;
    Ok(Handle::at(tail, position).to_string())
}

/// A conversation in which a file is read and a value stands in its middle.
async fn work(bench: &Bench) -> Result<ConversationId, super::Wrong> {
    let id = bench.begin().await?;
    let file: Vec<String> = (0..400).map(|line| format!("line {line}: nothing of note")).collect();
    let text = file.join("\n").replace("line 200: nothing", "line 200: staging port is 48123, nothing");
    let entries = vec![
        user("Which port does staging use?"),
        Entry::calling(Some("I look."), &[("c1", "read_file", r#"{"path":"deploy/staging.toml"}"#)]),
        Entry::result("c1", &text),
        assistant("It is in the file."),
        user("Thanks. And production?"),
        Entry::calling(
            None,
            &[("c2", "write_file", r#"{"path":"notes.md","text":"ask Kim about\nrollout"}"#)],
        ),
        Entry::result("c2", "ok"),
    ];
    bench.say(&id, entries).await?;
    Ok(id)
}

async fn every_tool_answers_with_handles(bench: Bench) -> CaseResult {
    let id = work(&bench).await?;
    let here = here(&bench, &id).await?;
    let result = handle(&id, 2)?;
    let found = ask(&bench, &here, RecallTool::Search, json!({ "query": "staging port" })).await;
    ensure!(!found.failed && found.text.contains(&result), "{}", found.text);
    ensure!(found.text.contains("result of read_file"), "the tool is named: {}", found.text);
    ensure!(found.text.contains("this session (7 entries)"), "the scope is named: {}", found.text);
    ensure!(found.text.contains(&here.named), "the session is named: {}", found.text);
    let by_tool = json!({ "query": "staging", "tool": "read_file", "role": "tool" });
    let found = ask(&bench, &here, RecallTool::Search, by_tool).await;
    ensure!(found.text.starts_with("1 hit in"), "{}", found.text);
    let argument = ask(&bench, &here, RecallTool::Search, json!({ "query": "rollout Kim" })).await;
    ensure!(argument.text.contains(&handle(&id, 5)?), "arguments of calls are found: {}", argument.text);
    let read = ask(&bench, &here, RecallTool::Read, json!({ "handle": result, "lines": "200-202" })).await;
    ensure!(read.text.contains("  201  line 200: staging port is 48123, nothing of note"), "{}", read.text);
    let matching = json!({ "handle": result, "pattern": "/port is [0-9]+/", "context": 0 });
    let read = ask(&bench, &here, RecallTool::Read, matching).await;
    // Its heading, the line, and the session for which it was answered.
    same!(read.text.lines().count(), 3);
    ensure!(read.text.ends_with(&here.named), "the session is named: {}", read.text);
    let around =
        ask(&bench, &here, RecallTool::Around, json!({ "handle": result, "before": 1, "after": 1 })).await;
    for position in 1..=3 {
        ensure!(around.text.contains(&handle(&id, position)?), "{}", around.text);
    }
    ensure!(
        !around.text.contains(&format!("{} ", handle(&id, 4)?)),
        "no more than asked for: {}",
        around.text
    );
    let outline = ask(&bench, &here, RecallTool::Outline, json!({})).await;
    let read_at = format!("deploy/staging.toml: read_file, last read {}", handle(&id, 2)?);
    ensure!(outline.text.contains(&read_at), "{}", outline.text);
    let written = format!("notes.md: write_file, last write {}", handle(&id, 5)?);
    ensure!(outline.text.contains(&written), "{}", outline.text);
    Ok(())
}

async fn handles_outlive_erasure_forks_and_compaction(bench: Bench) -> CaseResult {
    let id = work(&bench).await?;
    let nowhere = Here::nowhere("a test");
    let fork = ConversationId::new(Time(NOON.0 + 1));
    bench.store().fork(&bench.tenant, &id, 4, fork.clone(), NOON).await?;
    bench.say(&fork, vec![user("another question")]).await?;
    let read = |of: &ConversationId, position: u64| {
        let (bench, nowhere, of) = (bench.clone(), nowhere.clone(), of.clone());
        async move {
            let handle = handle(&of, position)?;
            Ok::<_, super::Wrong>(ask(&bench, &nowhere, RecallTool::Read, json!({ "handle": handle })).await)
        }
    };
    ensure!(read(&fork, 2).await?.text.contains("48123"), "a fork has its parent's entries");
    ensure!(read(&fork, 4).await?.text.contains("another question"), "and its own");
    ensure!(read(&id, 4).await?.text.contains("And production?"), "which differ from the parent's");
    bench.store().erase(&bench.tenant, &id, Erase::Positions(vec![(2, 2)]), "asked for", NOON).await?;
    let erased = read(&id, 2).await?;
    ensure!(
        !erased.failed && erased.text.contains("erased") && !erased.text.contains("48123"),
        "{}",
        erased.text
    );
    ensure!(!read(&fork, 2).await?.text.contains("48123"), "in the fork, too");
    let found = ask(&bench, &here(&bench, &id).await?, RecallTool::Search, json!({ "query": "48123" })).await;
    ensure!(found.text.starts_with("0 hits"), "what is erased is not found: {}", found.text);
    let anna = Recipient::parse("anna")?;
    bench.turns(&anna, 0..12).await?;
    let current = bench.store().current(&bench.tenant, &anna).await?.map(|current| current.id);
    let Some(current) = current else { return Err("no conversation".into()) };
    let before = read(&current, 3).await?;
    let settings = crate::HistorySettings::default();
    crate::compact(bench.store(), &bench.tenant, &current, &settings, &crate::Offline, NOON).await?;
    same!(read(&current, 3).await?, before);
    Ok(())
}

async fn no_two_conversations_of_a_tenant_end_alike(bench: Bench) -> CaseResult {
    let first = ConversationId::from_parts(NOON, 7);
    let same_tail = ConversationId::from_parts(Time(NOON.0 + 1), 7);
    let create = |id: ConversationId| {
        let bench = bench.clone();
        async move { bench.store().write(&bench.tenant, NOON, |tx| _ = tx.create(NewConversation::new(id))).await }
    };
    create(first.clone()).await?;
    same!(create(same_tail.clone()).await.err().map(|error| error.kind()), Some(ErrorKind::Exists));
    let forked = bench.store().fork(&bench.tenant, &first, 0, same_tail.clone(), NOON).await;
    same!(forked.err().map(|error| error.kind()), Some(ErrorKind::Exists));
    let other = Tenant::parse(&format!("{}-other", bench.tenant))?;
    bench.store().write(&other, NOON, |tx| _ = tx.create(NewConversation::new(same_tail))).await?;
    Ok(())
}

async fn scopes_widen_from_the_conversation_to_everything(bench: Bench) -> CaseResult {
    let begin = |session: Option<SessionId>, project: Option<&str>, text: &'static str| {
        let (bench, project) = (bench.clone(), project.map(String::from));
        async move {
            let id = ConversationId::new(NOON);
            let new = NewConversation { session, project, ..NewConversation::new(id.clone()) };
            bench.store().write(&bench.tenant, NOON, |tx| _ = tx.create(new)).await?;
            bench.say(&id, vec![user(text)]).await?;
            Ok::<_, super::Wrong>(id)
        }
    };
    let main = begin(None, Some("/srv/app"), "alpha in the main conversation").await?;
    let session = SessionId::of(&main);
    begin(Some(session), Some("/srv/app"), "beta in a sub-agent").await?;
    begin(None, Some("/srv/app"), "gamma in another session").await?;
    begin(None, Some("/srv/other"), "delta in another project").await?;
    let here = here(&bench, &main).await?;
    for (word, narrowest) in [("alpha", 0), ("beta", 1), ("gamma", 2), ("delta", 3)] {
        for (width, scope) in ["conversation", "session", "project", "all"].into_iter().enumerate() {
            let found =
                ask(&bench, &here, RecallTool::Search, json!({ "query": word, "scope": scope })).await;
            let wanted = if width >= narrowest { "1 hit in" } else { "0 hits in" };
            ensure!(found.text.starts_with(wanted), "{word} in {scope}: {}", found.text);
        }
    }
    let missed = ask(&bench, &here, RecallTool::Search, json!({ "query": "gamma" })).await;
    let says = "0 hits in this session (2 entries in 2 conversations); 1 hit in other sessions of this project: widen with \
                scope=project";
    ensure!(missed.text.starts_with(says), "{}", missed.text);
    let folder = Here::in_folder(bench.store(), &bench.tenant, "/srv/app/src/deep").await?;
    same!(folder.and_then(|here| here.project), Some("/srv/app".to_string()));
    ensure!(
        Here::in_folder(bench.store(), &bench.tenant, "/srv").await?.is_none(),
        "a folder above is no part"
    );
    let named = Here::called(bench.store(), &bench.tenant, main.as_str()).await?;
    same!(named.and_then(|here| here.conversation), Some(main));
    Ok(())
}

async fn another_tenant_is_never_seen(bench: Bench) -> CaseResult {
    let id = work(&bench).await?;
    let other = Bench { tenant: Tenant::parse(&format!("{}-other", bench.tenant))?, ..bench.clone() };
    let theirs = here(&bench, &id).await?;
    let handle = handle(&id, 2)?;
    let whole = format!("sb:{}#2", id.as_str().to_lowercase());
    for (tool, arguments) in [
        (RecallTool::Read, json!({ "handle": handle })),
        (RecallTool::Read, json!({ "handle": whole })),
        (RecallTool::Around, json!({ "handle": handle })),
        (RecallTool::Outline, json!({ "handle": handle })),
        (RecallTool::Outline, json!({})),
        (RecallTool::Search, json!({ "query": "staging" })),
        (RecallTool::Search, json!({ "query": "staging", "scope": "conversation" })),
        (RecallTool::Search, json!({ "query": "staging", "scope": "project" })),
        (RecallTool::Search, json!({ "query": "/staging/", "scope": "all" })),
    ] {
        // Even where the caller claims to be in the other's session.
        let answered = ask(&other, &theirs, tool, arguments.clone()).await;
        ensure!(!answered.text.contains("48123"), "{arguments}: {}", answered.text);
        ensure!(!answered.text.contains("deploy/"), "{arguments}: {}", answered.text);
    }
    ensure!(
        Here::called(other.store(), &other.tenant, id.as_str()).await?.is_none(),
        "no session of another"
    );
    Ok(())
}

async fn expressions_look_through_what_the_index_does_not_know(bench: Bench) -> CaseResult {
    let id = work(&bench).await?;
    let here = here(&bench, &id).await?;
    for scope in ["conversation", "session", "project", "all"] {
        let query = json!({ "query": "/port is 4[0-9]{4}/", "scope": scope });
        let found = ask(&bench, &here, RecallTool::Search, query).await;
        ensure!(found.text.contains("«port is 48123»"), "{scope}: {}", found.text);
    }
    let (over, query) = (Deadline::new(|| true), json!({ "query": "/port/" }));
    let late = answer(bench.store(), &bench.tenant, &here, RecallTool::Search, &query, &over).await;
    ensure!(late.text.contains("only the newest part was looked through"), "{}", late.text);
    Ok(())
}

async fn recall_does_not_find_itself(bench: Bench) -> CaseResult {
    let id = work(&bench).await?;
    let asked = r#"{"query":"quokka"}"#;
    let entries = vec![
        Entry::calling(None, &[("r1", "mcp__scrollback__search", asked)]),
        Entry::result("r1", "0 hits for quokka"),
        Entry::calling(None, &[("r2", "recall_read", r#"{"handle":"sb:quokka"}"#)]),
        Entry::result("r2", "no such handle: quokka"),
    ];
    bench.say(&id, entries).await?;
    let found =
        ask(&bench, &here(&bench, &id).await?, RecallTool::Search, json!({ "query": "quokka" })).await;
    ensure!(found.text.starts_with("0 hits"), "{}", found.text);
    Ok(())
}

async fn mistakes_are_answered_in_sentences(bench: Bench) -> CaseResult {
    let id = work(&bench).await?;
    let here = here(&bench, &id).await?;
    let huge = "x".repeat(1_000_000);
    for (tool, arguments, says) in [
        (RecallTool::Read, json!({ "handle": "sb:0000000000#1" }), "search for the words instead"),
        (RecallTool::Read, json!({ "handle": "zz:0000000000#1" }), "handles look like"),
        (RecallTool::Read, json!({ "handle": handle(&id, 99)? }), "the conversation ends at"),
        (RecallTool::Read, json!({ "handle": handle(&id, 2)?, "lines": "900-" }), "has 400 lines"),
        (RecallTool::Search, json!({ "query": huge }), "give a few words"),
        (RecallTool::Search, json!({ "query": "/(/" }), "search for the words instead"),
        (RecallTool::Around, json!({}), "`handle` is missing"),
    ] {
        let answered = ask(&bench, &here, tool, arguments).await;
        ensure!(answered.failed && answered.text.contains(says), "{says}: {}", answered.text);
        ensure!(answered.text.len() < 500, "short: {}", answered.text);
    }
    let lost = ask(&bench, &Here::nowhere("a test"), RecallTool::Search, json!({ "query": "x" })).await;
    ensure!(lost.failed && lost.text.contains("scope=project or scope=all"), "{}", lost.text);
    Ok(())
}
