//! Examining a database: whether its pages have checksums, and its indexes by amcheck where that is installed.

use super::connection::Lent;
use crate::engine::examine::Examined;
use crate::engine::verify::ProblemKind;
use crate::error::{ErrorKind, StoreError};
use crate::sql::Sql;
use crate::table::ColumnValue;

/// What the server says about itself.
pub(super) async fn server(rows: &mut Lent) -> Result<Examined, StoreError> {
    let mut found = Examined::default();
    if first(rows, "select setting from pg_settings where name = 'data_checksums'").await?
        != Some("on".into())
    {
        found.notes.push(
            "the server keeps no checksums of its pages (data_checksums is off): what its disk changes is noticed only in what \
             is compared here"
                .into(),
        );
    }
    if first(rows, "select extname::text from pg_extension where extname = 'amcheck'").await?.is_none() {
        found.notes.push(
            "the extension amcheck is not installed: indexes are not compared with their tables".into(),
        );
        return Ok(found);
    }
    let indexes = "select c.oid::int8, c.relname::text from pg_class c join pg_am a on a.oid = c.relam \
                   where a.amname = 'btree' and c.relkind = 'i' and c.relnamespace = current_schema()::regnamespace \
                   order by c.relname";
    for cells in rows.ask(indexes, Vec::new()).await? {
        let [ColumnValue::Int(index), ColumnValue::Text(name)] = cells.as_slice() else { continue };
        let checked = format!("select bt_index_check({index}::oid::regclass, true)::text");
        match rows.ask(&checked, Vec::new()).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Damaged => {
                found.problem(ProblemKind::PageDamaged, format!("the index {name}: {error}"));
                // The transaction is over; what is broken is known.
                return Ok(found);
            }
            Err(error) => {
                found.notes.push(format!("amcheck may not be used: {error}"));
                return Ok(found);
            }
        }
    }
    Ok(found)
}

async fn first(rows: &mut Lent, sql: &str) -> Result<Option<String>, StoreError> {
    let found = rows.ask(sql, Vec::new()).await?.pop();
    Ok(found.and_then(|cells| match cells.into_iter().next() {
        Some(ColumnValue::Text(text)) => Some(text),
        _ => None,
    }))
}
