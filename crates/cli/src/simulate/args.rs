//! What can be asked of a simulation on the command line.

use std::path::PathBuf;

use crate::store::args::StoreArgs;

#[derive(clap::Args)]
#[command(
    after_help = "Each -m is one candidate; a JSON list composes managers. Without -m a usual field competes: passthrough, fit,
sliding_window(20), tool_result_truncator(2000), clear_tool_results(3), and sticky(token_budget(B)) and auto(B) for
every budget B below the longest history. A `B` in -m stands for each of --budgets.

Without a path the newest conversations of the store are replayed.

Exit codes: 0 done, 1 a path does not exist, 2 usage, 4 a transcript could not be read (the rest was replayed).

Examples:
  scrollback simulate ~/.claude/projects/my-project
  scrollback simulate session.jsonl -m 'auto(32k)' -m 'sliding_window(40)' --model anthropic:claude-sonnet-4-5
  scrollback simulate logs/ -m 'auto(B)' --budgets 8k,16k,32k --html report.html
  scrollback simulate session.jsonl -m 'token_budget(16k)' --lost"
)]
pub(crate) struct SimulateArgs {
    /// Transcripts, requests or exports of any format, or folders of them
    pub(crate) paths: Vec<PathBuf>,

    /// A manager to try; may be given several times
    #[arg(short, long = "manager", value_name = "MANAGER")]
    pub(crate) managers: Vec<String>,

    /// The model that counts, and whose prices are taken, as provider:model; that of the transcripts if not given
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Format of the transcripts; detected when not named
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,

    /// Budgets of the usual field, and of every `B` in -m
    #[arg(long, value_name = "B,…", value_delimiter = ',')]
    pub(crate) budgets: Vec<String>,

    /// Replay at most N conversations; 50 of a store if not given
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Replay N conversations chosen at random
    #[arg(long, value_name = "N")]
    pub(crate) sample: Option<usize>,

    /// What the random choice begins with: the same number gives the same choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// List every value that was lost: the call that needed it, where it stood, and why it was not in the view
    #[arg(long)]
    pub(crate) lost: bool,

    /// Simulate the longer lifetime of caches that requests can ask for: an hour for Claude, a day for GPT
    #[arg(long)]
    pub(crate) long_cache: bool,

    /// Write the figures as CSV (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Write a page with curves (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Of a store: only conversations of this client
    #[arg(long, value_name = "NAME")]
    pub(crate) client: Option<String>,

    /// Of a store: only conversations written since then, as a time or as 7d, 12h, 30m
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
