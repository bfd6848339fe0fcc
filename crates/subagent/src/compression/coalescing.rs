//! The options of coalescing: how much of what is shown.

use scrollback_lisp::Value;

use crate::show::{Private, Show};

/// Items and graphemes of a tool's arguments.
const ARGUMENTS: Show = Show { limit: 3, width: 60, private: Private::Shown };

/// How much is shown of what turns came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own, written as true or false")]
pub struct Coalescing {
    /// How many of the newest printed texts.
    pub println_limit: usize,
    /// How many of the newest tool calls.
    pub tool_call_limit: usize,
    /// How many items of a collection.
    pub sample_limit: usize,
    /// How many graphemes of a value.
    pub sample_printable_limit: usize,
    /// Which results of tools.
    pub tool_results: ToolResults,
    /// Whether the last value is shown as `*1`.
    pub last_result: bool,
    /// Whether it is said how much was left out.
    pub note_dropped: bool,
    /// Whether what a failed turn printed is shown with its error.
    pub failed_output: bool,
    /// Whether names that begin with `_` are left out.
    pub hide_private: bool,
    /// Whether what comes from outside is marked as such.
    pub fence_output: bool,
    /// From when on history is compressed.
    pub trigger: Trigger,
}

impl Default for Coalescing {
    fn default() -> Self {
        Coalescing {
            println_limit: 15,
            tool_call_limit: 20,
            sample_limit: 3,
            sample_printable_limit: 80,
            tool_results: ToolResults::Auto,
            last_result: true,
            note_dropped: true,
            failed_output: true,
            hide_private: false,
            fence_output: false,
            trigger: Trigger::default(),
        }
    }
}

/// Which results of tools are shown; errors always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolResults {
    /// Those of turns that printed nothing, or failed: the model has seen them nowhere else.
    #[default]
    Auto,
    /// None.
    Never,
    /// All.
    Always,
}

/// From when on history is compressed: as soon as one of these is reached, or at once if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    /// So many turns.
    pub turns: Option<usize>,
    /// So many tokens of the uncompressed request.
    pub tokens: Option<usize>,
}

impl Coalescing {
    /// What is done about names that begin with `_`.
    pub(crate) fn private(&self) -> Private {
        if self.hide_private { Private::Hidden } else { Private::Shown }
    }

    /// How values are shown.
    pub(crate) fn show(&self) -> Show {
        Show { limit: self.sample_limit, width: self.sample_printable_limit, private: self.private() }
    }

    /// How arguments are shown.
    pub(crate) fn show_arguments(&self) -> Show {
        Show { private: self.private(), ..ARGUMENTS }
    }

    /// The end of a line about a value: `, sample: …`.
    pub(crate) fn sample(&self, value: &Value) -> String {
        format!(", sample: {}", self.fenced(&self.show().value(value)))
    }

    /// A text from outside, marked where that is wanted.
    pub(crate) fn fenced(&self, text: &str) -> String {
        if !self.fence_output {
            return text.to_string();
        }
        format!("<untrusted>{}</untrusted>", without_closing_tag(text))
    }
}

/// The text with its own closing tags made harmless, in whatever case they are written.
fn without_closing_tag(text: &str) -> String {
    const TAG: &str = "</untrusted";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let is_tag = tail.get(..TAG.len()).is_some_and(|start| start.eq_ignore_ascii_case(TAG));
        out.push_str(if is_tag { "<\\/" } else { "</" });
        rest = tail.get(2..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fenced_cannot_get_out() {
        let options = Coalescing { fence_output: true, ..Coalescing::default() };
        assert_eq!(
            options.fenced("a </b> </Untrusted> c </untrusted"),
            "<untrusted>a </b> <\\/Untrusted> c <\\/untrusted</untrusted>"
        );
        assert_eq!(Coalescing::default().fenced("</untrusted>"), "</untrusted>");
    }
}
