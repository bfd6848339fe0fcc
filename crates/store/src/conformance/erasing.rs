//! Erasing: bodies go, places stay.

use crate::store::RecordsExt;
use scrollback_core::{Decision, Entry, Role, Slot, Time};

use super::{Bench, CaseResult, NOON, assistant, ensure, same, suite, user};
use crate::compact::{self, Compaction, Offline};
use crate::conversation::HistorySettings;
use crate::engine::erase::{Erase, ErasedCount};
use crate::erasure::{ErasureMode, erase_recipient};
use crate::error::ErrorKind;
use crate::history::history;
use crate::id::{ConversationId, Recipient};
use crate::run::{Alias, Sent};
use crate::search::{Filter, Query};
use crate::session::{ConversationKind, Session, SessionId};
use crate::status::CallStatus;
use crate::store::{Listing, Which};
use crate::{Expected, NewConversation, NewEntry};

suite![
    an_erased_entry_keeps_its_place_and_link,
    what_was_erased_is_not_found_and_not_sent,
    a_summary_of_what_was_erased_goes_too,
    erasing_in_a_parent_shows_in_its_forks,
    a_person_is_erased_with_everything_that_names_them_and_is_known_by_a_pseudonym,
    a_reply_that_comes_after_its_conversation_was_erased_is_refused,
    what_was_read_before_an_erasure_is_not_gone_on_from,
    what_a_client_sent_back_goes_with_the_entry,
];

async fn an_erased_entry_keeps_its_place_and_link(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let long = "secret ".repeat(2_000);
    bench.say(&id, vec![user("one"), user(&long), assistant("three")]).await?;
    let store = bench.store();
    let before = store.entries(&bench.tenant, &id, 0, 3).await?;
    let erase = async |what| store.erase(&bench.tenant, &id, what, "asked", NOON).await;
    let count = erase(Erase::Positions(vec![(1, 1)])).await?;
    same!(count, ErasedCount { erased: 1, words: 1, blobs: 1, ..ErasedCount::default() });
    let after = store.entries(&bench.tenant, &id, 0, 3).await?;
    for (before, after) in before.iter().zip(&after) {
        same!((before.link, before.body_hash, before.prefix), (after.link, after.body_hash, after.prefix));
    }
    ensure!(matches!(after.get(1).map(|placed| &placed.slot), Some(Slot::Erased(_))), "no tombstone");
    same!(erase(Erase::Positions(vec![(1, 1)])).await?, ErasedCount::default());
    same!(erase(Erase::All).await?.erased, 2);
    same!(erase(Erase::All).await?, ErasedCount::default());
    bench.say(&id, vec![user("four")]).await?;
    same!(history(store, &bench.tenant, &id, 10).await?.items.len(), 1);
    Ok(())
}

async fn what_was_erased_is_not_found_and_not_sent(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("the codeword is xylophone"), assistant("noted")]).await?;
    let store = bench.store();
    let sent = Sent { response: Some(b"noted".to_vec()), status: "done".into(), ..call(&id, "xylophone") };
    store.write(&bench.tenant, NOON, |tx| _ = tx.sent(sent.clone())).await?;
    same!(store.sent(&bench.tenant, &id).await?, [sent]);
    let found =
        async || store.search(&bench.tenant, Query::parse("xylophone"), Filter::default(), 9, None).await;
    same!(found().await?.hits.len(), 1);
    let count = store.erase(&bench.tenant, &id, Erase::Positions(vec![(0, 0)]), "asked", NOON).await?;
    same!((count.erased, count.sent), (1, 1));
    same!(found().await?.hits.len(), 0);
    let calls = store.sent(&bench.tenant, &id).await?;
    ensure!(calls.iter().all(|call| call.request.is_none() && call.response.is_none()), "still there");
    Ok(())
}

