"""What two other stores of conversations cost: openai-agents' SQLiteSession and LangGraph's SqliteSaver.

Run by `./dev bench store`, next to `cargo bench -p scrollback-store`, with the packages of bench/store-requirements.txt.
Prints the time of a durable append, bytes on disk for each message, and the time to load the last 50. LangGraph's keeps the
whole state again at each step; it is stopped after a minute, and what it had come to by then is shown.
"""

import asyncio
import os
import sqlite3
import statistics
import tempfile
import time

# Seconds after which a run is stopped.
PATIENCE = 60

WORDS = "order arrives tomorrow please the of invoice number thank you address is changed again refund delivery".split()


def text(seed: int) -> str:
    state, out = seed * 0x9E3779B9 + 1, ""
    while len(out) < 500:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out += WORDS[(state >> 33) % len(WORDS)] + " "
    return out[:500]


def size(folder: str) -> int:
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))


def row(name: str, count: int, append: float, bytes_each: float, load: float) -> None:
    print(f"{name:34} {count:>6} {append * 1e3:>10.2f} ms {bytes_each:>12,.0f} B {load * 1e3:>10.2f} ms", flush=True)


async def agents(count: int) -> None:
    from agents import SQLiteSession

    with tempfile.TemporaryDirectory(dir=".") as folder:
        session = SQLiteSession("anna", os.path.join(folder, "agents.db"))
        times = []
        for number in range(count):
            message = {"role": "user" if number % 2 == 0 else "assistant", "content": text(number)}
            start = time.perf_counter()
            await session.add_items([message])
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        await session.get_items(limit=50)
        load = time.perf_counter() - start
        session.close()
        row("openai-agents SQLiteSession", count, statistics.median(times[-100:]), size(folder) / count, load)


def langgraph(count: int) -> None:
    from typing import Annotated, TypedDict

    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import START, StateGraph
    from langgraph.graph.message import add_messages

    class State(TypedDict):
        messages: Annotated[list, add_messages]

    with tempfile.TemporaryDirectory(dir=".") as folder:
        connection = sqlite3.connect(os.path.join(folder, "graph.db"), check_same_thread=False)
        connection.execute("pragma synchronous = full")
        graph = StateGraph(State)
        graph.add_node("reply", lambda state: {"messages": [AIMessage(text(len(state["messages"])))]})
        graph.add_edge(START, "reply")
        compiled = graph.compile(checkpointer=SqliteSaver(connection))
        config = {"configurable": {"thread_id": "anna"}}
        times = []
        begun = time.perf_counter()
        for number in range(0, count, 2):
            start = time.perf_counter()
            compiled.invoke({"messages": [HumanMessage(text(number))]}, config)
            times.append((time.perf_counter() - start) / 2)
            if start - begun > PATIENCE:
                break
        reached = len(times) * 2
        start = time.perf_counter()
        _ = compiled.get_state(config).values["messages"][-50:]
        load = time.perf_counter() - start
        connection.close()
        name = "LangGraph SqliteSaver" + ("" if reached == count else f", of {count:,}")
        row(name, reached, statistics.median(times[-50:]), size(folder) / reached, load)


def main() -> None:
    print(f"{'':34} {'msgs':>6} {'append':>13} {'on disk each':>14} {'last 50':>13}")
    for count in (1000, 5000):
        asyncio.run(agents(count))
    for count in (1000, 5000):
        langgraph(count)


if __name__ == "__main__":
    main()
