#!/usr/bin/env python3
"""Other libraries on the conversation that `cargo bench -p scrollback-core --bench wire` measures.

LangChain and LiteLLM turn 1,000 messages of OpenAI chat into Anthropic's, each by the function that its own calls of
that provider go through, beside Scrollback in a run just before.

Needs `pip` to reach a package index the first time; without one it says so and measures nothing.
"""

import copy
import json
import os
import time

from beside import BENCH, duration, export, print_table, run

RUNS = 21
MODEL = "claude-sonnet-4-5"


def compare():
    ours = json.loads((BENCH / "convert.json").read_text())
    text = (BENCH / "talk.json").read_text()
    messages = json.loads(text)
    rows = [["Scrollback", duration(ours["from_memory"]), duration(ours["from_text"])]]
    for name, prepare, convert in [langchain(), litellm_()]:
        memory = quickest(convert, lambda: prepare(copy.deepcopy(messages)))
        both = quickest(lambda text: json.dumps(convert(prepare(json.loads(text)))), lambda: text)
        rows.append([name, duration(memory), duration(both)])
    print(f"\nOther libraries: {len(messages):,} messages of openai-chat for Anthropic\n")
    print_table(["", "from messages in memory", "text to text"], rows)
    print(f"  · the quickest of {RUNS} runs; messages in memory are those of each library: entries, objects, dictionaries.")


def langchain():
    from langchain_anthropic.chat_models import _format_messages
    from langchain_core.messages import convert_to_messages

    return "LangChain, langchain-anthropic", convert_to_messages, lambda history: _format_messages(history, model=MODEL)


def litellm_():
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices
    from litellm.litellm_core_utils.prompt_templates.factory import anthropic_messages_pt

    def without_system(messages):
        return [message for message in messages if message["role"] != "system"]

    return "LiteLLM, anthropic_messages_pt", without_system, lambda history: anthropic_messages_pt(history, MODEL, "anthropic")


def quickest(work, given):
    """The shortest time of a call; what it is given is made anew each time, because LiteLLM changes it."""
    times = []
    for _ in range(RUNS):
        value = given()
        start = time.perf_counter()
        work(value)
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    run(__file__, before=lambda: export("wire"), then=compare)
