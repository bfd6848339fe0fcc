//! The commands that use a store.

pub(crate) mod args;
pub(crate) mod backup;
pub(crate) mod doctor;
pub(crate) mod erase;
pub(crate) mod export;
mod goose;
pub(crate) mod history;
pub(crate) mod import;
mod lines;
pub(crate) mod list;
pub(crate) mod private;
mod progress;
pub(crate) mod prune;
pub(crate) mod read;
pub(crate) mod search;
pub(crate) mod verify;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use scrollback_core::Time;
use scrollback_store::{
    Access, Conversation, ConversationId, ErrorKind, Listing, Memory, Recipient, Store, StoreError, Tenant,
    Url, Which, open_for,
};

use crate::failure::{FAILED, Failure, USAGE};
use args::StoreArgs;
use scrollback_agent::config::{self, Config};

/// The store when nothing else is said.
const DEFAULT_STORE: &str = "sqlite:scrollback.db";

/// What a store command works with, before anything is opened.
pub(crate) struct Setup {
    pub(crate) url: String,
    pub(crate) config: Config,
    /// The tenant that was named.
    named: Option<Tenant>,
}

/// What a command does with a store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// It writes; a store that is not there is made.
    Write,
    /// It reads; a store that is not there is an error.
    Look,
    /// It says what it would write; a store that is not there is an empty one.
    Rehearse,
}

impl Setup {
    /// Reads flags, environment and configuration, in that order. What is wrong is found before a store is opened.
    pub(crate) fn new(args: &StoreArgs) -> Result<Self, Failure> {
        Setup::with_default(args, || DEFAULT_STORE.into())
    }

    /// The same for commands that are run anywhere: where no store is named and there is none in the working directory, it
    /// is the person's own.
    pub(crate) fn anywhere(args: &StoreArgs) -> Result<Self, Failure> {
        Setup::with_default(args, || {
            let here = DEFAULT_STORE.strip_prefix("sqlite:").is_some_and(|file| Path::new(file).exists());
            let own = if here { None } else { config::user_store::url() };
            own.unwrap_or_else(|| DEFAULT_STORE.into())
        })
    }

    /// The same with another store where none is named.
    pub(crate) fn with_default(args: &StoreArgs, default: impl FnOnce() -> String) -> Result<Self, Failure> {
        let config = config::load()?;
        let named = args.tenant.as_deref().map(Tenant::parse).transpose().map_err(|error| usage(&error))?;
        let from_environment = std::env::var("SCROLLBACK_STORE").ok().filter(|url| !url.is_empty());
        let url = args.store.clone().or(from_environment).or_else(|| config.store().map(String::from));
        let url = url.unwrap_or_else(default);
        Url::parse(&url)?;
        Ok(Setup { url, config, named })
    }

    /// Whose data.
    pub(crate) fn tenant(&self) -> Tenant {
        self.named.clone().unwrap_or_default()
    }

    /// Whose data; all tenants' unless one is named.
    pub(crate) fn named_tenant(&self) -> Option<&Tenant> {
        self.named.as_ref()
    }

    /// Whether there may be something to look at: a file that is not there holds nothing.
    pub(crate) fn exists(&self) -> bool {
        exists(&self.url)
    }

    /// The error about a store that is not there. People who look for the record of wrapped clients in the wrong place are told
    /// where it is.
    pub(crate) fn not_there(&self) -> Failure {
        let file = self.url.strip_prefix("sqlite:").unwrap_or(&self.url);
        let own = config::user_store::url().filter(|own| self.url == DEFAULT_STORE && exists(own));
        let elsewhere = own
            .map_or_else(String::new, |own| format!("; what `scrollback wrap` recorded is in --store {own}"));
        Failure::new(FAILED, "not_found", format!("there is no store at {file}{elsewhere}"))
            .with("path", file)
    }

    /// Makes the folder of a store that is a file, readable by this person only.
    pub(crate) fn make_folder(&self) -> Result<(), Failure> {
        let Ok(Url::Sqlite(path)) = Url::parse(&self.url) else { return Ok(()) };
        let Some(folder) = Path::new(&path).parent().filter(|folder| !folder.as_os_str().is_empty()) else {
            return Ok(());
        };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(|error| {
            let why = "the folder of the store cannot be created (--store names another place)";
            Failure::io(&format!("{why}: {}", folder.display()), &error)
        })
    }

    /// Opens the store.
    pub(crate) async fn open(&self, intent: Intent) -> Result<Arc<dyn Store>, Failure> {
        if intent != Intent::Write {
            // Looking makes no file, and a file that cannot be written can still be read.
            if !self.exists() {
                return if intent == Intent::Rehearse {
                    Ok(Arc::new(Memory::new()))
                } else {
                    Err(self.not_there())
                };
            }
            match open_for(&self.url, now(), Access::Write).await {
                Err(error) if error.kind() == ErrorKind::ReadOnly => {}
                other => return Ok(other?),
            }
            return Ok(open_for(&self.url, now(), Access::Read).await?);
        }
        let is_new = !self.exists();
        let opened = open_for(&self.url, now(), Access::Write).await?;
        if is_new {
            private::make_private(&self.url);
        }
        Ok(opened)
    }
}

