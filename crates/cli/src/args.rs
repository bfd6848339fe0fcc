//! What can be asked for on the command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::store::args::{
    BackupArgs, DoctorArgs, ErasePersonArgs, ExportArgs, HistoryArgs, ImportArgs, ListArgs, PruneArgs,
    ReadArgs, RestoreArgs, SearchArgs, ShowPlaceArgs, VerifyArgs,
};

/// Keeps everything that was said, and sends each model call only what that call needs.
#[derive(Parser)]
#[command(name = "scrollback", version, arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 waiting for a person, 4 the input is invalid.

Examples:
  scrollback wrap claude -p hello
  scrollback curate chat.json -m 'sliding_window(20)' --explain"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print machine-readable JSON on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Show times in UTC; a terminal shows them in local time otherwise
    #[arg(long, global = true)]
    pub(crate) utc: bool,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a client through Scrollback once: nothing of the client is changed
    Wrap(crate::client::args::WrapArgs),
    /// Have a client go through Scrollback always, by a setting of its own; --undo takes it back
    Setup(crate::client::args::SetupArgs),
    /// Start the server whenever you log in
    Service(crate::client::args::ServiceArgs),
    /// Serve: a proxy that clients point their base URL at, a REST API, and the lens
    Serve(crate::server::args::ServeArgs),
    /// Show what a model call would be sent: messages in, curated messages out
    Curate(CurateArgs),
    /// Replay recorded conversations under managers: what each would have sent, cost and lost
    Simulate(crate::simulate::args::SimulateArgs),
    /// Say whether a provider would accept messages, by rule and place; --repair makes them valid
    Check(CheckArgs),
    /// Turn messages of one format into those of another, and list what it cannot hold
    Convert(ConvertArgs),
    /// Count the tokens of messages, and say whether the count is exact
    Tokens(TokensArgs),
    /// Print a text with every secret in it replaced
    Redact(RedactArgs),
    /// Run programs in PTC-Lisp, the language of sub-agents
    Lisp(crate::lisp::LispArgs),
    /// Talk to a model or an agent in the terminal
    Chat(crate::chat::args::ChatArgs),
    /// Run an agent: a model that thinks, uses tools and answers
    Agent(crate::agent::args::AgentArgs),
    /// Run a sub-agent: a mission answered by programs in PTC-Lisp
    Subagent(crate::subagent::args::SubagentArgs),
    /// Run a flow: steps, loops that hold conversations, pauses for people
    Run(crate::flow::args::RunArgs),
    /// Go on with a run that waits for an answer, was interrupted, or failed
    Resume(crate::flow::args::ResumeArgs),
    /// Look at runs: what happened, and what every model call really saw
    Lens(crate::flow::args::LensArgs),
    /// Say everything that is wrong with a flow, before anything runs
    Validate(crate::flow::args::ValidateArgs),
    /// Print the JSON Schema of flows, or of what commands about them print
    Schema(crate::flow::args::SchemaArgs),
    /// Write a flow to begin with
    Init(crate::flow::args::InitArgs),
    /// The conversation with one person: show it, add to it, compact it, close it, erase it
    History(HistoryArgs),
    /// List conversations, written last first
    List(ListArgs),
    /// Find what was said, in all conversations
    Search(SearchArgs),
    /// Look at any conversation, session or entry
    Show(ShowPlaceArgs),
    /// Print the exact text behind a handle
    Read(ReadArgs),
    /// Offer search and reading of the record to another program, over its standard input and output (MCP)
    Mcp(crate::server::args::McpArgs),
    /// Read other tools' transcripts, or our own exports, into the store
    Import(ImportArgs),
    /// Write conversations in our own form, any provider's, or other tools'
    Export(ExportArgs),
    /// Copy the store, once or as it grows
    Backup(BackupArgs),
    /// Make a store from a backup that followed one
    Restore(RestoreArgs),
    /// Check that the store says what was written
    Verify(VerifyArgs),
    /// Erase everything that was said with a person, everywhere
    Erase(ErasePersonArgs),
    /// Let go of what is older or more than the retention allows
    Prune(PruneArgs),
    /// Check that everything is set up
    Doctor(DoctorArgs),
    /// API keys of the server: make one, list them, revoke one
    Key(crate::server::args::KeyArgs),
    /// Write the manual as man pages, one for each command
    #[command(after_help = "Example:
  scrollback man /usr/local/share/man/man1")]
    Man {
        /// The folder they are written to, which is made if it is not there
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
    },
    /// Print a completion script for a shell
    #[command(after_help = "Example:
  scrollback completions bash > /etc/bash_completion.d/scrollback")]
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
}

