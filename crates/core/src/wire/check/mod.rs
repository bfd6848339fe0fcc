//! Whether a provider would accept a body: every rule by its id, with the place that breaks it.
//!
//! Each wire has a file with a table of [`Rule`]s and the functions that look for them. The tables are data: what is
//! said here about a rule is what the command line, the documentation and the repair say about it.

mod anthropic;
mod bedrock;
mod body;
mod gemini;
mod openai_chat;
mod openai_responses;

use std::fmt;

use serde::{Serialize, Serializer};

use super::Wire;
use crate::json::Raw;
use crate::model::ModelName;

/// What happens to a request that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// `R`: it is refused.
    Refused,
    /// `S`: it is accepted, and something is dropped or merged without a word.
    Silent,
    /// `Q`: it is accepted, and the answers get worse.
    Quality,
    /// `$`: it is accepted, and costs more.
    Cost,
    /// `-`: nothing; the rule says what is allowed, and is never reported.
    Allowed,
}

impl Severity {
    /// The letter it is known by.
    pub fn letter(self) -> &'static str {
        match self {
            Severity::Refused => "R",
            Severity::Silent => "S",
            Severity::Quality => "Q",
            Severity::Cost => "$",
            Severity::Allowed => "-",
        }
    }
}

impl Serialize for Severity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.letter())
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.letter())
    }
}

/// How a rule is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// From shipped types, documentation, an error text or another implementation.
    Seen,
    /// From general knowledge only: reported with a mark, and counted against a list only when asked to be strict.
    Unverified,
}

/// The models a rule holds for.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// In words: `Claude 4.6 and later`.
    pub models: &'static str,
    /// Whether a model is one of them.
    pub(crate) holds: fn(&ModelName) -> bool,
}

/// One rule of one wire.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its number: `OC-1`.
    pub id: &'static str,
    /// What breaking it does.
    pub severity: Severity,
    /// How it is known.
    pub evidence: Evidence,
    /// The models it holds for; all if none.
    pub gate: Option<Gate>,
    /// The rule in one sentence.
    pub says: &'static str,
    /// What repair does about it, in the past tense; empty where there is nothing to repair.
    pub repair: &'static str,
}

impl Rule {
    /// A rule for all models, known from something that was seen.
    pub(crate) const fn new(
        id: &'static str,
        severity: Severity,
        says: &'static str,
        repair: &'static str,
    ) -> Self {
        Rule { id, severity, evidence: Evidence::Seen, gate: None, says, repair }
    }

    /// The same rule, known from hearsay only.
    pub(crate) const fn unverified(self) -> Self {
        Rule { evidence: Evidence::Unverified, ..self }
    }

    /// The same rule, for some models only.
    pub(crate) const fn only(self, gate: Gate) -> Self {
        Rule { gate: Some(gate), ..self }
    }
}

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// JSON pointer from the body.
    pub path: String,
    /// What it does.
    pub severity: Severity,
    /// What is wrong here, and what to do, in one line.
    pub message: String,
    /// The models the rule holds for, where no model was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_gate: Option<&'static str>,
    /// Whether the rule is known only from hearsay.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
}

impl Violation {
    /// Whether it makes the list invalid: it is refused, by a rule that surely holds for this model.
    pub fn is_fatal(&self, strict: Strictness) -> bool {
        self.severity == Severity::Refused
            && self.model_gate.is_none()
            && (strict == Strictness::Strict || !self.unverified)
    }
}

/// Whether rules known only from hearsay count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// They are reported, and do not make a list invalid.
    #[default]
    Lenient,
    /// They count like all others.
    Strict,
}

/// What a check may know beside the body.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions<'a> {
    /// The model the body is for. Without one, rules that hold only for some are reported with their gate.
    pub model: Option<&'a ModelName>,
    /// The request that was sent before in this conversation, with its reply appended: what signed reasoning is
    /// bound to.
    pub previous: Option<Raw<'a>>,
    /// The dialect of an `OpenAI`-compatible host, where it has one.
    pub dialect: Option<&'a str>,
    /// Whether the tokens of a body larger than the model's window are counted.
    pub size: Size,
}

/// Whether a check counts what a large body costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// It does, and reports what does not fit.
    #[default]
    Counted,
    /// It does not: the caller knows, or leaves it to the provider.
    NotJudged,
}

/// Collects violations; the one place where severities and gates are applied.
pub(crate) struct ViolationReport<'a> {
    rules: &'static [Rule],
    pub(crate) options: CheckOptions<'a>,
    violations: Vec<Violation>,
}

impl<'a> ViolationReport<'a> {
    pub(crate) fn new(rules: &'static [Rule], options: CheckOptions<'a>) -> Self {
        ViolationReport { rules, options, violations: Vec::new() }
    }

