//! Reading and changing one setting in a configuration file without touching the rest of its text.

use super::json::{self, Comments};
use super::{dotenv, toml};

/// How a configuration file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON as its standard has it: a client that wants this ignores a file with comments.
    Json,
    /// JSON with comments and trailing commas.
    Jsonc,
    Toml,
    /// `NAME=value`, one a line.
    Dotenv,
}

/// A file that cannot be read as its format, and where that was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadFile {
    /// From 1; 0 where the place is not known.
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) problem: String,
}

impl Format {
    /// The word for it in the journal.
    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Jsonc => "jsonc",
            Format::Toml => "toml",
            Format::Dotenv => "dotenv",
        }
    }

    /// The format of that name.
    pub(super) fn named(name: &str) -> Option<Format> {
        [Format::Json, Format::Jsonc, Format::Toml, Format::Dotenv]
            .into_iter()
            .find(|format| format.name() == name)
    }

    /// The text of a setting; none if it is not there. A value that is no text is given as it is written.
    pub(crate) fn read(self, text: &str, keys: &[String]) -> Result<Option<String>, BadFile> {
        match self {
            Format::Json => json::read(text, keys, Comments::Refused),
            Format::Jsonc => json::read(text, keys, Comments::Allowed),
            Format::Toml => toml::read(text, keys),
            Format::Dotenv => Ok(dotenv::read(text, keys)),
        }
    }

    /// The file with a setting.
    pub(crate) fn set(self, text: &str, keys: &[String], value: &str) -> Result<String, BadFile> {
        match self {
            Format::Json => json::set(text, keys, value, Comments::Refused),
            Format::Jsonc => json::set(text, keys, value, Comments::Allowed),
            Format::Toml => toml::set(text, keys, value),
            Format::Dotenv => Ok(dotenv::set(text, keys, value)),
        }
    }

    /// The file without a setting, and without the tables around it that are empty then.
    pub(crate) fn remove(self, text: &str, keys: &[String]) -> Result<String, BadFile> {
        match self {
            Format::Json => json::remove(text, keys, Comments::Refused),
            Format::Jsonc => json::remove(text, keys, Comments::Allowed),
            Format::Toml => toml::remove(text, keys),
            Format::Dotenv => Ok(dotenv::remove(text, keys)),
        }
    }
}

