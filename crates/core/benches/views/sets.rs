//! The public transcripts, by set: what `./dev bench views` replays.

use std::path::{Path, PathBuf};

use scrollback_core::transcript;
use scrollback_core::{Slot, Tools};

/// One set of transcripts.
pub(crate) struct Set {
    /// As tables name it.
    pub(crate) name: &'static str,
    /// Folders below the data.
    folders: &'static [&'static str],
    /// Budgets that are tried.
    pub(crate) budgets: &'static [u64],
}

/// Coding agents are tried with the budgets people set; the short conversations of tau-bench with 1,000 and 2,000
/// tokens beside instructions of about 1,250.
pub(crate) const SETS: [Set; 7] = [
    Set {
        name: "claude-code",
        folders: &["claude-code-spotter", "claude-code-session-share", "claude-code-fasthooks"],
        budgets: &[8_000, 16_000, 32_000],
    },
    Set { name: "spotter", folders: &["claude-code-spotter"], budgets: &[8_000, 16_000, 32_000] },
    Set {
        name: "session-share",
        folders: &["claude-code-session-share", "claude-code-fasthooks"],
        budgets: &[8_000, 16_000, 32_000],
    },
    Set { name: "tau-bench", folders: &["tau-bench"], budgets: &[2_250, 3_250] },
    Set { name: "swe-agent", folders: &["swe-agent"], budgets: &[8_000] },
    Set { name: "openhands", folders: &["openhands"], budgets: &[8_000, 16_000] },
    Set { name: "trail", folders: &["trail"], budgets: &[8_000] },
];

/// One conversation.
pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) slots: Vec<Slot>,
    pub(crate) tools: Option<Tools>,
}

impl Set {
    /// Its conversations in the order of files. A file that is no transcript, or a part of one that cannot be read, is left out.
    pub(crate) fn read(&self, data: &Path) -> Vec<Conversation> {
        let mut found = Vec::new();
        for file in self.folders.iter().flat_map(|folder| files(&data.join(folder))) {
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            let Ok(read) = transcript::read(None, &text) else { continue };
            for (number, conversation) in read.conversations.into_iter().enumerate() {
                let tools = conversation.tools.clone();
                let Ok((record, _)) = conversation.into_record(None) else { continue };
                let file = file.strip_prefix(data).unwrap_or(&file).display();
                found.push(Conversation {
                    name: format!("{file}#{number}"),
                    slots: record.slots().to_vec(),
                    tools,
                });
            }
        }
        found
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}
