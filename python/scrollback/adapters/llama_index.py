"""LlamaIndex: a memory that is kept whole and shows each call a part of it.

    memory = ScrollbackMemory(Store("scrollback.db").conversation("anna"), "auto(32k)")
    await agent.run("hello", memory=memory)
"""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.memory import BaseMemory
from pydantic import PrivateAttr

from .._async import AsyncConversation
from .._media import Media, media_of, part_of, thoughts_of, with_thoughts
from .._sending import chat_of, sent_to, store_of
from .._store import Conversation, Store

__all__ = ["ScrollbackMemory"]

Json = dict[str, Any]


class ScrollbackMemory(BaseMemory):
    """What was said with one recipient: `get` shows what the manager shows, `get_all` everything."""

    _chat: Conversation = PrivateAttr()
    _manager: Any = PrivateAttr()

    def __init__(self, conversation: Conversation | AsyncConversation, manager: object = "auto") -> None:
        super().__init__()
        self._chat = chat_of(conversation)
        self._manager = manager

    @classmethod
    def class_name(cls) -> str:
        """The name that LlamaIndex lists it under."""
        return "ScrollbackMemory"

    @classmethod
    def from_defaults(cls, recipient: str = "default", store: Any = None, manager: object = "auto", **_: Any) -> ScrollbackMemory:
        """A memory in `scrollback.db`, or in the store that is given."""
        opened = Store(store or "scrollback.db") if store is None or isinstance(store, str) else store_of(store)
        return cls(opened.conversation(recipient), manager)

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:
        """What the next call is sent."""
        if not len(self._chat):
            return []
        view = sent_to(lambda manager, model: self._chat.view(manager, wire="openai-chat", model=model), self._manager, None)
        return [from_json(message) for message in view.messages]

    def get_all(self) -> list[ChatMessage]:
        """Everything that was said."""
        said = [entry.message for entry in self._chat.entries() if entry.kind == "message"]
        return [from_json(message) for message in said if message is not None]

    def put(self, message: ChatMessage) -> None:
        """Appends a message; durable when this returns."""
        self._chat.append(as_json(message), wire="openai-chat")

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Appends messages, together or not at all."""
        if messages:
            self._chat.append([as_json(message) for message in messages], wire="openai-chat")

    def set(self, messages: list[ChatMessage]) -> None:
        """Records what the list says that the record does not; one that leaves the record goes on in a branch."""
        if messages:
            self._chat.follow([as_json(message) for message in messages], wire="openai-chat")

    def reset(self) -> None:
        """Erases everything that was said, for good."""
        self._chat.erase(reason="reset")


def as_json(message: ChatMessage) -> Json:
    """A message as OpenAI chat has it."""
    role = message.role.value
    parts = [part for block in message.blocks if (part := part_json(block)) is not None]
    texts = "".join(part["text"] for part in parts if part["type"] == "text")
    content: Any = texts if all(part["type"] == "text" for part in parts) else parts
    call_id = message.additional_kwargs.get("tool_call_id")
    if role in ("tool", "function") and call_id:
        return {"role": "tool", "tool_call_id": call_id, "content": content}
    said: Json = {"role": "system" if role == "developer" else role, "content": content}
    calls = [call_json(block) for block in message.blocks if isinstance(block, ToolCallBlock)]
    if calls:
        said["tool_calls"] = calls
        said["content"] = content or None
    thinking = [block for block in message.blocks if isinstance(block, ThinkingBlock)]
    return with_thoughts(said, [(one.content or "", one.additional_information.get("signature")) for one in thinking])


def part_json(block: Any) -> Json | None:
    """A block as a part; none for those that have a place of their own in the message."""
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, (ToolCallBlock, ThinkingBlock)):
        return None
    if isinstance(block, (ImageBlock, AudioBlock, VideoBlock, DocumentBlock)):
        held: Any = block
        mime = getattr(held, f"{held.block_type}_mimetype", None)
        url = str(held.url) if held.url else held.inline_url()
        return part_of(Media(held.block_type, url, mime, getattr(held, "title", None)))
    # What only LlamaIndex has is kept as LlamaIndex writes it.
    return {"type": f"llama_index.{block.block_type}", "block": block.model_dump(mode="json")}


def block_of(part: Json) -> Any:
    """A part as LlamaIndex has it; none if it has no such block."""
    if part.get("type") == "text":
        return TextBlock(text=part["text"])
    if str(part.get("type")).startswith("llama_index."):
        return part["block"]
    media = media_of(part)
    if media is None or media.url is None:
        return None
    given: Json = {"url": media.url} if media.data is None else {media.kind: media.data}
    if media.kind == "image":
        return ImageBlock(**given, image_mimetype=media.mime)
    if media.kind == "audio":
        return AudioBlock(**given, format=media.mime.split("/")[-1] if media.mime else None)
    if media.kind == "video":
        return VideoBlock(**given, video_mimetype=media.mime)
    held = {"url": media.url} if media.data is None else {"data": media.data}
    return DocumentBlock(**held, title=media.name, document_mimetype=media.mime)


def call_json(block: ToolCallBlock) -> Json:
    """A call of a tool."""
    arguments = block.tool_kwargs if isinstance(block.tool_kwargs, str) else json.dumps(block.tool_kwargs)
    return {
        "id": block.tool_call_id or block.tool_name,
        "type": "function",
        "function": {"name": block.tool_name, "arguments": arguments},
    }


def from_json(message: Json) -> ChatMessage:
    """A message as LlamaIndex has it."""
    content = message.get("content")
    blocks: list[Any] = [
        ThinkingBlock(content=text, additional_information={"signature": signature} if signature else {})
        for text, signature in thoughts_of(message)
    ]
    if isinstance(content, str) and content:
        blocks.append(TextBlock(text=content))
    elif isinstance(content, list):
        blocks += [block for part in content if (block := block_of(part)) is not None]
    for call in message.get("tool_calls") or []:
        function = call["function"]
        blocks.append(
            ToolCallBlock(tool_call_id=call["id"], tool_name=function["name"], tool_kwargs=function["arguments"])
        )
    more = {"tool_call_id": message["tool_call_id"]} if "tool_call_id" in message else {}
    return ChatMessage(role=MessageRole(message["role"]), blocks=blocks, additional_kwargs=more)
