//! The language beside real Clojure, in one JVM, where one is installed: every case of the corpus that does not diverge
//! by decision, and thousands of generated expressions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types
)]

use std::fmt::Write;
use std::process::Command;

use crate::support::{Numbers, cases, eval, required, run_in};

/// Prints values as PTC-Lisp does: vectors for all sequences, maps and sets by key, floats without early exponents.
const PRELUDE: &str = include_str!("support/differential.clj");

/// The answers of Clojure to programs, in order; `None` where it is not installed.
fn clojure(name: &str, programs: &[String]) -> Option<Vec<String>> {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let script = folder.join(format!("{name}.clj"));
    std::fs::write(&script, PRELUDE).unwrap();
    let mut input = String::new();
    for program in programs {
        let escaped = program.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        writeln!(input, "\"{escaped}\"").unwrap();
    }
    let questions = folder.join(format!("{name}.txt"));
    std::fs::write(&questions, input).unwrap();
    let clojure = required::program(&["clojure"], "that programs mean what they mean in Clojure")?;
    let output =
        Command::new(clojure).arg(&script).stdin(std::fs::File::open(&questions).unwrap()).output().unwrap();
    let answers: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(String::from).collect();
    assert_eq!(answers.len(), programs.len(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(answers)
}

/// A program's value as ours prints it, or `error`.
fn ours(program: &str) -> String {
    let value = eval(program);
    let failed = matches!(
        run_in(program, &mut scrollback_lisp::Env::new()),
        Err(_) | Ok(scrollback_lisp::Outcome { result: Err(_), .. })
    );
    if failed { "error".into() } else { value }
}

fn compare(name: &str, programs: &[String]) {
    let Some(answers) = clojure(name, programs) else { return };
    let mut different = Vec::new();
    for (program, theirs) in programs.iter().zip(&answers) {
        let ours = ours(program);
        if ours != *theirs {
            different.push(format!("{program}\n    ours {ours}, Clojure {theirs}"));
        }
    }
    assert!(
        different.is_empty(),
        "{} of {} differ:\n{}",
        different.len(),
        programs.len(),
        different.join("\n")
    );
    println!("{} programs agree with Clojure", programs.len());
}

#[test]
fn cases_that_do_not_diverge_agree_with_clojure() {
    let programs: Vec<String> = cases("corpus/lisp/cases.jsonl")
        .iter()
        .filter(|case| case["diverges"].is_null() && case["data"].is_null() && case["tools"].is_null())
        // `fail` is ours, and what it was given is its own test.
        .filter(|case| !case["program"].as_str().unwrap().contains("(fail") && case["prints"].is_null())
        .map(|case| case["program"].as_str().unwrap().to_string())
        .collect();
    assert!(programs.len() > 150, "only {} cases", programs.len());
    compare("cases", &programs);
}

/// A template with `N` for a number, `V` for a vector of numbers, `S` for a string, `M` for a map, `F` for a function
/// of one number, `P` for a predicate, each filled in with another expression.
fn fill(template: &str, depth: usize, numbers: &mut Numbers) -> String {
    const N: &[&str] = &[
        "(+ N N)",
        "(- N N)",
        "(* N N)",
        "(quot N 7)",
        "(rem N 5)",
        "(mod N 5)",
        "(inc N)",
        "(dec N)",
        "(max N N)",
        "(min N N)",
        "(count V)",
        "(reduce + V)",
        "(reduce + 0 V)",
        "(apply + V)",
        "(if (P N) N N)",
        "(let [a N b N] (+ a b))",
        "(get M :a N)",
        "(nth V 1 N)",
        "(count S)",
        "(F N)",
        "(loop [i 0 s N] (if (< i 3) (recur (inc i) (+ s i)) s))",
        "(case (mod N 3) 0 1 1 2 3)",
        "(cond (P N) 1 (P N) 2 :else 3)",
        "(-> N inc (- 2))",
        "(bit-and N 15)",
        "(abs N)",
        "(reduce (fn [a x] (if (> a 20) (reduced a) (+ a x))) 0 V)",
        "(compare N N)",
        "(count M)",
        "(apply max 0 V)",
    ];
    const V: &[&str] = &[
        "(map F V)",
        "(filter P V)",
        "(remove P V)",
        "(take 2 V)",
        "(drop 1 V)",
        "(rest V)",
        "(reverse V)",
        "(sort V)",
        "(sort > V)",
        "(distinct V)",
        "(concat V V)",
        "(range 0 6 2)",
        "(vec V)",
        "(into [] V)",
        "(interleave V V)",
        "(take-while P V)",
        "(drop-while P V)",
        "(mapcat (fn [x] [x x]) V)",
        "(keep (fn [x] (when (P x) x)) V)",
        "(map-indexed (fn [i x] (+ i x)) V)",
        "(for [x V y [1 2] :when (P x)] (+ x y))",
        "(butlast [N N])",
        "(cons N V)",
        "(sort-by (fn [x] (mod x 3)) V)",
        "(reductions + V)",
        "(take-nth 2 V)",
        "(interpose 0 V)",
        "(flatten [V [V]])",
        "(vals (zipmap [:a :b] [N N]))",
        "(dedupe V)",
        "(map + V V)",
        "(drop-last V)",
        "(replace {1 2} V)",
        "(mapv F V)",
    ];
    const S: &[&str] = &[
        "(str N S)",
        "(str/upper-case S)",
        "(str/join \",\" V)",
        "(subs S 0 1)",
        "(str/reverse S)",
        "(apply str (map str V))",
        "(str/replace S \"a\" \"x\")",
        "(str/capitalize S)",
        "(str/trim S)",
        "(name :key)",
        "(format \"%d|%5d|%-4d|\" N N N)",
    ];
    const M: &[&str] = &[
        "(assoc M :b N)",
        "(dissoc M :a)",
        "(merge M {:c N})",
        "(update M :a (fnil inc 0))",
        "(zipmap [:x :y] V)",
        "(frequencies V)",
        "(group-by (fn [x] (mod x 2)) V)",
        "(select-keys M [:a])",
        "(into {} [[:a N]])",
        "(update-vals M str)",
        "(merge-with + {:a N} {:a N})",
        "(reduce (fn [m x] (assoc m x (inc x))) {} V)",
        "(map-invert {:a 1 :b 2})",
    ];
    const ANY: &[&str] = &[
        "N",
        "V",
        "S",
        "M",
        "[N S M]",
        "(partition 2 V)",
        "(partition-all 2 V)",
        "(split-at 1 V)",
        "(set V)",
        "(first V)",
        "(last V)",
        "(some P V)",
        "(every? P V)",
        "(set (keys M))",
        "(get-in {:a {:b M}} [:a :b])",
        "(let [[a b & r] V] [a b r])",
        "(let [{:keys [a] :or {a 9}} M] a)",
        "(partition-by P V)",
        "((juxt F F) N)",
        "((comp F F) N)",
        "(seq V)",
        "(next V)",
        "(empty? V)",
        "(split-with P V)",
        "(re-seq #\"[a-z]+\" S)",
        "(str/split \"a,b,,c\" #\",\")",
        "(when-let [x (first V)] x)",
        "(if-let [x (seq V)] (count x) :none)",
        "(set/union (set V) #{1})",
        "(= V V)",
        "(not= N N)",
        "(< N N N)",
        "(tree-seq vector? seq [1 [2 [3]]])",
        "(max-key F N N)",
        "(condp = N 1 :one :other)",
    ];
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(|c: char| "NVSMFP?".contains(c)) {
        let before = &rest[..at];
        out.push_str(before);
        let letter = &rest[at..=at];
        rest = &rest[at + 1..];
        // A letter inside a word is no place to fill.
        let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || "/-_?!".contains(c));
        if inside(out.chars().last()) || inside(rest.chars().next()) {
            out.push_str(letter);
            continue;
        }
        let leaf = depth == 0;
        out.push_str(&match letter {
            "N" if leaf => numbers.one_of(&["0", "1", "2", "7", "-3", "12"]).to_string(),
            "V" if leaf => {
                numbers.one_of(&["[]", "[1]", "[3 1 2]", "[5 5 2 8 1]", "(range 4)", "[-1 0 1]"]).to_string()
            }
            "S" if leaf => numbers.one_of(&["\"abc\"", "\"a b\"", "\"Zz\"", "\"banana\""]).to_string(),
            "M" if leaf => numbers.one_of(&["{}", "{:a 1}", "{:a 2 :b 3}"]).to_string(),
            "F" => numbers
                .one_of(&["inc", "dec", "(fn [x] (* x x))", "#(+ % 3)", "(partial + 2)", "-"])
                .to_string(),
            "P" => numbers
                .one_of(&["odd?", "even?", "pos?", "zero?", "(fn [x] (> x 2))", "#(< % 1)"])
                .to_string(),
            "N" => {
                let next = numbers.one_of(N);
                fill(next, depth - 1, numbers)
            }
            "V" => {
                let next = numbers.one_of(V);
                fill(next, depth - 1, numbers)
            }
            "S" => {
                let next = numbers.one_of(S);
                fill(next, depth - 1, numbers)
            }
            "M" => {
                let next = numbers.one_of(M);
                fill(next, depth - 1, numbers)
            }
            _ => {
                let next = numbers.one_of(ANY);
                fill(next, depth.saturating_sub(1), numbers)
            }
        });
    }
    out.push_str(rest);
    out
}

#[test]
fn generated_expressions_agree_with_clojure() {
    let mut numbers = Numbers(6);
    let programs: Vec<String> = (0..3000).map(|_| fill("?", 3, &mut numbers)).collect();
    compare("generated", &programs);
}
