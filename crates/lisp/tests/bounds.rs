//! No program gets out, and none takes more than it is given.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{repository, run_in};
use scrollback_lisp::{CancelToken, Env, Limits, Program, Reason, Tool, Value};

/// The programs of a file, one a line.
fn programs(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository(file)).unwrap();
    text.lines().map(String::from).collect()
}

/// Limits low enough that hundreds of programs that take all they can are quick.
fn low() -> Limits {
    Limits {
        fuel: 1_000_000,
        loop_jumps: 200_000,
        time: Duration::from_secs(20),
        memory: 8 << 20,
        ..Limits::default()
    }
}

fn clocked(limits: Limits) -> Env {
    let start = Instant::now();
    Env::new()
        .limits(limits)
        .clock(Arc::new(move || start.elapsed()))
        .tool(Tool::new("echo", None, |call| Ok(Value::Map(call.args))))
}

#[test]
fn every_attempt_to_escape_ends_with_a_typed_error() {
    let attempts = programs("corpus/lisp/escape.txt");
    assert!(attempts.len() >= 300, "only {} attempts", attempts.len());
    for attempt in attempts {
        let outcome = run_in(&attempt, &mut clocked(low()));
        let error = match outcome {
            Err(error) => error,
            Ok(outcome) => match outcome.result {
                Err(error) => error,
                Ok(_) => panic!("{attempt} gave {:?}", outcome.value()),
            },
        };
        assert!(!error.reason.is_limit(), "{attempt}: {error}");
        assert!(!error.message.contains("/home") && !error.message.contains("src/"), "{attempt}: {error}");
    }
}

#[test]
fn every_program_that_takes_all_it_can_ends_with_a_typed_error_within_its_limits() {
    let programs = programs("corpus/lisp/exhaustion.txt");
    assert!(programs.len() >= 200, "only {} programs", programs.len());
    for program in programs {
        let compiled = Program::compile(&program);
        let outcome = match compiled {
            Err(error) => {
                assert!(error.reason.is_static(), "{program}: {error}");
                continue;
            }
            Ok(compiled) => compiled.run(&mut clocked(low())),
        };
        let Err(error) = &outcome.result else { panic!("{program} gave {:?}", outcome.value()) };
        assert!(error.reason != Reason::Timeout, "{program} was stopped by the clock only");
        assert!(outcome.usage.fuel <= low().fuel, "{program}");
        assert!(outcome.usage.memory_bytes <= low().memory, "{program}");
        assert_eq!(outcome.memory.len(), 0, "{program} left something behind");
    }
}

/// Small programs of every kind.
const SWEPT: [&str; 58] = [
    "(map (fn [x] (+ x 1)) [1 2.5 3])",
    "(map (fn [x] (let [y (* x x)] (if (> y 3) [y] y))) (range 4))",
    "(map (fn [a b] (+ a b)) [1 2] [3 4])",
    "(filter (fn [x] (odd? x)) (range 9))",
    "(reduce (fn [a x] (if (> a 3) (reduced a) (+ a x))) 0 (range 9))",
    "(reduce (fn [a b] (str a b)) \"\" [1 2 3])",
    "(update-vals {:a 1 :b 2} (fn [x] (* x 2)))",
    "(sort-by (fn [x] (- 0 x)) [1 3 2])",
    "(+ 1 2)",
    "(reduce + (range 20))",
    "(map inc [1 2 3])",
    "(filter odd? (range 10))",
    "(let [{:keys [a b]} {:a 1 :b 2}] [a b])",
    "(loop [i 0] (if (< i 20) (recur (inc i)) i))",
    "(defn f [n] (if (< n 2) n (+ (f (- n 1)) (f (- n 2))))) (f 5)",
    "(sort > [3 1 2])",
    "(sort-by :n [{:n 2} {:n 1}])",
    "(group-by even? (range 6))",
    "(frequencies \"abca\")",
    "(str/join \", \" [1 2 3])",
    "(format \"%5.2f|%s\" 1.5 :a)",
    "(re-seq #\"\\d+\" \"a1b22\")",
    "(json/parse-string \"{\\\"a\\\": [1, 2]}\")",
    "(json/generate-string {:a [1 2]})",
    "(for [x [1 2] y [3 4] :when (odd? x)] [x y])",
    "(do (doseq [x [1 2]] (println x)) :ok)",
    "(pmap inc [1 2 3])",
    "(pcalls (fn [] 1) (fn [] 2))",
    "(->> (range 5) (map inc) (take 2))",
    "(cond-> {} true (assoc :a 1))",
    "(case :b :a 1 :b 2)",
    "(condp = 2 1 :a 2 :b)",
    "(letfn [(e? [n] (if (zero? n) true (o? (dec n)))) (o? [n] (if (zero? n) false (e? (dec n))))] (e? 4))",
    "((comp inc inc) 1)",
    "((juxt inc dec) 1)",
    "(apply + 1 [2 3])",
    "(update {:n 1} :n + 4)",
    "(assoc-in {} [:a :b] 1)",
    "(merge-with + {:a 1} {:a 2})",
    "(postwalk #(if (number? %) (inc %) %) [1 [2]])",
    "(tree-seq vector? seq [1 [2]])",
    "(partition 2 1 [1 2 3])",
    "(distinct [1 1 2])",
    "(zipmap [:a :b] [1 2])",
    "(str/split \"a,b\" #\",\")",
    "(str/replace \"aXb\" #\"X\" \"-\")",
    "(sum-by :x [{:x 1} {:x 2}])",
    "(filter (where :n > 1) [{:n 1} {:n 2}])",
    "(def x 1) (def y (inc x)) [x y]",
    "(return 5)",
    "(some #{2} [1 2])",
    "(every? pos? [1 2])",
    "(reductions + [1 2 3])",
    "(into {} [[:a 1]])",
    "(* 99999999999 99999999999)",
    "(str (LocalDate/parse \"2024-02-28\"))",
    "(set/union #{1} #{2})",
    "(dotimes [i 3] (println i))",
];

