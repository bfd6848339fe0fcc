//! A `ReAct` agent: it thinks, acts, observes, and in the end answers. Its trajectory goes on from query to query.

mod extract;
mod text;

use scrollback_core::Time;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::error::{AgentError, AgentErrorKind};
use crate::journal::Journal;
use crate::provider::ResponseFormat;
use crate::runner::{
    AttemptUsage, CallReport, CannotResume, Evaluated, Evaluation, EvaluationEnd, EvaluationError,
    EvaluationErrorKind, FailurePhase, Prompt, Question, Round, Runner, ToolReport,
};
use crate::trajectory::{Step, steps};

/// How the model says what it wants to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReactMode {
    /// By calling tools.
    #[default]
    Native,
    /// By a JSON object in its text, for models that cannot call tools.
    Text,
}

/// Whether the answer is asked for once more at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extract {
    /// Where there is none yet, or where it shall have fields.
    #[default]
    Auto,
    /// In any case.
    Always,
    /// Never.
    Never,
}

/// How an agent thinks and answers.
#[derive(Clone, Debug)]
pub struct React {
    /// How the model says what it wants to do.
    pub mode: ReactMode,
    /// How often it may be asked for the next step.
    pub max_iterations: u32,
    /// Whether the answer is asked for once more.
    pub extract: Extract,
    /// The fields the answer shall have.
    pub output: Option<ResponseFormat>,
}

impl Default for React {
    fn default() -> Self {
        React { mode: ReactMode::Native, max_iterations: 10, extract: Extract::Auto, output: None }
    }
}

/// Why a query came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// The model answered.
    Answer,
    /// It said that it had finished.
    Finish,
    /// It was asked often enough.
    MaxIterations,
    /// Something failed.
    Error,
    /// The time was up.
    Deadline,
    /// More was used than may be.
    Budget,
    /// A person is asked.
    Paused,
    /// The caller asked to stop.
    Interrupted,
}

/// How a query stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryStatus {
    /// It has its answer.
    Done,
    /// It has none.
    Failed,
    /// It waits for a person.
    Paused,
}

/// The result of a query.
#[derive(Clone, Debug)]
pub struct SessionResult {
    /// The answer.
    pub answer: Option<String>,
    /// The answer's fields, where they were asked for.
    pub output: Option<Value>,
    /// How it stands.
    pub status: QueryStatus,
    /// Why it came to its end.
    pub stopped: Stopped,
    /// What failed.
    pub error: Option<EvaluationError>,
    /// What a person is asked.
    pub question: Option<Question>,
    /// The evaluation.
    pub evaluation_id: Uuid,
    /// How often the model was asked for the next step.
    pub iterations: u32,
    /// The tools that were called, by name.
    pub tools: Vec<(String, ToolReport)>,
    /// The steps of this query.
    pub steps: Vec<Step>,
    /// What it used.
    pub usage: AttemptUsage,
    /// The requests.
    pub calls: Vec<CallReport>,
}

/// An agent in a conversation. One query at a time; a second waits.
pub struct AgentSession {
    /// Its id.
    pub session_id: String,
    /// Whom it is with: the recipient of its conversation.
    pub user_id: Option<String>,
    /// When it began.
    pub started_at: Time,
    /// What the agent is called.
    pub name: String,
    /// Its instructions.
    pub system: Option<String>,
    runner: Runner,
    react: React,
    journal: Mutex<Journal>,
}

impl AgentSession {
    /// A session that writes to a journal.
    pub fn new(
        name: impl Into<String>,
        system: Option<String>,
        runner: Runner,
        react: React,
        journal: Journal,
    ) -> Self {
        AgentSession {
            session_id: Uuid::now_v7().to_string(),
            user_id: journal.recipient().map(ToString::to_string),
            started_at: runner.clock.now(),
            name: name.into(),
            system,
            runner,
            react,
            journal: Mutex::new(journal),
        }
    }

    /// Asks the agent something.
    pub async fn query(&self, text: &str) -> Result<SessionResult, AgentError> {
        if text.trim().is_empty() {
            let message = "the query is blank; say what the agent shall do";
            return Err(AgentError::new(AgentErrorKind::BlankQuery, message));
        }
        let mut journal = self.journal.lock().await;
        let prompt = self.prompt(text);
        let mut evaluation = Evaluation::new(&self.runner, &mut journal, &prompt);
        let outcome = match evaluation.begin().await {
            Ok(()) => self.react.run(&mut evaluation).await,
            Err(error) => LoopEnd::failed(error),
        };
        Ok(finish(evaluation, outcome).await)
    }

    /// Goes on with a query that has no answer yet; `answer` is what a person answered, where one was asked.
    pub async fn resume(&self, answer: Option<&str>) -> Result<SessionResult, CannotResume> {
        let mut journal = self.journal.lock().await;
        let prompt = self.prompt("");
        let mut evaluation = Evaluation::reopen(&self.runner, &mut journal, &prompt, answer).await?;
        let outcome = match evaluation.go_on().await {
            Ok(None) => self.react.run(&mut evaluation).await,
            Ok(Some(question)) => LoopEnd::paused(question),
            Err(error) => LoopEnd::failed(error),
        };
        Ok(finish(evaluation, outcome).await)
    }

    /// Starts a new conversation; the old one stays where it is, and is returned.
    pub async fn reset(&self, journal: Journal) -> Journal {
        std::mem::replace(&mut *self.journal.lock().await, journal)
    }

    /// Looks at what is recorded.
    pub async fn with_journal<T>(&self, look: impl FnOnce(&Journal) -> T) -> T {
        look(&*self.journal.lock().await)
    }

