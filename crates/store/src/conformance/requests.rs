//! What model calls were sent: kept as what it shares with the record, and given back byte for byte.

use crate::store::RecordsExt;
use scrollback_core::request::BodyTemplate;
use scrollback_core::wire::Wire;
use scrollback_core::{Slot, Time};

use super::{Bench, CaseResult, NOON, Wrong, assistant, ensure, kind, same, suite, user};
use crate::engine::erase::Erase;
use crate::error::ErrorKind;
use crate::id::{ConversationId, new_evaluation};
use crate::run::Sent;
use crate::status::CallStatus;

suite![
    a_request_comes_back_byte_for_byte,
    a_call_that_is_written_again_keeps_its_request,
    a_request_that_is_replaced_lets_go_of_the_old_one,
    a_request_in_a_fork_copies_from_its_ancestors,
    requests_of_a_long_conversation_come_back,
    a_request_that_held_what_was_erased_is_emptied_and_others_stay,
    a_request_in_a_fork_is_emptied_when_its_parent_is_erased,
    a_request_cannot_copy_what_is_not_there,
    the_newest_calls_of_a_model_are_those_of_the_tenant,
    calls_of_processes_that_are_gone_are_lost,
    calls_that_began_too_long_ago_are_lost,
];

/// A call that has a request and nothing else.
fn call(conversation: &ConversationId, number: u64, upto: u64) -> Sent {
    Sent {
        id: new_evaluation().to_string(),
        conversation: conversation.clone(),
        run: None,
        step: None,
        evaluation: Some(new_evaluation()),
        upto,
        managers: "[]".into(),
        wire: "openai-chat".into(),
        model: "offline:echo".into(),
        epoch: None,
        prefix_hash: None,
        request: None,
        response: None,
        status: "done".into(),
        attempt: 1,
        usage: None,
        started_at: Time(NOON.0 + i64::try_from(number).unwrap_or(0)),
        ended_at: None,
        tokens: Some("{\"total\":12}".into()),
        factor: Some(1.1),
        holder: Some("process 1".into()),
    }
}

impl Bench {
    /// A request that shows a conversation below a position, and how it is kept.
    async fn request(
        &self,
        id: &ConversationId,
        below: u64,
        around: &str,
    ) -> Result<(Vec<u8>, BodyTemplate), Wrong> {
        let places = self.store().entries(&self.tenant, id, 0, below).await?;
        let messages = || {
            places.iter().filter_map(|placed| match &placed.slot {
                Slot::Message(entry) => Some((placed.position, entry.as_ref())),
                _ => None,
            })
        };
        let list: Vec<&str> = messages().map(|(_, entry)| entry.origin.raw.as_ref()).collect();
        let body = format!(r#"{{"tools":"{around}","messages":[{}]}}"#, list.join(",")).into_bytes();
        let template = BodyTemplate::of(Wire::OpenaiChat, &body, messages());
        ensure!(template.whole().count() == list.len(), "every message is copied");
        Ok((body, template))
    }

    /// Writes a call with that request; the call as it should be read.
    async fn send(&self, call: Sent, around: &str) -> Result<Sent, Wrong> {
        let (body, template) = self.request(&call.conversation, call.upto, around).await?;
        let written = call.clone();
        self.store().write(&self.tenant, NOON, |tx| _ = tx.sent_as(written, template)).await?;
        Ok(Sent { request: Some(body), ..call })
    }

    /// What the store says about a call.
    async fn opened(&self, id: &str) -> Result<Sent, Wrong> {
        Ok(self.store().call(&self.tenant, id).await?)
    }
}

async fn a_request_comes_back_byte_for_byte(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("one"), assistant(&"two ".repeat(3_000)), user("thr\u{e9}e")]).await?;
    let long = "a tool with a long description. ".repeat(400);
    let first = bench.send(call(&id, 1, 1), &long).await?;
    let second = bench.send(call(&id, 2, 3), &long).await?;
    // Bytes that are no text, and nothing at all.
    let mut others = Vec::new();
    for (number, body) in [b"\xff\xfe".to_vec(), vec![0xff; 5_000], Vec::new()].into_iter().enumerate() {
        let other = call(&id, 3 + number as u64, 3);
        let template = BodyTemplate::of(Wire::Anthropic, &body, []);
        bench.store().write(&bench.tenant, NOON, |tx| _ = tx.sent_as(other.clone(), template)).await?;
        others.push(Sent { request: Some(body), ..other });
    }
    let all: Vec<Sent> = [first, second].into_iter().chain(others).collect();
    for wanted in &all {
        same!(bench.opened(&wanted.id).await?, wanted.clone());
    }
    same!(bench.store().sent(&bench.tenant, &id).await?, all);
    Ok(())
}