async fn a_summary_of_what_was_erased_goes_too(bench: Bench) -> CaseResult {
    let anna = Recipient::parse("anna")?;
    let id = bench.turns(&anna, 0..11).await?.conversation;
    let settings = HistorySettings::default();
    let again = async || compact::compact(bench.store(), &bench.tenant, &id, &settings, &Offline, NOON).await;
    ensure!(matches!(again().await?, Compaction::Done { .. }), "eleven turns are compacted");
    let store = bench.store();
    store.erase(&bench.tenant, &id, Erase::Positions(vec![(0, 1)]), "asked", NOON).await?;
    same!(history(store, &bench.tenant, &id, 10).await?.summary, None);
    same!(store.conversation(&bench.tenant, &id).await?.uncovered_turns, 11);
    let hits =
        store.search(&bench.tenant, Query::parse("\"question 0\""), Filter::default(), 9, None).await?;
    same!(hits.hits.len(), 0);
    // The erased turn is no longer told, so it takes one more until there are enough again.
    bench.turns(&anna, 11..12).await?;
    let done = again().await?;
    ensure!(matches!(&done, Compaction::Done { text, .. } if !text.contains("question 0")), "{done:?}");
    Ok(())
}

async fn erasing_in_a_parent_shows_in_its_forks(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let calling = Entry::calling(None, &[("a", "f", "{}")]);
    bench.say(&id, vec![user("one"), calling, Entry::result("a", "1"), user("four")]).await?;
    let store = bench.store();
    let fork = store.fork(&bench.tenant, &id, 3, ConversationId::new(NOON), NOON).await?.id;
    bench.say(&fork, vec![user("other")]).await?;
    let early = store.fork(&bench.tenant, &id, 0, ConversationId::new(NOON), NOON).await?.id;
    bench.say(&early, vec![user("early")]).await?;
    let count = store.erase(&bench.tenant, &id, Erase::Positions(vec![(1, 1)]), "asked", NOON).await?;
    same!(count, ErasedCount { erased: 1, words: 1, forks: 1, ..ErasedCount::default() });
    let places = store.entries(&bench.tenant, &fork, 0, 4).await?;
    ensure!(matches!(places.get(1).map(|placed| &placed.slot), Some(Slot::Erased(_))), "no tombstone");
    same!(history(store, &bench.tenant, &fork, 10).await?.items.len(), 2);
    Ok(())
}

/// A call that has begun and not ended.
fn call(id: &ConversationId, request: &str) -> Sent {
    Sent {
        id: "call-1".into(),
        conversation: id.clone(),
        run: None,
        step: None,
        evaluation: None,
        upto: 1,
        managers: "[]".into(),
        wire: "openai-chat".into(),
        model: "offline:echo".into(),
        epoch: None,
        prefix_hash: None,
        request: Some(request.into()),
        response: None,
        status: CallStatus::Sent,
        attempt: 1,
        usage: None,
        started_at: NOON,
        ended_at: None,
        tokens: None,
        factor: None,
        holder: None,
    }
}

