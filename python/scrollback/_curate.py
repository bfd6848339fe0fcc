"""Curating a list that is kept elsewhere, and replaying recorded ones."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any, Literal, cast, overload

from . import _core
from ._backend import manager_text, options_of
from ._check import paths_of, whole
from ._errors import ArgumentError
from ._text import Messages, text_of
from ._types import Explanation, table

__all__ = ["Simulation", "curate", "recall_tools", "simulate"]


@overload
def curate(
    messages: Messages,
    manager: object = "auto(32k)",
    *,
    model: str | None = None,
    wire: str | None = None,
    explain: Literal[False] = False,
) -> Any: ...


@overload
def curate(
    messages: Messages,
    manager: object = "auto(32k)",
    *,
    model: str | None = None,
    wire: str | None = None,
    explain: Literal[True],
) -> tuple[Any, Explanation]: ...


def curate(
    messages: Messages,
    manager: object = "auto(32k)",
    *,
    model: str | None = None,
    wire: str | None = None,
    explain: bool = False,
) -> Any:
    """The messages that a call should be sent, of a list or a whole request that is kept elsewhere. Nothing is stored.

    Messages that are not changed are the caller's own objects. With `explain` an `Explanation` comes along.

    >>> from scrollback import curate
    >>> messages = [{"role": "user", "content": str(number)} for number in range(5)]
    >>> curate(messages, "sliding_window(2)")
    [{'role': 'user', 'content': '3'}, {'role': 'user', 'content': '4'}]
    """
    text = text_of(messages)
    wire, model = options_of(wire, model)
    _, body, pieces, _, report = _core.curate(text, manager_text(manager), model, wire, explain)
    curated: Any
    if pieces is None:
        curated = json.loads(body or "null")
    else:
        own = cast("Sequence[Any]", messages if isinstance(messages, Sequence) and not isinstance(messages, (str, bytes)) else json.loads(text))
        curated = [own[piece] if isinstance(piece, int) else json.loads(piece) for piece in pieces]
    if not explain:
        return curated
    return curated, Explanation.of(json.loads(report or "null"))


def recall_tools(wire: str = "openai-chat") -> list[dict[str, Any]]:
    """The four recall tools as a request of this wire offers them, for programs that run their own loop: `Conversation.recall` answers
    the calls.

    >>> from scrollback import recall_tools
    >>> [tool["name"] for tool in recall_tools("anthropic")]
    ['recall_search', 'recall_read', 'recall_around', 'recall_outline']
    """
    told: list[dict[str, Any]] = json.loads(_core.recall_tools())
    if wire == "anthropic":
        return [{"name": one["name"], "description": one["description"], "input_schema": one["schema"]} for one in told]
    functions = [{"name": one["name"], "description": one["description"], "parameters": one["schema"]} for one in told]
    if wire == "openai-chat":
        return [{"type": "function", "function": one} for one in functions]
    if wire == "openai-responses":
        return [{"type": "function", **one} for one in functions]
    if wire == "gemini":
        return [{"functionDeclarations": functions}]
    message = f"recall_tools knows openai-chat, openai-responses, anthropic and gemini, not {wire!r}"
    raise ArgumentError(message, "unknown_wire")


class Simulation:
    """What managers would have sent, cost and lost: one row for each."""

    def __init__(self, told: dict[str, Any]) -> None:
        #: The model that counted, and whose prices were taken.
        self.model: str | None = told["model"]
        #: How many conversations were replayed.
        self.conversations: int = told["conversations"]
        #: The figures of each manager over all conversations, as `scrollback simulate --json` names them.
        self.rows: list[dict[str, Any]] = told["total"]
        #: The same for each conversation: its `file`, its number in the file, its `calls`, and the figures under `managers`; with
        #: `lost=True` each of them lists what it lost.
        self.transcripts: list[dict[str, Any]] = told["transcripts"]
        #: Which manager to take, in a sentence; none if no call was replayed.
        self.advice: str | None = told["advice"]
        #: Transcripts that could not be read: `file`, `line` and `problem`.
        self.failed: list[dict[str, Any]] = told["failed"]

    def __iter__(self) -> Any:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_pandas(self) -> Any:
        """The rows as a data frame, if pandas is installed."""
        pandas: Any = import_module("pandas")

        flat = [{**row, **{f"at_cut_{name}": share for name, share in row["at_cut"].items()}} for row in self.rows]
        make: Any = pandas.DataFrame
        return make([{name: value for name, value in row.items() if name != "at_cut"} for row in flat])

    def plot(self) -> Any:
        """Cost against what was kept, if matplotlib is installed; the axes."""
        pyplot: Any = import_module("matplotlib.pyplot")

        _, axes = pyplot.subplots()
        for row in self.rows:
            axes.scatter(row["cost_ratio"] or 0.0, kept(row))
            axes.annotate(row["manager"], (row["cost_ratio"] or 0.0, kept(row)))
        axes.set_xlabel("cost, as a share of sending everything")
        axes.set_ylabel("kept of what replies used")
        return axes

    def _cells(self) -> list[tuple[str, ...]]:
        def cell(share: float | None) -> str:
            return "–" if share is None else f"{share:.0%}"

        rows = sorted(self.rows, key=lambda row: row["cost_ratio"] or 0.0)
        return [
            (
                row["manager"],
                "–" if row["cost_ratio"] is None else f"{row['cost_ratio']:.2f}×",
                str(row["input_tokens"] // max(row["calls"], 1)),
                cell(row["cache_read"] / max(row["input_tokens"], 1)),
                str(row["cuts"]),
                cell(row["at_cut"]["argument_retention"]),
                cell(row["at_cut"]["answer_grounding"]),
                cell(row["task_kept"]),
            )
            for row in rows
        ]

    _HEAD = ("manager", "cost", "tokens/call", "cached", "cuts", "arguments", "answers", "task")

    def _caption(self) -> str:
        calls = max((row["calls"] for row in self.rows), default=0)
        return f"{self.conversations} conversations, {calls} calls, {self.model or 'no model named'}"

    def __str__(self) -> str:
        rows = [self._HEAD, *self._cells()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(self._HEAD))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([self._caption(), *lines, *([self.advice] if self.advice else [])])

    def _repr_html_(self) -> str:
        return table(self._HEAD, self._cells(), self._caption()) + (f"<p>{escape(self.advice)}</p>" if self.advice else "")


def kept(row: dict[str, Any]) -> float:
    """The mean of what is known of what was kept; 1 if nothing was at stake."""
    shares = [share for share in row["at_cut"].values() if share is not None]
    return sum(shares) / len(shares) if shares else 1.0


def simulate(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    managers: Sequence[object] | Mapping[str, object] | str = (),
    *,
    model: str | None = None,
    budgets: Sequence[int] = (),
    lost: bool = False,
) -> Simulation:
    """Replays recorded conversations call by call under each manager, offline: what it would have sent, cost and lost.

    `paths` are transcripts of any known format, requests, or folders of them. Without `managers` the usual field competes, as on
    the command line. A `B` in a manager stands for each of the `budgets`, which are tokens: `simulate("logs", ["auto(B)"],
    budgets=[8_000, 16_000])`. With `lost` each conversation lists the values that a manager would have lost.

    >>> from scrollback import simulate
    >>> import json, pathlib
    >>> talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    >>> _ = pathlib.Path("talk.json").write_text(json.dumps(talk))
    >>> table = simulate("talk.json", ["passthrough", "sliding_window(B)"], budgets=[2, 4])
    >>> [row["manager"] for row in table]
    ['passthrough', 'sliding_window(2)', 'sliding_window(4)']
    """
    listed = paths_of(paths)
    if isinstance(managers, (str, Mapping)):
        managers = [managers]
    texts = [manager_text(manager) for manager in managers]
    if not listed:
        raise ArgumentError("simulate needs at least one path", "bad_argument")
    _, model = options_of(None, model)
    tokens = [whole(budget, "a budget", 1) for budget in budgets]
    return Simulation(json.loads(_core.simulate(listed, texts, model, tokens, bool(lost))))
