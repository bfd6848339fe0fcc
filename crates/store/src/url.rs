//! Stores by URL.

use std::path::Path;
use std::sync::Arc;

use scrollback_core::Time;

use crate::error::{ErrorKind, StoreError};
use crate::memory::Memory;
#[cfg(feature = "postgres")]
use crate::postgres::Postgres;
use crate::sqlite::{Access, Options, Sqlite};
use crate::store::Store;

/// Where a store is, read from a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Url {
    /// `memory:`, gone with the process.
    Memory,
    /// `sqlite::memory:`, likewise.
    SqliteInMemory,
    /// `sqlite:PATH`
    Sqlite(String),
    /// `postgres://…`
    Postgres(String),
}

impl Url {
    /// Reads a URL. Nothing is opened.
    ///
    /// ```
    /// use scrollback_store::Url;
    /// assert_eq!(Url::parse("sqlite:notes.db"), Ok(Url::Sqlite("notes.db".into())));
    /// assert!(Url::parse("mysql://localhost").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Url, StoreError> {
        let bad = |message: String| Err(StoreError::new(ErrorKind::BadUrl, message));
        match text.split_once(':') {
            Some(("sqlite", ":memory:")) => Ok(Url::SqliteInMemory),
            Some(("sqlite", "")) => bad("sqlite: needs a file, as in sqlite:scrollback.db".into()),
            Some(("sqlite", path)) if path.contains('\0') => bad("a file name cannot hold NUL".into()),
            Some(("sqlite", path)) => Ok(Url::Sqlite(path.strip_prefix("//").unwrap_or(path).into())),
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(Url::Postgres(text.into()))
            }
            Some(("postgres" | "postgresql", _)) => bad("postgres: needs //HOST/DATABASE behind it".into()),
            Some(("memory", "")) => Ok(Url::Memory),
            Some((scheme, _)) => {
                bad(format!("unknown store scheme {scheme:?}: expected sqlite:PATH or postgres://…"))
            }
            None => bad("a store is named as sqlite:PATH or postgres://…".into()),
        }
    }
}

/// Opens the store at a URL: `sqlite:PATH`, `sqlite::memory:`, `postgres://…`.
///
/// A file that is not there is made, its folder is not. `now` is written down as the time it was made.
pub async fn open(url: &str, now: Time) -> Result<Arc<dyn Store>, StoreError> {
    open_for(url, now, Access::Write).await
}

/// Opens the store at a URL to write, or only to read; then nothing is made and nothing migrated.
pub async fn open_for(url: &str, now: Time, access: Access) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match Url::parse(url)? {
        Url::Memory => Arc::new(Memory::new()),
        Url::SqliteInMemory => Arc::new(Sqlite::in_memory(now)?),
        Url::Sqlite(path) => {
            Arc::new(Sqlite::open_with(Path::new(&path), &Options { access, ..Options::default() }, now)?)
        }
        #[cfg(feature = "postgres")]
        Url::Postgres(url) => Arc::new(Postgres::open(&url, now).await?),
        #[cfg(not(feature = "postgres"))]
        Url::Postgres(_) => {
            let message =
                "this build has no PostgreSQL: build it with the feature `postgres`, or use sqlite:PATH";
            return Err(StoreError::new(ErrorKind::BadUrl, message));
        }
    })
}
