//! How the body of a request is compressed, and unpacking it within a limit.
//!
//! What would become larger than the limit is refused while it grows: memory follows the limit, never what the compressed
//! bytes claim. Checksums are verified where a format has them.

use std::io::Read;

use axum::http::{HeaderMap, StatusCode, header};
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use bytes::Bytes;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::FrameDecoderError;

use crate::problem::HttpProblem;

/// The codings that are understood, for messages to people.
const KNOWN: &str = "gzip, deflate, br or zstd";
/// The window that every zstd decoder should allow (RFC 8878, 3.1.1.1.2), however small the limit is.
const ZSTD_WINDOW: u64 = 8 << 20;
/// Bytes that brotli is unpacked by at a time.
const PIECE: usize = 64 << 10;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentEncoding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Why a body was not unpacked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotUnpacked {
    /// It would be larger than the limit.
    TooLarge,
    /// It is not what the header says, or not whole.
    Broken,
}

impl ContentEncoding {
    /// What the headers of a request say; an error where they name another coding, or several.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, HttpProblem> {
        let mut stated = headers.get_all(header::CONTENT_ENCODING).iter();
        let (one, more) = (stated.next().map(|value| value.as_bytes().trim_ascii()), stated.next());
        let is = |name: &str| one.is_some_and(|one| one.eq_ignore_ascii_case(name.as_bytes()));
        let known = match one {
            None | Some(b"") => Some(ContentEncoding::Identity),
            _ if is("identity") => Some(ContentEncoding::Identity),
            _ if is("gzip") || is("x-gzip") => Some(ContentEncoding::Gzip),
            _ if is("deflate") => Some(ContentEncoding::Deflate),
            _ if is("br") => Some(ContentEncoding::Brotli),
            _ if is("zstd") => Some(ContentEncoding::Zstd),
            Some(_) => None,
        };
        known.filter(|_| more.is_none()).ok_or_else(|| {
            let detail =
                format!("unknown content-encoding: compress the body once, by {KNOWN}, or not at all");
            HttpProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_encoding", detail)
        })
    }

    /// The word for it in a header.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ContentEncoding::Identity => "identity",
            ContentEncoding::Gzip => "gzip",
            ContentEncoding::Deflate => "deflate",
            ContentEncoding::Brotli => "br",
            ContentEncoding::Zstd => "zstd",
        }
    }

    /// The bytes behind `packed`, at most `limit` of them.
    pub(crate) fn unpack(self, packed: Bytes, limit: usize) -> Result<Bytes, NotUnpacked> {
        match self {
            ContentEncoding::Identity if packed.len() > limit => return Err(NotUnpacked::TooLarge),
            ContentEncoding::Identity => return Ok(packed),
            ContentEncoding::Gzip => read_within(MultiGzDecoder::new(&*packed), Vec::new(), limit),
            // The coding of that name has a header and a checksum (RFC 9110, 8.4.1.2); some clients leave both out.
            ContentEncoding::Deflate if has_zlib_header(&packed) => {
                read_within(ZlibDecoder::new(&*packed), Vec::new(), limit)
            }
            ContentEncoding::Deflate => read_within(DeflateDecoder::new(&*packed), Vec::new(), limit),
            ContentEncoding::Brotli => unpack_brotli(&packed, limit),
            ContentEncoding::Zstd => unpack_zstd(&packed, limit),
        }
        .map(Bytes::from)
    }
}

/// Reads to the end, after what was read before.
fn read_within(reader: impl Read, mut unpacked: Vec<u8>, limit: usize) -> Result<Vec<u8>, NotUnpacked> {
    let room = limit.saturating_sub(unpacked.len()) as u64;
    reader.take(room + 1).read_to_end(&mut unpacked).map_err(|_| NotUnpacked::Broken)?;
    if unpacked.len() > limit { Err(NotUnpacked::TooLarge) } else { Ok(unpacked) }
}