#[test]
fn with_any_fuel_a_program_gives_its_answer_or_runs_out() {
    for source in SWEPT {
        let program = Program::compile(source).unwrap();
        let wanted = program.run(&mut Env::new());
        let value = wanted.value().map_or_else(|| panic!("{source} has no value"), ToString::to_string);
        let mut enough = false;
        for fuel in 0..=10_000 {
            let outcome = program.run(&mut Env::new().limits(Limits { fuel, ..Limits::default() }));
            match &outcome.result {
                Ok(_) => {
                    assert_eq!(
                        outcome.value().map(ToString::to_string),
                        Some(value.clone()),
                        "{source} with {fuel}"
                    );
                    assert_eq!(outcome.usage.fuel, wanted.usage.fuel, "{source} with {fuel}");
                    enough = true;
                }
                Err(error) => {
                    assert_eq!(error.reason, Reason::FuelExceeded, "{source} with {fuel}: {error}");
                    assert!(!enough, "{source}: less fuel was enough than {fuel}");
                }
            }
        }
        assert!(enough, "{source} needs more than 10000");
    }
}

#[test]
fn with_any_memory_a_program_gives_its_answer_or_runs_out() {
    for source in SWEPT {
        let program = Program::compile(source).unwrap();
        let value = program.run(&mut Env::new()).value().map(ToString::to_string);
        for kib in (0..64).chain([100, 200, 500, 1024]) {
            let limits = Limits { memory: kib << 10, ..Limits::default() };
            let outcome = program.run(&mut Env::new().limits(limits));
            match &outcome.result {
                Ok(_) => {
                    assert_eq!(outcome.value().map(ToString::to_string), value, "{source} with {kib} KiB");
                }
                Err(error) => {
                    assert_eq!(error.reason, Reason::MemoryExceeded, "{source} with {kib} KiB: {error}");
                }
            }
        }
    }
}

