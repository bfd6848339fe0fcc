//! Recipients: one current conversation each, statuses, histories, summaries.

use scrollback_core::wire::Wire;
use scrollback_core::{Entry, Role, Time};

use super::{Bench, CaseResult, NOON, assistant, ensure, kind, same, suite, user};
use crate::compact::{self, Compaction, Offline};
use crate::conversation::{FollowUps, HistorySettings, Status};
use crate::entry::{Expected, NewEntry};
use crate::error::ErrorKind;
use crate::history::history;
use crate::id::{ConversationId, Recipient};
use crate::store::{Listing, RecordsExt, Which};

suite![
    a_recipient_has_one_conversation_from_the_first_entry_on,
    two_recipients_never_mix,
    statuses_change_as_people_speak,
    a_history_has_the_lead_and_the_last_turns,
    a_history_shows_no_half_of_a_tool_exchange,
    a_conversation_without_a_user_is_handed_out_whole,
    ten_turns_are_kept_and_eleven_compacted,
    what_arrives_while_a_summary_is_written_is_kept,
    of_two_compactions_one_is_stale,
    a_blank_or_long_summary_changes_nothing,
    lists_page_newest_first,
];

async fn a_recipient_has_one_conversation_from_the_first_entry_on(bench: Bench) -> CaseResult {
    let anna = Recipient::parse("../anna")?;
    same!(bench.store().current(&bench.tenant, &anna).await?, None);
    let first = bench.tell(&anna, vec![user("hello")]).await?;
    let second = bench.tell(&anna, vec![assistant("hi")]).await?;
    same!(&first.conversation, &second.conversation);
    let Some(current) = bench.store().current(&bench.tenant, &anna).await? else {
        return Err("there is no current conversation".into());
    };
    same!(current.key.as_deref(), Some("conversation:../anna"));
    same!((current.head, current.turns), (2, 1));
    let other = crate::Tenant::parse("somebody else")?;
    same!(bench.store().current(&other, &anna).await?, None);
    Ok(())
}

async fn two_recipients_never_mix(bench: Bench) -> CaseResult {
    let (anna, ben) = (Recipient::parse("anna")?, Recipient::parse("anna ")?);
    for number in 0..3 {
        bench.tell(&anna, vec![user(&format!("anna {number}"))]).await?;
        bench.tell(&ben, vec![user(&format!("ben {number}"))]).await?;
    }
    for (recipient, own) in [(&anna, "anna"), (&ben, "ben")] {
        let Some(current) = bench.store().current(&bench.tenant, recipient).await? else {
            return Err("gone".into());
        };
        let all = history(bench.store(), &bench.tenant, &current.id, 10).await?;
        ensure!(all.render(Wire::OpenaiChat).messages.iter().all(|raw| raw.contains(own)), "mixed up");
        same!(all.items.len(), 3);
    }
    Ok(())
}

async fn statuses_change_as_people_speak(bench: Bench) -> CaseResult {
    let anna = Recipient::parse("anna")?;
    let id = bench.tell(&anna, vec![assistant("Good morning!")]).await?.conversation;
    let store = bench.store();
    let now = async || store.conversation(&bench.tenant, &id).await;
    same!((now().await?.status(), now().await?.turns), (Status::Idle, 1));
    bench.tell(&anna, vec![user("hello")]).await?;
    same!(
        (now().await?.status(), now().await?.status_at, now().await?.turns),
        (Status::Active, Some(NOON), 1)
    );
    for (set, after_user) in [
        (Status::AwaitingAnswer, Status::AwaitingAnswer),
        (Status::Closed, Status::Active),
        (Status::Idle, Status::Active),
    ] {
        let later = Time(NOON.0 + 60_000);
        store.write(&bench.tenant, later, |tx| _ = tx.status(&id, set)).await?;
        same!((now().await?.status(), now().await?.status_at), (set, Some(later)));
        bench.tell(&anna, vec![assistant("anything else?"), Entry::text(Role::System, "note")]).await?;
        same!(now().await?.status(), set);
        let due = FollowUps::default().of(&now().await?, Time(NOON.0 + 4 * 3_600_000));
        ensure!(due.due, "four hours after the assistant spoke it is due");
        bench.tell(&anna, vec![user("yes")]).await?;
        same!(now().await?.status(), after_user);
        ensure!(FollowUps::default().of(&now().await?, Time(i64::MAX)).at.is_none(), "the user spoke last");
    }
    Ok(())
}

