//! What can be asked of the interpreter.

use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct LispArgs {
    #[command(subcommand)]
    pub(crate) command: LispCommand,
}

#[derive(clap::Subcommand)]
pub(crate) enum LispCommand {
    /// Evaluate a program given on the command line
    #[command(after_help = "Examples:
  scrollback lisp eval '(+ 1 2)'
  scrollback lisp eval '(map :id data/orders)' --data orders.json --json")]
    Eval {
        /// The program
        #[arg(allow_hyphen_values = true)]
        expression: String,
        #[command(flatten)]
        given: Box<GivenArgs>,
    },
    /// Run a program from a file, or many cases
    #[command(after_help = "Examples:
  scrollback lisp run report.clj --data data.json --save-memory session.json
  scrollback lisp run --cases cases.jsonl --json")]
    Run {
        /// The program; `-` is standard input
        #[arg(required_unless_present = "cases")]
        file: Option<PathBuf>,
        /// Run one JSON case a line (`id, program, data?, tools?`), one JSON answer a line
        #[arg(long, value_name = "FILE", conflicts_with = "file")]
        cases: Option<PathBuf>,
        #[command(flatten)]
        given: Box<GivenArgs>,
    },
    /// Type programs and see what they give
    #[command(
        after_help = "Definitions stay, *1 *2 *3 are the last values. Commands: :doc NAME, :defs, :quit.
Input goes on over lines until its brackets close. Ctrl-C ends a running program."
    )]
    Repl {
        #[command(flatten)]
        given: Box<GivenArgs>,
    },
    /// Print the reference of the language
    Reference {
        /// The short form that fits a system prompt
        #[arg(long)]
        model: bool,
    },
}

/// What a program is given.
#[derive(clap::Args)]
pub(crate) struct GivenArgs {
    /// Data: a JSON object from names to values, seen as data/NAME
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,

    /// Stub tools: a JSON object from names to {"result": …}, {"echo": true} or {"error": "…"}, each with an optional "signature"
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Option<PathBuf>,

    /// Definitions of an earlier run, as --save-memory wrote them
    #[arg(long, value_name = "FILE")]
    pub(crate) memory: Option<PathBuf>,

    /// Where to write the definitions afterwards
    #[arg(long, value_name = "FILE")]
    pub(crate) save_memory: Option<PathBuf>,

    /// The moment the program takes for now, as in 2024-01-15T10:00:00Z
    #[arg(long, value_name = "ISO")]
    pub(crate) now: Option<String>,

    /// Units of work at most
    #[arg(long, value_name = "N")]
    pub(crate) fuel: Option<u64>,

    /// Milliseconds of computing at most
    #[arg(long, value_name = "MS")]
    pub(crate) timeout: Option<u64>,

    /// Mebibytes of memory at most
    #[arg(long, value_name = "MIB")]
    pub(crate) max_memory: Option<usize>,
}
