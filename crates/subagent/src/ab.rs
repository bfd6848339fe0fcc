//! Strategies compared: the same tasks under each, and recorded calls rendered by each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use scrollback_agent::between;
use scrollback_core::json::{self, Raw};
use scrollback_lisp::{Env, Memory, Program, Value};
use serde::Serialize;

use super::agent::{InheritedSettings, SubAgent};
use super::compression::{Chosen, Rendered};
use super::error::{SubagentError, SubagentErrorKind};
use super::host::Host;
use super::record::RecordedMission;
use super::show::{Private, Show};
use super::step::Step;
use super::turn::Turn;

/// The text of a result is a fact if it says this much at least: a number of one digit is found anywhere.
const FACT: usize = 3;
/// Pieces of one value that are looked for.
const PIECES: usize = 1000;
/// Standard deviations of a 95 percent interval.
const Z: f64 = 1.96;

/// A task with its answer.
pub struct TrialTask {
    /// What it is called.
    pub id: String,
    /// The mission instead of the agent's.
    pub mission: Option<String>,
    /// The data.
    pub data: BTreeMap<String, Value>,
    answer: ExpectedAnswer,
}

enum ExpectedAnswer {
    Expected(Value),
    Check(Program),
}

fn bad_task(problem: String) -> SubagentError {
    SubagentError::new(SubagentErrorKind::Task, problem)
}

impl TrialTask {
    /// Reads tasks, one JSON object a line: `id`, `mission`, `data`, and `expected` or `check`.
    pub fn read_all(text: &str) -> Result<Vec<TrialTask>, SubagentError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let tasks: Result<Vec<TrialTask>, SubagentError> = lines
            .map(|(at, line)| {
                let told = |problem: String| bad_task(format!("line {}: {problem}", at + 1));
                let raw = json::check(line).map_err(|error| told(error.to_string()))?;
                TrialTask::read(raw, at + 1).map_err(told)
            })
            .collect();
        match tasks {
            Ok(tasks) if tasks.is_empty() => Err(bad_task("there are no tasks".into())),
            other => other,
        }
    }

    fn read(raw: Raw<'_>, number: usize) -> Result<TrialTask, String> {
        const KNOWN: [&str; 5] = ["id", "mission", "data", "expected", "check"];
        if raw.kind() != json::JsonKind::Object {
            return Err(format!("a task must be an object, not {}", raw.kind().name()));
        }
        if let Some((unknown, _)) = raw.members().find(|(name, _)| !KNOWN.contains(&&**name)) {
            return Err(format!("unknown field `{unknown}` (known: {})", KNOWN.join(", ")));
        }
        let text = |name: &str| raw.get(name).and_then(Raw::string).map(std::borrow::Cow::into_owned);
        let data = match raw.get("data") {
            Some(data) => {
                super::case::read_data(data.text().as_bytes()).map_err(|error| error.to_string())?
            }
            None => BTreeMap::new(),
        };
        let answer = match (raw.get("expected"), text("check")) {
            (Some(expected), None) => {
                ExpectedAnswer::Expected(Value::from_json(expected.text()).unwrap_or_default())
            }
            (None, Some(source)) => ExpectedAnswer::Check(
                Program::compile(&source).map_err(|error| format!("check: {}", error.text()))?,
            ),
            _ => return Err("a task needs `expected` or `check`".into()),
        };
        let id = raw
            .get("id")
            .map(|id| id.string().map_or_else(|| id.text().to_string(), std::borrow::Cow::into_owned));
        Ok(TrialTask { id: id.unwrap_or_else(|| number.to_string()), mission: text("mission"), data, answer })
    }

    /// Whether a returned value is the right one.
    pub fn is_right(&self, returned: &Value) -> bool {
        match &self.answer {
            // By what JSON can tell apart: a keyword is its name.
            ExpectedAnswer::Expected(expected) => {
                Value::from_json(&returned.to_json()).as_ref() == Some(expected)
            }
            ExpectedAnswer::Check(program) => {
                let outcome = program.run(&mut Env::new().data("result", returned.clone()));
                outcome.value().is_some_and(Value::is_truthy)
            }
        }
    }
}

/// What one run of a task came to.
#[derive(Clone, Debug)]
struct Trial {
    right: bool,
    turns: usize,
    calls: usize,
    repeated: usize,
    input: u64,
    output: u64,
    cache_read: u64,
    cost: Option<f64>,
    milliseconds: f64,
}

/// A mean with its 95 percent interval; there is no interval where one run says nothing about others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Its interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
}

impl Mean {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let count = values.len() as f64;
        if values.is_empty() {
            return Mean::default();
        }
        let mean = values.iter().sum::<f64>() / count;
        let interval = (values.len() > 1).then(|| {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let half = Z * (variance / count).sqrt();
            (mean - half, mean + half)
        });
        Mean { mean, interval }
    }
}

