"""What the scripted provider says: a reply in neutral form, and the same on every wire."""

import json
import time


class Reply:
    """One answer: texts, thoughts and calls in order."""

    def __init__(self, *parts, stop=None):
        self.parts, self.stop = list(parts), stop
        self.id, self.calls = "", []

    def named(self, name, words):
        """The same with ids that depend on the script alone, so that two runs of it are told the same, and `words` in place."""
        again = Reply(*(tuple(filled(one, words) for one in part) for part in self.parts), stop=self.stop)
        again.id, again.calls = name, []
        for number, part in enumerate(part for part in self.parts if part[0] == "call"):
            again.calls.append(f"{name}_{number}")
        return again

    def words(self):
        return sum(len(json.dumps(part)) for part in self.parts)

    def output_tokens(self):
        return 1 + self.words() // 4


def filled(value, words):
    """A value with `{work}` and the like replaced."""
    if isinstance(value, dict):
        return {key: filled(one, words) for key, one in value.items()}
    if isinstance(value, str):
        for name, word in words.items():
            value = value.replace("{" + name + "}", word)
    return value


def text(words):
    return ("text", words)


def thought(words):
    return ("thinking", words)


def call(name, **arguments):
    return ("call", name, arguments)


def say(words):
    return Reply(text(words))


def do(name, **arguments):
    return Reply(call(name, **arguments))


class Fail:
    """An error instead of an answer."""

    def __init__(self, status, kind, message, headers=()):
        self.status, self.kind, self.message, self.headers = status, kind, message, dict(headers)


class Lost:
    """The connection is lost: before the first byte, or after a part of the reply."""

    def __init__(self, reply=None):
        self.reply = reply


class Spoilt:
    """A part of the reply, then an error event."""

    def __init__(self, reply, kind="overloaded_error", message="Overloaded"):
        self.reply, self.kind, self.message = reply, kind, message


def event(kind, value):
    return f"event: {kind}\ndata: {json.dumps(value)}\n\n".encode()


