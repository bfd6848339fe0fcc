//! Runs and what belongs to them, leases, aliases, keys.

use scrollback_core::Time;
use uuid::Uuid;

use super::{Bench, CaseResult, NOON, ensure, kind, same, suite, user};
use crate::engine::commit::Leased;
use crate::entry::{Expected, NewEntry};
use crate::error::ErrorKind;
use crate::id::{ConversationId, new_evaluation};
use crate::run::{Alias, Evaluation, Event, Key, KeyLimits, KeyUse, Lease, Run, Sent, Span, Step};
use crate::status::{EvaluationStatus, RunKind, RunStatus, StepStatus, StepType};
use crate::store::{CallListing, RecordsExt, RunListing};

suite![
    runs_steps_spans_and_events_are_written_with_the_entries,
    large_values_come_back_and_go_when_nothing_names_them,
    evaluations_follow_what_is_appended,
    a_lease_keeps_others_out_until_it_ends,
    aliases_and_keys_are_found_again,
    calls_are_listed_newest_first_without_bodies_and_opened_with_them,
    runs_are_listed_in_pages,
    uses_of_a_key_add_up_until_their_time_is_over,
];

fn run(bench: &Bench, id: &str) -> Run {
    Run {
        id: id.into(),
        tenant: bench.tenant.clone(),
        kind: RunKind::Flow,
        name: "test".into(),
        hash: "00".into(),
        text: "steps: []".into(),
        settings: Some("{\"b\": 1.0, \"a\": 2}".into()),
        status: RunStatus::Running,
        conversation: None,
        input: Some("in".into()),
        output: None,
        error: None,
        usage: None,
        lease: None,
        started_at: NOON,
        ended_at: None,
    }
}

fn step(run: &str, key: &str, status: StepStatus) -> Step {
    Step {
        run: run.into(),
        key: key.into(),
        kind: StepType::Step,
        status,
        attempt: 1,
        input: None,
        output: Some("\"x\"".into()),
        evaluation: Some(new_evaluation()),
        usage: None,
        started_at: Some(NOON),
        ended_at: None,
        error: None,
    }
}

