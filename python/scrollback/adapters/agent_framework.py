"""Microsoft Agent Framework: history that is kept whole, and model calls that are sent a part of it.

    agent = Agent(client, context_providers=[ScrollbackHistoryProvider(store)],
                  compaction_strategy=ScrollbackCompaction("auto(32k)"))
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_framework import Content, HistoryProvider, Message

from .._async import apart
from .._curate import curate
from .._sending import sent_to
from .._store import Store

__all__ = ["ScrollbackCompaction", "ScrollbackHistoryProvider"]

Json = dict[str, Any]
#: The framework's own marks of messages that are not sent.
EXCLUDED, REASON = "_excluded", "_exclude_reason"


class ScrollbackHistoryProvider(HistoryProvider):
    """The history of sessions, each in the conversation of its id, or all in that of `recipient`."""

    def __init__(self, store: Store, *, recipient: str | None = None, source_id: str = "scrollback") -> None:
        super().__init__(source_id)
        self._store = store
        self._recipient = recipient

    async def get_messages(
        self, session_id: str | None, *, state: Json | None = None, **kwargs: Any
    ) -> list[Message]:
        """Everything that was said."""
        chat = await apart(self._store.conversation, self._recipient or session_id or "agent")
        said = [entry.message for entry in await apart(chat.entries) if entry.kind == "message"]
        return [from_json(message) for message in said if message is not None]

    async def save_messages(
        self, session_id: str | None, messages: Sequence[Message], *, state: Json | None = None, **kwargs: Any
    ) -> None:
        """Appends messages; durable when this returns."""
        texts = [text for message in messages for text in as_json(message)]
        if texts:
            chat = await apart(self._store.conversation, self._recipient or session_id or "agent")
            await apart(chat.append, texts, wire="openai-chat")


class ScrollbackCompaction:
    """A compaction strategy: marks what the manager leaves out, and puts in what it writes instead."""

    def __init__(self, manager: object = "auto", *, model: str | None = None) -> None:
        self._manager = manager
        self._model = model

    async def __call__(self, messages: list[Message]) -> bool:
        """Marks the list for one model call; whether anything is left out or changed."""
        own = [message for message in messages if not message.additional_properties.get("_scrollback")]
        texts: list[Json] = []
        owners: list[int] = []
        for number, message in enumerate(own):
            for text in as_json(message):
                texts.append(text)
                owners.append(number)
        if not texts:
            return False
        _, why = await apart(
            sent_to,
            lambda manager, model: curate(texts, manager, model=model, wire="openai-chat", explain=True),
            self._manager,
            self._model,
        )
        same = {item.index for item in why.items if item.index is not None and not item.changed}
        partly = {owner for index, owner in enumerate(owners) if index not in same}
        shown: list[Message] = []
        left = set(range(len(own)))
        for item in why.items:
            owner = None if item.index is None else owners[item.index]
            if owner is not None and owner not in partly:
                if owner in left:
                    left.discard(owner)
                    shown.append(own[owner])
            elif item.message is not None:
                made = from_json(item.message)
                made.additional_properties["_scrollback"] = True
                shown.append(made)
        for number, message in enumerate(own):
            message.additional_properties[EXCLUDED] = number in left
            if number in left:
                message.additional_properties[REASON] = "scrollback"
        # What is left out stays in the list, marked, before what is shown.
        messages[:] = [own[number] for number in sorted(left)] + shown
        return bool(left) or len(shown) != len(own)


def as_json(message: Message) -> list[Json]:
    """The messages of OpenAI chat that a message stands for."""
    role = str(getattr(message.role, "value", message.role))
    results = [content for content in message.contents if content.type == "function_result"]
    said: list[Json] = [
        {"role": "tool", "tool_call_id": content.call_id, "content": text_of(content.result)} for content in results
    ]
    calls = [
        {
            "id": content.call_id,
            "type": "function",
            "function": {"name": content.name, "arguments": text_of(content.arguments or {})},
        }
        for content in message.contents
        if content.type == "function_call"
    ]
    texts = "".join(content.text or "" for content in message.contents if content.type == "text")
    if calls:
        said.append({"role": "assistant", "content": texts or None, "tool_calls": calls})
    elif texts or not results:
        said.append({"role": role, "content": texts})
    return said


def text_of(value: Any) -> str:
    """Arguments and results as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def from_json(message: Json) -> Message:
    """A message of the view as the framework has it."""
    role, content = message["role"], message.get("content")
    text = content if isinstance(content, str) else json.dumps(content)
    if role == "tool":
        result = Content.from_function_result(message["tool_call_id"], result=text)
        return Message("tool", [result])
    contents: list[Any] = [Content.from_text(text)] if content else []
    for call in message.get("tool_calls") or []:
        function = call["function"]
        contents.append(Content.from_function_call(call["id"], function["name"], arguments=function["arguments"]))
    return Message(role, contents)
