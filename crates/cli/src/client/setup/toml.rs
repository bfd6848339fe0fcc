//! Settings in TOML, by a document that keeps comments and layout.

use toml_edit::{DocumentMut, Item, Table, TableLike, Value, value};

use super::format::{BadFile, place};

pub(super) fn read(text: &str, keys: &[String]) -> Result<Option<String>, BadFile> {
    let document = parse(text)?;
    let mut item = document.as_item();
    for key in keys {
        let Some(next) = item.as_table_like().and_then(|table| table.get(key)) else { return Ok(None) };
        item = next;
    }
    let text = item.as_str().map(String::from);
    Ok(text.or_else(|| item.as_value().map(|value| value.to_string().trim().to_string())))
}

pub(super) fn set(text: &str, keys: &[String], wanted: &str) -> Result<String, BadFile> {
    let mut document = parse(text)?;
    let Some((last, tables)) = keys.split_last() else { return Ok(text.into()) };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for key in tables {
        let bad = || {
            let (line, column) = place(text, text.find(key.as_str()).unwrap_or_default());
            BadFile { line, column, problem: format!("`{key}` must be a table") }
        };
        let mut new = Table::new();
        new.set_implicit(true);
        table = table.entry(key).or_insert(Item::Table(new)).as_table_like_mut().ok_or_else(bad)?;
    }
    match table.get_mut(last) {
        Some(Item::Value(existing)) if existing.as_str() == Some(wanted) => {}
        Some(Item::Value(existing)) => {
            let decor = existing.decor().clone();
            *existing = written(wanted);
            *existing.decor_mut() = decor;
        }
        _ => {
            table.insert(last, value(written(wanted)));
        }
    }
    Ok(with_line_ends_of(text, document.to_string()))
}

pub(super) fn remove(text: &str, keys: &[String]) -> Result<String, BadFile> {
    let mut document = parse(text)?;
    let mut depth = keys.len();
    while let Some((last, tables)) = keys.get(..depth).and_then(<[String]>::split_last) {
        let mut table: &mut dyn TableLike = document.as_table_mut();
        for key in tables {
            let Some(next) = table.get_mut(key).and_then(Item::as_table_like_mut) else {
                return Ok(text.into());
            };
            table = next;
        }
        let is_outermost_value = depth == keys.len();
        let emptied = table.get(last).and_then(Item::as_table_like).is_some_and(TableLike::is_empty);
        if !is_outermost_value && !emptied {
            break;
        }
        take_out(table, last);
        depth -= 1;
    }
    Ok(with_line_ends_of(text, document.to_string()))
}

/// A value to be written: a list where the text is one, else a string.
fn written(text: &str) -> Value {
    let list = text.starts_with('[').then(|| text.parse::<Value>().ok()).flatten();
    list.unwrap_or_else(|| text.into())
}

/// Takes a key out; comments above it stay, in front of what follows.
fn take_out(table: &mut dyn TableLike, name: &str) {
    let above = table
        .key(name)
        .and_then(|key| key.leaf_decor().prefix())
        .and_then(|prefix| prefix.as_str())
        .unwrap_or_default()
        .to_string();
    let names: Vec<String> = table.iter().map(|(key, _)| key.to_string()).collect();
    let following = names.iter().skip_while(|key| *key != name).nth(1).cloned();
    table.remove(name);
    if above.trim().is_empty() {
        return;
    }
    if let Some(mut key) = following.as_deref().and_then(|next| table.key_mut(next)) {
        let own =
            key.leaf_decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_string();
        key.leaf_decor_mut().set_prefix(format!("{above}{own}"));
    }
}

fn parse(text: &str) -> Result<DocumentMut, BadFile> {
    text.parse::<DocumentMut>().map_err(|error| {
        let (line, column) = place(text, error.span().map_or(0, |span| span.start));
        BadFile { line, column, problem: error.message().replace('\n', " ") }
    })
}

/// The printer ends lines with `\n` alone; a file that ends them otherwise keeps its way.
fn with_line_ends_of(text: &str, printed: String) -> String {
    if text.contains("\r\n") { printed.replace("\r\n", "\n").replace('\n', "\r\n") } else { printed }
}