    fn prompt(&self, text: &str) -> Prompt {
        Prompt {
            name: self.name.clone(),
            system: self.system.clone(),
            user: text.into(),
            response_format: None,
        }
    }
}

/// How a loop ended.
struct LoopEnd {
    stopped: Stopped,
    ended: Result<EvaluationEnd, EvaluationError>,
}

impl LoopEnd {
    fn failed(error: EvaluationError) -> Self {
        let stopped = match (error.kind, error.phase) {
            (EvaluationErrorKind::Interrupted, _) => Stopped::Interrupted,
            (EvaluationErrorKind::DeadlineBeforeRetry, _) | (_, FailurePhase::Deadline) => Stopped::Deadline,
            (_, FailurePhase::Budget) => Stopped::Budget,
            _ => Stopped::Error,
        };
        LoopEnd { stopped, ended: Err(error) }
    }

    fn paused(question: Question) -> Self {
        LoopEnd { stopped: Stopped::Paused, ended: Ok(EvaluationEnd::Paused(question)) }
    }
}

impl React {
    /// Iterates until there is an answer.
    async fn run(&self, evaluation: &mut Evaluation<'_>) -> LoopEnd {
        match self.iterate(evaluation).await {
            Ok((stopped, ended)) => match self.answered(evaluation, stopped, ended).await {
                Ok(ended) => LoopEnd { stopped, ended: Ok(ended) },
                Err(error) if error.kind == EvaluationErrorKind::NoAnswer => {
                    LoopEnd { stopped, ended: Err(error) }
                }
                Err(error) => LoopEnd::failed(error),
            },
            Err(error) => LoopEnd::failed(error),
        }
    }

    async fn iterate(
        &self,
        evaluation: &mut Evaluation<'_>,
    ) -> Result<(Stopped, Option<EvaluationEnd>), EvaluationError> {
        while evaluation.rounds < self.max_iterations {
            let most = evaluation.runner.max_rounds;
            if evaluation.rounds >= most {
                return Err(EvaluationError::too_many_rounds(most));
            }
            let round = match self.mode {
                ReactMode::Native => evaluation.round().await?,
                ReactMode::Text => match text::round(evaluation).await? {
                    Some(round) => round,
                    None => return Ok((Stopped::Finish, None)),
                },
            };
            match round {
                Round::Replied(text) => {
                    return Ok((Stopped::Answer, Some(EvaluationEnd::Replied { text, output: None })));
                }
                Round::Paused(question) => {
                    return Ok((Stopped::Paused, Some(EvaluationEnd::Paused(question))));
                }
                Round::Acted => {}
            }
        }
        Ok((Stopped::MaxIterations, None))
    }

    /// The answer, asked for once more where it is missing or shall have fields.
    async fn answered(
        &self,
        evaluation: &mut Evaluation<'_>,
        stopped: Stopped,
        ended: Option<EvaluationEnd>,
    ) -> Result<EvaluationEnd, EvaluationError> {
        if let Some(paused @ EvaluationEnd::Paused(_)) = ended {
            return Ok(paused);
        }
        let extracts = match self.extract {
            Extract::Auto => ended.is_none() || self.output.is_some(),
            Extract::Always => true,
            Extract::Never => false,
        };
        let ended = match ended {
            _ if extracts => extract::extract(evaluation, self.output.as_ref()).await?,
            Some(ended) => ended,
            None => EvaluationEnd::Replied { text: String::new(), output: None },
        };
        match &ended {
            EvaluationEnd::Replied { text, .. } if text.trim().is_empty() => {
                let why = match stopped {
                    Stopped::MaxIterations => format!("after {} iterations", evaluation.rounds),
                    _ => "at the end".into(),
                };
                Err(EvaluationError::new(
                    FailurePhase::Response,
                    EvaluationErrorKind::NoAnswer,
                    format!("there is no answer {why}"),
                ))
            }
            _ => Ok(ended),
        }
    }
}

/// Ends an evaluation and returns its result.
async fn finish(evaluation: Evaluation<'_>, outcome: LoopEnd) -> SessionResult {
    let id = evaluation.id;
    let (evaluated, journal) = evaluation.end_with_journal(outcome.ended).await;
    let Evaluated { ended, spent, calls, tools, rounds, .. } = evaluated;
    let mut result = SessionResult {
        answer: None,
        output: None,
        status: QueryStatus::Failed,
        stopped: outcome.stopped,
        error: None,
        question: None,
        evaluation_id: id,
        iterations: rounds,
        tools: tools.into_iter().collect(),
        steps: query_steps(journal, id),
        usage: spent,
        calls,
    };
    match ended {
        EvaluationEnd::Replied { text, output } => {
            let field = output.as_ref().and_then(|output| output.get("answer")?.as_str()).map(String::from);
            result.answer = Some(field.unwrap_or(text));
            result.output = output;
            result.status = QueryStatus::Done;
        }
        EvaluationEnd::Paused(question) => {
            result.question = Some(question);
            result.status = QueryStatus::Paused;
        }
        EvaluationEnd::Failed(error) => {
            if error.phase == FailurePhase::Deadline {
                result.stopped = Stopped::Deadline;
            }
            result.error = Some(error);
        }
    }
    result
}

/// The steps of one query.
fn query_steps(journal: &Journal, id: Uuid) -> Vec<Step> {
    let record = journal.record();
    let own = |position: u64| record.entry(position).is_some_and(|entry| entry.evaluation_id == id);
    // It is the newest, so its entries are at the end.
    let first = (0..record.len() as u64)
        .rev()
        .find(|at| record.entry(*at).is_some_and(|entry| entry.evaluation_id == id && entry.sequence == 0));
    let steps = steps(record, first.unwrap_or(0)..);
    steps.into_iter().filter(|step| own(step.position)).collect()
}