async fn runs_steps_spans_and_events_are_written_with_the_entries(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let name = format!("run{}", &new_evaluation().simple().to_string()[..12]);
    let store = bench.store();
    let (run, done) = (run(&bench, &name), step(&name, "b", StepStatus::Done));
    let span = Span {
        id: "s1".into(),
        run: name.clone(),
        parent: None,
        name: "invoke_agent".into(),
        key: Some("b".into()),
        status: None,
        started_at: NOON,
        ended_at: None,
        attributes: Some("{}".into()),
    };
    let event = |sequence, kind: &str| Event {
        run: name.clone(),
        sequence,
        at: NOON,
        key: None,
        kind: kind.into(),
        data: None,
    };
    let committed = store
        .write(&bench.tenant, NOON, |tx| {
            tx.run(run.clone())
                .step(done.clone())
                .step(step(&name, "a", StepStatus::Running))
                .span(span.clone());
            tx.event(event(0, "run.started")).event(event(1, "step.started"));
            tx.append(&id, Expected::At(0), NewEntry::evaluation([user("in")], NOON));
        })
        .await?;
    same!(committed.appended.len(), 1);
    same!(store.runs(&bench.tenant, &name[..6], 9).await?, [run.clone()]);
    let steps = store.steps(&bench.tenant, &name).await?;
    same!(steps.iter().map(|step| step.key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    same!(steps.get(1), Some(&done));
    same!(store.spans(&bench.tenant, &name).await?, [span]);
    same!(store.events(&bench.tenant, &name, 1).await?, [event(1, "step.started")]);
    let refused = store
        .write(&bench.tenant, NOON, |tx| {
            tx.step(step(&name, "a", StepStatus::Done));
            tx.append(&id, Expected::At(0), NewEntry::evaluation([user("late")], NOON));
        })
        .await;
    same!(kind(refused), Some(ErrorKind::Conflict));
    let steps = store.steps(&bench.tenant, &name).await?;
    same!(steps.first().map(|step| step.status), Some(StepStatus::Running));
    let other = crate::Tenant::parse("somebody else")?;
    same!(store.runs(&other, &name, 9).await?.len(), 0);
    same!(kind(store.steps(&other, &name).await), Some(ErrorKind::NotFound));
    Ok(())
}

async fn large_values_come_back_and_go_when_nothing_names_them(bench: Bench) -> CaseResult {
    let (store, name) = (bench.store(), format!("run{}", new_evaluation().simple()));
    let long = |letter: &str| Some(letter.repeat(5_000));
    let first = Run { input: long("a"), output: Some("blob:no such".into()), ..run(&bench, &name) };
    let made = Step { input: long("b"), ..step(&name, "k", StepStatus::Running) };
    store.write(&bench.tenant, NOON, |tx| _ = tx.run(first.clone()).step(made.clone())).await?;
    same!(store.runs(&bench.tenant, &name, 1).await?, [first.clone()]);
    same!(store.steps(&bench.tenant, &name).await?, [made.clone()]);
    let (second, done) = (Run { input: long("c"), ..first }, Step { input: None, output: long("a"), ..made });
    store.write(&bench.tenant, NOON, |tx| _ = tx.run(second.clone()).step(done.clone())).await?;
    same!(store.runs(&bench.tenant, &name, 1).await?, [second]);
    same!(store.steps(&bench.tenant, &name).await?, [done]);
    Ok(())
}

fn begun(id: Uuid, conversation: &ConversationId) -> Evaluation {
    Evaluation {
        id,
        conversation: conversation.clone(),
        first_position: None,
        last_position: None,
        count: 0,
        status: EvaluationStatus::Running,
        prompt_identity: None,
        lease: None,
        started_at: NOON,
        ended_at: None,
    }
}

async fn evaluations_follow_what_is_appended(bench: Bench) -> CaseResult {
    let (store, id, evaluation) = (bench.store(), bench.begin().await?, new_evaluation());
    let begun = begun(evaluation, &id);
    store.write(&bench.tenant, NOON, |tx| _ = tx.evaluation(begun.clone())).await?;
    for sequence in [0, 2] {
        let said = NewEntry::continued([user("a"), user("b")], evaluation, sequence, NOON);
        store.append(&bench.tenant, NOON, &id, Expected::Any, said).await?;
    }
    let ended = Evaluation { status: EvaluationStatus::Done, ended_at: Some(NOON), ..begun };
    store.write(&bench.tenant, NOON, |tx| _ = tx.evaluation(ended)).await?;
    let found = store.evaluation(&bench.tenant, evaluation).await?;
    let told = found.map(|found| (found.first_position, found.last_position, found.count, found.status));
    same!(told, Some((Some(0), Some(3), 4, EvaluationStatus::Done)));
    Ok(())
}

async fn a_lease_keeps_others_out_until_it_ends(bench: Bench) -> CaseResult {
    let name = format!("run{}", new_evaluation().simple());
    let store = bench.store();
    let (id, evaluation) = (bench.begin().await?, new_evaluation());
    store
        .write(&bench.tenant, NOON, |tx| {
            tx.run(run(&bench, &name));
            tx.evaluation(begun(evaluation, &id));
        })
        .await?;
    for what in [Leased::Run(name.clone()), Leased::Evaluation(evaluation)] {
        let lease = |holder: &str, now: i64| {
            let lease = Lease { holder: holder.into(), until: Time(NOON.0 + now + 30_000) };
            store.lease(&bench.tenant, what.clone(), lease, Vec::new(), Time(NOON.0 + now))
        };
        lease("one", 0).await?;
        same!(kind(lease("two", 29_999).await), Some(ErrorKind::Busy));
        lease("one", 20_000).await?;
        same!(kind(lease("two", 30_000).await), Some(ErrorKind::Busy));
        lease("two", 50_000).await?;
        let dead = Lease { holder: "three".into(), until: Time(NOON.0 + 90_000) };
        store.lease(&bench.tenant, what.clone(), dead, vec!["two".into()], Time(NOON.0 + 50_001)).await?;
        let refused = store.release(&bench.tenant, what.clone(), "two", Time(NOON.0 + 50_002)).await;
        same!(kind(refused), Some(ErrorKind::Busy));
        store.release(&bench.tenant, what.clone(), "three", Time(NOON.0 + 50_002)).await?;
        lease("four", 50_003).await?;
    }
    // Writing the run again does not take the lease away.
    store.write(&bench.tenant, NOON, |tx| _ = tx.run(run(&bench, &name))).await?;
    let runs = store.runs(&bench.tenant, &name, 1).await?;
    ensure!(runs.iter().all(|run| run.lease.is_some()), "the lease is gone");
    let found = store.evaluations(&bench.tenant, &id).await?;
    same!(found.len(), 1);
    Ok(())
}

async fn aliases_and_keys_are_found_again(bench: Bench) -> CaseResult {
    let id = bench.begin().await?;
    let store = bench.store();
    let alias = Alias {
        tenant: bench.tenant.clone(),
        source: "codex".into(),
        source_id: "session/'1'".into(),
        conversation: id,
        position: Some(3),
    };
    store.write(&bench.tenant, NOON, |tx| _ = tx.alias(alias.clone())).await?;
    same!(store.alias(&bench.tenant, "codex", "session/'1'").await?, Some(alias));
    same!(store.alias(&bench.tenant, "codex", "other").await?, None);
    let other = crate::Tenant::parse("somebody else")?;
    same!(store.alias(&other, "codex", "session/'1'").await?, None);
    let key = Key {
        name: format!("key {}", new_evaluation()),
        tenant: bench.tenant.clone(),
        scope: "read".into(),
        hash: vec![0, 1, 255],
        created_at: NOON,
        revoked_at: None,
        limits: KeyLimits { tokens_per_minute: Some(9), ..KeyLimits::default() },
    };
    store.put_key(key.clone()).await?;
    ensure!(store.keys().await?.contains(&key), "the key is gone");
    Ok(())
}

fn sent(conversation: &ConversationId, number: i64) -> Sent {
    Sent {
        id: new_evaluation().to_string(),
        conversation: conversation.clone(),
        run: None,
        step: None,
        evaluation: None,
        upto: 0,
        managers: "[]".into(),
        wire: "openai-chat".into(),
        model: "offline:echo".into(),
        epoch: None,
        prefix_hash: None,
        request: Some(format!("request {number}").into_bytes()),
        response: Some(b"response".to_vec()),
        status: "done".into(),
        attempt: 1,
        usage: None,
        started_at: Time(NOON.0 + number),
        ended_at: None,
        tokens: None,
        factor: None,
        holder: None,
    }
}

async fn calls_are_listed_newest_first_without_bodies_and_opened_with_them(bench: Bench) -> CaseResult {
    let store = bench.store();
    let (one, two) = (bench.begin().await?, bench.begin().await?);
    // Two of the same moment: the cursor must tell them apart.
    let rows = [sent(&one, 1), sent(&two, 2), sent(&one, 2), sent(&one, 3)];
    store.write(&bench.tenant, NOON, |tx| rows.iter().for_each(|row| _ = tx.sent(row.clone()))).await?;
    let page = |conversation: Option<&ConversationId>, after| CallListing {
        conversation: conversation.cloned(),
        limit: 2,
        after,
    };
    let first = store.calls(&bench.tenant, page(Some(&one), None)).await?;
    let told: Vec<i64> = first.calls.iter().map(|call| call.started_at.0 - NOON.0).collect();
    same!(told, [3, 2]);
    ensure!(first.calls.iter().all(|call| call.request.is_none()), "a list carries no bodies");
    let second = store.calls(&bench.tenant, page(Some(&one), first.next)).await?;
    same!((second.calls.len(), second.next), (1, None));
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.calls(&bench.tenant, page(None, after)).await?;
        seen.extend(page.calls.into_iter().map(|call| call.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    for row in &rows {
        same!(seen.iter().filter(|id| **id == row.id).count(), 1);
        same!(store.call(&bench.tenant, &row.id).await?, row.clone());
    }
    let other = crate::Tenant::parse("somebody else")?;
    same!(store.calls(&other, page(None, None)).await?.calls.len(), 0);
    same!(kind(store.calls(&other, page(Some(&one), None)).await), Some(ErrorKind::NotFound));
    same!(kind(store.call(&other, &rows[0].id).await), Some(ErrorKind::NotFound));
    Ok(())
}

async fn runs_are_listed_in_pages(bench: Bench) -> CaseResult {
    let store = bench.store();
    let names: Vec<String> = (0..3).map(|number| format!("run_{number}_{}", new_evaluation())).collect();
    let paused = |name: &String| Run { status: RunStatus::Paused, ..run(&bench, name) };
    store.write(&bench.tenant, NOON, |tx| names.iter().for_each(|name| _ = tx.run(paused(name)))).await?;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let what = RunListing { status: Some(RunStatus::Paused), limit: 2, after };
        let page = store.run_page(&bench.tenant, what).await?;
        ensure!(page.runs.len() <= 2, "a page has its size");
        seen.extend(page.runs.into_iter().map(|run| run.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    for name in &names {
        same!(seen.iter().filter(|id| *id == name).count(), 1);
    }
    let done = RunListing { status: Some(RunStatus::Done), limit: 1_000, after: None };
    let done = store.run_page(&bench.tenant, done).await?;
    ensure!(!done.runs.iter().any(|run| names.contains(&run.id)), "only those that stand so");
    Ok(())
}

async fn uses_of_a_key_add_up_until_their_time_is_over(bench: Bench) -> CaseResult {
    let store = bench.store();
    let key = format!("key {}", new_evaluation());
    let used = |began: Time, requests: u64, tokens: u64| KeyUse {
        key: key.clone(),
        window: "minute".into(),
        began,
        requests,
        tokens,
        microdollars: 7,
    };
    let later = Time(NOON.0 + 60_000);
    same!(store.charge(vec![used(NOON, 1, 0)]).await?, [used(NOON, 1, 0)]);
    let both = store.charge(vec![used(NOON, 1, 10)]).await?;
    same!(both, [KeyUse { microdollars: 14, ..used(NOON, 2, 10) }]);
    same!(store.charge(vec![used(later, 1, 0)]).await?, [used(later, 1, 0)]);
    let behind = store.charge(vec![used(NOON, 1, 0)]).await?;
    same!(behind.clone(), [KeyUse { microdollars: 14, ..used(later, 2, 0) }]);
    let mut all = store.key_uses().await?;
    all.retain(|one| one.key == key);
    same!(all, behind);
    Ok(())
}
