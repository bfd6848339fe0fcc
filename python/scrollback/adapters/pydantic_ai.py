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
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext

from .._async import apart
from .._sending import model_name
from .._store import Conversation, Store

__all__ = ["ScrollbackCapability"]

Json = dict[str, Any]


class ScrollbackCapability(AbstractCapability[Any]):
    """Records everything that is said in runs, and sends each model call what the manager shows of it.

    The conversation is that of `recipient`, or else the run's own. The run's message history stays as it is.
    """

    def __init__(self, store: Store, manager: object = "auto", *, recipient: str | None = None) -> None:
        self._store = store
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
        texts = [part.content for part in message.parts if isinstance(part, TextPart)]
        calls = [
            {
                "id": part.tool_call_id,
                "type": "function",
                "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
            }
            for part in message.parts
            if isinstance(part, ToolCallPart)
        ]
        said: Json = {"role": "assistant", "content": "".join(texts) or None}
        return [{**said, "tool_calls": calls}] if calls else [said] if texts else []
    return [text for part in message.parts if (text := part_json(part)) is not None]


def part_json(part: Any) -> Json | None:
    """One part of a request."""
    if isinstance(part, SystemPromptPart):
        return {"role": "system", "content": part.content}
    if isinstance(part, UserPromptPart):
        return {"role": "user", "content": content_json(part.content)}
    if isinstance(part, ToolReturnPart):
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response_str()}
    respond = getattr(part, "model_response", None)
    if not callable(respond):
        return None
    said, call = str(respond()), getattr(part, "tool_call_id", None)
    if getattr(part, "tool_name", None) and call:
        return {"role": "tool", "tool_call_id": call, "content": said}
    return {"role": "user", "content": said}


def content_json(content: Any) -> Any:
    """What a person said: a text, or texts and media by their address."""
    if isinstance(content, str):
        return content
    blocks: list[Json] = []
    for one in content:
        if isinstance(one, str):
            blocks.append({"type": "text", "text": one})
        elif hasattr(one, "url"):
            blocks.append({"type": "image_url", "image_url": {"url": one.url}})
        elif hasattr(one, "data_uri"):
            blocks.append({"type": "image_url", "image_url": {"url": one.data_uri}})
        else:
            blocks.append({"type": "text", "text": str(getattr(one, "content", one))})
    return blocks


def from_json(message: Json) -> ModelMessage | None:
    """A message of the view as Pydantic AI has it."""
    role, content = message["role"], message.get("content")
    text = content if isinstance(content, str) else json.dumps(content)
    if role == "assistant":
        parts: list[Any] = [TextPart(text)] if content else []
        for call in cast("list[Json]", message.get("tool_calls") or []):
            function = call["function"]
            parts.append(ToolCallPart(function["name"], function["arguments"], tool_call_id=call["id"]))
        return ModelResponse(parts=parts)
    if role == "tool":
        name = message.get("name") or "tool"
        return ModelRequest(parts=[ToolReturnPart(name, text, tool_call_id=message["tool_call_id"])])
    return ModelRequest(parts=[SystemPromptPart(text) if role == "system" else UserPromptPart(text)])