async fn a_person_is_erased_with_everything_that_names_them_and_is_known_by_a_pseudonym(
    bench: Bench,
) -> CaseResult {
    let (anna, bert) = (Recipient::parse("anna@example.org")?, Recipient::parse("bert")?);
    let store = bench.store();
    let tenant = &bench.tenant;
    let session = SessionId::new(NOON);
    let [main, helper] = [1, 2].map(|at| ConversationId::new(Time(NOON.0 + at)));
    store
        .write(tenant, NOON, |tx| {
            tx.session(Session {
                id: session.clone(),
                tenant: tenant.clone(),
                caller: "laptop".into(),
                client: "codex".into(),
                client_id: "anna's session".into(),
                main: None,
                title: Some("Anna's holiday".into()),
                created_at: NOON,
            });
            tx.create(NewConversation {
                title: Some("Anna's holiday".into()),
                project: Some("/home/anna".into()),
                session: Some(session.clone()),
                ..NewConversation::with(main.clone(), &anna)
            });
            tx.create(NewConversation {
                session: Some(session.clone()),
                kind: ConversationKind::SubAgent,
                parent: Some(main.clone()),
                ..NewConversation::new(helper.clone())
            });
            tx.alias(Alias {
                tenant: tenant.clone(),
                source: "file".into(),
                source_id: "anna's file".into(),
                conversation: main.clone(),
                position: Some(0),
            });
        })
        .await?;
    bench.say(&main, vec![user("I am Anna"), assistant("hello")]).await?;
    bench.say(&helper, vec![user("find Anna a hotel")]).await?;
    bench.turns(&bert, 0..2).await?;
    let erase = async |mode| erase_recipient(store, tenant, &anna, "asked", mode, NOON).await;
    let dry = erase(ErasureMode::DryRun).await?;
    same!((dry.conversations, dry.sub_agents, dry.entries, dry.pseudonym), (2, 1, 3, None));
    same!(store.current(tenant, &anna).await?.map(|row| row.id), Some(main.clone()));

    let done = erase(ErasureMode::Erase).await?;
    same!((done.count.erased, done.count.words, done.conversations), (3, 3, 2));
    // The name, its key and the folder of the one; the name of the other is none; the session and the alias.
    same!(done.count.names, 5);
    let pseudonym = Recipient::parse(done.pseudonym.as_deref().unwrap_or_default())?;
    ensure!(!pseudonym.as_str().contains("anna"), "{pseudonym}");
    same!(store.current(tenant, &anna).await?, None);
    let of = async |who: &Recipient| {
        let listing = Listing { which: Which::With(who.clone()), limit: 9, ..Listing::default() };
        store.list(Some(tenant), listing).await.map(|page| page.conversations.len())
    };
    same!((of(&anna).await?, of(&pseudonym).await?, of(&bert).await?), (0, 2, 1));
    for id in [&main, &helper] {
        let row = store.conversation(tenant, id).await?;
        same!((row.key, row.title, row.project, row.last_said_at), (None, None, None, None));
    }
    let named = store.named_session(tenant, &session).await?;
    let named = named.map(|session| (session.client_id.contains("anna"), session.title));
    same!(named, Some((false, None)));
    same!(store.alias(tenant, "file", "anna's file").await?, None);
    let Some(pseudonyms) = store.pseudonyms().await? else { return Err("there are pseudonyms now".into()) };
    let known = store.alias(tenant, "file", &pseudonyms.text(tenant, "anna's file")).await?;
    same!(known.map(|alias| (alias.conversation, alias.position)), Some((main.clone(), Some(0))));

    // Asked again by the same name, nothing is left to erase; and who comes back is another person to the store, until they
    // are erased too.
    let again = erase(ErasureMode::Erase).await?;
    same!(
        (again.conversations, again.count),
        (2, ErasedCount { pending: again.count.pending, ..ErasedCount::default() })
    );
    bench.turns(&anna, 0..1).await?;
    let later = erase(ErasureMode::Erase).await?;
    same!((later.count.erased, later.conversations, of(&pseudonym).await?), (2, 3, 3));
    same!(later.pseudonym, done.pseudonym);
    // Their client goes on under the id of a session that was erased: that is a new session, and can be erased again.
    let (again, third) = (SessionId::new(NOON), ConversationId::new(Time(NOON.0 + 3)));
    store
        .write(tenant, NOON, |tx| {
            tx.session(Session {
                id: again.clone(),
                tenant: tenant.clone(),
                caller: "laptop".into(),
                client: "codex".into(),
                client_id: "anna's session".into(),
                main: None,
                title: None,
                created_at: NOON,
            });
            tx.create(NewConversation {
                session: Some(again.clone()),
                ..NewConversation::with(third.clone(), &anna)
            });
        })
        .await?;
    bench.say(&third, vec![user("I am Anna again")]).await?;
    same!(erase(ErasureMode::Erase).await?.count.erased, 1);
    let named = store.named_session(tenant, &again).await?;
    same!(named.map(|session| session.client_id.contains("anna")), Some(false));
    same!(history(store, tenant, &main, 10).await?.items.len(), 0);
    let nobody = Recipient::parse("nobody")?;
    let missing = erase_recipient(store, tenant, &nobody, "asked", ErasureMode::Erase, NOON).await;
    same!(missing.err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    Ok(())
}

async fn a_reply_that_comes_after_its_conversation_was_erased_is_refused(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("the codeword is xylophone")]).await?;
    let store = bench.store();
    let sent = call(&id, "xylophone");
    store.write(&bench.tenant, NOON, |tx| _ = tx.sent(sent.clone())).await?;
    let count = store.erase(&bench.tenant, &id, Erase::All, "asked", NOON).await?;
    same!((count.erased, count.sent, count.under_way), (1, 1, 1));
    let late = store.write(&bench.tenant, NOON, |tx| {
        let reply = NewEntry::evaluation([Entry::text(Role::Assistant, "xylophone, yes")], NOON);
        tx.append(&id, Expected::Any, reply);
        tx.sent(Sent { response: Some(b"xylophone".to_vec()), status: CallStatus::Done, ..sent.clone() });
    });
    same!(late.await.err().map(|error| error.kind()), Some(ErrorKind::Erased));
    same!(store.conversation(&bench.tenant, &id).await?.head, 1);
    let calls = store.sent(&bench.tenant, &id).await?;
    let left: Vec<_> = calls.iter().map(|call| (&call.status, &call.request, &call.response)).collect();
    same!(left, [(&CallStatus::Erased, &None, &None)]);
    same!(store.lose_calls(Vec::new(), Time(i64::MAX), NOON).await?, 0);
    Ok(())
}

