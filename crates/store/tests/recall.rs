//! Recall on real transcripts, between tenants, and across everything that may happen between placing a handle and reading it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rusqlite::Connection;
use scrollback_core::recall::{Handle, RecallTool, Tail, exact_text};
use scrollback_core::replay::{Candidate, Lost, Needs, simulate};
use scrollback_core::{CurationContext, Entry, Slot, Time, manager, transcript};
use scrollback_store::recall::{Deadline, Here, answer};
use scrollback_store::transfer::{ExportReader, LinkCheck, lines};
use scrollback_store::{
    ConversationId, Expected, NewConversation, NewEntry, Postgres, RecordsExt, Sqlite, Store, Tenant,
};
use serde_json::{Value, json};

use crate::support::{Dice, Server, before_recall, block_on};

/// Needles looked for in one conversation; long ones lose thousands.
const NEEDLES: usize = 12;
/// Longer values are pasted texts, which are not looked for by two words near them.
const LONGEST: usize = 200;
/// Largest transcript that is read, in bytes.
const LARGEST: u64 = 3_000_000;

async fn ask(store: &dyn Store, tenant: &Tenant, here: &Here, tool: RecallTool, arguments: Value) -> String {
    answer(store, tenant, here, tool, &arguments, &Deadline::default()).await.text
}

/// The shared transcripts, which are other people's and not part of this repository.
fn transcripts() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("SCROLLBACK_TEST_DATA").map_or(beside, PathBuf::from);
    let (mut found, mut open) = (Vec::new(), vec![folder]);
    while let Some(next) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() {
                open.push(path);
            } else if path.metadata().is_ok_and(|file| file.len() <= LARGEST) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The words of a text with where they stand, as a person would type them.
fn typed_words(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, letter) in text.char_indices().chain([(text.len(), ' ')]) {
        if letter.is_alphanumeric() || letter == '_' {
            start.get_or_insert(at);
        } else if let Some(from) = start.take() {
            found.push((from, text.get(from..at).unwrap_or_default()));
        }
    }
    found.retain(|(_, word)| {
        (4..=40).contains(&word.chars().count()) && word.chars().any(char::is_alphabetic)
    });
    found
}

/// The words nearest to a value that are no part of it, each once.
fn near_words(text: &str, value: &str) -> Vec<String> {
    let Some(at) = text.find(value) else { return Vec::new() };
    let inside = at..at + value.len();
    let outside = |from: usize, word: &str| from + word.len() <= inside.start || from >= inside.end;
    let mut near: Vec<(usize, &str)> = typed_words(text)
        .into_iter()
        .filter(|(from, word)| outside(*from, word) && !value.contains(word))
        .map(|(from, word)| {
            let distance =
                if from < inside.start { inside.start - from - word.len() } else { from - inside.end };
            (distance, word)
        })
        .collect();
    near.sort_by_key(|(distance, _)| *distance);
    let mut words: Vec<String> = Vec::new();
    for (_, word) in near.into_iter().take(40) {
        if !words.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            words.push(word.into());
        }
    }
    words.truncate(8);
    words
}

/// The two of them that say most: the longest ones.
fn two_words(near: &[String]) -> Option<String> {
    let mut words: Vec<&String> = near.iter().collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    match words.as_slice() {
        [first, second, ..] => Some(format!("{first} {second}")),
        _ => None,
    }
}

/// What became of the needles of some conversations.
#[derive(Default)]
struct Score {
    needles: usize,
    /// Got back in at most two calls.
    found: usize,
    /// Queries, and those where the entry with the value was among the first five hits.
    queries: usize,
    in_five: usize,
    missed: Vec<String>,
    far: Vec<String>,
}

