//! Running one program: the interpreter computes on a thread of its own, and its tool calls are made side by side.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use scrollback_agent::BoxFuture;
use scrollback_agent::runner::AttemptUsage;
use scrollback_lisp::{
    CancelToken, Clock, Env, Error, Limits, Outcome, PendingCall, Program, Reason, Run, RunStep, Value,
};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::agent::{InheritedSettings, SubAgent};
use super::host::Host;
use super::plan::Family;
use super::tools::{AgentTool, AwaitedCall, FinishedCall};

/// What the tool calls of one program need.
pub(crate) struct Work {
    pub(crate) host: Arc<Host>,
    pub(crate) tools: Arc<BTreeMap<String, AgentTool>>,
    pub(crate) limits: Limits,
    pub(crate) cancel: CancelToken,
    pub(crate) attempt: Attempt,
    /// What agents that are called inherit.
    pub(crate) settings: InheritedSettings,
    pub(crate) family: Family,
    /// The conversation, for spans.
    pub(crate) conversation: String,
    /// With what the ids of calls begin.
    pub(crate) call_prefix: String,
}

/// Whether a program was begun before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It was not.
    First,
    /// It was, and it is unknown which of its calls were made.
    Again,
}

/// An agent that was called.
#[derive(Clone)]
pub(crate) struct Nested {
    pub(crate) trace_id: Option<Uuid>,
    pub(crate) result: Result<Value, String>,
    pub(crate) spent: AttemptUsage,
}

/// The result of a program.
pub(crate) struct Played {
    /// What the interpreter says; an error if it never ran.
    pub(crate) outcome: Result<Box<Outcome>, Error>,
    /// The agents it called.
    pub(crate) nested: Vec<Nested>,
}

/// Stops the interpreter when its caller is dropped.
struct Guard(CancelToken);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Work {
    /// Runs a program to its end. Dropping the answer stops it and its tools.
    pub(crate) async fn play(self: &Arc<Self>, source: &str, env: Env) -> Played {
        let program = match Program::compile(source) {
            Ok(program) => program,
            Err(error) => return Played { outcome: Err(error), nested: Vec::new() },
        };
        let _guard = Guard(self.cancel.clone());
        let mut run = program.start(env.limits(self.limits.clone()).clock(stopwatch()).cancel(&self.cancel));
        let (mut answers, mut nested, mut made) = (Vec::new(), Vec::new(), 0);
        loop {
            let (same, step) = match resume(run, answers).await {
                Ok(ran) => ran,
                Err(error) => return Played { outcome: Err(error), nested },
            };
            run = same;
            match step {
                RunStep::Done(outcome) => return Played { outcome: Ok(outcome), nested },
                RunStep::Call(calls) => {
                    let first = made;
                    made += calls.len();
                    let answered = self.answer(calls, first).await;
                    (answers, nested) = answered.into_iter().fold((Vec::new(), nested), |mut all, one| {
                        all.0.push(one.result);
                        all.1.extend(one.child);
                        all
                    });
                }
            }
        }
    }

    /// Makes calls side by side; the answers come in the order of the calls.
    async fn answer(self: &Arc<Self>, calls: Vec<PendingCall>, first: usize) -> Vec<FinishedCall> {
        let lost = || FinishedCall { result: Err("the tool was stopped".into()), child: None };
        let mut answers: Vec<FinishedCall> = calls.iter().map(|_| lost()).collect();
        let mut running = JoinSet::new();
        for (at, call) in calls.into_iter().enumerate() {
            let id = format!("{}_{}", self.call_prefix, first + at);
            let waiting = AwaitedCall { id, name: call.name, args: call.args };
            let work = Arc::clone(self);
            running.spawn(async move { (at, work.call(waiting).await) });
        }
        while let Some(ended) = running.join_next().await {
            if let Ok((at, answered)) = ended
                && let Some(place) = answers.get_mut(at)
            {
                *place = answered;
            }
        }
        answers
    }

    /// Runs another agent, as a call of this one.
    pub(crate) fn run_nested(
        &self,
        agent: Arc<SubAgent>,
        data: BTreeMap<String, Value>,
    ) -> BoxFuture<'static, Nested> {
        let (host, settings) = (Arc::clone(&self.host), agent.settings.or(&self.settings));
        let family = self.family.child(&agent);
        Box::pin(async move {
            let mut journal = host.journal();
            match agent.run_in(&data, settings, &host, family, &mut journal).await {
                Err(bad) => {
                    Nested { trace_id: None, result: Err(bad.to_string()), spent: AttemptUsage::default() }
                }
                Ok(step) => {
                    let result =
                        step.outcome.map_err(|fail| format!("{}: {}", fail.reason.as_str(), fail.message));
                    Nested { trace_id: Some(step.trace_id), result, spent: step.usage }
                }
            }
        })
    }
}

/// The time programs are measured by: the machine's, whatever clock the mission believes in.
pub(crate) fn stopwatch() -> Clock {
    let began = Instant::now();
    Arc::new(move || began.elapsed())
}

/// Lets the interpreter go on, on a thread where it may compute.
async fn resume(mut run: Run, answers: Vec<Result<Value, String>>) -> Result<(Run, RunStep), Error> {
    let ran = tokio::task::spawn_blocking(move || {
        let step = run.resume(answers);
        (run, step)
    });
    ran.await.map_err(|_| Error {
        reason: Reason::RuntimeError,
        message: "the interpreter was stopped".into(),
        hint: None,
        at: None,
        form: None,
        cause: None,
        value: None,
    })
}