/// Whether bytes begin as zlib's format does (RFC 1950).
fn has_zlib_header(packed: &[u8]) -> bool {
    let [first, second, ..] = packed else { return false };
    first & 0x0f == 8 && u16::from_be_bytes([*first, *second]).is_multiple_of(31)
}

/// Unpacks brotli. Windows beyond those of the standard (16 MiB) are refused: they would be allocated before the first byte.
fn unpack_brotli(packed: &[u8], limit: usize) -> Result<Vec<u8>, NotUnpacked> {
    let alloc = StandardAlloc::default;
    let mut state = BrotliState::new_strict(alloc(), alloc(), alloc());
    let mut piece = vec![0; PIECE];
    let mut unpacked = Vec::new();
    let (mut left, mut read, mut total) = (packed.len(), 0, 0);
    loop {
        let (mut room, mut written) = (piece.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            packed,
            &mut room,
            &mut written,
            &mut piece,
            &mut total,
            &mut state,
        );
        unpacked.extend_from_slice(piece.get(..written).unwrap_or_default());
        if unpacked.len() > limit {
            return Err(NotUnpacked::TooLarge);
        }
        match result {
            BrotliResult::ResultSuccess if left == 0 => return Ok(unpacked),
            BrotliResult::NeedsMoreOutput => {}
            // All there is was given, so more input cannot come.
            BrotliResult::ResultSuccess | BrotliResult::ResultFailure | BrotliResult::NeedsMoreInput => {
                return Err(NotUnpacked::Broken);
            }
        }
    }
}