/// The line and column, from 1, of a byte of a text.
pub(super) fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = 1 + before.matches('\n').count();
    let column = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
    (line, column)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn keys(path: &str) -> Vec<String> {
        path.split('/').map(String::from).collect()
    }

    #[test]
    fn a_setting_is_added_and_everything_else_stays_as_it_is_written() {
        let cases = [
            (Format::Json, "", "env/A", "{\n  \"env\": {\n    \"A\": \"v\"\n  }\n}\n"),
            (Format::Json, "{}", "env/A", "{\n  \"env\": {\n    \"A\": \"v\"\n  }\n}"),
            (
                Format::Jsonc,
                "// mine\n{\n\t\"x\": 1.50, // one\n\t\"env\": {\n\t\t\"B\": \"b\"\n\t}\n}\n",
                "env/A",
                "// mine\n{\n\t\"x\": 1.50, // one\n\t\"env\": {\n\t\t\"B\": \"b\",\n\t\t\"A\": \"v\"\n\t}\n}\n",
            ),
            (
                Format::Json,
                "{\r\n  \"x\": 1\r\n}\r\n",
                "env/A",
                "{\r\n  \"x\": 1,\r\n  \"env\": {\r\n    \"A\": \"v\"\r\n  }\r\n}\r\n",
            ),
            (Format::Json, "{\n  \"env\": {\"A\": \"old\"}\n}", "env/A", "{\n  \"env\": {\"A\": \"v\"}\n}"),
            (Format::Toml, "", "a", "a = \"v\"\n"),
            (
                Format::Toml,
                "# mine\nmodel = \"x\"   # why\n\n[t]\nb = 1\n",
                "a",
                "# mine\nmodel = \"x\"   # why\na = \"v\"\n\n[t]\nb = 1\n",
            ),
            (Format::Toml, "[t]\nb = 1", "a", "a = \"v\"\n[t]\nb = 1\n"),
            (Format::Toml, "[t.u]\nb = \"x\" # c\n", "t/u/b", "[t.u]\nb = \"v\" # c\n"),
            (Format::Dotenv, "", "A", "A=v\n"),
            (Format::Dotenv, "# mine\nB=1", "A", "# mine\nB=1\nA=v\n"),
            (Format::Dotenv, "B=1\r\n", "A", "B=1\r\nA=v\r\n"),
            (Format::Dotenv, "export A=\"old\"\nB=1\n", "A", "A=v\nB=1\n"),
        ];
        for (format, text, path, expected) in cases {
            let set = format.set(text, &keys(path), "v").unwrap();
            assert_eq!(set, expected, "{format:?} {text:?}");
            assert_eq!(format.read(&set, &keys(path)).unwrap().as_deref(), Some("v"), "{set:?}");
            assert_eq!(format.set(&set, &keys(path), "v").unwrap(), set, "twice is once");
            let without = format.remove(&set, &keys(path)).unwrap();
            assert_eq!(format.read(&without, &keys(path)).unwrap(), None, "{without:?}");
        }
    }

    #[test]
    fn a_setting_is_read_however_it_is_written() {
        let cases = [
            (Format::Json, "{\"a\": {\"b\": \"x\\u0041\"}}", "a/b", Some("xA")),
            (Format::Jsonc, "{\"a\": {\"b\": 7,}, /* c */}", "a/b", Some("7")),
            (Format::Json, "{\"a\": [1]}", "a/b", None),
            (Format::Json, "", "a", None),
            (Format::Toml, "a.b = 'x'", "a/b", Some("x")),
            (Format::Toml, "a = { b = true }", "a/b", Some("true")),
            (Format::Dotenv, "  A = 'x y' ", "A", Some("x y")),
            (Format::Dotenv, "A=x # c", "A", Some("x")),
            (Format::Dotenv, "A=1\nA=2", "A", Some("2")),
            (Format::Dotenv, "# A=1", "A", None),
        ];
        for (format, text, path, expected) in cases {
            assert_eq!(format.read(text, &keys(path)).unwrap().as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_file_of_its_format_is_refused_with_the_place() {
        let cases = [
            (Format::Json, "{\n  \"a\": 1\n  \"b\": 2\n}", 3),
            (Format::Json, "[1]", 1),
            (Format::Json, "// a comment\n{}", 1),
            (Format::Json, "{\n\"a\": 1,\n}", 3),
            (Format::Json, "{\"env\": 3}", 1),
            (Format::Json, "{ \"a\": ", 1),
            (Format::Toml, "a = 1\nb = = 2\n", 2),
            (Format::Toml, "env = 3\n", 1),
        ];
        for (format, text, line) in cases {
            let bad = format.set(text, &keys("env/A"), "v").unwrap_err();
            assert_eq!(bad.line, line, "{text:?}: {bad:?}");
            assert!(!bad.problem.contains('\n') && !bad.problem.is_empty(), "{bad:?}");
        }
    }

    #[test]
    fn removing_takes_tables_along_that_were_made_for_the_setting_only() {
        let json =
            Format::Json.remove("{\n  \"x\": 1,\n  \"env\": {\n    \"A\": \"v\"\n  }\n}\n", &keys("env/A"));
        assert_eq!(json.unwrap(), "{\n  \"x\": 1\n}\n");
        let kept = Format::Json.remove("{ \"env\": { \"A\": \"v\", \"B\": 1 } }", &keys("env/A")).unwrap();
        assert_eq!(Format::Json.read(&kept, &keys("env/B")).unwrap().as_deref(), Some("1"));
        let toml = Format::Toml.remove("# c\na = \"v\"\nb = 1\n", &keys("a")).unwrap();
        assert_eq!(toml, "# c\nb = 1\n", "a comment stays");
    }
}