/// Where messages come from.
#[derive(clap::Args)]
pub(crate) struct InputArgs {
    /// Messages: a JSON list, a request of any provider, or another tool's transcript; `-` is standard input
    #[arg(required_unless_present = "batch")]
    pub(crate) file: Option<PathBuf>,

    /// Answer one JSON case a line from this file (`-`: standard input), one JSON answer a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "take", "conversation", "take_conversation", "all", "from", "model"])]
    pub(crate) batch: Option<PathBuf>,

    /// Use only the first N messages
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) take: Option<usize>,

    /// Which conversation of a file that holds several, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "take_conversation")]
    pub(crate) conversation: Option<u32>,

    /// The same, from 0
    #[arg(long, value_name = "N", allow_negative_numbers = true, hide = true)]
    pub(crate) take_conversation: Option<usize>,

    /// Every conversation of the file, one after the other
    #[arg(long, conflicts_with_all = ["conversation", "take_conversation"])]
    pub(crate) all: bool,

    /// Format of the input, a wire or a transcript format; detected when not named
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,

    /// The model the messages are for, as provider:model; decides how tokens are counted
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
}

#[derive(clap::Args)]
#[command(after_help = "Managers (several -m compose in order):
  sliding_window(20)                  the last 20 entries, whole tool exchanges only
  turn_window(5)                      the last 5 turns
  token_budget(8000)                  the newest that fit 8,000 tokens
  tool_result_truncator(2000)         long tool results shortened
  clear_tool_results(3)               all but the last 3 tool results replaced by a placeholder
  summarize(max_turns=10)             older turns replaced by a summary
  relevant(8000)                      what matters to the question, within 8,000 tokens
  sticky(token_budget(8000))          moves the cut rarely, so that prompt caches keep hitting
  fit                                 whatever fits the window of --model
  and: passthrough, active_tools, pin, trajectory_window, compose, observed

Examples:
  scrollback curate chat.json -m 'sliding_window(20)' --explain
  scrollback curate chat.json -m 'token_budget(16k)' --explain dropped --dropped left-out.json
  scrollback curate request.json -m 'tool_result_truncator(1000)' -m fit --model openai:gpt-4o
  scrollback curate chat.json -m '{\"sticky\": {\"token_budget\": 8000}}' --json
  cat chat.json | scrollback curate - -m 'turn_window(3)'
  scrollback curate --batch cases.jsonl")]
pub(crate) struct CurateArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// How to curate; may be given several times. None: only what is incoherent is left out
    #[arg(short, long = "manager", value_name = "MANAGER", conflicts_with = "batch")]
    pub(crate) managers: Vec<String>,

    /// Format of the output; the input's when not named
    #[arg(long, value_name = "WIRE", conflicts_with = "batch")]
    pub(crate) to: Option<String>,

    /// Tools on offer now, for the manager `active_tools`
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "batch")]
    pub(crate) tools: Option<Vec<String>>,

    /// Do not protect the task: the last user entry and results not yet seen
    #[arg(long, conflicts_with = "batch")]
    pub(crate) no_task: bool,

    /// Do not protect leading system entries
    #[arg(long, conflicts_with = "batch")]
    pub(crate) no_system: bool,

    /// Protect the last N entries, rounded up to whole tool exchanges
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "batch")]
    pub(crate) preserve_last: Option<usize>,

    /// What to do with tool calls that have no result
    #[arg(long, value_enum, default_value = "drop", conflicts_with = "batch")]
    pub(crate) unfinished: UnfinishedArg,

    /// Say on standard error what was left out or changed, by which manager, and why: all entries, or only those left out
    /// or changed
    #[arg(long, value_name = "WHICH", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "all", conflicts_with = "batch")]
    pub(crate) explain: Option<ExplainArg>,

    /// Write what was left out to this file, in the format of the input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["batch", "all"])]
    pub(crate) dropped: Option<PathBuf>,
}