#[test]
fn a_million_levels_need_no_stack() {
    let work = || {
        let limits = Limits { fuel: u64::MAX, memory: 4 << 30, ..Limits::default() };
        let deep = "(reduce (fn [a _] [a]) [] (range 1000000))";
        let run = |source: String| {
            let outcome = Program::compile(&source).unwrap().run(&mut Env::new().limits(limits.clone()));
            outcome.value().cloned().unwrap_or_else(|| panic!("{source}: {:?}", outcome.result.err()))
        };
        let value = run(deep.into());
        assert_eq!(value.to_string().len(), 2_000_002);
        assert_eq!(value.to_json().len(), 2_000_002);
        assert_eq!(value, run(deep.into()));
        assert!(value < run(format!("[{deep} 1]")));
        let maps = run("(reduce (fn [a _] {:a a}) {} (range 1000000))".into());
        assert_eq!(maps.to_string().len(), 5 * 1_000_000 + 2);
        let back = Value::from_json(&value.to_json()).unwrap();
        assert_eq!(back, value);
        // Functions that hold functions, and sets that hold sets.
        drop(run("(reduce (fn [f _] (fn [] f)) nil (range 1000000))".into()));
        drop(run("(reduce (fn [f _] (comp f f)) inc (range 1000000))".into()));
        drop(run("(reduce (fn [a i] #{[a]}) #{} (range 2000))".into()));
        assert_eq!(run(format!("(count (flatten {deep}))")), Value::from(0));
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap().join().unwrap();
}

#[test]
fn sources_of_any_depth_and_length_end_in_an_error() {
    let work = || {
        for open in ["(", "[", "{", "#{", "#(", "'", "#_", "(let [a ", "(fn [] ", "(-> ", "(if ", "#'"] {
            let error = Program::compile(&open.repeat(100_000)).err().unwrap();
            assert_eq!(error.reason, Reason::ParseError, "{open}");
        }
        assert!(Program::compile(&"x".repeat(2 << 20)).is_err());
        let patterns: Vec<String> = (0..20_000).map(|n| format!("#\"\\w{n}\"")).collect();
        assert_eq!(
            Program::compile(&patterns.join(" ")).err().map(|error| error.reason),
            Some(Reason::ParseError)
        );
        // Many steps are no depth.
        let steps = format!("(-> 0 {})", "inc ".repeat(10_000));
        assert_eq!(
            Program::compile(&steps).unwrap().run(&mut Env::new()).value(),
            Some(&Value::from(10_000))
        );
        let clauses = format!("(cond {} :else 7)", "false 1 ".repeat(10_000));
        assert_eq!(Program::compile(&clauses).unwrap().run(&mut Env::new()).value(), Some(&Value::from(7)));
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap().join().unwrap();
}

#[test]
fn a_cancelled_run_stops_and_leaves_nothing() {
    let token = CancelToken::new();
    let program = Program::compile("(def x 1) (println \"before\") (tool/stop) (loop [] (recur))").unwrap();
    let stop = token.clone();
    let tool = Tool::new("stop", None, move |_| {
        stop.cancel();
        Ok(Value::Nil)
    });
    let outcome = program.run(&mut Env::new().tool(tool).cancel(&token));
    assert_eq!(outcome.result.err().map(|error| error.reason), Some(Reason::Cancelled));
    assert_eq!((outcome.memory.len(), outcome.prints.len()), (0, 1));
}

#[test]
fn time_in_tools_does_not_count_as_computing_but_against_the_deadline() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let run = |calls: u64| {
        let now = Arc::new(AtomicU64::new(0));
        let (clock, slow) = (Arc::clone(&now), now);
        let env = Env::new().clock(Arc::new(move || Duration::from_millis(clock.load(Ordering::Relaxed))));
        let tool = Tool::new("slow", None, move |_| {
            slow.fetch_add(10_000, Ordering::Relaxed);
            Ok(Value::Nil)
        });
        let program = Program::compile(&format!("(dotimes [i {calls}] (tool/slow)) :done")).unwrap();
        program.run(&mut env.tool(tool)).result.err().map(|error| error.reason)
    };
    assert_eq!(run(5), None);
    assert_eq!(run(7), Some(Reason::Timeout));
}

/// A closure that a builtin calls runs without a frame until it needs one, which it does wherever a slice of fuel ends: if the
/// two ways did not cost the same, one more element would not always cost the same.
#[test]
fn an_element_costs_the_same_with_a_frame_and_without() {
    for closure in [
        "(fn [x] (+ x 1))",
        "(fn [x] (* x x))",
        "(fn [x] (if (odd? x) (- x 1) 0))",
        "(fn [x] (and (pos? x) (or (zero? x) (< x 9))))",
        "(let [k 3] (fn [x] (let [y (* x k)] (if (> y 10) y [y]))))",
    ] {
        let fuel = |count: usize| {
            let outcome =
                run_in(&format!("(count (map {closure} (range {count})))"), &mut Env::new()).unwrap();
            assert_eq!(outcome.value().map(ToString::to_string), Some(count.to_string()), "{closure}");
            outcome.usage.fuel
        };
        // The branches taken differ in the first few and repeat after that.
        for count in 20..900 {
            let (here, later) = (fuel(count + 2) - fuel(count), fuel(count + 4) - fuel(count + 2));
            assert_eq!(here, later, "{closure} at {count}");
        }
    }
}
