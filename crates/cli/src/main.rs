//! The command line of Scrollback. Thin on purpose: every command is a few calls into the library.

mod agent;
mod amounts;
mod answer;
mod args;
mod batch;
mod chat;
mod check;
mod client;
mod convert;
mod curate;
mod explain;
mod failure;
mod flow;
mod help;
mod input;
mod lisp;
mod load;
mod redact;
mod server;
mod simulate;
mod store;
mod subagent;
mod telemetry;
mod tokens;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use args::{Args, Command};
use failure::Failure;

fn main() -> ExitCode {
    // What follows `wrap CLIENT` belongs to the client.
    let json = std::env::args_os().take_while(|arg| arg != "wrap").any(|arg| arg == "--json");
    let parsed = help::command().try_get_matches_from(arguments());
    let args = match parsed.and_then(|matches| Args::from_arg_matches(&matches)) {
        Ok(args) => args,
        Err(error) if error.exit_code() == 0 => {
            // Help and version: what was asked for, on standard output.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            return ExitCode::from(failure::USAGE);
        }
        Err(error) => {
            let words = std::env::args_os().skip(1).filter_map(|word| word.into_string().ok());
            let failure = store::history::swapped(words).unwrap_or_else(|| Failure::usage(&error));
            return failure::report(&failure, json);
        }
    };
    let json = json || args.json;
    store::set_zone(if args.utc { store::Zone::Utc } else { store::Zone::OfReader });
    match run(args) {
        Ok(code) => code,
        Err(failure) => failure::report(&failure, json),
    }
}

/// The arguments, in which a word to search without, as in `-cancelled`, is no flag, and `--explain dropped` is one argument:
/// to the parser of arguments a word after `--explain` would be the file.
fn arguments() -> Vec<OsString> {
    let (mut searching, mut wrapping) = (false, false);
    let mut given: Vec<OsString> = Vec::new();
    for arg in std::env::args_os() {
        let which = ["all", "dropped", "changed"].into_iter().find(|word| arg == *word);
        match (given.last_mut(), which) {
            (Some(last), Some(word)) if last == "--explain" => *last = format!("--explain={word}").into(),
            _ => given.push(arg),
        }
    }
    let word = |arg: OsString| {
        wrapping |= arg == "wrap";
        searching |= arg == "search" && !wrapping;
        let excludes = arg.to_str().is_some_and(|text| {
            text.len() > 1 && text.starts_with('-') && !text.starts_with("--") && text != "-h"
        });
        // A space in front makes it a word to clap, and means nothing to the query.
        if searching && excludes { [OsString::from(" "), arg].into_iter().collect() } else { arg }
    };
    given.into_iter().map(word).collect()
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Simulate(simulate) => return simulate::run(&simulate, args.json),
        Command::Check(check) => return check::run(&check, args.json),
        Command::Chat(chat) => return chat::run(&chat, args.json),
        Command::Agent(agent) => return agent::run(&agent, args.json),
        Command::Subagent(subagent) => return subagent::run(&subagent, args.json),
        Command::Lisp(lisp) => return lisp::run(&lisp, args.json),
        Command::Validate(validate) => return flow::validate::run(&validate, args.json),
        Command::Schema(schema) => return flow::schema::run(&schema, args.json),
        Command::Init(init) => return flow::init::run(&init, args.json),
        Command::Run(run) => return flow::run::run(&run, args.json),
        Command::Resume(resume) => return flow::run::resume(&resume, args.json),
        Command::Lens(lens) => return flow::lens::run(&lens, args.json),
        Command::Backup(backup) => return store::backup::run(&backup, args.json),
        Command::Restore(restore) => return store::backup::run_restore(&restore, args.json),
        Command::Verify(verify) => return store::verify::run(&verify, args.json),
        Command::Prune(prune) => return store::prune::run(&prune, args.json),
        Command::Doctor(doctor) => return store::doctor::run(&doctor, args.json),
        Command::Import(import) => return store::import::run(&import, args.json),
        Command::Wrap(wrap) => return client::wrap::run(&wrap, args.json),
        Command::Setup(setup) => client::setup::run(&setup, args.json),
        Command::Service(service) => client::service::run(&service, args.json),
        Command::Serve(serve) => server::run(&serve, args.json),
        Command::Key(key) => server::key::run(&key, args.json),
        Command::History(history) => store::history::run(&history, args.json),
        Command::List(list) => store::list::run(&list, args.json),
        Command::Show(show) => store::read::show(&show, args.json),
        Command::Read(read) => store::read::run(&read, args.json),
        Command::Mcp(mcp) => server::mcp::run(&mcp),
        Command::Search(search) => store::search::run(&search, args.json),
        Command::Erase(erase) => store::erase::run(&erase, args.json),
        Command::Export(export) => store::export::run(&export, args.json),
        Command::Convert(convert) => convert::run(&convert, args.json),
        Command::Curate(curate) => curate::run(&curate, args.json),
        Command::Tokens(tokens) => tokens::run(&tokens, args.json),
        Command::Redact(redact) => redact::run(&redact, args.json),
        Command::Man { folder } => help::man(&folder, args.json),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "scrollback", &mut script);
            input::print(&String::from_utf8_lossy(&script))
        }
    }
    .map(|()| ExitCode::SUCCESS)
}