/// Whether there may be a store: a file that is not there is none.
fn exists(url: &str) -> bool {
    match Url::parse(url) {
        Ok(Url::Sqlite(path)) => Path::new(&path).exists(),
        _ => true,
    }
}

/// Runs a command's work to its end.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("the runtime", &error))?;
    runtime.block_on(work)
}

/// The time, which only the command line reads.
pub(crate) fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A time on the command line.
pub(crate) fn time_named(text: Option<&str>) -> Result<Option<Time>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let time = Time::parse(text);
    let bad = || {
        let message = format!("{text:?} is not a time; write it as in 2026-01-31T12:00:00Z");
        Failure::new(USAGE, "usage", message)
    };
    time.map(Some).ok_or_else(bad)
}

/// A recipient on the command line.
pub(crate) fn recipient_named(text: &str) -> Result<Recipient, Failure> {
    Recipient::parse(text).map_err(|error| usage(&error))
}

/// A conversation on the command line.
pub(crate) fn conversation_named(text: &str) -> Result<ConversationId, Failure> {
    let bad =
        || Failure::new(USAGE, "usage", format!("{text:?} is not a conversation id: 26 letters and digits"));
    ConversationId::parse(text).ok_or_else(bad)
}

/// The wrong value of an argument.
pub(crate) fn usage(error: &StoreError) -> Failure {
    Failure::new(USAGE, "usage", error.to_string())
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let exit = match error.kind() {
            ErrorKind::BadUrl | ErrorKind::BadArgument => USAGE,
            _ => FAILED,
        };
        let code = if error.kind() == ErrorKind::BadArgument { "usage" } else { error.code() };
        let failure = Failure::new(exit, code, error.to_string());
        match error.heads() {
            Some((expected, actual)) => failure.with("expected", expected).with("actual", actual),
            None => failure,
        }
    }
}

/// A text on one line of a terminal: nothing that moves a cursor or changes a colour gets through.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let mut line: String = text
        .chars()
        .map(|letter| if letter.is_control() || letter.is_whitespace() { ' ' } else { letter })
        .collect();
    if line.chars().count() > width {
        line = line.chars().take(width.saturating_sub(1)).collect::<String>().trim_end().to_string() + "…";
    }
    line
}

/// Columns of the terminal; of a pipe, as many as people like to read.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

/// The zone in which people are told times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// That of the person at the terminal; UTC where the output goes to a program or a file.
    OfReader,
    /// UTC everywhere.
    Utc,
}

static ZONE: OnceLock<Zone> = OnceLock::new();

/// Says in which zone times are told. The first one said counts.
pub(crate) fn set_zone(zone: Zone) {
    let _ = ZONE.set(zone);
}

/// A time as people read it: to the minute, with its offset where it is local.
pub(crate) fn short(time: Time) -> String {
    short_in(time, zone().as_ref())
}

/// The same to the second.
pub(crate) fn to_the_second(time: Time) -> String {
    shown_in(time, zone().as_ref(), "%Y-%m-%d %H:%M:%S %:z", 19)
}

/// The zone of a person at a terminal, unless they asked for UTC.
fn zone() -> Option<TimeZone> {
    let local = ZONE.get() == Some(&Zone::OfReader) && std::io::stdout().is_terminal();
    local.then(TimeZone::system)
}

fn short_in(time: Time, zone: Option<&TimeZone>) -> String {
    shown_in(time, zone, "%Y-%m-%d %H:%M %:z", 16)
}

/// A time in a form where there is a zone, else in UTC, with so many letters of RFC 3339.
fn shown_in(time: Time, zone: Option<&TimeZone>, form: &str, letters: usize) -> String {
    if let (Some(zone), Ok(stamp)) = (zone, Timestamp::from_millisecond(time.0)) {
        return stamp.to_zoned(zone.clone()).strftime(form).to_string();
    }
    let text = time.to_string();
    text.get(..letters).map_or_else(|| text.clone(), |start| start.replace('T', " "))
}

/// Columns that a time takes in a table.
pub(crate) fn time_width() -> usize {
    short(Time(0)).chars().count()
}

/// Conversations with one person that are read at once: far more than anyone has.
const ALL: usize = 1_000_000;

/// The conversations with a person, the current one first; a failure if there is none.
pub(crate) async fn conversations_with(
    store: &dyn Store,
    tenant: &Tenant,
    recipient: &Recipient,
) -> Result<Vec<Conversation>, Failure> {
    let which = Which::With(recipient.clone());
    let listing = Listing { which, limit: ALL, ..Listing::default() };
    let listed = store.list(Some(tenant), listing).await?.conversations;
    let mut all: Vec<Conversation> = listed.into_iter().map(|(one, _)| one).collect();
    all.sort_by_key(|one| one.key.is_none());
    if all.is_empty() {
        let message = format!("there is no conversation with {:?}", recipient.as_str());
        return Err(Failure::new(FAILED, "not_found", message));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local_with_their_offset_or_utc() {
        let time = Time(1_767_225_600_000);
        assert_eq!(short_in(time, None), "2026-01-01 00:00");
        let east = jiff::tz::offset(2).to_time_zone();
        assert_eq!(short_in(time, Some(&east)), "2026-01-01 02:00 +02:00");
        let west = jiff::tz::offset(-5).to_time_zone();
        assert_eq!(short_in(time, Some(&west)), "2025-12-31 19:00 -05:00");
    }
}
