//! What can be asked about flows on the command line.

use std::path::PathBuf;

use clap::ValueEnum;

#[derive(clap::Args)]
#[command(
    after_help = "Every mistake is told at once, with its line, its path in the flow and the word that was \
                        probably meant. Exit code: 0 valid, 4 not.

Examples:
  scrollback validate trip.yaml
  scrollback validate trip.yaml --strict --json
  scrollback validate trip.yaml --effective
  scrollback validate --schema > flow.schema.json
  cat trip.yaml | scrollback validate -"
)]
pub(crate) struct ValidateArgs {
    /// The flow; `-` is standard input
    #[arg(value_name = "FLOW", required_unless_present = "schema")]
    pub(crate) file: Option<PathBuf>,

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
