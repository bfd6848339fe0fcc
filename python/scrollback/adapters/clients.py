"""Plain OpenAI and Anthropic clients: recorded and curated by one line, without a proxy.

    client = scrollback.wrap(OpenAI(), conversation=store.conversation("anna"))
    client.chat.completions.create(model="gpt-4o", messages=[...])

The client object stays the one it was. Streams are recorded when they end.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from .._async import apart
from .._errors import ArgumentError
from .._store import Conversation, Store
from .._text import plain

__all__ = ["wrap"]

C = TypeVar("C")


def wrap(client: C, conversation: Conversation | str = "default", *, manager: object = "auto", store: Store | None = None) -> C:
    """Records what an OpenAI or Anthropic client says and hears, and sends what the manager shows of it. The same client.

    `conversation` is a `Conversation`, or the name of one in `store`, by default in `scrollback.db`.
    """
    chat = conversation
    if isinstance(chat, str):
        chat = (store or Store()).conversation(chat)
    found = False
    for path, wire, field in (
        (("chat", "completions"), "openai-chat", "messages"),
        (("responses",), "openai-responses", "input"),
        (("messages",), "anthropic", "messages"),
    ):
        holder: Any = client
        for name in path:
            holder = getattr(holder, name, None)
        if holder is not None and callable(getattr(holder, "create", None)):
            found = True
            holder.create = wrapped(holder.create, chat, manager, wire, field)
    if not found:
        name = type(client).__name__
        raise ArgumentError(f"{name} is not a client of OpenAI or Anthropic: it has no create()", "bad_argument")
    return client


def wrapped(create: Callable[..., Any], chat: Conversation, manager: object, wire: str, field: str) -> Callable[..., Any]:
    """`create` that records and curates."""

    def shown(options: dict[str, Any]) -> dict[str, Any]:
        given = options.get(field)
        if given is None:
            return options
        listed: list[Any] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        system = options.get("system")
        body = {field: listed} if system is None else {"system": system, field: listed}
        # Instructions are sent with each call; only what is said goes into the record.
        chat.follow({field: listed}, wire=wire)
        model = options.get("model")
        view = chat.view(manager, wire=wire, model=model if isinstance(model, str) else None)
        request = view.request
        return {**options, **{key: value for key, value in body.items() if key != field}, field: request[field]}

    def heard(reply: Any) -> None:
        said = plain(reply)
        if isinstance(said, dict):
            chat.append(said, wire=None)

    # The SDKs wrap their methods, which hides what they are.
    if inspect.iscoroutinefunction(inspect.unwrap(create)):

        async def create_async(*args: Any, **options: Any) -> Any:
            reply = await create(*args, **await apart(shown, options))
            if options.get("stream"):
                return AsyncStream(reply, chat, wire)
            await apart(heard, reply)
            return reply

        return create_async

    def create_sync(*args: Any, **options: Any) -> Any:
        reply = create(*args, **shown(options))
        if options.get("stream"):
            return Stream(reply, chat, wire)
        heard(reply)
        return reply

    return create_sync


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
        import json

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
            for block in said["content"]:
                if "_json" in block:
                    block["input"] = json.loads(block.pop("_json"))
        if said:
            self._chat.append(said)


class Stream:
    """A client's stream, which is recorded when it ends. Everything else is the stream's own."""

    def __init__(self, stream: Any, chat: Conversation, wire: str) -> None:
        self._stream = stream
        self._heard = Heard(chat, wire)

    def __iter__(self) -> Iterator[Any]:
        try:
            for event in self._stream:
                self._heard.take(event)
                yield event
        finally:
            self._heard.finish()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class AsyncStream(Stream):
    """The same for streams that are awaited."""

    async def __aiter__(self) -> AsyncIterator[Any]:
        try:
            async for event in self._stream:
                self._heard.take(event)
                yield event
        finally:
            await apart(self._heard.finish)

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.close()
