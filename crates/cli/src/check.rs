//! `scrollback check`: whether a provider would accept a list, by rule and place.

use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Reset, Style};
use scrollback_agent::config;
use scrollback_core::InputFormat;
use scrollback_core::json::{self, Raw};
use scrollback_core::model::ModelName;
use scrollback_core::transcript;
use scrollback_core::wire::check::{CheckOptions, Severity, Strictness, Violation, check};
use scrollback_core::wire::repair::{Repaired, repair};
use scrollback_core::wire::{ParseOptions, Wire, list_key};
use serde::Serialize;
use serde_json::Value;

use crate::args::CheckArgs;
use crate::failure::{Failure, INVALID, USAGE};
use crate::load::{Conversations, LoadOptions, LoadedInput, WhichConversation, model_of_body, no_messages};
use crate::{answer, batch, convert, input};

/// What is asked of a list.
pub(crate) struct CheckJob {
    pub(crate) wire: Wire,
    pub(crate) model: Option<ModelName>,
    pub(crate) dialect: Option<String>,
    pub(crate) strictness: Strictness,
    pub(crate) repair: RepairFlag,
    pub(crate) how: LoadOptions,
}

/// Whether the list shall be repaired.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepairFlag {
    No,
    Yes,
}

/// The `--json` object.
#[derive(Serialize)]
struct CheckJson {
    wire: Wire,
    valid: bool,
    violations: Vec<Violation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repairs: Option<Value>,
    /// What could not be repaired.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<Violation>,
    #[serde(flatten)]
    which: WhichConversation,
}

/// A list, judged.
pub(crate) struct Judged {
    wire: Wire,
    valid: bool,
    violations: Vec<Violation>,
    repaired: Option<Repaired>,
    strictness: Strictness,
    which: WhichConversation,
}

pub(crate) fn run(args: &CheckArgs, json: bool) -> Result<ExitCode, Failure> {
    let config = config::load()?;
    if let Some(file) = &args.input.batch {
        return batch::check(file, &config).map(|()| ExitCode::SUCCESS);
    }
    let named = input::wire_named(args.wire.as_deref())?;
    let model = input::model_named(args.input.model.as_deref())?;
    let how = LoadOptions::of(&args.input)?;
    let job = |wire| CheckJob {
        wire,
        dialect: config.dialect(model.as_ref()),
        model: model.clone(),
        strictness: if args.strict { Strictness::Strict } else { Strictness::Lenient },
        repair: if args.repair { RepairFlag::Yes } else { RepairFlag::No },
        how,
    };
    let previous = args.previous.as_deref().map(input::read).transpose()?;
    let previous = previous.as_deref().map(input::check).transpose()?;
    let file = args.input.file.as_deref().unwrap_or("-".as_ref());
    let which = if args.input.all { Conversations::All } else { Conversations::One };
    let mut code = ExitCode::SUCCESS;
    for judged in judge_file(file, named, how, which, &job, previous)? {
        judged.tell(json)?;
        if judged.is_broken() {
            code = ExitCode::from(INVALID);
        }
    }
    Ok(code)
}

/// Judges a file: a body of the wire, or each of the wanted conversations printed as one. Without a wire it is the one the
/// messages are in.
fn judge_file(
    file: &Path,
    named: Option<Wire>,
    how: LoadOptions,
    which: Conversations,
    job: &impl Fn(Wire) -> CheckJob,
    previous: Option<Raw<'_>>,
) -> Result<Vec<Judged>, Failure> {
    let of_loaded = |loaded: Vec<LoadedInput>| {
        let judged = |loaded: &LoadedInput| {
            loaded.say_which(which);
            let judged = job(named.unwrap_or(loaded.wire)).run_other(loaded, previous)?;
            Ok(Judged { which: loaded.which_members(), ..judged })
        };
        loaded.iter().map(judged).collect::<Result<Vec<_>, Failure>>()
    };
    if file.is_dir() {
        return of_loaded(how.load_asked(file, which)?);
    }
    let bytes = input::read(file)?;
    let written = match (named, how.from) {
        (Some(wire), _) | (None, Some(InputFormat::Wire(wire))) => Some(wire),
        (None, _) => None,
    };
    let other = match written {
        Some(wire) => job(wire).is_other(&bytes),
        None => {
            how.from.is_some()
                || std::str::from_utf8(&bytes).is_ok_and(|text| transcript::detect(text).is_some())
        }
    };
    if other {
        return of_loaded(how.load_bytes_asked(&bytes, file, which)?);
    }
    let body = input::check(&bytes).map_err(|failure| failure.about(file))?;
    let Some(wire) = written.or_else(|| Wire::detect(body)) else {
        return Err(Failure::from(no_messages(body)).about(file));
    };
    let job = job(wire);
    let judged = job.run_body(body, previous).map_err(|failure| failure.about(file))?;
    if let Some(seen) = job.looks_like(body).filter(|seen| *seen != Wire::OpenaiChat && named.is_some()) {
        input::note(&format!("this looks like {seen} (--from {seen} converts it first)"));
    }
    Ok(vec![judged])
}

