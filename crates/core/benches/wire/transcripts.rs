//! Transcripts of other tools. They are other people's and not part of this repository.

use std::path::Path;

use scrollback_core::transcript;

use crate::table::{self, megabytes, rate, time};
use crate::{Fallible, measure, plain};

const FILES: [&str; 3] = [
    "claude-code-spotter/fa812bfe-b295-4cca-9c2f-fdf01028cb46.jsonl",
    "claude-code-spotter/ae4a77f8-aedd-4bc1-888f-c94edc91af04.jsonl",
    "tau-bench/historical_trajectories/gpt-4o-airline.json",
];

/// From the text of a file to conversations, its format found by its shape.
pub(crate) fn reading() -> Fallible<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let mut rows = Vec::new();
    for file in FILES {
        let Ok(text) = std::fs::read_to_string(folder.join(file)) else { continue };
        let format = transcript::detect(&text).ok_or("no transcript of a known format")?;
        let entries: usize =
            transcript::read(None, &text)?.conversations.iter().map(|found| found.entries.len()).sum();
        let taken = measure::quickest(|| transcript::read(None, &text));
        let tree = measure::quickest(|| plain::values(&text));
        rows.push(vec![
            format.to_string(),
            megabytes(text.len()),
            entries.to_string(),
            time(taken),
            format!("{:.0} MB/s", rate(text.len(), taken)),
            format!("{:.0} MB/s", rate(text.len(), tree)),
        ]);
    }
    if rows.is_empty() {
        println!("\nReading transcripts: not measured, because there are none here.");
        return Ok(());
    }
    table::print(
        "Reading transcripts",
        &["format", "size", "entries", "time", "speed", "serde_json, tree only"],
        &rows,
    );
    Ok(())
}
