"""Pydantic AI: a capability that sends each model call a view.

    agent = Agent(model, capabilities=[store.capability("auto(32k)", recipient="anna")])
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_core import to_jsonable_python

from .._async import AsyncStore, apart
from .._media import Media, kind_of, media_of, part_of, thoughts_of, with_thoughts
from .._sending import model_name, store_of
from .._store import Conversation, Store

__all__ = ["ScrollbackCapability"]

Json = dict[str, Any]


class ScrollbackCapability(AbstractCapability[Any]):
    """Records everything that is said in runs, and sends each model call what the manager shows of it.

    The conversation is that of `recipient`, or else the run's own. The run's message history stays as it is.
    """

    def __init__(self, store: Store | AsyncStore, manager: object = "auto", *, recipient: str | None = None) -> None:
        self._store = store_of(store)
        self._manager = manager
        self._recipient = recipient

    async def wrap_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        handler: Callable[[ModelRequestContext], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        """Sends the view and records the reply."""
        name = self._recipient or ctx.conversation_id or ctx.run_id or "agent"
        chat = await apart(self._store.conversation, name)
        own = list(request_context.messages)
        shown = await apart(self._shown, chat, own, model_name(request_context.model))
        response = await handler(replace(request_context, messages=shown))
        said = as_json(response)
        if said:
            await apart(chat.append, said, wire="openai-chat")
        return response

    def _shown(self, chat: Conversation, own: list[ModelMessage], model: str | None) -> list[ModelMessage]:
        shown = chat.curated(own, self._manager, to_json=as_json, from_json=from_json, model=model)
        # Instructions belong to the newest request, whatever else is shown of it.
        newest = next((one for one in reversed(own) if isinstance(one, ModelRequest)), None)
        for number in range(len(shown) - 1, -1, -1):
            one = shown[number]
            if isinstance(one, ModelRequest):
                if newest is not None and newest.instructions and not one.instructions:
                    shown[number] = replace(one, instructions=newest.instructions)
                break
        return shown


def as_json(message: ModelMessage) -> list[Json]:
    """The messages of OpenAI chat that a message stands for: a request may hold several results and a prompt."""
    if isinstance(message, ModelResponse):
        thoughts = [(part.content, part.signature) for part in message.parts if isinstance(part, ThinkingPart)]
        parts = [part for one in message.parts if (part := reply_part(one)) is not None]
        plain = all(part["type"] == "text" for part in parts)
        content: Any = "".join(part["text"] for part in parts) if plain else parts
        calls = [
            {
                "id": part.tool_call_id,
                "type": "function",
                "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
            }
            for part in message.parts
            if isinstance(part, ToolCallPart)
        ]
        said = with_thoughts({"role": "assistant", "content": content or None}, thoughts)
        return [{**said, "tool_calls": calls}] if calls else [said] if content or thoughts else []
    return [text for part in message.parts if (text := part_json(part)) is not None]


def part_json(part: Any) -> Json | None:
    """One part of a request."""
    if isinstance(part, SystemPromptPart):
        return {"role": "system", "content": part.content}
    if isinstance(part, UserPromptPart):
        return {"role": "user", "content": content_json(part.content)}
    if isinstance(part, ToolReturnPart):
        result: Any = part.model_response_str()
        if part.files:
            result = [{"type": "text", "text": result}, *map(content_part, part.files)]
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": result}
    respond = getattr(part, "model_response", None)
    if not callable(respond):
        return None
    said, call = str(respond()), getattr(part, "tool_call_id", None)
    if getattr(part, "tool_name", None) and call:
        return {"role": "tool", "tool_call_id": call, "content": said}
    return {"role": "user", "content": said}


#: The addresses that Pydantic AI has, by their kind.
ADDRESSES = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl, "document": DocumentUrl}


def reply_part(part: Any) -> Json | None:
    """A part of a reply; none for those that have a place of their own in the message."""
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.content}
    if isinstance(part, FilePart):
        return content_part(part.content)
    if isinstance(part, (ThinkingPart, ToolCallPart)):
        return None
    # What a provider does by itself: kept as Pydantic AI writes it.
    return {"type": f"pydantic_ai.{part.part_kind}", "part": to_jsonable_python(part, fallback=str)}


def content_json(content: Any) -> Any:
    """What a person said: a text, or texts and media."""
    return content if isinstance(content, str) else [content_part(one) for one in content]


def content_part(one: Any) -> Json:
    """One text or picture, sound, video or file."""
    if isinstance(one, str):
        return {"type": "text", "text": one}
    if isinstance(one, BinaryContent):
        return part_of(Media(kind_of(one.media_type), one.data_uri, one.media_type))
    if isinstance(one, UploadedFile):
        return part_of(Media("document", None, file_id=one.file_id))
    for kind, address in ADDRESSES.items():
        if isinstance(one, address):
            return part_of(Media(kind, one.url))
    return {"type": "text", "text": str(getattr(one, "content", ""))}


def content_of(content: Any) -> Any:
    """What a person said, as Pydantic AI has it."""
    if not isinstance(content, list):
        return content or ""
    found: list[Any] = []
    for part in content:
        media = media_of(part)
        if media is None:
            found.append(str(part.get("text") or ""))
        elif media.url is None:
            found.append(UploadedFile(media.file_id or "", "openai"))
        else:
            inside = media.data is not None
            found.append(BinaryContent.from_data_uri(media.url) if inside else ADDRESSES[media.kind](media.url))
    return found


def from_json(message: Json) -> ModelMessage | None:
    """A message of the view as Pydantic AI has it."""
    role, content = message["role"], message.get("content")
    text = content if isinstance(content, str) else json.dumps(content)
    if role == "assistant":
        parts: list[Any] = [ThinkingPart(thought, signature=sign) for thought, sign in thoughts_of(message) if not sign]
        for one in content_of(content) if isinstance(content, list) else [content] if content else []:
            parts.append(TextPart(one) if isinstance(one, str) else FilePart(one))
        for call in cast("list[Json]", message.get("tool_calls") or []):
            function = call["function"]
            parts.append(ToolCallPart(function["name"], function["arguments"], tool_call_id=call["id"]))
        return ModelResponse(parts=parts)
    if role == "tool":
        name = message.get("name") or "tool"
        return ModelRequest(parts=[ToolReturnPart(name, text, tool_call_id=message["tool_call_id"])])
    return ModelRequest(parts=[SystemPromptPart(text) if role == "system" else UserPromptPart(content_of(content))])
