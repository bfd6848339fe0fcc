//! From the text of a flow to the flow: everything is checked before anything runs, and all that is wrong is told at once.

use std::collections::BTreeMap;
use std::path::Path;

use scrollback_agent::provider::{Catalog, Environment};

use crate::model::Flow;
use crate::problem::{Problem, Problems};
use crate::settings::Settings;

/// What a flow is read with besides its text.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// What the flow is called if it does not say: its file's name without the ending.
    pub stem: &'a str,
    /// The folder of the file, which paths in it are relative to and may not leave.
    pub folder: &'a Path,
    /// Where prompt files are read.
    pub prompts: Prompts<'a>,
    /// What configuration and flags say.
    pub settings: &'a Settings,
    /// The models, for their prices.
    pub catalog: &'a Catalog,
    /// Where values of headers that name a variable come from.
    pub environment: &'a Environment,
}

/// Where prompt files are read.
#[derive(Clone, Copy)]
pub enum Prompts<'a> {
    /// On disk.
    Disk,
    /// From what a run kept: [`Flow::prompt_files`].
    Kept(&'a BTreeMap<String, String>),
}

/// A flow that was read.
pub struct Read {
    /// The flow.
    pub flow: Flow,
    /// What should be looked at.
    pub warnings: Vec<Problem>,
}

impl Flow {
    /// Reads a flow; everything that is wrong with it otherwise.
    pub fn read(text: &str, source: &Source<'_>) -> Result<Read, Problems> {
        let _ = (text, source);
        Err(Problems { errors: Vec::new(), warnings: Vec::new() })
    }
}
