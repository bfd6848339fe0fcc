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

from .._async import AsyncConversation, AsyncStore, apart
from .._errors import ArgumentError, ScrollbackError
from .._sending import chat_of, model_name, sent_to, store_of, too_large
from .._store import Conversation, Store
from .._streams import AsyncStream, Heard, Managed, Stream, is_raw, is_read, watch
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
#: What a request has beside what was said, and a budget has to leave room for.
COUNTED = ("tools", "functions", "system", "instructions", "max_tokens", "max_completion_tokens", "max_output_tokens")


def wrap(
    client: C,
    conversation: Conversation | AsyncConversation | str = "default",
    *,
    manager: object = "auto",
    store: Store | AsyncStore | None = None,
) -> C:
    """Records what an OpenAI or Anthropic client says and hears, and sends what the manager shows of it. The same client.

    `conversation` is a `Conversation`, or the name of one in `store`, by default in `scrollback.db`. Wrapping again puts the
    new conversation in the place of the old one. `client.with_options(…)` makes another client, which is wrapped by itself.

        client = wrap(OpenAI(), "anna", manager="auto(32k)")
        client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "hello"}])
    """
    if isinstance(conversation, str):
        chat = (Store() if store is None else store_of(store)).conversation(conversation)
    else:
        chat = chat_of(conversation)
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
                # The same methods with raw responses have a copy of what stood here.
                for raw in ("with_raw_response", "with_streaming_response"):
                    holder.__dict__.pop(raw, None)
                setattr(holder, name, call.wrapped(method, name == "stream", awaited))
    if not found:
        name = type(client).__name__
        raise ArgumentError(f"{name} is not a client of OpenAI or Anthropic: it has no create()", "bad_argument")
    return client


class Call:
    """What is done before and after a call."""

    def __init__(self, chat: Conversation, manager: object, wire: str, field: str) -> None:
        self._chat, self._manager, self._wire, self._field = chat, manager, wire, field

    def shown(self, options: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """Records what is new; the options with what the manager shows, and its tokens. Instructions are sent with each call as
        they are."""
        given = options.get(self._field)
        if not given:
            return options, 0
        listed: list[Any] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        self._chat.follow({self._field: listed}, wire=self._wire)
        if any(options.get(name) for name in KEPT_THERE):
            return {**options, self._field: listed}, 0
        return self._sending(options, self._manager)

    def _sending(self, options: dict[str, Any], manager: object) -> tuple[dict[str, Any], int]:
        request = {name: options[name] for name in COUNTED if isinstance(options.get(name), (str, int, list, tuple))}
        view = sent_to(
            lambda manager, model: self._chat.view(manager, wire=self._wire, model=model, request=request),
            manager,
            model_name(options.get("model")),
        )
        return {**options, self._field: view.request[self._field]}, view.tokens

    def smaller(self, sent: dict[str, Any], tokens: int, error: Exception) -> dict[str, Any] | None:
        """The options of a second attempt where the provider says that the first was too large; none for other errors."""
        if not tokens or not too_large(error):
            return None
        try:
            return self._sending(sent, f"auto({max(tokens // 2, 1)})")[0]
        except ScrollbackError:
            # Nothing smaller can be sent: the provider's own error says it best.
            return None

    def heard(self, reply: Any) -> None:
        """Records a reply. One that cannot be recorded is in the error's `reply`: the provider has been paid for it."""
        said = plain(reply)
        if isinstance(said, dict):
            try:
                self._chat.append(said)
            except ScrollbackError as error:
                error.reply = reply
                raise

    def stream(self, raw: Any, awaited: bool) -> Any:
        """A stream that is recorded when it ends."""
        return (AsyncStream if awaited else Stream)(raw, Heard(self.heard, self._wire))

    def _watched(self, reply: Any, options: dict[str, Any], awaited: bool) -> Any:
        heard = Heard(self.heard, self._wire)
        return watch(reply, heard, self.heard, streaming=bool(options.get("stream")), awaited=awaited)

    def wrapped(self, method: Callable[..., Any], managed: bool, awaited: bool) -> Callable[..., Any]:
        """A client's method that records and curates."""
        if managed:
            return lambda **options: Managed(self, method, options)

        async def create_async(*args: Any, **options: Any) -> Any:
            sent, tokens = await apart(self.shown, options)
            try:
                reply = await method(*args, **sent)
            except Exception as error:
                smaller = await apart(self.smaller, sent, tokens, error)
                if smaller is None:
                    raise
                reply = await method(*args, **smaller)
            if is_raw(reply):
                reply = self._watched(reply, options, awaited)
                if is_read(options):
                    await (reply.parse() if inspect.iscoroutinefunction(reply.parse) else apart(reply.parse))
                return reply
            if options.get("stream"):
                return self.stream(reply, awaited)
            await apart(self.heard, reply)
            return reply

        def create_sync(*args: Any, **options: Any) -> Any:
            sent, tokens = self.shown(options)
            try:
                reply = method(*args, **sent)
            except Exception as error:
                smaller = self.smaller(sent, tokens, error)
                if smaller is None:
                    raise
                reply = method(*args, **smaller)
            if is_raw(reply):
                reply = self._watched(reply, options, awaited)
                if is_read(options):
                    reply.parse()
                return reply
            if options.get("stream"):
                return self.stream(reply, awaited)
            self.heard(reply)
            return reply

        return create_async if awaited else create_sync
