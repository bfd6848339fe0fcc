//! The body of a request: read within limits, and unpacked within the same ones.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use scrollback_agent::config::ServerLimits;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::problem::Problem;
use crate::proxy::join_result;

/// Reads a body: not more than the limit, not slower than the pace.
pub(crate) async fn read(body: Body, headers: &HeaderMap, limits: &ServerLimits) -> Result<Bytes, Problem> {
    let stated =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if stated.is_some_and(|length| length > limits.body_bytes as u64) {
        return Err(too_large(limits));
    }
    let packing = packing(headers)?;
    let packed = collect(body, limits).await?;
    match packing {
        Packing::None => Ok(packed),
        Packing::Gzip => {
            let limits = *limits;
            // Few bytes may become many.
            join_result(spawn_blocking(move || unpack(&packed, &limits))).await?
        }
    }
}

async fn collect(mut body: Body, limits: &ServerLimits) -> Result<Bytes, Problem> {
    let began = Instant::now();
    let mut first: Option<Bytes> = None;
    let mut whole = BytesMut::new();
    loop {
        let received = first.as_ref().map_or(0, Bytes::len) + whole.len();
        // The moment at which what came so far is too little.
        let seconds = received as f64 / limits.body_pace.max(1) as f64;
        let patience = limits.body_grace.max(Duration::from_secs_f64(seconds));
        let frame = timeout_at(began + patience, body.frame()).await.map_err(|_| too_slow())?;
        let Some(frame) = frame else { break };
        let frame =
            frame.map_err(|_| Problem::bad_request("bad_body", "the body broke off or is badly framed"))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if received + bytes.len() > limits.body_bytes {
            return Err(too_large(limits));
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

fn too_large(limits: &ServerLimits) -> Problem {
    let detail = format!("the body is larger than {} bytes", limits.body_bytes);
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
}

fn too_slow() -> Problem {
    Problem::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", "the body came too slowly")
}

#[derive(Clone, Copy)]
enum Packing {
    None,
    Gzip,
}

fn packing(headers: &HeaderMap) -> Result<Packing, Problem> {
    let mut stated = headers.get_all(header::CONTENT_ENCODING).iter();
    let (one, more) = (stated.next().map(|value| value.as_bytes().to_ascii_lowercase()), stated.next());
    match (one.as_deref(), more) {
        (None | Some(b"identity" | b""), None) => Ok(Packing::None),
        (Some(b"gzip" | b"x-gzip"), None) => Ok(Packing::Gzip),
        _ => {
            let detail = "a body may be packed by gzip, and by nothing else";
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_encoding", detail))
        }
    }
}

/// Unpacks gzip. What would become larger than the limit is refused while it grows.
fn unpack(packed: &[u8], limits: &ServerLimits) -> Result<Bytes, Problem> {
    let bad = || Problem::bad_request("bad_encoding", "the body is not gzip, or not whole");
    let deflated = gzip_content(packed).ok_or_else(bad)?;
    match miniz_oxide::inflate::decompress_to_vec_with_limit(deflated, limits.body_bytes) {
        Ok(unpacked) => Ok(unpacked.into()),
        Err(error) if error.status == miniz_oxide::inflate::TINFLStatus::HasMoreOutput => {
            Err(too_large(limits))
        }
        Err(_) => Err(bad()),
    }
}

/// What is between the header and the trailer of gzip (RFC 1952).
fn gzip_content(packed: &[u8]) -> Option<&[u8]> {
    let (head, mut rest) = packed.split_at_checked(10)?;
    let [0x1f, 0x8b, 8, flags, ..] = head else { return None };
    let has = |bit: u8| flags & (1 << bit) != 0;
    if has(2) {
        let (length, after) = rest.split_at_checked(2)?;
        let length = usize::from(u16::from_le_bytes([*length.first()?, *length.get(1)?]));
        rest = after.get(length..)?;
    }
    for bit in [3, 4] {
        if has(bit) {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = rest.get(end + 1..)?;
        }
    }
    if has(1) {
        rest = rest.get(2..)?;
    }
    rest.get(..rest.len().checked_sub(8)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn gzip(content: &[u8], flags: u8, extra: &[u8]) -> Vec<u8> {
        let deflated = miniz_oxide::deflate::compress_to_vec(content, 6);
        [&[0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3], extra, &deflated, &[0; 8]].concat()
    }

    #[test]
    fn gzip_is_unpacked_up_to_the_limit() {
        let limits = ServerLimits { body_bytes: 1000, ..ServerLimits::default() };
        assert_eq!(unpack(&gzip(b"{}", 0, b""), &limits).unwrap(), "{}");
        assert_eq!(unpack(&gzip(b"{}", 8, b"name\0"), &limits).unwrap(), "{}");
        assert_eq!(unpack(&gzip(b"{}", 4, b"\x02\x00ab"), &limits).unwrap(), "{}");
        let bomb = gzip(&vec![b' '; 10_000_000], 0, b"");
        assert_eq!(unpack(&bomb, &limits).unwrap_err().code, "body_too_large");
        for broken in
            [&b""[..], b"{}", &gzip(b"{}", 0, b"")[..12], &[0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3, b'x']]
        {
            assert_eq!(unpack(broken, &limits).unwrap_err().code, "bad_encoding");
        }
    }
}
