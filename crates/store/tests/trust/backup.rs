//! A backup that follows a store, with processes killed at any moment: what is restored has everything that was acknowledged before it was last
//! saved.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Dice, block_on, victim};
use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    ErrorKind, Expected, Follow, Listing, NewEntry, Recipient, RecordsExt, Saved, Sqlite, Store, Tenant, hex,
    restore,
};

fn say(path: &Path, text: &str) {
    let store = Sqlite::open(path, Time(0)).unwrap();
    let said = NewEntry::evaluation([Entry::text(Role::User, text)], Time(0));
    let anna = Recipient::parse("anna").unwrap();
    let store: &dyn Store = &store;
    block_on(store.append_for(&Tenant::default(), Time(0), &anna, Expected::Any, said)).unwrap();
}

/// The link of every place of a store that verifies.
fn links(path: &Path) -> HashMap<(String, u64), String> {
    let store = Sqlite::open(path, Time(0)).unwrap();
    let store: &dyn Store = &store;
    block_on(async {
        assert_eq!(store.examine().await.unwrap().problems, []);
        let page = store.list(None, Listing { limit: 1_000, ..Listing::default() }).await.unwrap();
        let mut links = HashMap::new();
        for (row, _) in &page.conversations {
            assert_eq!(store.verify(&row.tenant, &row.id).await.unwrap().problems, []);
            for placed in store.entries(&row.tenant, &row.id, 0, u64::MAX).await.unwrap() {
                links.insert((row.id.to_string(), placed.position), hex(&placed.link));
            }
        }
        links
    })
}

#[test]
fn a_backup_restores_the_store_as_it_was_at_each_moment() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("store.db"), folder.path().join("backup"));
    say(&path, "before");
    let mut follow = Follow::start(&path, &backup).unwrap();
    assert!(matches!(follow.step(Time(1_000)), Ok(Saved::Snapshot(_))));
    assert_eq!(follow.step(Time(1_500)), Ok(Saved::Nothing));
    for round in 2..40_i64 {
        say(&path, &format!("round {round} {}", "words ".repeat(500)));
        assert!(matches!(follow.step(Time(round * 1_000)), Ok(Saved::Segment(_))), "round {round}");
    }
    for (until, wanted) in [(1_000, 1), (1_999, 1), (2_000, 2), (20_500, 20), (39_000, 39), (99_000, 39)] {
        let to = folder.path().join(format!("restored-{until}.db"));
        restore(&backup, &to, Some(Time(until))).unwrap();
        assert_eq!(links(&to).len(), wanted, "until {until}");
    }
    let to = folder.path().join("newest.db");
    assert_eq!(restore(&backup, &to, None).unwrap().segments, 38);
    assert_eq!(links(&to), links(&path));
    assert_eq!(restore(&backup, &to, None).unwrap_err().kind(), ErrorKind::Exists, "no file is written over");
    let early = restore(&backup, &folder.path().join("early.db"), Some(Time(999))).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::NotFound);
}

#[test]
fn a_damaged_backup_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("store.db"), folder.path().join("backup"));
    say(&path, "before");
    let mut follow = Follow::start(&path, &backup).unwrap();
    follow.step(Time(1)).unwrap();
    for round in 2..6 {
        say(&path, "more");
        follow.step(Time(round)).unwrap();
    }
    let files: Vec<_> = std::fs::read_dir(&backup).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut dice = Dice(u64::from(std::process::id()) << 8 | 1);
    for file in files.iter().filter(|file| file.extension().is_none_or(|ending| ending != "hash")) {
        let good = std::fs::read(file).unwrap();
        let mut bad = good.clone();
        bad[dice.roll(good.len())] ^= 1 << dice.roll(8);
        std::fs::write(file, &bad).unwrap();
        let to = folder.path().join("restored.db");
        let refused = restore(&backup, &to, None);
        assert!(refused.is_err(), "{}", file.display());
        assert!(!to.exists() && !folder.path().join("restored.db.part").exists());
        std::fs::write(file, &good).unwrap();
    }
}

