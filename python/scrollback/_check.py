"""Arguments, before they reach the engine or a server: the same exception for both, and it says what was expected."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from datetime import timezone
from typing import Any

from ._errors import ArgumentError

__all__ = ["MOST_HITS", "MOST_LISTED", "end_of", "moment", "path_of", "paths_of", "position", "positions_of", "text", "whole"]

#: What fits into a position of a record.
LARGEST = 2**63 - 1
#: As many hits as one answer has.
MOST_HITS = 500
#: As many conversations as one list has: each is a value in memory.
MOST_LISTED = 100_000


def text(value: Any, what: str, example: str) -> str:
    """A text that can be written as UTF-8."""
    if not isinstance(value, str):
        raise ArgumentError(f"{what} is a text, as in {example}, not {type(value).__name__}", "bad_argument")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        message = f"{what} has half a surrogate pair at character {error.start}: it was cut inside a character"
        raise ArgumentError(message, "bad_text") from None
    return value


def whole(value: Any, what: str, least: int = 0, most: int = LARGEST) -> int:
    """A whole number within bounds; what has `__index__` is one, such as numpy's."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise ArgumentError(f"{what} is a whole number, not {type(value).__name__}", "bad_argument")
    if not least <= number <= most:
        bounds = f"at least {least}" if most == LARGEST else f"between {least} and {most}"
        shown = str(number) if number.bit_length() < 200 else "a number of that size"
        raise ArgumentError(f"{what} is {bounds}, not {shown}", "bad_argument")
    return number


def moment(value: Any, what: str) -> str:
    """A time: a `datetime` with its zone, or a text such as 2026-01-31T12:00:00Z."""
    if isinstance(value, str):
        return text(value, what, '"2026-01-31T12:00:00Z"')
    in_utc: Any = getattr(value, "astimezone", None)
    if not callable(in_utc) or not hasattr(value, "tzinfo"):
        message = f'{what} is a datetime, or a text such as "2026-01-31T12:00:00Z", not {type(value).__name__}'
        raise ArgumentError(message, "bad_argument")
    if value.tzinfo is None:
        raise ArgumentError(f"{what} has no time zone: say datetime.now(timezone.utc), not datetime.now()", "bad_argument")
    return str(value.astimezone(timezone.utc).isoformat(timespec="milliseconds")).replace("+00:00", "Z")


def position(value: Any, what: str = "a position of the record") -> int:
    """A place in a record."""
    return whole(value, what)


def end_of(first: int, last: Any, what: str) -> int:
    """The last of two positions."""
    end = position(last)
    if end < first:
        raise ArgumentError(f"{what}: the first position, {first}, lies after the last, {end}", "bad_range")
    return end


def positions_of(values: Any, what: str) -> list[int]:
    """Places in a record."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ArgumentError(f"{what} takes a list of positions, as in {what}([0, 4]), not {type(values).__name__}", "bad_argument")
    found: Iterable[Any] = values
    return [position(value) for value in found]


def paths_of(values: Any) -> list[str]:
    """Names of files and folders; one alone is a list of one."""
    listed: Sequence[Any] = [values] if isinstance(values, (str, bytes, os.PathLike)) or not isinstance(values, Iterable) else list(values)
    return [path_of(value, "a path") for value in listed]


def path_of(value: Any, what: str) -> str:
    """The name of a file as text."""
    try:
        return os.fsdecode(value)
    except TypeError:
        message = f"{what} is a text or a path, as in \"scrollback.db\", not {type(value).__name__}"
        raise ArgumentError(message, "bad_argument") from None
