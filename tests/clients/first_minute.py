"""The first minute with real clients: `wrap` on a machine that never saw Scrollback, and `setup` with its way back."""

import json
import re
import shutil

import claude_code
import codex
import harness
import opencode
from harness import Scenario, equal, expect
from said import say
from upstream import Role

# What the recall server says of itself.
RECALL = "Everything that was said in your sessions is kept"
STORE = ".local/share/scrollback"


def roles():
    return [Role("main", [say("Good day to you.")])]


def wrapped(side, command, env):
    """The command by itself, or behind `scrollback wrap`. The record is the person's own, in the home folder."""
    env = {**env, "PATH": f"{side.harness.npm('claude').parent}:{side.harness.path}"}
    if side.through:
        command = [side.harness.binary, "wrap", *command]
    run = side.run(command, env)
    expect(run.code == 0, command[0], "ended with", run.code, run.out[-1500:], run.err[-1500:])
    if side.through:
        expect("recorded in sqlite:" in run.err, "wrap does not say where the record is:", run.err)
        adopt(side)
    return run


def adopt(side):
    """The record that `wrap` made becomes that of the server, where every scenario is judged."""
    side.server.stop()
    made = side.home / STORE
    for old in side.server.folder.glob("record.db*"):
        old.unlink()
    for file in made.iterdir():
        shutil.move(file, side.server.folder / file.name.replace("scrollback.db", "record.db"))
    made.rmdir()
    side.server.start()


def claude_wrapped(side):
    """No file of Claude Code is there before."""
    env = {"ANTHROPIC_BASE_URL": side.provider.url, "ANTHROPIC_API_KEY": claude_code.KEY, **claude_code.QUIET}
    return wrapped(side, ["claude", "-p", "hello", "--session-id", claude_code.SESSION], env).out


def codex_wrapped(side):
    """With the provider that is built in, which tries a websocket first."""
    config = side.home / ".codex" / "config.toml"
    config.parent.mkdir()
    text = f'# mine\nopenai_base_url = "{side.provider.url}/v1"  # a gateway\n{codex.PLAIN}'
    config.write_text(text)
    command = ["codex", "exec", "--json", "--skip-git-repo-check", "hello"]
    run = wrapped(side, command, {"CODEX_HOME": str(config.parent), "CODEX_API_KEY": "sk-of-the-client"})
    equal(config.read_text(), text, "the configuration of Codex")
    return codex.said_last(run.lines())


# Where clients keep what changes with every run: sessions, counters, logs.
STATE = re.compile(r"\.claude\.json|\.claude/projects/.*|\.codex/sessions/.*|\.codex/[a-z_]+_\d\.sqlite")
# What is there by chance.
PASSING = re.compile(r"tmp/.*|.*\.sqlite-(wal|shm)|.*\.lock")


def files(side):
    """Every file of the home folder, by its name without what is another in every run."""
    found = {}
    for place in side.home.rglob("*"):
        name = str(place.relative_to(side.home))
        if place.is_file() and not place.is_symlink() and not PASSING.fullmatch(name):
            name = re.sub(r"\d{4}/\d\d/\d\d/|\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d", "TIME", name)
            found[harness.settled(name.encode()).decode()] = place.read_bytes()
    return found


def same_files(direct, through):
    """After the run behind `wrap` the home folder holds what it holds after a run without: the same files with the same bytes.
    Of what the client writes anew in every run, only the names are compared, and that no place of ours is in it."""
    wanted, found = files(direct), files(through)
    equal(sorted(found), sorted(wanted), "files of the home folder")
    for name, data in found.items():
        if not STATE.fullmatch(name):
            equal(harness.settled(data), harness.settled(wanted[name]), name)
        expect(through.tap.url.encode() not in data and b"ANTHROPIC_BASE_URL" not in data, "wrap is seen in", name)


def same_requests(direct, through):
    """The provider receives what it receives without Scrollback, the record has it, and no file is changed."""
    harness.same(direct.provider, through.provider)
    equal(through.output, direct.output, "what the client printed")
    equal(len(through.server.conversations()), 1, "conversations")
    same_files(direct, through)


