//! Replies of Anthropic Messages.

use std::collections::BTreeMap;

use super::growing::Growing;
use super::stop::Asks;
use super::usage::{self, present};
use super::{MessageDraft, ReplyMeta, number, text};
use crate::json::{self, JsonKind, Object, Raw};

/// The message, growing block by block.
#[derive(Debug, Default)]
pub(super) struct GrowingMessage {
    begun: bool,
    blocks: Vec<GrowingBlock>,
    /// The block each index stands for.
    indexes: BTreeMap<u64, usize>,
    usage: usage::Anthropic,
}

/// One content block: what it started as, and what its deltas made of it.
#[derive(Clone, Debug, Default)]
struct GrowingBlock {
    members: Growing,
    /// The text of `input` so far, where it comes in pieces.
    input: String,
    /// Whether it started with an empty signature.
    to_be_signed: bool,
    stopped: bool,
}

impl MessageDraft for GrowingMessage {
    fn take(&mut self, kind: &str, event: &Object<'_>, told: &mut ReplyMeta) {
        match kind {
            "message_start" => {
                self.begun = true;
                let Some(message) = event.get("message") else { return };
                told.names(message.get("id"), message.get("model"));
                self.report(message.get("usage"), told);
                let edits = message.get("input_transformations").map_or(0, |edits| edits.elements().count());
                if edits > 0 {
                    told.note("the provider changed the request (input_transformations)");
                }
            }
            "content_block_start" => {
                if let Some(block) = event.get("content_block") {
                    self.start(number(event.get("index")), block, told);
                }
            }
            "content_block_delta" => {
                if let (Some(block), Some(delta)) = (self.block(event), event.get("delta")) {
                    block.delta(delta, told);
                }
            }
            "content_block_stop" => {
                if let Some(block) = self.block(event) {
                    block.stop();
                }
            }
            "message_delta" => {
                let reason = event.get("delta").and_then(|delta| delta.get("stop_reason"));
                let delta = || event.get("delta").and_then(|delta| delta.get("context_management"));
                told.edited(event.get("context_management").or_else(delta));
                told.stop = text(reason).or(told.stop.take());
                self.report(event.get("usage"), told);
            }
            "message_stop" => told.ended = true,
            // `ping`, and whatever comes to be.
            _ => {}
        }
    }

    fn message(&self, told: &mut ReplyMeta) -> Option<String> {
        if !self.begun && self.blocks.is_empty() {
            return None;
        }
        let mut out = String::from("{\"role\":\"assistant\",\"content\":[");
        for (number, block) in self.blocks.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            block.write(&mut out, told);
        }
        out.push_str("]}");
        Some(out)
    }
}

impl GrowingMessage {
    fn report(&mut self, usage: Option<Raw<'_>>, told: &mut ReplyMeta) {
        if let Some(usage) = present(usage) {
            self.usage.report(usage);
            told.usage = self.usage.usage();
        }
    }

    /// The block an event is about; without an index, the last one.
    fn block(&mut self, event: &Object<'_>) -> Option<&mut GrowingBlock> {
        let place = match number(event.get("index")) {
            Some(index) => *self.indexes.get(&index)?,
            None => self.blocks.len().checked_sub(1)?,
        };
        self.blocks.get_mut(place)
    }

    fn start(&mut self, index: Option<u64>, started: Raw<'_>, told: &mut ReplyMeta) {
        if let Some(index) = index {
            self.indexes.insert(index, self.blocks.len());
        }
        let mut block = GrowingBlock::default();
        for (key, value) in started.members() {
            // The empty signature a thought starts with would read as one if the stream broke here.
            if key == "signature" && value.text() == "\"\"" {
                block.to_be_signed = true;
            } else {
                block.members.set(&key, value);
            }
        }
        if block.kind().as_deref() == Some("tool_use") {
            told.asks = Asks::ForTools;
        }
        self.blocks.push(block);
    }
}

impl GrowingBlock {
    fn kind(&self) -> Option<String> {
        self.members.text("type")
    }

