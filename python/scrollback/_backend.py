"""What a store does, wherever it is: in this process or behind a server."""

from __future__ import annotations

import json
import os
from typing import Any, Protocol, TypeVar

from . import _core
from ._check import path_of, text
from ._errors import ManagerError

__all__ = ["Backend", "Chat", "Embedded", "Sent", "manager_text", "options_of", "url_of"]

#: Body, wire, position, entries recorded and sent, tokens, whether they are exact, and the explanation if it came along.
Sent = tuple[str, str, int, tuple[int, int], int, bool, "dict[str, Any] | None"]

T = TypeVar("T")


class Chat(Protocol):
    """A conversation of some store."""

    def append(self, messages: str, wire: str | None) -> tuple[int, int]: ...
    def follow(self, messages: str, wire: str | None) -> tuple[list[int], int, bool]: ...
    def send(self, manager: str, wire: str | None, model: str | None, request: str | None) -> Sent: ...
    def explain(self, manager: str, wire: str | None, model: str | None, request: str | None, upto: int) -> dict[str, Any]: ...
    def facts(self) -> tuple[str | None, int, int]: ...
    def entries(self, first: int, last: int) -> list[dict[str, Any]]: ...
    def search(self, wanted: dict[str, str], limit: int) -> list[dict[str, Any]]: ...
    def recall(self, tool: str, arguments: str) -> tuple[str, bool]: ...
    def erase(self, positions: tuple[int, int] | None, reason: str) -> tuple[int, int, int]: ...
    def compact(self, keep: int) -> str | None: ...
    def summary(self) -> str | None: ...
    def pin(self, positions: list[int], pinned: bool) -> None: ...
    def status(self) -> tuple[str, bool]: ...
    def set_status(self, name: str) -> None: ...


class Backend(Protocol):
    """A store."""

    def describe(self) -> str: ...
    def close(self) -> None: ...
    def conversation(self, name: str) -> Chat: ...
    def search(self, wanted: dict[str, str], limit: int) -> list[dict[str, Any]]: ...
    def erase(self, recipient: str, reason: str) -> dict[str, Any]: ...
    def read(self, handle: str) -> dict[str, Any]: ...
    def list(self, limit: int) -> list[dict[str, Any]]: ...


def url_of(where: str | os.PathLike[str]) -> str:
    """The URL of a store: a file name is one of SQLite."""
    # A URL is text, so a path that is no UTF-8 cannot be named by one.
    named = text(path_of(where, "a store"), "the name of a store", '"scrollback.db"')
    if named == ":memory:":
        return "sqlite::memory:"
    if named.startswith(("sqlite:", "postgres:", "postgresql:", "http://", "https://", "memory:")) or "://" in named:
        return named
    return f"sqlite:{named}"


def manager_text(manager: object) -> str:
    """A manager as text: `auto(32k)`, or JSON of its other forms."""
    if isinstance(manager, str):
        return text(manager, "a manager", '"auto(32k)"')
    if not isinstance(manager, (dict, list, tuple)):
        message = f'a manager is a text such as "auto(32k)", a dict or a list of them, not {type(manager).__name__}'
        raise ManagerError(message, "bad_syntax")
    try:
        return json.dumps(manager, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ManagerError(f"the manager cannot be written as JSON: {error}", "bad_syntax") from None


def options_of(wire: Any, model: Any) -> tuple[str | None, str | None]:
    """The names of a wire and a model."""
    return (
        None if wire is None else text(wire, "a wire", '"anthropic"'),
        None if model is None else text(model, "a model", '"openai:gpt-4o"'),
    )


class EmbeddedChat:
    """A conversation of a store in this process: what is JSON is read."""

    def __init__(self, core: _core.Chat) -> None:
        self._core = core
        self.append = core.append
        self.follow = core.follow
        self.facts = core.facts
        self.recall = core.recall
        self.erase = core.erase
        self.compact = core.compact
        self.summary = core.summary
        self.pin = core.pin
        self.status = core.status
        self.set_status = core.set_status

    def send(self, manager: str, wire: str | None, model: str | None, request: str | None) -> Sent:
        return (*self._core.send(manager, wire, model, request), None)

    def explain(self, manager: str, wire: str | None, model: str | None, request: str | None, upto: int) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._core.explain(manager, wire, model, request, upto))
        return told

    def entries(self, first: int, last: int) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = json.loads(self._core.entries(first, last))
        return told

    def search(self, wanted: dict[str, str], limit: int) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = json.loads(self._core.search(json.dumps(wanted), limit))
        return told


class Embedded:
    """A store in this process: SQLite or PostgreSQL."""

    def __init__(self, url: str, tenant: str | None) -> None:
        self._core = _core.Store(url, tenant)
        self._where = self._core.describe()
        self.close = self._core.close

    def describe(self) -> str:
        return self._where

    def conversation(self, name: str) -> Chat:
        return EmbeddedChat(self._core.conversation(name))

    def search(self, wanted: dict[str, str], limit: int) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = json.loads(self._core.search(json.dumps(wanted), limit))
        return told

    def erase(self, recipient: str, reason: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._core.erase(recipient, reason))
        return told

    def read(self, handle: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._core.read(handle))
        return told

    def list(self, limit: int) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = json.loads(self._core.list(limit))
        return told
