//! From the text of a flow to the flow: everything is checked before anything runs, and all that is wrong is told at once.

mod agent;
mod callable;
mod context;
mod history;
mod looping;
mod price;
mod prompt;
mod secret;
mod step;
mod text;
mod turns;

use std::collections::BTreeMap;
use std::path::Path;

use scrollback_agent::document::{self, Fields, Node, TextPosition, Value, code, parse_all};
use scrollback_agent::provider::{Catalog, Environment};

use crate::model::{Flow, MicroDollars, QuotaLimits};
use crate::problem::{Code, FlowProblem, Problems};
use crate::settings::{FlowSettings, Set, Setting, SettingOrigin};
pub(crate) use agent::configured_agents;
pub use callable::{NotCallable, callable_model};
use context::{FlowReader, MOST_PROBLEMS, NameScope, Spot};

/// What a flow is read with besides its text.
#[derive(Clone, Copy)]
pub struct ReadOptions<'a> {
    /// What the flow is called if it does not say: its file's name without the ending.
    pub stem: &'a str,
    /// The folder of the file, which paths in it are relative to and may not leave.
    pub folder: &'a Path,
    /// Where prompt files are read.
    pub prompts: Prompts<'a>,
    /// What configuration and flags say.
    pub settings: &'a FlowSettings,
    /// The models, for their prices.
    pub catalog: &'a Catalog,
    /// Where values of headers that name a variable come from.
    pub environment: &'a Environment,
}

/// Where prompt files are read.
#[derive(Clone, Copy)]
pub enum Prompts<'a> {
    /// On disk.
    Disk,
    /// From what a run kept: [`Flow::prompt_files`].
    Kept(&'a BTreeMap<String, String>),
}

/// A flow that was read.
pub struct Read {
    /// The flow.
    pub flow: Flow,
    /// What should be looked at, in the order of the text.
    pub warnings: Vec<FlowProblem>,
    /// Every setting in force, with its source.
    pub settings: Vec<Setting>,
}

/// Largest flow, in bytes: far more than a person writes by hand.
const LARGEST: usize = 1 << 20;
const VERSIONS: [&str; 2] = ["0.1", "1"];

impl Flow {
    /// Reads a flow; everything that is wrong with it otherwise.
    ///
    /// ```
    /// use std::{path::Path, sync::Arc};
    /// use scrollback_agent::provider::{Catalog, Environment};
    /// use scrollback_flow::{Flow, FlowSettings, Prompts, ReadOptions};
    ///
    /// let (settings, catalog) = (FlowSettings::default(), Catalog::default());
    /// let environment: Environment = Arc::new(|_| None);
    /// let source = ReadOptions {
    ///     stem: "trip",
    ///     folder: Path::new("."),
    ///     prompts: Prompts::Disk,
    ///     settings: &settings,
    ///     catalog: &catalog,
    ///     environment: &environment,
    /// };
    /// let text = "version: '1'\nsteps:\n  - name: greet\n    template: 'Hello {{ input }}'\n";
    /// assert_eq!(Flow::read(text, &source).map(|read| read.flow.name).ok().as_deref(), Some("trip"));
    ///
    /// let wrong = "version: '1'\nsteps:\n  - name: greet\n    templat: 'Hello'\n";
    /// let problems = Flow::read(wrong, &source).err().map(|problems| problems.to_string());
    /// assert_eq!(
    ///     problems.as_deref(),
    ///     Some("4:5: steps[0].templat: unknown key; did you mean `template`? [unknown_key]")
    /// );
    /// ```
    pub fn read(text: &str, source: &ReadOptions<'_>) -> Result<Read, Problems> {
        let mut reading = FlowReader::new(text, source);
        let flow = if text.len() > LARGEST {
            let spot = Spot { path: String::new(), at: TextPosition { line: 1, column: 1 } };
            let message = format!("a flow has at most 1 MiB, and this one {} bytes", text.len());
            reading.error(Code::YamlSyntax, &spot, message);
            None
        } else {
            document(text, &mut reading)
        };
        let (errors, warnings) = (sorted(reading.problems), sorted(reading.warnings));
        match flow {
            Some(flow) if errors.is_empty() => Ok(Read { flow, warnings, settings: reading.settings }),
            _ => Err(Problems { errors, warnings }),
        }
    }
}

