//! What can be asked about flows on the command line.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use crate::store::args::StoreArgs;

#[derive(clap::Args)]
#[command(
    after_help = "Every mistake is told at once, with its line, its path in the file and the word that was \
                        probably meant. What the file is (a flow, an agent, a sub-agent) is told by its keys. \
                        Exit code: 0 valid, 4 not.

Examples:
  scrollback validate trip.yaml
  scrollback validate trip.yaml --strict --json
  scrollback validate trip.yaml --effective
  scrollback validate travel-agent.yaml
  scrollback validate --schema > flow.schema.json
  cat trip.yaml | scrollback validate -"
)]
pub(crate) struct ValidateArgs {
    /// The flow, agent or sub-agent; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    pub(crate) file: Option<PathBuf>,

    /// What the file is, where its keys do not tell
    #[arg(long = "as", value_name = "KIND")]
    pub(crate) kind: Option<KindArg>,

    /// Count warnings as mistakes
    #[arg(long)]
    pub(crate) strict: bool,

    /// List every setting with its value and where it comes from
    #[arg(long)]
    pub(crate) effective: bool,

    /// Print the JSON Schema of flows, for editors
    #[arg(long, conflicts_with_all = ["file", "strict", "effective"])]
    pub(crate) schema: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Without a name it lists the names.

Examples:
  scrollback schema
  scrollback schema flow > flow.schema.json
  scrollback schema lens-prompt")]
pub(crate) struct SchemaArgs {
    /// What it describes: flow, agent, subagent, run, validate, lens-show, …
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Clone, clap::Args)]
#[command(
    after_help = "On a terminal it asks what the flow is for, which model answers, and how much history is sent; \
                        elsewhere, and with --yes, it takes the defaults.

Templates:
  chat       a conversation with a person, turn by turn
  pipeline   steps one after the other, with a choice between them
  review     a draft that is criticised and rewritten until it is good

Examples:
  scrollback init
  scrollback init trip --template chat --yes
  scrollback init notes --template review --model openai:gpt-4o --json"
)]
pub(crate) struct InitArgs {
    /// Where the files go; made if it is not there
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Ask nothing
    #[arg(long)]
    pub(crate) yes: bool,

    /// What the flow is for
    #[arg(long, value_name = "TEMPLATE")]
    pub(crate) template: Option<TemplateArg>,

    /// The model that answers, as provider:model; without it everything runs offline
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Write over files that are there
    #[arg(long)]
    pub(crate) force: bool,
}

/// What a file describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindArg {
    /// Steps
    Flow,
    /// An agent: a model, instructions, tools
    Agent,
    /// A sub-agent: a mission, a signature, tools, data
    Subagent,
}

/// What a new flow is for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TemplateArg {
    /// A conversation with a person
    Chat,
    /// Steps one after the other
    Pipeline,
    /// A draft that is criticised and rewritten
    Review,
}

#[derive(clap::Args)]
#[command(
    after_help = "The output of the last step goes to standard output, what happens on the way to standard error. A run \
                        that waits for a person exits with 3 and goes on with `scrollback resume`; nothing has to keep \
                        running meanwhile. Exit codes: 0 done, 1 failed or interrupted, 2 usage, 3 paused, 4 the flow is \
                        invalid.

Examples:
  scrollback run trip.yaml --input 'Plan my trip'
  scrollback run trip.yaml --input - --json < goal.txt
  scrollback run trip.yaml --input 'Plan my trip' --interactive
  scrollback run trip.yaml --input 'Plan my trip' --id order-4711 --max-tokens 20000"
)]
pub(crate) struct RunArgs {
    /// The flow; `-` is standard input
    #[arg(value_name = "FLOW")]
    pub(crate) file: PathBuf,

    /// What the run is given; `-` is standard input. Asked for on a terminal if the flow reads it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) input: Option<String>,

    /// The person it is run for: what is said in it is found and erased with their name
    #[arg(long, value_name = "RECIPIENT")]
    pub(crate) recipient: Option<String>,

    /// The run's id: a run that exists with the same flow and input is not begun again
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Ask on the terminal instead of exiting when the run waits for an answer
    #[arg(long)]
    pub(crate) interactive: bool,

