//! What the store means, once, for every database: functions over [`Rows`](crate::rows::Rows), each run inside one
//! transaction.

pub(crate) mod append;
pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod commit;
pub(crate) mod copy;
pub(crate) mod erase;
pub(crate) mod examine;
pub(crate) mod fact;
pub(crate) mod fork;
pub(crate) mod large;
pub(crate) mod lineage;
pub(crate) mod list;
pub(crate) mod prune;
mod ranking;
pub(crate) mod read;
pub(crate) mod recall;
pub(crate) mod request;
pub(crate) mod restore;
pub(crate) mod search;
pub(crate) mod sent;
pub(crate) mod session;
pub(crate) mod tail;
pub(crate) mod verify;
