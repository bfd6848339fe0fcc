//! What reading a flow collects.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use scrollback_agent::document::{DocumentProblem, Fields, Node, TextPosition, Value, code};
use scrollback_core::nearest::nearest_key;
use serde_json::Value as Json;

use super::ReadOptions;
use super::text::place_in;
use crate::model::Agent;
use crate::problem::Code;
use crate::reference::FlowName;
use crate::settings::{Setting, SettingOrigin};

/// Most problems that are told: behind these the file is no flow at all.
pub(super) const MOST_PROBLEMS: usize = 1000;
/// Most words that a misspelt one is compared with.
const MOST_WORDS: usize = 1000;

/// Everything that is known while a flow is read.
pub(super) struct FlowReader<'a> {
    pub(super) source: &'a ReadOptions<'a>,
    pub(super) text: &'a str,
    pub(super) problems: Vec<DocumentProblem>,
    pub(super) warnings: Vec<DocumentProblem>,
    /// The agents, which are read before the steps.
    pub(super) agents: BTreeMap<String, Arc<Agent>>,
    pub(super) prompt_files: BTreeMap<String, String>,
    /// Every setting that was decided.
    pub(super) settings: Vec<Setting>,
    /// The names of steps and where they stand.
    pub(super) steps: BTreeMap<String, Spot>,
    /// The agent of steps that find no other, once one did.
    pub(super) usual: Option<Arc<Agent>>,
    /// Steps that expressions and templates name: checked when all steps are known.
    mentioned: Vec<(String, TextSpot)>,
}

/// A place in a flow, for people and for programs.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) path: String,
    pub(super) at: TextPosition,
}

/// A character of a text in the flow. Where it stands in the file is worked out only for those who are told.
#[derive(Clone)]
pub(super) struct TextSpot {
    pub(super) path: Rc<str>,
    pub(super) text: Rc<str>,
    /// Where the text begins.
    pub(super) at: TextPosition,
    pub(super) character: usize,
}

/// What can be named at a place.
#[derive(Clone, Copy, Default)]
pub(super) struct NameScope {
    pub(super) in_loop: bool,
    pub(super) in_conversation: bool,
    pub(super) in_map: bool,
}

impl<'a> FlowReader<'a> {
    pub(super) fn new(text: &'a str, source: &'a ReadOptions<'a>) -> Self {
        FlowReader {
            source,
            text,
            problems: Vec::new(),
            warnings: Vec::new(),
            agents: BTreeMap::new(),
            prompt_files: BTreeMap::new(),
            settings: Vec::new(),
            steps: BTreeMap::new(),
            usual: None,
            mentioned: Vec::new(),
        }
    }

