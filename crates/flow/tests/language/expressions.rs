//! What expressions mean: tables, then hostile ones, then any text at all.

use proptest::prelude::*;
use scrollback_flow::Expression;
use scrollback_flow::expression::ExpressionErrorKind;
use serde_json::{Value, json};

use crate::Given;

fn names() -> Given {
    Given::new([
        ("previous", json!({ "score": 7, "tags": ["bug", "ui"], "note": null, "my-key": 1 })),
        ("input", json!("Plan a Trip ")),
        ("loop.input", json!("again")),
        ("loop.iteration", json!(3)),
        ("steps.draft.output", json!("A draft.\nDone")),
        ("steps.my-step.output", json!(5)),
        ("steps.draft.status", json!("done")),
        ("item", json!({ "id": "12" })),
        ("index", json!(0)),
        ("history", json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "content": "yes?" }])),
    ])
}

fn value(source: &str) -> Value {
    let expression = Expression::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    assert_eq!(expression.as_str(), source);
    let evaluated = expression.eval(&names());
    assert!(!evaluated.limit_reached, "{source}");
    evaluated.value
}

#[test]
fn every_operator_and_function_means_what_the_table_says() {
    let table = [
        // Literals.
        ("null", json!(null)),
        ("true", json!(true)),
        (r"'it\'s'", json!("it's")),
        (r#""say \"hi\"\n""#, json!("say \"hi\"\n")),
        ("1.50", json!(1.5)),
        ("[1, 'a', [null]]", json!([1, "a", [null]])),
        ("[1, 2,]", json!([1, 2])),
        ("[]", json!([])),
        // Names.
        ("previous.score", json!(7)),
        ("output.score", json!(7)),
        ("output['my-key']", json!(1)),
        ("output.tags[0]", json!("bug")),
        ("output.tags[-1]", json!("ui")),
        ("output.tags[-3]", json!(null)),
        ("output.tags[2]", json!(null)),
        ("output.tags['0']", json!("bug")),
        ("output.missing.deeper[3]", json!(null)),
        ("input", json!("Plan a Trip ")),
        ("input.length", json!(null)),
        ("loop.iteration", json!(3)),
        ("loop['input']", json!("again")),
        ("steps.draft.status == 'done'", json!(true)),
        ("steps['draft'].output", json!("A draft.\nDone")),
        ("steps.my-step.output - 1", json!(4)),
        ("steps['my-step'].output", json!(5)),
        ("item.id", json!("12")),
        ("index", json!(0)),
        ("history[-1].content", json!("yes?")),
        ("len(history)", json!(2)),
        ("history[len(history) - 1].role", json!("assistant")),
        // Arithmetic.
        ("1 + 2 * 3 - 4 / 2", json!(5)),
        ("(1 + 2) * 3", json!(9)),
        ("7 / 2", json!(3.5)),
        ("6 / 3", json!(2)),
        ("7 % 4", json!(3)),
        ("-7 % 4", json!(-3)),
        ("7.5 % 2", json!(1.5)),
        ("--3", json!(3)),
        ("-output.score", json!(-7)),
        ("0.1 + 0.2 > 0.3", json!(true)),
        ("1.5 * 2", json!(3)),
        ("loop.iteration-1", json!(2)),
        ("1 / 0", json!(null)),
        ("1 % 0", json!(null)),
        ("1.0 / 0", json!(null)),
        ("9223372036854775807 + 1", json!(9_223_372_036_854_775_808_u64)),
        ("18446744073709551615 + 1", json!(null)),
        ("-9223372036854775808 - 1", json!(null)),
        ("1e308 * 10", json!(null)),
        ("'a' + 'b'", json!(null)),
        ("1 + '2'", json!(null)),
        ("-'a'", json!(null)),
        ("null + 1", json!(null)),
        // Comparison.
        ("1 == 1.0", json!(true)),
        ("1 == '1'", json!(false)),
        ("1 != '1'", json!(true)),
        ("null == false", json!(false)),
        ("null == null", json!(true)),
        ("[1, 'a'] == [1.0, 'a']", json!(true)),
        ("[1] == [1, 2]", json!(false)),
        ("output == output", json!(true)),
        ("output == item", json!(false)),
        ("'a' < 'b'", json!(true)),
        ("'B' < 'a'", json!(true)),
        ("2 < 10", json!(true)),
        ("'2' < '10'", json!(false)),
        ("1 < 'a'", json!(false)),
        ("1 >= 'a'", json!(false)),
        ("null <= null", json!(false)),
        ("true > false", json!(false)),
        ("[1] < [2]", json!(false)),
        ("9007199254740993 > 9007199254740992", json!(true)),
        ("'bug' in output.tags", json!(true)),
        ("'Bug' in output.tags", json!(false)),
        ("'bug' not in output.tags", json!(false)),
        ("'Trip' in input", json!(true)),
        ("'score' in output", json!(true)),
        ("1 in input", json!(false)),
        ("1 in 2", json!(false)),
        ("1 not in null", json!(true)),
        // Logic.
        ("1 and 'a'", json!(true)),
        ("0 or ''", json!(false)),
        ("null or []", json!(false)),
        ("not []", json!(true)),
        ("not not 3", json!(true)),
        ("not 1 == 2", json!(true)),
        ("true or false and false", json!(true)),
        ("(true or false) and false", json!(false)),
        ("1 and (not 0)", json!(true)),
        // Functions.
        ("len('äöü')", json!(3)),
        ("len(output)", json!(4)),
        ("len(3)", json!(null)),
        ("lower('ÄB')", json!("äb")),
        ("upper(input)", json!("PLAN A TRIP ")),
        ("trim(input)", json!("Plan a Trip")),
        ("lower(3)", json!(null)),
        ("contains(lower(steps.draft.output), 'done')", json!(true)),
        ("contains(output.tags, 'ui')", json!(true)),
        ("contains(output, 'tags')", json!(true)),
        ("contains(3, 3)", json!(false)),
        ("starts_with(input, 'Plan')", json!(true)),
        ("ends_with(input, 'Plan')", json!(false)),
        ("starts_with(null, 'a')", json!(false)),
        (r"matches(item.id, '^\d+$')", json!(true)),
        (r#"matches(input, "(?i)TRIP")"#, json!(true)),
        ("matches(3, '3')", json!(false)),
        ("matches('a', input.missing)", json!(false)),
        ("matches('a', trim(' ( '))", json!(null)),
        ("number(item.id) > 3", json!(true)),
        ("number(' -1.5e1 ')", json!(-15)),
        ("number('12 apples')", json!(null)),
        ("number('')", json!(null)),
        ("number('0x10')", json!(null)),
        ("number('NaN')", json!(null)),
        ("number('1e999')", json!(null)),
        ("number(true)", json!(null)),
        ("number(3)", json!(3)),
        ("text(3)", json!("3")),
        ("text(7 / 2)", json!("3.5")),
        ("text(true)", json!("true")),
        ("text(null)", json!("null")),
        ("text([1, 'a'])", json!("[1,\"a\"]")),
        ("json('{\"a\": [1]}').a[0]", json!(1)),
        ("json('{')", json!(null)),
        ("json(output).score", json!(7)),
        ("default(output.note, 'none')", json!("none")),
        ("default(0, 1)", json!(0)),
        ("default(output.missing, loop.iteration)", json!(3)),
    ];
    for (source, expected) in table {
        assert_eq!(value(source), expected, "{source}");
    }
}

#[test]
fn what_is_no_expression_is_refused_with_what_to_write() {
    use ExpressionErrorKind::{Syntax, UnknownName};
    let table = [
        ("", Syntax, 0, "an expression is missing"),
        ("   ", Syntax, 0, "missing"),
        ("1 +", Syntax, 3, "a value was expected"),
        ("(1", Syntax, 2, "`)` was expected, not the end"),
        ("[1", Syntax, 2, "`]` was expected"),
        ("1 2", Syntax, 2, "`2` was not expected here"),
        ("'open", Syntax, 0, "no end"),
        ("'it''s'", Syntax, 4, "a text was not expected"),
        ("{}", Syntax, 0, "means nothing"),
        ("'open\\", Syntax, 0, "no end"),
        ("a.1", UnknownName, 0, "`a`"),
        ("output.1", Syntax, 7, "in brackets: items[0]"),
        ("output.", Syntax, 7, "a name was expected"),
        ("1 < 2 < 3", Syntax, 6, "do not chain"),
        ("1 == not 2", Syntax, 5, "in parentheses"),
        ("output = 1", Syntax, 7, "write `==`"),
        ("a && b", Syntax, 2, "write `and`"),
        ("true && false", Syntax, 5, "write `and`"),
        ("true || false", Syntax, 5, "write `or`"),
        ("!true", Syntax, 0, "write `not`"),
        ("1 === 1", Syntax, 2, "write `==`"),
        ("3x", Syntax, 0, "operator between"),
        ("output.lower()", Syntax, 12, "lower(output)"),
        ("lower()", Syntax, 0, "lower(text) takes one argument, not 0"),
        ("default(1)", Syntax, 0, "takes two arguments, not 1"),
        ("len", UnknownName, 0, "is a function; call it: len(value)"),
        ("lenght(output)", UnknownName, 0, "no function `lenght`"),
        ("lowercase(output)", UnknownName, 0, "no function"),
        ("outptu == 1", UnknownName, 0, "did you mean `output`?"),
        ("True", UnknownName, 0, "did you mean `true`?"),
        ("bug == output", UnknownName, 0, "stands in quotes"),
        ("loop", UnknownName, 0, "not a value by itself"),
        ("loop.iterations", UnknownName, 0, "did you mean `iteration`?"),
        ("steps", Syntax, 0, "steps.NAME.output"),
        ("steps.draft", UnknownName, 0, "not a value by itself"),
        ("steps.draft.outptu", UnknownName, 0, "did you mean `output`?"),
        ("steps[item].output", Syntax, 6, "a name in quotes"),
        ("matches(input, '(?=a)')", Syntax, 0, "the pattern is refused: look-around"),
        ("matches(input, '(')", Syntax, 0, "the pattern is refused"),
        ("ä", Syntax, 0, "means nothing"),
        ("1 # 2", Syntax, 2, "means nothing"),
    ];
    for (source, kind, at, says) in table {
        let error = Expression::parse(source).expect_err(source);
        assert_eq!((error.kind, error.at), (kind, at), "{source}: {error}");
        assert!(error.to_string().contains(says), "{source}: {error}");
    }
    let slip = Expression::parse("lenn(output)").unwrap_err();
    assert_eq!(slip.suggestion.as_deref(), Some("len"));
}

#[test]
fn length_and_nesting_are_limited() {
    let long = format!("'{}'", "a".repeat(2046));
    assert_eq!(value(&long), json!("a".repeat(2046)));
    assert!(Expression::parse(&format!("{long} ")).unwrap_err().to_string().contains("at most 2048"));
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(value(&nested(32)), json!(1));
    assert!(Expression::parse(&nested(33)).unwrap_err().to_string().contains("deeper than 32"));
    for deep in ["not ".repeat(33) + "1", "-".repeat(33) + "1", "[".repeat(33), "len(".repeat(33)] {
        assert!(Expression::parse(&deep).is_err(), "{deep}");
    }
    let wide = vec!["1"; 1024].join("+");
    assert_eq!(value(&wide), json!(1024), "a long chain is not nested");
    assert_eq!(value(&vec!["0"; 400].join(" or ")), json!(false));
}

#[test]
fn work_is_limited_and_then_the_value_is_null() {
    let many = Given::new([
        ("previous", json!(vec![json!([1, 2, 3]); 60_000])),
        ("input", json!("a".repeat(4 << 20))),
    ]);
    let eval = |source: &str| Expression::parse(source).unwrap().eval(&many);
    let fine = eval("len(previous) == 60000 and len(input) == 4194304");
    assert_eq!((fine.value, fine.limit_reached), (json!(true), false));
    // A pattern that makes other engines try everything has its answer at once.
    let clever = eval("matches(input, '^(a|aa|aaa)*b$')");
    assert_eq!((clever.value, clever.limit_reached), (json!(false), false));
    for source in [
        "previous == previous",
        "[previous, 1]",
        "[3, 2, 1] in previous",
        &vec!["lower(input)"; 20].join(" == "),
        &format!("len(upper({0}{1}{2}))", "lower(".repeat(7), "input", ")".repeat(7)),
    ] {
        let Ok(expression) = Expression::parse(source) else { continue };
        let spent = expression.eval(&many);
        assert_eq!((spent.value, spent.limit_reached), (Value::Null, true), "{source}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_an_expression_or_an_error_inside_it(source in ".{0,200}") {
        check(&source)?;
    }

    #[test]
    fn any_tokens_are_an_expression_or_an_error_inside_them(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..40)
    ) {
        check(&tokens.join(" "))?;
    }
}

const TOKENS: &[&str] = &[
    "output",
    "input",
    "history",
    "steps.draft.output",
    "loop.iteration",
    "item",
    "[",
    "]",
    "(",
    ")",
    ",",
    ".",
    "==",
    "!=",
    "<",
    ">=",
    "in",
    "not",
    "and",
    "or",
    "+",
    "-",
    "*",
    "/",
    "%",
    "1",
    "0",
    "9223372036854775807",
    "1e308",
    "'a'",
    "\"\"",
    "null",
    "true",
    "len(",
    "lower(",
    "matches(",
    "json(",
    "number(",
    "default(",
    "contains(",
    "text(",
    ".score",
    "[-1]",
    "['tags']",
];

fn check(source: &str) -> Result<(), TestCaseError> {
    match Expression::parse(source) {
        Ok(expression) => {
            let one = expression.eval(&names());
            prop_assert_eq!(&one, &expression.eval(&names()), "the same value again");
            prop_assert!(!one.limit_reached || one.value.is_null());
        }
        Err(error) => {
            prop_assert!(error.at <= source.chars().count(), "{}: {}", source, error.at);
            prop_assert!(!error.message.is_empty());
        }
    }
    Ok(())
}
