//! Every rule of every wire has a body that keeps it and, if it can be broken, one that breaks it.
//!
//! The bodies are the files of `corpus/wire`, `RULE.pass.json` and `RULE.fail.json`; a further case is
//! `RULE.fail-words-about-it.json`. A new rule or a new case is a new file, nothing here has to change.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use scrollback_core::json;
use scrollback_core::model::ModelName;
use scrollback_core::wire::check::{
    CheckOptions, Evidence, Rule, Severity, Strictness, Violation, check, rules, unseen,
};
use scrollback_core::wire::{ParseOptions, Wire};
use serde::Deserialize;
use serde_json::Value;

/// One file of `corpus/wire`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    rule: String,
    wire: Wire,
    /// What the body shows, in one sentence.
    note: String,
    model: Option<String>,
    dialect: Option<String>,
    /// The request that was sent before, with its reply appended.
    previous: Option<Value>,
    /// A text too long to be written out.
    grow: Option<Grow>,
    /// Exactly the violations of a failing body, in order.
    #[serde(default)]
    expect: Vec<Expected>,
    body: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    rule: String,
    path: String,
    /// The letter, where it is not that of the rule.
    severity: Option<String>,
    /// Whether this detail of the rule is known only from hearsay, where the rule itself is known better.
    unverified: Option<bool>,
}

impl Expected {
    fn is(&self, found: &Violation, rule: &Rule) -> bool {
        let severity = self.severity.as_deref().unwrap_or(rule.severity.letter());
        let unverified = self.unverified.unwrap_or(rule.evidence == Evidence::Unverified);
        (found.rule, found.path.as_str()) == (&self.rule, &self.path)
            && (found.severity.letter(), found.unverified) == (severity, unverified)
    }
}

/// Puts `text`, `times` over, in the place of the text at `path`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Grow {
    path: String,
    text: String,
    times: usize,
}

impl Fixture {
    fn read(path: &Path) -> Fixture {
        let text = std::fs::read_to_string(path).unwrap();
        let mut fixture: Fixture =
            serde_json::from_str(&text).unwrap_or_else(|problem| panic!("{}: {problem}", path.display()));
        if let Some(grow) = &fixture.grow {
            let place = fixture.body.pointer_mut(&grow.path);
            *place.unwrap_or_else(|| panic!("{}: nothing at {}", path.display(), grow.path)) =
                grow.text.repeat(grow.times).into();
        }
        fixture
    }

    fn violations(&self) -> Vec<Violation> {
        let body = self.body.to_string();
        let previous = self.previous.as_ref().map(Value::to_string);
        let model = self.model.as_deref().map(|name| ModelName::parse(name).unwrap());
        let options = CheckOptions {
            model: model.as_ref(),
            previous: previous.as_deref().map(|text| json::check(text).unwrap()),
            dialect: self.dialect.as_deref(),
            ..CheckOptions::default()
        };
        check(self.wire, json::check(&body).unwrap(), options)
    }

    /// Whether the body is about size, on a wire that has no reader to count its tokens with.
    fn is_uncountable(&self) -> bool {
        let body = self.body.to_string();
        let readable = self.wire.parse(json::check(&body).unwrap(), &ParseOptions::default()).is_ok();
        self.grow.is_some() && self.model.is_some() && !readable
    }

