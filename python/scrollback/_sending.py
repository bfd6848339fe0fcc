"""What adapters send: a framework's model may be one that nobody knows, and that must not keep a program from asking it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from ._errors import ScrollbackError

__all__ = ["model_name", "sent_to"]

T = TypeVar("T")

#: What `auto` is where the window of the model is not known.
ROOM = "auto(32k)"


def sent_to(show: Callable[[object, str | None], T], manager: object, model: str | None) -> T:
    """What a manager shows for a model. Where the model is not known it is shown without; `auto`, which has the model's window for
    its limit, is then `auto(32k)`."""
    attempts: list[tuple[object, str | None]] = [(manager, model)] if model else []
    attempts.append((manager, None))
    if manager == "auto":
        attempts.append((ROOM, None))
    for attempt in attempts[:-1]:
        try:
            return show(*attempt)
        except ScrollbackError as error:
            if error.code != "unknown_model":
                raise
    return show(*attempts[-1])


def model_name(model: Any) -> str | None:
    """The name of a framework's model, as far as it says one."""
    if isinstance(model, str):
        return model or None
    for name in ("model_name", "model_id", "model"):
        found: Any = cast("Any", model).get(name) if isinstance(model, dict) else getattr(model, name, None)
        if isinstance(found, str) and found:
            return found
    return None