def set_up(side, client, file, before, run):
    """`setup`, a run of the client, `setup --undo`: the file is to the byte what it was."""
    place = side.home / file
    place.parent.mkdir(parents=True)
    place.write_bytes(before)
    if not side.through:
        return run(side)
    # The tap stands where clients expect the server.
    address = side.tap.url.removeprefix("http://")
    config = side.home / ".config" / "scrollback" / "scrollback.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[server]\nlisten = "{address}"\n')
    env = {"XDG_CONFIG_HOME": str(side.home / ".config"), "ANTHROPIC_API_KEY": "sk-ant-of-the-client"}
    made = side.run([side.harness.binary, "setup", client, "--json"], env)
    equal((made.code, made.lines()[0]["state"]), (0, "written"), "setup " + made.err)
    expect(place.read_bytes() != before, "setup wrote nothing")
    again = side.run([side.harness.binary, "setup", client, "--json"], env)
    equal(again.lines()[0]["state"], "unchanged", "setup a second time")
    written = place.read_bytes()
    output = run(side)
    installed = f"{side.harness.npm(client).parent}:{side.harness.path}"
    here = {**env, "HOME": str(side.home), "PATH": installed, "ANTHROPIC_BASE_URL": "", "OPENAI_BASE_URL": ""}
    told = side.server.command("doctor", fine=(0, 1), env=here)[0]["checks"]
    found = next(one for one in told if one["name"] == client)
    expect(found["through"] and found["last_call"].endswith("(ok)"), "doctor says", found)
    undone = side.run([side.harness.binary, "setup", client, "--undo"], env)
    equal(undone.code, 0, "setup --undo " + undone.err)
    if place.read_bytes() != before:
        raise harness.Failed(f"{file} is not what it was: {place.read_bytes()!r}; written was {written!r}")
    return output


def claude_set_up(side):
    def run(side):
        # Directly the base URL comes by the environment; behind setup there is none.
        env = {"ANTHROPIC_API_KEY": claude_code.KEY, **claude_code.QUIET}
        direct = {} if side.through else {"ANTHROPIC_BASE_URL": side.provider.url, "ENABLE_TOOL_SEARCH": "true"}
        command = [side.harness.npm("claude"), "-p", "hello", "--session-id", claude_code.SESSION]
        made = side.run(command, {**env, **direct})
        expect(made.code == 0, "claude ended with", made.code, made.out[-1500:], made.err[-1500:])
        return made.out

    before = b'{\n\t"env":{"EDITOR_OF_MINE" : "ed"},   "cleanupPeriodDays": 3e1\n}'
    return set_up(side, "claude", ".claude/settings.json", before, run)


def codex_set_up(side):
    home = side.home / ".codex"

    def run(side):
        more = [] if side.through else ["-c", f'openai_base_url="{side.provider.url}/v1"']
        command = [side.harness.npm("codex"), "exec", *more, "--json", "--skip-git-repo-check", "hello"]
        made = side.run(command, {"CODEX_HOME": str(home), "CODEX_API_KEY": "sk-of-the-client"})
        expect(made.code == 0, "codex ended with", made.code, made.out[-1500:], made.err[-1500:])
        return codex.said_last(made.lines())

    before = f"# mine, with a comment\r\n{codex.PLAIN}\n[profiles.other] # the last line has no end".encode()
    return set_up(side, "codex", ".codex/config.toml", before, run)


def opencode_set_up(side):
    file = ".config/opencode/opencode.jsonc"

    def run(side):
        env = {"ANTHROPIC_API_KEY": "sk-ant-of-the-client", "XDG_CONFIG_HOME": str(side.home / ".config"), **opencode.QUIET}
        if not side.through:
            options = {"provider": {"anthropic": {"options": {"baseURL": side.provider.url + "/v1"}}}}
            env["OPENCODE_CONFIG_CONTENT"] = json.dumps(options)
        made = side.run([side.harness.npm("opencode"), "run", "hello"], env)
        expect(made.code == 0, "opencode ended with", made.code, made.out[-1500:], made.err[-1500:])
        return made.out.strip()

    before = b"""// mine
{
  "autoupdate": false, /* never */
  "share": "disabled",
  "model": "anthropic/claude-sonnet-4-5",
  "small_model": "anthropic/claude-haiku-4-5",
}
"""
    return set_up(side, "opencode", file, before, run)


def opencode_roles():
    title = Role("title", [say("A greeting")], opencode.titles)
    return [title, Role("main", [say("Good day to you.")], after=["title"])]


def went_through(direct, through):
    """One session, and the client offers the tools of recall, which it does not without being set up."""
    equal(len({one["session"] for one in through.server.conversations()}), 1, "sessions")
    for side, offered in ((direct, False), (through, True)):
        equal(RECALL in side.provider.calls("main")[0].texts(), offered, "the recall server is known to the model")


SCENARIOS = [
    Scenario("claude-code", "wrapped on a new machine", roles, claude_wrapped, same_requests, exact=False, short=True),
    Scenario("codex", "wrapped with its own provider", roles, codex_wrapped, same_requests, exact=False),
    Scenario("claude-code", "set up and taken back", roles, claude_set_up, went_through, compared=False),
    Scenario("codex", "set up and taken back", roles, codex_set_up, went_through, compared=False),
    Scenario("opencode", "set up and taken back", opencode_roles, opencode_set_up, went_through, compared=False),
]
