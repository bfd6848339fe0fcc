"""Streams and raw responses of the clients of OpenAI and Anthropic: passed on as they come, and recorded when they end."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

from . import _core
from ._async import apart
from ._text import plain

__all__ = ["AsyncStream", "Heard", "Managed", "Stream", "is_raw", "is_read", "watch"]

#: By this header the SDKs say which form of a raw response is meant.
RAW = "x-stainless-raw-response"
#: Records what a provider answered.
Keep = Callable[[Any], None]


class Heard:
    """The events of a stream, put together as the reply they amount to."""

    def __init__(self, keep: Keep, wire: str) -> None:
        self._keep = keep
        self._wire = wire
        self._events: list[str] = []
        self._about: dict[str, Any] = {}

    def take(self, event: Any) -> None:
        """One event."""
        said = plain(event)
        if isinstance(said, dict):
            self._look(said)
            self._events.append(f"data: {json.dumps(said, ensure_ascii=False)}\n\n")

    def take_text(self, text: str) -> None:
        """Events as the provider sent them."""
        for line in text.splitlines():
            data = line.removeprefix("data:").strip()
            if line.startswith("data:") and data.startswith("{"):
                self._look(json.loads(data))
        self._events.append(text)

    def _look(self, event: dict[str, Any]) -> None:
        """What an event says of the reply beside its message: the model, the usage, why it ended."""
        about = self._about
        if self._wire == "openai-responses":
            if event.get("type") in ("response.completed", "response.incomplete"):
                about["response"] = event.get("response")
        elif self._wire == "openai-chat":
            about.update({name: event[name] for name in ("id", "model", "usage") if event.get(name)})
            for choice in (event.get("choices") or [])[:1]:
                about["finish_reason"] = choice.get("finish_reason") or about.get("finish_reason")
        elif event.get("type") == "message_start":
            about.update(event.get("message") or {})
        elif event.get("type") == "message_delta":
            about.update(event.get("delta") or {})
            about["usage"] = {**(about.get("usage") or {}), **(event.get("usage") or {})}

    def finish(self) -> None:
        """Records what came, once."""
        events, self._events = "".join(self._events), []
        if not events:
            return
        found = _core.heard(self._wire, events)
        reply = None if found is None else self._reply(json.loads(found[0]), ended=found[1])
        if reply is not None:
            self._keep(reply)

    def _reply(self, message: Any, ended: bool) -> Any:
        about = self._about
        if self._wire == "openai-responses":
            if about.get("response"):
                return about["response"]
            items = [item for item in message if item.get("type") != "function_call" or is_json(item.get("arguments"))]
            return items or None
        if self._wire == "openai-chat":
            if not ended:
                calls = [call for call in message.pop("tool_calls", ()) if is_json(arguments_of(call))]
                message |= {"tool_calls": calls} if calls else {}
            if not any(value for name, value in message.items() if name != "role"):
                return None
            choice = {"index": 0, "message": message, "finish_reason": about.pop("finish_reason", None)}
            return {"object": "chat.completion", **about, "choices": [choice]}
        content = message["content"] if ended else [block for block in message["content"] if is_whole(block)]
        said = {"type": "message", "role": "assistant", "stop_reason": None, **about, "content": content}
        return said if content else None


def arguments_of(call: dict[str, Any]) -> Any:
    """What a tool is called with, as the text that the model wrote."""
    return call["function"].get("arguments") if isinstance(call.get("function"), dict) else "{}"


def is_json(text: Any) -> bool:
    """Whether a call came to its end: a program cannot use half of one, and no provider takes it back."""
    try:
        json.loads(text or "{}")
    except ValueError:
        return False
    return True


def is_whole(block: dict[str, Any]) -> bool:
    """Whether a block of a stream that was left early can be used."""
    given: Any = block.get("input")
    return not (isinstance(given, dict) and "__raw" in given)


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


def watch(response: Any, heard: Heard, keep: Keep, *, streaming: bool, awaited: bool) -> Any:
    """A raw response whose body the program reads itself: what it reads is recorded when it has read it. The same object."""
    body = Body(response.http_response, heard, keep, streaming=streaming)
    make = AsyncStream if awaited else Stream
    parse: Any = response.parse
    close: Any = getattr(response, "close", None)

    def parsed(said: Any) -> Any:
        if streaming:
            body.stream = body.stream or make(said, heard)
            return body.stream
        return said

    async def parse_async(*args: Any, **options: Any) -> Any:
        said = await parse(*args, **options)
        await apart(body.read)
        return parsed(said)

    def parse_sync(*args: Any, **options: Any) -> Any:
        said = parse(*args, **options)
        body.read()
        return parsed(said)

    async def close_async() -> None:
        await apart(body.finish)
        await close()

    def close_sync() -> None:
        body.finish()
        close()

    response.parse = parse_async if inspect.iscoroutinefunction(parse) else parse_sync
    if callable(close):
        response.close = close_async if inspect.iscoroutinefunction(close) else close_sync
    for name, end in (("iter_bytes", b""), ("iter_text", b""), ("iter_lines", b"\n")):
        method = getattr(response, name, None)
        if callable(method):
            setattr(response, name, body.noting(method, end))
    return response


class Body:
    """The body of a raw response, read by a program in whichever way it likes, and recorded once."""

    def __init__(self, response: Any, heard: Heard, keep: Keep, *, streaming: bool) -> None:
        self._response, self._heard, self._keep, self._streaming = response, heard, keep, streaming
        self._pieces: list[bytes] = []
        self._kept = False
        self.stream: Any = None

    def read(self) -> None:
        """Records a body that was read as a whole."""
        if not self._streaming:
            self._record(self._response.content)

    def _record(self, body: bytes) -> None:
        try:
            said = json.loads(body)
        except ValueError:
            return
        if isinstance(said, dict) and not self._kept:
            self._kept = True
            self._keep(said)

    def finish(self) -> None:
        """Nothing more is read: records what was."""
        pieces, self._pieces = b"".join(self._pieces), []
        if not self._streaming:
            # A body that was read as a whole is held by the response itself.
            self._record(pieces or getattr(self._response, "_content", b""))
        elif self.stream is not None:
            self.stream.finish()
        elif pieces:
            self._heard.take_text(pieces.decode("utf-8", "replace"))
            self._heard.finish()

    def noting(self, method: Callable[..., Any], end: bytes) -> Callable[..., Any]:
        """A method that gives the body in pieces, and notes them."""

        def note(piece: Any) -> Any:
            self._pieces.append((piece if isinstance(piece, bytes) else str(piece).encode()) + end)
            return piece

        async def pieces_async(*args: Any, **options: Any) -> Any:
            async for piece in method(*args, **options):
                yield note(piece)

        def pieces_sync(*args: Any, **options: Any) -> Any:
            for piece in method(*args, **options):
                yield note(piece)

        return pieces_async if inspect.isasyncgenfunction(method) else pieces_sync


class Managed:
    """`with client.messages.stream(…) as stream:` and its like. The stream is the SDK's own, and reads from one that records."""

    def __init__(self, call: Any, method: Callable[..., Any], options: dict[str, Any]) -> None:
        self._call, self._method, self._options = call, method, options

    def __enter__(self) -> Any:
        self._manager = self._method(**self._call.shown(self._options)[0])
        stream = self._manager.__enter__()
        self._raw = stream._raw_stream = self._call.stream(stream._raw_stream, awaited=False)
        return stream

    def __exit__(self, *error: Any) -> Any:
        self._raw.finish()
        return self._manager.__exit__(*error)

    async def __aenter__(self) -> Any:
        self._manager = self._method(**(await apart(self._call.shown, self._options))[0])
        stream = await self._manager.__aenter__()
        self._raw = stream._raw_stream = self._call.stream(stream._raw_stream, awaited=True)
        return stream

    async def __aexit__(self, *error: Any) -> Any:
        await apart(self._raw.finish)
        return await self._manager.__aexit__(*error)


def is_raw(reply: Any) -> bool:
    """Whether it is the response itself, which `with_raw_response` and `with_streaming_response` give."""
    return hasattr(reply, "http_response") and hasattr(reply, "parse")


def is_read(options: dict[str, Any]) -> bool:
    """Whether the body of a raw response is there already, so that it is recorded at once."""
    headers: Any = options.get("extra_headers") or {}
    lazy = any(str(name).lower() == RAW and value == "stream" for name, value in headers.items())
    return not lazy and not options.get("stream")