fn document(text: &str, reading: &mut FlowReader<'_>) -> Option<Flow> {
    secret::check(reading);
    let parsed = parse_all(text);
    reading.problems.extend(parsed.problems);
    let node = parsed.root?;
    let flow = reading.map(&node, "", |fields, reading| flow(fields, &node, reading));
    reading.check_mentions();
    Some(flow)
}

fn flow(fields: &mut Fields<'_, '_>, node: &Node, reading: &mut FlowReader<'_>) -> Flow {
    if node.as_map().is_some() {
        version(fields);
    }
    let name = fields.text("name");
    if let Some(problem) = name.as_deref().and_then(name_problem) {
        fields.problem("name", problem);
    }
    let description = fields.text("description");
    agent::agents(fields.node("agents"), reading);
    let limits = step::limits(fields, reading);
    let steps = if node.as_map().is_some() {
        step::required_steps(fields, "steps", NameScope::default(), reading)
    } else {
        Vec::new()
    };
    let at = node.get("limits").and_then(|limits| limits.get("max_cost_usd")).map_or(node.at, |node| node.at);
    let limits = decided_limits(limits, reading);
    if limits.max_cost.is_some() {
        let spot = Spot { path: "limits.max_cost_usd".into(), at };
        price::check(&steps.iter().collect::<Vec<_>>(), &spot, reading);
    }
    Flow {
        name: name.unwrap_or_else(|| reading.source.stem.into()),
        description,
        agents: std::mem::take(&mut reading.agents),
        steps,
        limits,
        prompt_files: std::mem::take(&mut reading.prompt_files),
    }
}

/// What a run may use: by flag, by the flow, by the configuration.
fn decided_limits(own: QuotaLimits, reading: &mut FlowReader<'_>) -> QuotaLimits {
    let (flags, configured) = (&reading.source.settings.flags, &reading.source.settings.limits);
    let of_flow = |value| Set { value, from: SettingOrigin::Flow };
    let tokens = flags.max_tokens.clone().or(own.max_tokens.map(of_flow)).or(configured.max_tokens.clone());
    let own_cost = own.max_cost.map(|cost| Set { value: cost.dollars(), from: SettingOrigin::Flow });
    let cost = flags.max_cost_usd.clone().or(own_cost).or(configured.max_cost_usd.clone());
    if let Some(set) = &tokens {
        reading.decided("limits.max_tokens", set.value, set.from.clone());
    }
    if let Some(set) = &cost {
        reading.decided("limits.max_cost_usd", set.value, set.from.clone());
    }
    QuotaLimits {
        max_tokens: tokens.map(|set| set.value),
        max_cost: cost.and_then(|set| MicroDollars::from_dollars(set.value)),
    }
}

fn version(fields: &mut Fields<'_, '_>) {
    let Some(node) = fields.node("version") else { return fields.missing("version") };
    match &node.value {
        Value::Text(text) if VERSIONS.contains(&text.as_str()) => {}
        Value::Number(text) if VERSIONS.contains(&text.as_str()) => {
            let message = format!("must be a text; write it in quotes: \"{text}\"");
            fields.problem_of(code::WRONG_TYPE, "version", message);
        }
        _ => {
            fields.word("version", &VERSIONS);
        }
    }
}

/// What is wrong with a name.
fn name_problem(name: &str) -> Option<String> {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let message = "a name begins with a letter or `_`, goes on with letters, digits, `_` or `-`, and has at most 64 of them";
    (!first || !rest || name.len() > 64).then(|| message.into())
}

/// In the order of the text, with the codes of flows.
fn sorted(found: Vec<document::DocumentProblem>) -> Vec<FlowProblem> {
    let mut problems: Vec<FlowProblem> = found.into_iter().map(FlowProblem::from).collect();
    problems.sort_by_key(|problem| problem.at);
    problems.dedup();
    problems.truncate(MOST_PROBLEMS);
    problems
}
