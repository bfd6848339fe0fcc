//! The short form of `./dev fuzz lisp_read` and `lisp_eval`: the same bodies over mutated programs, on every test run.
//! `./dev trial lisp` runs it at length.
#![allow(clippy::panic, clippy::unwrap_used)]

#[path = "../../../fuzz/lisp_bodies.rs"]
mod bodies;

use crate::support::Numbers;

/// How many programs are tried: so many on every test run, more when a trial asks for it.
#[allow(clippy::disallowed_methods)] // the crate reads no environment; its trial does
fn rounds(usual: usize) -> usize {
    let trial = std::env::var("SCROLLBACK_TRIAL_PROGRAMS").ok();
    trial.and_then(|number| number.parse().ok()).unwrap_or(usual)
}

fn seeds() -> Vec<Vec<u8>> {
    let cases = crate::support::cases("corpus/lisp/cases.jsonl");
    cases.iter().map(|case| case["program"].as_str().unwrap().as_bytes().to_vec()).collect()
}

/// A seed with a few bytes changed, cut, doubled or taken from another.
fn mutated(seeds: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seeds[numbers.below(seeds.len())].clone();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        match numbers.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, b"()[]{}#'\"\\;@~%\x00\xff 0-"[numbers.below(20) % 19]),
            2 if at < bytes.len() => bytes[at] = numbers.below(256) as u8,
            3 if at < bytes.len() => drop(bytes.remove(at)),
            _ => {
                let other = &seeds[numbers.below(seeds.len())];
                let from = numbers.below(other.len() + 1);
                bytes.splice(at..at, other[from..].iter().copied());
            }
        }
    }
    bytes
}

#[test]
fn sources_never_panic() {
    let (seeds, mut numbers) = (seeds(), Numbers(1));
    for _ in 0..rounds(20_000) {
        bodies::read(&mutated(&seeds, &mut numbers));
    }
}

#[test]
fn programs_never_panic_and_give_the_same_twice() {
    let (seeds, mut numbers) = (seeds(), Numbers(2));
    for _ in 0..rounds(5_000) {
        let mut bytes = mutated(&seeds, &mut numbers);
        bytes.insert(0, 0);
        bodies::eval(&bytes);
    }
    for _ in 0..rounds(10_000) {
        let length = numbers.below(60);
        let bytes: Vec<u8> =
            std::iter::once(1).chain((0..length).map(|_| numbers.below(256) as u8)).collect();
        bodies::eval(&bytes);
    }
}

#[test]
fn every_builtin_is_total_on_random_arguments() {
    const ARGUMENTS: [&str; 24] = [
        "nil",
        "true",
        "0",
        "-1",
        "2.5",
        "##NaN",
        "1e300",
        "99999999999999999999",
        "\"\"",
        "\"a-b é\"",
        ":k",
        "[]",
        "[1 2 3]",
        "[[:a 1]]",
        "{}",
        "{:a 1 \"b\" [2]}",
        "#{1 :a}",
        "inc",
        "(fn [x] x)",
        "(fn [& xs] xs)",
        "#\"a(b)?\"",
        "#date \"2024-02-29\"",
        "#inst \"2024-01-15T10:00:00Z\"",
        "9223372036854775807",
    ];
    let mut numbers = Numbers(3);
    for (_, builtin) in scrollback_lisp::builtins() {
        for _ in 0..150 {
            let count = numbers.below(5);
            let arguments: Vec<&str> =
                (0..count).map(|_| ARGUMENTS[numbers.below(ARGUMENTS.len())]).collect();
            bodies::eval(format!("\0({} {})", builtin.name, arguments.join(" ")).as_bytes());
        }
    }
}
