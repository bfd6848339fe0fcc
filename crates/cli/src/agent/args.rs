//! What can be asked of an agent on the command line.

use std::path::PathBuf;

use crate::store::args::StoreArgs;

#[derive(clap::Args)]
#[command(
    after_help = "An agent is a file that names a model, its instructions and its tools; docs/agents.md describes it.
The answer goes to standard output, one line per iteration to standard error. With --recipient or --conversation the
agent goes on where it left; an agent that asks a person exits with 3, and goes on with --resume --input ANSWER.

Examples:
  scrollback agent travel.yaml 'What is the weather in Paris?'
  scrollback agent travel.yaml 'What is the weather in Paris?' -v
  scrollback agent travel.yaml --input 'And tomorrow?' --recipient anna
  scrollback agent travel.yaml --input - --stream < question.txt
  scrollback agent travel.yaml --input 'Plan my day' --trace calls.jsonl --json
  scrollback agent travel.yaml --resume --recipient anna --input 'the 4th of May'"
)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct AgentArgs {
    /// The agent
    #[arg(value_name = "AGENT.yaml")]
    pub(crate) file: PathBuf,

    /// What it shall do
    #[arg(value_name = "PROMPT", conflicts_with = "input")]
    pub(crate) prompt: Option<String>,

    /// The same, or the answer to what it asked; `-` is standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) input: Option<String>,

    /// Tell the results of tools too
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Whom the conversation is with
    #[arg(long, value_name = "RECIPIENT", conflicts_with = "conversation")]
    pub(crate) recipient: Option<String>,

    /// The conversation, by id
    #[arg(long, value_name = "ID")]
    pub(crate) conversation: Option<String>,

    /// Go on with what has no answer yet, after a crash, a failure or a question
    #[arg(long)]
    pub(crate) resume: bool,

    /// Wait while another process works on the conversation, instead of failing with `busy`
    #[arg(long)]
    pub(crate) wait: bool,

    /// Ask this model instead of the file's
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// How to curate, instead of the file's history; may be given several times
    #[arg(short, long = "manager", value_name = "MANAGER")]
    pub(crate) managers: Vec<String>,

    /// Write what the model was sent, one JSON line per request
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Print the text as it comes
    #[arg(long)]
    pub(crate) stream: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
