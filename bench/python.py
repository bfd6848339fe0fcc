"""The Python package beside what people use now, in one process: one call on 10,000 messages, and the loop of 1,000.

In the loop a conversation grows by one message, and each time the messages for the next call are chosen again; conversion to
and from the forms of each library is included. Every library keeps the newest messages within the same budget. Ours stands there
twice: with a conversation that grows in a store, and with `curate`, which is given the whole list each time as the others are.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import statistics
import sys
import time
from typing import Any, Callable

from scrollback import Store, curate

WORDS = "the order has left the warehouse and will arrive on Thursday between nine and noon".split()
BUDGET = 4_000
REPEATS = 3
LOOP = 1_000


def talk(count: int) -> list[dict[str, str]]:
    return [
        {"role": "user" if number % 2 == 0 else "assistant", "content": " ".join(WORDS[: 4 + number % 11]) + f" {number}"}
        for number in range(count)
    ]


def seconds(work: Callable[[], Any]) -> float:
    times: list[float] = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def ours(messages: list[dict[str, str]]) -> Any:
    return curate(messages, f"token_budget({BUDGET})", model="gpt-4o")


def our_loop(messages: list[dict[str, str]]) -> None:
    with Store(":memory:") as store:
        chat = store.conversation("loop")
        for message in messages:
            chat.append(message)
            _ = chat.view(f"token_budget({BUDGET})", model="gpt-4o").messages


def our_loop_without_store(messages: list[dict[str, str]]) -> None:
    for length in range(1, len(messages) + 1):
        ours(messages[:length])


def langchain(messages: list[dict[str, str]]) -> Any:
    from langchain_core.messages import convert_to_messages, convert_to_openai_messages, trim_messages
    from langchain_core.messages.utils import count_tokens_approximately

    kept = trim_messages(
        convert_to_messages(messages), max_tokens=BUDGET, strategy="last", token_counter=count_tokens_approximately
    )
    return convert_to_openai_messages(kept)


def litellm(messages: list[dict[str, str]]) -> Any:
    from litellm.utils import trim_messages

    return trim_messages(messages, model="gpt-4o", max_tokens=BUDGET, trim_ratio=1.0)


def llama_index(messages: list[dict[str, str]]) -> Any:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import ChatMemoryBuffer

    history = [ChatMessage(role=one["role"], content=one["content"]) for one in messages]
    memory = ChatMemoryBuffer.from_defaults(chat_history=history, token_limit=BUDGET)
    return [{"role": one.role.value, "content": one.content} for one in memory.get()]


def agent_framework(messages: list[dict[str, str]]) -> Any:
    import agent_framework as af
    from agent_framework._compaction import CharacterEstimatorTokenizer, apply_compaction

    listed = [af.Message(one["role"], [one["content"]]) for one in messages]
    tokenizer = CharacterEstimatorTokenizer()
    strategy = af.TruncationStrategy(max_n=BUDGET, compact_to=BUDGET, tokenizer=tokenizer)
    kept = asyncio.run(apply_compaction(listed, strategy=strategy, tokenizer=tokenizer))
    return [{"role": str(one.role), "content": one.text} for one in kept]


def main() -> None:
    loop = next((int(argument) for argument in sys.argv[1:] if argument.isdigit()), LOOP)
    many, few = talk(10_000), talk(loop)
    rows: dict[str, dict[str, float]] = {}
    once, looped = seconds(lambda: ours(many)), seconds(lambda: our_loop(few))
    rows["scrollback"] = {"one call on 10,000": once, f"loop of {loop}": looped}
    alone = seconds(lambda: our_loop_without_store(few))
    rows["scrollback curate"] = {"one call on 10,000": once, f"loop of {loop}": alone}
    others = {
        "langchain trim_messages": langchain,
        "litellm.trim_messages": litellm,
        "llama_index ChatMemoryBuffer": llama_index,
        "agent_framework TruncationStrategy": agent_framework,
    }
    for name, call in others.items():
        if importlib.util.find_spec(call.__name__ if call is not langchain else "langchain_core") is None:
            print(f"{name}: not installed", file=sys.stderr)
            continue
        try:
            began = time.perf_counter()
            call(many)
            one = time.perf_counter() - began
            began = time.perf_counter()
            for length in range(1, loop + 1):
                call(few[:length])
            rows[name] = {"one call on 10,000": one, f"loop of {loop}": time.perf_counter() - began}
        except Exception as error:  # noqa: BLE001 - a library that cannot do it is a result, too
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    for name, row in rows.items():
        cells = [f"{title}: {taken * 1e3:10.1f} ms ({taken / rows['scrollback'][title]:6.1f}×)" for title, taken in row.items()]
        print(f"{name:36} {'   '.join(cells)}")
    slower = {name: row[f"loop of {loop}"] / looped for name, row in rows.items() if name in others}
    if slower:
        least = min(slower, key=lambda name: slower[name])
        print(f"in the loop the nearest is {least}, which takes {slower[least]:.0f} times as long as scrollback")
    missing = sorted(set(others) - set(slower))
    if missing:
        print(f"not measured: {', '.join(missing)}")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
