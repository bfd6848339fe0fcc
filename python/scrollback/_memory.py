"""The one-liner for a bot."""

from __future__ import annotations

import os
from typing import Any

from ._async import AsyncConversation, AsyncStore
from ._store import Conversation, Store
from ._text import Messages
from ._types import Erased

__all__ = ["AsyncMemory", "Memory"]

#: Turns that a summary leaves as they are.
KEPT = 10


def named(store: str | os.PathLike[str] | None) -> str | os.PathLike[str]:
    """The store that is named, or else that of the environment, or else a file here."""
    return store if store is not None else os.environ.get("SCROLLBACK_STORE") or "scrollback.db"


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
        #: The store it is in.
        self.store: Store = store if isinstance(store, Store) else Store(named(store))
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


class AsyncMemory:
    """`Memory` with methods to await.

    >>> import asyncio
    >>> from scrollback import AsyncMemory
    >>> async def main():
    ...     memory = AsyncMemory("anna", ":memory:")
    ...     await memory.append("user", "My name is Anna.")
    ...     return await memory.last(10)
    >>> asyncio.run(main())
    [{'role': 'user', 'content': 'My name is Anna.'}]
    """

    def __init__(self, recipient: str, store: AsyncStore | str | os.PathLike[str] | None = None) -> None:
        #: Whom it is about.
        self.recipient: str = recipient
        #: The store it is in.
        self.store: AsyncStore = store if isinstance(store, AsyncStore) else AsyncStore(named(store))

    async def conversation(self) -> AsyncConversation:
        """The whole conversation."""
        return await self.store.conversation(self.recipient)

    async def append(self, role: Messages, content: str | None = None) -> None:
        """`Memory.append`."""
        await (await self.conversation()).append(role if content is None else {"role": role, "content": content})

    async def last(self, count: int = 10) -> list[Any]:
        """`Memory.last`."""
        return await (await self.conversation()).last(count)

    async def summary(self) -> str | None:
        """`Memory.summary`."""
        chat = await self.conversation()
        return await chat.compact(KEPT) or await chat.summary()

    async def erase(self) -> Erased:
        """`Memory.erase`."""
        return await (await self.conversation()).erase()

    def __repr__(self) -> str:
        return f"<AsyncMemory of {self.recipient!r}>"