    #[command(flatten)]
    pub(crate) more: MoreArgs,
}

#[derive(clap::Args)]
#[command(
    after_help = "RUN is an id or the beginning of one, at least 4 characters. Finished steps are not repeated; interrupted ones \
                        are. The flow is the one the run began with, even if its file has changed.

Examples:
  scrollback resume 4f9k --input 'the 4th of May'
  scrollback resume 4f9k --step 'chat[1]/ask' --input - < answer.txt
  scrollback resume 4f9k --max-tokens 50000
  scrollback resume 4f9k --json"
)]
pub(crate) struct ResumeArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// The answer to what it asks; `-` is standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) input: Option<String>,

    /// The step whose question is answered, where several are open
    #[arg(long, value_name = "KEY", requires = "input")]
    pub(crate) step: Option<String>,

    #[command(flatten)]
    pub(crate) more: MoreArgs,
}

/// What runs and resumed runs take alike.
#[derive(clap::Args)]
pub(crate) struct MoreArgs {
    /// Most tokens of the whole run
    #[arg(long, value_name = "N", value_parser = crate::input::count)]
    pub(crate) max_tokens: Option<u64>,

    /// Most dollars of the whole run
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost: Option<f64>,

    /// How to tell what happens, on standard error
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub(crate) progress: ProgressArg,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

fn dollars(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is not an amount in dollars".to_string())?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err("it must be above 0".into()) }
}

/// How to tell what happens.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressArg {
    /// A live display on a terminal, else a line per event
    Auto,
    /// A line per event
    Plain,
    /// A JSON line per event
    Json,
    /// Not at all
    None,
}

#[derive(clap::Args)]
#[command(
    after_help = "Texts are shown without the secrets in them; --reveal shows them as they are. Without a command the \
                        runs are listed.

Examples:
  scrollback lens
  scrollback lens list --status paused
  scrollback lens show 4f9k
  scrollback lens trace 4f9k --json
  scrollback lens trace 4f9k --export > events.jsonl
  scrollback lens prompt 4f9k clarify
  scrollback lens prompt 4f9k 'chat[2]/clarify' --wire --json",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct LensArgs {
    #[command(subcommand)]
    pub(crate) action: Option<LensAction>,

    #[command(flatten)]
    pub(crate) list: LensListArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Subcommand)]
pub(crate) enum LensAction {
    /// List runs, newest first
    List(LensListArgs),
    /// Show a run: its steps, its conversations, what it used
    Show(LensRunArgs),
    /// Show how long what took, and everything that happened
    Trace(LensTraceArgs),
    /// Show what a step's model calls were sent, and what was left out and why
    Prompt(LensPromptArgs),
}

#[derive(clap::Args)]
pub(crate) struct LensListArgs {
    /// Only runs that stand so
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<StatusArg>,

    /// Only runs of this flow
    #[arg(long, value_name = "NAME")]
    pub(crate) flow: Option<String>,

    /// How many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
}

/// How a run stands.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusArg {
    /// A process is working on it
    Running,
    /// It waits for people
    Paused,
    /// It was stopped, or its process died
    Interrupted,
    /// It has an output
    Done,
    /// It failed
    Failed,
}

#[derive(clap::Args)]
pub(crate) struct LensRunArgs {
    /// The run: an id, or the beginning of one
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// Show texts as they are, secrets included
    #[arg(long)]
    pub(crate) reveal: bool,

    /// Show whole texts
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(clap::Args)]
pub(crate) struct LensTraceArgs {
    #[command(flatten)]
    pub(crate) of: LensRunArgs,

    /// Print the events for other programs: a JSON line each, prompts with the messages that were sent
    #[arg(long)]
    pub(crate) export: bool,
}

#[derive(clap::Args)]
pub(crate) struct LensPromptArgs {
    #[command(flatten)]
    pub(crate) of: LensRunArgs,

    /// The step, by name or key
    #[arg(value_name = "STEP")]
    pub(crate) step: String,

    /// Add the request's body
    #[arg(long)]
    pub(crate) wire: bool,
}
