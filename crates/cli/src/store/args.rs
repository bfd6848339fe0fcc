//! What can be asked of a store on the command line.

use std::path::PathBuf;

use clap::Subcommand;

/// Which store, and whose part of it.
#[derive(clap::Args)]
pub(crate) struct StoreArgs {
    /// The store, as sqlite:PATH or postgres://…; else `SCROLLBACK_STORE`, else `store` of scrollback.toml, else
    /// sqlite:scrollback.db
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) store: Option<String>,

    /// Whose data
    #[arg(long, value_name = "TENANT", global = true)]
    pub(crate) tenant: Option<String>,
}

#[derive(clap::Args)]
#[command(
    after_help = "RECIPIENT is the person or channel the conversation is with: any text of 1 to 512 bytes. Without a
command the conversation is shown.

Examples:
  scrollback history anna append --role user --content 'Is my order on its way?'
  scrollback history anna append --file messages.json --expect 12
  scrollback history anna
  scrollback history anna --conversation 01JD…
  scrollback history anna --turns 3 --to anthropic --json
  scrollback history anna compact
  scrollback history anna status awaiting_answer
  scrollback history anna erase --positions 4-7 --yes",
    subcommand_negates_reqs = true
)]
pub(crate) struct HistoryArgs {
    /// Whom the conversation is with
    pub(crate) recipient: String,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// One of their conversations; the current one if not given
    #[arg(long, value_name = "ID", global = true)]
    pub(crate) conversation: Option<String>,

    #[command(flatten)]
    pub(crate) show: ShowArgs,

    #[command(subcommand)]
    pub(crate) action: Option<HistoryAction>,
}

#[derive(Subcommand)]
pub(crate) enum HistoryAction {
    /// Print what a model would be told: the lead, the summary, the newest turns
    Show(ShowArgs),
    /// Add messages; the first ones begin the conversation
    Append(AppendArgs),
    /// Replace older turns by a summary, if there are enough of them
    Compact(CompactArgs),
    /// Print where the conversation stands, or set it
    Status(StatusArgs),
    /// Set the status to closed
    Close,
    /// Erase what was said; places and hashes stay
    Erase(EraseArgs),
}

#[derive(clap::Args, Clone)]
pub(crate) struct ShowArgs {
    /// How many turns; the setting maxRecentTurns if not given
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) turns: Option<usize>,

    /// Everything since the beginning, with decisions
    #[arg(long, conflicts_with = "turns")]
    pub(crate) all: bool,

    /// The wire to print messages in
    #[arg(long, value_name = "WIRE", default_value = "openai-chat")]
    pub(crate) to: String,
}

#[derive(clap::Args)]
pub(crate) struct AppendArgs {
    /// Who says it
    #[arg(long, value_name = "ROLE", default_value = "user", conflicts_with_all = ["file", "input"])]
    pub(crate) role: String,

    /// What is said
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "input"], required_unless_present_any = ["file", "input"])]
    pub(crate) content: Option<String>,

    /// The call a tool's result answers, with --role tool
    #[arg(long, value_name = "ID", requires = "content")]
    pub(crate) call_id: Option<String>,

    /// A list of messages of any wire; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// The same
    #[arg(value_name = "FILE", conflicts_with = "file")]
    pub(crate) input: Option<PathBuf>,

    /// Only if this is the next position
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) expect: Option<u64>,
}

#[derive(clap::Args)]
pub(crate) struct CompactArgs {
    /// Turns to keep in full
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) keep: Option<usize>,

    /// Who writes the summary: offline, or a model
    #[arg(long, value_name = "MODEL", default_value = "offline")]
    pub(crate) model: String,
}

#[derive(clap::Args)]
pub(crate) struct StatusArgs {
    /// The new status: active, `awaiting_answer`, closed or idle
    pub(crate) new: Option<String>,

    /// The time it is, as in 2026-01-31T12:00:00Z; now if not given
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct EraseArgs {
    /// Only these positions, as in 4-7 or 4
    #[arg(long, value_name = "A-B")]
    pub(crate) positions: Option<String>,

    /// Why, for the tombstones
    #[arg(long, value_name = "TEXT", default_value = "requested")]
    pub(crate) reason: String,

    /// Really: what is erased cannot be brought back
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  scrollback list
  scrollback list --status awaiting_answer --limit 10
  scrollback list --due --within 1h
  scrollback list --tree --json
  scrollback list --json")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Only conversations that stand so: active, `awaiting_answer`, closed or idle
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,

    /// Sessions with their conversations as trees; what is shown without --json and --status
    #[arg(long, conflicts_with = "status")]
    pub(crate) tree: bool,

    /// Only recipients whose follow-up is due, the earliest first
    #[arg(long, conflicts_with_all = ["status", "tree", "after"])]
    pub(crate) due: bool,

    /// With --due: also those that become due within this time, as in 1h
    #[arg(long, value_name = "SPAN", requires = "due", value_parser = scrollback_agent::config::read_span)]
    pub(crate) within: Option<std::time::Duration>,

    /// How many
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true)]
    pub(crate) limit: usize,

    /// Where the page before ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