/// What a strategy came to over all runs.
#[derive(Clone, Debug, Serialize)]
pub struct StrategySummary {
    /// The strategy, as it was asked for.
    pub compression: String,
    /// How many runs.
    pub runs: usize,
    /// How many gave the right answer.
    pub right: usize,
    /// The share of right answers, between which it lies with 95 percent (Wilson).
    pub right_interval: (f64, f64),
    /// Turns of a run.
    pub turns: Mean,
    /// Tool calls of a run.
    pub tool_calls: Mean,
    /// Calls in all runs that repeated an earlier one of their run.
    pub repeated_calls: usize,
    /// Input tokens of a run.
    pub tokens_in: Mean,
    /// Output tokens of a run.
    pub tokens_out: Mean,
    /// Input tokens read from a cache, of a run.
    pub cache_read: Mean,
    /// Dollars of a run, where prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Mean>,
    /// Milliseconds of a run.
    pub milliseconds: Mean,
    /// Input tokens of all runs together.
    pub total_tokens_in: u64,
    /// The runs that gave no right answer, with why.
    pub wrong: Vec<Wrong>,
}

/// A run without the right answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wrong {
    /// The task.
    pub task: String,
    /// What it gave instead.
    pub why: String,
}

impl StrategySummary {
    fn of(compression: &str, trials: &[Trial], wrong: Vec<Wrong>) -> Self {
        let mean = |pick: fn(&Trial) -> f64| Mean::of(trials.iter().map(pick));
        let right = trials.iter().filter(|trial| trial.right).count();
        let costs: Option<Vec<f64>> = trials.iter().map(|trial| trial.cost).collect();
        StrategySummary {
            compression: compression.into(),
            runs: trials.len(),
            right,
            right_interval: wilson(right, trials.len()),
            turns: mean(|trial| trial.turns as f64),
            tool_calls: mean(|trial| trial.calls as f64),
            repeated_calls: trials.iter().map(|trial| trial.repeated).sum(),
            tokens_in: mean(|trial| trial.input as f64),
            tokens_out: mean(|trial| trial.output as f64),
            cache_read: mean(|trial| trial.cache_read as f64),
            cost_usd: costs.map(|costs| Mean::of(costs.into_iter())),
            milliseconds: mean(|trial| trial.milliseconds),
            total_tokens_in: trials.iter().map(|trial| trial.input).sum(),
            wrong,
        }
    }
}

/// The interval of a share, by Wilson's score.
fn wilson(right: usize, all: usize) -> (f64, f64) {
    if all == 0 {
        return (0.0, 1.0);
    }
    let (n, share) = (all as f64, right as f64 / all as f64);
    let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt() / (1.0 + Z * Z / n);
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

/// Runs every task so often under a strategy, one after the other.
pub async fn compare(
    agent: &SubAgent,
    tasks: &[TrialTask],
    strategy: (&str, &Chosen),
    repeat: usize,
    settings: &InheritedSettings,
    host: &Arc<Host>,
) -> Result<StrategySummary, SubagentError> {
    let settings = InheritedSettings { compression: Some(strategy.1.clone()), ..settings.clone() };
    let (mut trials, mut wrong) = (Vec::new(), Vec::new());
    for task in tasks {
        let agent = match &task.mission {
            Some(mission) => agent.clone().with_mission(mission),
            None => Ok(agent.clone()),
        };
        for _ in 0..repeat.max(1) {
            let agent = match &agent {
                Ok(agent) => agent,
                Err(error) => {
                    wrong.push(Wrong { task: task.id.clone(), why: error.to_string() });
                    continue;
                }
            };
            let began = host.clock.now();
            let step = agent.run(&task.data, &settings, host, &mut host.journal()).await?;
            let milliseconds = between(began, host.clock.now()).as_secs_f64() * 1000.0;
            let right = step.outcome.as_ref().is_ok_and(|value| task.is_right(value));
            if !right {
                let why = match &step.outcome {
                    Ok(value) => format!("returned {}", RESULT.value(value)),
                    Err(fail) => format!("{}: {}", fail.reason.as_str(), fail.message),
                };
                wrong.push(Wrong { task: task.id.clone(), why });
            }
            trials.push(trial(&step, right, milliseconds));
        }
    }
    Ok(StrategySummary::of(strategy.0, &trials, wrong))
}

/// How values are shown.
const RESULT: Show = Show { limit: 3, width: 80, private: Private::Shown };

fn trial(step: &Step, right: bool, milliseconds: f64) -> Trial {
    Trial {
        right,
        turns: step.turns.len(),
        calls: step.turns.iter().map(|turn| turn.tool_calls.len()).sum(),
        repeated: repeated_calls(&step.turns),
        input: step.usage.input,
        output: step.usage.output,
        cache_read: step.usage.cache_read,
        cost: step.usage.cost_usd,
        milliseconds,
    }
}

/// How many calls repeat an earlier one, name and arguments alike.
pub fn repeated_calls(turns: &[Turn]) -> usize {
    let mut seen = BTreeSet::new();
    let calls = turns.iter().flat_map(|turn| &turn.tool_calls);
    calls.filter(|call| !seen.insert((call.name.clone(), Value::Map(call.args.clone()).to_string()))).count()
}

/// A recorded mission under a strategy.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayedMission {
    /// The strategy, as it was asked for.
    pub compression: String,
    /// How many calls were rendered.
    pub calls: usize,
    /// Input tokens of all of them.
    pub tokens: usize,
    /// Input tokens of all of them uncompressed.
    pub tokens_uncompressed: usize,
    /// What the last call's uncompressed request says, and this one's does not.
    pub facts_lost: Vec<Fact>,
}