    fn delta(&mut self, delta: Raw<'_>, told: &mut ReplyMeta) {
        if self.stopped {
            return;
        }
        let kind = text(delta.get("type"));
        let piece = |key: &str| delta.get(key).filter(|piece| piece.kind() == JsonKind::String);
        match kind.as_deref() {
            Some("text_delta") => self.join("text", piece("text")),
            Some("thinking_delta") => self.join("thinking", piece("thinking")),
            Some("input_json_delta") => {
                if let Some(piece) = piece("partial_json").and_then(Raw::string) {
                    self.input.push_str(&piece);
                }
            }
            Some("signature_delta") => {
                if let Some(signature) = piece("signature") {
                    self.members.set("signature", signature);
                }
            }
            Some("citations_delta") => {
                if let Some(citation) = delta.get("citation") {
                    self.members.push("citations", citation);
                }
            }
            // Comes once, with all there is.
            Some("compaction_delta") => {
                for (key, value) in delta.members().filter(|(key, _)| key != "type") {
                    self.members.set(&key, value);
                }
            }
            _ => told.note("a delta of an unknown kind was left out of the message"),
        }
    }

    fn join(&mut self, key: &str, piece: Option<Raw<'_>>) {
        if let Some(piece) = piece {
            self.members.join(key, piece);
        }
    }

    /// The end of the block: what it says now is all it says.
    fn stop(&mut self) {
        self.stopped = true;
        if self.to_be_signed && !self.members.says("signature") {
            self.members.set("signature", Raw::trusted("\"\""));
        }
        self.settle(|_| true);
    }

    /// Turns the text of the input into the input: verbatim if it is JSON that may stand, else wrapped as the text it
    /// is, which every reader knows to unwrap.
    fn settle(&mut self, may_stand: impl Fn(Raw<'_>) -> bool) {
        if self.input.is_empty() {
            return;
        }
        // Inside the message the input is three levels down, and the depth of all of it is limited.
        let nested = format!("[[[{}]]]", self.input);
        let fits = json::check(&nested).is_ok();
        match json::check(&self.input) {
            Ok(input) if fits && may_stand(input) => self.members.set("input", input),
            _ => self.members.set("input", Raw::trusted(&wrapped(&self.input))),
        }
    }

    fn write(&self, out: &mut String, told: &ReplyMeta) {
        if self.stopped {
            return self.members.write(out);
        }
        let mut block = self.clone();
        if told.ended {
            block.stop();
        } else {
            // Cut: only an object that is closed cannot go on, and no input at all is not yet an empty one.
            block.settle(|input| input.kind() == JsonKind::Object);
            if is_call(block.kind().as_deref()) && block.input.is_empty() && !block.members.says("input") {
                block.members.set("input", Raw::trusted(&wrapped("")));
            }
        }
        block.members.write(out);
    }
}

fn is_call(kind: Option<&str>) -> bool {
    matches!(kind, Some("tool_use" | "server_tool_use" | "mcp_tool_use"))
}

/// Arguments that are no object, for a wire that wants one.
fn wrapped(text: &str) -> String {
    let mut out = String::from("{\"__raw\":");
    json::write_string(&mut out, text);
    out.push('}');
    out
}

/// The message of a whole response.
pub(super) fn body(response: &Object<'_>, told: &mut ReplyMeta) -> Option<String> {
    told.names(response.get("id"), response.get("model"));
    told.stop = text(response.get("stop_reason"));
    told.edited(response.get("context_management"));
    if let Some(reported) = present(response.get("usage")) {
        let mut usage = usage::Anthropic::default();
        usage.report(reported);
        told.usage = usage.usage();
    }
    let content = response.get("content")?;
    let calls = |block: Raw<'_>| block.get("type").and_then(Raw::string).as_deref() == Some("tool_use");
    if content.elements().any(calls) {
        told.asks = Asks::ForTools;
    }
    Some(format!("{{\"role\":\"assistant\",\"content\":{}}}", content.text()))
}
