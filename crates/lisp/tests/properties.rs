//! Laws that hold for any input, tried on many that a seed makes; a failure names the seed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_wrap)]
#![allow(clippy::disallowed_methods)] // the crate has no threads; its tests do

use std::fmt::Write;
use std::sync::Arc;

use crate::support::Numbers;
use num_bigint::BigInt;
use scrollback_lisp::{Env, Outcome, Program, Tool, ToolJob, Value};

/// An integer near a limit of 64 bits, near zero, or of up to 200 bits.
fn integer(numbers: &mut Numbers) -> BigInt {
    let edges = [
        BigInt::from(i64::MIN),
        BigInt::from(i64::MAX),
        BigInt::from(u64::MAX),
        BigInt::from(i32::MIN),
        BigInt::from(0),
        BigInt::from(i128::MAX),
    ];
    let small = BigInt::from(numbers.below(7) as i64 - 3);
    match numbers.below(4) {
        0 | 1 => numbers.one_of(&edges).clone() + small,
        2 => BigInt::from(numbers.next() as i64 >> numbers.below(64)),
        _ => {
            let bits = numbers.below(200);
            let mut n = BigInt::from(1) << bits;
            n += BigInt::from(numbers.next());
            if numbers.below(2) == 0 { -n } else { n }
        }
    }
}

fn run(source: &str, env: &mut Env) -> Outcome {
    Program::compile(source).unwrap_or_else(|error| panic!("{source}: {error}")).run(env)
}

fn text(source: &str, env: &mut Env) -> String {
    let outcome = run(source, env);
    match (&outcome.result, outcome.value()) {
        (Err(error), _) => error.to_string(),
        (Ok(_), value) => value.unwrap().to_string(),
    }
}

#[test]
fn integers_of_any_size_add_multiply_divide_and_compare_exactly() {
    const SEED: u64 = 11;
    let mut numbers = Numbers(SEED);
    for round in 0..20_000 {
        let (a, b) = (integer(&mut numbers), integer(&mut numbers));
        let order = a.cmp(&b) as i8;
        let (sum, difference, product) = (&a + &b, &a - &b, &a * &b);
        let mut wanted = format!("{sum} {difference} {product} {order} {}", a == b);
        let mut source = format!("(+ {a} {b}) (- {a} {b}) (* {a} {b}) (compare {a} {b}) (= {a} {b})");
        if b != BigInt::from(0) {
            let (quot, rem) = (&a / &b, &a % &b);
            let floored = if rem != BigInt::from(0) && (rem < BigInt::from(0)) != (b < BigInt::from(0)) {
                &rem + &b
            } else {
                rem.clone()
            };
            write!(wanted, " {quot} {rem} {floored}").unwrap();
            write!(source, " (quot {a} {b}) (rem {a} {b}) (mod {a} {b})").unwrap();
        }
        let got = text(&format!("[{source}]"), &mut Env::new());
        assert_eq!(got, format!("[{wanted}]"), "seed {SEED}, round {round}: {a} and {b}");
    }
}

#[test]
fn integers_of_64_bits_agree_with_the_machine_in_128() {
    const SEED: u64 = 12;
    let mut numbers = Numbers(SEED);
    let program = Program::compile(
        "(let [a data/a b data/b] [(+ a b) (- a b) (* a b) (inc a) (dec b) (< a b) (>= a b)])",
    );
    let program = program.unwrap();
    for round in 0..20_000 {
        let mut pick = || match numbers.below(3) {
            0 => i64::MAX - numbers.below(3) as i64,
            1 => i64::MIN + numbers.below(3) as i64,
            _ => numbers.next() as i64 >> numbers.below(64),
        };
        let (a, b) = (pick(), pick());
        let (x, y) = (i128::from(a), i128::from(b));
        let got = program.run(&mut Env::new().data("a", Value::from(a)).data("b", Value::from(b)));
        let wanted = format!("[{} {} {} {} {} {} {}]", x + y, x - y, x * y, x + 1, y - 1, x < y, x >= y);
        assert_eq!(got.value().unwrap().to_string(), wanted, "seed {SEED}, round {round}: {a} and {b}");
    }
}

