//! `./dev bench lisp`: PTC-Lisp beside Rhai and Steel, the same work in the same run, limits on.
//!
//! Nothing fails because of time: a missed target is a ✗ for a person to look at.

use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scrollback_lisp::{Env, Limits, Program, Value};

/// Median of so many runs.
fn median(runs: usize, mut work: impl FnMut()) -> Duration {
    work();
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Time of something short, from batches.
fn short(mut work: impl FnMut()) -> Duration {
    median(41, || (0..200).for_each(|_| work())) / 200
}

fn show(time: Option<Duration>) -> String {
    let Some(time) = time else { return "–".into() };
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// One line: ours beside the others, and whether the target is met.
fn line(work: &str, target: Duration, ours: Duration, rhai: Option<(Duration, f64)>, steel: Option<(Duration, f64)>) {
    let ratio = |other: Option<(Duration, f64)>| match other {
        Some((other, most)) => {
            let ratio = ours.as_secs_f64() / other.as_secs_f64();
            format!("{} ({ratio:.2}×, at most {most}× {})", show(Some(other)), if ratio <= most { '✓' } else { '✗' })
        }
        None => "–".into(),
    };
    let met = if ours < target { '✓' } else { '✗' };
    println!("| {work} | {} (< {} {met}) | {} | {} |", show(Some(ours)), show(Some(target)), ratio(rhai), ratio(steel));
}

fn env() -> Env {
    let start = Instant::now();
    let limits = Limits { time: Duration::from_secs(60), ..Limits::default() };
    Env::new().limits(limits).clock(Arc::new(move || start.elapsed()))
}

fn lisp(source: &str) -> impl FnMut() {
    let (program, mut env) = (Program::compile(source).expect("compiles"), env());
    move || {
        let outcome = program.run(&mut env);
        assert!(outcome.result.is_ok(), "{:?}", outcome.result.err());
        black_box(outcome);
    }
}

/// The same with fuel not counted.
fn unmetered(source: &str) -> impl FnMut() {
    use scrollback_lisp_unmetered::{Env, Limits, Program};
    let start = Instant::now();
    let limits = Limits { time: Duration::from_secs(60), ..Limits::default() };
    let mut env = Env::new().limits(limits).clock(Arc::new(move || start.elapsed()));
    let program = Program::compile(source).expect("compiles");
    move || {
        let outcome = program.run(&mut env);
        assert!(outcome.result.is_ok() && outcome.usage.fuel == 0, "{:?}", outcome.result.err());
        black_box(outcome);
    }
}

fn rhai_engine() -> rhai::Engine {
    let mut engine = rhai::Engine::new();
    engine.set_max_operations(1_000_000_000);
    engine.set_max_call_levels(10_000);
    engine.set_max_expr_depths(1000, 1000);
    engine
}

fn rhai(source: &str) -> impl FnMut() {
    let engine = rhai_engine();
    let ast = engine.compile(source).expect("compiles");
    move || drop(black_box(engine.eval_ast::<rhai::Dynamic>(&ast).expect("runs")))
}

fn steel(source: &'static str) -> impl FnMut() {
    let mut engine = steel::steel_vm::engine::Engine::new();
    engine.run("(define (ignore x) x)").expect("runs");
    move || drop(black_box(engine.run(source).expect("runs")))
}

const FIVE: &str = "(def a 10) (def b (* a 2)) (defn f [x] (+ x b)) (def c (f 5)) (if (> c 20) {:sum c} nil)";
const FIVE_RHAI: &str = "fn f(x, b) { x + b } let a = 10; let b = a * 2; let c = f(5, b); if c > 20 { #{sum: c} } else { () }";
const FIVE_STEEL: &str = "(define a 10) (define b (* a 2)) (define (f x) (+ x b)) (define c (f 5)) (if (> c 20) (hash 'sum c) #f)";

fn five_forms() {
    let ours = short(lisp(FIVE));
    let others = short(rhai(FIVE_RHAI));
    line("five-form program, compiled", Duration::from_micros(5), ours, Some((others, 0.5)), None);
    let cold = short(|| drop(black_box(Program::compile(FIVE).expect("compiles").run(&mut env()))));
    let engine = rhai_engine();
    let rhai_cold = short(|| drop(black_box(engine.eval::<rhai::Dynamic>(FIVE_RHAI).expect("runs"))));
    let steel_cold = median(21, steel(FIVE_STEEL));
    line("five-form program, from source", Duration::from_micros(20), cold, Some((rhai_cold, 0.5)), Some((steel_cold, 0.2)));
}

const FIB: &str = "(defn fib [n] (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (fib 25)";
const MILLION: &str = "(reduce (fn [a b] (+ a b)) 0 (map (fn [x] (* x 2)) (filter (fn [x] (odd? x)) (range 1000000))))";

fn fib() {
    let ours = median(9, lisp(FIB));
    let rhai = median(5, rhai("fn fib(n) { if n < 2 { n } else { fib(n-1) + fib(n-2) } } fib(25)"));
    let steel = median(5, steel("(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (fib 25)"));
    line("(fib 25)", Duration::from_millis(40), ours, Some((rhai, 1.0)), Some((steel, 2.0)));
}

fn million() {
    let ours = median(7, lisp(MILLION));
    let rhai = median(3, rhai("let v = []; for i in 0..1000000 { v.push(i); } v.filter(|x| x % 2 == 1).map(|x| x * 2).reduce(|a, b| a + b, 0)"));
    let steel = median(3, steel("(transduce (range 0 1000000) (filtering (lambda (x) (odd? x))) (mapping (lambda (x) (* x 2))) (into-reducer (lambda (a b) (+ a b)) 0))"));
    line("filter, map, reduce over 1M", Duration::from_millis(150), ours, Some((rhai, 0.6)), Some((steel, 1.0)));
}

fn rows() {
    let rows: Vec<String> = (0..100_000).map(|n| format!(r#"{{"id":{n},"customer":"c{}","total":{}.5}}"#, n % 100, n % 1000)).collect();
    let json = format!("[{}]", rows.join(","));
    let data = Value::from_json(&json).expect("JSON");
    let program = Program::compile("(update-vals (group-by :customer data/rows) (fn [rows] (sum-by :total rows)))").expect("compiles");
    let mut env = env().data("rows", data);
    let ours = median(7, || {
        let outcome = program.run(&mut env);
        assert!(outcome.result.is_ok(), "{:?}", outcome.result.err());
    });
    let engine = rhai_engine();
    let parsed = engine.parse_json(format!(r#"{{"rows":{json}}}"#), true).expect("JSON");
    let ast = engine
        .compile("let sums = #{}; for row in rows { let c = row.customer; let old = if c in sums { sums[c] } else { 0.0 }; sums[c] = old + row.total; } sums")
        .expect("compiles");
    let rows = parsed["rows"].clone();
    let rhai = median(3, || {
        let mut scope = rhai::Scope::new();
        scope.push("rows", rows.clone());
        drop(black_box(engine.eval_ast_with_scope::<rhai::Dynamic>(&mut scope, &ast).expect("runs")));
    });
    line("group-by and sum over 100k JSON rows", Duration::from_millis(60), ours, Some((rhai, 0.6)), None);
}

fn volume() {
    let form = "(let [total (+ 1 2) name \"some text\"] (map (fn [x] (assoc x :total total)) [{:id 1} {:id 2}]))\n";
    let source = form.repeat((1 << 20) / form.len() - 1);
    let parse = median(7, || drop(black_box(Program::compile(&source).expect("compiles"))));
    line("read and compile 1 MB of source", Duration::from_millis(25), parse, None, None);
    let value = Value::vector((0..350_000).map(|n| Value::vector([Value::from(n), Value::from("some text é")])));
    let bytes = value.to_string().len();
    let print = median(7, || drop(black_box(value.to_string())));
    line(&format!("print {:.1} MB", bytes as f64 / 1e6), Duration::from_millis(60), print, None, None);
    let defs: String = (0..10_000).map(|n| format!("(def d{n} {n})")).collect();
    let memory = Program::compile(&defs).expect("compiles").run(&mut env()).memory;
    assert_eq!(memory.len(), 10_000);
    let snapshot = short(|| drop(black_box(memory.clone())));
    line("snapshot of 10k definitions", Duration::from_nanos(100), snapshot, None, None);
}

/// How much longer the same work takes with fuel counted than in a build where it is not: the middle of many pairs.
fn fuel() {
    for (work, source, pairs) in [("(fib 25)", FIB, 31), ("filter, map, reduce over 1M", MILLION, 15)] {
        let (mut counted, mut uncounted) = (lisp(source), unmetered(source));
        let time = |work: &mut dyn FnMut()| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        };
        let mut ratios: Vec<f64> = (0..pairs)
            .map(|pair| {
                // In turns, so that neither is always the one that finds the caches warm.
                let first = (pair % 2 == 0).then(|| time(&mut counted));
                let without = time(&mut uncounted);
                first.unwrap_or_else(|| time(&mut counted)) / without
            })
            .collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let more = (ratios[ratios.len() / 2] - 1.0) * 100.0;
        println!("| counting fuel, {work} | {more:+.1} % (< 5 % {}) | – | – |", if more < 5.0 { '✓' } else { '✗' });
    }
}

fn start_up() {
    let Some(binary) = std::env::args().nth(1) else { return };
    let time = |command: &str, args: &[&str]| {
        let ran = || Command::new(command).args(args).output().ok().filter(|output| output.status.success());
        ran()?;
        Some(median(9, || drop(ran())))
    };
    let ours = time(&binary, &["lisp", "eval", "(+ 1 2)"]);
    println!("\nStart to exit of `(+ 1 2)`: scrollback {} (< 5 ms), Babashka {}, Clojure {}", show(ours), show(time("bb", &["-e", "(+ 1 2)"])), show(time("clojure", &["-e", "(+ 1 2)"])));
}

fn main() {
    println!("| work | PTC-Lisp | Rhai | Steel |\n|---|---|---|---|");
    five_forms();
    fib();
    million();
    rows();
    volume();
    fuel();
    start_up();
}
