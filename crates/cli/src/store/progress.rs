//! A progress bar, where somebody watches.

use std::io::IsTerminal;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

/// How far an import is. Silent unless standard error is a terminal.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(crate) fn new(files: usize) -> Self {
        let watched = files > 1 && std::io::stderr().is_terminal();
        Progress(watched.then(|| {
            let bar = ProgressBar::new(files as u64);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
                bar.set_style(style);
            }
            bar
        }))
    }

    /// The next file begins.
    pub(crate) fn next(&self, file: &Path) {
        if let Some(bar) = &self.0 {
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            bar.set_message(super::one_line(&name, 40));
            bar.inc(1);
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
