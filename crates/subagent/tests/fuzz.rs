//! The short form of `./dev fuzz subagent_extract`, `subagent_signature` and `subagent_show`: the same bodies over mutated
//! texts, on every test run.

#[path = "../../../fuzz/subagent_bodies.rs"]
mod bodies;

use crate::support::Numbers;

const REPLIES: [&str; 6] = [
    "I look.\n```clojure\n(def a 1)\n```\nand\n```clj\n(return a)\n```",
    "````markdown\n```clojure\n(no)\n```\n````\n~~~lisp\n(yes)\n~~~",
    "; a comment\r\n(return 1)\r\n",
    "```\n(a)\n```\n```json\n{}\n```",
    "```clojure\n(def s \"a\n``` b\")",
    "é ` `` ``` ```` ~~~ (x",
];
const SIGNATURES: [&str; 5] = [
    "(query :string, limit :int?) -> [{id :int, title :string?}]",
    "{a {b [:float?]?}, c-d :keyword}",
    "( ) -> :any",
    ":datetime?",
    "(m {}) -> [:bool]",
];
const VALUES: [&str; 6] = [
    "[1 [2 [3 [4 [5]]]] #{1 2 3 4 5}]",
    "{\"a\" \"long text é👩‍👩‍👧\" \"_hidden\" nil :k 0.30000000000000004 :m {:n {:o {:p 1}}}}",
    "#inst \"2024-01-15T10:00:00Z\"",
    "[\"a\\nb\" :c/d #\"x+\" ##Inf -1.5e300 123456789012345678901234567890]",
    "#'x",
    "{[1 2] {1 2} #{} []}",
];

fn mutated(seeds: &[&str], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seeds[numbers.below(seeds.len())].as_bytes().to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        match numbers.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, b"()[]{}`~\n\r\"\\:?,->#' 0_"[numbers.below(22)]),
            2 if at < bytes.len() => bytes[at] = numbers.below(256) as u8,
            3 if at < bytes.len() => drop(bytes.remove(at)),
            _ => {
                let other = seeds[numbers.below(seeds.len())].as_bytes();
                let from = numbers.below(other.len() + 1);
                bytes.splice(at..at, other[from..].iter().copied());
            }
        }
    }
    bytes
}

#[test]
fn replies_signatures_and_values_of_any_kind_never_panic() {
    let mut numbers = Numbers(7);
    for _ in 0..3000 {
        bodies::reply(&mutated(&REPLIES, &mut numbers));
        bodies::signature(&mutated(&SIGNATURES, &mut numbers));
    }
    for _ in 0..600 {
        let mut bytes = mutated(&VALUES, &mut numbers);
        bytes.insert(0, numbers.below(256) as u8);
        bodies::show(&bytes);
    }
    for text in
        ["[".repeat(100_000), "(".repeat(1000), format!("{}:int", "[".repeat(1000)), "`".repeat(100_000)]
    {
        bodies::reply(text.as_bytes());
        bodies::signature(text.as_bytes());
    }
}
