"""What adapters send: a framework's model may be one that nobody knows, and that must not keep a program from asking it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ._errors import ArgumentError, ScrollbackError

if TYPE_CHECKING:
    from ._store import Conversation, Store

__all__ = ["chat_of", "model_name", "sent_to", "store_of", "too_large"]

T = TypeVar("T")

#: What `auto` is where the window of the model is not known.
ROOM = "auto(32k)"


def sent_to(show: Callable[[object, str | None], T], manager: object, model: str | None) -> T:
    """What a manager shows for a model. Where the model is not known it is shown without; `auto`, which has the model's window for
    its limit, is then `auto(32k)`."""
    attempts: list[tuple[object, str | None]] = [(manager, model)] if model else []
    attempts.append((manager, None))
    if manager == "auto":
        attempts.append((ROOM, None))
    for attempt in attempts[:-1]:
        try:
            return show(*attempt)
        except ScrollbackError as error:
            if error.code != "unknown_model":
                raise
    return show(*attempts[-1])


def model_name(model: Any) -> str | None:
    """The name of a framework's model, as far as it says one."""
    if isinstance(model, str):
        return model or None
    for name in ("model_name", "model_id", "model"):
        found: Any = cast("Any", model).get(name) if isinstance(model, dict) else getattr(model, name, None)
        if isinstance(found, str) and found:
            return found
    return None


#: How providers say that a request does not fit, as in crates/agent/src/provider/error.rs.
TOO_LARGE = (
    "context_length_exceeded",
    "request_too_large",
    "prompt is too long",
    "maximum context length",
    "exceeds the context window",
    "exceed context limit",
    "context window exceeded",
    "too many tokens",
    "input is too long",
    "exceeds the maximum number of tokens",
    "reduce the length of the messages",
)


def too_large(error: Exception) -> bool:
    """Whether a provider refused a request because it does not fit into the model's window."""
    text = str(error).lower()
    return getattr(error, "status_code", None) in (400, 413, 422) and any(sign in text for sign in TOO_LARGE)


def chat_of(conversation: Any) -> Conversation:
    """A conversation, given as it is or as its async twin."""
    from ._store import Conversation

    found = getattr(conversation, "sync", conversation)
    if not isinstance(found, Conversation):
        message = f'a conversation is what store.conversation("anna") gives, not {type(conversation).__name__}'
        raise ArgumentError(message, "bad_argument")
    return found


def store_of(store: Any) -> Store:
    """A store, given as it is or as its async twin."""
    from ._store import Store

    found = getattr(store, "sync", store)
    if not isinstance(found, Store):
        raise ArgumentError(f'a store is what Store("scrollback.db") gives, not {type(store).__name__}', "bad_argument")
    return found
