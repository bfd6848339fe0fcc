"""Strands: a conversation manager that sends each model call a view, and a session manager that keeps everything.

    chat = Store("scrollback.db").conversation("anna")
    agent = Agent(model, conversation_manager=ScrollbackConversationManager("auto(32k)"),
                  session_manager=ScrollbackSessionManager(chat))
"""

from __future__ import annotations

from typing import Any, cast

from strands.agent.conversation_manager import ConversationManager
from strands.hooks import AgentInitializedEvent, HookRegistry
from strands.middleware import InvokeModelStage
from strands.session import SessionManager

from .._async import AsyncConversation, apart
from .._curate import curate
from .._sending import chat_of, model_name, sent_to
from .._store import Conversation

__all__ = ["ScrollbackConversationManager", "ScrollbackSessionManager"]

WIRE = "bedrock"
#: How much smaller the budget becomes when the model says that a request was too large.
TIGHTER = 2


class ScrollbackConversationManager(ConversationManager):
    """Sends each model call what the manager shows of the agent's messages. The agent keeps all of them."""

    def __init__(self, manager: object = "auto", *, fallback: object = "sliding_window(20)") -> None:
        super().__init__()
        self._manager = manager
        self._fallback = fallback
        self._tight = False
        self._model: Any = None

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Joins the agent's model calls."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, self._join)

    def _join(self, event: AgentInitializedEvent) -> None:
        self._model = event.agent.model
        event.agent.add_middleware(InvokeModelStage.Input, self._shown)

    async def _shown(self, context: Any) -> Any:
        messages = strip(context.messages)
        shown = await apart(
            sent_to,
            lambda manager, model: curate(messages, manager, wire=WIRE, model=model),
            self._using(),
            model_name(self._model.get_config()) if self._model is not None else None,
        )
        return context.replace(messages=shown)

    def _using(self) -> object:
        return self._fallback if self._tight else self._manager

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """Nothing is taken from the agent's messages: views are made when they are sent."""
        self._tight = False

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        """The model said that the request was too large: the next attempt is made with the fallback, once."""
        if e is not None and self._tight:
            raise e
        self._tight = True


class ScrollbackSessionManager(SessionManager):
    """Keeps every message of an agent in a conversation, and gives a new agent those that were said before."""

    def __init__(self, conversation: Conversation | AsyncConversation) -> None:
        #: The conversation behind it.
        self.conversation: Conversation = chat_of(conversation)
        self.session_id: str = self.conversation.recipient

    def initialize(self, agent: Any, **kwargs: Any) -> None:
        """Gives the agent what was said before."""
        said = [entry.message for entry in self.conversation.entries() if entry.kind == "message"]
        if said:
            agent.messages = said

    def append_message(self, message: Any, agent: Any, **kwargs: Any) -> None:
        """Appends a message; durable when this returns."""
        self.conversation.append(strip([message]), wire=WIRE)

    def sync_agent(self, agent: Any, **kwargs: Any) -> None:
        """Every message is durable already."""

    def redact_latest_message(self, redact_message: Any, agent: Any, **kwargs: Any) -> None:
        """Erases the newest message, and appends what stands in for it."""
        last = [entry for entry in self.conversation.entries() if entry.kind == "message"]
        if last:
            self.conversation.erase(last[-1].position, reason="redacted")
        self.append_message(redact_message, agent)


def strip(messages: Any) -> list[dict[str, Any]]:
    """Messages without what Strands notes on them for itself."""
    return [{"role": one["role"], "content": one["content"]} for one in cast("list[dict[str, Any]]", messages)]