#[derive(clap::Args)]
#[command(
    after_help = "All words must occur. \"Phrases\" are quoted, wor* matches the beginning of a word, -word must not occur. \
Case and accents do not matter, and no query is an error.

Examples:
  scrollback search refund
  scrollback search '\"order number\" -cancelled' --recipient anna
  scrollback search 'invoic*' --role user --since 2026-01-01T00:00:00Z --json"
)]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// What to look for
    #[arg(required = true)]
    pub(crate) words: Vec<String>,

    /// Only what was said with this recipient
    #[arg(long, value_name = "RECIPIENT")]
    pub(crate) recipient: Option<String>,

    /// Only what this role said: system (summaries), user, assistant or tool
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,

    /// Only calls and results of this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,

    /// Only from this time on
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    /// Only before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,

    /// How many
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true)]
    pub(crate) limit: usize,

    /// Where the page before ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

#[derive(clap::Args)]
#[command(
    after_help = "Search results, placeholders, summaries and the lens show handles. A handle stays valid for the life of the
record; what was erased answers `erased`. At most 10,000 tokens are printed at once, with the next range to ask for.

Examples:
  scrollback read sb:k7q2m9x4td#412
  scrollback read sb:k7q2m9x4td#412 --lines 10-40
  scrollback read sb:k7q2m9x4td#412-418 --pattern '/error|failed/i' --context 3"
)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// A place, as sb:CONV#POS, or several in a row, as sb:CONV#FIRST-LAST
    pub(crate) handle: String,

    /// Only these lines, as in 10-40
    #[arg(long, value_name = "A-B")]
    pub(crate) lines: Option<String>,

    /// Only lines with this text, or that match /regex/
    #[arg(long, value_name = "TEXT")]
    pub(crate) pattern: Option<String>,

    /// Lines around each match
    #[arg(long, value_name = "N", requires = "pattern")]
    pub(crate) context: Option<u64>,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  scrollback show 01JD8Z6W3M5V9K7Q2M9X4TDRAN
  scrollback show sb:k7q2m9x4td
  scrollback show sb:k7q2m9x4td#412-418 --json")]
pub(crate) struct ShowPlaceArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// The id of a conversation or session, or a handle
    #[arg(value_name = "ID|HANDLE")]
    pub(crate) what: String,

    /// How many places of a conversation, the newest
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) limit: u64,
}

#[derive(clap::Args)]
#[command(
    after_help = "Positions, hashes, both chains, heads, sequences, derived tables and blobs are checked, and then every page,
index and row of the store; --quick leaves that out. A chain cannot show that its end was cut off; --expect compares it with
a link noted elsewhere. The exit code is 4 when something is damaged.

Examples:
  scrollback verify
  scrollback verify --quick
  scrollback verify --recipient anna --expect 9f2c…
  scrollback verify --reindex"
)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Only the conversations with this recipient
    #[arg(long, value_name = "RECIPIENT")]
    pub(crate) recipient: Option<String>,

    /// Only this conversation
    #[arg(long, value_name = "ID", conflicts_with = "recipient")]
    pub(crate) conversation: Option<String>,

    /// The link the last entry must have, 64 hexadecimal digits
    #[arg(long, value_name = "LINK")]
    pub(crate) expect: Option<String>,

    /// Only what conversations hold, not every page, index and row of the store
    #[arg(long)]
    pub(crate) quick: bool,

    /// Write anew what is derived from the entries
    #[arg(long)]
    pub(crate) reindex: bool,
}

#[derive(clap::Args)]
#[command(
    after_help = "Formats are detected by their shape; `scrollback convert --help` lists them. Importing a file again adds
only what is new. What is not a message is listed as a note; a line that cannot be read is reported, and the rest is
imported.

