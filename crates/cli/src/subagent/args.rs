//! What can be asked of a sub-agent on the command line.

use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "A sub-agent answers a mission by writing programs; docs/subagents.md describes its file."
)]
pub(crate) struct SubagentArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SubagentCommand>,
}

#[derive(clap::Subcommand)]
pub(crate) enum SubagentCommand {
    /// Show what a call would be sent, for turns that a file describes
    #[command(after_help = "Examples:
  scrollback subagent render case.json
  scrollback subagent render cases.jsonl")]
    Render {
        /// A case as JSON, or one a line if its name ends in .jsonl; `-` is standard input
        file: PathBuf,
    },
}
