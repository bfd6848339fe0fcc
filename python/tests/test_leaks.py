"""What appends leave behind in memory: nothing."""

from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path

from scrollback import Store

#: `SCROLLBACK_TRIAL_APPENDS=100000` looks more closely.
TIMES = int(os.environ.get("SCROLLBACK_TRIAL_APPENDS", "400"))
TURNS = 20
#: Bytes that may come and go whatever the number of appends: caches of the database and of the allocator.
SLACK = 12 << 20
#: Bytes for each append below which nothing can be leaked: the smallest object of Python is larger.
EACH = 16


def resident() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def test_many_appends_leak_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "chat.db") as store:

        def appends(name: str, times: int) -> None:
            for number in range(times // TURNS):
                chat = store.conversation(f"{name}-{number}")
                for turn in range(TURNS):
                    chat.append({"role": "user", "content": f"{turn}"})
                    _ = chat.view("sliding_window(5)").messages

        def measured() -> tuple[int, int, int]:
            gc.collect()
            return tracemalloc.get_traced_memory()[0], len(gc.get_objects()), resident()

        appends("first", 400)
        tracemalloc.start()
        try:
            appends("again", 400)
            before = measured()
            appends("second", TIMES)
            after = measured()
        finally:
            tracemalloc.stop()
    python, objects, process = (now - then for now, then in zip(after, before))
    print(f"{TIMES} appends: {python} bytes of Python, {objects} objects, {process} bytes of the process")
    assert python < 4096 + EACH * TIMES
    assert objects < 100
    assert process < SLACK + EACH * TIMES
