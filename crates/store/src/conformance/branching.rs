//! Forks, and finding the conversation a list of messages continues.

use scrollback_core::{Entry, Slot, prefixes};

use super::{Bench, CaseResult, NOON, assistant, ensure, kind, same, suite, user};
use crate::conversation::NewConversation;
use crate::engine::fork::Continued;
use crate::error::ErrorKind;
use crate::id::{ConversationId, Recipient};
use crate::session::MatchScope;

suite![
    a_fork_shares_what_lies_below_and_goes_its_own_way,
    a_fork_of_a_fork_reads_through,
    a_fork_beyond_the_end_is_refused,
    a_fork_inside_an_exchange_has_its_own_result,
    rewinding_makes_a_fork_current,
    the_longest_prefix_is_found_and_never_across_tenants,
    nothing_is_written_about_a_list_that_is_known,
];

/// The texts of a record.
async fn texts(bench: &Bench, id: &ConversationId) -> Result<Vec<String>, crate::StoreError> {
    let record = bench.store().record(&bench.tenant, id, None).await?;
    let text = |slot: &Slot| match slot {
        Slot::Message(entry) => entry.content(),
        _ => None,
    };
    Ok(record.slots().iter().filter_map(text).collect())
}

async fn a_fork_shares_what_lies_below_and_goes_its_own_way(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("one"), assistant("two"), user("three")]).await?;
    let before = bench.store().entries(&bench.tenant, &id, 0, 2).await?;
    let fork = bench.store().fork(&bench.tenant, &id, 2, ConversationId::new(NOON), NOON).await?;
    same!((fork.head, fork.turns, fork.fork_position), (2, 1, Some(2)));
    same!(Some(fork.head_link), before.last().map(|placed| placed.link));
    same!(bench.say(&fork.id, vec![user("other")]).await?.first, 2);
    same!(texts(&bench, &fork.id).await?, ["one", "two", "other"]);
    same!(texts(&bench, &id).await?, ["one", "two", "three"]);
    bench.say(&id, vec![assistant("four")]).await?;
    same!(texts(&bench, &fork.id).await?, ["one", "two", "other"]);
    same!(bench.store().branches(&bench.tenant, &fork.id).await?.len(), 2);
    Ok(())
}

async fn a_fork_of_a_fork_reads_through(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("0"), user("1"), user("2"), user("3")]).await?;
    let store = bench.store();
    let one = store.fork(&bench.tenant, &id, 3, ConversationId::new(NOON), NOON).await?.id;
    bench.say(&one, vec![user("one 3"), user("one 4")]).await?;
    let two = store.fork(&bench.tenant, &one, 4, ConversationId::new(NOON), NOON).await?.id;
    bench.say(&two, vec![user("two 4")]).await?;
    let low = store.fork(&bench.tenant, &two, 1, ConversationId::new(NOON), NOON).await?.id;
    bench.say(&low, vec![user("low 1")]).await?;
    let empty = store.fork(&bench.tenant, &low, 0, ConversationId::new(NOON), NOON).await?.id;
    bench.say(&empty, vec![user("again")]).await?;
    same!(texts(&bench, &two).await?, ["0", "1", "2", "one 3", "two 4"]);
    same!(texts(&bench, &low).await?, ["0", "low 1"]);
    same!(texts(&bench, &empty).await?, ["again"]);
    same!(store.branches(&bench.tenant, &id).await?.len(), 5);
    same!(store.conversation(&bench.tenant, &two).await?.turns, 5);
    Ok(())
}

async fn a_fork_beyond_the_end_is_refused(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("one")]).await?;
    let store = bench.store();
    let fork = async |at| store.fork(&bench.tenant, &id, at, ConversationId::new(NOON), NOON).await;
    same!(kind(fork(2).await), Some(ErrorKind::BadArgument));
    ensure!(fork(1).await.is_ok(), "at the end is allowed");
    let taken = store.fork(&bench.tenant, &id, 0, id.clone(), NOON).await;
    same!(kind(taken), Some(ErrorKind::Exists));
    Ok(())
}

async fn a_fork_inside_an_exchange_has_its_own_result(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let calling = Entry::calling(None, &[("a", "f", "{}")]);
    bench.say(&id, vec![user("q"), calling, Entry::result("a", "1")]).await?;
    let store = bench.store();
    let fork = store.fork(&bench.tenant, &id, 2, ConversationId::new(NOON), NOON).await?.id;
    same!(store.pending_calls(&bench.tenant, &id).await?.len(), 0);
    same!(store.pending_calls(&bench.tenant, &fork).await?.len(), 1);
    bench.say(&fork, vec![Entry::result("a", "another")]).await?;
    same!(store.pending_calls(&bench.tenant, &fork).await?.len(), 0);
    Ok(())
}

