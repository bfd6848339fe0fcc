//! Sessions: who began them, what they hold, and which list of messages continues what.

use scrollback_core::{Time, prefixes};

use super::{Bench, CaseResult, NOON, Wrong, assistant, kind, same, suite, user};
use crate::conversation::NewConversation;
use crate::error::ErrorKind;
use crate::id::ConversationId;
use crate::session::{ConversationKind, MatchScope, Session, SessionId, SessionListing};
use crate::store::{Records, RecordsExt};
use crate::tx::ForkChild;

suite![
    a_session_is_found_by_its_caller_and_by_no_other,
    a_session_has_its_conversations_as_a_tree,
    the_first_main_conversation_stays_the_main_one,
    sessions_are_listed_once_written_last_first,
    a_conversation_without_a_session_is_one_with_its_forks,
    of_equal_lists_the_one_that_was_not_continued_is_found,
    an_exported_session_is_the_same_session_when_it_is_imported,
];

fn session(bench: &Bench, caller: &str, client_id: &str) -> Session {
    Session {
        id: SessionId::new(NOON),
        tenant: bench.tenant.clone(),
        caller: caller.into(),
        client: "claude-code".into(),
        client_id: client_id.into(),
        main: None,
        title: None,
        created_at: NOON,
    }
}

/// Begins a conversation in a session and says something there at a moment.
async fn begin(
    bench: &Bench,
    session: &SessionId,
    kind: ConversationKind,
    parent: Option<&ConversationId>,
    at: Time,
) -> Result<ConversationId, Wrong> {
    let id = ConversationId::new(at);
    let new = NewConversation {
        session: Some(session.clone()),
        kind,
        parent: parent.cloned(),
        title: Some(format!("a {kind}")),
        scope: Some(MatchScope::session(session, None)),
        ..NewConversation::new(id.clone())
    };
    let said = crate::NewEntry::evaluation([user("hello")], at);
    bench
        .store()
        .write(&bench.tenant, at, |tx| _ = tx.create(new).append(&id, crate::Expected::At(0), said))
        .await?;
    Ok(id)
}

async fn a_session_is_found_by_its_caller_and_by_no_other(bench: Bench) -> CaseResult {
    let store = bench.store();
    let (ours, theirs) = (session(&bench, "anna", "one"), session(&bench, "ben", "one"));
    for new in [&ours, &theirs] {
        store.write(&bench.tenant, NOON, |tx| _ = tx.session(new.clone())).await?;
    }
    let find = async |caller: &str, id: &str| store.session(&bench.tenant, caller, "claude-code", id).await;
    same!(find("anna", "one").await?, Some(ours.clone()));
    same!(find("ben", "one").await?, Some(theirs));
    same!(find("anna", "two").await?, None);
    same!(store.session(&bench.tenant, "anna", "codex", "one").await?, None);
    let again = Session { id: SessionId::new(NOON), ..ours.clone() };
    same!(kind(store.write(&bench.tenant, NOON, |tx| _ = tx.session(again)).await), Some(ErrorKind::Exists));
    let other = crate::Tenant::parse("another tenant")?;
    same!(store.session(&other, "anna", "claude-code", "one").await?, None);
    same!(store.named_session(&other, &ours.id).await?, None);
    Ok(())
}

async fn a_session_has_its_conversations_as_a_tree(bench: Bench) -> CaseResult {
    let store = bench.store();
    let new = session(&bench, "anna", "one");
    let id = new.id.clone();
    store.write(&bench.tenant, NOON, |tx| _ = tx.session(new)).await?;
    let side = begin(&bench, &id, ConversationKind::Side, None, NOON).await?;
    let main = begin(&bench, &id, ConversationKind::Main, None, Time(NOON.0 + 1)).await?;
    let agent = begin(&bench, &id, ConversationKind::SubAgent, Some(&main), Time(NOON.0 + 2)).await?;
    let below = begin(&bench, &id, ConversationKind::SubAgent, Some(&agent), Time(NOON.0 + 3)).await?;
    let branch = ConversationId::new(Time(NOON.0 + 4));
    store.fork(&bench.tenant, &main, 1, branch.clone(), Time(NOON.0 + 4)).await?;
    let given = ConversationId::new(Time(NOON.0 + 5));
    let child = ForkChild { kind: ConversationKind::SubAgent, scope: None, title: Some("a helper".into()) };
    store.write(&bench.tenant, Time(NOON.0 + 5), |tx| _ = tx.fork_as(&main, 1, given.clone(), child)).await?;
    let tree = store.session_tree(&bench.tenant, &id).await?;
    let lines: Vec<_> = tree
        .lines()
        .iter()
        .map(|line| (line.depth, line.conversation.id.clone(), line.conversation.kind, line.messages))
        .collect();
    let wanted = [
        (0, main.clone(), ConversationKind::Main, 1),
        (1, side, ConversationKind::Side, 1),
        (1, agent, ConversationKind::SubAgent, 1),
        (2, below, ConversationKind::SubAgent, 1),
        (1, branch, ConversationKind::Branch, 1),
        (1, given, ConversationKind::SubAgent, 1),
    ];
    same!(lines, wanted);
    same!(tree.total, 6);
    same!(tree.title(), Some("a main"));
    // A helper that was given no history is no fork.
    same!(store.branches(&bench.tenant, &main).await?.len(), 3);
    store.write(&bench.tenant, NOON, |tx| _ = tx.title(&id, "Fix the parser")).await?;
    let tree = store.session_tree(&bench.tenant, &id).await?;
    same!(tree.title(), Some("Fix the parser"));
    // The title may repeat what is erased.
    store.erase(&bench.tenant, &main, crate::Erase::All, "asked", NOON).await?;
    let tree = store.session_tree(&bench.tenant, &id).await?;
    same!(tree.title(), None);
    let other = crate::Tenant::parse("another tenant")?;
    same!(kind(store.session_tree(&other, &id).await), Some(ErrorKind::NotFound));
    Ok(())
}

