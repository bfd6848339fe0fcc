//! What templates mean: tables, then hostile values, then any text at all.

use proptest::prelude::*;
use scrollback_flow::template::TemplateErrorKind;
use scrollback_flow::{FlowName, FlowTemplate};
use serde_json::{Value, json};

use crate::Given;

fn names() -> Given {
    Given::new([
        (
            "previous",
            json!({ "title": "T", "list": [1, "two", null, { "a": 3 }], "none": null, "a key": "k" }),
        ),
        ("input", json!("in <b>&\"")),
        ("loop.iteration", json!(2)),
        ("steps.my-step.output", json!(["x", "y"])),
        ("steps.draft.status", json!("done")),
        ("item", json!(1.0)),
        ("index", json!(0)),
        (
            "history",
            json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "content": "{{ input }}" }]),
        ),
    ])
}

/// The text, and the paths that were missing.
fn rendered(source: &str) -> (String, Vec<String>) {
    let template = FlowTemplate::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    assert_eq!(template.as_str(), source);
    let mut missing = Vec::new();
    let text = template.render(&names(), &mut |path| missing.push(path.to_string())).unwrap();
    (text, missing)
}

#[test]
fn paths_blocks_and_escapes_mean_what_the_table_says() {
    let table = [
        ("", ""),
        ("plain } text }} { ok", "plain } text }} { ok"),
        ("{{ input }}", "in <b>&\""),
        ("{{input}}!", "in <b>&\"!"),
        ("{{ output.title }} {{previous.title}}", "T T"),
        ("{{ previous.list }}", "[1,\"two\",null,{\"a\":3}]"),
        ("{{ previous.list.1 }}{{ previous.list.[1] }}{{ previous.list[-1].a }}", "twotwo3"),
        ("{{ previous.[a key] }}{{ previous['a key'] }}", "kk"),
        ("{{ previous.none }}", ""),
        ("{{ item }} {{ index }} {{ loop.iteration }}", "1 0 2"),
        ("{{ steps.my-step.output.0 }} {{ steps.draft.status }}", "x done"),
        (
            "{{#each steps.my-step.output}}{{ @index }}{{ this }}{{#if @last}}.{{else}},{{/if}}{{/each}}",
            "0x,1y.",
        ),
        ("{{#each steps.my-step.output}}{{#if @first}}[{{/if}}{{ this }}{{/each}}", "[xy"),
        ("{{#each previous.list}}<{{ this.a }}>{{/each}}", "<><><><3>"),
        ("{{#if previous.title}}yes{{else}}no{{/if}}", "yes"),
        ("{{#if previous.none}}yes{{else}}no{{/if}}", "no"),
        ("{{#if previous.missing}}yes{{/if}}", ""),
        ("{{#if index}}yes{{else}}0 is false{{/if}}", "0 is false"),
        ("a{{! comment }}b{{!-- with }} inside --}}c", "abc"),
        (r"\{{ input }}", "{{ input }}"),
        (r"\\{{ input }}", "\\in <b>&\""),
        (r"a \ b", r"a \ b"),
        (
            "{{#each history}}\n{{ this.role }}: {{ this.content }}\n{{/each}}\n",
            "user: hi\nassistant: {{ input }}\n",
        ),
        (
            "{{#each history}}\n{{ this.role }}: {{ this.content }}\n{{/each}}",
            "user: hi\nassistant: {{ input }}\n",
        ),
        ("a\n  {{#if input}}  \n  b\n\t{{else}}\n  c\n  {{/if}}\nd", "a\n  b\nd"),
        ("a\r\n{{#if input}}\r\nb\r\n{{/if}}\r\nc", "a\r\nb\r\nc"),
        ("{{! first }}\na\n{{! last }}", "a\n"),
        ("x {{#if input}}\ny\n{{/if}} z", "x \ny\n z"),
        ("{{#if input}}{{#if input}}\nboth\n{{/if}}{{/if}}\n", "\nboth\n\n"),
        (
            "<history>\n{{#each history}}\n<turn role=\"{{ this.role }}\">{{ this.content }}</turn>\n{{/each}}\n</history>\n",
            "<history>\n<turn role=\"user\">hi</turn>\n<turn role=\"assistant\">{{ input }}</turn>\n</history>\n",
        ),
        ("ä{{ input }}ö\n{{#if input}}\nü\n{{/if}}\n", "äin <b>&\"ö\nü\n"),
    ];
    for (source, expected) in table {
        assert_eq!(rendered(source).0, expected, "{source}");
    }
}

