//! The body of a request: read within limits, and unpacked within the same ones.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use scrollback_agent::config::ServerLimits;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::content_encoding::{ContentEncoding, NotUnpacked};
use crate::memory::Share;
use crate::problem::HttpProblem;
use crate::proxy::join_result;

/// Reads a body: not more than the limit, not slower than the pace.
pub(crate) async fn read(
    body: Body,
    headers: &HeaderMap,
    limits: &ServerLimits,
    share: &mut Share,
) -> Result<Bytes, HttpProblem> {
    within(headers, limits)?;
    let coding = ContentEncoding::of(headers)?;
    let packed = collect(body, limits, share).await?;
    if coding == ContentEncoding::Identity {
        return Ok(packed);
    }
    let limit = limits.body_bytes;
    // Few bytes may become many, which takes time.
    let unpacked = join_result(spawn_blocking(move || coding.unpack(packed, limit))).await?;
    let unpacked = unpacked.map_err(|why| match why {
        NotUnpacked::TooLarge => too_large(limits),
        NotUnpacked::Broken => {
            let detail = format!("the body is not {}, or not whole", coding.name());
            HttpProblem::bad_request("bad_encoding", detail)
        }
    })?;
    share.grow(unpacked.len()).await?;
    Ok(unpacked)
}

/// Reads a body that is passed on as it is, compressed or not.
pub(crate) async fn read_packed(
    body: Body,
    headers: &HeaderMap,
    limits: &ServerLimits,
    share: &mut Share,
) -> Result<Bytes, HttpProblem> {
    within(headers, limits)?;
    collect(body, limits, share).await
}

/// An error if a body says itself that it is larger than the limit.
fn within(headers: &HeaderMap, limits: &ServerLimits) -> Result<(), HttpProblem> {
    let stated =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if stated.is_some_and(|length| length > limits.body_bytes as u64) {
        return Err(too_large(limits));
    }
    Ok(())
}

async fn collect(mut body: Body, limits: &ServerLimits, share: &mut Share) -> Result<Bytes, HttpProblem> {
    let began = Instant::now();
    let mut last = began;
    let mut first: Option<Bytes> = None;
    let mut whole = BytesMut::new();
    loop {
        let received = first.as_ref().map_or(0, Bytes::len) + whole.len();
        // The moment at which what came so far is too little.
        let seconds = received as f64 / limits.body_pace.max(1) as f64;
        let patience = limits.body_grace.max(Duration::from_secs_f64(seconds));
        // A client that was quick at first may not fall silent for longer than one that was slow from the beginning.
        let until = (began + patience).min(last + limits.body_grace);
        let frame = timeout_at(until, body.frame()).await.map_err(|_| too_slow())?;
        last = Instant::now();
        let Some(frame) = frame else { break };
        let frame = frame
            .map_err(|_| HttpProblem::bad_request("bad_body", "the body broke off or is badly framed"))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if received + bytes.len() > limits.body_bytes {
            return Err(too_large(limits));
        }
        if let Err(full) = share.grow(bytes.len()).await {
            drop((first, whole));
            share.give_back();
            discard(body, received + bytes.len(), limits).await;
            return Err(full);
        }
        match &first {
            None => first = Some(bytes),
            Some(start) => {
                if whole.is_empty() {
                    whole.extend_from_slice(start);
                    first = Some(Bytes::new());
                }
                whole.extend_from_slice(&bytes);
            }
        }
    }
    // Most bodies come in one piece, and are not copied.
    Ok(if whole.is_empty() { first.unwrap_or_default() } else { whole.freeze() })
}

/// Reads the rest of a body that is refused for want of memory, and keeps none of it: a client that is still sending would see a
/// broken connection instead of the answer that says when to try again.
async fn discard(mut body: Body, mut received: usize, limits: &ServerLimits) {
    let until = Instant::now() + limits.body_grace;
    while let Ok(Some(Ok(frame))) = timeout_at(until, body.frame()).await {
        received += frame.data_ref().map_or(0, Bytes::len);
        if received > limits.body_bytes {
            break;
        }
    }
}

fn too_large(limits: &ServerLimits) -> HttpProblem {
    let detail = format!("the body is larger than {} bytes", limits.body_bytes);
    HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
}

fn too_slow() -> HttpProblem {
    HttpProblem::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", "the body came too slowly")
}
