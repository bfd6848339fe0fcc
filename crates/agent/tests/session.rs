//! What a session promises: reducers, snapshots, rollback, whole slices for every reader.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use scrollback_agent::event::{ConversationRecorded, RecordedEntry};
use scrollback_agent::session::{
    Session, SessionStart, Slice, SliceChange, SliceItem, SliceKind, Snapshot, append_unique, replace_latest,
    replace_latest_by, upsert_by,
};
use scrollback_agent::{Event, EventBus};
use scrollback_core::{Entry, Role, Time};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Fact {
    key: String,
    value: u32,
}

impl SliceItem for Fact {
    const NAME: &'static str = "Fact";
    const KIND: SliceKind = SliceKind::State;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line(u32);

impl SliceItem for Line {
    const NAME: &'static str = "Line";
    const KIND: SliceKind = SliceKind::Log;
}

#[derive(Clone, Serialize)]
struct Learned(Fact);

impl Event for Learned {
    const NAME: &'static str = "Learned";
}

fn fact(key: &str, value: u32) -> Fact {
    Fact { key: key.into(), value }
}

fn session(bus: &Arc<EventBus>, id: &str) -> Arc<Session> {
    Session::new(bus, SessionStart { id: id.into(), ..SessionStart::default() }).unwrap()
}

fn facts(session: &Session) -> Vec<Fact> {
    session.select_all::<Fact>().iter().cloned().collect()
}

/// A reducer of the facts.
type Reduce = fn(&Slice<Fact>, Fact) -> SliceChange<Fact>;

#[test]
fn each_built_in_reducer_does_what_it_is_called() {
    let told = [fact("a", 1), fact("b", 1), fact("a", 2), fact("a", 2)];
    let cases: [(Reduce, Vec<Fact>); 4] = [
        (|slice, item| append_unique(slice, item), vec![fact("a", 1), fact("b", 1), fact("a", 2)]),
        (|slice, item| replace_latest(slice, item), vec![fact("a", 2)]),
        (
            |slice, item| upsert_by(|fact: &Fact| fact.key.clone())(slice, item),
            vec![fact("a", 2), fact("b", 1)],
        ),
        (
            |slice, item| replace_latest_by(|fact: &Fact| fact.key.clone())(slice, item),
            vec![fact("b", 1), fact("a", 2)],
        ),
    ];
    for (reduce, expected) in cases {
        let bus = Arc::new(EventBus::default());
        let session = session(&bus, "s");
        session.register::<Learned, Fact>(move |slice, event, _| Ok(reduce(slice, event.0.clone())));
        for fact in &told {
            assert!(bus.publish("s", &Learned(fact.clone())).is_ok());
        }
        assert_eq!(facts(&session), expected);
    }
}

#[test]
fn a_reducer_that_fails_leaves_its_slice_and_the_others_run() {
    let bus = Arc::new(EventBus::default());
    let session = session(&bus, "s");
    session.register::<Learned, Fact>(|_, event, _| match event.0.value {
        0 => Err("not a fact".into()),
        1 => panic!("no idea"),
        _ => Ok(SliceChange::Append(event.0.clone())),
    });
    session.register::<Learned, Line>(|_, event, _| Ok(SliceChange::Append(Line(event.0.value))));
    let outcomes: Vec<usize> =
        (0..3).map(|value| bus.publish("s", &Learned(fact("a", value))).failures.len()).collect();
    assert_eq!(outcomes, [1, 1, 0]);
    assert_eq!(facts(&session), [fact("a", 2)]);
    assert_eq!(session.select_all::<Line>().len(), 3);
}

#[test]
fn events_of_another_session_change_nothing() {
    let bus = Arc::new(EventBus::default());
    let (one, other) = (session(&bus, "one"), session(&bus, "other"));
    for session in [&one, &other] {
        session.register::<Learned, Fact>(|_, event, _| Ok(SliceChange::Append(event.0.clone())));
    }
    bus.publish("one", &Learned(fact("a", 1)));
    assert_eq!((facts(&one).len(), facts(&other).len()), (1, 0));
}

#[test]
fn readers_keep_the_slice_they_took() {
    let bus = Arc::new(EventBus::default());
    let session = session(&bus, "s");
    session.register::<Learned, Fact>(|_, event, _| Ok(SliceChange::Append(event.0.clone())));
    bus.publish("s", &Learned(fact("a", 1)));
    let taken = session.select_all::<Fact>();
    bus.publish("s", &Learned(fact("b", 2)));
    assert_eq!((taken.len(), session.select_all::<Fact>().len()), (1, 2));
    assert_eq!(session.latest::<Fact>(), Some(fact("b", 2)));
    assert_eq!(session.select_where(|fact: &Fact| fact.value == 1), [fact("a", 1)]);
    assert!(session.select_all::<Line>().is_empty());
}

#[test]
fn what_is_recorded_is_shared_with_the_record() {
    let bus = Arc::new(EventBus::default());
    let session = session(&bus, "s");
    let evaluation = uuid::Uuid::from_u128(7);
    let entry = Arc::new(Entry::text(Role::User, "hello").stamped(evaluation, 0, Time(0)));
    let recorded = RecordedEntry { entry: Arc::clone(&entry), position: 0 };
    bus.publish("s", &ConversationRecorded { conversation: None, recorded });
    let seen = session.latest::<RecordedEntry>().unwrap();
    assert!(Arc::ptr_eq(&seen.entry, &entry));
    assert_eq!(session.evaluation_history(evaluation).len(), 1);
    assert!(session.evaluation_history(uuid::Uuid::nil()).is_empty());
    let json = serde_json::to_value(&seen).unwrap();
    assert_eq!((&json["role"], &json["wire"]), (&"user".into(), &"openai-chat".into()));
}

#[test]
fn a_rollback_takes_back_state_and_keeps_logs() {
    let bus = Arc::new(EventBus::default());
    let session = session(&bus, "s");
    session.register::<Learned, Fact>(|_, event, _| Ok(SliceChange::Append(event.0.clone())));
    session.register::<Learned, Line>(|_, event, _| Ok(SliceChange::Append(Line(event.0.value))));
    let empty = session.snapshot(Time(0)).unwrap();
    bus.publish("s", &Learned(fact("a", 1)));
    let taken = session.snapshot(Time(5)).unwrap();
    bus.publish("s", &Learned(fact("b", 2)));
    let text = serde_json::to_string(&taken).unwrap();
    assert_eq!(Snapshot::parse(&text).unwrap(), taken);
    let names: Vec<&str> = taken.slices.iter().map(|slice| slice.name.as_str()).collect();
    assert_eq!(names, ["ConversationEntry", "Fact", "Line"]);

    session.rollback(&taken).unwrap();
    assert_eq!(facts(&session), [fact("a", 1)]);
    assert_eq!(session.select_all::<Line>().len(), 2);
    let mut without = empty.clone();
    without.slices.clear();
    session.rollback(&without).unwrap();
    assert!(facts(&session).is_empty());
}

#[test]
fn bad_snapshots_are_refused_with_the_place_and_change_nothing() {
    let bus = Arc::new(EventBus::default());
    let session = session(&bus, "s");
    session.register::<Learned, Fact>(|_, event, _| Ok(SliceChange::Append(event.0.clone())));
    bus.publish("s", &Learned(fact("a", 1)));
    let good = session.snapshot(Time(0)).unwrap();
    let broken = |change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = good.clone();
        change(&mut snapshot);
        session.rollback(&snapshot).unwrap_err().to_string()
    };
    assert!(broken(&|snapshot| snapshot.version = "2".into()).starts_with("/version: "));
    assert!(broken(&|snapshot| snapshot.slices[1].name = "Fiction".into()).starts_with("/slices/1/type: "));
    assert!(broken(&|snapshot| snapshot.slices[1].kind = "log".into()).starts_with("/slices/1/kind: "));
    let wrong = broken(&|snapshot| snapshot.slices[1].items = vec![serde_json::json!({ "key": 1 })]);
    assert!(wrong.starts_with("/slices/1/items/0: "), "{wrong}");
    assert!(Snapshot::parse("{").is_err() && Snapshot::parse(r#"{"version":"1","x":1}"#).is_err());
    assert_eq!(facts(&session), [fact("a", 1)]);
}

#[test]
fn sessions_form_a_tree_and_none_is_its_own_parent() {
    let bus = Arc::new(EventBus::default());
    let root = session(&bus, "root");
    let child = |id: &str, parent: &Arc<Session>| {
        let start =
            SessionStart { id: id.into(), parent: Some(Arc::clone(parent)), ..SessionStart::default() };
        Session::new(&bus, start)
    };
    let left = child("left", &root).unwrap();
    child("right", &root).unwrap();
    child("leaf", &left).unwrap();
    let order: Vec<String> = root.descendants().iter().map(|session| session.id().to_string()).collect();
    assert_eq!(order, ["leaf", "left", "right"]);
    assert_eq!(left.tags()["parent_session_id"], "root");
    assert_eq!(root.snapshot(Time(0)).unwrap().children, ["left", "right"]);
    assert!(child("root", &root).unwrap_err().to_string().contains("its own parent"));
}

#[test]
fn eight_threads_lose_no_event() {
    let bus = Arc::new(EventBus::default());
    let session = session(&bus, "s");
    session.register::<Learned, Fact>(|_, event, _| Ok(SliceChange::Append(event.0.clone())));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let bus = &bus;
            scope.spawn(move || {
                for value in 0..200 {
                    assert!(bus.publish("s", &Learned(fact(&thread.to_string(), value))).is_ok());
                }
            });
        }
    });
    let facts = facts(&session);
    assert_eq!(facts.len(), 1_600);
    for thread in 0..8 {
        let own: Vec<u32> =
            facts.iter().filter(|fact| fact.key == thread.to_string()).map(|fact| fact.value).collect();
        assert_eq!(own, (0..200).collect::<Vec<_>>(), "thread {thread}");
    }
}
