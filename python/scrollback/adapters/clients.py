"""Plain OpenAI and Anthropic clients: recorded and curated by one line, without a proxy.

    client = scrollback.wrap(OpenAI(), conversation=store.conversation("anna"))
    client.chat.completions.create(model="gpt-4o", messages=[...])

The client object stays the one it was. Streams are recorded when they end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar

from .._async import apart
from .._errors import ArgumentError
from .._sending import model_name, sent_to
from .._store import Conversation, Store
from .._streams import AsyncStream, Heard, Stream
from .._text import plain

__all__ = ["wrap"]

C = TypeVar("C")


#: Where clients have their methods, what they speak there, and the field with what was said.
PLACES = (
    (("chat", "completions"), "openai-chat", "messages"),
    (("beta", "chat", "completions"), "openai-chat", "messages"),
    (("responses",), "openai-responses", "input"),
    (("messages",), "anthropic", "messages"),
    (("beta", "messages"), "anthropic", "messages"),
)
#: With these the provider has what was said before, and a request has only what is new.
KEPT_THERE = ("previous_response_id", "conversation")


def wrap(client: C, conversation: Conversation | str = "default", *, manager: object = "auto", store: Store | None = None) -> C:
    """Records what an OpenAI or Anthropic client says and hears, and sends what the manager shows of it. The same client.

    `conversation` is a `Conversation`, or the name of one in `store`, by default in `scrollback.db`. Wrapping again puts the
    new conversation in the place of the old one. `client.with_options(…)` makes another client, which is wrapped by itself.
    """
    chat = (store or Store()).conversation(conversation) if isinstance(conversation, str) else conversation
    found = False
    for path, wire, field in PLACES:
        holder: Any = client
        for name in path:
            holder = getattr(holder, name, None)
        if holder is None or not callable(getattr(holder, "create", None)):
            continue
        found = True
        # As it was: what its methods call of each other is not recorded twice.
        bare = holder.__dict__.setdefault("_scrollback_bare", copy(holder))
        call = Call(chat, manager, wire, field)
        # The SDKs wrap their methods, which hides what they are.
        awaited = inspect.iscoroutinefunction(inspect.unwrap(bare.create))
        for name in ("create", "parse", "stream"):
            method = getattr(bare, name, None)
            if callable(method):
                # The same method with the raw response has a copy of what stood here.
                holder.__dict__.pop("with_raw_response", None)
                setattr(holder, name, call.wrapped(method, name == "stream", awaited))
    if not found:
        name = type(client).__name__
        raise ArgumentError(f"{name} is not a client of OpenAI or Anthropic: it has no create()", "bad_argument")
    return client


class Call:
    """What is done before and after a call."""

    def __init__(self, chat: Conversation, manager: object, wire: str, field: str) -> None:
        self._chat, self._manager, self._wire, self._field = chat, manager, wire, field

    def shown(self, options: dict[str, Any]) -> dict[str, Any]:
        """Records what is new; the options with what the manager shows. Instructions are sent with each call as they are."""
        given = options.get(self._field)
        if not given:
            return options
        listed: list[Any] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        self._chat.follow({self._field: listed}, wire=self._wire)
        if any(options.get(name) for name in KEPT_THERE):
            return {**options, self._field: listed}
        chat, wire = self._chat, self._wire
        view = sent_to(
            lambda manager, model: chat.view(manager, wire=wire, model=model), self._manager, model_name(options.get("model"))
        )
        return {**options, self._field: view.request[self._field]}

    def heard(self, reply: Any) -> None:
        """Records a reply."""
        # A raw response is read by its own method, which remembers what it read.
        said = plain(reply.parse() if hasattr(reply, "http_response") and hasattr(reply, "parse") else reply)
        if isinstance(said, dict):
            self._chat.append(said)

    def stream(self, raw: Any, awaited: bool) -> Any:
        """A stream that is recorded when it ends."""
        return (AsyncStream if awaited else Stream)(raw, Heard(self._chat, self._wire))

    def wrapped(self, method: Callable[..., Any], managed: bool, awaited: bool) -> Callable[..., Any]:
        """A client's method that records and curates."""
        if managed:
            return lambda **options: Managed(self, method, options)

        async def create_async(*args: Any, **options: Any) -> Any:
            reply = await method(*args, **await apart(self.shown, options))
            if options.get("stream"):
                return self.stream(reply, awaited)
            await apart(self.heard, reply)
            return reply

        def create_sync(*args: Any, **options: Any) -> Any:
            reply = method(*args, **self.shown(options))
            if options.get("stream"):
                return self.stream(reply, awaited)
            self.heard(reply)
            return reply

        return create_async if awaited else create_sync


class Managed:
    """`with client.messages.stream(…) as stream:` and its like. The stream is the SDK's own, and reads from one that records."""

    def __init__(self, call: Call, method: Callable[..., Any], options: dict[str, Any]) -> None:
        self._call, self._method, self._options = call, method, options

    def __enter__(self) -> Any:
        self._manager = self._method(**self._call.shown(self._options))
        stream = self._manager.__enter__()
        self._raw = stream._raw_stream = self._call.stream(stream._raw_stream, awaited=False)
        return stream

    def __exit__(self, *error: Any) -> Any:
        self._raw.finish()
        return self._manager.__exit__(*error)

    async def __aenter__(self) -> Any:
        self._manager = self._method(**await apart(self._call.shown, self._options))
        stream = await self._manager.__aenter__()
        self._raw = stream._raw_stream = self._call.stream(stream._raw_stream, awaited=True)
        return stream

    async def __aexit__(self, *error: Any) -> Any:
        await apart(self._raw.finish)
        return await self._manager.__aexit__(*error)
