//! What holds for the redactor as a whole; each rule is tested by its own samples.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use super::*;

fn redactor(options: &Options) -> Redactor {
    Redactor::new(options).unwrap()
}

fn configured(values: &[&str]) -> Redactor {
    let configured = values.iter().map(ToString::to_string).collect();
    redactor(&Options { configured, ..Options::default() })
}

fn patterns(patterns: &[&str]) -> Redactor {
    let patterns = patterns.iter().map(ToString::to_string).collect();
    redactor(&Options { patterns, ..Options::default() })
}

#[test]
fn a_text_without_secrets_is_borrowed() {
    let redacted = redactor(&Options::default());
    let redacted = redacted.text("nothing to see");
    assert!(matches!(redacted.text, Cow::Borrowed("nothing to see")));
    assert!(redacted.spans.is_empty() && redacted.counts().is_empty());
}

#[test]
fn configured_values_are_found_wherever_they_stand() {
    let redactor = configured(&["correcthorse", "say \"friend\"", "abc"]);
    for (text, expected) in [
        ("correcthorse", "[redacted:configured]"),
        ("xcorrecthorsey", "x[redacted:configured]y"),
        ("correcthorsecorrecthorse", "[redacted:configured][redacted:configured]"),
        (r#"{"a":"say \"friend\""}"#, r#"{"a":"[redacted:configured]"}"#),
        ("password=correcthorse", "password=[redacted:configured]"),
        ("Correcthorse", "Correcthorse"),
        ("abc is too short to hide", "abc is too short to hide"),
        ("correct horse", "correct horse"),
        ("correcthors", "correcthors"),
        ("say friend", "say friend"),
    ] {
        assert_eq!(redactor.text(text).text, expected, "{text}");
    }
}

#[test]
fn overlapping_configured_values_leave_no_rest() {
    assert_eq!(configured(&["abcdefgh", "efghijkl"]).text("-abcdefghijkl-").text, "-[redacted:configured]-");
}

#[test]
fn patterns_are_custom() {
    let redactor = patterns(&["EMP[0-9]{4}", "(?i)project \\w+", ""]);
    for (text, expected) in [
        ("EMP1234", "[redacted:custom]"),
        ("by EMP1234 and EMP5678", "by [redacted:custom] and [redacted:custom]"),
        ("Project Neptune ships", "[redacted:custom] ships"),
        ("EMP1234EMP5678", "[redacted:custom][redacted:custom]"),
        ("password=EMP1234x", "password=[redacted:custom]"),
        ("EMP123", "EMP123"),
        ("emp1234", "emp1234"),
        ("projects", "projects"),
        ("", ""),
        ("[redacted:custom]", "[redacted:custom]"),
    ] {
        assert_eq!(redactor.text(text).text, expected, "{text}");
    }
}

#[test]
fn a_bad_pattern_is_named_by_its_place() {
    let options = Options { patterns: vec!["fine".into(), "(".into()], ..Options::default() };
    let message = Redactor::new(&options).unwrap_err().to_string();
    assert_eq!(message, "redaction pattern 2 is refused: unclosed group");
}

#[test]
fn overlapping_hits_become_one_under_the_more_telling_kind() {
    let redactor = redactor(&Options::default());
    for (text, expected) in [
        ("Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJub2JvZHkifQ.0a1B2c3D4e5F", "Bearer [redacted:jwt]"),
        ("API_KEY=sk-0a1B2c3D4e5F6g7H8i9J0a1B", "API_KEY=[redacted:openai]"),
        ("DB_PASSWORD=postgres://u:s3same@h/d", "DB_PASSWORD=postgres://u:[redacted:url_password]@h/d"),
        ("a token=0a1B2c3D4e5F, b", "a token=[redacted:assignment], b"),
    ] {
        assert_eq!(redactor.text(text).text, expected, "{text}");
    }
}

#[test]
fn labels_are_walls() {
    let options = Options {
        patterns: vec!["\\bEMP".into(), "redacted".into(), "a.*b".into()],
        configured: vec!["redacted".into(), "correcthorse".into()],
        ..Options::default()
    };
    let redactor = redactor(&options);
    for text in [
        "[redacted:openai]",
        "password=[redacted:assignment]",
        "password=[redacted:assignment]hunter2",
        "https://u:[redacted:url_password]@h",
        "Bearer [redacted:jwt]",
        "[redacted:configured]EMP",
        "[redacted:url_password]=0a1B2c3D4e5F",
    ] {
        assert_eq!(redactor.text(text).text, text);
    }
    for text in ["EMPEMPEMP", "correcthorseEMP", "acorrecthorseb", "correcthorsesk-0a1B2c3D4e5F6g7H8i9J0a1B"]
    {
        let once = redactor.text(text).text.into_owned();
        assert_eq!(redactor.text(&once).text, once, "{text}");
    }
}

#[test]
fn counts_are_by_name() {
    let redactor = redactor(&Options::default());
    let redacted = redactor.text("password=hunter2 password=hunter3 redis://:s3same@cache");
    assert_eq!(redacted.counts(), BTreeMap::from([("assignment", 2), ("url_password", 1)]));
}

#[test]
fn debugging_prints_no_known_key() {
    let options = Options { configured: vec!["correcthorse".into()], ..Options::default() };
    assert!(!format!("{options:?} {:?}", redactor(&options)).contains("correcthorse"));
}

#[test]
fn a_redactor_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Redactor>();
}