async fn rewinding_makes_a_fork_current(bench: Bench) -> CaseResult {
    let anna = Recipient::parse("anna")?;
    let old = bench.turns(&anna, 0..3).await?.conversation;
    let store = bench.store();
    let fork = store.rewind(&bench.tenant, &anna, 2, ConversationId::new(NOON), NOON).await?;
    let current = store.current(&bench.tenant, &anna).await?;
    same!(current.map(|current| current.id), Some(fork.id.clone()));
    bench.tell(&anna, vec![user("again")]).await?;
    same!(texts(&bench, &fork.id).await?, ["question 0", "answer 0", "again"]);
    same!(texts(&bench, &old).await?.len(), 6);
    let nobody = Recipient::parse("nobody")?;
    let refused = store.rewind(&bench.tenant, &nobody, 0, ConversationId::new(NOON), NOON).await;
    same!(kind(refused), Some(ErrorKind::NotFound));
    Ok(())
}

async fn the_longest_prefix_is_found_and_never_across_tenants(bench: Bench) -> CaseResult {
    let system = Entry::text(scrollback_core::Role::System, "Today is Monday.");
    let talk = [user("one"), assistant("two"), user("three")];
    let scope = MatchScope::caller("anna");
    let id = bench.begin_in(&scope).await?;
    bench.say(&id, std::iter::once(system).chain(talk.clone()).collect()).await?;
    let store = bench.store();
    let place = |found: Option<Continued>| found.map(|found| (found.conversation.id, found.position));
    let find = async |entries: &[Entry]| {
        store.find_prefix(&bench.tenant, &scope, prefixes(entries)).await.map(place)
    };
    same!(find(&talk).await?, Some((id.clone(), 4)));
    same!(find(&talk[..2]).await?, Some((id.clone(), 3)));
    let longer = [talk.clone().as_slice(), &[assistant("four"), user("five")]].concat();
    same!(find(&longer).await?, Some((id.clone(), 4)));
    same!(find(&[user("two")]).await?, None);
    same!(find(&[Entry::text(scrollback_core::Role::System, "Today is Monday.")]).await?, None);
    let other = crate::Tenant::parse("somebody else")?;
    same!(place(store.find_prefix(&other, &scope, prefixes(&talk)).await?), None);
    let fork = store.fork(&bench.tenant, &id, 3, ConversationId::new(NOON), NOON).await?.id;
    bench.say(&fork, vec![user("else")]).await?;
    let edited = [user("one"), assistant("two"), user("else")];
    same!(find(&edited).await?, Some((fork.clone(), 4)));
    let stranger = MatchScope::caller("ben");
    same!(store.find_prefix(&bench.tenant, &stranger, prefixes(&talk)).await?, None);
    let all = prefixes(&longer);
    let known = store.find_prefix(&bench.tenant, &scope, all.clone()).await?;
    same!(known.map(|found| (found.covered, found.is_at_end(&all))), Some((3, true)));
    // Instructions that take the place of the first ones leave the list where it was.
    let tuesday = Entry::text(scrollback_core::Role::System, "Today is Tuesday.").as_lead();
    bench.say(&id, vec![tuesday, assistant("four"), user("five")]).await?;
    same!(find(&longer).await?, Some((id, 7)));
    Ok(())
}

async fn nothing_is_written_about_a_list_that_is_known(bench: Bench) -> CaseResult {
    let talk = [user("one"), assistant("two")];
    let store = bench.store();
    let begin = |known: &[Entry], tenant: &crate::Tenant| {
        let mut tx = crate::Tx::new(tenant, NOON);
        let id = ConversationId::new(NOON);
        let scope = MatchScope::caller("anna");
        tx.unless_known(&scope, prefixes(known));
        tx.create(NewConversation { scope: Some(scope), ..NewConversation::new(id.clone()) });
        tx.append(&id, crate::Expected::At(0), crate::NewEntry::evaluation(talk.clone(), NOON));
        (tx, id)
    };
    let (first, _) = begin(&talk, &bench.tenant);
    store.commit(first).await?;
    for known in [&talk[..], &[user("one"), assistant("two"), user("three")]] {
        let (again, id) = begin(known, &bench.tenant);
        same!(kind(store.commit(again).await), Some(ErrorKind::Conflict));
        same!(kind(store.conversation(&bench.tenant, &id).await), Some(ErrorKind::NotFound));
    }
    let (others, _) = begin(&[user("else")], &bench.tenant);
    store.commit(others).await?;
    let (theirs, _) = begin(&talk, &crate::Tenant::parse("somebody else")?);
    store.commit(theirs).await?;
    Ok(())
}
