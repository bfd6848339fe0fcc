"""`scrollback.wrap`: the real clients of OpenAI and Anthropic, and a scripted server behind them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx
import httpx2  # what the client of Anthropic stands on
import openai
import pytest

from scrollback import ArgumentError, AsyncStore, ScrollbackError, Store, wrap


class Scripted:
    """A provider that keeps what it is sent."""

    def __init__(self, reply: Callable[[int], dict[str, Any] | str], web: Any = httpx) -> None:
        self.reply = reply
        self.web = web
        self.asked: list[dict[str, Any]] = []

    def __call__(self, request: Any) -> Any:
        self.asked.append(json.loads(request.content))
        reply = self.reply(len(self.asked))
        if isinstance(reply, str):
            return self.web.Response(200, text=reply, headers={"content-type": "text/event-stream"})
        return self.web.Response(200, json=reply)


def completion(number: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": f"answer {number}"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": [choice]}


def message(number: int) -> dict[str, Any]:
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": f"answer {number}"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def test_an_openai_client_is_recorded_and_sent_a_view() -> None:
    server, store = Scripted(completion), Store(":memory:")
    plain = openai.OpenAI(api_key="x", http_client=httpx.Client(transport=httpx.MockTransport(server)))
    client = wrap(plain, store.conversation("anna"), manager="sliding_window(3)")
    assert client is plain
    own: list[Any] = []
    for number in range(1, 6):
        own.append({"role": "user", "content": f"question {number}"})
        reply = client.chat.completions.create(model="gpt-4o", messages=own, temperature=0)
        own.append({"role": "assistant", "content": reply.choices[0].message.content})
    assert [one["content"] for one in server.asked[-1]["messages"]] == ["question 4", "answer 4", "question 5"]
    assert server.asked[-1]["temperature"] == 0 and server.asked[-1]["model"] == "gpt-4o"
    said = [entry.text for entry in store.conversation("anna").entries()]
    assert said == [f"{which} {number}" for number in range(1, 6) for which in ("question", "answer")]
    assert len(own) == 10, "the program's own list is as it was"


def test_an_anthropic_client_is_recorded_and_keeps_its_system() -> None:
    server, store = Scripted(message, httpx2), Store(":memory:")
    plain = anthropic.Anthropic(api_key="x", http_client=httpx2.Client(transport=httpx2.MockTransport(server)))
    client = wrap(plain, "anna", store=store, manager="turn_window(1)")
    for number in range(1, 4):
        client.messages.create(
            model="claude-sonnet-4-5",
            max_tokens=9,
            system="Be brief.",
            messages=[{"role": "user", "content": f"question {number}"}],
        )
    assert server.asked[-1]["messages"] == [{"role": "user", "content": "question 3"}]
    assert server.asked[-1]["system"] == "Be brief."
    assert len(store.conversation("anna")) == 6


def test_streams_are_passed_on_and_recorded_when_they_end() -> None:
    def events(number: int) -> str:
        pieces = [{"role": "assistant", "content": "an"}, {"content": "swer"}]
        call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a":'}}
        pieces += [{"tool_calls": [call]}, {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}]
        chunks = [
            {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta}]}
            for delta in pieces
        ]
        return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"

    server, store = Scripted(events), Store(":memory:")
    transport = httpx.MockTransport(server)
    client = wrap(openai.OpenAI(api_key="x", http_client=httpx.Client(transport=transport)), "anna", store=store)
    stream = client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "hi"}], stream=True)
    assert sum(1 for _ in stream) == 4
    reply = store.conversation("anna").entries()[-1].message
    assert reply is not None and reply["content"] == "answer"
    assert reply["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"a":1}'}


async def test_an_async_client_is_recorded() -> None:
    server, store = Scripted(completion), Store(":memory:")
    transport = httpx.MockTransport(server)
    client = wrap(openai.AsyncOpenAI(api_key="x", http_client=httpx.AsyncClient(transport=transport)), "anna", store=store)
    await client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "hi"}])
    assert [entry.text for entry in store.conversation("anna").entries()] == ["hi", "answer 1"]


def test_what_is_no_client_is_refused() -> None:
    with pytest.raises(ArgumentError, match="create"):
        wrap(object(), "anna", store=Store(":memory:"))


# What the SDKs offer beside `create`, with tools, in streams, raw and parsed.


def openai_client(server: Scripted) -> openai.OpenAI:
    return openai.OpenAI(api_key="x", http_client=httpx.Client(transport=httpx.MockTransport(server)))


def anthropic_client(server: Scripted) -> anthropic.Anthropic:
    server.web = httpx2
    return anthropic.Anthropic(api_key="x", http_client=httpx2.Client(transport=httpx2.MockTransport(server)))


def anthropic_events(_: int) -> str:
    start = {**message(1), "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "let me "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "look"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t1", "name": "look", "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"parsed"'}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ": 1}"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)


def response(number: int) -> dict[str, Any]:
    text = {"type": "output_text", "text": f"answer {number}", "annotations": []}
    call = {"type": "function_call", "id": f"f{number}", "call_id": f"c{number}", "name": "look", "arguments": "{}"}
    said = {"type": "message", "id": f"m{number}", "role": "assistant", "status": "completed", "content": [text]}
    return {
        "id": f"r{number}",
        "object": "response",
        "created_at": 1,
        "model": "gpt-4o",
        "status": "completed",
        "output": [call] if number == 1 else [said],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def response_events(number: int) -> str:
    told = response(number)
    events = [
        {"type": "response.created", "sequence_number": 0, "response": {**told, "output": [], "status": "in_progress"}},
        {"type": "response.completed", "sequence_number": 1, "response": told},
    ]
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)


def chat_events(_: int) -> str:
    chunks = [
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [one]}
        for one in (
            {"index": 0, "delta": {"role": "assistant", "content": "ans"}, "finish_reason": None},
            {"index": 0, "delta": {"content": "wer"}, "finish_reason": None},
            {"index": 0, "delta": {}, "finish_reason": "stop"},
        )
    ]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def texts(store: Store, name: str = "anna") -> list[tuple[str | None, str | None]]:
    return [(entry.role, entry.text) for entry in store.conversation(name).entries() if entry.kind == "message"]


HI: list[Any] = [{"role": "user", "content": "hi"}]


def test_a_stream_of_anthropic_with_a_tool_call_is_recorded_whole() -> None:
    store = Store(":memory:")
    client = wrap(anthropic_client(Scripted(anthropic_events)), "anna", store=store)
    with client.messages.create(model="claude-sonnet-4-5", max_tokens=9, messages=HI, stream=True) as stream:
        assert sum(1 for _ in stream) == 11
    said = store.conversation("anna").entries()[-1].message
    assert said is not None and said["content"] == [
        {"type": "text", "text": "let me look"},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"parsed": 1}},
    ]


def test_a_stream_that_is_left_early_is_recorded_as_far_as_it_can_be_used() -> None:
    store = Store(":memory:")
    client = wrap(anthropic_client(Scripted(anthropic_events)), "anna", store=store)
    with client.messages.create(model="claude-sonnet-4-5", max_tokens=9, messages=HI, stream=True) as stream:
        for _ in range(7):
            next(stream)
    said = store.conversation("anna").entries()[-1].message
    assert said is not None and said["content"] == [{"type": "text", "text": "let me look"}]


def test_the_streams_with_helpers_are_recorded_once_and_stay_the_sdks_own() -> None:
    store = Store(":memory:")
    client = wrap(anthropic_client(Scripted(anthropic_events)), "anna", store=store)
    with client.messages.stream(model="claude-sonnet-4-5", max_tokens=9, messages=HI) as stream:
        assert "".join(stream.text_stream) == "let me look"
        assert stream.get_final_message().stop_reason == "tool_use"
    assert [role for role, _ in texts(store)] == ["user", "assistant"]
    other = wrap(openai_client(Scripted(chat_events)), "bert", store=store)
    with other.chat.completions.stream(model="gpt-4o", messages=HI) as helped:
        for _ in helped:
            pass
        assert helped.get_final_completion().choices[0].message.content == "answer"
    assert texts(store, "bert") == [("user", "hi"), ("assistant", "answer")]
    third = wrap(openai_client(Scripted(lambda _: response_events(2))), "cleo", store=store)
    with third.responses.stream(model="gpt-4o", input="hi") as answered:
        assert answered.get_final_response().output_text == "answer 2"
    assert texts(store, "cleo") == [("user", "hi"), ("assistant", "answer 2")]


def test_responses_with_a_tool_keep_the_call_and_its_result_together() -> None:
    server, store = Scripted(response), Store(":memory:")
    client = wrap(openai_client(server), "anna", store=store, manager="turn_window(1)")
    client.responses.create(model="gpt-4o", input="look")
    own: list[Any] = [
        {"role": "user", "content": "look"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    ]
    client.responses.create(model="gpt-4o", input=own)
    assert [item.get("type", "message") for item in server.asked[1]["input"]] == ["message", "function_call", "function_call_output"]
    assert [role for role, _ in texts(store)] == ["user", "assistant", "tool", "assistant"]
    for event in client.responses.create(model="gpt-4o", input="and now?", stream=False).output:
        assert event.type == "message"
    assert [item["content"] for item in server.asked[2]["input"]] == ["and now?"], "the turn before is not sent"


def test_what_the_provider_keeps_is_not_sent_twice() -> None:
    server, store = Scripted(response), Store(":memory:")
    client = wrap(openai_client(server), "anna", store=store)
    for number in (2, 3):
        client.responses.create(model="gpt-4o", input=f"question {number}", previous_response_id="r1")
    assert server.asked[1]["input"] == [{"role": "user", "content": "question 3"}]
    assert len(texts(store)) == 4


def test_raw_and_parsed_replies_are_recorded_as_the_provider_said_them() -> None:
    from pydantic import BaseModel

    class Weather(BaseModel):
        sky: str

    def reply(number: int) -> dict[str, Any]:
        told = completion(number)
        told["choices"][0]["message"]["content"] = '{"sky": "blue"}'
        return told

    server, store = Scripted(reply), Store(":memory:")
    client = wrap(openai_client(server), "anna", store=store)
    parsed = client.chat.completions.parse(model="gpt-4o", messages=HI, response_format=Weather)
    assert parsed.choices[0].message.parsed == Weather(sky="blue")
    raw = client.chat.completions.with_raw_response.create(model="gpt-4o", messages=[{"role": "user", "content": "again"}])
    assert raw.parse().choices[0].message.content == '{"sky": "blue"}'
    assert texts(store) == [("user", "hi"), ("assistant", '{"sky": "blue"}'), ("user", "again"), ("assistant", '{"sky": "blue"}')]
    assert "parsed" not in str(store.conversation("anna").entries()[1].raw)


def test_wrapping_again_puts_the_new_conversation_in_the_place_of_the_old() -> None:
    store = Store(":memory:")
    client = openai_client(Scripted(completion))
    for name in ("anna", "bert"):
        wrap(client, name, store=store).chat.completions.create(model="gpt-4o", messages=HI)
    assert len(texts(store, "anna")) == 2 and len(texts(store, "bert")) == 2


async def test_async_streams_and_clients_beside_each_other_do_not_mix() -> None:
    store = Store(":memory:")

    async def one(name: str) -> None:
        transport = httpx.MockTransport(Scripted(chat_events))
        client = wrap(openai.AsyncOpenAI(api_key="x", http_client=httpx.AsyncClient(transport=transport)), name, store=store)
        said: list[Any] = [{"role": "user", "content": name}]
        async for _ in await client.chat.completions.create(model="gpt-4o", messages=said, stream=True):
            await asyncio.sleep(0)
        async with client.chat.completions.stream(model="gpt-4o", messages=[{"role": "user", "content": f"{name} again"}]) as stream:
            async for _ in stream:
                await asyncio.sleep(0)

    names = [f"person {number}" for number in range(5)]
    await asyncio.gather(*map(one, names))
    for name in names:
        assert texts(store, name) == [("user", name), ("assistant", "answer"), ("user", f"{name} again"), ("assistant", "answer")]


def test_a_model_that_nobody_knows_is_asked_like_any_other() -> None:
    server, store = Scripted(completion), Store(":memory:")
    client = wrap(openai_client(server), "anna", store=store)
    client.chat.completions.create(model="ft:of-our-own", messages=HI)
    assert server.asked[0]["messages"] == HI and len(texts(store)) == 2


# Raw responses, which a program reads itself; requests that are too large; what a reply may hold.


def async_openai(server: Scripted) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="x", http_client=httpx.AsyncClient(transport=httpx.MockTransport(server)))


def async_anthropic(server: Scripted) -> anthropic.AsyncAnthropic:
    server.web = httpx2
    return anthropic.AsyncAnthropic(api_key="x", http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(server)))


READERS = ("parse", "json", "text", "iter_lines", "iter_bytes")


@pytest.mark.parametrize("how", READERS)
async def test_streaming_responses_are_recorded_however_their_body_is_read(how: str) -> None:
    store = Store(":memory:")
    for name, reply in (("plain", completion), ("stream", lambda _: chat_events(1))):
        streams = name == "stream"
        if streams and how in ("json", "text"):
            continue
        client = wrap(openai_client(Scripted(reply)), f"sync {name}", store=store)
        with client.chat.completions.with_streaming_response.create(model="gpt-4o", messages=HI, stream=streams) as response:
            assert response.status_code == 200
            got: Any = getattr(response, how)()
            _ = list(got) if how.startswith("iter") or streams else got
        other = wrap(async_openai(Scripted(reply)), f"async {name}", store=store)
        async with other.chat.completions.with_streaming_response.create(model="gpt-4o", messages=HI, stream=streams) as awaited:
            got = getattr(awaited, how)()
            if how.startswith("iter"):
                _ = [piece async for piece in got]
            elif streams:
                _ = [piece async for piece in await got]
            else:
                await got
        said = "answer" if streams else "answer 1"
        for kind in ("sync", "async"):
            assert texts(store, f"{kind} {name}") == [("user", "hi"), ("assistant", said)], kind


async def test_raw_responses_of_every_client_are_recorded_once() -> None:
    store = Store(":memory:")
    raw = wrap(openai_client(Scripted(lambda _: chat_events(1))), "openai", store=store)
    got = raw.chat.completions.with_raw_response.create(model="gpt-4o", messages=HI, stream=True)
    assert len(list(got.parse())) == 3 and got.headers["content-type"] == "text/event-stream"
    assert texts(store, "openai") == [("user", "hi"), ("assistant", "answer")]
    awaited = wrap(async_openai(Scripted(completion)), "openai async", store=store)
    answer = await awaited.chat.completions.with_raw_response.create(model="gpt-4o", messages=HI)
    assert answer.parse().choices[0].message.content == "answer 1"
    assert texts(store, "openai async") == [("user", "hi"), ("assistant", "answer 1")]
    claude = wrap(async_anthropic(Scripted(message)), "anthropic async", store=store)
    reply: Any = await claude.messages.with_raw_response.create(model="claude-sonnet-4-5", max_tokens=9, messages=HI)
    parsed = reply.parse()
    parsed = await parsed if asyncio.iscoroutine(parsed) else parsed
    assert parsed.content[0].text == "answer 1"
    assert texts(store, "anthropic async") == [("user", "hi"), ("assistant", "answer 1")]


def test_refusals_citations_and_old_function_calls_of_streams_are_recorded() -> None:
    def chunks(*deltas: dict[str, Any], end: str = "stop") -> str:
        told = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        told.append({"index": 0, "delta": {}, "finish_reason": end})
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        whole = [{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [one]} for one in told]
        whole.append({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage})
        return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in whole) + "data: [DONE]\n\n"

    def said(name: str, events: str) -> dict[str, Any]:
        client = wrap(openai_client(Scripted(lambda _: events)), name, store=store)
        for _ in client.chat.completions.create(model="gpt-4o", messages=HI, stream=True):
            pass
        found = store.conversation(name).entries()[-1].message
        assert found is not None
        return found

    store = Store(":memory:")
    refused = said("refusal", chunks({"role": "assistant", "refusal": "I "}, {"refusal": "will not"}))
    assert refused["refusal"] == "I will not"
    call = ({"function_call": {"name": "look", "arguments": '{"a"'}}, {"function_call": {"arguments": ": 1}"}})
    assert said("function", chunks(*call, end="function_call"))["function_call"] == {"name": "look", "arguments": '{"a": 1}'}

    citation = {
        "type": "char_location", "cited_text": "blue", "document_index": 0, "document_title": "sky",
        "start_char_index": 0, "end_char_index": 4, "file_id": None,
    }  # fmt: skip
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message(1), "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "citations": []}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "blue"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": citation}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    server = Scripted(lambda _: "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events))
    client = wrap(anthropic_client(server), "claude", store=store)
    for _ in client.messages.create(model="claude-sonnet-4-5", max_tokens=9, messages=HI, stream=True):
        pass
    found = store.conversation("claude").entries()[-1].message
    assert found is not None and found["content"] == [{"type": "text", "text": "blue", "citations": [citation]}]


@pytest.mark.parametrize("place", ["memory", "server"])
def test_tools_and_instructions_take_their_part_of_the_budget(place: str, request: pytest.FixtureRequest) -> None:
    store = Store(":memory:" if place == "memory" else request.getfixturevalue("server"))
    tool = {"type": "function", "function": {"name": "look", "description": "word " * 1000, "parameters": {"type": "object"}}}
    long = [{"role": "user" if number % 2 == 0 else "assistant", "content": "word " * 100} for number in range(21)]
    sent: dict[str, int] = {}
    for name, more in (("alone", {}), ("with tools", {"tools": [tool]})):
        server = Scripted(completion)
        client: Any = wrap(openai_client(server), name, store=store, manager="token_budget(2000)")
        client.chat.completions.create(model="gpt-4o", messages=long, **more)
        sent[name] = len(server.asked[0]["messages"])
    assert sent["with tools"] < sent["alone"] < 21
    server = Scripted(message, httpx2)
    claude = wrap(anthropic_client(server), "instructed", store=store, manager="token_budget(2000)")
    claude.messages.create(model="claude-sonnet-4-5", max_tokens=9, system="word " * 1000, messages=long)  # type: ignore[arg-type]
    assert len(server.asked[0]["messages"]) < sent["alone"]


@pytest.mark.parametrize("awaits", [False, True])
async def test_a_request_that_is_too_large_is_tried_once_more_with_half(awaits: bool) -> None:
    refusal = {"error": {"message": "This model's maximum context length is 100 tokens", "code": "context_length_exceeded"}}

    class Small(Scripted):
        def __call__(self, request: Any) -> Any:
            answer = super().__call__(request)
            return self.web.Response(400, json=refusal) if len(self.asked[-1]["messages"]) > 12 else answer

    store, server = Store(":memory:"), Small(completion)
    long: list[Any] = [{"role": "user" if number % 2 == 0 else "assistant", "content": "word " * 20} for number in range(21)]
    if awaits:
        reply = await wrap(async_openai(server), "anna", store=store).chat.completions.create(model="gpt-4o", messages=long)
    else:
        reply = wrap(openai_client(server), "anna", store=store).chat.completions.create(model="gpt-4o", messages=long)
    assert reply.choices[0].message.content == "answer 2"
    assert [len(one["messages"]) for one in server.asked][0] == 21 and len(server.asked) == 2
    assert len(texts(store)) == 22, "the record has everything"

    class Never(Scripted):
        def __call__(self, request: Any) -> Any:
            return self.web.Response(400, json=refusal)

    never = Never(completion)
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        wrap(openai_client(never), "bert", store=store).chat.completions.create(model="gpt-4o", messages=HI)


def test_a_reply_that_cannot_be_recorded_is_not_lost() -> None:
    store = Store(":memory:")

    def reply(number: int) -> dict[str, Any]:
        store.close()
        return completion(number)

    client = wrap(openai_client(Scripted(reply)), "anna", store=store)
    with pytest.raises(ScrollbackError) as refused:
        client.chat.completions.create(model="gpt-4o", messages=HI)
    assert refused.value.code == "closed"
    answer: Any = refused.value.reply
    assert answer.choices[0].message.content == "answer 1"


async def test_async_stores_and_conversations_are_taken_as_well() -> None:
    async with AsyncStore(":memory:") as store:
        client = wrap(async_openai(Scripted(completion)), await store.conversation("anna"))
        await client.chat.completions.create(model="gpt-4o", messages=HI)
        wrap(async_openai(Scripted(completion)), "bert", store=store)
        assert len(texts(store.sync)) == 2
    with pytest.raises(ArgumentError, match="conversation"):
        wrap(openai_client(Scripted(completion)), 7)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="store"):
        wrap(openai_client(Scripted(completion)), "anna", store="scrollback.db")  # type: ignore[arg-type]
