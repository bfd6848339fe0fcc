#!/usr/bin/env python3
"""How long a long conversation takes until something of it is seen, in a real browser.

    bench/lens.py SCROLLBACK [ENTRIES [LOADS]]

The binary serves a conversation of 10,000 entries that it imported; headless Chromium opens its page several times, each time in
a fresh tab, and says when it painted content first (PerformancePaintTiming), measured from the beginning of the navigation.
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
entries = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
loads = int(sys.argv[3]) if len(sys.argv) > 3 else 10
LIMIT = 300  # milliseconds; what the lens promises

PAINTED = """
new Promise((done) => {
  const found = () => performance.getEntriesByName('first-contentful-paint')[0];
  if (found()) return done(found().startTime);
  new PerformanceObserver((_, observer) => { if (found()) { observer.disconnect(); done(found().startTime); } })
    .observe({ type: 'paint', buffered: true });
})
"""
RESPONSE = "performance.getEntriesByType('navigation')[0].responseEnd"


def conversation():
    """Turns as agents have them: a question, a call, its result, an answer."""
    messages = [{"role": "system", "content": "You are a careful assistant. " * 10}]
    turn = 0
    while len(messages) < entries:
        turn += 1
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "read_file", "arguments": json.dumps({"path": f"src/part_{turn}.rs"})}}
        messages += [
            {"role": "user", "content": f"What does part {turn} do, and what depends on it?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": f"fn part_{turn}() {{\n    // ...\n}}\n" * 12},
            {"role": "assistant", "content": f"Part {turn} reads what part {turn - 1} wrote. " * 6},
        ]
    return messages[:entries]


folder = pathlib.Path(tempfile.mkdtemp(prefix="scrollback-bench-"))
server = None
try:
    (folder / "long.json").write_text(json.dumps(conversation()))
    imported = subprocess.run([scrollback, "import", "long.json", "--store", "sqlite:bench.db", "--json"], cwd=folder, capture_output=True, text=True)
    if imported.returncode != 0:
        raise SystemExit(imported.stdout + imported.stderr)
    server = subprocess.Popen(
        [scrollback, "serve", "--listen", "127.0.0.1:0", "--store", "sqlite:bench.db", "--json"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    base = json.loads(server.stdout.readline())["lens"].rstrip("/")
    with urllib.request.urlopen(base + "/api/conversations") as answer:
        found = json.load(answer)["conversations"]
    url = f"{base}/lens/conversations/{found[0]['id']}"
    times = []
    with Chromium() as browser:
        # The browser itself takes a while to start; that is not the page.
        browser.page().open(base + "/healthz")
        for _ in range(loads):
            page = browser.page().open(url)
            times.append((page.run(PAINTED), page.run(RESPONSE)))
            problems = page.complaints(base)
            if problems:
                raise SystemExit(f"the page complains: {problems}")
            page.close()
finally:
    if server:
        server.terminate()
        server.wait()
    shutil.rmtree(folder, ignore_errors=True)

paints = [paint for paint, _ in times]
median = statistics.median(paints)
print(f"first contentful paint of a conversation of {entries} entries, {loads} loads")
print(f"  median {median:.0f} ms, from {min(paints):.0f} to {max(paints):.0f}; of it the server's answer {statistics.median(response for _, response in times):.0f} ms")
print(f"  promised: under {LIMIT} ms{'' if median < LIMIT else ' — NOT KEPT'}")
sys.exit(0 if median < LIMIT else 1)
