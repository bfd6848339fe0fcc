"""Judges request bodies by the types in the providers' own Python packages.

Reads JSON lines {"wire": …, "body": {…}} and answers each with {"ok": true} or {"ok": false, "error": …}.

What a body says about the conversation must fit exactly: every required key, no unknown key, no value of another
type. A model and a number of tokens are filled in where the body names none, since a list of messages has neither.
"""

import base64
import binascii
import json
import re
import sys
from functools import cache

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

FILLED_IN = {
    "openai-chat": {"model": "gpt-5"},
    "openai-responses": {"model": "gpt-5"},
    "anthropic": {"model": "claude-opus-4-5", "max_tokens": 1024},
    "anthropic-beta": {"model": "claude-opus-4-5", "max_tokens": 1024},
    "bedrock": {"modelId": "anthropic.claude-opus-4-5"},
}


def judge(wire, body):
    """Why the package would not take the body; None if it would."""
    body = FILLED_IN.get(wire, {}) | body
    if wire == "gemini":
        return judge_gemini(body)
    if wire == "bedrock":
        return judge_bedrock(body)
    try:
        typed_dict(wire).validate_python(body, strict=True)
    except ValidationError as error:
        return describe(error)
    return None


def describe(error):
    """The problems as one line. Of a union, only the members that the value calls itself are worth a word."""
    problems = error.errors(include_url=False)
    others = [
        problem["loc"][:-1]
        for problem in problems
        if problem["type"] == "literal_error" and problem["loc"][-1] in ("type", "role")
    ]
    meant = [problem for problem in problems if not any(problem["loc"][: len(other)] == other for other in others)]
    lines = []
    for problem in meant or problems:
        steps = [str(step) for step in problem["loc"] if "[" not in str(step)]
        lines.append(f"{'.'.join(steps)}: {problem['msg']}")
    return "; ".join(lines[:6])


# The OpenAI and Anthropic packages describe requests as typed dictionaries.


def request_type(wire):
    if wire == "openai-chat":
        from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as Request
    elif wire == "openai-responses":
        from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming as Request
    elif wire == "anthropic":
        from anthropic.types.message_create_params import MessageCreateParamsNonStreaming as Request
    elif wire == "anthropic-beta":
        from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming as Request
    else:
        raise SystemExit(f"there is no wire called {wire}")
    return Request


@cache
def typed_dict(wire):
    return SchemaValidator(exact(TypeAdapter(request_type(wire)).core_schema))


def exact(schema):
    """The same schema, with unknown keys refused and every list looked into.

    Pydantic reads an `Iterable` only when somebody asks for its items, and so would take anything inside of one.
    """
    if isinstance(schema, list):
        return [exact(part) for part in schema]
    if isinstance(schema, tuple):
        return tuple(exact(part) for part in schema)
    if not isinstance(schema, dict):
        return schema
    schema = {key: exact(part) for key, part in schema.items()}
    if schema.get("type") == "generator":
        schema["type"] = "list"
    if schema.get("type") == "typed-dict" and "extras_schema" not in schema:
        schema["extra_behavior"] = "forbid"
    return schema


# Google's package has models of its own, which refuse unknown keys themselves.


def judge_gemini(body):
    from google.genai import types

    body = dict(body)
    contents = body.pop("contents", [])
    system = body.pop("systemInstruction", None)
    config = body | body.pop("generationConfig", {})
    parts = [("contents", types.Content, content) for content in contents]
    parts += [("systemInstruction", types.Content, system)] if system is not None else []
    parts += [("config", types.GenerateContentConfig, config)]
    for name, model, value in parts:
        try:
            model.model_validate_json(json.dumps(value))
        except ValidationError as error:
            return f"{name}: {describe(error)}"
    return None


# Amazon's package has the service's model, whose limits on texts it leaves to the service.


@cache
def converse():
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    description = Loader().load_service_model("bedrock-runtime", "service-2")
    return ServiceModel(description).operation_model("Converse").input_shape


def judge_bedrock(body):
    from botocore.validate import ParamValidator

    problems = []
    value = decoded(converse(), body, "", problems)
    report = ParamValidator().validate(value, converse())
    problems += [report.generate_report()] if report.has_errors() else []
    return "; ".join(problems) or None


def decoded(shape, value, place, problems):
    """The value with its base64 read, as callers of the package give it; problems with texts are added."""
    if shape.type_name == "structure" and isinstance(value, dict) and not shape.is_document_type:
        members = shape.members
        return {
            key: decoded(members[key], inner, f"{place}.{key}", problems) if key in members else inner
            for key, inner in value.items()
        }
    if shape.type_name == "list" and isinstance(value, list):
        for limit, wrong in [("min", int.__lt__), ("max", int.__gt__)]:
            if limit in shape.metadata and wrong(len(value), shape.metadata[limit]):
                problems.append(f"{place}: {len(value)} items, {limit} {shape.metadata[limit]}")
        return [decoded(shape.member, inner, f"{place}[{at}]", problems) for at, inner in enumerate(value)]
    if shape.type_name == "map" and isinstance(value, dict):
        return {key: decoded(shape.value, inner, f"{place}.{key}", problems) for key, inner in value.items()}
    if shape.type_name == "blob" and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            problems.append(f"{place}: {error}")
    if shape.type_name == "string" and isinstance(value, str):
        pattern = shape.metadata.get("pattern")
        if shape.enum and value not in shape.enum:
            problems.append(f"{place}: not one of {', '.join(shape.enum)}")
        if pattern and not re.fullmatch(pattern, value):
            problems.append(f"{place}: does not match {pattern}")
        if len(value) > shape.metadata.get("max", len(value)):
            problems.append(f"{place}: longer than {shape.metadata['max']}")
    return value


def main():
    for line in sys.stdin:
        case = json.loads(line)
        error = judge(case["wire"], case["body"])
        print(json.dumps({"ok": error is None} | ({"error": error} if error else {})))


if __name__ == "__main__":
    main()
