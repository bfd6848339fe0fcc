//! Appending: dense positions, one winner, repeats, all or none.

use crate::store::RecordsExt;
use std::future::Future;

use scrollback_core::wire::Wire;
use scrollback_core::{Decision, Entry, Role, Slot, Time, first_link, link};

use super::{Bench, CaseResult, NOON, assistant, ensure, kind, same, suite, user};
use crate::entry::{Expected, NewEntry};
use crate::error::ErrorKind;
use crate::id::{ConversationId, new_evaluation};

suite![
    positions_are_dense_and_links_follow,
    an_expected_position_that_has_passed_is_a_conflict,
    a_repeat_answers_with_the_same_positions,
    the_same_number_with_another_body_is_a_conflict,
    a_gap_in_a_sequence_is_refused,
    a_commit_is_all_or_none,
    a_text_with_nul_is_kept_as_it_came,
    decisions_about_what_is_not_there_are_refused,
    large_texts_come_back_byte_for_byte,
    odd_messages_come_back_byte_for_byte,
    many_writers_get_every_position_once,
    one_of_many_wins_each_position,
    pending_calls_are_those_without_a_result,
    unknown_conversations_are_not_found,
];

async fn positions_are_dense_and_links_follow(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    for number in 0..5 {
        let appended = bench.say(&id, vec![user("q"), assistant("a")]).await?;
        same!((appended.first, appended.last), (2 * number, 2 * number + 1));
    }
    let places = bench.store().entries(&bench.tenant, &id, 0, u64::MAX).await?;
    let mut before = first_link(id.as_str());
    for (position, placed) in (0..).zip(&places) {
        same!(placed.position, position);
        before = link(&before, position, &placed.slot);
        same!(placed.link, before);
    }
    same!(bench.store().conversation(&bench.tenant, &id).await?.head_link, before);
    Ok(())
}

async fn an_expected_position_that_has_passed_is_a_conflict(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("one")]).await?;
    for (expected, fits) in [(0, false), (2, false), (1, true)] {
        let said = NewEntry::evaluation([user("two")], NOON);
        let result = bench.store().append(&bench.tenant, NOON, &id, Expected::At(expected), said).await;
        match result {
            Ok(appended) => ensure!(fits && appended.first == 1, "{expected} was accepted"),
            Err(error) => {
                ensure!(!fits, "{expected} was refused: {error}");
                same!(error.kind(), ErrorKind::Conflict);
                same!(error.heads(), Some((expected, 1)));
            }
        }
    }
    same!(bench.store().conversation(&bench.tenant, &id).await?.head, 2);
    Ok(())
}

async fn a_repeat_answers_with_the_same_positions(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let said = NewEntry::evaluation([user("q"), assistant("a")], NOON);
    let store = bench.store();
    let first = store.append(&bench.tenant, NOON, &id, Expected::At(0), said.clone()).await?;
    bench.say(&id, vec![user("meanwhile")]).await?;
    let again = store.append(&bench.tenant, Time(NOON.0 + 5), &id, Expected::At(0), said).await?;
    same!(&again, &first);
    same!(store.conversation(&bench.tenant, &id).await?.head, 3);
    Ok(())
}

async fn the_same_number_with_another_body_is_a_conflict(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let evaluation = new_evaluation();
    let store = bench.store();
    let one = NewEntry::continued([user("q"), assistant("a")], evaluation, 0, NOON);
    store.append(&bench.tenant, NOON, &id, Expected::Any, one).await?;
    for other in
        [vec![user("other")], vec![user("q"), assistant("other")], vec![user("q"), assistant("a"), user("b")]]
    {
        let other = NewEntry::continued(other, evaluation, 0, NOON);
        let result = store.append(&bench.tenant, NOON, &id, Expected::Any, other).await;
        same!(kind(result), Some(ErrorKind::Conflict));
    }
    same!(store.conversation(&bench.tenant, &id).await?.head, 2);
    Ok(())
}

async fn a_gap_in_a_sequence_is_refused(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let evaluation = new_evaluation();
    let store = bench.store();
    let late = NewEntry::continued([user("q")], evaluation, 1, NOON);
    let result = store.append(&bench.tenant, NOON, &id, Expected::Any, late).await;
    same!(kind(result), Some(ErrorKind::SequenceGap));
    for sequence in 0..3 {
        let next = NewEntry::continued([user("q")], evaluation, sequence, NOON);
        same!(store.append(&bench.tenant, NOON, &id, Expected::Any, next).await?.first, sequence);
    }
    Ok(())
}

