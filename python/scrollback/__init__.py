"""Conversations of language models, kept whole and sent in part.

    from scrollback import Store, curate

    messages = curate(messages, "auto(32k)", model="gpt-4o")     # pure: nothing is stored

    store = Store("scrollback.db")                               # or "postgres://…", or "http://127.0.0.1:7275"
    chat = store.conversation("anna")
    chat.append({"role": "user", "content": "Where is my order?"})
    view = chat.view("auto(32k)", wire="anthropic", model="claude-sonnet-5")
    reply = client.messages.create(**view.request, max_tokens=1024)
    chat.append(reply)

`Store` and `Conversation` keep what was said and make views of it; `AsyncStore` and `AsyncConversation` are the same to await.
`Memory` and `AsyncMemory` are the one-liner for a bot, `wrap` records and curates the calls of an OpenAI or Anthropic client, `simulate` compares
managers on recorded conversations, and `scrollback.adapters` has one file for each framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._async import AsyncConversation, AsyncStore
from ._core import __version__
from ._curate import Simulation, curate, recall_tools, simulate
from ._errors import (
    AccessError,
    ArgumentError,
    ClosedError,
    ConflictError,
    ForkError,
    ManagerError,
    MessagesError,
    ModelError,
    NotFoundError,
    RemoteError,
    ScrollbackError,
    StoreError,
    ViewError,
)
from ._memory import AsyncMemory, Memory
from ._store import Conversation, Store
from ._types import Certificate, Changed, Dropped, Entry, Erased, Explanation, Followed, Hit, Item, Status
from ._view import View

if TYPE_CHECKING:
    from .adapters.clients import wrap as wrap

__all__ = [
    "AccessError",
    "ArgumentError",
    "AsyncConversation",
    "AsyncMemory",
    "AsyncStore",
    "Certificate",
    "Changed",
    "ClosedError",
    "ConflictError",
    "Conversation",
    "Dropped",
    "Entry",
    "Erased",
    "Explanation",
    "Followed",
    "ForkError",
    "Hit",
    "Item",
    "ManagerError",
    "Memory",
    "MessagesError",
    "ModelError",
    "NotFoundError",
    "RemoteError",
    "ScrollbackError",
    "Simulation",
    "Status",
    "Store",
    "StoreError",
    "View",
    "ViewError",
    "__version__",
    "curate",
    "recall_tools",
    "simulate",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """What few programs need is loaded when it is asked for."""
    if name == "wrap":
        from .adapters.clients import wrap

        return wrap
    raise AttributeError(f"module 'scrollback' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "wrap"]
