"""Streams of the clients of OpenAI and Anthropic: passed on event by event, and recorded when they end."""

from __future__ import annotations

import json
from typing import Any

from ._async import apart
from ._store import Conversation
from ._text import plain

__all__ = ["AsyncStream", "Heard", "Stream"]


class Heard:
    """The events of a stream, put together as the message that the next request carries."""

    def __init__(self, chat: Conversation, wire: str) -> None:
        self._chat = chat
        self._wire = wire
        self._texts: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._whole: Any = None

    def take(self, event: Any) -> None:
        """One event."""
        kind = getattr(event, "type", None)
        if self._wire == "openai-responses":
            if kind in ("response.completed", "response.incomplete"):
                self._whole = plain(event.response)
        elif self._wire == "openai-chat":
            for choice in (event.choices or [])[:1]:
                self._texts.append(choice.delta.content or "")
                for call in choice.delta.tool_calls or []:
                    known = self._calls.setdefault(call.index, {"id": "", "name": "", "arguments": ""})
                    known["id"] += call.id or ""
                    known["name"] += (call.function.name if call.function else None) or ""
                    known["arguments"] += (call.function.arguments if call.function else None) or ""
        else:
            self._take_anthropic(kind, event)

    def _take_anthropic(self, kind: Any, event: Any) -> None:
        if kind == "content_block_start":
            self._whole = self._whole or {"role": "assistant", "content": []}
            self._whole["content"].append(plain(event.content_block))
        elif kind == "content_block_delta" and self._whole:
            block, delta = self._whole["content"][-1], event.delta
            for name in ("text", "thinking", "signature"):
                if getattr(delta, name, None):
                    block[name] = (block.get(name) or "") + getattr(delta, name)
            if getattr(delta, "partial_json", None):
                block["_json"] = block.get("_json", "") + delta.partial_json

    def finish(self) -> None:
        """Records what came, once."""
        said, self._whole = self._whole, None
        if self._wire == "openai-chat" and (self._calls or any(self._texts)):
            said = {"role": "assistant", "content": "".join(self._texts) or None}
            calls = [self._calls[number] for number in sorted(self._calls)]
            if calls:
                said["tool_calls"] = [
                    {"id": one["id"], "type": "function", "function": {"name": one["name"], "arguments": one["arguments"]}}
                    for one in calls
                ]
            self._texts, self._calls = [], {}
        elif said and self._wire == "anthropic":
            said["content"] = [block for block in said["content"] if whole(block)]
        if said and said.get("content", True) != []:
            self._chat.append(said)


def whole(block: dict[str, Any]) -> bool:
    """Whether a block came to its end: a program cannot use half of a call, and no provider takes it back."""
    try:
        if "_json" in block:
            block["input"] = json.loads(block.pop("_json"))
    except ValueError:
        return False
    return True


class Stream:
    """A client's stream, which is recorded when it ends. Everything else is the stream's own."""

    def __init__(self, stream: Any, heard: Heard) -> None:
        self._stream, self._heard = stream, heard
        self.finish = heard.finish
        self._events = self._each()

    def _each(self) -> Any:
        try:
            for event in self._stream:
                self._heard.take(event)
                yield event
        finally:
            self.finish()

    def __iter__(self) -> Any:
        return self._events

    def __next__(self) -> Any:
        return next(self._events)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it; what came until now is recorded."""
        self.finish()
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class AsyncStream(Stream):
    """The same for streams that are awaited."""

    async def _each(self) -> Any:
        try:
            async for event in self._stream:
                self._heard.take(event)
                yield event
        finally:
            await apart(self.finish)

    def __aiter__(self) -> Any:
        return self._events

    async def __anext__(self) -> Any:
        return await anext(self._events)

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:  # type: ignore[override]
        """Ends it; what came until now is recorded."""
        await apart(self.finish)
        await self._stream.close()