async fn what_was_read_before_an_erasure_is_not_gone_on_from(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("one")]).await?;
    let store = bench.store();
    let read = store.conversation(&bench.tenant, &id).await?.updated_at;
    let go_on = async |since| {
        let said = NewEntry::evaluation([Entry::text(Role::User, "two")], NOON);
        let writing = store.write(&bench.tenant, NOON, |tx| {
            tx.unless_written_since(&id, since);
            tx.append(&id, Expected::Any, said);
        });
        writing.await.map(|_| ()).map_err(|error| error.kind())
    };
    // In the same millisecond as what was said before, and all the same noticed.
    store.erase(&bench.tenant, &id, Erase::Positions(vec![(0, 0)]), "asked", read).await?;
    same!(go_on(read).await, Err(ErrorKind::Conflict));
    let now = store.conversation(&bench.tenant, &id).await?.updated_at;
    ensure!(now > read, "{now} is not later than {read}");
    same!(go_on(now).await, Ok(()));
    Ok(())
}

async fn what_a_client_sent_back_goes_with_the_entry(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("the codeword is xylophone"), assistant("noted")]).await?;
    let store = bench.store();
    let echo = Decision::Echo {
        position: 0,
        role: Role::User,
        wire: "openai-chat".into(),
        body: r#"{"role":"user","content":"xylophone"}"#.into(),
    };
    let failed = Decision::SummaryFailed { range: (0, 1), reason: "xylophone is no word".into() };
    for decision in [echo, failed] {
        store
            .write(&bench.tenant, NOON, |tx| {
                _ = tx.append(&id, Expected::Any, vec![NewEntry::from(decision)]);
            })
            .await?;
    }
    let count = store.erase(&bench.tenant, &id, Erase::Positions(vec![(0, 0)]), "asked", NOON).await?;
    same!((count.erased, count.decisions, count.summaries), (1, 2, 0));
    let places = store.entries(&bench.tenant, &id, 0, 9).await?;
    let said = format!("{places:?}");
    ensure!(!said.contains("xylophone"), "{said}");
    Ok(())
}