#[test]
fn what_is_missing_renders_as_nothing_and_is_told() {
    for (source, expected, told) in [
        ("[{{ previous.nope }}]", "[]", vec!["previous.nope"]),
        ("[{{ loop.input }}]", "[]", vec!["loop.input"]),
        ("{{ steps.later.output.x[0] }}", "", vec!["steps.later.output.x[0]"]),
        ("{{#each previous.nope}}x{{/each}}", "", vec!["previous.nope"]),
        ("{{#each input}}x{{/each}}", "", vec!["input"]),
        ("{{#each previous.none}}x{{/each}}", "", vec![]),
        ("{{#each steps.my-step.output}}{{ this.a }}{{/each}}", "", vec!["this.a", "this.a"]),
        ("{{#if previous.nope}}x{{/if}}", "", vec![]),
        ("{{ previous.none }}", "", vec![]),
    ] {
        assert_eq!(
            rendered(source),
            (expected.to_string(), told.iter().map(ToString::to_string).collect()),
            "{source}"
        );
    }
}

#[test]
fn what_is_no_template_is_refused_with_what_to_write() {
    use TemplateErrorKind::{Syntax, UnknownName};
    for (source, kind, says) in [
        ("{{ input", Syntax, "no end"),
        ("{{!-- a }}", Syntax, "--}}"),
        ("{{}}", Syntax, "an empty tag"),
        ("{{{ input }}}", Syntax, "nothing is escaped"),
        ("{{& input }}", Syntax, "nothing is escaped"),
        ("{{> partial }}", Syntax, "no partials"),
        ("{{~ input }}", Syntax, "white space"),
        ("{{^ input }}", Syntax, "inverted"),
        ("{{ lower input }}", Syntax, "no helpers"),
        ("{{ input + 1 }}", Syntax, "no expressions"),
        ("{{ len(input) }}", Syntax, "no expressions"),
        ("{{ input. }}", Syntax, "is not a path"),
        ("{{ input[0 }}", Syntax, "is not a path"),
        ("{{ ../input }}", Syntax, "no way out"),
        ("{{ . }}", Syntax, "write `this`"),
        ("{{#each}}x{{/each}}", Syntax, "a path was expected"),
        ("{{#each input}}", Syntax, "never closed"),
        ("{{#if input}}x{{/each}}", Syntax, "{{/if}} was expected"),
        ("x{{/if}}", Syntax, "closes nothing"),
        ("{{else}}", Syntax, "between"),
        ("{{#each input}}{{else}}{{/each}}", Syntax, "between"),
        ("{{#if input}}{{else}}{{else}}{{/if}}", Syntax, "once"),
        ("{{#unless input}}{{/unless}}", Syntax, "no block `unless`"),
        ("{{#eahc input}}{{/eahc}}", Syntax, "did you mean `each`?"),
        ("{{ outptu }}", UnknownName, "did you mean `output`?"),
        ("{{ this.x }}", UnknownName, "inside {{#each}} only"),
        ("{{ @index }}", UnknownName, "inside {{#each}} only"),
        ("{{#each input}}{{ @key }}{{/each}}", UnknownName, "@index"),
        ("{{#each history}}{{ role }}{{/each}}", UnknownName, "this.…"),
        ("{{ loop }}", UnknownName, "not a value by itself"),
        ("{{ steps }}", Syntax, "steps.NAME.output"),
        ("{{ steps.draft }}", UnknownName, "not a value by itself"),
        ("{{ steps.draft.ouput }}", UnknownName, "did you mean `output`?"),
    ] {
        let error = FlowTemplate::parse(source).expect_err(source);
        assert_eq!(error.kind, kind, "{source}: {error}");
        assert!(error.to_string().contains(says), "{source}: {error}");
    }
    let deep = |depth: usize| format!("{}x{}", "{{#if input}}".repeat(depth), "{{/if}}".repeat(depth));
    assert_eq!(rendered(&deep(32)).0, "x");
    assert!(FlowTemplate::parse(&deep(33)).unwrap_err().to_string().contains("deeper than 32"));
}