    /// Whether a JSON pointer leads somewhere; a bare list is read as if it stood under a key.
    fn has(&self, pointer: &str) -> bool {
        let inner = pointer.strip_prefix('/').and_then(|rest| rest.find('/').map(|at| &rest[at..]));
        match &self.body {
            Value::Array(_) => inner.is_none_or(|inner| self.body.pointer(inner).is_some()),
            body => body.pointer(pointer).is_some(),
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/wire")
}

/// The fixtures by file name, each with its rule and whether it keeps it.
fn fixtures() -> Vec<(String, Fixture, bool)> {
    let mut found: Vec<(String, Fixture, bool)> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let fixture = Fixture::read(&path);
            let mut parts = name.split('.');
            assert_eq!(parts.next(), Some(fixture.rule.as_str()), "{name} is named after its rule");
            let keeps = match parts.next().and_then(|verdict| verdict.split('-').next()) {
                Some("pass") => true,
                Some("fail") => false,
                _ => panic!("{name} is neither a pass nor a fail file"),
            };
            (name, fixture, keeps)
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[test]
fn bodies_keep_and_break_the_rules_they_are_named_after() {
    for (name, fixture, keeps) in fixtures() {
        assert!(rules(fixture.wire).iter().any(|rule| rule.id == fixture.rule), "{name}: no such rule");
        assert!(fixture.note.ends_with('.'), "{name}: the note is no sentence");
        let violations = fixture.violations();
        if keeps {
            let against =
                |found: &&Violation| found.severity == Severity::Refused || found.rule == fixture.rule;
            assert_eq!(violations.iter().find(against), None, "{name}");
            continue;
        }
        if fixture.is_uncountable() {
            eprintln!("notice: {name}: the wire cannot be read yet, so nothing can be too much for a window");
            continue;
        }
        let as_expected = violations.len() == fixture.expect.len()
            && violations.iter().zip(&fixture.expect).all(|(found, expected)| {
                let mut table = rules(fixture.wire).iter();
                table.any(|rule| rule.id == found.rule && expected.is(found, rule))
            });
        assert!(as_expected, "{name}: {}", serde_json::to_string_pretty(&violations).unwrap());
        assert!(
            violations.iter().any(|found| found.rule == fixture.rule),
            "{name} does not break its own rule"
        );
        for violation in violations {
            assert!(fixture.has(&violation.path), "{name}: {} leads nowhere", violation.path);
            let message = &violation.message;
            assert!(!message.is_empty() && !message.contains('\n'), "{name}: {message:?}");
            assert!(!message.starts_with(char::is_uppercase), "{name}: {message:?}");
        }
    }
}

#[test]
fn every_rule_has_its_bodies() {
    let files: BTreeSet<String> = fixtures().into_iter().map(|(name, ..)| name).collect();
    for rule in Wire::ALL.into_iter().flat_map(rules) {
        let mut needed = vec![format!("{}.pass.json", rule.id)];
        let unseen = Wire::ALL.iter().any(|wire| unseen(*wire).contains(&rule.id));
        if rule.severity != Severity::Allowed && !unseen {
            needed.push(format!("{}.fail.json", rule.id));
        }
        for file in needed {
            assert!(files.contains(&file), "corpus/wire/{file} is missing");
        }
    }
}

#[test]
fn every_rule_is_said_once_and_in_words() {
    let mut seen = BTreeSet::new();
    for rule in Wire::ALL.into_iter().flat_map(rules) {
        assert!(seen.insert(rule.id), "{} appears twice", rule.id);
        assert!(!rule.says.is_empty() && !rule.says.contains('\n'), "{}", rule.id);
    }
}

#[test]
fn a_bare_list_is_checked_as_if_it_stood_in_a_body() {
    for (name, fixture, _) in fixtures() {
        let key = match fixture.wire {
            Wire::OpenaiChat | Wire::Anthropic | Wire::Bedrock => "messages",
            Wire::OpenaiResponses => "input",
            Wire::Gemini => "contents",
            Wire::Scrollback => continue,
        };
        let Value::Object(body) = &fixture.body else { continue };
        let (1, Some(list @ Value::Array(_))) = (body.len(), body.get(key)) else { continue };
        // A bare list cannot hold the tools whose absence this rule complains about.
        if fixture.expect.iter().any(|expected| expected.rule == "BC-7") {
            continue;
        }
        let bare = Fixture { body: list.clone(), ..Fixture::read(&folder().join(&name)) };
        assert_eq!(bare.violations(), fixture.violations(), "{name}");
    }
}

#[test]
fn no_body_makes_a_check_panic() {
    let odd =
        [Value::Null, Value::Bool(true), 1.into(), "".into(), Value::Array(vec![]), serde_json::json!({})];
    for (_, mut fixture, _) in fixtures().into_iter().filter(|(_, fixture, _)| fixture.grow.is_none()) {
        let whole = fixture.body.clone();
        for place in places(&whole) {
            for value in &odd {
                fixture.body = whole.clone();
                fixture.body.pointer_mut(&place).unwrap().clone_from(value);
                for wire in Wire::ALL {
                    fixture.wire = wire;
                    fixture.violations();
                }
            }
        }
    }
}

/// Every place in a value, as a pointer.
fn places(value: &Value) -> Vec<String> {
    let inner: Vec<(String, &Value)> = match value {
        Value::Array(list) => list.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (json::escape_pointer(key).into_owned(), value)).collect()
        }
        _ => Vec::new(),
    };
    let below = inner
        .iter()
        .flat_map(|(key, value)| places(value).into_iter().map(move |rest| format!("/{key}{rest}")));
    std::iter::once(String::new()).chain(below).collect()
}

/// Lists a provider accepted, turn after turn. They are other people's and not part of this repository.
#[test]
fn real_lists_break_no_rule() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/tau-bench/historical_trajectories/gpt-4o-airline.json");
    let Ok(text) = std::fs::read_to_string(folder) else {
        eprintln!("notice: the transcripts of tau-bench are not here; nothing was checked");
        return;
    };
    let model = ModelName::parse("openai:gpt-4o").unwrap();
    let options = CheckOptions { model: Some(&model), ..CheckOptions::default() };
    for (number, run) in json::check(&text).unwrap().elements().enumerate() {
        let violations = check(Wire::OpenaiChat, run.get("traj").unwrap(), options);
        let fatal = violations.iter().find(|found| found.is_fatal(Strictness::Strict));
        assert_eq!(fatal, None, "run {number}");
    }
}
