"""Google ADK: a plugin that records every session and sends each model call a view.

    runner = Runner(agent=agent, app_name="shop", session_service=service, plugins=[ScrollbackPlugin(store, "auto(32k)")])
"""

from __future__ import annotations

from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from .._async import AsyncStore, apart
from .._sending import store_of
from .._store import Conversation, Store

__all__ = ["ScrollbackPlugin"]

WIRE = "gemini"


class ScrollbackPlugin(BasePlugin):
    """Each session is recorded in the conversation of its id, or all in that of `recipient`. The session service keeps its
    own events as they are."""

    def __init__(self, store: Store | AsyncStore, manager: object = "auto", *, recipient: str | None = None) -> None:
        super().__init__(name="scrollback")
        self._store = store_of(store)
        self._manager = manager
        self._recipient = recipient

    async def _chat(self, context: CallbackContext) -> Conversation:
        return await apart(self._store.conversation, self._recipient or context.session.id)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Records what is new, and sends what the manager shows."""
        chat = await self._chat(callback_context)
        own = list(llm_request.contents)
        llm_request.contents = await apart(
            chat.curated, own, self._manager, to_json=as_json, from_json=from_json, wire=WIRE, model=llm_request.model
        )
        return None

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> LlmResponse | None:
        """Records the reply; of a stream, the whole of it."""
        content = llm_response.content
        if content is not None and content.parts and not llm_response.partial:
            chat = await self._chat(callback_context)
            await apart(chat.append, as_json(content), wire=WIRE)
        return None


def as_json(content: types.Content) -> list[dict[str, Any]]:
    """A content as Gemini's API has it."""
    return [content.model_dump(mode="json", by_alias=True, exclude_none=True)]


def from_json(message: dict[str, Any]) -> types.Content | None:
    """A content of the view. Instructions stand in a field of their own, and are the agent's."""
    return None if message.get("role") == "system" else types.Content.model_validate(message)