async fn a_history_has_the_lead_and_the_last_turns(bench: Bench) -> CaseResult {
    let anna = Recipient::parse("anna")?;
    let id = bench.tell(&anna, vec![Entry::text(Role::System, "Be brief.")]).await?.conversation;
    bench.turns(&anna, 0..12).await?;
    for (turns, first, count) in
        [(10, "question 2", 21), (1, "question 11", 3), (12, "question 0", 25), (99, "question 0", 25)]
    {
        let found = history(bench.store(), &bench.tenant, &id, turns).await?;
        let messages = found.render(Wire::OpenaiChat).messages;
        same!(messages.len(), count);
        ensure!(messages.first().is_some_and(|lead| lead.contains("Be brief.")), "the lead comes first");
        ensure!(
            messages.get(1).is_some_and(|text| text.contains(first)),
            "then {first}: {:?}",
            messages.get(1)
        );
    }
    let none = history(bench.store(), &bench.tenant, &id, 0).await?;
    same!(none.items.len(), 1);
    same!((none.messages, none.conversation.turns), (25, 12));
    Ok(())
}

async fn a_history_shows_no_half_of_a_tool_exchange(bench: Bench) -> CaseResult {
    let anna = Recipient::parse("anna")?;
    let calling = Entry::calling(None, &[("a", "f", "{}"), ("b", "g", "{}")]);
    let id = bench.tell(&anna, vec![user("one"), calling, Entry::result("a", "1")]).await?.conversation;
    let count = async |turns| {
        let found = history(bench.store(), &bench.tenant, &id, turns).await?;
        Ok::<_, crate::StoreError>(found.items.len())
    };
    same!(count(10).await?, 1);
    bench.tell(&anna, vec![user("two"), Entry::result("b", "2"), assistant("done")]).await?;
    same!(count(10).await?, 6);
    same!(count(1).await?, 2);
    Ok(())
}

async fn a_conversation_without_a_user_is_handed_out_whole(bench: Bench) -> CaseResult {
    let anna = Recipient::parse("anna")?;
    let id = bench.tell(&anna, vec![assistant("one"), assistant("two")]).await?.conversation;
    same!(history(bench.store(), &bench.tenant, &id, 1).await?.items.len(), 2);
    bench.tell(&anna, vec![user("three")]).await?;
    same!(history(bench.store(), &bench.tenant, &id, 1).await?.items.len(), 3);
    same!(bench.store().conversation(&bench.tenant, &id).await?.turns, 1);
    Ok(())
}

