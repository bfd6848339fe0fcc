//! Settings as lines `NAME=value`.

/// The value of a name; the last line that sets it counts, as it does for the programs that read such files.
pub(super) fn read(text: &str, keys: &[String]) -> Option<String> {
    text.lines().filter(|line| is_of(line, keys)).filter_map(|line| line.split_once('=')).next_back().map(
        |(_, value)| {
            let value = value.trim();
            match value.chars().next() {
                Some(quote @ ('"' | '\'' | '`')) if value.len() > 1 && value.ends_with(quote) => {
                    value.trim_matches(quote).to_string()
                }
                _ => value.split(" #").next().unwrap_or_default().trim().to_string(),
            }
        },
    )
}

pub(super) fn set(text: &str, keys: &[String], value: &str) -> String {
    let line = format!("{}={value}", keys.concat());
    if read(text, keys).as_deref() == Some(value) {
        return text.into();
    }
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(last) = lines.iter().rposition(|line| is_of(line, keys)) else {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { end };
        return format!("{text}{gap}{line}{end}");
    };
    let rewritten = |(at, old): (usize, &&str)| {
        if at != last {
            return (*old).to_string();
        }
        let ending = old.get(old.trim_end_matches(['\r', '\n']).len()..).unwrap_or_default();
        format!("{line}{ending}")
    };
    lines.iter().enumerate().map(rewritten).collect()
}

pub(super) fn remove(text: &str, keys: &[String]) -> String {
    text.split_inclusive('\n').filter(|line| !is_of(line, keys)).collect()
}

fn is_of(line: &str, keys: &[String]) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line);
    line.split_once('=').is_some_and(|(name, _)| name.trim() == keys.concat())
}