/// A check without a wire is a mistake of the command line.
pub(crate) fn no_wire() -> Failure {
    let known: Vec<&str> = Wire::ALL.iter().map(|wire| wire.name()).collect();
    let message = format!("name the wire to check for: --for WIRE (known: {})", known.join(", "));
    Failure::new(USAGE, "usage", message).with("known", known)
}

impl CheckJob {
    /// Whether a file is in another format than the one it shall be checked for.
    pub(crate) fn is_other(&self, bytes: &[u8]) -> bool {
        match self.how.from {
            Some(from) => from != InputFormat::Wire(self.wire),
            None => std::str::from_utf8(bytes).is_ok_and(|text| transcript::detect(text).is_some()),
        }
    }

    /// The wire a body seems to be in, if that is another one.
    fn looks_like(&self, body: Raw<'_>) -> Option<Wire> {
        Wire::detect(body).filter(|seen| *seen != self.wire && self.how.from.is_none())
    }

    /// Judges what another wire or transcript becomes on this one.
    pub(crate) fn run_other(
        &self,
        loaded: &LoadedInput,
        previous: Option<Raw<'_>>,
    ) -> Result<Judged, Failure> {
        let body = convert::convert(loaded, self.wire).body(self.wire, None);
        input::check(body.as_bytes()).map(|body| self.judge(body, previous))
    }

    /// Judges a body of the wire.
    pub(crate) fn run_body(&self, body: Raw<'_>, previous: Option<Raw<'_>>) -> Result<Judged, Failure> {
        // What cannot be read at all breaks no rule in particular.
        self.wire.parse(body, &ParseOptions::default()).map_err(|error| {
            let hint = self.looks_like(body).map_or_else(String::new, |seen| {
                format!(" (this looks like {seen}: --from {seen} converts it first)")
            });
            Failure::from(error).hinting(&hint)
        })?;
        if let Some(take) = self.how.take {
            let short = first(self.wire, body, take);
            return input::check(short.as_bytes()).map(|body| self.judge(body, previous));
        }
        Ok(self.judge(body, previous))
    }

    fn judge(&self, body: Raw<'_>, previous: Option<Raw<'_>>) -> Judged {
        let dialect = self.dialect.as_deref();
        let model = self.model.clone().or_else(|| model_of_body(body, self.wire));
        let options = CheckOptions { model: model.as_ref(), previous, dialect, ..CheckOptions::default() };
        let violations = check(self.wire, body, options);
        let valid = !violations.iter().any(|violation| violation.is_fatal(self.strictness));
        let repaired =
            (self.repair == RepairFlag::Yes).then(|| repair(self.wire, body, options, self.strictness));
        Judged {
            wire: self.wire,
            valid,
            violations,
            repaired,
            strictness: self.strictness,
            which: WhichConversation::default(),
        }
    }
}

/// Findings of one rule together, in the order of the first of each.
fn grouped(violations: &[Violation]) -> Vec<Vec<&Violation>> {
    let mut groups: Vec<Vec<&Violation>> = Vec::new();
    for violation in violations {
        let same = |group: &&mut Vec<&Violation>| {
            group
                .first()
                .is_some_and(|first| first.rule == violation.rule && first.severity == violation.severity)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(violation),
            None => groups.push(vec![violation]),
        }
    }
    groups
}

/// The body with only its first messages.
fn first(wire: Wire, body: Raw<'_>, take: usize) -> String {
    let shorten = |list: Raw<'_>| {
        let kept: Vec<&str> = list.elements().take(take).map(Raw::text).collect();
        format!("[{}]", kept.join(","))
    };
    with_list(wire, body, shorten)
}

