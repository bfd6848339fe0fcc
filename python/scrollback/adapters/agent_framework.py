"""Microsoft Agent Framework: history that is kept whole, and model calls that are sent a part of it.

    agent = Agent(client, context_providers=[ScrollbackHistoryProvider(store)],
                  compaction_strategy=ScrollbackCompaction("auto(32k)"))
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_framework import Content, HistoryProvider, Message

from .._async import AsyncStore, apart
from .._curate import curate
from .._media import Media, kind_of, media_of, part_of, thoughts_of, with_thoughts
from .._sending import sent_to, store_of
from .._store import Store

__all__ = ["ScrollbackCompaction", "ScrollbackHistoryProvider"]

Json = dict[str, Any]
#: The framework's own marks of messages that are not sent.
EXCLUDED, REASON = "_excluded", "_exclude_reason"


class ScrollbackHistoryProvider(HistoryProvider):
    """The history of sessions, each in the conversation of its id, or all in that of `recipient`."""

    def __init__(
        self, store: Store | AsyncStore, *, recipient: str | None = None, source_id: str = "scrollback"
    ) -> None:
        super().__init__(source_id)
        self._store = store_of(store)
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


#: Contents that have a place of their own in a message.
PLACED = ("function_call", "function_result", "text_reasoning")


def as_json(message: Message) -> list[Json]:
    """The messages of OpenAI chat that a message stands for."""
    role = str(getattr(message.role, "value", message.role))
    results = [content for content in message.contents if content.type == "function_result"]
    said: list[Json] = [
        {"role": "tool", "tool_call_id": content.call_id, "content": content_json(content.items or [], content.result)}
        for content in results
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
    content = content_json([one for one in message.contents if one.type not in PLACED], "")
    thoughts = [(one.text or "", one.protected_data) for one in message.contents if one.type == "text_reasoning"]
    if calls:
        said.append(with_thoughts({"role": "assistant", "content": content or None, "tool_calls": calls}, thoughts))
    elif content or thoughts or not results:
        said.append(with_thoughts({"role": role, "content": content}, thoughts))
    return said


def content_json(contents: Sequence[Any], otherwise: Any) -> Any:
    """Contents as a text, or as parts where they are more than text."""
    parts = [part_json(content) for content in contents]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts) or text_of(otherwise)
    return parts


def part_json(content: Any) -> Json:
    """A content as a part."""
    if content.type == "text":
        return {"type": "text", "text": content.text or ""}
    if content.type in ("data", "uri") and content.uri:
        return part_of(Media(kind_of(content.media_type), content.uri, content.media_type, getattr(content, "name", None)))
    if content.type == "hosted_file":
        return part_of(Media("document", None, file_id=content.file_id))
    # What only the framework has is kept as the framework writes it.
    return {"type": f"agent_framework.{content.type}", "content": json.loads(json.dumps(content.to_dict(), default=str))}


def content_of(part: Json) -> Any:
    """A part as the framework has it; none if it has no such content."""
    if part.get("type") == "text":
        return Content.from_text(part["text"])
    if str(part.get("type")).startswith("agent_framework."):
        return Content.from_dict(part["content"])
    media = media_of(part)
    if media is None:
        return None
    if media.url is None:
        return Content.from_hosted_file(media.file_id or "")
    return Content.from_uri(media.url, media_type=media.mime or f"{media.kind}/*")


def text_of(value: Any) -> str:
    """Arguments and results as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def contents_of(content: Any) -> list[Any]:
    """The content of a message as the framework has it."""
    if isinstance(content, str):
        return [Content.from_text(content)] if content else []
    return [found for part in content or [] if (found := content_of(part)) is not None]


def from_json(message: Json) -> Message:
    """A message of the view as the framework has it."""
    contents: list[Any] = contents_of(message.get("content"))
    if message["role"] == "tool":
        return Message("tool", [Content.from_function_result(message["tool_call_id"], result=contents)])
    thoughts = [Content.from_text_reasoning(text=text, protected_data=sign) for text, sign in thoughts_of(message)]
    for call in message.get("tool_calls") or []:
        function = call["function"]
        contents.append(Content.from_function_call(call["id"], function["name"], arguments=function["arguments"]))
    return Message(message["role"], [*thoughts, *contents])
