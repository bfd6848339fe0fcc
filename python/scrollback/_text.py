"""Messages as JSON text: what crosses into the engine, once."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ._errors import MessagesError

__all__ = ["Messages", "text_of"]

#: Messages as programs have them: a list, a request, one message, an object of a provider's SDK, or JSON text of any of them.
Messages = Any


def text_of(messages: Messages) -> str:
    """JSON text of messages. Text is taken as JSON that is there already."""
    if isinstance(messages, (bytes, bytearray, memoryview)):
        try:
            messages = bytes(messages).decode("utf-8")
        except UnicodeDecodeError as error:
            raise MessagesError(f"the bytes are not UTF-8 at byte {error.start}: decode them first", "bad_text") from None
    if isinstance(messages, str):
        if messages.lstrip()[:1] not in ("{", "["):
            raise MessagesError(
                'a text that is not JSON: say who said it, as in {"role": "user", "content": "…"}', "bad_json"
            )
        text = messages
    else:
        if messages is None or isinstance(messages, (bool, int, float)):
            raise MessagesError(
                f"messages are a list, a dict, an SDK object or JSON text, not {type(messages).__name__}", "bad_input"
            )
        try:
            text = json.dumps(messages, default=plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except MessagesError:
            raise
        except RecursionError:
            raise MessagesError("the messages are nested too deeply", "bad_json") from None
        except (ValueError, TypeError) as error:
            where, what = trouble(messages, "", set())
            raise MessagesError(what or str(error), "bad_json", where) from None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise MessagesError(
            f"half a surrogate pair at character {error.start} of the JSON text: the text was cut inside a character; "
            "clean it with .encode('utf-8', 'replace').decode()",
            "bad_text",
        ) from None
    return text


def plain(value: object) -> object:
    """An SDK's object as what JSON can say: only what the provider said, by the provider's names."""
    found: Any = value
    if callable(getattr(found, "to_dict", None)) and callable(getattr(found, "model_dump", None)):
        try:
            said = found.to_dict(mode="json")
        except TypeError:
            said = found.to_dict()
        return unparsed(said) if type(found).__name__.startswith("Parsed") else said
    if callable(getattr(found, "model_dump", None)):
        return found.model_dump(mode="json", by_alias=True, exclude_none=True)
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        return {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    if isinstance(found, Mapping):
        return dict(found)
    if isinstance(found, (tuple, set, frozenset)) or (isinstance(found, Sequence) and not isinstance(found, str)):
        return list(cast("Sequence[Any]", found))
    raise MessagesError(
        f"{type(found).__name__} cannot be written as JSON: give a dict, or an object with model_dump()", "bad_input"
    )


#: What SDKs put beside the provider's words when they parse them for the program.
PARSED = ("parsed", "parsed_arguments", "parsed_output")


def unparsed(said: Any) -> Any:
    """A reply without what the SDK made of it, which no provider takes back. Inputs of tools are the model's own."""
    if isinstance(said, list):
        return [unparsed(one) for one in said]
    if not isinstance(said, dict):
        return said
    pairs = said.items()
    return {key: value if key == "input" else unparsed(value) for key, value in pairs if key not in PARSED}


def trouble(value: object, path: str, seen: set[int]) -> tuple[str, str]:
    """Where a value cannot be JSON, and why."""
    if isinstance(value, float) and not math.isfinite(value):
        return path, f"{value} at {path or '/'} is not a number that JSON has: use None or a text"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 10_000:
        return path, f"the integer at {path or '/'} is too large to be written: use a text"
    if not isinstance(value, (Mapping, list, tuple)):
        return path, ""
    if id(cast("object", value)) in seen:
        return path, f"the value at {path or '/'} contains itself"
    seen = seen | {id(cast("object", value))}
    if isinstance(value, Mapping):
        pairs = [(str(key), inner) for key, inner in cast("Mapping[object, object]", value).items()]
    else:
        pairs = [(str(index), inner) for index, inner in enumerate(cast("Sequence[object]", value))]
    for key, inner in pairs:
        where, what = trouble(inner, f"{path}/{key}", seen)
        if what:
            return where, what
    return path, ""
