"""Threads, tasks, processes, signals, and the end of the interpreter."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from scrollback import AsyncConversation, ClosedError, ForkError, Store

Open = Callable[[], Store]


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def texts(store: Store, name: str) -> set[str | None]:
    return {entry.text for entry in store.conversation(name).entries()}


def test_eight_threads_lose_no_append(file_store: Open) -> None:
    store = file_store()
    shared = store.conversation("shared")

    def work(number: int) -> None:
        own, again = store.conversation(f"own-{number}"), store.conversation("shared")
        for turn in range(25):
            shared.append(said(f"a {number} {turn}"))
            again.append(said(f"b {number} {turn}"))
            own.append(said(str(turn)))
            assert len(own.view("sliding_window(5)")) <= 5

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, number) for number in range(8)]:
            done.result(120)
    wanted = {f"{which} {number} {turn}" for which in "ab" for number in range(8) for turn in range(25)}
    assert texts(store, "shared") == wanted
    assert all(len(store.conversation(f"own-{number}")) == 25 for number in range(8))


def test_a_hundred_tasks_lose_no_append_and_two_event_loops_share_a_store(file_store: Open) -> None:
    store = file_store()

    async def main(loop: int) -> None:
        async def task(number: int) -> None:
            chat = AsyncConversation(store.conversation(f"task-{number % 10}"))
            for turn in range(5):
                await chat.append(said(f"{loop} {number} {turn}"))
                await chat.view("sliding_window(5)")

        await asyncio.wait_for(asyncio.gather(*(task(number) for number in range(100))), 120)

    threads = [threading.Thread(target=lambda loop=loop: asyncio.run(main(loop))) for loop in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    assert sum(len(store.conversation(f"task-{number}")) for number in range(10)) == 1000


def test_a_store_of_before_a_fork_refuses_and_a_new_one_works(tmp_path: Path) -> None:
    store = Store(tmp_path / "chat.db")
    chat = store.conversation("anna")
    chat.append(said("parent"))
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        told = ""
        try:
            try:
                chat.append(said("child"))
            except ForkError as error:
                told += f"{error.code} "
            del chat, store
            Store(tmp_path / "chat.db").conversation("anna").append(said("child, opened again"))
            told += "appended"
        finally:
            os.write(writes, told.encode())
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reads, 100) == b"opened_before_fork appended"
    chat.append(said("parent again"))
    assert [entry.text for entry in chat.entries()] == ["parent", "child, opened again", "parent again"]


def in_worker(where: str, number: int) -> int:
    with Store(where) as store:
        store.conversation("pool").append(said(str(number)))
        return os.getpid()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_pools_open_the_store_themselves(tmp_path: Path, method: str) -> None:
    where = str(tmp_path / "chat.db")
    store = Store(where)
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        workers = set(pool.map(in_worker, [where] * 8, range(8)))
    assert os.getpid() not in workers
    assert texts(store, "pool") == {str(number) for number in range(8)}


def test_a_closed_store_says_so(file_store: Open) -> None:
    store = file_store()
    chat = store.conversation("anna")
    store.close()
    store.close()
    for call in (lambda: chat.append(said("x")), lambda: store.conversation("bert"), lambda: len(chat)):
        with pytest.raises(ClosedError):
            call()


def run(code: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
    # On a busy machine Python in development mode says of each step of an event loop how long it took.
    done.stderr = "".join(line for line in done.stderr.splitlines(keepends=True) if not line.startswith("Executing <"))
    return done


def test_the_interpreter_ends_cleanly_with_open_stores(tmp_path: Path) -> None:
    code = """
        import asyncio, threading
        from scrollback import AsyncStore, Store
        store = Store("a.db"); chat = store.conversation("anna")
        chat.append({"role": "user", "content": "hello"})
        other = AsyncStore("b.db")
        async def main():
            await (await other.conversation("bert")).append({"role": "user", "content": "hi"})
        asyncio.run(main())
        threading.Thread(target=lambda: chat.append({"role": "user", "content": "late"})).start()
        print("end")
    """
    done = run(code, tmp_path, "-X", "dev", "-W", "error")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    assert len(Store(tmp_path / "a.db").conversation("anna")) == 2


LONG = {
    "append": """
        store = Store("a.db"); chat = store.conversation("anna")
        def call(): chat.append(many)
    """,
    "curate": """
        def call(): curate(many, "token_budget(1000)", model="gpt-4o")
    """,
    "view": """
        store = Store(":memory:"); chat = store.conversation("anna"); chat.append(many)
        def call(): chat.view("auto(30k)", model="gpt-4o"); chat.append(many)
    """,
    "simulate": """
        import json, pathlib
        pathlib.Path("long.json").write_text(json.dumps(many))
        def call(): simulate("long.json", ["auto(8k)"], model="gpt-4o")
    """,
    "an await": """
        store = AsyncStore("a.db")
        async def work():
            chat = await store.conversation("anna")
            while True:
                await chat.append(many)
        def call(): asyncio.run(work())
    """,
}


@pytest.mark.parametrize("name", LONG)
def test_control_c_ends_a_long_call_and_writes_nothing_by_halves(name: str, tmp_path: Path) -> None:
    begin = """
        import asyncio, os, signal, threading
        # Whoever started the tests may ignore Ctrl-C, and children inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from scrollback import AsyncStore, Store, curate, simulate
        many = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{n} some words " * 100} for n in range(4000)]
    """
    end = """
        def stop():
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        stop()
        try:
            while True:
                call()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    done = run(textwrap.dedent(begin) + textwrap.dedent(LONG[name]) + textwrap.dedent(end), tmp_path)
    assert done.stdout == "interrupted\n", done.stderr
    assert done.returncode == 0
    if (tmp_path / "a.db").exists():
        assert len(Store(tmp_path / "a.db").conversation("anna")) % 4000 == 0
