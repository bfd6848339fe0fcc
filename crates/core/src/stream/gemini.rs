//! Replies of Gemini `generateContent`. Every event is a whole response with the next parts in it.

use super::stop::Asks;
use super::usage::{self, present};
use super::{MessageDraft, ReplyMeta, number, text};
use crate::json::{JsonKind, Object, Raw};

/// The content of candidate 0, growing by parts.
#[derive(Debug, Default)]
pub(super) struct GrowingCandidate {
    /// Parts that nothing can be added to, separated by commas.
    parts: String,
    /// The part that the next text may still be added to.
    open: Option<OpenText>,
}

/// A text part without a signature, around its text.
#[derive(Debug)]
struct OpenText {
    before: String,
    text: String,
    after: String,
}

impl MessageDraft for GrowingCandidate {
    fn take(&mut self, _: &str, response: &Object<'_>, told: &mut ReplyMeta) {
        for part in read(response, told).into_iter().flat_map(Raw::elements) {
            self.part(part);
        }
    }

    fn message(&self, _: &mut ReplyMeta) -> Option<String> {
        let mut out = format!("{{\"role\":\"model\",\"parts\":[{}", self.parts);
        if let Some(open) = &self.open {
            if !self.parts.is_empty() {
                out.push(',');
            }
            out.extend([open.before.as_str(), &open.text, &open.after]);
        } else if self.parts.is_empty() {
            return None;
        }
        out.push_str("]}");
        Some(out)
    }
}

impl GrowingCandidate {
    /// Adds a part. Neighbouring texts that differ in nothing but the text are one; a signature belongs to the part it
    /// came with, so signed parts stay as they are.
    fn part(&mut self, part: Raw<'_>) {
        let Some((before, text, after)) = unsigned_text(part) else {
            self.close();
            self.add(part.text());
            return;
        };
        match &mut self.open {
            Some(open) if open.before == before && open.after == after => open.text.push_str(text),
            _ => {
                self.close();
                self.open = Some(OpenText { before: before.into(), text: text.into(), after: after.into() });
            }
        }
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.add(&open.before);
            self.parts.extend([open.text, open.after]);
        }
    }

    fn add(&mut self, part: &str) {
        if !self.parts.is_empty() {
            self.parts.push(',');
        }
        self.parts.push_str(part);
    }
}

/// A text part without a signature, cut at the quotes of its text.
fn unsigned_text(part: Raw<'_>) -> Option<(&str, &str, &str)> {
    let mut found = None;
    for (key, value) in part.members() {
        match key.as_ref() {
            "thoughtSignature" | "thought_signature" => return None,
            "text" if value.kind() == JsonKind::String => found = Some(value),
            _ => {}
        }
    }
    let (start, end) = found?.span_in(part.text());
    let (start, end) = (start as usize + 1, (end as usize).checked_sub(1)?);
    Some((part.text().get(..start)?, part.text().get(start..end)?, part.text().get(end..)?))
}

/// Reads everything around the parts of a response, and gives the parts.
fn read<'a>(response: &Object<'a>, told: &mut ReplyMeta) -> Option<Raw<'a>> {
    told.names(response.get("responseId"), response.get("modelVersion"));
    if let Some(usage) = present(response.get("usageMetadata")) {
        told.usage = usage::gemini(usage).or(told.usage.take());
    }
    // A prompt that is refused gets no candidate, and this instead.
    let refused = response.get("promptFeedback").and_then(|feedback| text(feedback.get("blockReason")));
    if let Some(reason) = refused {
        told.stop = Some(reason);
        told.ended = true;
    }
    let mut parts = None;
    for (place, candidate) in response.get("candidates").into_iter().flat_map(Raw::elements).enumerate() {
        if number(candidate.get("index")).unwrap_or(place as u64) != 0 {
            told.note("candidates other than the first were left out of the message");
            continue;
        }
        let reason = text(candidate.get("finishReason"));
        if let Some(reason) = reason.filter(|reason| reason != "FINISH_REASON_UNSPECIFIED") {
            told.stop = Some(reason);
            told.ended = true;
        }
        parts = candidate.get("content").and_then(|content| content.get("parts")).or(parts);
    }
    let calls = |part: Raw<'_>| part.get("functionCall").is_some();
    if parts.is_some_and(|parts| parts.elements().any(calls)) {
        told.asks = Asks::ForTools;
    }
    parts
}

/// The message of a whole response.
pub(super) fn body(response: &Object<'_>, told: &mut ReplyMeta) -> Option<String> {
    read(response, told)?;
    let mut candidates = response.get("candidates").into_iter().flat_map(Raw::elements).enumerate();
    let first =
        |(place, candidate): &(usize, Raw<'_>)| number(candidate.get("index")).unwrap_or(*place as u64) == 0;
    let (_, candidate) = candidates.find(first)?;
    Some(candidate.get("content")?.text().into())
}