async fn a_call_that_is_written_again_keeps_its_request(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("one")]).await?;
    let wanted = bench.send(call(&id, 1, 1), &"x".repeat(1_000)).await?;
    for status in ["streaming", "done"] {
        let again = Sent {
            request: None,
            status: status.into(),
            response: Some(b"reply".to_vec()),
            tokens: None,
            ..wanted.clone()
        };
        bench.store().write(&bench.tenant, NOON, |tx| _ = tx.sent(again.clone())).await?;
        same!(bench.opened(&wanted.id).await?, Sent { request: wanted.request.clone(), ..again });
    }
    Ok(())
}

async fn a_request_that_is_replaced_lets_go_of_the_old_one(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("one"), assistant("two")]).await?;
    let other = bench.send(call(&id, 1, 1), &"shared ".repeat(100)).await?;
    let row = call(&id, 2, 2);
    for around in ["shared ".repeat(100), "another ".repeat(100), "shared ".repeat(100)] {
        let wanted = bench.send(row.clone(), &around).await?;
        same!(bench.opened(&row.id).await?, wanted);
    }
    let whole = Sent { request: Some(b"all of it".to_vec()), ..row.clone() };
    bench.store().write(&bench.tenant, NOON, |tx| _ = tx.sent(whole.clone())).await?;
    same!(bench.opened(&row.id).await?, whole);
    let wanted = bench.send(row.clone(), "again").await?;
    same!(bench.opened(&row.id).await?, wanted);
    same!(bench.opened(&other.id).await?, other);
    Ok(())
}

async fn a_request_in_a_fork_copies_from_its_ancestors(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("one"), assistant("two"), user("three")]).await?;
    let store = bench.store();
    let fork = store.fork(&bench.tenant, &id, 2, ConversationId::new(NOON), NOON).await?.id;
    bench.say(&fork, vec![user("another three"), assistant("four")]).await?;
    let deeper = store.fork(&bench.tenant, &fork, 3, ConversationId::new(NOON), NOON).await?.id;
    bench.say(&deeper, vec![assistant("another four")]).await?;
    let wanted = bench.send(call(&deeper, 1, 4), "around").await?;
    ensure!(
        wanted.request.as_ref().is_some_and(|body| String::from_utf8_lossy(body).contains("another three")),
        "it shows the fork"
    );
    same!(bench.opened(&wanted.id).await?, wanted.clone());
    same!(store.sent(&bench.tenant, &deeper).await?, [wanted]);
    Ok(())
}

/// So long that what its requests are made of is cut into parts, and these into parts.
async fn requests_of_a_long_conversation_come_back(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let mut sent = Vec::new();
    for round in 0..60 {
        // Decisions between the messages keep them from being one run.
        bench
            .say(&id, vec![user(&format!("question {round}")), assistant(&format!("answer {round}"))])
            .await?;
        let decision = scrollback_core::Decision::Interrupted { call_ids: Vec::new() };
        let last = bench
            .store()
            .append(&bench.tenant, NOON, &id, crate::Expected::Any, vec![decision.into()])
            .await?
            .last;
        sent.push(bench.send(call(&id, round, last + 1), &format!("{round}")).await?);
    }
    same!(bench.store().sent(&bench.tenant, &id).await?, sent);
    Ok(())
}

