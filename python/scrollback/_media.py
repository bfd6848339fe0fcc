"""Pictures, sounds, files and thoughts of frameworks' messages, as the parts of OpenAI chat that hold them, and back."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Media", "kind_of", "media_of", "part_of", "thoughts_of", "with_thoughts"]

Json = dict[str, Any]

#: The kinds of media that have a part of their own with an address, as several hosts take them.
ADDRESSED = {"audio_url": "audio", "video_url": "video", "document_url": "document"}


@dataclass(frozen=True)
class Media:
    """A picture, a sound, a video or a document: by its address, or as a `data:` URL; or the id of a provider's file."""

    kind: str
    url: str | None
    mime: str | None = None
    name: str | None = None
    file_id: str | None = None

    @property
    def data(self) -> bytes | None:
        """The bytes, where they are in the message."""
        if self.url is None or not self.url.startswith("data:") or ";base64," not in self.url:
            return None
        return base64.b64decode(self.url.split(";base64,", 1)[1])


def kind_of(mime: str | None) -> str:
    """What a media type is."""
    first = (mime or "").split("/", 1)[0]
    return first if first in ("image", "audio", "video") else "document"


def part_of(media: Media) -> Json:
    """The part of a message that holds it."""
    if media.url is None:
        return {"type": "file", "file": {"file_id": media.file_id}}
    if media.kind == "image":
        return {"type": "image_url", "image_url": {"url": media.url}}
    if not media.url.startswith("data:"):
        return {"type": f"{media.kind}_url", f"{media.kind}_url": {"url": media.url}}
    if media.kind == "audio":
        mime, data = media.url.removeprefix("data:").split(";base64,", 1)
        return {"type": "input_audio", "input_audio": {"data": data, "format": (media.mime or mime).split("/")[-1]}}
    named = {} if media.name is None else {"filename": media.name}
    return {"type": "file", "file": {**named, "file_data": media.url}}


def media_of(part: Json) -> Media | None:
    """What a part of a message holds; none if it is no media."""
    kind, held = part.get("type"), part.get(part.get("type") or "")
    if not isinstance(held, dict):
        return None
    if kind == "image_url":
        return Media("image", held.get("url"), mime_of(held.get("url")))
    if kind == "input_audio":
        mime = f"audio/{held.get('format') or 'wav'}"
        return Media("audio", f"data:{mime};base64,{held.get('data') or ''}", mime)
    if kind in ADDRESSED:
        return Media(ADDRESSED[kind], held.get("url"), mime_of(held.get("url")))
    if kind == "file":
        url = held.get("file_data")
        return Media(kind_of(mime_of(url)), url, mime_of(url), held.get("filename"), held.get("file_id"))
    return None


def mime_of(url: str | None) -> str | None:
    """The media type that a `data:` URL says."""
    return url.removeprefix("data:").split(";", 1)[0] or None if url and url.startswith("data:") else None


def with_thoughts(message: Json, thoughts: Iterable[tuple[str, str | None]]) -> Json:
    """A message of an assistant with what it thought, and the signatures by which its provider knows the thoughts again."""
    listed = [(text, signature) for text, signature in thoughts if text or signature]
    if not listed:
        return message
    said = {**message, "reasoning_content": "\n\n".join(text for text, _ in listed if text)}
    if any(signature for _, signature in listed):
        said["reasoning_details"] = [
            {"type": "reasoning.text", "text": text, "signature": signature} for text, signature in listed
        ]
    return said


def thoughts_of(message: Json) -> list[tuple[str, str | None]]:
    """What an assistant thought: each text with its signature."""
    details = message.get("reasoning_details")
    if isinstance(details, list) and details:
        return [(one.get("text") or "", one.get("signature")) for one in details if isinstance(one, dict)]
    text = message.get("reasoning_content")
    return [(text, None)] if isinstance(text, str) and text else []
