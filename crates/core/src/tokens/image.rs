//! What an image costs, and how large it is by the first bytes of its data.

use crate::base64;

/// How closely the model is asked to look at an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detail {
    /// `low`: one small thumbnail, whatever the size.
    Low,
    /// Everything else: `high`, `auto`, or nothing said.
    High,
}

const BASE: usize = 85;
const PER_TILE: usize = 170;
const TILE: u64 = 512;
const LONG_SIDE: u64 = 2048;
const SHORT_SIDE: u64 = 768;
/// An image of unknown size is taken to have six tiles, as a page or a full screen has.
const UNKNOWN: usize = BASE + 6 * PER_TILE;

/// Tokens of an image of `size` (width, height) in pixels.
///
/// The image is scaled down, never up, to fit a square of 2048 and then to 768 on its short side, in whole
/// pixels; each tile of 512 begun costs 170 on top of 85.
///
/// ```
/// use scrollback_core::tokens::{Detail, image_tokens};
/// assert_eq!(image_tokens(Some((1024, 1024)), Detail::High), 765);
/// assert_eq!(image_tokens(None, Detail::High), 1105);
/// ```
pub fn image_tokens(size: Option<(u32, u32)>, detail: Detail) -> usize {
    match (detail, size) {
        (Detail::Low, _) => BASE,
        (Detail::High, None) => UNKNOWN,
        (Detail::High, Some((width, height))) => BASE + PER_TILE * tiles(width, height),
    }
}

fn tiles(width: u32, height: u32) -> usize {
    let (mut long, mut short) = (u64::from(width.max(height)), u64::from(width.min(height)));
    if long > LONG_SIDE {
        (long, short) = (LONG_SIDE, short * LONG_SIDE / long);
    }
    if short > SHORT_SIDE {
        (long, short) = (long * SHORT_SIDE / short, SHORT_SIDE);
    }
    let along = |side: u64| side.div_ceil(TILE).max(1) as usize;
    along(long) * along(short)
}

/// Bytes of an image worth decoding for [`image_size`]: a JPEG may carry a full Exif segment and a full
/// colour profile segment, 64 KiB each, before the segment with its size.
pub const IMAGE_HEAD: usize = 130 * 1024;

/// Width and height in pixels by the header of PNG, JPEG, GIF, WebP or BMP data; the rest of the data may be
/// missing.
///
/// Total: other formats, broken headers and empty images are `None`. The kind is told by the bytes alone,
/// because declared mime types are often wrong.
pub fn image_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let size = png(bytes)
        .or_else(|| jpeg(bytes))
        .or_else(|| gif(bytes))
        .or_else(|| webp(bytes))
        .or_else(|| bmp(bytes));
    size.filter(|&(width, height)| width > 0 && height > 0)
}

fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    (array(header, 4)? == *b"IHDR").then_some(())?;
    Some((u32::from_be_bytes(array(header, 8)?), u32::from_be_bytes(array(header, 12)?)))
}

fn gif(bytes: &[u8]) -> Option<(u32, u32)> {
    let screen = bytes.strip_prefix(b"GIF87a").or_else(|| bytes.strip_prefix(b"GIF89a"))?;
    Some((le16(screen, 0)?, le16(screen, 2)?))
}

fn bmp(bytes: &[u8]) -> Option<(u32, u32)> {
    // The oldest header has sides of two bytes; in later ones a negative height means rows from the top.
    const OLDEST_HEADER: u32 = 12;
    let header = bytes.strip_prefix(b"BM")?.get(12..)?;
    if u32::from_le_bytes(array(header, 0)?) == OLDEST_HEADER {
        return Some((le16(header, 4)?, le16(header, 6)?));
    }
    let width = i32::from_le_bytes(array(header, 4)?);
    let height = i32::from_le_bytes(array(header, 8)?);
    Some((u32::try_from(width).ok()?, height.unsigned_abs()))
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    let chunk = bytes.strip_prefix(b"RIFF")?.get(4..)?.strip_prefix(b"WEBP")?;
    let data = chunk.get(8..)?;
    match &array(chunk, 0)? {
        b"VP8 " => {
            (array(data, 3)? == [0x9D, 0x01, 0x2A]).then_some(())?;
            // The upper two bits of each side ask for scaling on display.
            Some((le16(data, 6)? & 0x3FFF, le16(data, 8)? & 0x3FFF))
        }
        b"VP8L" => {
            let bits = u32::from_le_bytes(array(data.strip_prefix(&[0x2F])?, 0)?);
            Some(((bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1))
        }
        b"VP8X" => {
            let le24 = |at| array(data, at).map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]));
            Some((le24(4)? + 1, le24(7)? + 1))
        }
        _ => None,
    }
}