#[test]
fn sorting_keeps_the_order_of_arrival_among_equals() {
    const SEED: u64 = 13;
    let mut numbers = Numbers(SEED);
    let ascending = [
        "(sort-by first data/rows)",
        "(sort-by (fn [row] (first row)) data/rows)",
        "(sort-by first < data/rows)",
        "(sort-by first :asc data/rows)",
        "(sort-by first compare data/rows)",
        "(sort (fn [a b] (compare (first a) (first b))) data/rows)",
        "(sort (fn [a b] (< (first a) (first b))) data/rows)",
    ];
    let descending = [
        "(sort-by first > data/rows)",
        "(sort-by first :desc data/rows)",
        "(sort (fn [a b] (> (first a) (first b))) data/rows)",
        "(sort-by (fn [row] (- (first row))) data/rows)",
    ];
    let compiled = |sources: &[&str]| -> Vec<Program> {
        sources.iter().map(|source| Program::compile(source).unwrap()).collect()
    };
    let (up, down) = (compiled(&ascending), compiled(&descending));
    for round in 0..3_000 {
        let length = numbers.below(60);
        let keys = 1 + numbers.below(8);
        // 1 and 1.0 are one key, so which of them comes first is arrival as well.
        let mut rows: Vec<(i64, Value)> = (0..length as i64)
            .map(|arrival| {
                let key = numbers.below(keys) as i64;
                let shown = if numbers.below(3) == 0 { Value::from(key as f64) } else { Value::from(key) };
                (key, Value::vector([shown, Value::from(arrival)]))
            })
            .collect();
        let print =
            |rows: &[(i64, Value)]| Value::vector(rows.iter().map(|(_, row)| row.clone())).to_string();
        let data = Value::vector(rows.iter().map(|(_, row)| row.clone()));
        let mut env = Env::new().data("rows", data);
        rows.sort_by_key(|(key, _)| *key);
        for program in &up {
            let got = program.run(&mut env).value().unwrap().to_string();
            assert_eq!(got, print(&rows), "seed {SEED}, round {round}: {}", program.source());
        }
        let mut rows: Vec<(i64, Value)> = {
            let mut by_arrival = rows;
            by_arrival.sort_by_key(|(_, row)| match row {
                Value::Vector(row) => row.get(1).cloned(),
                _ => None,
            });
            by_arrival
        };
        rows.sort_by_key(|(key, _)| -key);
        for program in &down {
            let got = program.run(&mut env).value().unwrap().to_string();
            assert_eq!(got, print(&rows), "seed {SEED}, round {round}: {}", program.source());
        }
    }
}

/// Any value that reads back, a few levels deep.
fn value(numbers: &mut Numbers, depth: u32) -> Value {
    let strings = ["", "a", "a-b", "a_b", "é\u{301}", "\"\\\n\t\r", "👩‍👩‍👧", "nil", "\u{1}"];
    let kinds = if depth == 0 { 9 } else { 12 };
    match numbers.below(kinds) {
        0 => Value::Nil,
        1 => Value::from(numbers.below(2) == 0),
        2 | 3 => Value::from(integer(numbers)),
        4 => Value::from(f64::from_bits(numbers.next())),
        5 => Value::from((numbers.below(2000) as f64 - 1000.0) / 8.0),
        6 => Value::from(*numbers.one_of(&strings)),
        7 => Value::keyword(numbers.one_of::<&str>(&["a", "a-b", "a_b", "x/y", "with space", "é", "1"])),
        8 => {
            crate::support::run_in("#date \"2024-02-29\"", &mut Env::new()).unwrap().value().unwrap().clone()
        }
        9 => Value::vector((0..numbers.below(6)).map(|_| value(numbers, depth - 1)).collect::<Vec<_>>()),
        10 => {
            let entries: Vec<_> = (0..numbers.below(6))
                .map(|_| (value(numbers, depth - 1), value(numbers, depth - 1)))
                .collect();
            Value::Map(entries.into_iter().collect())
        }
        _ => Value::Set(
            (0..numbers.below(6))
                .map(|_| value(numbers, depth - 1))
                .collect::<Vec<_>>()
                .into_iter()
                .collect(),
        ),
    }
}

#[test]
fn what_is_printed_reads_back_as_the_same() {
    const SEED: u64 = 14;
    let mut numbers = Numbers(SEED);
    for round in 0..5_000 {
        let value = value(&mut numbers, 4);
        let printed = value.to_string();
        let outcome = run(&format!("'{printed}"), &mut Env::new());
        let back = outcome.value().unwrap_or_else(|| panic!("seed {SEED}, round {round}: {printed}"));
        assert_eq!(back, &value, "seed {SEED}, round {round}: {printed}");
        assert_eq!(back.to_string(), printed, "seed {SEED}, round {round}");
    }
}