Examples:
  scrollback import ~/.codex/sessions/2026/01/31/*.jsonl
  scrollback import session.jsonl --format claude-code --dry-run
  scrollback import chat.json --recipient anna
  scrollback import backup.jsonl --format scrollback"
)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Transcripts, bodies of any wire, session folders, goose databases, or our own exports
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Format of the files; detected when not named
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,

    /// Everything becomes this recipient's: entries are added to the conversation, branches and helpers become further ones
    #[arg(long, value_name = "RECIPIENT")]
    pub(crate) recipient: Option<String>,

    /// Only say what would be added
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// A bad line stops its file, and nothing of the file is imported
    #[arg(long)]
    pub(crate) strict: bool,

    /// Do not check the links of our own exports
    #[arg(long)]
    pub(crate) no_verify: bool,
}

#[derive(clap::Args)]
#[command(
    after_help = "Formats: scrollback (loses nothing), openai-chat, openai-responses, anthropic, gemini, bedrock,
openai-finetune, langchain, sharegpt, strands (a folder), sqlite (an online backup of the whole store).

Examples:
  scrollback export --recipient anna > anna.jsonl
  scrollback export --all --to everything.jsonl
  scrollback export --recipient anna --format anthropic
  scrollback export --format sqlite --to backup.db"
)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// The current conversation with this recipient
    #[arg(long, value_name = "RECIPIENT")]
    pub(crate) recipient: Option<String>,

    /// This conversation
    #[arg(long, value_name = "ID", conflicts_with = "recipient")]
    pub(crate) conversation: Option<String>,

    /// All conversations
    #[arg(long, conflicts_with_all = ["recipient", "conversation"])]
    pub(crate) all: bool,

    /// What to write
    #[arg(long, value_name = "FORMAT", default_value = "scrollback")]
    pub(crate) format: String,

    /// Where to write it; standard output if not given
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,

    /// Repair what the format would refuse
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(clap::Args)]
#[command(
    after_help = "FILE becomes a consistent copy of the store, made while others write. To restore it, open it as the store. \
With --follow, a folder gets a snapshot and then a segment whenever something changed; `scrollback restore` makes a store \
from it, as it was at any of these moments. Only SQLite files can be followed.

Examples:
  scrollback backup copy.db --verify
  scrollback backup --follow /backups/store
  scrollback restore /backups/store --to restored.db --until 2026-01-31T12:00:00Z"
)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// The file to copy the store to
    #[arg(value_name = "FILE", conflicts_with = "follow")]
    pub(crate) file: Option<PathBuf>,

    /// Check the copy as `scrollback verify` does
    #[arg(long, requires = "file")]
    pub(crate) verify: bool,

    /// Follow the store into this folder until the command is ended
    #[arg(long, value_name = "DIR")]
    pub(crate) follow: Option<PathBuf>,

    /// Milliseconds between looks
    #[arg(long, value_name = "MS", default_value_t = 1000, requires = "follow")]
    pub(crate) every: u64,

    /// Save what there is, and end
    #[arg(long, requires = "follow")]
    pub(crate) once: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Every hash is checked on the way, and the restored store is verified.

Example:
  scrollback restore /backups/store --to restored.db --until 2026-01-31T12:00:00Z")]
pub(crate) struct RestoreArgs {
    /// The folder that `scrollback backup --follow` wrote
    pub(crate) folder: PathBuf,

    /// The file to make
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,

    /// As it was at this time, as in 2026-01-31T12:00:00Z; the newest if not given
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  scrollback doctor
  scrollback doctor --store sqlite:scrollback.db
  scrollback doctor --server || systemctl restart scrollback")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Only whether a server answers on the configured port; fails if none does
    #[arg(long)]
    pub(crate) server: bool,
}

#[derive(clap::Args)]
#[command(
    after_help = "Without options it does what [retention] of scrollback.toml says. Bodies of calls are the exact bytes that
were sent and answered; the entries they were made of stay. Conversations that are old enough are erased, and leave
tombstones. Others may write meanwhile. The exit code is 1 when --to-size cannot be reached.

Examples:
  scrollback prune --dry-run
  scrollback prune --sent-older-than 30d
  scrollback prune --conversations-older-than 90d --to-size 20GB --json"
)]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Let go of bodies of calls that are older, as in 30d
    #[arg(long, value_name = "SPAN", value_parser = scrollback_agent::config::read_span)]
    pub(crate) sent_older_than: Option<std::time::Duration>,

    /// Erase conversations that were written last longer ago, as in 90d
    #[arg(long, value_name = "SPAN", value_parser = scrollback_agent::config::read_span)]
    pub(crate) conversations_older_than: Option<std::time::Duration>,

    /// Let go of the oldest bodies of calls until no more than this is in use, as in 20GB
    #[arg(long, value_name = "SIZE", value_parser = scrollback_agent::config::read_size)]
    pub(crate) to_size: Option<u64>,

    /// Only say what would go
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(clap::Args)]
#[command(
    after_help = "Erases the texts of all conversations with the person, of the sub-agents of their sessions, and of every model call that
showed them; places and hashes stay, so `verify` finds no damage. On a terminal it asks first.

Examples:
  scrollback erase anna --dry-run
  scrollback erase anna --yes --reason 'asked for on 3 May' --json"
)]
pub(crate) struct ErasePersonArgs {
    /// Whose data
    pub(crate) recipient: String,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Why, for the tombstones
    #[arg(long, value_name = "TEXT", default_value = "requested")]
    pub(crate) reason: String,

    /// Only list what would be erased
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,

    /// Really: what is erased cannot be brought back
    #[arg(long)]
    pub(crate) yes: bool,
}