async fn a_request_that_held_what_was_erased_is_emptied_and_others_stay(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let store = bench.store();
    let mut sent = Vec::new();
    let shared = "shared by all ".repeat(100);
    for round in 0..30 {
        bench.say(&id, vec![user(&format!("question {round}"))]).await?;
        sent.push(bench.send(call(&id, round, round + 1), &shared).await?);
    }
    // A row that says less than its request holds is not believed.
    let sly = bench.send(Sent { upto: 30, ..call(&id, 40, 30) }, &shared).await?;
    let less = Sent { request: None, upto: 0, ..sly.clone() };
    store.write(&bench.tenant, NOON, |tx| _ = tx.sent(less)).await?;
    let count = store.erase(&bench.tenant, &id, Erase::Positions(vec![(20, 20)]), "asked", NOON).await?;
    same!((count.erased, count.sent), (1, 11));
    let found = store.sent(&bench.tenant, &id).await?;
    for (found, wanted) in found.iter().zip(&sent) {
        let kept = wanted.upto <= 20;
        same!(found.request.as_ref(), wanted.request.as_ref().filter(|_| kept));
    }
    same!(bench.opened(&sly.id).await?.request, None);
    // What is left of the others can be used and let go of again.
    bench.say(&id, vec![user("afterwards")]).await?;
    let after = bench.send(call(&id, 50, 31), &shared).await?;
    same!(bench.opened(&after.id).await?, after);
    store.erase(&bench.tenant, &id, Erase::All, "asked", NOON).await?;
    ensure!(store.sent(&bench.tenant, &id).await?.iter().all(|call| call.request.is_none()), "still there");
    Ok(())
}

async fn a_request_in_a_fork_is_emptied_when_its_parent_is_erased(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("one"), assistant("two")]).await?;
    let store = bench.store();
    let fork = store.fork(&bench.tenant, &id, 2, ConversationId::new(NOON), NOON).await?.id;
    bench.say(&fork, vec![user("three")]).await?;
    let early = bench.send(call(&fork, 1, 1), "around").await?;
    let late = bench.send(call(&fork, 2, 3), "around").await?;
    let count = store.erase(&bench.tenant, &id, Erase::Positions(vec![(1, 1)]), "asked", NOON).await?;
    same!((count.erased, count.sent, count.forks), (1, 1, 1));
    same!(bench.opened(&early.id).await?, early);
    same!(bench.opened(&late.id).await?.request, None);
    Ok(())
}

async fn a_request_cannot_copy_what_is_not_there(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let entry = user("one");
    let body = format!("{{\"messages\":[{}]}}", entry.origin.raw);
    let template = || BodyTemplate::of(Wire::OpenaiChat, body.as_bytes(), [(0, &entry)]);
    let row = call(&id, 1, 1);
    let store = bench.store();
    let refused = store.write(&bench.tenant, NOON, |tx| _ = tx.sent_as(row.clone(), template())).await;
    same!(kind(refused), Some(ErrorKind::BadArgument));
    same!(store.sent(&bench.tenant, &id).await?, []);
    // It may be appended in the same commit.
    let said = crate::NewEntry::evaluation([entry.clone()], NOON);
    store
        .write(&bench.tenant, NOON, |tx| {
            tx.append(&id, crate::Expected::Any, said).sent_as(row.clone(), template());
        })
        .await?;
    same!(bench.opened(&row.id).await?.request, Some(body.into_bytes()));
    Ok(())
}