/// A conversation replayed into a store up to each needle, and each needle looked for.
#[allow(clippy::similar_names, reason = "a store and a score")]
async fn needles(slots: &[Slot], name: &str, score: &mut Score) {
    let manager = manager::parse("sticky(token_budget(2500))").unwrap();
    let candidate = Candidate { lists_lost: true, ..Candidate::new(&manager) };
    let (needs, wanted) = (Needs::of(slots), AtomicBool::new(true));
    let tally = simulate(slots, &needs, &candidate, &CurationContext::default(), &|| 0.0, &wanted);
    let mut lost: Vec<Lost> = tally.lost;
    lost.retain(|lost| lost.value.len() <= LONGEST && lost.value.chars().count() >= 4);
    let step = lost.len().div_ceil(NEEDLES).max(1);
    let lost: Vec<Lost> = lost.into_iter().step_by(step).collect();
    let file = Sqlite::in_memory(Time(0)).unwrap();
    let (store, tenant): (&dyn Store, _) = (&file, Tenant::default());
    let id = ConversationId::new(Time(1));
    store.write(&tenant, Time(1), |tx| _ = tx.create(NewConversation::new(id.clone()))).await.unwrap();
    let here = Here::of(&store.conversation(&tenant, &id).await.unwrap(), "a test");
    let mut texts: Vec<String> = Vec::new();
    for lost in lost {
        // The agent knows what was said before the call that needed the value, and nothing later.
        let news = slots.get(texts.len()..lost.call as usize).unwrap_or_default();
        let said = news.iter().map(|slot| match slot {
            Slot::Message(entry) => Entry::clone(entry),
            _ => Entry::user("a decision stood here"),
        });
        let said = NewEntry::evaluation(said.collect::<Vec<_>>(), Time(2));
        texts.extend(news.iter().map(exact_text));
        if !said.is_empty() {
            store.append(&tenant, Time(2), &id, Expected::Any, said).await.unwrap();
        }
        // Arguments of calls are JSON: the letter of an escape is no part of the word behind it.
        let plain = |text: &String| text.replace("\\n", "  ").replace("\\t", "  ").replace("\\r", "  ");
        let text = texts.get(lost.stood_at as usize).map(plain);
        let near = text.map(|text| near_words(&text, &lost.value)).unwrap_or_default();
        let Some(two) = two_words(&near) else { continue };
        score.needles += 1;
        let holds = |handle: &Handle| {
            let (position, _) = handle.positions().unwrap();
            texts.get(position as usize).is_some_and(|text| text.contains(&lost.value))
        };
        let found = ask(store, &tenant, &here, RecallTool::Search, json!({ "query": two, "limit": 5 })).await;
        score.queries += 1;
        if handles(&found).iter().any(holds) {
            score.in_five += 1;
        } else {
            score.far.push(format!("{name}: {two:?} for {:?} at {}", lost.value, lost.stood_at));
        }
        // The agent remembers what stood around the value: it searches for that, and reads around it in the first hit.
        let query = near.get(..5).unwrap_or(&near).join(" ");
        let found =
            ask(store, &tenant, &here, RecallTool::Search, json!({ "query": query, "limit": 20 })).await;
        let mut got = found.contains(&lost.value);
        if let (false, Some(first)) = (got, handles(&found).first()) {
            let around = json!({ "handle": first.to_string(), "pattern": near[0], "context": 10 });
            got = ask(store, &tenant, &here, RecallTool::Read, around).await.contains(&lost.value);
        }
        score.found += usize::from(got);
        if !got {
            score.missed.push(format!("{name}: {query:?} for {:?} at {}", lost.value, lost.stood_at));
        }
    }
}

/// The handles of an answer, best first.
fn handles(found: &str) -> Vec<Handle> {
    found.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
}

/// Every conversation of the shared transcripts.
fn conversations() -> Vec<(String, Vec<Slot>)> {
    let mut found = Vec::new();
    for path in transcripts() {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let Ok(read) = transcript::read(None, &text) else { continue };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for conversation in read.conversations {
            if let Ok((record, _)) = conversation.into_record(None) {
                found.push((name.clone(), record.slots().to_vec()));
            }
        }
    }
    found
}

#[test]
fn values_lost_at_a_cut_are_got_back_in_two_calls_and_their_entries_are_among_the_first_five_hits() {
    let all = conversations();
    if all.is_empty() {
        eprintln!("notice: the shared transcripts are not here; the needle test was left out");
        return;
    }
    let mut score = Score::default();
    block_on(async {
        for (name, slots) in &all {
            needles(slots, name, &mut score).await;
        }
    });
    let percent = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
    let (found, five) = (percent(score.found, score.needles), percent(score.in_five, score.queries));
    eprintln!(
        "recall: {} conversations, {} needles, {found:.1} % got back in two calls; {five:.1} % of {} queries have the \
         entry among the first five hits",
        all.len(),
        score.needles,
        score.queries
    );
    for missed in score.missed.iter().take(12) {
        eprintln!("  missed {missed}");
    }
    for far in score.far.iter().take(12) {
        eprintln!("  far {far}");
    }
    assert!(score.needles > 100, "there are needles: {}", score.needles);
    assert!(found >= 98.0, "{found:.1} % of the needles were found");
    assert!(five >= 95.0, "{five:.1} % of the queries have the entry among the first five hits");
}

