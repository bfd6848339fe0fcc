"""What one call is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from html import escape
from typing import Any

from ._types import Explanation, Item

__all__ = ["View"]


class View:
    """What one model call is sent of a conversation, made by `Conversation.view`.

    `view.request` goes into a client as it is: `client.messages.create(**view.request, max_tokens=1024)`.
    """

    def __init__(
        self,
        body: str,
        *,
        manager: str,
        wire: str,
        upto: int,
        entries: tuple[int, int],
        tokens: int,
        exact: bool,
        explain: Callable[[], dict[str, Any]],
    ) -> None:
        self._explain = explain
        #: The request as JSON text. From a store in this process everything that no manager changed is spelled in it as it was
        #: recorded; from one behind a server the numbers and escapes of the messages are written anew.
        self.json: str = body
        #: The manager that made it.
        self.manager: str = manager
        #: The format of the request.
        self.wire: str = wire
        #: It is a view of the record below this position.
        self.upto: int = upto
        #: How many messages the record has.
        self.recorded: int = entries[0]
        #: How many entries are sent.
        self.sent: int = entries[1]
        #: Tokens of what is sent.
        self.tokens: int = tokens
        #: Whether `tokens` was counted by the model's own tokenizer.
        self.exact: bool = exact

    @cached_property
    def request(self) -> dict[str, Any]:
        """The part of a request that is the conversation, and the model if one was named."""
        request: dict[str, Any] = json.loads(self.json)
        return request

    @property
    def messages(self) -> list[Any]:
        """The messages of the request."""
        for key in ("messages", "input", "contents", "entries"):
            if key in self.request:
                messages: list[Any] = self.request[key]
                return messages
        return []

    @cached_property
    def _explanation(self) -> Explanation:
        return Explanation.of(self._explain())

    def explain(self) -> Explanation:
        """Which manager left out or changed what, and why."""
        return self._explanation

    @property
    def items(self) -> tuple[Item, ...]:
        """The entries of the view, each with its position in the record."""
        return self._explanation.items

    def __getstate__(self) -> dict[str, Any]:
        # A copy has the explanation, and no way back to the store.
        return {**self.__dict__, "_explanation": self._explanation, "_explain": None}

    def __len__(self) -> int:
        return self.sent

    def __repr__(self) -> str:
        how = "" if self.exact else "about "
        return f"<View {self.sent} of {self.recorded} entries, {how}{self.tokens} tokens, {self.manager}, {self.wire}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self)[1:-1])}</p>{self.explain()._repr_html_()}"  # pyright: ignore[reportPrivateUsage]