#[test]
fn killed_at_any_moment_the_backup_has_all_that_was_acknowledged_before_it_was_last_saved() {
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Dice(u64::from(std::process::id()) << 8 | 5);
    for round in 0..12_u64 {
        let (path, backup) =
            (folder.path().join(format!("{round}.db")), folder.path().join(format!("{round}")));
        say(&path, "before");
        let mut writer = Command::new(victim())
            .args(["append", path.to_str().unwrap(), &(round * 1_000_000).to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = writer.stdout.take().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let words: Vec<&str> = line.split(' ').collect();
                if let ["acked", id, position, link] = words.as_slice()
                    && link.len() == 64
                {
                    let _ = tell
                        .send((((*id).to_string(), position.parse::<u64>().unwrap()), (*link).to_string()));
                }
            }
        });
        // It has begun to write when the backup begins.
        let mut acked = HashMap::from([told.recv().unwrap()]);
        let mut follow = Follow::start(&path, &backup).unwrap();
        let mut times = (round * 1_000..).map(|at| Time(i64::try_from(at).unwrap()));
        let pause = |dice: &mut Dice| std::thread::sleep(Duration::from_millis(dice.roll(60) as u64));
        pause(&mut dice);
        for _ in 0..=dice.roll(6) {
            // Everything acknowledged by now must be in it.
            acked.extend(told.try_iter());
            follow.step(times.next().unwrap()).unwrap();
            pause(&mut dice);
            // The backup starts anew now and then, as after a kill of its own.
            if dice.roll(5) == 0 {
                drop(follow);
                follow = Follow::start(&path, &backup).unwrap();
            }
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        acked.extend(told.try_iter());
        follow.step(times.next().unwrap()).unwrap();
        // What the writer said just before it died arrives late, and was written all the same.
        acked.extend(told.iter());
        let to = folder.path().join(format!("{round}-restored.db"));
        restore(&backup, &to, None).unwrap();
        let found = links(&to);
        for (place, link) in &acked {
            assert_eq!(
                found.get(place),
                Some(link),
                "round {round}: {place:?} was acknowledged and is not restored"
            );
        }
    }
}

/// A process of the crash trials, and the lines that it says.
fn saying(args: &[&str]) -> (std::process::Child, std::sync::mpsc::Receiver<Vec<String>>) {
    let mut child =
        Command::new(victim()).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let _ = tell.send(line.split(' ').map(String::from).collect());
        }
    });
    (child, told)
}

#[test]
fn killed_itself_at_any_moment_the_backup_restores_what_it_said_it_saved() {
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Dice(u64::from(std::process::id()) << 8 | 0x0b);
    let (path, backup) = (folder.path().join("store.db"), folder.path().join("backup"));
    say(&path, "before");
    let (mut writer, written) = saying(&["append", path.to_str().unwrap(), "1"]);
    let mut acked = HashMap::new();
    let mut saved = HashMap::new();
    for round in 0..4_usize {
        let began = (round * 1_000_000).to_string();
        let args = ["follow", path.to_str().unwrap(), &began, backup.to_str().unwrap()];
        let (mut follower, told) = saying(&args);
        let mut steps = follower.stdin.take().unwrap();
        for step in 0..=dice.roll(6) {
            // What is acknowledged by now must be in the backup once this step is said to be done.
            acked.extend(written.try_iter().filter_map(|words| match words.as_slice() {
                [word, id, position, link] if word == "acked" => {
                    Some(((id.clone(), position.parse::<u64>().unwrap()), link.clone()))
                }
                _ => None,
            }));
            steps.write_all(b"\n").unwrap();
            // The last one is not waited for.
            if step > 0 && dice.roll(4) == 0 {
                break;
            }
            assert_eq!(told.recv().unwrap().first().map(String::as_str), Some("saved"));
            saved.clone_from(&acked);
        }
        std::thread::sleep(Duration::from_micros(dice.roll(20_000) as u64));
        follower.kill().unwrap();
        follower.wait().unwrap();
        let to = folder.path().join(format!("restored-{round}.db"));
        restore(&backup, &to, None).unwrap();
        let found = links(&to);
        for (place, link) in &saved {
            assert_eq!(
                found.get(place),
                Some(link),
                "round {round}: {place:?} was saved and is not restored"
            );
        }
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(!saved.is_empty());
}

#[test]
fn backups_and_what_is_restored_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    say(&at("store.db"), "before");
    let mut follow = Follow::start(&at("store.db"), &at("backup")).unwrap();
    follow.step(Time(1)).unwrap();
    say(&at("store.db"), "after");
    follow.step(Time(2)).unwrap();
    restore(&at("backup"), &at("restored.db"), None).unwrap();
    let store = Sqlite::open(&at("store.db"), Time(0)).unwrap();
    block_on((&store as &dyn Store).backup(&at("copy.db"))).unwrap();
    let said = std::fs::read_dir(at("backup")).unwrap().map(|file| file.unwrap().path());
    let said = said.filter(|file| file.extension().is_some_and(|end| end != "hash"));
    let all: Vec<_> = said.chain([at("restored.db"), at("copy.db")]).collect();
    assert_eq!(all.len(), 4, "a snapshot, a segment, and what was made of them: {all:?}");
    for file in all {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
}
