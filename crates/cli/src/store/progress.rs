//! A progress bar, on a terminal.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

/// Bytes below which no bar is shown.
const QUICK: u64 = 4 << 20;

/// How far an import is, in bytes. Silent unless standard error is a terminal.
pub(crate) struct ImportProgress(Option<ProgressBar>);

impl ImportProgress {
    pub(crate) fn new(files: &[PathBuf]) -> Self {
        let length = |file: &PathBuf| std::fs::metadata(file).map_or(0, |file| file.len());
        let bytes: u64 = files.iter().map(length).sum();
        let watched = (files.len() > 1 || bytes > QUICK) && std::io::stderr().is_terminal();
        ImportProgress(watched.then(|| {
            let bar = ProgressBar::new(bytes);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {msg}") {
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
        }
    }

    /// So many bytes were read.
    pub(crate) fn read(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(bytes);
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