def halves(words):
    """A text in two pieces, so that streams have more than one."""
    middle = max(1, len(words) // 2)
    return [piece for piece in (words[:middle], words[middle:]) if piece]


# Messages


def messages_usage(usage, output):
    return {
        "input_tokens": usage.fresh,
        "cache_creation_input_tokens": usage.write + usage.hour,
        "cache_read_input_tokens": usage.read,
        "cache_creation": {"ephemeral_5m_input_tokens": usage.write, "ephemeral_1h_input_tokens": usage.hour},
        "output_tokens": output,
        "service_tier": "standard",
    }


def messages_blocks(reply, sign):
    calls = iter(reply.calls)
    for part in reply.parts:
        if part[0] == "text":
            yield {"type": "text", "text": part[1]}
        elif part[0] == "thinking":
            yield {"type": "thinking", "thinking": part[1], "signature": sign(part[1])}
        else:
            yield {"type": "tool_use", "id": "toolu_" + next(calls), "name": part[1], "input": part[2]}


def messages_stop(reply):
    return reply.stop or ("tool_use" if reply.calls else "end_turn")


def message(body, reply, usage, sign):
    return {
        "id": "msg_" + reply.id,
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": list(messages_blocks(reply, sign)),
        "stop_reason": messages_stop(reply),
        "stop_sequence": None,
        "usage": messages_usage(usage, reply.output_tokens()),
    }


def messages_stream(body, reply, usage, sign):
    whole = message(body, reply, usage, sign)
    blocks = whole.pop("content")
    start = dict(whole, content=[], stop_reason=None, usage=messages_usage(usage, 1))
    yield event("message_start", {"type": "message_start", "message": start})
    yield event("ping", {"type": "ping"})
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty, deltas = dict(block, text=""), [{"type": "text_delta", "text": one} for one in halves(block["text"])]
        elif block["type"] == "thinking":
            empty = dict(block, thinking="", signature="")
            deltas = [{"type": "thinking_delta", "thinking": one} for one in halves(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        else:
            empty = dict(block, input={})
            pieces = halves(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": one} for one in pieces]
        yield event("content_block_start", {"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            yield event("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})
        yield event("content_block_stop", {"type": "content_block_stop", "index": index})
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": reply.output_tokens()}
    yield event("message_delta", {"type": "message_delta", "delta": end, "usage": usage})
    yield event("message_stop", {"type": "message_stop"})


# Responses


def responses_usage(usage, output):
    return {
        "input_tokens": usage.total,
        "input_tokens_details": {"cached_tokens": usage.read},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total + output,
    }


def responses_items(reply, freeform):
    calls = iter(reply.calls)
    for number, part in enumerate(reply.parts):
        place = f"{reply.id}_{number}"
        if part[0] == "text":
            content = [{"type": "output_text", "text": part[1], "annotations": [], "logprobs": []}]
            yield {"type": "message", "id": "msg_" + place, "role": "assistant", "status": "completed", "content": content}
        elif part[0] == "thinking":
            summary = [{"type": "summary_text", "text": part[1]}]
            sealed = "sealed-" + place
            yield {"type": "reasoning", "id": "rs_" + place, "summary": summary, "encrypted_content": sealed}
        elif part[1] in freeform:
            shared = {"id": "ctc_" + place, "call_id": "call_" + next(calls), "name": part[1], "status": "completed"}
            yield {"type": "custom_tool_call", "input": part[2]["input"], **shared}
        elif part[1] == "tool_search":
            # Tools that the client holds back until the model looks for them.
            shared = {"id": "tsc_" + place, "call_id": "call_" + next(calls), "status": "completed"}
            yield {"type": "tool_search_call", "execution": "client", "arguments": part[2], **shared}
        else:
            # A tool of a server is named by its server and its own name.
            namespace, _, name = part[1].rpartition("/")
            shared = {"id": "fc_" + place, "call_id": "call_" + next(calls), "name": name, "status": "completed"}
            if namespace:
                shared["namespace"] = namespace
            yield {"type": "function_call", "arguments": json.dumps(part[2]), **shared}


def response(body, reply, usage, freeform=()):
    return {
        "id": "resp_" + reply.id,
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "model": body.get("model"),
        "output": list(responses_items(reply, freeform)),
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store", True),
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "metadata": {},
        "usage": responses_usage(usage, reply.output_tokens()),
    }


def responses_stream(body, reply, usage, freeform=()):
    whole, number = response(body, reply, usage, freeform), 0

    def one(kind, **members):
        nonlocal number
        number += 1
        return event(kind, {"type": kind, "sequence_number": number - 1, **members})

    begun = dict(whole, status="in_progress", output=[], usage=None)
    yield one("response.created", response=begun)
    yield one("response.in_progress", response=begun)
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            part = item["content"][0]
            empty = dict(item, status="in_progress", content=[])
            yield one("response.output_item.added", output_index=index, item=empty)
            at["content_index"] = 0
            yield one("response.content_part.added", part=dict(part, text=""), **at)
            for piece in halves(part["text"]):
                yield one("response.output_text.delta", delta=piece, logprobs=[], **at)
            yield one("response.output_text.done", text=part["text"], logprobs=[], **at)
            yield one("response.content_part.done", part=part, **at)
        elif item["type"] == "function_call":
            empty = dict(item, status="in_progress", arguments="")
            yield one("response.output_item.added", output_index=index, item=empty)
            for piece in halves(item["arguments"]):
                yield one("response.function_call_arguments.delta", delta=piece, **at)
            yield one("response.function_call_arguments.done", name=item["name"], arguments=item["arguments"], **at)
        elif item["type"] == "custom_tool_call":
            yield one("response.output_item.added", output_index=index, item=dict(item, status="in_progress", input=""))
            yield one("response.custom_tool_call_input.delta", delta=item["input"], **at)
            yield one("response.custom_tool_call_input.done", input=item["input"], **at)
        elif item["type"] == "tool_search_call":
            yield one("response.output_item.added", output_index=index, item=dict(item, status="in_progress"))
        else:
            yield one("response.output_item.added", output_index=index, item=dict(item, summary=[], encrypted_content=""))
        yield one("response.output_item.done", output_index=index, item=item)
    yield one("response.completed", response=whole)


# Chat


def chat_usage(usage, output):
    return {
        "prompt_tokens": usage.total,
        "completion_tokens": output,
        "total_tokens": usage.total + output,
        "prompt_tokens_details": {"cached_tokens": usage.read},
    }


def completion(body, reply, usage):
    calls = iter(reply.calls)
    answer = {"role": "assistant", "content": "".join(part[1] for part in reply.parts if part[0] == "text") or None}
    asked = [part for part in reply.parts if part[0] == "call"]
    if asked:
        answer["tool_calls"] = [
            {"id": "call_" + next(calls), "type": "function", "function": {"name": part[1], "arguments": json.dumps(part[2])}}
            for part in asked
        ]
    return {
        "id": "chatcmpl-" + reply.id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body["model"],
        "choices": [{"index": 0, "message": answer, "finish_reason": "tool_calls" if asked else "stop", "logprobs": None}],
        "usage": chat_usage(usage, reply.output_tokens()),
    }


def chat_stream(body, reply, usage):
    whole = completion(body, reply, usage)
    answer, finish = whole["choices"][0]["message"], whole["choices"][0]["finish_reason"]
    shared = {"id": whole["id"], "object": "chat.completion.chunk", "created": whole["created"], "model": whole["model"]}

    def chunk(delta, finish=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {json.dumps({**shared, 'choices': [choice]})}\n\n".encode()

    yield chunk({"role": "assistant", "content": ""})
    for piece in halves(answer["content"] or ""):
        yield chunk({"content": piece})
    for index, one in enumerate(answer.get("tool_calls", [])):
        function = one["function"]
        opened = {"index": index, "id": one["id"], "type": "function", "function": {"name": function["name"], "arguments": ""}}
        yield chunk({"tool_calls": [opened]})
        for piece in halves(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, finish)
    if (body.get("stream_options") or {}).get("include_usage"):
        yield f"data: {json.dumps({**shared, 'choices': [], 'usage': whole['usage']})}\n\n".encode()
    yield b"data: [DONE]\n\n"


# Gemini


def generated(body, reply, usage, model, parts=None):
    if parts is None:
        parts = list(gemini_parts(reply))
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": usage.total,
            "cachedContentTokenCount": usage.read,
            "candidatesTokenCount": reply.output_tokens(),
            "totalTokenCount": usage.total + reply.output_tokens(),
        },
        "modelVersion": model,
        "responseId": "gen_" + reply.id,
    }


def gemini_parts(reply):
    calls = iter(reply.calls)
    for part in reply.parts:
        if part[0] == "text":
            yield {"text": part[1]}
        elif part[0] == "thinking":
            yield {"text": part[1], "thought": True}
        else:
            called = {"id": "fc_" + next(calls), "name": part[1], "args": part[2]}
            yield {"functionCall": called, "thoughtSignature": "c2lnbmVk"}


def gemini_stream(body, reply, usage, model):
    for part in gemini_parts(reply):
        yield f"data: {json.dumps(generated(body, reply, usage, model, [part]))}\r\n\r\n".encode()