/// Unpacks zstd: one frame after another.
fn unpack_zstd(packed: &[u8], limit: usize) -> Result<Vec<u8>, NotUnpacked> {
    let mut rest = packed;
    let mut unpacked = Vec::new();
    loop {
        let window = ZSTD_WINDOW.max(limit as u64);
        let mut frame = StreamingDecoder::new_with_max_window_size(&mut rest, window).map_err(|error| {
            match error {
                // A frame that says how much it holds says so here.
                FrameDecoderError::WindowSizeTooBig { .. } => NotUnpacked::TooLarge,
                _ => NotUnpacked::Broken,
            }
        })?;
        unpacked = read_within(&mut frame, unpacked, limit)?;
        let decoder = frame.into_frame_decoder();
        let stated = decoder.get_checksum_from_data();
        if !decoder.is_finished() || (stated.is_some() && stated != decoder.get_calculated_checksum()) {
            return Err(NotUnpacked::Broken);
        }
        if rest.is_empty() {
            return Ok(unpacked);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(content).unwrap();
        packed.finish().unwrap()
    }

    fn zlib(content: &[u8]) -> Vec<u8> {
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
        packed.write_all(content).unwrap();
        packed.finish().unwrap()
    }

    fn raw_deflate(content: &[u8]) -> Vec<u8> {
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
        packed.write_all(content).unwrap();
        packed.finish().unwrap()
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        compress_to_vec(content, CompressionLevel::Fastest)
    }

    /// `content` as brotli that compresses nothing: blocks of at most 64 KiB, then the end (RFC 7932, 9.2).
    fn brotli(content: &[u8]) -> Vec<u8> {
        // A window of 16 bits, and then each block's length in 16 bits after three flags and two bits that say so.
        let mut bits: Vec<u8> = vec![0];
        let mut packed = Vec::new();
        let flush = |bits: &mut Vec<u8>, packed: &mut Vec<u8>| {
            for byte in bits.chunks(8) {
                packed.push(byte.iter().rev().fold(0, |all, bit| all << 1 | bit));
            }
            bits.clear();
        };
        for block in content.chunks(1 << 16) {
            bits.extend([0, 0, 0]);
            bits.extend((0..16).map(|bit| ((block.len() - 1) >> bit & 1) as u8));
            bits.push(1);
            flush(&mut bits, &mut packed);
            packed.extend_from_slice(block);
        }
        bits.extend([1, 1]);
        flush(&mut bits, &mut packed);
        packed
    }

    type Pack = fn(&[u8]) -> Vec<u8>;
    const PACKERS: [(ContentEncoding, Pack); 5] = [
        (ContentEncoding::Gzip, gzip),
        (ContentEncoding::Deflate, zlib),
        (ContentEncoding::Deflate, raw_deflate),
        (ContentEncoding::Brotli, brotli),
        (ContentEncoding::Zstd, zstd),
    ];

    #[test]
    fn every_coding_is_unpacked_up_to_the_limit_and_not_beyond() {
        for (coding, pack) in PACKERS {
            for size in [0, 1, 2, 1000, 70_000, 200_000] {
                let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
                let packed = Bytes::from(pack(&content));
                let unpack = |limit: usize| coding.unpack(packed.clone(), limit);
                assert_eq!(unpack(size).unwrap(), content, "{coding:?} {size}");
                if size > 0 {
                    assert_eq!(unpack(size - 1), Err(NotUnpacked::TooLarge), "{coding:?} {size}");
                }
            }
        }
    }

    #[test]
    fn what_is_cut_off_or_changed_is_refused() {
        for (coding, pack) in PACKERS {
            let packed = pack(&b"what was said ".repeat(300));
            for end in 0..packed.len() {
                let cut = Bytes::copy_from_slice(&packed[..end]);
                assert_eq!(coding.unpack(cut, 1 << 20), Err(NotUnpacked::Broken), "{coding:?} cut at {end}");
            }
            // Never a panic, never more than the limit, whatever the bytes are.
            for at in 0..packed.len() {
                for flip in [1, 0x80, 0xff] {
                    let mut changed = packed.clone();
                    changed[at] ^= flip;
                    if let Ok(unpacked) = coding.unpack(changed.into(), 10_000) {
                        assert!(unpacked.len() <= 10_000, "{coding:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn checksums_are_verified() {
        let mut packed = gzip(b"what was said");
        let crc = packed.len() - 8;
        packed[crc] ^= 1;
        assert_eq!(ContentEncoding::Gzip.unpack(packed.into(), 1000), Err(NotUnpacked::Broken));
        let mut packed = zlib(b"what was said");
        let adler = packed.len() - 1;
        packed[adler] ^= 1;
        assert_eq!(ContentEncoding::Deflate.unpack(packed.into(), 1000), Err(NotUnpacked::Broken));
    }

    #[test]
    fn windows_that_are_claimed_are_not_allocated() {
        // A zstd frame with a window of 2 TiB, and one that says it holds 4 GiB.
        let window = Bytes::from_static(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x01, 0x00, 0x00]);
        let content =
            Bytes::from_static(&[0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00, 0x00]);
        for claim in [window, content] {
            assert_eq!(ContentEncoding::Zstd.unpack(claim, 32 << 20), Err(NotUnpacked::TooLarge));
        }
        // Brotli's large window, which is not part of the standard.
        let large = Bytes::from_static(&[0x11, 0x1e, 0x03]);
        assert_eq!(ContentEncoding::Brotli.unpack(large, 32 << 20), Err(NotUnpacked::Broken));
    }

    #[test]
    fn one_coding_is_named_and_understood() {
        let stated = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::CONTENT_ENCODING, value.parse().unwrap());
            }
            ContentEncoding::of(&headers).ok()
        };
        assert_eq!(stated(&[]), Some(ContentEncoding::Identity));
        assert_eq!(stated(&["ZSTD"]), Some(ContentEncoding::Zstd));
        assert_eq!(stated(&[" br "]), Some(ContentEncoding::Brotli));
        assert_eq!(stated(&["x-gzip"]), Some(ContentEncoding::Gzip));
        for unknown in [&["compress"][..], &["gzip, br"], &["gzip", "br"], &["gzip", "gzip"]] {
            assert_eq!(stated(unknown), None, "{unknown:?}");
        }
    }
}
