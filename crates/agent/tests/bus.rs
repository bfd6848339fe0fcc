//! What the bus promises: order, exact types, delivery that goes on.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, Mutex};

use scrollback_agent::{Event, EventBus, FakeClock};
use scrollback_core::Time;
use serde::Serialize;
use serde_json::json;

#[derive(Serialize)]
struct Rang {
    bell: u32,
}

impl Event for Rang {
    const NAME: &'static str = "Rang";
}

#[derive(Serialize)]
struct Fell;

impl Event for Fell {
    const NAME: &'static str = "Fell";
}

/// A list that handlers write into.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn bus() -> Arc<EventBus> {
    Arc::new(EventBus::new(Arc::new(FakeClock::at(Time(1_000)))))
}

#[test]
fn handlers_are_called_in_order_of_subscription_for_exactly_their_type() {
    let (bus, heard) = (bus(), Heard::default());
    for name in ["first", "second"] {
        let heard = heard.clone();
        bus.subscribe::<Rang>(move |told| {
            heard.note(format!("{name} {} {}", told.event.bell, told.created_at));
            Ok(())
        });
    }
    let all = heard.clone();
    bus.subscribe_all(move |event| {
        all.note(event.to_string());
        Ok(())
    });
    let last = heard.clone();
    bus.subscribe::<Rang>(move |_| {
        last.note("last");
        Ok(())
    });
    assert_eq!(bus.publish("s", &Rang { bell: 7 }).invoked, 4);
    assert_eq!(bus.publish("s", &Fell).invoked, 1);
    let json =
        |name: &str| json!({ "event": name, "session_id": "s", "created_at": "1970-01-01T00:00:01.000Z" });
    let mut rang = json("Rang");
    rang["bell"] = json!(7);
    let expected = [
        "first 7 1970-01-01T00:00:01.000Z".to_string(),
        "second 7 1970-01-01T00:00:01.000Z".into(),
        rang.to_string(),
        "last".into(),
        json("Fell").to_string(),
    ];
    assert_eq!(heard.all(), expected);
}

#[test]
fn a_handler_added_while_an_event_is_delivered_hears_the_next() {
    let (bus, heard) = (bus(), Heard::default());
    let (inner, note) = (Arc::downgrade(&bus), heard.clone());
    bus.subscribe::<Rang>(move |_| {
        let note = note.clone();
        inner.upgrade().unwrap().subscribe::<Rang>(move |told| {
            note.note(told.event.bell.to_string());
            Ok(())
        });
        Ok(())
    });
    bus.publish("s", &Rang { bell: 1 });
    assert!(heard.all().is_empty());
    bus.publish("s", &Rang { bell: 2 });
    assert_eq!(heard.all(), ["2"]);
}

#[test]
fn a_nested_event_is_delivered_before_the_rest_of_the_outer_one() {
    let (bus, heard) = (bus(), Heard::default());
    let (inner, note) = (Arc::downgrade(&bus), heard.clone());
    bus.subscribe::<Rang>(move |_| {
        note.note("rang");
        inner.upgrade().unwrap().publish("s", &Fell);
        Ok(())
    });
    for name in ["rang too", "fell"] {
        let note = heard.clone();
        if name == "fell" {
            bus.subscribe::<Fell>(move |_| {
                note.note(name);
                Ok(())
            });
        } else {
            bus.subscribe::<Rang>(move |_| {
                note.note(name);
                Ok(())
            });
        }
    }
    bus.publish("s", &Rang { bell: 1 });
    assert_eq!(heard.all(), ["rang", "fell", "rang too"]);
}

#[test]
fn handlers_that_fail_or_panic_are_listed_and_the_others_still_called() {
    let (bus, heard) = (bus(), Heard::default());
    bus.subscribe::<Rang>(|_| Err("deaf".into()));
    bus.subscribe::<Rang>(|_| panic!("too loud"));
    let note = heard.clone();
    bus.subscribe::<Rang>(move |_| {
        note.note("heard");
        Ok(())
    });
    let result = bus.publish("s", &Rang { bell: 1 });
    assert_eq!((result.invoked, result.is_ok()), (3, false));
    let errors: Vec<&str> = result.failures.iter().map(|failure| failure.error.as_str()).collect();
    assert_eq!(errors, ["deaf", "panicked: too loud"]);
    assert!(result.failures[0].handler.contains("handlers_that_fail_or_panic"));
    assert_eq!(heard.all(), ["heard"]);
    let raised = result.raise().unwrap_err().to_string();
    assert!(raised.starts_with("2 of the handlers failed: ") && raised.contains("deaf"), "{raised}");
}

#[test]
fn a_subscription_ends_once_and_not_by_dropping_its_token() {
    let bus = bus();
    let token = bus.subscribe::<Rang>(|_| Ok(()));
    let all = bus.subscribe_all(|_| Ok(()));
    {
        let _dropped = bus.subscribe::<Rang>(|_| Ok(()));
    }
    assert_eq!(bus.publish("s", &Rang { bell: 1 }).invoked, 3);
    assert!(bus.unsubscribe(token) && bus.unsubscribe(all));
    assert!(!bus.unsubscribe(token));
    assert_eq!(bus.publish("s", &Rang { bell: 1 }).invoked, 1);
}
