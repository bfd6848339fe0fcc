"""OpenAI Agents SDK: a session that is kept whole, and model calls that are sent a part of it.

    store = Store("scrollback.db")
    await Runner.run(agent, "hello", session=store.session("anna"), run_config=store.run_config("auto(32k)"))
"""

from __future__ import annotations

from typing import Any, cast

from agents import RunConfig, TResponseInputItem
from agents.memory import SessionABC, SessionSettings
from agents.run import CallModelData, ModelInputData

from .._async import AsyncConversation, apart
from .._curate import curate
from .._sending import chat_of, model_name, sent_to
from .._store import Conversation
from .._types import Entry

__all__ = ["ScrollbackSession", "run_config"]

WIRE = "openai-responses"


class ScrollbackSession(SessionABC):
    """A session whose items are the entries of a conversation. Nothing is ever left out of it."""

    session_settings: SessionSettings | None = None

    def __init__(self, conversation: Conversation | AsyncConversation) -> None:
        #: The conversation behind it.
        self.conversation: Conversation = chat_of(conversation)
        self.session_id: str = self.conversation.recipient

    def _items(self) -> list[TResponseInputItem]:
        return [item for entry in self.conversation.entries() for item in items_of(entry)]

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, oldest first; with a limit the newest."""
        items = await apart(self._items)
        return items if limit is None else items[max(len(items) - limit, 0) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Appends items; durable when this returns."""
        if items:
            await apart(self.conversation.append, items, wire=WIRE)

    async def pop_item(self) -> TResponseInputItem | None:
        """Takes back the newest item. The conversation goes on without it; the record keeps it, in the branch it was on."""

        def pop() -> TResponseInputItem | None:
            items = self._items()
            if not items:
                return None
            if len(items) == 1 or not self.conversation.follow(items[:-1], wire=WIRE).branched:
                # Too little is left to branch from.
                last = [entry for entry in self.conversation.entries() if entry.kind == "message"][-1]
                self.conversation.erase(last.position, reason="taken back by pop_item")
            return items[-1]

        return await apart(pop)

    async def clear_session(self) -> None:
        """Erases everything that was said, for good."""
        await apart(self.conversation.erase, reason="cleared by clear_session")


def items_of(entry: Entry) -> list[TResponseInputItem]:
    """The items of an entry: an answer with its tool calls is one entry and several items."""
    if entry.kind != "message":
        return []
    said: Any = entry.message
    return cast("list[TResponseInputItem]", said if isinstance(said, list) else [said])


def run_config(manager: object = "auto", **options: Any) -> RunConfig:
    """A run configuration whose model calls are sent what the manager shows of their input. The run's own items stay as they
    are; `options` are those of `RunConfig`."""

    def show(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        named = model_name(options.get("model") or data.agent.model)
        shown = sent_to(lambda manager, model: curate(given.input, manager, wire=WIRE, model=model), manager, named)
        return ModelInputData(input=shown, instructions=given.instructions)

    return RunConfig(call_model_input_filter=show, **options)
