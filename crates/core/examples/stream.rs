//! Puts a streamed reply together and keeps it: `cargo run -p scrollback-core --example stream`.

use scrollback_core::stream::{Assembler, Reply, StopReason};
use scrollback_core::wire::Wire;
use scrollback_core::{Record, Status, Time, json};

const STREAM: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","model":"claude-opus-4-8","content":[],"usage":{"input_tokens":25,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"city\": \"Ber"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"gen\", \"days\": 1.50}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":42}}

event: message_stop
data: {"type":"message_stop"}

"#;

/// Feeds whatever the connection delivers, in whatever pieces.
fn assemble<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Result<Reply, Box<dyn std::error::Error>> {
    let mut assembler = Assembler::new(Wire::Anthropic)?;
    for chunk in chunks {
        // Pass `chunk` on to the client here; nothing in it is changed.
        assembler.feed(chunk);
    }
    Ok(assembler.finish())
}

/// Keeps a reply. One that broke off is kept too, and says so.
fn keep(record: &mut Record, reply: &Reply) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(problem) = &reply.problem {
        eprintln!("{problem}");
    }
    if reply.raw.is_some() {
        let sequence = record.message_count() as u64;
        record.append(reply.entry()?.stamped(uuid::Uuid::nil(), sequence, Time::default()))?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut record = Record::new();
    let whole = assemble(STREAM.as_bytes().chunks(7))?;
    assert_eq!(whole.meta.status, Status::Complete);
    assert_eq!(whole.meta.stop, Some(StopReason::ToolCalls));
    keep(&mut record, &whole)?;

    // The connection broke in the middle of the arguments.
    let broken = assemble(STREAM.as_bytes()[..500].chunks(7))?;
    assert_eq!(broken.meta.status, Status::TruncatedUpstream);
    keep(&mut record, &broken)?;

    // A reply that came in one piece.
    let body = r#"{"id":"msg_2","content":[{"type":"text","text":"Rain."}],"stop_reason":"end_turn"}"#;
    keep(&mut record, &Reply::from_body(Wire::Anthropic, json::check(body)?))?;
    for slot in record.slots() {
        println!("{slot:?}");
    }
    println!("{}", whole.raw.unwrap_or_default());
    Ok(())
}
