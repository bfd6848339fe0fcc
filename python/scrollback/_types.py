"""What calls answer: plain, frozen values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from . import _core
from ._check import text
from ._errors import ArgumentError

__all__ = ["Certificate", "Changed", "Dropped", "Entry", "Erased", "Explanation", "Followed", "Hit", "Item", "Status"]

Json = dict[str, Any]


def handle_of(conversation: str, position: int) -> str:
    """The stable name of a place: `sb:` and the end of the conversation's id, `#` and the position."""
    return f"sb:{conversation[-10:].lower()}#{position}"


def parsed(handle: str) -> tuple[str, int, int]:
    """The end of the id, and the first and last position that a handle names."""
    tail, places = _core.handle(text(handle, "a handle", '"sb:k7q2m9x4td#412"'))
    if places is None:
        message = f"sb:{tail} names a whole conversation: name a place in it, as in sb:{tail}#0"
        raise ArgumentError(message, "bad_handle")
    return tail, *places


@dataclass(frozen=True)
class Entry:
    """One place of a record.

    `kind` is `message`, `decision` or `erased`; `message` is what was said, byte for byte as it came, read as JSON.
    """

    handle: str
    position: int
    kind: str
    role: str | None
    text: str | None
    created_at: str
    wire: str | None
    raw: str | None

    @property
    def message(self) -> Json | None:
        """What was said, in the format it was said in."""
        return None if self.raw is None else json.loads(self.raw)

    def __str__(self) -> str:
        return self.text or ""

    @staticmethod
    def of(conversation: str, told: Mapping[str, Any]) -> Entry:
        """From what the engine tells."""
        position = int(told["position"])
        return Entry(
            handle_of(conversation, position),
            position,
            told["kind"],
            told.get("role"),
            told.get("text"),
            told["created_at"],
            told.get("wire"),
            told.get("raw"),
        )


@dataclass(frozen=True)
class Hit:
    """An entry that a search found; in `snippet` matches stand between « and »."""

    handle: str
    recipient: str | None
    conversation: str
    position: int
    role: str
    created_at: str
    snippet: str

    @staticmethod
    def of(told: Mapping[str, Any]) -> Hit:
        """From what the engine tells."""
        conversation, position = str(told["conversation"]), int(told["position"])
        return Hit(
            handle_of(conversation, position),
            told.get("recipient"),
            conversation,
            position,
            told["role"],
            told["created_at"],
            told["snippet"],
        )


@dataclass(frozen=True)
class Erased:
    """What was erased: entries, model calls that held them, and forks that shared them."""

    erased: int
    sent: int
    forks: int


@dataclass(frozen=True)
class Certificate:
    """What was erased of a person, and what is left where. `counts` has a number for each kind: `conversations`, `entries`,
    `summaries`, `sent`, `runs`, `names` and others. While `pending` is true copies are left in the database's own files; they go
    by themselves, and erasing again says when."""

    recipient: str
    pseudonym: str | None
    at: str
    pending: bool
    counts: Mapping[str, int]
    remains: tuple[Mapping[str, str], ...]

    @staticmethod
    def of(told: Mapping[str, Any]) -> Certificate:
        """From what the engine tells."""
        counts = {name: value for name, value in told.items() if isinstance(value, int) and not isinstance(value, bool)}
        remains = tuple(told.get("remains") or ())
        return Certificate(told["recipient"], told.get("pseudonym"), told["at"], bool(told["pending"]), counts, remains)


@dataclass(frozen=True)
class Status:
    """Where a conversation stands, and whether a follow-up is due."""

    status: str
    due: bool


@dataclass(frozen=True)
class Followed:
    """Where the messages of a list stand in the record."""

    positions: list[int]
    appended: int
    branched: bool


@dataclass(frozen=True)
class Dropped:
    """A message that is not sent: its index, who left it out, and why."""

    index: int
    manager: str
    reason: str
    group: tuple[int, ...] = ()


@dataclass(frozen=True)
class Changed:
    """A message that is not sent as it was said: who changed it, why, and its length before and after."""

    index: int
    manager: str
    reason: str
    from_chars: int
    to_chars: int


@dataclass(frozen=True)
class Item:
    """One entry of a view: `index` where it was said, none if it never was; `message` as it is sent."""

    index: int | None
    changed: bool
    synthetic: str | None
    message: Json | None

    @staticmethod
    def of(told: Mapping[str, Any]) -> Item:
        """From what the engine tells."""
        return Item(told.get("index"), bool(told.get("changed")), told.get("synthetic"), told.get("message"))


@dataclass(frozen=True)
class Explanation:
    """Which manager left out or changed what, and why. Print it, or show it in a notebook."""

    dropped: tuple[Dropped, ...]
    changed: tuple[Changed, ...]
    items: tuple[Item, ...]

    @staticmethod
    def of(told: Mapping[str, Any]) -> Explanation:
        """From what the engine tells."""
        dropped = (
            Dropped(one["index"], one["manager"], one["reason"], tuple(one.get("group") or ())) for one in told["dropped"]
        )
        changed = (
            Changed(one["index"], one["manager"], one["reason"], one["from_chars"], one["to_chars"])
            for one in told["changed"]
        )
        return Explanation(tuple(dropped), tuple(changed), tuple(Item.of(one) for one in told["view"]))

    def __str__(self) -> str:
        lines = [f"{len(self.items)} sent, {len(self.dropped)} left out, {len(self.changed)} changed"]
        lines += [f"  {cells[0]:>5}  {'  '.join(cells[1:])}" for cells in self._rows()]
        return "\n".join(lines)

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for one in self.dropped:
            yield str(one.index), "left out", one.manager, one.reason
        for other in self.changed:
            lengths = f"{other.from_chars} → {other.to_chars} characters"
            yield str(other.index), "changed", other.manager, f"{other.reason}, {lengths}"

    def _repr_html_(self) -> str:
        return table(("message", "what", "by", "why"), list(self._rows()), str(self).split("\n", 1)[0])


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """A table for notebooks. Every text is escaped: conversations hold what strangers wrote."""
    top = "".join(f"<th style='text-align:left'>{escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
