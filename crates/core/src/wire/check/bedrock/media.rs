//! How many images and documents a message may hold, how large, and under which names: BC-12 and BC-13.

use std::borrow::Cow;
use std::collections::HashSet;

use super::ViolationReport;
use crate::json::{JsonKind, Raw};
use crate::tokens::{IMAGE_HEAD, data_url_head, image_size};

const MAX_IMAGES: usize = 20;
const MAX_DOCUMENTS: usize = 5;
/// 3.75 MB, read generously.
const MAX_IMAGE_BYTES: usize = 3_932_160;
/// 4.5 MB, read generously.
const MAX_DOCUMENT_BYTES: usize = 4_718_592;
const MAX_PIXELS: u32 = 8000;
const MAX_NAME: usize = 200;

/// Counts within a message, and the names used in the whole request.
#[derive(Default)]
pub(super) struct Documents<'a> {
    names: HashSet<Cow<'a, str>>,
    images: usize,
    files: usize,
    has_text: bool,
}

impl<'a> Documents<'a> {
    /// Starts counting anew.
    pub(super) fn begin_message(&mut self, has_text: bool) {
        (self.images, self.files, self.has_text) = (0, 0, has_text);
    }

    pub(super) fn image(&mut self, image: Raw<'a>, path: &str, report: &mut ViolationReport<'_>) {
        self.images += 1;
        if self.images == MAX_IMAGES + 1 {
            report.add("BC-13", path, "more than 20 images in one message: leave some out");
        }
        let Some(data) = inline(image) else { return };
        if decoded_len(&data) > MAX_IMAGE_BYTES {
            report.add("BC-13", path, "an image of more than 3.75 MB: make it smaller");
        } else if let Some((width, height)) = pixels(&data)
            && width.max(height) > MAX_PIXELS
        {
            report.add("BC-13", path, "an image of more than 8000 pixels on a side: make it smaller");
        }
    }

    pub(super) fn document(&mut self, document: Raw<'a>, path: &str, report: &mut ViolationReport<'_>) {
        let (mut name, mut is_pdf) = (None, false);
        for (key, value) in document.members() {
            match key.as_ref() {
                "name" => name = value.string(),
                "format" => is_pdf = value.string().as_deref() == Some("pdf"),
                _ => {}
            }
        }
        if !self.has_text {
            report.add("BC-12", path, "a document without a text beside it: add a text to the message");
        }
        match name {
            None => report.add("BC-12", path, "a document without a name: give it one"),
            Some(name) if !is_name(&name) => {
                let text = "the name of a document must be 1 to 200 letters, digits, single spaces, hyphens, \
                            parentheses or brackets";
                report.add("BC-12", format!("{path}/document/name"), text);
            }
            Some(name) => {
                if !self.names.insert(name) {
                    let text = "the name of an earlier document: give each its own";
                    report.add("BC-12", format!("{path}/document/name"), text);
                }
            }
        }
        self.files += 1;
        if self.files == MAX_DOCUMENTS + 1 {
            report.add("BC-13", path, "more than 5 documents in one message: leave some out");
        }
        // Some models read larger PDF files.
        if !is_pdf && inline(document).is_some_and(|data| decoded_len(&data) > MAX_DOCUMENT_BYTES) {
            report.add("BC-13", path, "a document of more than 4.5 MB: make it smaller");
        }
    }
}

/// The base64 text of a block's bytes, also as SDKs keep it in files.
fn inline(block: Raw<'_>) -> Option<Cow<'_, str>> {
    let bytes = block.get("source")?.get("bytes")?;
    if bytes.kind() == JsonKind::Object { bytes.get("data")?.string() } else { bytes.string() }
}

fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() / 4 * 3
}

fn pixels(base64: &str) -> Option<(u32, u32)> {
    let head = base64.get(..IMAGE_HEAD / 3 * 4).unwrap_or(base64);
    let (_, bytes) = data_url_head(&format!("data:;base64,{head}"), IMAGE_HEAD)?;
    image_size(&bytes)
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || "-()[]".contains(c);
    let mut spaces = name.chars().zip(name.chars().skip(1));
    let doubled = spaces.any(|(one, next)| one.is_whitespace() && next.is_whitespace());
    !name.is_empty() && name.chars().count() <= MAX_NAME && name.chars().all(fits) && !doubled
}