    /// Notes a breach of rule `id` at `path`, unless the rule does not hold for the model.
    pub(crate) fn add(&mut self, id: &str, path: impl Into<String>, message: impl Into<String>) {
        let severity = self.rules.iter().find(|rule| rule.id == id).map(|rule| rule.severity);
        if let Some(severity) = severity {
            self.add_as(id, severity, path, message);
        }
    }

    /// The same with another severity than the table's, for rules that have two.
    pub(crate) fn add_as(
        &mut self,
        id: &str,
        severity: Severity,
        path: impl Into<String>,
        message: impl Into<String>,
    ) {
        if let Some(rule) = self.rules.iter().find(|rule| rule.id == id) {
            self.push(rule, severity, path, message);
        }
    }

    /// The same for a breach that only `gate`'s models refuse, where the rule's own gate is wider.
    pub(crate) fn add_for(
        &mut self,
        id: &str,
        gate: Gate,
        path: impl Into<String>,
        message: impl Into<String>,
    ) {
        if let Some(rule) = self.rules.iter().find(|rule| rule.id == id) {
            self.push(&Rule { gate: Some(gate), ..*rule }, rule.severity, path, message);
        }
    }

    fn push(&mut self, rule: &Rule, severity: Severity, path: impl Into<String>, message: impl Into<String>) {
        if severity == Severity::Allowed {
            return;
        }
        let Ok(model_gate) = self.gate_of(rule) else { return };
        self.violations.push(Violation {
            rule: rule.id,
            path: path.into(),
            severity,
            message: message.into(),
            model_gate,
            unverified: rule.evidence == Evidence::Unverified,
        });
    }

    /// The same for a detail known only from hearsay, of a rule that is known better.
    pub(crate) fn add_unverified(&mut self, id: &str, path: impl Into<String>, message: impl Into<String>) {
        let before = self.violations.len();
        self.add(id, path, message);
        for violation in self.violations.iter_mut().skip(before) {
            violation.unverified = true;
        }
    }

    /// The gate to report; an error if the rule does not hold for the model that is known.
    fn gate_of(&self, rule: &Rule) -> Result<Option<&'static str>, ()> {
        match (rule.gate, self.options.model) {
            (None, _) => Ok(None),
            (Some(gate), None) => Ok(Some(gate.models)),
            (Some(gate), Some(model)) => {
                if (gate.holds)(model) {
                    Ok(None)
                } else {
                    Err(())
                }
            }
        }
    }

    /// What was found, in the order of the places.
    pub(crate) fn finish(self) -> Vec<Violation> {
        self.violations
    }
}

pub(super) use anthropic::refuses_system_messages;

/// The rules of a wire, in the order of their numbers.
pub fn rules(wire: Wire) -> &'static [Rule] {
    match wire {
        Wire::OpenaiChat => openai_chat::RULES,
        Wire::OpenaiResponses => openai_responses::RULES,
        Wire::Anthropic => anthropic::RULES,
        Wire::Gemini => gemini::RULES,
        Wire::Bedrock => bedrock::RULES,
        Wire::Scrollback => &[],
    }
}

/// The rules of a wire that no body can show: they are listed, and never found.
pub fn unseen(wire: Wire) -> &'static [&'static str] {
    match wire {
        Wire::Anthropic => anthropic::UNSEEN,
        _ => &[],
    }
}

/// Looks for every breach of the rules of `wire` in a body.
pub fn check(wire: Wire, body: Raw<'_>, options: CheckOptions<'_>) -> Vec<Violation> {
    let mut report = ViolationReport::new(rules(wire), options);
    match wire {
        Wire::OpenaiChat => openai_chat::check(body, &mut report),
        Wire::OpenaiResponses => openai_responses::check(body, &mut report),
        Wire::Anthropic => anthropic::check(body, &mut report),
        Wire::Gemini => gemini::check(body, &mut report),
        Wire::Bedrock => bedrock::check(body, &mut report),
        // The neutral form has no provider that could refuse it.
        Wire::Scrollback => {}
    }
    report.finish()
}

/// The same for a body that was just put together, so that its parts need not be looked for where it is long.
pub(crate) fn check_made<'a>(
    wire: Wire,
    body: Raw<'_>,
    messages: impl Iterator<Item = Raw<'a>>,
    tools: Option<Raw<'a>>,
    options: CheckOptions<'_>,
) -> Vec<Violation> {
    if wire != Wire::OpenaiChat {
        return check(wire, body, options);
    }
    let mut report = ViolationReport::new(rules(wire), options);
    let tools = tools.into_iter().flat_map(Raw::elements);
    openai_chat::check_parts(body, messages, tools, &mut report);
    report.finish()
}