async fn the_newest_calls_of_a_model_are_those_of_the_tenant(bench: Bench) -> CaseResult {
    let (one, two) = (bench.begin().await?, bench.begin().await?);
    bench.say(&one, vec![user("one")]).await?;
    let model = |row: Sent, model: &str| Sent { model: model.into(), ..row };
    let rows = [
        model(call(&one, 1, 0), "m"),
        model(call(&two, 2, 0), "m"),
        model(call(&one, 3, 0), "other"),
        model(call(&one, 4, 0), "m"),
    ];
    let store = bench.store();
    store.write(&bench.tenant, NOON, |tx| rows.iter().for_each(|row| _ = tx.sent(row.clone()))).await?;
    bench.send(model(call(&one, 5, 1), "m"), "around").await?;
    let neighbour =
        Bench { tenant: crate::Tenant::parse(&format!("next to {}", bench.tenant))?, ..bench.clone() };
    let theirs = neighbour.begin().await?;
    store.write(&neighbour.tenant, NOON, |tx| _ = tx.sent(model(call(&theirs, 9, 0), "m"))).await?;
    let recent = async |model, limit| -> Result<Vec<i64>, Wrong> {
        let found = store.recent_calls(&bench.tenant, model, limit).await?;
        ensure!(found.iter().all(|call| call.request.is_none()), "a list carries no bodies");
        ensure!(
            found.iter().all(|call| call.factor == Some(1.1) && call.tokens.is_some()),
            "with its numbers"
        );
        Ok(found.iter().map(|call| call.started_at.0 - NOON.0).collect())
    };
    same!(recent("m", 9).await?, [5, 4, 2, 1]);
    same!(recent("m", 2).await?, [5, 4]);
    same!(recent("other", 9).await?, [3]);
    same!(recent("M", 9).await?, Vec::<i64>::new());
    same!(recent("m", 0).await?, Vec::<i64>::new());
    Ok(())
}

async fn calls_of_processes_that_are_gone_are_lost(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    bench.say(&id, vec![user("one")]).await?;
    let name = |which: &str| format!("{which} {}", bench.tenant);
    let by = |number, holder: Option<String>, status: &str| Sent {
        holder,
        status: status.into(),
        ..call(&id, number, 0)
    };
    let rows = [
        by(1, Some(name("gone")), "sent"),
        by(2, Some(name("gone")), "done"),
        by(3, Some(name("alive")), "sent"),
        by(4, None, "sent"),
        by(5, Some(name("done")), "done"),
    ];
    let store = bench.store();
    store.write(&bench.tenant, NOON, |tx| rows.iter().for_each(|row| _ = tx.sent(row.clone()))).await?;
    let kept = bench.send(by(6, Some(name("gone")), "sent"), &"around ".repeat(99)).await?;
    let ours = async || -> Result<Vec<String>, Wrong> {
        let holders = store.call_holders().await?;
        let ours: Vec<&String> =
            holders.iter().filter(|holder| holder.ends_with(bench.tenant.as_str())).collect();
        Ok(ours.into_iter().filter_map(|holder| holder.split(' ').next()).map(String::from).collect())
    };
    same!(ours().await?, ["alive", "gone"]);
    let later = Time(NOON.0 + 1_000);
    same!(store.lose_calls(vec![name("gone"), name("unknown")], Time(0), later).await?, 2);
    same!(ours().await?, ["alive"]);
    same!(store.lose_calls(vec![name("gone")], Time(0), later).await?, 0);
    let after = |row: &Sent, lost: bool| {
        let row = row.clone();
        if lost { Sent { status: "lost".into(), ended_at: Some(later), ..row } } else { row }
    };
    for (row, lost) in rows.iter().zip([true, false, false, false, false]) {
        same!(bench.opened(&row.id).await?, after(row, lost));
    }
    same!(bench.opened(&kept.id).await?, after(&kept, true));
    Ok(())
}

async fn calls_that_began_too_long_ago_are_lost(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    // Long before anything else in the store.
    let at = |started_at: i64, status: &str| Sent {
        started_at: Time(started_at),
        status: status.into(),
        holder: None,
        ..call(&id, 0, 0)
    };
    let rows = [at(10, "sent"), at(20, "sent"), at(10, "done")];
    let store = bench.store();
    store.write(&bench.tenant, NOON, |tx| rows.iter().for_each(|row| _ = tx.sent(row.clone()))).await?;
    same!(store.lose_calls(Vec::new(), Time(20), NOON).await?, 1);
    let statuses = [
        bench.opened(&rows[0].id).await?.status,
        bench.opened(&rows[1].id).await?.status,
        bench.opened(&rows[2].id).await?.status,
    ];
    same!(statuses, [CallStatus::Lost, CallStatus::Sent, CallStatus::failed("done")]);
    same!(store.lose_calls(Vec::new(), Time(21), NOON).await?, 1);
    Ok(())
}