/// Walks the segments of a JPEG up to the first that starts a frame.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let be16 = |bytes, at| array(bytes, at).map(|pair| u32::from(u16::from_be_bytes(pair)));
    let mut rest = bytes.strip_prefix(&[0xFF, 0xD8])?;
    loop {
        rest = rest.strip_prefix(&[0xFF])?;
        let (&marker, segment) = rest.split_first()?;
        rest = match marker {
            // Any number of 0xFF may stand before a marker.
            0xFF => rest,
            // Markers without a segment.
            0x01 | 0xD0..=0xD7 => segment,
            // Tables that share the numbers of frames, and every segment that comes before the frame.
            0xC4 | 0xC8 | 0xCC | 0xDB..=0xFE => segment.get(be16(segment, 0)? as usize..)?,
            0xC0..=0xCF => return Some((be16(segment, 5)?, be16(segment, 3)?)),
            _ => return None,
        };
    }
}

fn le16(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(|pair| u32::from(u16::from_le_bytes(pair)))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The mime type of a base64 `data:` URL and at most the first `max` bytes of its data.
///
/// Reads no more of the URL than that takes. The mime type is as written, without parameters, and may be
/// empty. Data that stops being base64 ends there. Other URLs, and `data:` URLs that are not base64, are
/// `None`.
///
/// ```
/// use scrollback_core::tokens::data_url_head;
/// assert_eq!(data_url_head("data:text/plain;base64,SGVsbG8=", 4), Some(("text/plain", b"Hell".to_vec())));
/// ```
pub fn data_url_head(url: &str, max: usize) -> Option<(&str, Vec<u8>)> {
    let (scheme, rest) = url.split_at_checked("data:".len())?;
    let (kind, data) = rest.split_once(',')?;
    let (kind, encoding) = kind.rsplit_once(';')?;
    if !scheme.eq_ignore_ascii_case("data:") || !encoding.trim().eq_ignore_ascii_case("base64") {
        return None;
    }
    let mime = kind.split(';').next().unwrap_or_default().trim();
    Some((mime, base64::head(data, max)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_costs_its_tiles() {
        for (width, height, expected) in [
            (1, 1, 255),
            (512, 512, 255),
            (513, 512, 425),
            (768, 768, 765),
            (1024, 1024, 765),
            (4096, 8192, 1105),
            (2048, 4096, 1105),
            (1920, 1080, 1105),
            (4032, 3024, 765),
            (2048, 768, 1445),
            (10_000, 1, 765),
            (u32::MAX, u32::MAX, 765),
            (0, 0, 255),
        ] {
            for size in [(width, height), (height, width)] {
                assert_eq!(image_tokens(Some(size), Detail::High), expected, "{size:?}");
                assert_eq!(image_tokens(Some(size), Detail::Low), 85, "{size:?}");
            }
        }
        assert_eq!(image_tokens(None, Detail::High), 1105);
        assert_eq!(image_tokens(None, Detail::Low), 85);
    }

    /// The first bytes of one picture, 300 wide and 200 high, as common encoders write it.
    const HEADS: [(&str, &str); 9] = [
        ("png", "iVBORw0KGgoAAAANSUhEUgAAASwAAADI"),
        ("gif", "R0lGODdhLAHIAIAA"),
        ("bmp", "Qk1WvwIAAAAAADYAAAAoAAAALAEAAMgAAAAB"),
        (
            "jpeg",
            "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIx\
             wcKDcpLDAxNDQ0Hyc5PTgyPC4zNDL/wAALCADIASwBAREA",
        ),
        (
            "progressive jpeg",
            "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIx\
             wcKDcpLDAxNDQ0Hyc5PTgyPC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIy\
             MjIyMjIyMjIyMjIyMjIyMjIyMjIyMjL/wgARCADIASwDASIA",
        ),
        ("jpeg with fill bytes, a restart marker and a Huffman table", "/9j///8B/9D/xAAEAAD/wAAICADIASwA"),
        ("lossy webp", "UklGRr4AAABXRUJQVlA4ILIAAACwEACdASosAcgA"),
        ("lossless webp", "UklGRiQAAABXRUJQVlA4TBgAAAAvK8ExAAdQ"),
        ("extended webp", "UklGRuoAAABXRUJQVlA4WAoAAAAQAAAAKwEAxwAA"),
    ];

    #[test]
    fn the_size_is_read_from_the_head_of_every_format() {
        for (format, head) in HEADS {
            assert_eq!(image_size(&base64::head(head, IMAGE_HEAD)), Some((300, 200)), "{format}");
        }
    }

    #[test]
    fn old_and_top_down_bitmaps_have_a_size_too() {
        let bitmap = |header: &[u8]| image_size(&[b"BM..........".as_slice(), b"..", header].concat());
        assert_eq!(bitmap(b"\x0c\0\0\0\x2c\x01\xc8\0"), Some((300, 200)));
        assert_eq!(bitmap(b"\x28\0\0\0\x2c\x01\0\0\x38\xff\xff\xff"), Some((300, 200)));
        assert_eq!(bitmap(b"\x28\0\0\0\x2c\x01\0\x80\xc8\0\0\0"), None);
    }

    #[test]
    fn cut_and_damaged_heads_never_panic_and_never_have_an_empty_side() {
        for (format, head) in HEADS {
            let bytes = base64::head(head, IMAGE_HEAD);
            for end in 0..bytes.len() {
                let _ = image_size(bytes.get(..end).unwrap_or_default());
                for value in [0, 1, 0x7F, 0xFF] {
                    let mut damaged = bytes.clone();
                    if let Some(byte) = damaged.get_mut(end) {
                        *byte = value;
                    }
                    let size = image_size(&damaged);
                    assert!(size.is_none_or(|(w, h)| w > 0 && h > 0), "{format} byte {end} = {value}");
                }
            }
        }
        for bytes in [b"".as_slice(), b"<svg width='3'/>", b"RIFF", b"BM", b"\xff\xd8\xff\xe0\0\0\xff"] {
            assert_eq!(image_size(bytes), None);
        }
    }

    #[test]
    fn a_data_url_gives_its_mime_type_and_the_bytes_asked_for() {
        for (url, max, expected) in [
            ("data:image/png;base64,AAEC", 9, Some(("image/png", b"\0\x01\x02".as_slice()))),
            ("data:image/png;base64,AAECAw==", 9, Some(("image/png", b"\0\x01\x02\x03"))),
            ("data:image/png;base64,AAECAwQ", 9, Some(("image/png", b"\0\x01\x02\x03\x04"))),
            ("data:image/png;base64,AAECAwQ", 2, Some(("image/png", b"\0\x01"))),
            ("data:image/png;base64,AAEC", 0, Some(("image/png", b""))),
            ("DATA:Image/PNG;name=a.png;BASE64,AA EC\n", 9, Some(("Image/PNG", b"\0\x01\x02"))),
            ("data:;base64,-_+/", 9, Some(("", b"\xfb\xff\xbf"))),
            ("data:image/png;base64,AAEC%AAEC", 9, Some(("image/png", b"\0\x01\x02"))),
            ("data:image/png;base64,", 9, Some(("image/png", b""))),
            ("data:text/plain,hello", 9, None),
            ("data:image/svg+xml;utf8,<svg/>", 9, None),
            ("data:image/png;base64", 9, None),
            ("https://example.com/a;base64,AAEC", 9, None),
            ("dät", 9, None),
            ("daté:x", 9, None),
            ("", 9, None),
        ] {
            assert_eq!(
                data_url_head(url, max),
                expected.map(|(mime, bytes)| (mime, bytes.to_vec())),
                "{url}"
            );
        }
    }
}
