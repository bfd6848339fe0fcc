//! Erasing: bodies go, places stay.

use crate::store::RecordsExt;
use scrollback_core::{Entry, Slot};

use super::{Bench, CaseResult, NOON, assistant, ensure, same, suite, user};
use crate::compact::{self, Compaction, Offline};
use crate::conversation::HistorySettings;
use crate::engine::erase::{Erase, ErasedCount};
use crate::history::history;
use crate::id::{ConversationId, Recipient};
use crate::run::Sent;
use crate::search::{Filter, Query};

suite![
    an_erased_entry_keeps_its_place_and_link,
    what_was_erased_is_not_found_and_not_sent,
    a_summary_of_what_was_erased_goes_too,
    erasing_in_a_parent_shows_in_its_forks,
];

async fn an_erased_entry_keeps_its_place_and_link(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let long = "secret ".repeat(2_000);
    bench.say(&id, vec![user("one"), user(&long), assistant("three")]).await?;
    let store = bench.store();
    let before = store.entries(&bench.tenant, &id, 0, 3).await?;
    let erase = async |what| store.erase(&bench.tenant, &id, what, "asked", NOON).await;
    let count = erase(Erase::Positions(vec![(1, 1)])).await?;
    same!(count, ErasedCount { erased: 1, ..ErasedCount::default() });
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
    let sent = Sent {
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
        request: Some(b"xylophone".to_vec()),
        response: Some(b"noted".to_vec()),
        status: "done".into(),
        attempt: 1,
        usage: None,
        started_at: NOON,
        ended_at: None,
        tokens: None,
        factor: None,
        holder: None,
    };
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
    same!(count, ErasedCount { erased: 1, forks: 1, ..ErasedCount::default() });
    let places = store.entries(&bench.tenant, &fork, 0, 4).await?;
    ensure!(matches!(places.get(1).map(|placed| &placed.slot), Some(Slot::Erased(_))), "no tombstone");
    same!(history(store, &bench.tenant, &fork, 10).await?.items.len(), 2);
    Ok(())
}
