//! What is too much: AN-20 and AN-21.

use super::super::{CheckOptions, Wire, body};
use super::finding::{Findings, RequestPath};
use super::request::{AnthropicBlock, AnthropicRequest, Type};
use crate::json::Raw;
use crate::model::facts;
use crate::tokens::{IMAGE_HEAD, data_url_head, image_size};

/// Largest body.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// Most images for models with a small window, and for all others.
const MAX_IMAGES: (usize, usize) = (100, 600);
/// The window of the models that take fewer images.
const SMALL_WINDOW: u64 = 200_000;
/// Longest side of an image, and longest side when there are many.
const MAX_SIDE: (u32, u32) = (8000, 2000);
/// How many images are many.
const MANY_IMAGES: usize = 20;
/// Bytes that hold the size of nearly every image.
const SHORT_HEAD: usize = 1024;

pub(super) fn check(
    text: Raw<'_>,
    request: &AnthropicRequest<'_>,
    options: &CheckOptions<'_>,
    found: &mut Findings,
) {
    if text.text().len() > MAX_BYTES {
        found.add("AN-20", RequestPath::Body, "the request is larger than 32 MB; send files by reference");
    }
    check_images(request, options, found);
    if let Some((tokens, window)) = body::overflow(Wire::Anthropic, text, options) {
        let message = format!("about {tokens} tokens, more than the window of {window}; leave something out");
        found.add("AN-21", RequestPath::Body, message);
    }
}

fn check_images(request: &AnthropicRequest<'_>, options: &CheckOptions<'_>, found: &mut Findings) {
    let blocks = request.messages.iter().flat_map(|message| &message.blocks);
    let images: Vec<&AnthropicBlock<'_>> = blocks
        .flat_map(|block| std::iter::once(block).chain(&block.inner))
        .filter(|block| block.kind == Type::Image)
        .collect();
    let window = options.model.and_then(facts).map(|facts| facts.context_window);
    let most = match window {
        Some(window) if window > SMALL_WINDOW => MAX_IMAGES.1,
        _ => MAX_IMAGES.0,
    };
    if let Some(image) = images.get(most) {
        let message = format!("{} images, more than {most}; leave the oldest out", images.len());
        found.add("AN-20", image.place, message);
    }
    let side = if images.len() > MANY_IMAGES { MAX_SIDE.1 } else { MAX_SIDE.0 };
    for image in images {
        if inline_size(image).is_some_and(|(width, height)| width.max(height) > side) {
            let message = format!("an image with a side of more than {side} pixels; scale it down");
            found.add("AN-20", image.place, message);
        }
    }
}

/// Width and height of an image that is part of the request.
fn inline_size(image: &AnthropicBlock<'_>) -> Option<(u32, u32)> {
    let data = image.source?.get("data")?.string()?;
    [SHORT_HEAD, IMAGE_HEAD].into_iter().find_map(|length| {
        let head = data.get(..(length / 3 * 4).min(data.len()))?;
        let (_, bytes) = data_url_head(&format!("data:image/any;base64,{head}"), length)?;
        image_size(&bytes)
    })
}
