"""`scrollback.wrap`: the real clients of OpenAI and Anthropic, and a scripted server behind them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx
import httpx2  # what the client of Anthropic stands on
import openai
import pytest

from scrollback import ArgumentError, Store, wrap


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