/// Which entries an explanation lists.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainArg {
    /// Every entry
    All,
    /// Those that were left out
    Dropped,
    /// Those that were changed
    Changed,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum UnfinishedArg {
    /// Leave the whole exchange out
    Drop,
    /// Keep it, and say in place of the result that there was an interruption
    Close,
}

#[derive(clap::Args)]
#[command(after_help = "Wires: openai-chat, openai-responses, anthropic, gemini, bedrock, scrollback.

Each line names what a breach does (R refused, S silently dropped or merged, Q worse answers, $ higher cost), the
rule, the place, and what is wrong there. The exit code is 4 when something is refused. Rules that hold only for some
models are reported with these and do not count until --model names one; rules marked unverified count with --strict.
A rule that is broken in many places is one line with the first of them; --json lists them all.

Examples:
  scrollback check request.json
  scrollback check request.json --for anthropic --model claude-opus-4-6
  scrollback check chat.json --for openai-chat --repair > valid.json
  scrollback check session.jsonl --from claude-code --for openai-chat --json
  scrollback check --batch cases.jsonl")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// The wire whose rules shall hold; the one the messages are in, if it is not named
    #[arg(long = "for", value_name = "WIRE", conflicts_with = "batch")]
    pub(crate) wire: Option<String>,

    /// Print the list made valid, and on standard error what was done
    #[arg(long, conflicts_with = "batch")]
    pub(crate) repair: bool,

    /// Count rules that are known from hearsay only
    #[arg(long, conflicts_with = "batch")]
    pub(crate) strict: bool,

    /// The request sent before in this conversation, its reply appended: what signed reasoning is bound to
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    pub(crate) previous: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(
    after_help = "Wires: openai-chat, openai-responses, anthropic, gemini, bedrock, scrollback (loses nothing).
Transcripts (--from only): claude-code, codex, langchain, strands, openai-finetune, sharegpt, goose, tau-bench,
swe-agent, openhands, inspect, bfcl, cassette, atif, traces.

What the target cannot hold is listed on standard error, or under `lost` with --json.

Examples:
  scrollback convert chat.json --to anthropic
  scrollback convert request.json --from anthropic --to gemini --json
  scrollback convert session.jsonl --from claude-code --to openai-chat
  scrollback convert --batch cases.jsonl"
)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// The wire to convert to
    #[arg(long, value_name = "WIRE", conflicts_with = "batch", required_unless_present = "batch")]
    pub(crate) to: Option<String>,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  scrollback tokens chat.json --model gpt-4o
  scrollback tokens request.json --model anthropic:claude-sonnet-4-5 --json
  scrollback tokens sessions.jsonl --all
  scrollback tokens --batch cases.jsonl")]
pub(crate) struct TokensArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(clap::Args)]
#[command(
    after_help = "Keys, tokens, passwords and private keys become [redacted:KIND]. E-mail addresses, telephone and
card numbers, and patterns of your own are added in scrollback.toml:

  [redact]
  email = true
  patterns = ['EMP-[0-9]{6}']

Examples:
  scrollback redact trace.log
  cat session.jsonl | scrollback redact - --json"
)]
pub(crate) struct RedactArgs {
    /// Any text; `-` is standard input
    pub(crate) file: PathBuf,
}