async fn a_commit_is_all_or_none(bench: Bench) -> CaseResult {
    let (one, two) = (bench.begin().await?, bench.begin().await?);
    let store = bench.store();
    let result = store
        .write(&bench.tenant, NOON, |tx| {
            tx.append(&one, Expected::Any, NewEntry::evaluation([user("kept?")], NOON));
            tx.append(&two, Expected::At(7), NewEntry::evaluation([user("refused")], NOON));
        })
        .await;
    same!(kind(result), Some(ErrorKind::Conflict));
    same!(store.conversation(&bench.tenant, &one).await?.head, 0);
    let result = store
        .write(&bench.tenant, NOON, |tx| {
            tx.append(&one, Expected::At(0), NewEntry::evaluation([user("kept")], NOON));
            tx.append(&two, Expected::At(0), NewEntry::evaluation([user("kept")], NOON));
        })
        .await?;
    same!(result.appended.len(), 2);
    Ok(())
}

async fn a_text_with_nul_is_kept_as_it_came(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let raw = r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b\u0000c"}]}"#;
    bench.say(&id, vec![user("fine"), Entry::kept(Wire::OpenaiChat, Role::User, raw, None, None)?]).await?;
    let places = bench.store().entries(&bench.tenant, &id, 1, 2).await?;
    let Some(Slot::Message(entry)) = places.first().map(|placed| &placed.slot) else {
        return Err("the entry is missing".into());
    };
    same!(entry.origin.raw.as_ref(), raw);
    Ok(())
}

async fn decisions_about_what_is_not_there_are_refused(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let calling = Entry::calling(None, &[("c1", "weather", "{}")]);
    bench
        .say(&id, vec![Entry::text(Role::System, "s"), user("q"), calling, Entry::result("c1", "rain")])
        .await?;
    let store = bench.store();
    let bad = [
        Decision::Pin { positions: vec![9] },
        Decision::Pin { positions: vec![2] },
        Decision::Cut {
            before: 3,
            held: None,
            by: "test".into(),
            scope: None,
            kept: Vec::new(),
            owed: Vec::new(),
            notice: None,
            factor: None,
        },
        Decision::Lead { positions: vec![1] },
        Decision::Lead { positions: vec![] },
        Decision::Clear { positions: vec![4], placeholder: "-".into() },
        Decision::SummaryFailed { range: (2, 1), reason: "-".into() },
    ];
    for decision in bad {
        let result =
            store.append(&bench.tenant, NOON, &id, Expected::Any, vec![decision.clone().into()]).await;
        same!((&decision, kind(result)), (&decision, Some(ErrorKind::BadDecision)));
    }
    let good = [
        Decision::Pin { positions: vec![2, 3] },
        Decision::Cut {
            before: 2,
            held: Some(1),
            by: "test".into(),
            scope: None,
            kept: Vec::new(),
            owed: Vec::new(),
            notice: None,
            factor: None,
        },
        Decision::Lead { positions: vec![0] },
        Decision::Clear { positions: vec![3], placeholder: "-".into() },
    ];
    for decision in good {
        store.append(&bench.tenant, NOON, &id, Expected::Any, vec![decision.into()]).await?;
    }
    let record = store.record(&bench.tenant, &id, None).await?;
    same!((record.len(), record.message_count()), (8, 4));
    Ok(())
}

async fn large_texts_come_back_byte_for_byte(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let picture = "iVBORw0KGgo".repeat(2_000);
    let raw = format!(
        r#"{{"role":"user","content":[{{"type":"text","text":"look \u00e9"}},{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{picture}"}}}}]}}"#
    );
    for _ in 0..3 {
        let entry = Entry::kept(Wire::OpenaiChat, Role::User, &raw, None, None)?;
        bench.say(&id, vec![entry, assistant(&"long answer ".repeat(1_000))]).await?;
    }
    let record = bench.store().record(&bench.tenant, &id, None).await?;
    for position in [0, 2, 4] {
        let found = record.entry(position).map(|entry| entry.origin.raw.to_string());
        ensure!(found.as_deref() == Some(raw.as_str()), "position {position} changed");
    }
    Ok(())
}

