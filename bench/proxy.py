#!/usr/bin/env python3
"""What the proxy adds to a request, recording on, beside LiteLLM's proxy in the same run.

    bench/proxy.py SCROLLBACK LOAD [--quick]

Provider, proxies and client run on this one machine. Times are those of `load ask`: from when a request was due to the first
and the last byte, in milliseconds. What a proxy adds is its time less that of asking the provider directly.

Scrollback makes what was said durable before it asks and what came back before the reply ends: once or twice a request it
waits for the disk. So how long the disk takes for that is measured, too, and Scrollback runs a second time with its record in
memory ("in memory"), which shows what is its own.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

scrollback, load = (str(pathlib.Path(name).resolve()) for name in sys.argv[1:3])
quick = "--quick" in sys.argv
litellm = pathlib.Path(sys.executable).parent / "litellm"
folder = pathlib.Path(tempfile.mkdtemp(prefix="scrollback-bench-"))
in_memory = pathlib.Path("/dev/shm") / folder.name
running = []


def start(command, **more):
    process = subprocess.Popen(command, cwd=folder, text=True, **more)
    running.append(process)
    return process


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for(port, seconds):
    for _ in range(seconds * 10):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            time.sleep(0.1)
    return False


def disk(folder):
    """Milliseconds the disk takes to make 16 kB durable, in the middle and at the 99th percentile."""
    file, times = os.open(folder / "sync", os.O_CREAT | os.O_WRONLY), []
    for place in range(500):
        os.pwrite(file, os.urandom(16 << 10), place * (16 << 10))
        began = time.perf_counter()
        os.fdatasync(file)
        times.append(1000 * (time.perf_counter() - began))
        time.sleep(0.002)
    os.close(file)
    times.sort()
    return times[250], times[495]


def serve(store):
    ours = start([scrollback, "serve", "--listen", "127.0.0.1:0", "--json", "--store", store],
                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    return ours, json.loads(ours.stdout.readline())["listen"]


def ask(address, size, streams, rate, count):
    # Slow lines get few connections: LiteLLM closes those that say nothing for five seconds.
    command = [load, "ask", f"http://{address}/v1/chat/completions", "--bytes", str(size), "--rate", str(rate), "--count", str(count),
               "--connections", str(min(32, max(4, rate // 4)))]
    done = subprocess.run(command + (["--stream"] if streams else []), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{address}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def memory(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
    return 0


try:
    upstream = start([load, "upstream"], stdout=subprocess.PIPE).stdout.readline().strip()
    environment = {**os.environ, "OPENAI_BASE_URL": f"http://{upstream}/v1", "XDG_CONFIG_HOME": str(folder)}
    (folder / "scrollback.toml").write_text("[server.limits]\nconcurrent_requests = 1000\n")
    ours, address = serve("sqlite:record.db")
    proxies = [("scrollback", address)]
    if in_memory.parent.exists():
        in_memory.mkdir()
        proxies.append(("in memory", serve(f"sqlite:{in_memory}/record.db")[1]))
    if litellm.exists():
        port = free_port()
        (folder / "litellm.yaml").write_text(json.dumps({
            "model_list": [{"model_name": "gpt-4o", "litellm_params": {
                "model": "openai/gpt-4o", "api_base": f"http://{upstream}/v1", "api_key": "sk-x"}}]}))
        start([str(litellm), "--config", "litellm.yaml", "--port", str(port), "--host", "127.0.0.1"],
              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
              env={**os.environ, "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"})
        if wait_for(port, 120):
            proxies.append(("litellm", f"127.0.0.1:{port}"))
        else:
            print("LiteLLM's proxy did not start; left out", file=sys.stderr)
    else:
        print("LiteLLM is not installed; left out", file=sys.stderr)

    print("the disk makes 16 kB durable in {:.2f} ms (p50), {:.2f} ms (p99)".format(*disk(folder)))
    print(f"{'body':>8} {'':6} {'rate':>6}  {'proxy':10} {'first p50':>10} {'first p99':>10} {'last p50':>10} {'last p99':>10}   added, ms")
    for size, rate, count in [(1_000, 1000, 5_000), (1_000, 100, 1_000), (100_000, 50, 500), (1_000_000, 5, 50)]:
        if quick:
            rate, count = min(rate, 20), 20
        for streams in (False, True):
            kind = "stream" if streams else "whole"
            direct = ask(upstream, size, streams, rate, count)
            times = {}
            for name, where in proxies:
                if name == "litellm":
                    # It cannot keep up with the higher rates; at one it can, its own times are seen.
                    slower = min(rate, 5 if streams else 20)
                    ask(where, size, streams, slower, 10)
                    found = ask(where, size, streams, slower, 50)
                else:
                    ask(where, size, streams, rate, min(count, 200))
                    found = ask(where, size, streams, rate, count)
                keys = ("first_p50", "first_p99", "last_p50", "last_p99")
                times[name] = [max(0.0, found[key] - direct[key]) for key in keys]
                told = " ".join(f"{value:10.3f}" for value in times[name])
                print(f"{size:8} {kind:6} {slower if name == 'litellm' else rate:6}  {name:10} {told}", flush=True)
            if "litellm" in times:
                ratios = [other / max(mine, 0.001) for mine, other in zip(times["scrollback"], times["litellm"])]
                print(f"{'':33} {'times':>3} " + " ".join(f"{value:10.1f}" for value in ratios), flush=True)
    if not quick:
        before = memory(ours)
        ask(address, 1_000, False, 1000, 100_000)
        print(f"memory of scrollback: {before} MB before 100,000 more requests, {memory(ours)} MB after")
finally:
    for process in running:
        process.terminate()
    for process in running:
        process.wait()
    for used in (folder, in_memory):
        shutil.rmtree(used, ignore_errors=True)