async fn ten_turns_are_kept_and_eleven_compacted(bench: Bench) -> CaseResult {
    let anna = Recipient::parse("anna")?;
    let id = bench.tell(&anna, vec![Entry::text(Role::System, "Be brief.")]).await?.conversation;
    bench.turns(&anna, 0..10).await?;
    let settings = HistorySettings::default();
    let at_once =
        async || compact::compact(bench.store(), &bench.tenant, &id, &settings, &Offline, NOON).await;
    same!(at_once().await?, Compaction::UnderBound);
    bench.turns(&anna, 10..11).await?;
    let Compaction::Done { covers, text, position } = at_once().await? else {
        return Err("eleven turns were not compacted".into());
    };
    same!((covers, position), ((1, 16), 23));
    ensure!(text.contains("- user: question 0") && text.contains("answer 7"), "{text}");
    let found = history(bench.store(), &bench.tenant, &id, 10).await?;
    same!((found.items.len(), found.summary.as_deref()), (8, Some(text.as_str())));
    let messages = found.render(Wire::OpenaiChat).messages;
    let summary = messages.get(1).map(String::as_str).unwrap_or_default();
    ensure!(
        summary.starts_with(r#"{"role":"system","content":"Summary of the earlier conversation:\n"#),
        "{summary}"
    );
    same!(bench.store().conversation(&bench.tenant, &id).await?.uncovered_turns, 3);
    same!(at_once().await?, Compaction::UnderBound);
    // Rolling: the next one takes the place of the first.
    bench.turns(&anna, 11..19).await?;
    let Compaction::Done { covers, text, .. } = at_once().await? else {
        return Err("eleven turns more were not compacted".into());
    };
    same!(covers.0, 1);
    ensure!(text.contains("question 0") && text.contains("question 15"), "{text}");
    let bad = HistorySettings { recent_turns_to_keep: 10, ..settings };
    let refused = compact::compact(bench.store(), &bench.tenant, &id, &bad, &Offline, NOON).await;
    same!(kind(refused), Some(ErrorKind::BadArgument));
    Ok(())
}

async fn what_arrives_while_a_summary_is_written_is_kept(bench: Bench) -> CaseResult {
    let anna = Recipient::parse("anna")?;
    let id = bench.turns(&anna, 0..11).await?.conversation;
    let settings = HistorySettings::default();
    let Some(plan) = compact::plan(bench.store(), &bench.tenant, &id, &settings).await? else {
        return Err("there is nothing to compact".into());
    };
    bench.turns(&anna, 11..13).await?;
    let written = Ok("They talked.".to_string());
    let done = compact::settle(bench.store(), &bench.tenant, &id, &plan.ask, written, "test", NOON).await?;
    ensure!(matches!(done, Compaction::Done { covers: (0, 15), .. }), "{done:?}");
    let found = history(bench.store(), &bench.tenant, &id, 10).await?;
    let messages = found.render(Wire::OpenaiChat).messages.join("\n");
    for number in 8..13 {
        same!(messages.matches(&format!("question {number}\"")).count(), 1);
    }
    same!(found.items.len(), 11);
    Ok(())
}

async fn of_two_compactions_one_is_stale(bench: Bench) -> CaseResult {
    let anna = Recipient::parse("anna")?;
    let id = bench.turns(&anna, 0..11).await?.conversation;
    let settings = HistorySettings::default();
    let (first, second) = (
        compact::plan(bench.store(), &bench.tenant, &id, &settings).await?,
        compact::plan(bench.store(), &bench.tenant, &id, &settings).await?,
    );
    let (Some(first), Some(second)) = (first, second) else { return Err("nothing to compact".into()) };
    let settle = async |ask, text: &str| {
        compact::settle(bench.store(), &bench.tenant, &id, ask, Ok(text.into()), "test", NOON).await
    };
    ensure!(matches!(settle(&second.ask, "second").await?, Compaction::Done { .. }), "the faster one wins");
    same!(settle(&first.ask, "first").await?, Compaction::Stale);
    let found = history(bench.store(), &bench.tenant, &id, 10).await?;
    same!(found.summary.as_deref(), Some("second"));
    Ok(())
}

async fn a_blank_or_long_summary_changes_nothing(bench: Bench) -> CaseResult {
    let anna = Recipient::parse("anna")?;
    let id = bench.turns(&anna, 0..11).await?.conversation;
    let before = history(bench.store(), &bench.tenant, &id, 99).await?.render(Wire::OpenaiChat).messages;
    let settings = HistorySettings::default();
    let Some(plan) = compact::plan(bench.store(), &bench.tenant, &id, &settings).await? else {
        return Err("nothing to compact".into());
    };
    for written in [Ok(" \n".to_string()), Ok("x".repeat(2_001)), Err("the model is away".into())] {
        let done =
            compact::settle(bench.store(), &bench.tenant, &id, &plan.ask, written, "test", NOON).await?;
        ensure!(matches!(done, Compaction::Failed(_)), "{done:?}");
    }
    let after = history(bench.store(), &bench.tenant, &id, 99).await?;
    same!(after.render(Wire::OpenaiChat).messages, before);
    same!((after.messages, after.conversation.head), (22, 25));
    Ok(())
}

async fn lists_page_newest_first(bench: Bench) -> CaseResult {
    let mut all = Vec::new();
    for number in 0..7 {
        let at = Time(NOON.0 + number * 1_000);
        let recipient = Recipient::parse(&format!("r{number}"))?;
        let said = NewEntry::evaluation([user("hello")], at);
        all.push(
            bench.store().append_for(&bench.tenant, at, &recipient, Expected::Any, said).await?.conversation,
        );
    }
    all.reverse();
    let (mut found, mut after) = (Vec::<ConversationId>::new(), None);
    loop {
        let listing = Listing { limit: 3, after, ..Listing::default() };
        let page = bench.store().list(Some(&bench.tenant), listing).await?;
        found.extend(page.conversations.into_iter().map(|(conversation, _)| conversation.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    same!(&found, &all);
    let with = Which::With(Recipient::parse("r3")?);
    let one = bench
        .store()
        .list(Some(&bench.tenant), Listing { which: with, limit: 9, ..Listing::default() })
        .await?;
    same!(one.conversations.len(), 1);
    let idle = Listing { status: Some(Status::Idle), limit: 9, ..Listing::default() };
    same!(bench.store().list(Some(&bench.tenant), idle).await?.conversations.len(), 0);
    let active = Listing { status: Some(Status::Active), limit: 9, ..Listing::default() };
    same!(bench.store().list(Some(&bench.tenant), active).await?.conversations.len(), 7);
    let cursor = crate::Cursor::parse("nonsense")?;
    let bad = Listing { limit: 3, after: Some(cursor), ..Listing::default() };
    same!(kind(bench.store().list(Some(&bench.tenant), bad).await), Some(ErrorKind::BadArgument));
    Ok(())
}