async fn the_first_main_conversation_stays_the_main_one(bench: Bench) -> CaseResult {
    let store = bench.store();
    let new = session(&bench, "anna", "one");
    let id = new.id.clone();
    store.write(&bench.tenant, NOON, |tx| _ = tx.session(new)).await?;
    let side = begin(&bench, &id, ConversationKind::Side, None, NOON).await?;
    let main =
        async || Ok::<_, Wrong>(store.named_session(&bench.tenant, &id).await?.and_then(|one| one.main));
    same!(main().await?, None);
    store.write(&bench.tenant, NOON, |tx| _ = tx.kind(&side, ConversationKind::Main)).await?;
    same!(main().await?, Some(side.clone()));
    same!(store.conversation(&bench.tenant, &side).await?.kind, ConversationKind::Main);
    begin(&bench, &id, ConversationKind::Main, None, NOON).await?;
    same!(main().await?, Some(side));
    Ok(())
}

async fn sessions_are_listed_once_written_last_first(bench: Bench) -> CaseResult {
    let store = bench.store();
    let mut ids = Vec::new();
    for number in 0..5 {
        let new = session(&bench, "anna", &number.to_string());
        ids.push(new.id.clone());
        store.write(&bench.tenant, NOON, |tx| _ = tx.session(new)).await?;
    }
    // Every session is written several times, in turns; the first one last.
    for round in 0..3 {
        for (number, id) in (0_i64..).zip(&ids) {
            let at = Time(NOON.0 + round * 100 - number);
            begin(&bench, id, ConversationKind::SubAgent, None, at).await?;
        }
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.sessions(Some(&bench.tenant), SessionListing { limit: 2, after }).await?;
        found.extend(page.sessions.iter().map(|tree| (tree.id.clone(), tree.total)));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let wanted: Vec<_> = ids.iter().map(|id| (id.clone(), 3)).collect();
    same!(found, wanted);
    Ok(())
}

async fn a_conversation_without_a_session_is_one_with_its_forks(bench: Bench) -> CaseResult {
    let store = bench.store();
    let id = bench.begin().await?;
    bench.say(&id, vec![user("one"), assistant("two")]).await?;
    let fork = store.fork(&bench.tenant, &id, 1, ConversationId::new(NOON), NOON).await?;
    same!((fork.kind, fork.session.clone()), (ConversationKind::Branch, SessionId::of(&id)));
    let page = store.sessions(Some(&bench.tenant), SessionListing { limit: 9, after: None }).await?;
    let listed: Vec<_> = page.sessions.iter().map(|tree| (tree.id.clone(), tree.total)).collect();
    same!(listed, [(SessionId::of(&id), 2)]);
    Ok(())
}

async fn of_equal_lists_the_one_that_was_not_continued_is_found(bench: Bench) -> CaseResult {
    let store = bench.store();
    let scope = MatchScope::caller("anna");
    let talk = [user("hi"), assistant("hello")];
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = bench.begin_in(&scope).await?;
        bench.say(&id, talk.to_vec()).await?;
        ids.push(id);
    }
    let last = ids.last().cloned().ok_or_else(|| Wrong("no conversation".into()))?;
    bench.say(&last, vec![user("more")]).await?;
    let found = async || {
        let found = store.find_prefix(&bench.tenant, &scope, prefixes(&talk)).await?;
        Ok::<_, Wrong>(found.map(|found| found.conversation.id))
    };
    let first = found().await?;
    same!(first.as_ref().is_some_and(|id| ids[..2].contains(id)), true);
    for id in &ids[..2] {
        bench.say(id, vec![user("more")]).await?;
    }
    same!(found().await?.is_some(), true);
    Ok(())
}

async fn an_exported_session_is_the_same_session_when_it_is_imported(bench: Bench) -> CaseResult {
    let store = bench.store();
    let new = session(&bench, "anna", "one");
    let id = new.id.clone();
    store.write(&bench.tenant, NOON, |tx| _ = tx.session(new).title(&id, "Fix it")).await?;
    let main = begin(&bench, &id, ConversationKind::Main, None, NOON).await?;
    let agent = begin(&bench, &id, ConversationKind::SubAgent, Some(&main), Time(NOON.0 + 1)).await?;
    let copy = crate::Memory::new();
    for conversation in [&main, &agent] {
        let lines = crate::transfer::lines(store, &bench.tenant, conversation).await?;
        let mut lines = lines.iter();
        let header = lines.next().map_or("", String::as_str);
        let mut reader = crate::transfer::ExportReader::begin(header, None)?;
        for line in lines {
            reader.place(line)?;
        }
        reader.finish(&copy, crate::transfer::LinkCheck::Links).await?;
    }
    let tree = copy.session_tree(&bench.tenant, &id).await?;
    let kinds: Vec<_> = tree.lines().iter().map(|line| (line.depth, line.conversation.kind)).collect();
    same!(kinds, [(0, ConversationKind::Main), (1, ConversationKind::SubAgent)]);
    same!(tree.title(), Some("Fix it"));
    // The caller is not exported, so that no one continues an import by accident.
    same!(copy.session(&bench.tenant, "anna", "claude-code", "one").await?, None);
    Ok(())
}
