//! The runner: an agent on one input, every word of it recorded, every request a curated view.
//!
//! ```text
//! deadline, budget, rounds → summaries → exchange (view, check, ask) → reply recorded → tools → results recorded ↺
//! ```
//!
//! What is appended is durable before the next effect. A failed or interrupted evaluation leaves a record from which
//! [`Runner::resume`] goes on: results that are there are kept, calls that wait are run again.

mod caller;
mod error;
mod evaluation;
mod limits;
mod resume;
mod spans;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use scrollback_core::Unfinished;
use scrollback_core::manager::{Passthrough, SharedManager};
use scrollback_core::model::ModelName;
use scrollback_core::stream::Delta;
use uuid::Uuid;

use crate::bus::Event;
use crate::bus::EventBus;
use crate::effects::{Clock, Random, Seeded, StopSignal, SystemClock};
use crate::exchange::Calibrations;
pub use crate::exchange::{AttemptUsage, OnOverflow, Prices, Throttle};
use crate::journal::Journal;
use crate::provider::{Catalog, Provider, ReplyDelivery, ResponseFormat, Sampling, ToolChoice};
use crate::session::Session;
use crate::telemetry::Telemetry;
use crate::tool::Toolbox;
pub use caller::{Attempt, NoReply, Replied};
pub use error::{EvaluationError, EvaluationErrorKind, FailurePhase};
pub use evaluation::{CallReport, Evaluation, ToolReport};
pub(crate) use evaluation::{Round, first_object, structured};
pub(crate) use limits::bad_limit;
pub use limits::{Budget, Deadline};
pub use resume::{CannotResume, CannotResumeKind};
pub use scrollback_core::request::RequestMessage;

/// Who is given the pieces of a reply as they come. What was given cannot be taken back, so a reply that breaks off
/// after that is not asked for again.
pub type Sink = Arc<dyn Fn(&Delta) + Send + Sync>;
/// Who is told of every attempt at a request, with the body that was sent.
pub type Trace = Arc<dyn Fn(&Attempt<'_>) + Send + Sync>;

/// What is done about a request that the provider would refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// It is repaired, and the trace says how.
    #[default]
    Auto,
    /// The evaluation fails before it is sent.
    Never,
}

/// Who is asked before every attempt at a request, and told what it used: a quota that several evaluations share.
pub trait UsageMeter: Send + Sync {
    /// An error if there is no room for a request of so many tokens and its reply; then nothing is sent.
    fn reserve(&self, model: &ModelName, tokens: usize) -> Result<(), EvaluationError>;

    /// What the attempt used in the end.
    fn settle(&self, spent: &AttemptUsage);
}

/// What runs agents. Everything but the provider has a default; fields may be set before the first run.
pub struct Runner {
    /// The model.
    pub provider: Arc<dyn Provider>,
    /// What each call is sent of the record.
    pub manager: SharedManager,
    /// What the model may call.
    pub tools: Toolbox,
    /// Which of the tools it may or must call.
    pub tool_choice: ToolChoice,
    /// How many calls of one reply run at once; at least one.
    pub parallel: usize,
    /// Who is told what happens.
    pub bus: Arc<EventBus>,
    /// The state that events change, if there is any.
    pub session: Option<Arc<Session>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance, which spreads retries.
    pub random: Arc<dyn Random>,
    /// When it must be over.
    pub deadline: Option<Deadline>,
    /// What it may use.
    pub budget: Option<Budget>,
    /// How often the model may be asked.
    pub max_rounds: u32,
    /// How many error results in a row end the evaluation.
    pub max_tool_errors: u32,
    /// How failed requests are tried again.
    pub throttle: Throttle,
    /// What is done about a request that would be refused.
    pub repair: Repair,
    /// What is done about a request that was too large.
    pub overflow: OnOverflow,
    /// How long one attempt may take where no deadline is nearer.
    pub call_timeout: Duration,
    /// How replies are drawn.
    pub sampling: Sampling,
    /// Who keeps count of every attempt.
    pub meter: Option<Arc<dyn UsageMeter>>,
    /// What views do with calls that have no results.
    pub unfinished: Unfinished,
    /// Whether replies come in pieces.
    pub delivery: ReplyDelivery,
    /// Who is given the pieces.
    pub sink: Option<Sink>,
    /// Who is shown the pieces in passing: a display that forgets them, so that a reply that breaks off may be asked for
    /// again.
    pub preview: Option<Sink>,
    /// Who is told of every attempt.
    pub trace: Option<Trace>,
    /// Asks the run to stop.
    pub stop: StopSignal,
    /// What was learnt about models from what their providers reported; shared by runners of one process.
    pub calibrations: Arc<Calibrations>,
    /// Other models, for summaries; also what the configuration says about models.
    pub catalog: Arc<Catalog>,
    /// Who is sent spans of what is done.
    pub telemetry: Telemetry,
}

/// What a model is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    /// What the prompt is called.
    pub name: String,
    /// The instructions.
    pub system: Option<String>,
    /// The task.
    pub user: String,
    /// The shape the reply shall have.
    pub response_format: Option<ResponseFormat>,
}

/// The result of an evaluation.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// Its id.
    pub evaluation_id: Uuid,
    /// How it ended.
    pub ended: EvaluationEnd,
    /// What it used.
    pub spent: AttemptUsage,
    /// The requests, one each however many attempts there were.
    pub calls: Vec<CallReport>,
    /// The tools that were called, by name.
    pub tools: BTreeMap<String, ToolReport>,
    /// How often the model was asked for the next step.
    pub rounds: u32,
}

