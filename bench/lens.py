#!/usr/bin/env python3
"""How long the pages of the lens take in a real browser, where there is much to show.

    bench/lens.py SCROLLBACK [LOADS]

The binary serves what it imported: 10,000 sessions, one conversation of 10,000 entries, and one with a tool result of 5 MB. Headless
Chromium opens each page several times, each time in a fresh tab. It says when content was painted first (PerformancePaintTiming), from
the beginning of the navigation, and how much work the main thread did (TaskDuration, in processor time).
"""

import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "browser"))
from chromium import Chromium  # noqa: E402

scrollback = str(pathlib.Path(sys.argv[1]).resolve())
loads = int(sys.argv[2]) if len(sys.argv) > 2 else 10
SESSIONS = 10_000
ENTRIES = 10_000
# What is promised, in milliseconds.
LIST, SESSION, BUSY = 100, 200, 60

PAINTED = """
new Promise((done) => {
  const found = () => performance.getEntriesByName('first-contentful-paint')[0];
  if (found()) return done(found().startTime);
  new PerformanceObserver((_, observer) => { if (found()) { observer.disconnect(); done(found().startTime); } })
    .observe({ type: 'paint', buffered: true });
})
"""
RESPONSE = "performance.getEntriesByType('navigation')[0].responseEnd"


def conversation(entries, part="part"):
    """Turns as agents have them: a question, a call, its result, an answer."""
    messages = [{"role": "system", "content": "You are a careful assistant. " * 10}]
    turn = 0
    while len(messages) < entries:
        turn += 1
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "read_file", "arguments": json.dumps({"path": f"src/{part}_{turn}.rs"})}}
        messages += [
            {"role": "user", "content": f"What does {part} {turn} do, and what depends on it?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": f"fn {part}_{turn}() {{\n    // ...\n}}\n" * 12},
            {"role": "assistant", "content": f"Part {turn} reads what part {turn - 1} wrote. " * 6},
        ]
    return messages[:entries]


def huge():
    """A call with a result of 5 MB: the log of a build."""
    call = {"id": "call_1", "type": "function", "function": {"name": "shell", "arguments": json.dumps({"command": "make"})}}
    line = "   Compiling part v0.1.0 (/home/me/part): warning: unused variable `x`\n"
    return [
        {"role": "user", "content": "Build it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": line * (5_000_000 // len(line))},
        {"role": "assistant", "content": "It builds."},
    ]


def measured(browser, url):
    """Medians over the loads: first paint, the server's answer, the main thread."""
    seen = []
    for _ in range(loads):
        page = browser.page()
        page.ask("Performance.enable", timeDomain="threadTicks")
        page.open(url)
        paint, response = page.run(PAINTED), page.run(RESPONSE)
        page.until("!document.querySelector('[aria-busy]')")
        metrics = {one["name"]: one["value"] for one in page.ask("Performance.getMetrics")["metrics"]}
        seen.append((paint, response, metrics["TaskDuration"] * 1000))
        if problems := page.complaints(base):
            raise SystemExit(f"the page complains: {problems}")
        page.close()
    return [statistics.median(column) for column in zip(*seen)], [min(one[0] for one in seen), max(one[0] for one in seen)]


folder = pathlib.Path(tempfile.mkdtemp(prefix="scrollback-bench-"))
server = None
broken = []


def imported(name, text):
    (folder / name).write_text(text)
    done = subprocess.run([scrollback, "import", name, "--store", "sqlite:bench.db", "--json"], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)


def judged(what, value, limit):
    print(f"    promised: under {limit} ms{'' if value < limit else ' — NOT KEPT'}")
    if value >= limit:
        broken.append(what)


try:
    imported("many.jsonl", "\n".join(json.dumps({"messages": conversation(5, f"session{number}")}) for number in range(SESSIONS)) + "\n")
    imported("long.json", json.dumps(conversation(ENTRIES)))
    imported("huge.json", json.dumps(huge()))
    server = subprocess.Popen(
        [scrollback, "serve", "--listen", "127.0.0.1:0", "--store", "sqlite:bench.db", "--json"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    base = json.loads(server.stdout.readline())["lens"].rstrip("/")
    with urllib.request.urlopen(base + "/api/conversations") as answer:
        newest = json.load(answer)["conversations"]
    by_length = {one["entries"]: one["id"] for one in newest[:2]}
    long, result = by_length[ENTRIES], by_length[4]
    with Chromium() as browser:
        # The browser itself takes a while to start; that is not the page.
        browser.page().open(base + "/healthz")
        pages = [
            (f"list of {SESSIONS} sessions", "/lens", LIST, None),
            (f"list of {SESSIONS} sessions by cost", "/lens?sort=cost", None, None),
            (f"session of {ENTRIES} entries", f"/lens/conversations/{long}", SESSION, None),
            ("session with a result of 5 MB", f"/lens/conversations/{result}", None, BUSY),
            ("the result of 5 MB itself", f"/lens/conversations/{result}/entries/2", None, BUSY),
        ]
        for what, path, paint_limit, busy_limit in pages:
            (paint, response, busy), (least, most) = measured(browser, base + path)
            print(f"{what}, {loads} loads")
            print(f"  first paint {paint:.0f} ms ({least:.0f} to {most:.0f}), of it the server's answer {response:.0f} ms")
            if paint_limit:
                judged(what, paint, paint_limit)
            print(f"  main thread {busy:.0f} ms")
            if busy_limit:
                judged(what, busy, busy_limit)
finally:
    if server:
        server.terminate()
        server.wait()
    shutil.rmtree(folder, ignore_errors=True)

sys.exit(1 if broken else 0)
