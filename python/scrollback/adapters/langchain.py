"""LangChain and LangGraph: a middleware that sends each model call a view, and a chat history that is never cut.

    agent = create_agent(model, tools, middleware=[store.middleware("auto(32k)")])
    agent.invoke({"messages": [...]}, {"configurable": {"thread_id": "anna"}})
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, convert_to_messages, convert_to_openai_messages
from langgraph.config import get_config

from .._async import AsyncConversation, AsyncStore, apart
from .._errors import ArgumentError
from .._sending import chat_of, model_name, sent_to, store_of
from .._store import Conversation, Store

__all__ = ["ScrollbackChatMessageHistory", "ScrollbackMiddleware"]


class ScrollbackMiddleware(AgentMiddleware[Any, Any, Any]):
    """Records everything that an agent says, and sends each model call what the manager shows of it.

    The conversation is that of `recipient`, or else of the run's `thread_id`. The agent's state keeps all of its messages.
    """

    def __init__(self, store: Store | AsyncStore, manager: object = "auto", *, recipient: str | None = None) -> None:
        super().__init__()
        self._store = store_of(store)
        self._manager = manager
        self._recipient = recipient
        self.tools: Sequence[Any] = []

    def _chat(self) -> Conversation:
        name = self._recipient
        if name is None:
            name = (get_config().get("configurable") or {}).get("thread_id")
        if not name:
            raise ArgumentError(
                'whose conversation is this? give middleware(recipient="anna"), or invoke the agent with '
                '{"configurable": {"thread_id": "anna"}}',
                "bad_argument",
            )
        return self._store.conversation(str(name))

    def _shown(self, chat: Conversation, request: ModelRequest[Any]) -> ModelRequest[Any]:
        messages = chat.curated(
            cast("list[BaseMessage]", request.messages), self._manager, to_json=as_json, from_json=from_json, model=model_name(request.model)
        )
        return request.override(messages=cast("Any", messages))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Sends the view and records the reply."""
        chat = self._chat()
        response = handler(self._shown(chat, request))
        chat.append([text for reply in response.result for text in as_json(reply)], wire="openai-chat")
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """The same for runs that await."""
        chat = await apart(self._chat_of, get_config())
        response = await handler(await apart(self._shown, chat, request))
        await apart(chat.append, [text for reply in response.result for text in as_json(reply)], wire="openai-chat")
        return response

    def _chat_of(self, config: Any) -> Conversation:
        name = self._recipient or (config.get("configurable") or {}).get("thread_id")
        return self._store.conversation(str(name)) if name else self._chat()


class ScrollbackChatMessageHistory(BaseChatMessageHistory):
    """The messages of a conversation for chains that take a history; `manager` bounds what they see of it."""

    def __init__(self, conversation: Conversation | AsyncConversation, manager: object = "passthrough") -> None:
        self._chat = chat_of(conversation)
        self._manager = manager

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """What the manager shows."""
        if not len(self._chat):
            return []
        view = sent_to(lambda manager, model: self._chat.view(manager, wire="openai-chat", model=model), self._manager, None)
        return convert_to_messages(view.messages)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Appends messages; durable when this returns."""
        if messages:
            self._chat.append([text for message in messages for text in as_json(message)], wire="openai-chat")

    def clear(self) -> None:
        """Erases everything that was said, for good."""
        self._chat.erase(reason="cleared")


def as_json(message: BaseMessage) -> list[dict[str, Any]]:
    """A message as OpenAI chat has it."""
    return [convert_to_openai_messages(message)]


def from_json(message: dict[str, Any]) -> BaseMessage | None:
    """A message of the view as LangChain has it."""
    return convert_to_messages([message])[0]