/// How an evaluation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum EvaluationEnd {
    /// With a reply.
    Replied {
        /// Its text.
        text: String,
        /// What it says, where a format was asked for.
        output: Option<serde_json::Value>,
    },
    /// It waits for an answer, which [`Runner::resume`] brings.
    Paused(Question),
    /// Without a reply.
    Failed(EvaluationError),
}

/// Something a person is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The call that waits for the answer.
    pub call_id: String,
    /// What is asked.
    pub text: String,
}

impl Runner {
    /// A runner with the usual limits, no tools, and views that leave nothing out.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Runner {
            provider,
            manager: Arc::new(Passthrough),
            tools: Toolbox::default(),
            tool_choice: ToolChoice::Auto,
            parallel: 1,
            bus: Arc::new(EventBus::default()),
            session: None,
            clock: Arc::new(SystemClock),
            random: Arc::new(Seeded::default()),
            deadline: None,
            budget: None,
            // Far beyond any task that converges.
            max_rounds: 100,
            // A model that fails five times in a row does not learn from a sixth.
            max_tool_errors: 5,
            throttle: Throttle::default(),
            repair: Repair::Auto,
            overflow: OnOverflow::Tighten,
            // The longest a provider streams.
            call_timeout: Duration::from_secs(600),
            sampling: Sampling::default(),
            meter: None,
            unfinished: Unfinished::Drop,
            delivery: ReplyDelivery::Streamed,
            sink: None,
            preview: None,
            trace: None,
            stop: StopSignal::default(),
            calibrations: Arc::default(),
            catalog: Arc::new(Catalog::default()),
            telemetry: Telemetry::default(),
        }
    }

    /// Runs the agent on one input: asks, runs what the model calls, asks again, until it replies.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use scrollback_agent::{journal::Journal, provider::Echo, runner::{EvaluationEnd, Prompt, Runner}};
    /// use scrollback_core::{Record, model::ModelName};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let runner = Runner::new(Arc::new(Echo::new(ModelName::parse("offline:echo")?)));
    /// let mut journal = Journal::memory(Record::new());
    /// let prompt = Prompt { name: "demo".into(), user: "hello".into(), ..Prompt::default() };
    /// let done = runner.run(&mut journal, &prompt).await;
    /// assert_eq!(done.ended, EvaluationEnd::Replied { text: "hello".into(), output: None });
    /// assert_eq!(journal.record().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn run(&self, journal: &mut Journal, prompt: &Prompt) -> Evaluated {
        let mut evaluation = Evaluation::new(self, journal, prompt);
        let ended = match evaluation.begin().await {
            Ok(()) => evaluation.rounds(self.max_rounds).await,
            Err(error) => Err(error),
        };
        evaluation.end(ended).await
    }

    /// Goes on with the newest evaluation that has no reply. `answer` is what a person answered, where one was asked.
    pub async fn resume(
        &self,
        journal: &mut Journal,
        prompt: &Prompt,
        answer: Option<&str>,
    ) -> Result<Evaluated, CannotResume> {
        let mut evaluation = Evaluation::reopen(self, journal, prompt, answer).await?;
        let ended = match evaluation.go_on().await {
            Ok(None) => evaluation.rounds(self.max_rounds).await,
            Ok(Some(question)) => Ok(EvaluationEnd::Paused(question)),
            Err(error) => Err(error),
        };
        Ok(evaluation.end(ended).await)
    }

    /// Goes on with an evaluation in a record that holds everything it shall be shown: calls that wait are run, then the
    /// model is asked, until it replies. Nothing is appended first; the prepared record holds it already.
    pub async fn carry_on(&self, journal: &mut Journal, prompt: &Prompt, evaluation: Uuid) -> Evaluated {
        let mut evaluation = Evaluation::within(self, journal, prompt, evaluation);
        let ended = match evaluation.go_on().await {
            Ok(None) => evaluation.rounds(self.max_rounds).await,
            Ok(Some(question)) => Ok(EvaluationEnd::Paused(question)),
            Err(error) => Err(error),
        };
        evaluation.end(ended).await
    }

    /// The session whose state events change.
    pub(crate) fn session_id(&self) -> &str {
        self.session.as_ref().map_or("", |session| session.id())
    }

    /// Tells what happened, to everyone who listens.
    pub(crate) fn tell<E: Event>(&self, event: &E) {
        // A listener that fails does not stop the run.
        let _ = self.bus.publish(self.session_id(), event);
    }

    /// An error if the time is up or the run was asked to stop.
    pub(crate) fn check_halt(&self) -> Result<(), EvaluationError> {
        if self.stop.is_asked() {
            return Err(EvaluationError::interrupted());
        }
        self.check_deadline()
    }

    /// An error if the time is up.
    pub(crate) fn check_deadline(&self) -> Result<(), EvaluationError> {
        match self.deadline {
            Some(deadline) if deadline.remaining(self.clock.now()).is_zero() => {
                Err(EvaluationError::deadline())
            }
            _ => Ok(()),
        }
    }

    /// Work that is dropped when the time is up or the run is asked to stop.
    pub(crate) async fn unless_halted<T>(&self, work: impl Future<Output = T>) -> Result<T, EvaluationError> {
        let late = async {
            match self.deadline {
                Some(deadline) => self.clock.reached(deadline.time()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // What is done is taken before anything is given up.
            biased;
            done = work => Ok(done),
            () = late => Err(EvaluationError::deadline()),
            () = self.stop.asked() => Err(EvaluationError::interrupted()),
        }
    }

    /// What a model costs, where the catalog knows it.
    pub fn prices_of(&self, model: &ModelName) -> Prices {
        self.catalog.prices(model)
    }
}