/// Something that was found out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fact {
    /// The turn.
    pub turn: usize,
    /// `tool_result`, `print` or `value`.
    pub kind: &'static str,
    /// How it was said.
    pub text: String,
}

/// Renders every recorded call under a strategy. No model is asked.
pub fn replay(recorded: &RecordedMission, strategy: (&str, &Chosen)) -> ReplayedMission {
    let (tokens, before, lost) = recorded_calls(recorded).fold((0, 0, Vec::new()), |(sum, all, _), turns| {
        let memory = turns.last().map_or_else(Memory::default, |turn| turn.memory.clone());
        let rendered = strategy.1.build().to_messages(turns, &memory, &recorded.input);
        let whole = Chosen::default().build().to_messages(turns, &memory, &recorded.input);
        let counted = rendered.stats.tokens;
        let (after, before) = counted.map_or((0, 0), |tokens| (tokens.after, tokens.before));
        (sum + after, all + before, facts_lost(turns, &whole, &rendered))
    });
    ReplayedMission {
        compression: strategy.0.into(),
        calls: recorded_calls(recorded).count(),
        tokens,
        tokens_uncompressed: before,
        facts_lost: lost,
    }
}

/// The turns there were before each call.
fn recorded_calls(recorded: &RecordedMission) -> impl Iterator<Item = &[Turn]> {
    (0..recorded.turns.len()).filter_map(|count| recorded.turns.get(..count))
}

/// What one request says and another does not: every piece of a result or value, and every printed text.
fn facts_lost(turns: &[Turn], whole: &Rendered, rendered: &Rendered) -> Vec<Fact> {
    let text = |rendered: &Rendered| {
        rendered.messages.iter().map(|message| &*message.text).collect::<Vec<_>>().join("\n")
    };
    let (whole, shown) = (text(whole), text(rendered));
    let mut lost = BTreeSet::new();
    for turn in turns {
        let results = turn.tool_calls.iter().filter_map(|call| call.result.as_ref().ok());
        let results = results.flat_map(pieces).map(|text| ("tool_result", text));
        let prints = turn.prints.iter().map(|print| ("print", print.clone()));
        let values = turn.result.iter().flat_map(pieces).map(|text| ("value", text));
        let said = results
            .chain(prints)
            .chain(values)
            .filter(|(_, text)| text.len() >= FACT && whole.contains(text));
        let missing = said.filter(|(_, text)| !shown.contains(text));
        lost.extend(missing.map(|(kind, text)| Fact { turn: turn.number, kind, text }));
    }
    lost.into_iter().collect()
}

/// The texts and numbers a value is made of, as far as a person would read.
fn pieces(value: &Value) -> Vec<String> {
    let (mut open, mut found) = (vec![value], Vec::new());
    while let Some(value) = open.pop() {
        match value {
            _ if found.len() >= PIECES => break,
            Value::Vector(items) => open.extend(items.iter()),
            Value::Set(items) => open.extend(items.iter()),
            Value::Map(entries) => open.extend(entries.iter().map(|(_, value)| value)),
            Value::Str(text) => found.push(text.as_str().to_string()),
            Value::Nil | Value::Bool(_) | Value::Function(_) | Value::Var(_) => {}
            other => found.push(other.to_string()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn intervals_hold_the_mean_and_stay_within_bounds() {
        let mean = Mean::of([1.0, 2.0, 3.0].into_iter());
        let (low, high) = mean.interval.unwrap();
        assert!((mean.mean - 2.0).abs() < 1e-9 && low < 2.0 && high > 2.0);
        assert_eq!(Mean::of([5.0].into_iter()).interval, None);
        let (low, high) = wilson(3, 3);
        assert!(low > 0.4 && (high - 1.0).abs() < 1e-9, "{low} {high}");
        assert_eq!(wilson(0, 0), (0.0, 1.0));
    }

    #[test]
    fn tasks_are_judged_by_value_or_by_a_check() {
        let tasks = TrialTask::read_all(
            "{\"data\": {}, \"expected\": {\"n\": 3}}\n\n{\"id\": \"b\", \"check\": \"(> (count result) 1)\"}",
        )
        .unwrap();
        assert!(tasks[0].is_right(&Value::read("{:n 3}").unwrap()));
        assert!(!tasks[0].is_right(&Value::read("{:n 4}").unwrap()));
        assert!(tasks[1].is_right(&Value::read("[1 2]").unwrap()) && tasks[1].id == "b");
        for bad in ["", "{}", "[1]", "{\"expected\": 1, \"chek\": 2}", "{\"check\": \"(\"}"] {
            assert!(TrialTask::read_all(bad).is_err(), "{bad}");
        }
    }
}
