//! What can be asked of a sub-agent on the command line.

use std::path::PathBuf;

use crate::store::args::StoreArgs;

#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "A sub-agent is a file with a mission, a signature, tools and data; docs/subagents.md describes it. The
returned value goes to standard output, one line per turn to standard error. With --store (or SCROLLBACK_STORE) every
turn is kept, and --resume goes on where a run was interrupted.

Examples:
  scrollback subagent analyst.yaml --data orders.json
  scrollback subagent analyst.yaml --compression on --show turns,usage
  scrollback subagent analyst.yaml --compression 'rolling_window(keep=3)' --json
  scrollback subagent render case.json
  scrollback subagent ab analyst.yaml --tasks tasks.jsonl --compression off --compression on"
)]
pub(crate) struct SubagentArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SubagentCommand>,

    #[command(flatten)]
    pub(crate) run: Option<RunArgs>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Running one mission.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// The sub-agent; `-` is standard input
    #[arg(value_name = "AGENT.yaml", required = true)]
    pub(crate) file: PathBuf,

    /// Data: a JSON object from names to values, over the file's; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,

    /// The mission, instead of the file's
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) mission: Option<String>,

    /// How history is compressed: off, on, `rolling_window(keep=3)`, or JSON
    #[arg(long, value_name = "SPEC")]
    pub(crate) compression: Option<String>,

    /// What to print of the turns: turns, compressed, raw, usage
    #[arg(long, value_name = "VIEWS", value_delimiter = ',')]
    pub(crate) show: Vec<TurnsView>,

    /// Tell the results of tools too
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Shorten nothing of what is shown
    #[arg(long)]
    pub(crate) full: bool,

    /// Ask this model instead of the file's
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// How many turns there are, instead of the file's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,

    /// Go on with a stored run that was interrupted, by its id or the beginning of it
    #[arg(long, value_name = "RUN", conflicts_with_all = ["data", "mission"])]
    pub(crate) resume: Option<String>,
}

/// What can be shown of turns.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TurnsView {
    /// Each turn: program, calls, output, result
    Turns,
    /// The user text of each call, as it was sent
    Compressed,
    /// Whole replies, and every message sent
    Raw,
    /// Tokens and time
    Usage,
}

#[derive(clap::Subcommand)]
pub(crate) enum SubagentCommand {
    /// Show what a call would be sent, for turns that a file describes
    #[command(after_help = "No model is asked and no store is opened.

Examples:
  scrollback subagent render case.json
  scrollback subagent render cases.jsonl
  cat case.json | scrollback subagent render -")]
    Render {
        /// A case as JSON, or one a line if its name ends in .jsonl; `-` is standard input
        file: PathBuf,
    },
    /// Compare strategies: the same tasks under each, or recorded runs rendered by each
    #[command(
        after_help = "A task is a JSON object a line: data, and expected or check (a predicate of result, in PTC-Lisp).
With --replay no model is asked: every call of a stored run is rendered under each strategy, and what one leaves out
that the uncompressed request says is listed.

Examples:
  scrollback subagent ab analyst.yaml --tasks tasks.jsonl --compression off --compression on --repeat 5
  scrollback subagent ab --replay k3v9 --compression on --compression 'rolling_window(keep=3)' --json"
    )]
    Ab(AbArgs),
}

#[derive(clap::Args)]
pub(crate) struct AbArgs {
    /// The sub-agent
    #[arg(value_name = "AGENT.yaml", required_unless_present = "replay")]
    pub(crate) file: Option<PathBuf>,

    /// Tasks, one JSON object a line
    #[arg(long, value_name = "FILE", required_unless_present = "replay")]
    pub(crate) tasks: Option<PathBuf>,

    /// A strategy to compare; may be given several times. Without any: off and on
    #[arg(long, value_name = "SPEC")]
    pub(crate) compression: Vec<String>,

    /// How often each task is run under each strategy
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,

    /// Ask this model instead of the file's
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Stored runs to render instead of running tasks, by id or the beginning of it
    #[arg(long, value_name = "RUN", num_args = 1.., conflicts_with = "tasks")]
    pub(crate) replay: Vec<String>,
}
