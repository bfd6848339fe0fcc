"""The same store and conversations for programs that await."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ._backend import url_of
from ._errors import ClosedError
from ._store import Conversation, Store, check_place
from ._text import Messages
from ._types import Certificate, Entry, Erased, Followed, Hit, Status
from ._view import View

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from datetime import datetime

    from .adapters.langchain import ScrollbackMiddleware
    from .adapters.openai_agents import ScrollbackSession
    from .adapters.pydantic_ai import ScrollbackCapability

__all__ = ["AsyncConversation", "AsyncStore"]

#: Threads that wait for stores. Waiting costs nothing, and appends that wait together are written together.
THREADS = 32

P = ParamSpec("P")
T = TypeVar("T")
_pools: dict[int, ThreadPoolExecutor] = {}


async def apart(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """A call on a thread of the pool. Cancelling the task does not undo the call: an append is written whole or not at all."""
    # Loaded here, so that programs that await nothing do not wait for it.
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    pool = _pools.get(os.getpid())
    if pool is None:
        _pools.clear()
        pool = _pools.setdefault(os.getpid(), ThreadPoolExecutor(THREADS, "scrollback"))
    return await asyncio.get_running_loop().run_in_executor(pool, partial(call, *args, **options))


class AsyncConversation:
    """`Conversation` with methods to await. Tasks and event loops may share it."""

    def __init__(self, chat: Conversation) -> None:
        #: The same conversation for code that does not await.
        self.sync: Conversation = chat

    @property
    def recipient(self) -> str:
        """Whom it is with."""
        return self.sync.recipient

    async def append(self, messages: Messages, *, wire: str | None = None) -> list[str]:
        """`Conversation.append`."""
        return await apart(self.sync.append, messages, wire=wire)

    async def follow(self, messages: Messages, *, wire: str | None = None) -> Followed:
        """`Conversation.follow`."""
        return await apart(self.sync.follow, messages, wire=wire)

    async def view(
        self,
        manager: object = "auto(32k)",
        *,
        wire: str | None = None,
        model: str | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> View:
        """`Conversation.view`."""
        return await apart(self.sync.view, manager, wire=wire, model=model, request=request)

    async def curated(
        self,
        messages: Sequence[T],
        manager: object = "auto(32k)",
        *,
        to_json: Callable[[T], Sequence[dict[str, Any]]],
        from_json: Callable[[dict[str, Any]], T | None],
        wire: str = "openai-chat",
        model: str | None = None,
    ) -> list[T]:
        """`Conversation.curated`. The two functions are called on another thread."""
        return await apart(
            self.sync.curated, messages, manager, to_json=to_json, from_json=from_json, wire=wire, model=model
        )

    async def search(
        self,
        words: str,
        *,
        limit: int = 20,
        role: str | None = None,
        tool: str | None = None,
        since: datetime | str | None = None,
        before: datetime | str | None = None,
        scope: str = "conversation",
    ) -> list[Hit]:
        """`Conversation.search`."""
        search = self.sync.search
        return await apart(search, words, limit=limit, role=role, tool=tool, since=since, before=before, scope=scope)

    async def recall(self, tool: str, **arguments: Any) -> str:
        """`Conversation.recall`."""
        return await apart(lambda: self.sync.recall(tool, **arguments))

    async def around(self, handle: str, before: int = 5, after: int = 5) -> list[Entry]:
        """`Conversation.around`."""
        return await apart(self.sync.around, handle, before, after)

    async def read(self, handle: str) -> Entry:
        """`Conversation.read`."""
        return await apart(self.sync.read, handle)

    async def entries(self, first: int = 0, last: int | None = None) -> list[Entry]:
        """`Conversation.entries`."""
        return await apart(self.sync.entries, first, last)

    async def last(self, count: int = 10) -> list[Any]:
        """`Conversation.last`."""
        return await apart(self.sync.last, count)

    async def pin(self, positions: Sequence[int]) -> None:
        """`Conversation.pin`."""
        await apart(self.sync.pin, positions)

    async def unpin(self, positions: Sequence[int]) -> None:
        """`Conversation.unpin`."""
        await apart(self.sync.unpin, positions)

    async def compact(self, keep: int = 3) -> str | None:
        """`Conversation.compact`."""
        return await apart(self.sync.compact, keep)

    async def summary(self) -> str | None:
        """`Conversation.summary`."""
        return await apart(lambda: self.sync.summary)

    async def status(self) -> Status:
        """`Conversation.status`."""
        return await apart(lambda: self.sync.status)

    async def set_status(self, status: str) -> None:
        """`Conversation.set_status`."""
        await apart(self.sync.set_status, status)

    async def erase(self, first: int | None = None, last: int | None = None, *, reason: str = "asked for") -> Erased:
        """`Conversation.erase`."""
        return await apart(self.sync.erase, first, last, reason=reason)

    async def id(self) -> str | None:
        """`Conversation.id`."""
        return await apart(lambda: self.sync.id)

    async def length(self) -> int:
        """How many messages it has."""
        return await apart(self.sync.__len__)

    def __repr__(self) -> str:
        return f"<AsyncConversation with {self.recipient!r}>"


class AsyncStore:
    """`Store` with methods to await; `async with` closes it.

    >>> import asyncio
    >>> from scrollback import AsyncStore
    >>> async def main():
    ...     async with AsyncStore(":memory:") as store:
    ...         chat = await store.conversation("anna")
    ...         await chat.append({"role": "user", "content": "hello"})
    ...         return await chat.length()
    >>> asyncio.run(main())
    1
    """

    def __init__(
        self, where: str | os.PathLike[str] = "scrollback.db", *, key: str | None = None, tenant: str | None = None
    ) -> None:
        check_place(where, key, tenant)
        self._make = partial(Store, where, key=key, tenant=tenant)
        self._where = url_of(where)
        self._lock = Lock()
        self._store: Store | None = None
        self._closed = False

    @property
    def sync(self) -> Store:
        """The same store for code that does not await. It is opened by the first call, on another thread if that is awaited;
        `async with` opens it, too."""
        with self._lock:
            store = self._store
            if store is None:
                if self._closed:
                    raise ClosedError("this store was closed: open it again", "closed")
                store = self._store = self._make()
            return store

    async def _opened(self) -> Store:
        if self._store is not None:
            return self._store
        return await apart(lambda: self.sync)

    async def conversation(self, recipient: str) -> AsyncConversation:
        """`Store.conversation`."""
        return AsyncConversation(await apart((await self._opened()).conversation, recipient))

    async def search(
        self,
        words: str,
        *,
        recipient: str | None = None,
        limit: int = 20,
        role: str | None = None,
        tool: str | None = None,
        since: datetime | str | None = None,
        before: datetime | str | None = None,
    ) -> list[Hit]:
        """`Store.search`."""
        search = (await self._opened()).search
        return await apart(search, words, recipient=recipient, limit=limit, role=role, tool=tool, since=since, before=before)

    async def erase(self, recipient: str, *, reason: str = "asked for") -> Certificate:
        """`Store.erase`."""
        return await apart((await self._opened()).erase, recipient, reason=reason)

    async def around(self, handle: str, before: int = 5, after: int = 5) -> list[Entry]:
        """`Store.around`."""
        return await apart((await self._opened()).around, handle, before, after)

    async def read(self, handle: str) -> list[Entry]:
        """`Store.read`."""
        return await apart((await self._opened()).read, handle)

    async def list(self, *, limit: int = 50) -> list[dict[str, Any]]:
        """`Store.list`."""
        return await apart((await self._opened()).list, limit=limit)

    async def close(self) -> None:
        """`Store.close`."""
        self._closed = True
        if self._store is not None:
            await apart(self._store.close)

    async def __aenter__(self) -> AsyncStore:
        await self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def session(self, recipient: str) -> ScrollbackSession:
        """`Store.session`."""
        return self.sync.session(recipient)

    def run_config(self, manager: object = "auto", **options: Any) -> Any:
        """`Store.run_config`."""
        return self.sync.run_config(manager, **options)

    def middleware(self, manager: object = "auto", *, recipient: str | None = None) -> ScrollbackMiddleware:
        """`Store.middleware`."""
        return self.sync.middleware(manager, recipient=recipient)

    def capability(self, manager: object = "auto", *, recipient: str | None = None) -> ScrollbackCapability:
        """`Store.capability`."""
        return self.sync.capability(manager, recipient=recipient)

    def __repr__(self) -> str:
        return f"<AsyncStore {self._where}>" if self._store is None else f"<Async{repr(self._store)[1:]}"

    def __reduce__(self) -> Any:
        raise TypeError("a store cannot be pickled or copied: give the worker its URL and open it there")