#[test]
fn an_exact_key_always_wins_and_what_is_put_is_found() {
    const SEED: u64 = 15;
    let mut numbers = Numbers(SEED);
    let names = ["a", "a-b", "a_b", "b", "a-b_c", "a_b-c"];
    let key = |numbers: &mut Numbers| {
        let name = *numbers.one_of(&names);
        if numbers.below(2) == 0 { Value::keyword(name) } else { Value::from(name) }
    };
    let laws = Program::compile(
        "(let [m data/m k data/k v data/v]
           [(get (assoc m k v) k) (get-in (assoc-in m [k] v) [k]) (get (update m k (fn [_] v)) k)
            (get (merge m {k v}) k) (contains? (dissoc (into {} {k v}) k) k) (get m k)])",
    )
    .unwrap();
    for round in 0..10_000 {
        let entries: Vec<(Value, Value)> =
            (0..numbers.below(7)).map(|at| (key(&mut numbers), Value::from(at as i64))).collect();
        let (map, key): (scrollback_lisp::Map, Value) = (entries.into_iter().collect(), key(&mut numbers));
        let fresh = Value::from(1000 + round);
        let exact = map.get_exact(&key).cloned();
        let env =
            Env::new().data("m", Value::Map(map.clone())).data("k", key.clone()).data("v", fresh.clone());
        let outcome = laws.run(&mut env.clone());
        let told = format!("seed {SEED}, round {round}: {key} in {map:?}");
        let Some(Value::Vector(got)) = outcome.value() else { panic!("{told}: {:?}", outcome.result) };
        for at in 0..4 {
            assert_eq!(got.get(at), Some(&fresh), "{told}");
        }
        assert_eq!(got.get(4), Some(&Value::from(false)), "{told}");
        if let Some(exact) = exact {
            assert_eq!(got.get(5), Some(&exact), "{told}");
        }
        assert_eq!(got.get(5), Some(map.get(&key).unwrap_or(&Value::Nil)), "{told}");
    }
}

/// A tool that fails for some arguments.
fn tool() -> Tool {
    Tool::new("step", None, |call| match call.args.get(&Value::keyword("n")) {
        Some(Value::Int(n)) if n % 7 == 6 => Err(format!("no {n}")),
        Some(Value::Int(n)) => Ok(Value::from(n + 1)),
        _ => Err("no n".into()),
    })
}

#[test]
fn branches_give_the_same_whether_calls_are_made_in_turn_or_at_once() {
    const SEED: u64 = 16;
    let mut numbers = Numbers(SEED);
    // As unlike the order of the calls as can be: the last first, each on a thread of its own.
    let executor = Arc::new(|jobs: Vec<ToolJob>| {
        let running: Vec<_> = jobs.into_iter().rev().map(std::thread::spawn).collect();
        let mut answers: Vec<_> = running.into_iter().map(|job| job.join().unwrap()).collect();
        answers.reverse();
        answers
    });
    let bodies = [
        "(tool/step {:n n})",
        "(do (println :in n) (let [m (tool/step {:n n})] (println :out m) (+ m (tool/step {:n m}))))",
        "(if (odd? n) (* n n) (tool/step {:n (quot n 2)}))",
        "(pmap (fn [m] (println m) (tool/step {:n (+ n m)})) [0 1])",
        "(do (def seen n) (when (> n 20) (/ n 0)) (tool/step {:n seen}))",
    ];
    for round in 0..300 {
        let list: Vec<String> = (0..numbers.below(6)).map(|_| numbers.below(30).to_string()).collect();
        let (first, second) = (numbers.one_of(&bodies), numbers.one_of(&bodies));
        let source = format!(
            "(def seen 0) (println (pmap (fn [n] {first}) [{}])) (pcalls (fn [] (let [n 3] {second})) (fn [] seen))",
            list.join(" ")
        );
        let told = |env: Env| {
            let outcome = run(&source, &mut env.tool(tool()));
            let calls: Vec<String> =
                outcome.tool_calls.iter().map(|call| format!("{:?} {:?}", call.args, call.result)).collect();
            format!(
                "{:?} {:?} {calls:?} {:?} {}",
                outcome.result,
                outcome.prints,
                outcome.usage,
                outcome.memory.len()
            )
        };
        assert_eq!(
            told(Env::new()),
            told(Env::new().executor(executor.clone())),
            "seed {SEED}, round {round}: {source}"
        );
    }
}