#[test]
fn ten_thousand_generated_queries_cross_no_wall_between_tenants() {
    let store = Sqlite::in_memory(Time(0)).unwrap();
    let store: &dyn Store = &store;
    let tenants: Vec<Tenant> =
        ["ash", "birch", "cedar"].iter().map(|name| Tenant::parse(name).unwrap()).collect();
    let mut dice = Dice(0x5eed_cafe);
    block_on(async {
        let mut ids: Vec<Vec<ConversationId>> = Vec::new();
        for (number, tenant) in tenants.iter().enumerate() {
            let mut own = Vec::new();
            for conversation in 0..6_i64 {
                let id = ConversationId::new(Time(conversation));
                let project = Some("/srv/shared".to_string());
                let new = NewConversation { project, ..NewConversation::new(id.clone()) };
                store.write(tenant, Time(1), |tx| _ = tx.create(new)).await.unwrap();
                let said: Vec<Entry> = (0..12)
                    .map(|entry| {
                        Entry::user(&format!(
                            "common words here mark-{} number {entry} {conversation}",
                            tenants[number]
                        ))
                    })
                    .collect();
                store
                    .append(tenant, Time(1), &id, Expected::Any, NewEntry::evaluation(said, Time(1)))
                    .await
                    .unwrap();
                own.push(id);
            }
            ids.push(own);
        }
        let mut leaks = 0;
        for round in 0..10_000 {
            let (me, other) = (dice.roll(3), (dice.roll(2) + 1 + round) % 3);
            let other = if other == me { (other + 1) % 3 } else { other };
            let target = &ids[other][dice.roll(6)];
            let tail = if dice.roll(2) == 0 {
                target.as_str().to_lowercase()
            } else {
                Tail::of(target.as_str()).unwrap().to_string()
            };
            let handle = format!("sb:{tail}#{}", dice.roll(14));
            // A caller may even claim to be in a session of another tenant.
            let here = match dice.roll(3) {
                0 => Here::nowhere("a test"),
                1 => Here::of(&store.conversation(&tenants[me], &ids[me][dice.roll(6)]).await.unwrap(), ""),
                _ => Here::of(&store.conversation(&tenants[other], target).await.unwrap(), ""),
            };
            let word = [
                "common",
                "mark",
                "\"words here\"",
                "num*",
                "/mark-[a-z]+/",
                "/number [0-9]/i",
                "common -zebra",
            ][dice.roll(7)];
            let scope = ["session", "conversation", "project", "all"][dice.roll(4)];
            let (tool, arguments) = match dice.roll(6) {
                0 => (RecallTool::Read, json!({ "handle": handle })),
                1 => (RecallTool::Around, json!({ "handle": handle, "before": dice.roll(20) })),
                2 => (RecallTool::Outline, json!({ "handle": handle })),
                3 => (RecallTool::Outline, json!({})),
                _ => (RecallTool::Search, json!({ "query": word, "scope": scope, "limit": 20 })),
            };
            let text = ask(store, &tenants[me], &here, tool, arguments).await;
            let foreign = tenants
                .iter()
                .enumerate()
                .any(|(number, tenant)| number != me && text.contains(&format!("mark-{tenant}")));
            leaks += usize::from(foreign);
        }
        assert_eq!(leaks, 0, "answers with another tenant's words");
    });
}

/// A conversation with a value in a result, and the handle of that place.
async fn placed(store: &dyn Store, tenant: &Tenant) -> (ConversationId, String) {
    let id = ConversationId::new(Time(7));
    let said = vec![
        Entry::user("Which port?"),
        Entry::calling(None, &[("c", "read_file", "{}")]),
        Entry::result("c", "port = 48123"),
    ];
    store
        .write(tenant, Time(7), |tx| {
            tx.create(NewConversation::new(id.clone())).append(
                &id,
                Expected::At(0),
                NewEntry::evaluation(said, Time(7)),
            );
        })
        .await
        .unwrap();
    let handle = Handle::at(Tail::of(id.as_str()).unwrap(), 2).to_string();
    (id, handle)
}

async fn reads(store: &dyn Store, tenant: &Tenant, handle: &str) -> String {
    ask(store, tenant, &Here::nowhere("a test"), RecallTool::Read, json!({ "handle": handle })).await
}

#[test]
fn a_handle_still_answers_after_a_restart_an_upgrade_and_a_move_to_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let tenant = Tenant::default();
    let (id, handle) = block_on(async {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        placed(&store, &tenant).await
    });
    // The file as the version before handles wrote it, opened again.
    let older = Connection::open(&path).unwrap();
    older.execute_batch(&before_recall("")).unwrap();
    older
        .execute_batch("update meta set value = '6' where key = 'schema_version'; pragma user_version = 6;")
        .unwrap();
    drop(older);
    block_on(async {
        let store = Sqlite::open(&path, Time(0)).unwrap();
        let text = reads(&store, &tenant, &handle).await;
        assert!(text.contains("port = 48123") && text.contains("result of read_file"), "{text}");
        let exported = lines(&store, &tenant, &id).await.unwrap();
        let Some(server) = Server::start() else { return };
        let moved = Postgres::open(&server.url(), Time(0)).await.unwrap();
        let mut all = exported.iter();
        let mut reader = ExportReader::begin(all.next().unwrap(), Some(&tenant)).unwrap();
        all.for_each(|line| reader.place(line).unwrap());
        reader.finish(&moved, LinkCheck::Links).await.unwrap();
        assert_eq!(reads(&moved, &tenant, &handle).await, text, "the same answer from PostgreSQL");
    });
}