/// A body with its list printed anew, all else in its own spelling.
fn with_list(wire: Wire, body: Raw<'_>, print: impl Fn(Raw<'_>) -> String) -> String {
    if body.kind() == json::JsonKind::Array {
        return print(body);
    }
    let member = |(name, value): (Raw<'_>, Raw<'_>)| {
        let listed = json::unescape(name.text()) == list_key(wire) && value.kind() == json::JsonKind::Array;
        let value = if listed { print(value) } else { json::one_line(value).into_owned() };
        format!("{}:{value}", name.text())
    };
    let members: Vec<String> = body.spelled_members().map(member).collect();
    format!("{{{}}}", members.join(","))
}

/// A body with one message a line, as every command prints it.
fn lines(wire: Wire, body: &str) -> String {
    let Ok(raw) = json::check(body) else { return body.into() };
    let list = |list: Raw<'_>| {
        let lines: Vec<_> = list.elements().map(json::one_line).collect();
        if lines.is_empty() { "[]".into() } else { format!("[\n{}\n]", lines.join(",\n")) }
    };
    with_list(wire, raw, list)
}

impl Judged {
    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        let answer = |repairs| CheckJson {
            wire: self.wire,
            valid: self.valid,
            violations: self.violations.clone(),
            repairs,
            left: self.repaired.as_ref().map_or_else(Vec::new, |repaired| repaired.left.clone()),
            which: self.which,
        };
        let Some(repaired) = &self.repaired else { return answer::to_json(&answer(None)) };
        let body = input::check(repaired.body.as_bytes())?;
        let repairs = serde_json::to_value(&repaired.repairs).unwrap_or_default();
        answer::with_text(self.wire, body, &answer(Some(repairs)))
    }

    /// Prints the judgement, or what repairing made of the list.
    fn tell(&self, json: bool) -> Result<(), Failure> {
        match &self.repaired {
            _ if json => input::print(&format!("{}\n", self.to_json()?)),
            Some(repaired) => {
                input::print(&format!("{}\n", lines(self.wire, &repaired.body)))?;
                self.report_repairs(repaired);
                Ok(())
            }
            None => self.print(),
        }
    }

    /// Whether the list is invalid and stays so.
    fn is_broken(&self) -> bool {
        match &self.repaired {
            Some(repaired) => !repaired.left.is_empty(),
            None => !self.valid,
        }
    }

    fn print(&self) -> Result<(), Failure> {
        use std::fmt::Write as _;
        let mut out = String::new();
        let (red, yellow, dim) =
            (AnsiColor::Red.on_default().bold(), AnsiColor::Yellow.on_default(), Style::new().dimmed());
        for alike in grouped(&self.violations) {
            let Some(violation) = alike.first() else { continue };
            let style = if violation.severity == Severity::Refused { red } else { yellow };
            let gate = violation.model_gate.map_or_else(String::new, |gate| format!(" [only {gate}]"));
            let mark = if violation.unverified { " [unverified]" } else { "" };
            let more = match alike.len() - 1 {
                0 => String::new(),
                1 => format!(" (and at {})", alike.last().map_or("", |last| &last.path)),
                more => format!(
                    " (and at {more} other places, last {})",
                    alike.last().map_or("", |last| &last.path)
                ),
            };
            let _ = writeln!(
                out,
                "{style}{} {:<6}{Reset} {}  {}{more}{dim}{gate}{mark}{Reset}",
                violation.severity, violation.rule, violation.path, violation.message
            );
        }
        let refused = self.violations.iter().filter(|one| one.is_fatal(self.strictness)).count();
        let verdict = match (self.valid, self.violations.len()) {
            (true, 0) => format!("valid for {}", self.wire),
            (true, 1) => format!("valid for {}, one remark", self.wire),
            (true, others) => format!("valid for {}, {others} remarks", self.wire),
            (false, _) => format!("not valid for {}: {refused} refused (--repair fixes this)", self.wire),
        };
        input::print_styled(&format!("{out}{verdict}\n"))
    }

    fn report_repairs(&self, repaired: &Repaired) {
        use std::io::Write as _;
        let mut err = anstream::stderr().lock();
        for repair in &repaired.repairs {
            let _ = writeln!(err, "{} at {}: {}", repair.rule, repair.path, repair.action);
        }
        for violation in &repaired.left {
            let _ = writeln!(
                err,
                "{} at {} could not be repaired: {}",
                violation.rule, violation.path, violation.message
            );
        }
        if repaired.repairs.is_empty() && repaired.left.is_empty() {
            let _ = writeln!(err, "valid for {}, nothing to repair", self.wire);
        }
    }
}
