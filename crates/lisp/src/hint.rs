//! Suggestions for what was probably meant, so that a model can repair its program in one turn.

use crate::value::{Map, Value};

/// How alike two names have to be, from 0 to 1, for one to be suggested for the other.
const ALIKE: f64 = 0.85;

/// Functions of Clojure that are not here, with what to use instead.
const ABSENT: &[(&[&str], &str)] = &[
    (
        &[
            "atom",
            "swap!",
            "reset!",
            "deref",
            "ref",
            "agent",
            "volatile!",
            "vswap!",
            "alter",
            "dosync",
            "compare-and-set!",
        ],
        "nothing can be changed in place: use reduce, loop or def",
    ),
    (
        &["iterate", "cycle", "lazy-seq", "lazy-cat", "repeatedly*", "delay", "force", "realized?"],
        "sequences are finite: use loop or range",
    ),
    (
        &["transduce", "sequence", "eduction", "completing"],
        "transducers are not supported: pass the collection to map, filter and reduce",
    ),
    (
        &["rand", "rand-int", "rand-nth", "shuffle", "random-uuid"],
        "there is no randomness: the same program gives the same answer",
    ),
    (
        &["slurp", "spit", "read-line", "line-seq", "with-open"],
        "there are no files: use a tool, as in (tool/name {…})",
    ),
    (
        &["eval", "load-string", "read-string", "resolve", "requiring-resolve", "macroexpand"],
        "programs cannot make programs: write a function",
    ),
    (&["symbol", "gensym"], "there are no symbols at run time: use keywords or strings"),
    (&["ex-info", "assert", "throw", "Exception.", "Throwable"], "end the program with (fail reason)"),
    (&["future", "promise", "deliver", "thread", "go", "chan"], "there are no threads: use pmap or pcalls"),
    (
        &["defrecord", "deftype", "defprotocol", "defmulti", "defmethod", "reify", "proxy"],
        "there are no types to define: use maps and functions",
    ),
    (&["printf"], "use (println (format …))"),
    (&["with-out-str"], "use str or format to build a string"),
    (&["meta", "with-meta", "vary-meta"], "values carry no metadata"),
    (&["uuid", "hash"], "values have no identity to print: use the value itself"),
    (&["nano-time", "time"], "there is no clock to measure with"),
];

/// The hint for a function that exists in Clojure but not here.
pub(crate) fn absent(name: &str) -> Option<&'static str> {
    ABSENT.iter().find(|(names, _)| names.contains(&name)).map(|(_, hint)| *hint)
}

/// The known name most like this one, if one is alike enough.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.chars().count() > 64 {
        return None;
    }
    let mut best: Option<(f64, &str)> = None;
    for candidate in known {
        let alike = jaro_winkler(name, candidate);
        if candidate != name && alike >= ALIKE && best.is_none_or(|(most, _)| alike > most) {
            best = Some((alike, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// How alike two words are, from 0 to 1; a common beginning counts extra.
fn jaro_winkler(a: &str, b: &str) -> f64 {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    let reach = (a.len().max(b.len()) / 2).saturating_sub(1);
    let mut taken = vec![false; b.len()];
    let mut matched = Vec::new();
    for (at, c) in a.iter().enumerate() {
        let window = at.saturating_sub(reach)..(at + reach + 1).min(b.len());
        for (other, taken) in taken.iter_mut().enumerate().take(window.end).skip(window.start) {
            if !*taken && b.get(other) == Some(c) {
                *taken = true;
                matched.push(*c);
                break;
            }
        }
    }
    if matched.is_empty() {
        return 0.0;
    }
    let others = b.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(c, _)| c);
    let swapped = matched.iter().zip(others).filter(|(a, b)| a != b).count() as f64 / 2.0;
    let count = matched.len() as f64;
    let jaro = (count / a.len() as f64 + count / b.len() as f64 + (count - swapped) / count) / 3.0;
    let prefix = a.iter().zip(&b).take(4).take_while(|(a, b)| a == b).count() as f64;
    jaro + prefix * 0.1 * (1.0 - jaro)
}

/// `:amount is not in {"id" "total"}`.
pub(crate) fn missing_key(key: &Value, map: &Map) -> String {
    let keys: Vec<String> = map.iter().take(10).map(|(key, _)| short(key)).collect();
    let more = if map.len() > 10 { " ..." } else { "" };
    format!("{} is not in {{{}{more}}}", short(key), keys.join(" "))
}

fn short(value: &Value) -> String {
    let text = crate::value::print::readable(value, 200).text;
    crate::value::text::shorten(&text, 30).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_names() {
        let known = ["filter", "reduce", "group-by", "sort-by", "frequencies", "count"];
        for (slip, meant) in [
            ("fliter", Some("filter")),
            ("redcue", Some("reduce")),
            ("groupby", Some("group-by")),
            ("frequency", Some("frequencies")),
            ("xyzzy", None),
            ("", None),
        ] {
            assert_eq!(nearest(slip, known), meant, "{slip}");
        }
    }
}