    /// Reads a map: every key of it is asked for, has a value, and stands nowhere else.
    pub(super) fn map<'n, T>(
        &mut self,
        node: &'n Node,
        path: &str,
        read: impl FnOnce(&mut Fields<'n, '_>, &mut Self) -> T,
    ) -> T {
        let mut problems = Vec::new();
        let mut fields = Fields::of(node, path, &mut problems);
        let value = read(&mut fields, self);
        fields.end();
        let told: HashSet<TextPosition> = problems.iter().map(|problem| problem.at).collect();
        let nulls = node.as_map().unwrap_or_default().iter().filter(|(_, node)| node.value == Value::Null);
        for (key, _) in nulls.filter(|(key, _)| !told.contains(&key.at)) {
            let path = if path.is_empty() { key.name.clone() } else { format!("{path}.{}", key.name) };
            let message = "has no value; write one, or remove the key";
            problems.push(DocumentProblem::new(code::WRONG_TYPE, path, key.at, message));
        }
        self.problems.append(&mut problems);
        value
    }

    pub(super) fn error(&mut self, code: Code, spot: &Spot, message: impl Into<String>) {
        self.problems.push(DocumentProblem::new(code.as_str(), spot.path.clone(), spot.at, message));
    }

    /// The same, with the nearest of the words that would have been understood.
    pub(super) fn unknown<'w>(
        &mut self,
        code: Code,
        spot: &Spot,
        message: impl Into<String>,
        word: &str,
        known: impl IntoIterator<Item = &'w str>,
    ) {
        let problem = DocumentProblem::new(code.as_str(), spot.path.clone(), spot.at, message);
        let near = if self.is_full() { None } else { nearest_key(word, known.into_iter().take(MOST_WORDS)) };
        self.problems.push(problem.suggesting(near));
    }

    pub(super) fn warn(&mut self, code: Code, spot: &Spot, message: impl Into<String>) {
        self.warnings.push(DocumentProblem::new(code.as_str(), spot.path.clone(), spot.at, message));
    }

    /// Notes what a setting is, and who said so.
    pub(super) fn decided(&mut self, path: impl Into<String>, value: impl Into<Json>, from: SettingOrigin) {
        self.settings.push(Setting { setting: path.into(), value: value.into(), from });
    }

    /// The same for a key of a map that only the flow can set: `base.key`.
    pub(super) fn decided_by(&mut self, node: &Node, base: &str, key: &str, value: impl Into<Json>) {
        let from = if node.get(key).is_some() { SettingOrigin::Flow } else { SettingOrigin::BuiltIn };
        self.decided(format!("{base}.{key}"), value, from);
    }

    /// Notes that a name is used; one that means nothing here is a mistake.
    pub(super) fn mention(&mut self, name: &FlowName, scope: NameScope, written: &TextSpot) {
        if let Some(step) = name.step() {
            self.mentioned.push((step.to_string(), written.clone()));
        }
        let missing = match name {
            FlowName::LoopInput | FlowName::LoopIteration if !scope.in_loop => "a loop",
            FlowName::History if !scope.in_conversation => "a loop with `conversation: true`",
            FlowName::Item | FlowName::Index if !scope.in_map => "a `map`",
            _ => return,
        };
        let spot = self.spot_of(written);
        self.error(Code::UnknownName, &spot, format!("`{name}` means something inside {missing} only"));
    }

    /// Where a character stands in the file. Not needed behind the last problem that is reported.
    pub(super) fn spot_of(&self, written: &TextSpot) -> Spot {
        let TextSpot { path, text, at, character } = written;
        let at = if self.is_full() { *at } else { place_in(self.text, *at, text, *character) };
        Spot { path: path.to_string(), at }
    }

    /// Whether there are as many problems as are told.
    pub(super) fn is_full(&self) -> bool {
        self.problems.len() >= MOST_PROBLEMS
    }

    /// Notes a step's name; a second step of that name is a mistake.
    pub(super) fn step_named(&mut self, name: &str, spot: &Spot) {
        if let Some(first) = self.steps.get(name) {
            let message =
                format!("{name:?} is the name of the step at line {} too; choose another", first.at.line);
            self.error(Code::DuplicateName, spot, message);
        } else {
            self.steps.insert(name.into(), spot.clone());
        }
    }

    /// Compares the steps that were named with those there are.
    pub(super) fn check_mentions(&mut self) {
        let steps: Vec<String> = self.steps.keys().cloned().collect();
        for (step, written) in std::mem::take(&mut self.mentioned) {
            if !self.steps.contains_key(&step) && !self.is_full() {
                let spot = self.spot_of(&written);
                let message = format!("there is no step {step:?}");
                self.unknown(Code::UnknownStep, &spot, message, &step, steps.iter().map(String::as_str));
            }
        }
    }
}

/// Where a name of a map stands: its value, or the map if it is not there.
pub(super) fn spot(fields: &Fields<'_, '_>, node: &Node, name: &str) -> Spot {
    let at = node.get(name).map_or(node.at, |node| node.at);
    Spot { path: fields.path(name), at }
}

/// Where the key of a map stands.
pub(super) fn key_spot(fields: &Fields<'_, '_>, node: &Node, name: &str) -> Spot {
    let key = node.as_map().unwrap_or_default().iter().find(|(key, _)| key.name == name);
    Spot { path: fields.path(name), at: key.map_or(node.at, |(key, _)| key.at) }
}
