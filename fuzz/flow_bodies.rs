//! What the fuzz targets of flows do with their bytes; shared with the short run inside the tests.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use scrollback_agent::provider::{Catalog, Environment};
use scrollback_flow::{Expression, Flow, FlowName, FlowSettings, FlowTemplate, Names, Prompts, ReadOptions};
use serde_json::{Value, json};

/// Every name has a value, some of it awkward.
struct Everything(Value);

impl Names for Everything {
    fn value(&self, name: &FlowName) -> Option<Cow<'_, Value>> {
        let key = match name {
            FlowName::History => "history",
            FlowName::LoopIteration | FlowName::Index => "number",
            FlowName::Input | FlowName::LoopInput => "text",
            FlowName::StepStatus(_) => return None,
            _ => "mixed",
        };
        self.0.get(key).map(Cow::Borrowed)
    }
}

fn everything() -> Everything {
    Everything(json!({
        "history": [{ "role": "user", "content": "hi {{ input }}" }, { "role": "assistant", "content": "" }],
        "number": 9_223_372_036_854_775_807_i64,
        "text": "ä {{#each history}} \\{{ 'x' \" [1]",
        "mixed": { "a": [1, 2.5, null, true, { "b": "c" }], "": {}, "my-key": -0.0 },
    }))
}

/// Any text as an expression: an error inside it, or the same value every time.
pub(crate) fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Expression::parse(text) {
        Ok(expression) => {
            let names = everything();
            let value = expression.eval(&names);
            assert_eq!(value, expression.eval(&names));
            assert!(!value.limit_reached || value.value.is_null());
        }
        Err(error) => assert!(error.at <= text.chars().count()),
    }
}

/// Any text as a template: an error inside it, or a bounded text.
pub(crate) fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match FlowTemplate::parse(text) {
        Ok(template) => {
            let names = everything();
            let rendered = template.render(&names, &mut |_| {});
            assert!(rendered.as_ref().map_or(true, |text| text.len() <= 4 << 20));
            assert_eq!(rendered, template.render(&names, &mut |_| {}));
        }
        Err(error) => assert!(error.at <= text.chars().count()),
    }
}

/// Any text as a flow: a flow with something to do, or problems that have places inside it.
pub(crate) fn flow(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (settings, catalog) = (FlowSettings::default(), Catalog::default().with_environment(|_| None));
    let environment: Environment = Arc::new(|_| None);
    let source = ReadOptions {
        stem: "fuzz",
        folder: Path::new("nowhere"),
        prompts: Prompts::Disk,
        settings: &settings,
        catalog: &catalog,
        environment: &environment,
    };
    let lines = text.split(['\n', '\r']).count();
    let inside = |line: usize| line >= 1 && line <= lines + 1;
    match Flow::read(text, &source) {
        Ok(read) => {
            assert!(!read.flow.steps.is_empty());
            assert!(read.warnings.iter().all(|warning| warning.code.is_warning() && inside(warning.at.line)));
            let mut names: Vec<&str> = read.flow.all_steps().iter().map(|step| step.name.as_str()).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "names are unique");
        }
        Err(problems) => {
            assert!(!problems.errors.is_empty());
            for problem in &problems.errors {
                assert!(!problem.code.is_warning() && inside(problem.at.line), "{problem}");
            }
        }
    }
}
