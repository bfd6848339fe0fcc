"""The one-liner for a bot."""

from __future__ import annotations

import os
from typing import Any

from ._store import Conversation, Store
from ._text import Messages
from ._types import Erased

__all__ = ["Memory"]

#: Turns that a summary leaves as they are.
KEPT = 10


class Memory:
    """What a bot remembers of one person.

    >>> from scrollback import Memory
    >>> memory = Memory("anna", ":memory:")
    >>> memory.append("user", "My name is Anna.")
    >>> memory.last(10)
    [{'role': 'user', 'content': 'My name is Anna.'}]

    It is kept in `SCROLLBACK_STORE`, or in the file `scrollback.db`.
    """

    def __init__(self, recipient: str, store: Store | str | os.PathLike[str] | None = None) -> None:
        if store is None:
            store = os.environ.get("SCROLLBACK_STORE") or "scrollback.db"
        #: The store it is in.
        self.store: Store = store if isinstance(store, Store) else Store(store)
        #: The whole conversation.
        self.conversation: Conversation = self.store.conversation(recipient)

    def append(self, role: Messages, content: str | None = None) -> None:
        """Keeps what was said: `append("user", "hello")`, or anything that `Conversation.append` takes."""
        self.conversation.append(role if content is None else {"role": role, "content": content})

    def last(self, count: int = 10) -> list[Any]:
        """The newest messages, ready to be sent: `Conversation.last`."""
        return self.conversation.last(count)

    @property
    def summary(self) -> str | None:
        """What was said before the last ten turns, in short; none while there is nothing before them."""
        return self.conversation.compact(KEPT) or self.conversation.summary

    def erase(self) -> Erased:
        """Forgets everything, for good."""
        return self.conversation.erase()

    def __repr__(self) -> str:
        return f"<Memory of {self.conversation.recipient!r}>"
