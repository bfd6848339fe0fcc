"""Runs a real client twice in the same folder: once directly against the scripted provider, once through Scrollback.

A scenario says what the provider's script is, how the client is driven, and what must be true afterwards. What every scenario
must show is checked here: nothing was refused, nothing of the script was left over, every request is valid by `scrollback
check`, and the record holds every reply. Where the scenario says `exact`, more:

- both runs printed the same;
- every body that reached the provider through Scrollback is one that the client sent in the same run, byte for byte, without
  any normalisation (`tap.py` keeps what the client sent), and the client sent no other;
- it is the same, byte for byte, as that of the direct run, once what the client itself makes up anew in every run is replaced:
  UUIDs; the ids of devices, of opencode's sessions, of agents (`agentId: …`) and of Codex's outputs (`Chunk ID: …`); dates, ISO timestamps, milliseconds since 1970
  and durations; the address the client was given; and the order inside Codex's `client_metadata`, which is by chance.

What a machine may have and others not must make no difference: a repository around the folder for temporary files, a long path
to it, a proxy of the network, programs that are only stand-ins for others and need the person's home folder, a slow disk.
"""

import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

import codings
from tap import Tap
from upstream import Upstream

HERE = pathlib.Path(__file__).resolve().parent

RANDOM = [
    (rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", b"UUID"),
    (rb"\b(?:msg|rs|fc|fco|ctc|ctco|lsh)_[0-9a-f]{8}-?[0-9a-f-]{20,}", b"ITEM"),
    (rb"\bses_[0-9a-f]{12}[0-9A-Za-z]{14}\b", b"SESSION"),
    (rb"agentId: a[0-9a-f]{16}", b"agentId: ID"),
    (rb"to: 'a[0-9a-f]{16}'", b"to: 'ID'"),
    (rb"(<task-id>|\"agent_?[iI]d\\*\":\s*\\*\"|agent-)[0-9a-z]{8,}", rb"\1ID"),
    (rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?", b"TIME"),
    # Midnight may lie between two runs.
    (rb"\b20\d\d-\d\d-\d\d\b", b"DATE"),
    (rb"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [A-Z][a-z]{2} \d{1,2},? 20\d\d\b", b"DATE"),
    (rb"\b1[789]\d{11}\b", b"MILLISECONDS"),
    (rb"(duration_ms: |duration_ms\W{1,6}|durationMs\W{1,6})\d+", rb"\1DURATION"),
    (rb"(Wall time: |wall_time_seconds\W{1,6})[0-9.]+", rb"\1DURATION"),
    (rb"(create_time\W{1,6})[0-9.]+", rb"\1TIME"),
    (rb"(device_id\W{1,8})[0-9a-f]{64}", rb"\1ID"),
    (rb"(Chunk ID: )[0-9a-f]+", rb"\1ID"),
    (rb"127\.0\.0\.1:\d+", b"ADDRESS"),
]


# Seconds that anything of ours may take. It is never waited for where all is well; machines may be slow.
PATIENCE = 180
# Seconds that a client may take for a run.
CLIENT = 900


class Failed(AssertionError):
    """Something a scenario says is not so."""


def expect(true, *what):
    if not true:
        raise Failed(" ".join(str(one) for one in what) or "not so")


def equal(found, wanted, what=""):
    if found != wanted:
        raise Failed(f"{what}: found {found!r}, wanted {wanted!r}")


MEMBER = rb'"(?:[^"\\]|\\.)*":"(?:[^"\\]|\\.)*"'
METADATA = re.compile(rb'"client_metadata":\{(' + MEMBER + rb"(?:," + MEMBER + rb")*)\}")


def settled(body):
    """A body without what its client makes up anew in every run."""
    for pattern, name in RANDOM:
        body = re.sub(pattern, name, body)
    return METADATA.sub(lambda found: b'"client_metadata":' + b",".join(sorted(re.findall(MEMBER, found[1]))), body)


class Run:
    """What a client did and said."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def lines(self):
        """Standard output as a list of JSON values."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith(("{", "["))]


class Scrollback:
    """The built binary, serving."""

    def __init__(self, binary, folder, provider, config=""):
        self.binary, self.folder, self.provider = binary, folder, provider
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "scrollback.toml").write_text(config)
        self.process = None
        self.start()

    def environment(self):
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.folder / "home"),
            "XDG_CONFIG_HOME": str(self.folder / "none"),
            "OPENAI_BASE_URL": self.provider.url + "/v1",
            "ANTHROPIC_BASE_URL": self.provider.url,
            "GEMINI_BASE_URL": self.provider.url,
            "GOOGLE_GEMINI_BASE_URL": self.provider.url,
        }

    def start(self):
        command = [self.binary, "serve", "--listen", "127.0.0.1:0", "--json", "--store", "sqlite:record.db", "--log-format", "json"]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else b""
        told = json.loads(line) if line else {}
        if "listen" not in told:
            self.stop()
            raise Failed(f"the server did not start: {line.decode()} " + (self.folder / "log").read_text()[-2000:])
        self.url = "http://" + told["listen"]

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        if self.process:
            self.process.wait()
            self.process.stdout.close()

    def restart(self):
        """Killed and started again on the same record."""
        self.stop()
        self.start()

    def command(self, *args, fine=(0,), env=None):
        made = subprocess.run(
            [self.binary, *args, "--store", "sqlite:record.db", "--json"],
            cwd=self.folder, env={**self.environment(), **(env or {})}, capture_output=True, text=True, timeout=PATIENCE,
        )
        expect(made.returncode in fine, args, made.stderr)
        return [json.loads(line) for line in made.stdout.splitlines()]

    def process_output(self, *args):
        """What a command prints."""
        made = subprocess.run(
            [self.binary, *args, "--store", "sqlite:record.db"],
            cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=PATIENCE,
        )
        expect(made.returncode == 0, args, made.stderr)
        return made.stdout

    def conversations(self):
        """What `scrollback list --json` says."""
        answer = self.command("list", "--limit", "200")
        return answer[0]["conversations"] if len(answer) == 1 and "conversations" in answer[0] else answer

    def cuts(self):
        """How many cuts are recorded."""
        lines = (json.loads(line) for line in self.process_output("export", "--all").splitlines())
        decided = [line["decision"]["decision"] for line in lines if "decision" in line]
        return sum(one in ("cut", "plan") for one in decided)

    def get(self, path):
        # Never by a proxy of the network, which environment variables may name.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(self.url + path, timeout=PATIENCE) as answer:
            return json.load(answer)

    def ended_calls(self):
        """The lines about calls in the log: each is written when its call is recorded and handed on to the last byte."""
        lines = [json.loads(line) for line in (self.folder / "log").read_text().splitlines() if line.startswith("{")]
        fields = [{**line, **line.get("fields", {})} for line in lines]
        return [line for line in fields if line.get("message") == "call" and line.get("method") == "POST"]

    def problems(self, request, said=()):
        """What `scrollback check` would refuse in a request, but for rules that the provider itself broke."""
        model = request.json.get("model")
        args = [self.binary, "check", "-", "--for", request.wire, "--json"]
        if model:
            args += ["--model", ("anthropic:" if request.wire == "anthropic" else "openai:") + model]
        made = subprocess.run(args, input=request.plain, cwd=self.folder, env=self.environment(), capture_output=True, timeout=PATIENCE)
        if made.returncode == 0:
            return []
        found = json.loads(made.stdout or b"{}").get("violations", [])
        left = [one for one in found if one["severity"] == "R" and one["rule"] not in said]
        return left if found else [made.stdout.decode() or made.stderr.decode()]


def emptied(folder):
    """An empty folder. What stood there is moved away first: something that still writes there cannot be in the way."""
    if folder.exists():
        shutil.rmtree(folder.rename(tempfile.mkdtemp(dir=folder.parent) + "/old"), ignore_errors=True)
    folder.mkdir(parents=True)


class Side:
    """One run of a scenario: the provider, the folder the client works in, and perhaps Scrollback in between."""

    def __init__(self, harness, scenario, through):
        self.harness, self.scenario, self.through = harness, scenario, through
        name = f"{scenario.client}-{scenario.name}".replace(" ", "-")
        self.folder = folder = harness.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        self.home, self.work = harness.place / name / "home", harness.place / name / "work"
        for fresh in (self.home, self.work):
            emptied(fresh)
        self.provider = Upstream(scenario.roles(), words={"work": str(self.work)}, **scenario.provider)
        self.server, self.output, self.children = None, None, []
        if through:
            shutil.rmtree(folder / "server", ignore_errors=True)
            self.server = Scrollback(harness.binary, folder / "server", self.provider, scenario.config)
            self.provider.settle = self.settle
        self.tap = Tap(lambda: self.server.url) if through else None

    def settle(self):
        """Waits until everything that the provider answered is recorded and handed on."""
        paths = {one.bare for one in self.provider.calls()}
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            ended = [line for line in self.server.ended_calls() if line.get("path") in paths]
            if len(ended) >= sum(one.played for one in self.provider.calls()):
                return
            time.sleep(0.02)

    @property
    def url(self):
        """Where the client shall ask."""
        return (self.tap or self.provider).url

    def environment(self, more):
        """Whatever asks for another place than this machine meets a door that is shut."""
        kept = {name: os.environ[name] for name in ("LANG", "TZ") if name in os.environ}
        kept["PATH"] = self.harness.path
        (self.home / "tmp").mkdir(exist_ok=True)
        shut = {name: "http://127.0.0.1:9" for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")}
        open_to = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
        return {**kept, **shut, **open_to, "HOME": str(self.home), "TMPDIR": str(self.home / "tmp"), **more}

    def watched(self, command):
        """The command, under strace where the scenario wants to know whom it speaks to."""
        command = [str(part) for part in command]
        if not self.scenario.watched:
            return command
        expect(shutil.which("strace"), "strace is missing: ./dev setup installs it")
        calls = "trace=connect,sendto,sendmsg,sendmmsg"
        return ["strace", "-f", "-qq", "-e", calls, "-e", "signal=none", "-o", str(self.folder / "watched"), *command]

    def others(self):
        """Addresses of other machines that the client spoke to."""
        told = (self.folder / "watched").read_text(errors="replace")
        found = re.findall(r'inet_addr\("([0-9.]+)"\)|inet_pton\(AF_INET6, "([0-9a-f:.]+)"', told)
        expect(found, "strace saw no connection at all")
        return sorted({four or six for four, six in found if not (four.startswith("127.") or six in ("::1", "::ffff:127.0.0.1"))})

    def start(self, command, env, stdin):
        """Starts a client in its folder, with nothing of this machine's settings."""
        return subprocess.Popen(
            self.watched(command), cwd=self.work, env=self.environment(env), start_new_session=True,
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )

    def run(self, command, env, seconds=CLIENT, stdin=None):
        """Runs a client to its end."""
        process = self.start(command, env, subprocess.PIPE if stdin is not None else subprocess.DEVNULL)
        try:
            out, err = process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise Failed(f"{command[0]} did not end within {seconds} s: {out.decode()[-1500:]} {err.decode()[-1500:]}") from None
        finally:
            ended(process.pid)
        return Run(process.returncode, out.decode(), err.decode())

    def talk(self, command, env, lines, answered, seconds=CLIENT):
        """Runs a client that reads JSON lines and writes them: each line is given to it when the one before is answered. What it
        answered each line with."""
        process = self.start(command, env, subprocess.PIPE)
        watch = threading.Timer(seconds, ended, [process.pid])
        watch.start()
        errors, answers = [], []
        reading = threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)
        reading.start()
        try:
            for line in lines:
                process.stdin.write(json.dumps(line).encode() + b"\n")
                process.stdin.flush()
                told = (json.loads(one) for one in process.stdout)
                answers.append(next((one for one in told if answered(one)), None))
                if answers[-1] is None:
                    break
            process.stdin.close()
            process.stdout.read()
            code = process.wait()
        finally:
            watch.cancel()
            ended(process.pid)
        reading.join()
        expect(code == 0 and len(answers) == len(lines), f"{command[0]} ended with {code} after {len(answers)} lines:", errors)
        return answers

    def close(self):
        if self.server:
            self.tap.stop()
            self.server.stop()
        self.provider.stop()


def ended(group):
    """Ends what a client left running: it would write into the folders of the next run, or ask at an address given anew."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Scenario:
    """What is played, how the client is driven, and what must be true afterwards."""

    def __init__(self, client, name, roles, drive, verify=None, short=False, exact=True, config="", provider=None,
                 known=None, direct=True, watched=False, said=(), compared=True):
        self.client, self.name, self.roles, self.drive, self.verify = client, name, roles, drive, verify
        self.short, self.exact, self.config, self.provider = short, exact, config, provider or {}
        self.known, self.direct, self.watched = known, direct, watched
        # Whether the direct run sends the same: not where the client orders something by chance, or is set up otherwise.
        self.compared = compared
        # Rules that the provider's own replies break: a check of the bare request cannot know who said it.
        self.said = set(said)


def working_place():
    """A folder for temporary files that no repository is around, with a short path: clients make sockets in theirs."""
    known = [pathlib.Path(one).resolve() for one in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")]
    fine = [one for one in known if one.is_dir() and os.access(one, os.W_OK | os.X_OK)]
    fine = [one for one in fine if not any((above / ".git").exists() for above in (one, *one.parents))]
    expect(fine, "clients would work inside a repository; set TMPDIR to a folder outside of one")
    return next((one for one in fine if len(str(one)) <= 40), fine[0])


def path_with_node():
    """PATH with node itself in front: a stand-in that a version manager puts there looks for it in the home folder."""
    path = os.environ.get("PATH", os.defpath)
    try:
        asked = subprocess.run(["node", "-p", "process.execPath"], capture_output=True, text=True, timeout=PATIENCE)
    except FileNotFoundError:
        return path
    found = pathlib.Path(asked.stdout.strip() or "/none")
    return f"{found.parent}{os.pathsep}{path}" if asked.returncode == 0 and found.is_file() else path


class Harness:
    def __init__(self, binary, tools, folder=None):
        self.binary, self.tools = str(pathlib.Path(binary).resolve()), pathlib.Path(tools).resolve()
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="scrollback-clients-")).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        # Clients work here, outside every checkout: they tell the model the state of the repository they find around them,
        # and that changes between two runs when a test or a person writes a file, or when git is too slow for the client.
        self.working = tempfile.TemporaryDirectory(prefix="scrollback-clients-", dir=working_place(), ignore_cleanup_errors=True)
        self.place = pathlib.Path(self.working.name).resolve()
        self.path = path_with_node()
        codings.PYTHON = str(self.python())

    def npm(self, name):
        return self.tools / "node_modules" / ".bin" / name

    def python(self):
        return self.tools / "venv" / "bin" / "python"

    def play(self, scenario):
        """Both runs and everything that is checked; seconds it took."""
        began, direct = time.monotonic(), None
        if scenario.direct:
            direct = Side(self, scenario, through=False)
            try:
                direct.output = scenario.drive(direct)
            finally:
                direct.close()
        through = Side(self, scenario, through=True)
        try:
            through.output = scenario.drive(through)
            self.judge(scenario, direct, through)
            if scenario.verify:
                scenario.verify(direct, through)
        finally:
            self.keep(direct, through)
            through.close()
        return time.monotonic() - began

    @staticmethod
    def keep(direct, through):
        """What was received, for looking into a failure."""
        for side, name in ((direct, "direct"), (through, "through")):
            if side is None:
                continue
            folder = side.folder / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for number, one in enumerate(side.provider.received):
                (folder / f"{number:03}-{one.role}-{one.status}.json").write_bytes(one.plain)

    @staticmethod
    def judge(scenario, direct, through):
        for side, name in ((direct, "direct"), (through, "through Scrollback")):
            if side is None:
                continue
            expect(not side.provider.problems, f"{name}: the provider says", side.provider.problems[:3])
            expect(not side.provider.left(), f"{name}: never asked for", side.provider.left())
        for number, one in enumerate(through.provider.answered()):
            found = through.server.problems(one, scenario.said)
            expect(not found, f"request {number} ({one.role}) is refused by scrollback check:", found)
        verified = through.server.command("verify", fine=(0, 1))[0]
        expect(verified.get("ok"), "verify says", verified)
        recorded(through)
        if scenario.exact and scenario.compared and direct:
            same(direct.provider, through.provider)
        if scenario.exact:
            untouched(through)
        if direct and scenario.exact:
            equal(settled(through.output.encode()), settled(direct.output.encode()), "what the client printed")


def recorded(side):
    """The record holds every whole reply of the provider, and its calls with the usage the provider told."""
    made = side.server.process_output("export", "--all")
    texts = json.dumps([json.loads(line) for line in made.splitlines()], ensure_ascii=False)
    for one in side.provider.answered():
        prefix = {"anthropic": "toolu_", "gemini": "fc_"}.get(one.wire, "call_")
        wanted = [prefix + call for call in one.reply.calls] + [part[1] for part in one.reply.parts if part[0] == "text"]
        for words in wanted:
            spelled = json.dumps(words, ensure_ascii=False)[1:-1]
            expect(spelled in texts or json.dumps(spelled, ensure_ascii=False)[1:-1] in texts, f"the record does not hold {words!r}")
    listed = {one["conversation"] for one in side.server.conversations()}
    answered = side.server.get("/api/conversations?limit=200")
    equal({one["id"] for one in answered["conversations"]}, listed, "conversations of the API")
    told = [(one.usage.total, one.usage.read, one.reply.output_tokens()) for one in side.provider.answered() if tells_usage(one)]
    calls = [one["usage"] for one in side.server.get("/api/calls?limit=500")["calls"] if one["status"] == "ok"]
    found = [(one["input"], one["cache_read"], one["output"]) for one in calls if not one["estimated"]]
    equal(sorted(found), sorted(told), "usage of the recorded calls")


def tells_usage(request):
    """Whether the provider said what the call used: streams of Chat Completions say so only if they are asked."""
    body = request.json
    asked = (body.get("stream_options") or {}).get("include_usage")
    return request.wire != "openai-chat" or not body.get("stream") or bool(asked)


def alone(_, through):
    """The client spoke to this machine only."""
    equal(through.others(), [], "other machines the client spoke to")


def same(direct, through):
    """Every request is the direct one, byte for byte."""
    for role in [role.name for role in direct.roles]:
        one, other = direct.calls(role), through.calls(role)
        expect(len(one) == len(other), f"{role}: {len(one)} direct requests, {len(other)} through Scrollback")
        for number, (wanted, found) in enumerate(zip(one, other)):
            wanted, found = settled(wanted.plain), settled(found.plain)
            if wanted == found:
                continue
            at = next((place for place, (a, b) in enumerate(zip(wanted, found)) if a != b), min(len(wanted), len(found)))
            raise Failed(
                f"{role}: request {number} differs from the direct one at byte {at} of {len(wanted)}:\n"
                f"  direct:  …{wanted[max(0, at - 120):at + 160]!r}\n  through: …{found[max(0, at - 120):at + 160]!r}"
            )


def untouched(side):
    """What the provider received is what the client sent, and all of it."""
    received = [one for one in side.provider.received if one.wire and one.body]
    paths = {one.path for one in received}
    sent = sorted(body for path, body in side.tap.bodies() if path in paths and body)
    found = sorted(one.plain for one in received)
    expect(sent == found, f"{len(sent)} bodies were sent and {len(found)} received, and they are not the same")
