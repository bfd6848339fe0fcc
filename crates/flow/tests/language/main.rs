//! The language of flows: expressions, templates, the format, its schema. Nothing here runs a flow.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../../fuzz/flow_bodies.rs"]
mod bodies;
mod expressions;
mod fuzz;
mod reading;
mod schema;
mod settings;
mod templates;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use scrollback_agent::provider::{Catalog, Environment};
use scrollback_flow::{Flow, FlowName, FlowSettings, Names, Problems, Prompts, Read, ReadOptions};
use serde_json::Value;

/// Names with values, as tests give them: `steps.draft.output`, `history`.
#[derive(Default)]
struct Given(BTreeMap<String, Value>);

impl Given {
    fn new<const N: usize>(values: [(&str, Value); N]) -> Self {
        Given(values.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl Names for Given {
    fn value(&self, name: &FlowName) -> Option<Cow<'_, Value>> {
        self.0.get(&name.to_string()).map(Cow::Borrowed)
    }
}

/// A folder of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The YAML files of a folder, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "yaml")).collect();
    found.sort();
    assert!(!found.is_empty(), "{} has no flows", folder.display());
    found
}

fn read_in(folder: &Path, text: &str, settings: &FlowSettings) -> Result<Read, Problems> {
    let catalog = Catalog::default().with_environment(|_| None);
    let environment: Environment = Arc::new(|_| None);
    let source = ReadOptions {
        stem: "test",
        folder,
        prompts: Prompts::Disk,
        settings,
        catalog: &catalog,
        environment: &environment,
    };
    Flow::read(text, &source)
}

/// Reads a flow without any configuration.
fn read(text: &str) -> Result<Read, Problems> {
    read_in(&repository("corpus/flows/good"), text, &FlowSettings::default())
}

/// A flow that must be right.
fn flow(text: &str) -> Flow {
    match read(text) {
        Ok(read) => read.flow,
        Err(problems) => panic!("{problems}"),
    }
}
