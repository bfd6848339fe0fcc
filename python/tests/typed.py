"""A program that uses every public name; mypy --strict and pyright must have nothing to say about it. It is never run."""

from __future__ import annotations

from typing import Any

import scrollback
from scrollback import (
    ArgumentError,
    AsyncConversation,
    AsyncStore,
    Changed,
    ClosedError,
    ConflictError,
    Conversation,
    Dropped,
    Entry,
    Erased,
    Explanation,
    Followed,
    ForkError,
    Hit,
    Item,
    ManagerError,
    Memory,
    MessagesError,
    ModelError,
    NotFoundError,
    RemoteError,
    ScrollbackError,
    Simulation,
    Status,
    Store,
    StoreError,
    View,
    ViewError,
    curate,
    simulate,
    wrap,
)

ERRORS: tuple[type[ScrollbackError], ...] = (
    ArgumentError,
    ClosedError,
    ConflictError,
    ForkError,
    ManagerError,
    MessagesError,
    ModelError,
    NotFoundError,
    RemoteError,
    StoreError,
    ViewError,
)


def pure(messages: list[dict[str, Any]]) -> str:
    shown: list[dict[str, Any]] = curate(messages, "auto(32k)", model="gpt-4o")
    _, why = curate(messages, {"sliding_window": {"window_size": 2}}, wire="openai-chat", explain=True)
    explanation: Explanation = why
    dropped: tuple[Dropped, ...] = explanation.dropped
    changed: tuple[Changed, ...] = explanation.changed
    items: tuple[Item, ...] = explanation.items
    names = [one.manager for one in dropped] + [one.reason for one in changed] + [str(one.index) for one in items]
    table: Simulation = simulate(["logs"], ["auto(8k)"], model="openai:gpt-4o")
    return f"{len(shown)} {names} {table.rows} {scrollback.__version__}"


def kept(client: Any) -> list[str]:
    with Store("scrollback.db", tenant="shop") as store:
        chat: Conversation = store.conversation("anna")
        handles: list[str] = chat.append({"role": "user", "content": "hi"}, wire="openai-chat")
        view: View = chat.view("auto(32k)", wire="anthropic", model="claude-sonnet-5")
        request: dict[str, Any] = view.request
        tokens: int = view.tokens
        hits: list[Hit] = chat.search("hi", limit=5) + store.search("hi", recipient="anna")
        entry: Entry = chat.read(handles[0])
        entries: list[Entry] = chat.entries(0, 5) + store.read(handles[0])
        followed: Followed = chat.follow([{"role": "user", "content": "hi"}])
        status: Status = chat.status
        summary: str | None = chat.compact(3) or chat.summary
        chat.pin([0])
        chat.unpin([0])
        chat.set_status("closed")
        erased: Erased = chat.erase(0, 1, reason="asked for")
        wrapped = wrap(client, chat, manager="auto")
        memory = Memory("anna", store)
        memory.append("user", "hi")
        last: list[Any] = memory.last(10) + chat.last(2)
        told = (request, tokens, hits, entry.text, entries, followed, status.due, summary, erased.erased, wrapped, last)
        return [str(told), str(len(chat)), str(chat.id), str(store.list(limit=3)), str(memory.summary)]


async def awaited() -> int:
    async with AsyncStore("http://127.0.0.1:7275", key="sb_key") as store:
        chat: AsyncConversation = await store.conversation("anna")
        await chat.append({"role": "user", "content": "hi"})
        view: View = await chat.view("auto")
        return view.tokens + await chat.length()
