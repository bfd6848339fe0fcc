//! What the fuzz targets of sub-agents do with their bytes; the tests run the same bodies over mutated texts.

use scrollback_lisp::{Program, Signature, Value};
use scrollback_subagent::{Private, Show, extract};

/// Any bytes as a reply: a program that stands in it, or none.
pub(crate) fn reply(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Some(program) = extract(&text) else { return };
    assert!(!program.trim().is_empty(), "{text:?}");
    let normal = text.replace("\r\n", "\n");
    for line in program.lines() {
        assert!(normal.contains(line), "{line:?} does not stand in {text:?}");
    }
    // Whatever was found is a program or an error with a place, never a panic.
    let _ = Program::compile(&program);
}

/// Any bytes as a signature: one whose canonical text reads back the same, or an error with a column.
pub(crate) fn signature(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Signature::parse(&text) {
        Ok(signature) => {
            let canonical = signature.to_string();
            assert_eq!(
                Signature::parse(&canonical).as_ref(),
                Ok(&signature),
                "{text:?} prints as {canonical:?}"
            );
            for value in [Value::Nil, Value::from(1), Value::from("x")] {
                let fitted = signature.output.coerce(value.clone(), "", &mut Vec::new());
                assert!(signature.output.validate(&fitted).len() <= signature.output.validate(&value).len());
            }
        }
        Err(error) => {
            assert!(error.column >= 1 && error.column <= text.chars().count() + 1, "{text:?}: {error}");
            assert!(!error.expected.is_empty());
        }
    }
}

/// Any bytes as a value: shown within bounds, on one line, and the same twice.
pub(crate) fn show(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    let Ok(value) = Value::read(&text) else { return };
    let private = if first % 2 == 0 { Private::Shown } else { Private::Hidden };
    let show = Show { limit: usize::from(first / 2 % 5), width: usize::from(first / 16) * 8, private };
    let shown = show.value(&value);
    assert_eq!(shown, show.value(&value));
    let is_bounded = !text.contains(['#', '.']) && text.len() < 400;
    assert!(!shown.contains('\n') || text.contains("#\""), "{shown:?}");
    assert!(!is_bounded || shown.len() < 40_000, "{} bytes of {text:?}", shown.len());
}
