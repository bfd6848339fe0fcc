#!/usr/bin/env python3
"""Two builds of Scrollback side by side, alternating in one run: is anything slower than before?

    bench/against.py BEFORE AFTER [--rounds N] [--only core,agent,flow,proxy]

BEFORE and AFTER are checkouts whose `target/release` holds the benchmarks and the program (`./dev bench against COMMIT`
builds both). Each round runs a benchmark of one build and then of the other, in turns, so that a slow minute of the machine
meets both. A figure is the median over the rounds; the last column is after ÷ before, marked where it is above 1.05.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile

UNITS = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0}
FIGURE = re.compile(r"(?<![\w.])([\d,]+(?:\.\d+)?)\s*(ns|µs|us|ms|s)\b")
SLOWER = 1.05

# Tables that measure this code; the others compare with naive code or count bytes.
TABLES = {
    "core": ("core", ["call", "append", "loop", "wire", "again"]),
    "agent": ("agent", ["memory", "disk", "growth", "publish", "delta"]),
    "flow": ("conversation", ["prepare", "loop", "long"]),
}


def executable(checkout, name):
    """The newest benchmark of that name."""
    found = [path for path in (checkout / "target/release/deps").glob(f"{name}-*") if not path.suffix and os.access(path, os.X_OK)]
    if not found:
        raise SystemExit(f"{checkout} has no benchmark {name}: build it with cargo bench --no-run --bench {name}")
    return max(found, key=lambda path: path.stat().st_mtime)


def figures(text):
    """Every time in a text: its table, its row and its number in the row, and the value in seconds."""
    found, heading = {}, ""
    for line in text.splitlines():
        values = [match for match in FIGURE.finditer(line)]
        values = [match for match in values if not re.search(r"(target|<|≤)\s*$", line[: match.start()])]
        if not values:
            if line and not line.startswith(" "):
                heading = line.strip()
            continue
        row = re.sub(r"\s+", " ", line[: values[0].start()]).strip()
        for number, match in enumerate(values):
            found[(heading[:40], row, number)] = float(match[1].replace(",", "")) * UNITS[match[2]]
    return found


def benchmark(checkout, name):
    binary, words = TABLES[name]
    done = subprocess.run([executable(checkout, binary), "--bench", *words], cwd=checkout / "crates" / name, capture_output=True, text=True)
    return figures(done.stdout)


class Servers:
    """A provider and one proxy of each build before it, each with its record in memory."""

    def __init__(self, checkouts):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="scrollback-against-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        self.load = checkouts["after"] / "target/release/examples/load"
        self.running = []
        upstream = self.start([self.load, "upstream"]).stdout.readline().strip()
        environment = {**os.environ, "OPENAI_BASE_URL": f"http://{upstream}/v1", "XDG_CONFIG_HOME": str(self.folder)}
        (self.folder / "scrollback.toml").write_text("[server.limits]\nconcurrent_requests = 1000\n")
        self.addresses = {"direct": upstream}
        for build, checkout in checkouts.items():
            program = [checkout / "target/release/scrollback", "serve", "--listen", "127.0.0.1:0", "--json"]
            process = self.start([*program, "--store", f"sqlite:{build}.db"], env=environment, stderr=subprocess.DEVNULL)
            self.addresses[build] = json.loads(process.stdout.readline())["listen"]

    def start(self, command, **more):
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True, **more)
        self.running.append(process)
        return process

    def ask(self, build, size, rate, count):
        command = [self.load, "ask", f"http://{self.addresses[build]}/v1/chat/completions", "--bytes", str(size),
                   "--rate", str(rate), "--count", str(count), "--connections", "16"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def figures(self, build):
        found = {}
        for size, rate, count in [(1_000, 200, 600), (100_000, 30, 120), (1_000_000, 5, 25)]:
            times = self.ask(build, size, rate, count)
            for key in ("first_p50", "last_p50"):
                found[("a call through the proxy", f"{size} bytes, {key}", 0)] = times[key] / 1000
        return found

    def stop(self):
        for process in self.running:
            process.terminate()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def shown(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def main():
    arguments = argparse.ArgumentParser(description="Compares two builds, alternating in one run.")
    arguments.add_argument("before", type=pathlib.Path)
    arguments.add_argument("after", type=pathlib.Path)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--only", default="core,agent,flow,proxy")
    given = arguments.parse_args()
    checkouts = {"before": given.before.resolve(), "after": given.after.resolve()}
    slower = 0
    for name in given.only.split(","):
        servers = Servers(checkouts) if name == "proxy" else None
        try:
            rounds = {"before": [], "after": [], "direct": []}
            order = ["before", "after"]
            for _ in range(given.rounds):
                for build in order:
                    rounds[build].append(servers.figures(build) if servers else benchmark(checkouts[build], name))
                if servers:
                    rounds["direct"].append(servers.figures("direct"))
                order.reverse()
        finally:
            if servers:
                servers.stop()
        print(f"\n{name}: median of {given.rounds} rounds{'':20} {'before':>10} {'after':>10}   after ÷ before")
        heading = None
        for key in rounds["after"][0]:
            values = {build: [found[key] for found in all_found if key in found] for build, all_found in rounds.items()}
            if not values["before"]:
                continue
            before, after = statistics.median(values["before"]), statistics.median(values["after"])
            ratio = after / before if before else 1.0
            # The quickest of all rounds is least disturbed by the machine: both must be slower to count.
            surely = min(values["after"]) / max(min(values["before"]), 1e-12) > SLOWER and ratio > SLOWER
            slower += surely
            if key[0] != heading:
                heading = key[0]
                print(f"  {heading}")
            direct = f"   direct {shown(statistics.median(values['direct']))}" if values["direct"] else ""
            print(f"    {key[1][:52]:52} #{key[2]:<2} {shown(before):>10} {shown(after):>10}   {ratio:5.2f}{'  SLOWER' if surely else ''}{direct}", flush=True)
    print(f"\n{slower} figures are slower than {SLOWER} × before, by the median and by the best round.")


main()
