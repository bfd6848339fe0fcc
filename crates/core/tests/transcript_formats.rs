//! Every fixture of a transcript is known by its shape, and cut anywhere it is still read or refused, never a panic.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use scrollback_core::transcript::{self, Format};

/// The fixtures that are one text, each with the format its folder is named after.
fn fixtures() -> Vec<(Format, PathBuf, String)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/transcript");
    let mut found = Vec::new();
    for format in Format::ALL {
        let Ok(folder) = std::fs::read_dir(corpus.join(format.name())) else { continue };
        for entry in folder {
            let path = entry.unwrap().path();
            // A Strands session is a folder; its files are nothing alone.
            if path.is_file() && format != Format::Strands {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((format, path, text));
            }
        }
    }
    assert!(found.len() > 10, "the fixtures were found");
    found
}

#[test]
fn a_fixture_is_known_by_its_shape() {
    for (format, path, text) in fixtures() {
        assert_eq!(transcript::detect(&text), Some(format), "{}", path.display());
        assert_eq!(Format::named(format.name()), Some(format));
    }
}

#[test]
fn a_request_is_not_taken_for_a_transcript() {
    for body in [
        r#"[{"role":"user","content":"hi"}]"#,
        r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#,
        r#"{"input":[{"type":"message","role":"user","content":"hi"}]}"#,
        r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#,
        r#"{"scrollback":1,"entries":[]}"#,
    ] {
        assert_eq!(transcript::detect(body), None, "{body}");
    }
}

#[test]
fn a_text_cut_anywhere_is_read_or_refused() {
    for (_, path, text) in fixtures() {
        for end in (0..text.len()).step_by(5) {
            let Some(cut) = text.get(..end) else { continue };
            for format in Format::ALL {
                if let Ok(read) = transcript::read(Some(format), cut) {
                    for conversation in &read.conversations {
                        let (entries, sources) = (conversation.entries.len(), conversation.sources.len());
                        assert_eq!(entries, sources, "{} cut at {end}", path.display());
                    }
                }
            }
        }
    }
}
