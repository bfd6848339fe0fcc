"""A program that uses every public name; mypy --strict and pyright must have nothing to say about it. It is never run."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import scrollback
from scrollback import (
    AccessError,
    ArgumentError,
    AsyncConversation,
    AsyncMemory,
    AsyncStore,
    Certificate,
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
    recall_tools,
    simulate,
    wrap,
)
from scrollback.adapters.adk import ScrollbackPlugin
from scrollback.adapters.agent_framework import ScrollbackCompaction, ScrollbackHistoryProvider
from scrollback.adapters.langchain import ScrollbackChatMessageHistory, ScrollbackMiddleware
from scrollback.adapters.llama_index import ScrollbackMemory
from scrollback.adapters.openai_agents import ScrollbackSession, run_config
from scrollback.adapters.pydantic_ai import ScrollbackCapability
from scrollback.adapters.strands import ScrollbackConversationManager, ScrollbackSessionManager

ERRORS: tuple[type[ScrollbackError], ...] = (
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
    table: Simulation = simulate(["logs"], ["auto(B)"], model="openai:gpt-4o", budgets=[8_000], lost=True)
    simulate("logs")
    advice: str | None = table.advice
    frame: Any = table.to_pandas()
    tools: list[dict[str, Any]] = recall_tools("anthropic")
    told = f"{table.rows} {table.transcripts} {table.failed} {advice} {frame} {table.plot()}"
    return f"{len(shown)} {names} {told} {tools} {scrollback.__version__}"


def kept(client: Any) -> list[str]:
    with Store("scrollback.db", tenant="shop") as store:
        chat: Conversation = store.conversation("anna")
        handles: list[str] = chat.append({"role": "user", "content": "hi"}, wire="openai-chat")
        view: View = chat.view("auto(32k)", wire="anthropic", model="claude-sonnet-5")
        request: dict[str, Any] = view.request
        tokens: int = view.tokens
        hits: list[Hit] = chat.search("hi", limit=5) + store.search("hi", recipient="anna")
        hits += chat.search("/h./", role="user", tool="look", since=datetime.now(timezone.utc), before="2030-01-01T00:00:00Z")
        hits += chat.search("hi", scope="session") + store.search("hi", role="user", since="2020-01-01T00:00:00Z")
        near: list[Entry] = chat.around(handles[0], before=2) + store.around(handles[0], after=2)
        outline: str = chat.recall("outline")
        own: list[dict[str, Any]] = chat.curated(
            [{"role": "user", "content": "hi"}], "auto", to_json=lambda one: [one], from_json=lambda one: one
        )
        certificate: Certificate = store.erase("bert", reason="asked for")
        left: tuple[Any, ...] = (near, outline, own, certificate.counts, certificate.pending, view.items, view.explain(), view.json)
        left += (view.messages, view.manager, view.wire, view.upto, view.recorded, view.sent, view.exact, chat.recipient)
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
        told = (left, request, tokens, hits, entry.text, entries, followed, status.due, summary, erased.erased, wrapped, last)
        return [str(told), str(len(chat)), str(chat.id), str(store.list(limit=3)), str(memory.summary)]


async def awaited() -> int:
    async with AsyncStore("http://127.0.0.1:7275", key="sb_key") as store:
        chat: AsyncConversation = await store.conversation("anna")
        handles: list[str] = await chat.append({"role": "user", "content": "hi"})
        view: View = await chat.view("auto", request={"tools": [], "max_tokens": 9})
        followed: Followed = await chat.follow([{"role": "user", "content": "hi"}])
        entries: list[Entry] = [await chat.read(handles[0]), *await chat.entries(), *await chat.around(handles[0])]
        entries += await store.read(handles[0]) + await store.around(handles[0])
        hits: list[Hit] = await chat.search("hi", role="user") + await store.search("hi")
        last: list[Any] = await chat.last(2) + await store.list(limit=3)
        own: list[str] = await chat.curated(
            ["hi"], to_json=lambda one: [{"role": "user", "content": one}], from_json=lambda one: str(one["content"])
        )
        await chat.pin([0])
        await chat.unpin([0])
        await chat.set_status("closed")
        status: Status = await chat.status()
        summary: str | None = await chat.compact(3) or await chat.summary() or await chat.recall("outline")
        erased: Erased = await chat.erase(0, 1, reason="asked for")
        certificate: Certificate = await store.erase("bert")
        memory = AsyncMemory("anna", store)
        await memory.append("user", "hi")
        told = (followed, entries, hits, last, own, status, summary, erased, certificate, await memory.summary(), await memory.last(2))
        await memory.erase()
        await store.close()
        return view.tokens + await chat.length() + len(str((told, await chat.id(), chat.recipient, chat.sync, store.sync)))


def adapters(store: Store, chat: Conversation) -> list[object]:
    session: ScrollbackSession = store.session("anna")
    middleware: ScrollbackMiddleware = store.middleware("auto", recipient="anna")
    capability: ScrollbackCapability = store.capability("auto", recipient="anna")
    store.run_config("auto")
    store.close()
    return [
        session,
        run_config("auto"),
        middleware,
        ScrollbackChatMessageHistory(chat, "auto"),
        capability,
        ScrollbackConversationManager("auto"),
        ScrollbackSessionManager(chat),
        ScrollbackHistoryProvider(store),
        ScrollbackCompaction("auto"),
        ScrollbackMemory(chat, "auto"),
        ScrollbackPlugin(store, "auto"),
    ]


def adapters_of_async(store: AsyncStore, chat: AsyncConversation) -> list[object]:
    return [store.session("anna"), store.run_config(), store.middleware(), store.capability(), ScrollbackPlugin(store), ScrollbackMemory(chat)]