#[test]
fn one_reference_alone_keeps_its_identity() {
    let single = |source: &str| {
        let template = FlowTemplate::parse(source).unwrap();
        template.as_single_reference().map(ToString::to_string)
    };
    assert_eq!(single("{{ previous }}").as_deref(), Some("previous"));
    assert_eq!(single("{{output.a.[0]}}").as_deref(), Some("previous.a[0]"));
    assert_eq!(single("{{! why }}{{ steps.a.output }}").as_deref(), Some("steps.a.output"));
    assert_eq!(single(" {{ previous }}"), None);
    assert_eq!(single("{{ previous }}\n"), None);
    assert_eq!(single("{{#if previous}}{{ previous }}{{/if}}"), None);
    assert_eq!(single("text"), None);
    assert_eq!(FlowTemplate::parse("{{ previous }}").unwrap(), FlowTemplate::previous());
    let mentioned: Vec<FlowName> = FlowTemplate::parse("{{ input }}{{#if loop.input}}{{/if}}")
        .unwrap()
        .mentions()
        .iter()
        .map(|m| m.name.clone())
        .collect();
    assert_eq!(mentioned, [FlowName::Input, FlowName::LoopInput]);
}

#[test]
fn output_and_work_are_limited() {
    let half =
        Given::new([("input", json!("x".repeat(2 << 20))), ("previous", json!(vec![Value::Null; 3000]))]);
    let render = |source: &str| FlowTemplate::parse(source).unwrap().render(&half, &mut |_| {});
    assert_eq!(render("{{ input }}{{ input }}").map(|text| text.len()), Ok(4 << 20));
    assert!(render("{{ input }}{{ input }}!").is_err());
    assert!(render("{{#each previous}}{{ input }}{{/each}}").is_err());
    // Nothing is written, and yet it would take for ever.
    let each = "{{#each previous}}".repeat(5) + &"{{/each}}".repeat(5);
    assert!(render(&each).unwrap_err().to_string().contains("4000000 tags"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_a_template_or_an_error_inside_it(source in ".{0,200}") {
        check(&source)?;
    }

    #[test]
    fn any_pieces_are_a_template_or_an_error_inside_them(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..30)
    ) {
        check(&pieces.concat())?;
    }

    #[test]
    fn values_are_inserted_as_they_are(text in any::<String>()) {
        let given = Given::new([("input", json!(text))]);
        let template = FlowTemplate::parse("<{{ input }}>").unwrap();
        prop_assert_eq!(template.render(&given, &mut |_| {}).unwrap(), format!("<{text}>"));
    }

    #[test]
    fn a_text_without_braces_is_itself(text in "[^{}\\\\]{0,80}") {
        let template = FlowTemplate::parse(&text).unwrap();
        prop_assert_eq!(template.render(&Given::default(), &mut |_| {}).unwrap(), text);
    }
}

const PIECES: &[&str] = &[
    "{{",
    "}}",
    "{{{",
    "\\",
    "\\{{",
    "{{#each history}}",
    "{{#if input}}",
    "{{else}}",
    "{{/each}}",
    "{{/if}}",
    "{{ this.role }}",
    "{{ @index }}",
    "{{ previous.list }}",
    "{{! c }}",
    "{{!-- c --}}",
    " ",
    "\n",
    "\r\n",
    "text",
    "ä",
    "{{ input }}",
    "{{#each previous.list}}",
    "[",
    "]",
    ".",
];

fn check(source: &str) -> Result<(), TestCaseError> {
    match FlowTemplate::parse(source) {
        Ok(template) => {
            let one = template.render(&names(), &mut |_| {});
            prop_assert_eq!(&one, &template.render(&names(), &mut |_| {}), "the same text again");
        }
        Err(error) => {
            prop_assert!(error.at <= source.chars().count(), "{}: {}", source, error.at);
        }
    }
    Ok(())
}
