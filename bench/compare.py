#!/usr/bin/env python3
"""Other libraries on the session that `cargo bench -p scrollback-core --bench core` measures.

LangChain's and LiteLLM's `trim_messages` keep the newest 8,000 tokens of 10,000 messages, once and in an agent's
loop, beside Scrollback's `token_budget(8000)` in a run just before. Everything counts with cl100k_base, because that
vocabulary comes inside LiteLLM's package and needs no download.

Needs `pip` to reach a package index the first time; without one it says so and measures nothing.
"""

import json
import os
import pathlib
import signal
import time

from beside import BENCH, duration, export, print_table, run

BUDGET = 8_000
LOOP = 1_000
PATIENCE = 60  # seconds; what needs longer is stopped, and a loop says how far it came


def compare():
    ours = json.loads((BENCH / "scrollback.json").read_text())
    messages = json.loads((BENCH / "session.json").read_text())
    trimmers = [langchain(messages), litellm_(messages)]
    rows = [[
        "Scrollback, from the text of the list",
        duration(ours["from_text"]),
        "",
        f"{ours['kept']:,}",
    ], [
        "Scrollback, on a record in memory",
        duration(ours["call"]),
        duration(ours["loop_of_1_000"]),
        f"{ours['kept']:,}",
    ]]
    for name, history, trim in trimmers:
        trim(history[:100])  # what is loaded at the first call is not counted
        call, kept = one_call(history, trim)
        rows.append([name, call, agent_loop(history, trim), kept])
    print(f"\nOther libraries: the newest {BUDGET:,} tokens (cl100k_base) of {len(messages):,} messages\n")
    print_table(["", "one call", f"loop of {LOOP:,}", "messages kept"], rows)
    print(f"  · one run each, stopped after {PATIENCE} s; the loop trims after every message, from an empty list on.")
    print("  · LiteLLM was given \"\" where a message has null for content; with null it trims nothing.")
    print("  · messages kept differ because the libraries count other things beside the texts, and protect others.")


def langchain(messages):
    import tiktoken
    from langchain_core.messages import convert_to_messages, trim_messages

    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(vocabulary()))
    encoding = tiktoken.get_encoding("cl100k_base")

    def count(batch):
        total = 3
        for message in batch:
            text = message.content if isinstance(message.content, str) else json.dumps(message.content)
            total += 4 + len(encoding.encode_ordinary(text))
            for call in getattr(message, "tool_calls", ()):
                total += len(encoding.encode_ordinary(call["name"] + json.dumps(call["args"])))
        return total

    def trim(history):
        return trim_messages(
            history, max_tokens=BUDGET, token_counter=count, strategy="last", include_system=True, start_on="human"
        )

    return "LangChain, trim_messages", convert_to_messages(messages), trim


def litellm_(messages):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices
    from litellm.utils import trim_messages

    def trim(history):
        return trim_messages(history, model="gpt-4", max_tokens=BUDGET)

    # It gives up and returns the whole list when the content of a message is null, so it gets empty texts instead.
    texts = [{**message, "content": message["content"] or ""} for message in messages]
    return "LiteLLM, trim_messages", texts, trim


def vocabulary():
    """Where LiteLLM keeps cl100k_base, in the layout of tiktoken's cache."""
    import importlib.util

    package = pathlib.Path(importlib.util.find_spec("litellm").origin).parent
    return package / "litellm_core_utils" / "tokenizers"


class OutOfPatience(BaseException):
    """Not an `Exception`: LiteLLM catches those and returns the list untrimmed."""


def one_call(history, trim):
    """The time of one call and the number of messages it kept, or that it took too long."""
    def stop(*_):
        raise OutOfPatience

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    start = time.perf_counter()
    try:
        kept = trim(history)
        return duration(time.perf_counter() - start), f"{len(kept):,}"
    except OutOfPatience:
        return f"over {PATIENCE} s", "?"
    finally:
        signal.alarm(0)


def agent_loop(history, trim):
    start = time.perf_counter()
    for end in range(1, LOOP + 1):
        trim(history[:end])
        elapsed = time.perf_counter() - start
        if elapsed > PATIENCE:
            return f"stopped at {end}"
    return duration(time.perf_counter() - start)


if __name__ == "__main__":
    run(__file__, before=lambda: export("core"), then=compare)