async fn odd_messages_come_back_byte_for_byte(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let odd = [
        (
            Wire::OpenaiChat,
            Role::User,
            r#"{"content" : "\u00e9\/\ud83d\ude00","role":"user", "x":1.50e+2,"y":[null, {"a":{}}]}"#,
        ),
        (
            Wire::OpenaiChat,
            Role::Assistant,
            r#"{"role":"assistant","content":null,"n":12345678901234567890123}"#,
        ),
        (
            Wire::Anthropic,
            Role::Assistant,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s=="}]}"#,
        ),
        (Wire::OpenaiChat, Role::User, r#"{"role":"user","content":""}"#),
        (Wire::OpenaiChat, Role::User, r#"{"role":"user","content":[]}"#),
    ];
    let mut entries = Vec::new();
    for (wire, role, raw) in odd {
        entries.push(Entry::kept(wire, role, raw, None, None)?);
    }
    bench.say(&id, entries).await?;
    let record = bench.store().record(&bench.tenant, &id, None).await?;
    for (position, (_, _, raw)) in (0..).zip(odd) {
        same!(record.entry(position).map(|entry| entry.origin.raw.to_string()), Some(raw.to_string()));
    }
    Ok(())
}

async fn many_writers_get_every_position_once(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let writing = |writer: usize| {
        let (bench, id) = (bench.clone(), id.clone());
        async move {
            let mut positions = Vec::new();
            for number in 0..20 {
                let appended = bench.say(&id, vec![user(&format!("{writer}/{number}"))]).await?;
                positions.push(appended.first);
            }
            Ok::<_, crate::StoreError>(positions)
        }
    };
    let mut all = Vec::new();
    for positions in together((0..8).map(writing).collect()).await {
        let positions = positions?;
        ensure!(positions.is_sorted(), "a writer's own positions go backwards: {positions:?}");
        all.extend(positions);
    }
    all.sort_unstable();
    same!(all, (0..160).collect::<Vec<u64>>());
    Ok(())
}

async fn one_of_many_wins_each_position(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    for round in 0..3 {
        let racing = |_| {
            let (bench, id) = (bench.clone(), id.clone());
            async move {
                let said = NewEntry::evaluation([user("me")], NOON);
                bench.store().append(&bench.tenant, NOON, &id, Expected::At(round), said).await
            }
        };
        let results = together((0..50).map(racing).collect()).await;
        let won = results.iter().filter(|result| result.is_ok()).count();
        let lost = results.into_iter().filter_map(kind).collect::<Vec<_>>();
        same!(won, 1);
        ensure!(lost.iter().all(|kind| *kind == ErrorKind::Conflict), "lost by {lost:?}");
    }
    same!(bench.store().conversation(&bench.tenant, &id).await?.head, 3);
    Ok(())
}

/// Polls futures side by side until all are done; works on any runtime.
async fn together<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut open: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in &mut open {
            if done.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(cx)
            {
                *done = Some(output);
            }
        }
        if open.iter().all(|(_, done)| done.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    open.into_iter().filter_map(|(_, done)| done).collect()
}

async fn pending_calls_are_those_without_a_result(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let calling = Entry::calling(None, &[("a", "f", "{}"), ("b", "g", "{}")]);
    bench.say(&id, vec![user("q"), calling.clone(), Entry::result("a", "1")]).await?;
    let pending = |found: Vec<crate::PendingCall>| -> Vec<(String, u64)> {
        found.into_iter().map(|call| (call.call_id, call.position)).collect()
    };
    let store = bench.store();
    same!(pending(store.pending_calls(&bench.tenant, &id).await?), [("b".to_string(), 1)]);
    bench.say(&id, vec![calling, Entry::result("b", "2"), Entry::result("nobody", "3")]).await?;
    let found = pending(store.pending_calls(&bench.tenant, &id).await?);
    same!(found, [("b".to_string(), 1), ("a".to_string(), 3)]);
    Ok(())
}

async fn unknown_conversations_are_not_found(bench: Bench) -> CaseResult {
    let nowhere = ConversationId::new(NOON);
    same!(kind(bench.say(&nowhere, vec![user("hello?")]).await), Some(ErrorKind::NotFound));
    same!(kind(bench.store().record(&bench.tenant, &nowhere, None).await), Some(ErrorKind::NotFound));
    let id = bench.begin().await?;
    let other = crate::Tenant::parse("somebody else")?;
    let said = NewEntry::evaluation([user("hello?")], NOON);
    let result = bench.store().append(&other, NOON, &id, Expected::Any, said).await;
    same!(kind(result), Some(ErrorKind::NotFound));
    same!(kind(bench.store().conversation(&other, &id).await), Some(ErrorKind::NotFound));
    let places = bench.store().entries(&bench.tenant, &id, 5, 3).await?;
    ensure!(places.iter().all(|placed| matches!(placed.slot, Slot::Message(_))), "no places, no slots");
    same!(places.len(), 0);
    Ok(())
}
