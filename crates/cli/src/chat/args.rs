//! What can be asked of a conversation in the terminal.

use std::path::PathBuf;

use crate::store::args::StoreArgs;

#[derive(clap::Args)]
#[command(after_help = "Lines go to the model; lines that start with / are commands:
  /undo           takes the last turn back: later requests leave it out, the record keeps it
  /why            explains the view of the last request: what was kept, changed and left out, and by whom
  /recall WORDS   finds what was said with these words in this conversation
  /quit           ends it, as does Ctrl-D

With --recipient or --conversation it continues where it stopped. Without them and without --store nothing is stored.

Examples:
  scrollback chat --model gpt-4o
  scrollback chat travel.yaml --recipient anna
  scrollback chat --model offline:echo -m 'turn_window(5)'")]
pub(crate) struct ChatArgs {
    /// The agent that answers
    #[arg(value_name = "AGENT.yaml", required_unless_present = "model")]
    pub(crate) file: Option<PathBuf>,

    /// The model that answers, instead of the agent's
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Whom the conversation is with
    #[arg(long, value_name = "RECIPIENT", conflicts_with = "conversation")]
    pub(crate) recipient: Option<String>,

    /// The conversation, by id
    #[arg(long, value_name = "ID")]
    pub(crate) conversation: Option<String>,

    /// Wait while another process works on the conversation, instead of failing with `busy`
    #[arg(long)]
    pub(crate) wait: bool,

    /// How to curate, instead of the agent's history; may be given several times
    #[arg(short, long = "manager", value_name = "MANAGER")]
    pub(crate) managers: Vec<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
