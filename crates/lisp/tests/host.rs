//! What a host sees: transactions, tools, branches, memory, hints.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support::run_in;
use scrollback_lisp::{Env, Memory, Outcome, Program, Reason, Run, RunStep, Signature, Tool, Value};

fn run(source: &str, env: &mut Env) -> Outcome {
    run_in(source, env).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn text(outcome: &Outcome) -> String {
    match (&outcome.result, outcome.value()) {
        (Err(error), _) => error.to_string(),
        (Ok(_), value) => value.map(ToString::to_string).unwrap_or_default(),
    }
}

#[test]
fn an_error_leaves_the_memory_as_it_was() {
    let first = run("(def x 1) (def y 2)", &mut Env::new());
    for program in [
        "(def x 5) (/ 1 0)",
        "(def z 1) (fail :no)",
        "(def x 9) (loop [] (recur))",
        "(def x 3) (tool/broken)",
    ] {
        let broken = Tool::new("broken", None, |_| Err("down".into()));
        let outcome = run(program, &mut Env::new().memory(&first.memory).tool(broken));
        assert!(outcome.result.is_err(), "{program}");
        let after: Vec<String> =
            outcome.memory.iter().map(|(name, d)| format!("{name}={}", d.value.as_ref().unwrap())).collect();
        assert_eq!(after, ["x=1", "y=2"], "{program}");
    }
    assert_eq!(first.memory.get("x").and_then(|x| x.value.clone()), Some(Value::from(1)));
}

#[test]
fn a_definition_in_place_of_a_builtin_is_what_is_called() {
    // Each of these has an instruction of its own while it means what it usually means.
    let table = [
        ("(def inc dec)", "(inc 5)", "4"),
        ("(def even? odd?)", "(even? 3)", "true"),
        ("(defn zero? [n] (str n))", "(zero? 0)", "\"0\""),
        ("(def + -)", "(+ 5 3)", "2"),
        ("(def < >)", "(< 5 3)", "true"),
        ("(def inc dec)", "(map (fn [x] (inc x)) [5 6])", "[4 5]"),
        ("(def * +)", "(reduce (fn [a b] (* a b)) 0 [1 2 3])", "6"),
    ];
    for (definition, call, wanted) in table {
        assert_eq!(text(&run(&format!("{definition} {call}"), &mut Env::new())), wanted, "{definition}");
        let before = run(definition, &mut Env::new()).memory;
        assert_eq!(
            text(&run(call, &mut Env::new().memory(&before))),
            wanted,
            "{definition} in an earlier program"
        );
    }
}

#[test]
fn definitions_keep_docs_parameters_and_what_calls_returned() {
    let source = "(defn double \"Doubles.\" [x] (* 2 x)) (defn pair ([a] [a a]) ([a b] [a b])) (double 4) (pair 1) (def k \"A key.\" :k)";
    let memory = run(source, &mut Env::new()).memory;
    let double = memory.get("double").unwrap();
    assert_eq!(double.doc.as_ref().map(|doc| doc.as_str().to_string()).as_deref(), Some("Doubles."));
    assert_eq!((double.parameters().as_deref(), double.returns.as_deref()), (Some("[x]"), Some("integer")));
    let pair = memory.get("pair").unwrap();
    assert_eq!((pair.parameters().as_deref(), pair.returns.as_deref()), (Some("[a] [a b]"), Some("list[2]")));
    assert_eq!(
        memory.get("k").unwrap().doc.as_ref().map(|doc| doc.as_str().to_string()).as_deref(),
        Some("A key.")
    );
    // A tail call answers for the function that made it, too.
    let memory = run("(defn g [x] [x]) (defn f [x] (g x)) (f 1)", &mut Env::new()).memory;
    assert_eq!(memory.get("f").unwrap().returns.as_deref(), Some("list[1]"));
    // A call in a later program is remembered as well.
    let memory = run("(f 1)", &mut Env::new().memory(&memory)).memory;
    assert_eq!(memory.get("f").unwrap().returns.as_deref(), Some("list[1]"));
}

#[test]
fn memory_survives_as_json() {
    let source = "(def n 2) (def add (let [m 10] (fn [x] (+ m n x)))) (letfn [(e? [i] (if (zero? i) true (o? (dec i)))) (o? [i] (if (zero? i) false (e? (dec i))))] (def even e?)) (defn sq [x] (* x x)) (def l #(str % \"!\")) (def fs [inc (partial + 5)])";
    let saved = run(source, &mut Env::new()).memory.to_json();
    assert!(saved.skipped.is_empty(), "{:?}", saved.skipped);
    let memory = Memory::from_json(&saved.json).unwrap();
    let outcome =
        run("[(add 1) (even 10) (even 7) (sq 5) (l 1) (map #(% 1) fs)]", &mut Env::new().memory(&memory));
    assert_eq!(text(&outcome), "[13 true false 25 \"1!\" [2 6]]");
    assert!(Memory::from_json("[]").is_err() && Memory::from_json("{\"x\": \"(\"}").is_err());
}

/// Drives a run, answering each call with its argument `n` plus one.
fn drive(run: &mut Run, batches: &mut Vec<usize>) -> Outcome {
    let mut answers: Vec<Result<Value, String>> = Vec::new();
    loop {
        match run.resume(std::mem::take(&mut answers)) {
            RunStep::Done(outcome) => return *outcome,
            RunStep::Call(calls) => {
                batches.push(calls.len());
                for call in &calls {
                    let Some(Value::Int(n)) = call.args.get(&Value::keyword("n")) else { panic!("{call:?}") };
                    answers.push(if *n < 0 { Err("negative".into()) } else { Ok(Value::from(n + 1)) });
                }
            }
        }
    }
}

#[test]
fn branches_hand_out_their_calls_together_and_answer_in_order() {
    let program = Program::compile(
        "(pmap (fn [x] (println x) (let [y (tool/inc {:n x})] (println :got y) (tool/inc {:n y}))) [1 2 3])",
    )
    .unwrap();
    let mut batches = Vec::new();
    let pending = drive(&mut program.start(Env::new().tool(Tool::pending("inc", None))), &mut batches);
    assert_eq!(batches, [3, 3]);
    let tool = Tool::new("inc", None, |call| match call.args.get(&Value::keyword("n")) {
        Some(Value::Int(n)) => Ok(Value::from(n + 1)),
        _ => Err("no n".into()),
    });
    let at_once = program.run(&mut Env::new().tool(tool));
    for outcome in [&pending, &at_once] {
        assert_eq!(text(outcome), "[3 4 5]");
        assert_eq!(outcome.prints, ["1", ":got 2", "2", ":got 3", "3", ":got 4"]);
        let calls: Vec<String> = outcome.tool_calls.iter().map(|call| format!("{:?}", call.args)).collect();
        assert_eq!(calls, ["{\"n\" 1}", "{\"n\" 2}", "{\"n\" 2}", "{\"n\" 3}", "{\"n\" 3}", "{\"n\" 4}"]);
    }
    assert_eq!(pending.usage, at_once.usage);
}

#[test]
fn a_program_that_runs_again_starts_afresh() {
    let earlier = run("(defn older \"Old.\" [x] (def left x) (* 2 x)) (def left 0)", &mut Env::new()).memory;
    let programs = [
        "(def x (if (= left 0) :first :later)) (older 4) [x left (doc \"older\")]",
        "(println left) (def + -) [(+ 5 3) (count [1 2])]",
        "(tool/inc {:n left}) (return (map (fn [i] (println i) (older i)) [1 2]))",
        "(pmap (fn [n] (tool/inc {:n n})) [1 2])",
        "data/missing (def big (range 1000)) (reduce (fn [a b] (+ a b)) 0 big)",
        "(older (/ 1 left))",
    ];
    let tool =
        || Tool::new("inc", None, |call| call.args.get(&Value::keyword("n")).cloned().ok_or("no n".into()));
    let env = || Env::new().data("count", Value::from(1)).memory(&earlier).tool(tool());
    let told = |outcome: &Outcome| {
        let defined: Vec<String> = outcome.memory.iter().map(|(name, d)| format!("{name} {d:?}")).collect();
        format!(
            "{} {:?} {:?} {:?} {:?} {defined:?}",
            text(outcome),
            outcome.prints,
            outcome.tool_calls.len(),
            outcome.warnings,
            outcome.usage
        )
    };
    let mut shared = env();
    for source in programs {
        let program = Program::compile(source).unwrap();
        let alone = told(&program.run(&mut env()));
        for _ in 0..3 {
            assert_eq!(told(&program.run(&mut shared)), alone, "{source}");
        }
        shared = shared.clone();
    }
    // What is granted in between is seen.
    let program = Program::compile("data/n").unwrap();
    let mut env = Env::new().data("n", Value::from(1));
    assert_eq!(text(&program.run(&mut env)), "1");
    assert_eq!(text(&program.run(&mut env.data("n", Value::from(2)))), "2");
}

#[test]
fn the_first_failing_branch_by_index_fails_the_form() {
    let program = Program::compile("(pmap (fn [x] (tool/inc {:n x})) [1 -1 -2])").unwrap();
    let outcome = drive(&mut program.start(Env::new().tool(Tool::pending("inc", None))), &mut Vec::new());
    let error = outcome.result.unwrap_err();
    assert_eq!(
        (error.reason, error.message.as_str()),
        (Reason::PmapError, "branch 1: Tool 'inc' failed: negative")
    );
    assert_eq!(error.cause.map(|cause| cause.reason), Some(Reason::ToolError));
    for (source, reason) in [
        ("(pcalls 5)", Reason::TypeError),
        ("(pcalls (fn [x] x))", Reason::ArityMismatch),
        ("(pcalls (fn [] (/ 1 0)))", Reason::PcallsError),
        ("(pmap (fn [x] (pmap (fn [y] (/ y 0)) [x])) [1])", Reason::PmapError),
        ("(pmap (fn [x] (loop [] (recur))) [1 2])", Reason::LoopLimitExceeded),
    ] {
        assert_eq!(run(source, &mut Env::new()).result.unwrap_err().reason, reason, "{source}");
    }
    let kept = run("(def x 1) (pmap (fn [i] (def x i) x) [5 6]) x", &mut Env::new());
    assert_eq!(text(&kept), "1");
}

#[test]
fn tool_arguments_reach_the_tool_by_name() {
    let signature = Signature::parse("(user_id :int, note :string?) -> :any").unwrap();
    let typed = Tool::new("typed", Some(signature), |call| Ok(Value::Map(call.args)));
    let free = Tool::new("free", None, |call| Ok(Value::Map(call.args)));
    for (source, wanted) in [
        ("(tool/typed 7)", "{\"user_id\" 7}"),
        ("(tool/typed 7 \"x\")", "{\"note\" \"x\" \"user_id\" 7}"),
        ("(tool/typed {:user-id \"7\"})", "{\"user_id\" 7}"),
        ("(tool/typed :user-id 7)", "{\"user_id\" 7}"),
        ("(tool/typed 7.0)", "{\"user_id\" 7}"),
        ("(tool/free {:a-b 1})", "{\"a_b\" 1}"),
        ("(tool/free)", "{}"),
        ("(map tool/typed [1 2])", "[{\"user_id\" 1} {\"user_id\" 2}]"),
    ] {
        let outcome = run(source, &mut Env::new().tool(typed.clone()).tool(free.clone()));
        assert_eq!(text(&outcome), wanted, "{source}");
    }
    for source in ["(tool/typed 1 \"a\" 3)", "(tool/typed \"seven\")", "(tool/typed {})", "(tool/free 1)"] {
        let outcome = run(source, &mut Env::new().tool(typed.clone()).tool(free.clone()));
        assert_eq!(outcome.result.unwrap_err().reason, Reason::ToolError, "{source}");
        assert!(outcome.tool_calls.is_empty(), "{source} called the tool");
    }
}

#[test]
fn hints_say_what_to_do_next() {
    let data = Value::from_json(r#"[{"id": 1, "total": 5}]"#).unwrap();
    for (source, hint) in [
        ("(reduc + [1])", "Did you mean: reduce"),
        ("(group_by :a [])", "did you mean group-by?"),
        ("(atom 1)", "use reduce, loop or def"),
        ("(iterate inc 1)", "sequences are finite"),
        ("(slurp \"x\")", "use a tool"),
        ("(map inc)", "transducers are not supported"),
        ("(sort-by [3 1] :a)", "arguments look swapped: (sort-by f"),
        ("(filter [1 2] odd?)", "arguments look swapped: (filter pred coll)"),
        ("(+ 1 (:amount (first data/rows)))", ":amount is not in {\"id\" \"total\"}"),
        ("(+ 1 (:total data/rows))", "use (map :total coll)"),
        ("(str/shout \"a\")", "str/ has:"),
        ("if", "wrap it in parentheses"),
        ("(try 1)", "errors cannot be caught"),
        ("(contains? \"abc\" \"a\")", "includes?"),
        ("(first {:a 1})", "use keys, vals, entries"),
        ("@x", "use reduce, loop or def"),
        ("(tool/serch {})", "Did you mean: tool/search"),
    ] {
        let search = Tool::new("search", None, |_| Ok(Value::Nil));
        let error = match run_in(source, &mut Env::new().data("rows", data.clone()).tool(search)) {
            Err(error) => error,
            Ok(outcome) => outcome.result.err().unwrap_or_else(|| panic!("{source} has a value")),
        };
        assert!(error.hint.as_deref().is_some_and(|text| text.contains(hint)), "{source}: {:?}", error.hint);
        assert!(error.at.is_some(), "{source} has no place");
    }
}

#[test]
fn messages_have_the_shape_the_contract_gives_them() {
    for (source, message) in [
        ("(+ 1 nil)", "type_error: +: expected number, got nil (argument 2)"),
        ("(take 1)", "arity_error: take expects 2 arguments, got 1"),
        ("(defn f ([a] a) ([a b] b)) (f 1 2 3)", "arity_mismatch: f expects 1 or 2 arguments, got 3"),
        ("(5 1)", "not_callable: not callable: 5 (integer)"),
        ("(assoc [1 2] 5 0)", "index_error: assoc: index 5 is outside a vector of 2"),
        ("(/ 1 0)", "arithmetic_error: divide by zero"),
        ("foo", "unbound_var: undefined variable: foo"),
        ("(cond 1 2 3)", "invalid_cond_form: cond needs an even number of forms, got 3"),
        ("(if)", "invalid_form: expected (if condition then else?)"),
        ("(tool/x)", "unknown_tool: Unknown tool: x. No tools available."),
        ("[1\n 2)", "parse_error: line 2, column 3: ) does not close [ opened at line 1, column 1"),
        ("(+ 1", "parse_error: line 1, column 1: ( is never closed"),
        ("(fail {:code 1})", "failed: {:code 1}"),
    ] {
        let told = match run_in(source, &mut Env::new()) {
            Err(error) => error.to_string(),
            Ok(outcome) => text(&outcome),
        };
        assert_eq!(told, message, "{source}");
    }
}

#[test]
fn programs_values_and_runs_cross_threads() {
    fn crosses<T: Send + Sync>() {}
    crosses::<Program>();
    crosses::<Value>();
    crosses::<Memory>();
    crosses::<Env>();
    crosses::<Outcome>();
    crosses::<Run>();
}

#[test]
fn names_are_resolved_in_their_order() {
    let env = || {
        Env::new().data("rows", Value::from(1)).data("count", Value::from(2)).tool(Tool::new(
            "t",
            None,
            |_| Ok(Value::from(3)),
        ))
    };
    for (source, wanted) in [
        ("(def old rows) (def rows 9) [old rows data/rows user/rows]", "[1 9 1 9]"),
        ("(let [rows 5] rows)", "5"),
        ("(count [1 2 3])", "3"),
        ("(t)", "3"),
        ("(def + -) (+ 5 3)", "2"),
        ("(defn inc [x] :mine) (map inc [1])", "[:mine]"),
        ("(let [+ *] (+ 3 4))", "12"),
        ("data/missing", "nil"),
        ("((var inc) 1)", "2"),
        ("(do (def f inc) (#'f 1))", "2"),
    ] {
        assert_eq!(text(&run(source, &mut env())), wanted, "{source}");
    }
    // However many other names there are.
    let letters: Vec<String> = ('a'..='z').map(|letter| format!("{letter}{letter} 0")).collect();
    let letters = letters.join(" ");
    for (source, wanted) in [
        (format!("(let [{{:keys [count]}} {{:count 7}} {letters}] count)"), "7"),
        (format!("(def x 1) (let [{letters}] (def x 2) [x user/x])"), "[2 2]"),
        (format!("(let [% 1 {letters}] (#(+ % %1) 4))"), "8"),
        (format!("(let [{letters}] [rows data/rows])"), "[1 1]"),
    ] {
        assert_eq!(text(&run(&source, &mut env())), wanted, "{source}");
    }
    let outcome = run("[data/missing (count [1])]", &mut env());
    assert_eq!(
        outcome.warnings,
        ["count is the builtin; the data is data/count", "data/missing is not there; data/ has: count, rows"]
    );
    let history = run("[*1 *2 *3]", &mut Env::new().history([Value::from(1), Value::from(2)]));
    assert_eq!(text(&history), "[1 2 nil]");
}
