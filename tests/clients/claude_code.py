"""Claude Code: what it sends, and what must come of it."""

import json
import re

import long
from harness import Scenario, alone, equal, expect
from said import Fail, Lost, Reply, Spoilt, call, do, say, text, thought
from sessions import cut, one_conversation, one_session, sessions
from terminal import Terminal
from upstream import Role

# What the script may ask for; the client keeps its other guards.
ALLOWED = "Bash,Edit,Write,Read,Agent"
KEY = "sk-ant-of-the-client"
SESSION = "5e551017-0000-4000-8000-000000000001"

# No word to any other place.
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
}


def environment(side, **more):
    """Claude Code's own variables: where the provider is, and no word to any other place."""
    settings = {
        "userID": "0" * 64,
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "numStartups": 5,
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {str(side.work): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    place = side.home / ".claude.json"
    if not place.exists():
        place.write_text(json.dumps(settings))
    return {
        "ANTHROPIC_BASE_URL": side.url,
        "ANTHROPIC_API_KEY": KEY,
        **QUIET,
        **more,
    }


def claude(side, prompt, *args, fine=(0,), env=None, **more):
    """One headless run; the line it printed at the end."""
    command = [side.harness.npm("claude"), "-p", prompt, "--output-format", "json", "--allowedTools", ALLOWED, *args]
    run = side.run(command, environment(side, **(env or {})), **more)
    expect(run.code in fine, "claude ended with", run.code, run.out[-1500:], run.err[-1500:])
    return json.loads(run.out.strip().splitlines()[-1])


def talk(side, prompts, *args, env=None):
    """One run in which a person says one thing after another; what was answered."""
    command = [
        side.harness.npm("claude"), "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
        "--allowedTools", ALLOWED, "--session-id", SESSION, *args,
    ]
    lines = [{"type": "user", "message": {"role": "user", "content": prompt}} for prompt in prompts]
    answers = side.talk(command, environment(side, **(env or {})), lines, lambda one: one.get("type") == "result")
    return [one["result"] for one in answers]


def named(prompt):
    """One headless run with a session of a known name."""
    return lambda side: claude(side, prompt, "--session-id", SESSION)["result"]


# Plain


def plain_roles():
    return [Role("main", [say("Good day to you.")])]


# Tools whose calls the client spells anew


def edits_roles():
    path = "notes.txt"
    steps = [do("Write", file_path=f"{{work}}/{path}", content="".join(f"line {n}\n" for n in range(6)))]
    steps += [
        do("Edit", file_path=f"{{work}}/{path}", old_string=f"line {n}\n", new_string=f"changed {n}\n") for n in range(6)
    ]
    steps += [do("Bash", command=f"cd {{work}} && cat {path}", description="Show the file"), say("All six are changed.")]
    return [Role("main", steps)]


def edited(direct, through):
    one_conversation(direct, through)
    equal((through.work / "notes.txt").read_text(), "".join(f"changed {n}\n" for n in range(6)), "the file")
    last = through.provider.calls("main")[-1].texts()
    expect("replace_all" in last, "the client no longer adds replace_all: this scenario shows nothing any more")


def parallel_roles():
    both = Reply(text("Both at once."), call("Bash", command="echo one"), call("Bash", command="sleep 0.3; echo two"))
    return [Role("main", [both, say("Both are done.")])]


def thinking_roles():
    steps = [
        Reply(thought("First I look."), text("Looking."), call("Bash", command="echo seen")),
        Reply(thought("Then again."), call("Bash", command="echo again")),
        Reply(thought("Now I know."), text("It was seen.")),
    ]
    return [Role("main", steps)]


# Sub-agents


def agents_roles():
    both = Reply(
        call("Agent", description="Count apples", prompt="APPLES: count them", subagent_type="general-purpose", run_in_background=False),
        call("Agent", description="Count pears", prompt="PEARS: count them", subagent_type="general-purpose", run_in_background=False),
    )
    apples = [do("Bash", command="echo 7"), say("Seven apples.")]
    # The client lists the results in the order in which its sub-agents end: this one has a round to go when the other has ended.
    pears = [do("Bash", command="echo 4"), do("Bash", command="echo 5"), say("Nine pears.")]
    return [
        Role("apples", apples, lambda r: "APPLES: count" in r.first_user()),
        Role("pears", pears, lambda r: "PEARS: count" in r.first_user(), after=["apples"], waits=2),
        Role("main", [both, say("Seven apples and nine pears.")]),
    ]


# Sessions that go on


def resumed_roles():
    return [Role("main", [say("It is noted: heron."), do("Bash", command="echo looked"), say("The word is heron.")])]


def continued(side):
    claude(side, "The word is heron", "--session-id", SESSION)
    if side.server:
        side.server.restart()
    return claude(side, "Which word?", "--continue")["result"]


def resumed(side):
    claude(side, "The word is heron", "--session-id", SESSION)
    if side.server:
        side.server.restart()
    return claude(side, "Which word?", "--resume", SESSION)["result"]


def forked(side):
    claude(side, "The word is heron", "--session-id", SESSION)
    if side.server:
        side.server.restart()
    return claude(side, "Which word?", "--resume", SESSION, "--fork-session")["result"]


def compacted_roles():
    steps = [say("It is noted: heron."), say("<summary>The word is heron.</summary>"), say("The word is heron.")]
    return [Role("main", steps)]


def compacted(side):
    claude(side, "The word is heron", "--session-id", SESSION)
    claude(side, "/compact", "--resume", SESSION)
    return claude(side, "Which word?", "--resume", SESSION)["result"]


# Errors


def failing(*failures):
    return lambda: [Role("main", [*failures, do("Bash", command="echo done"), *failures, say("Done in the end.")])]


# A person at a terminal


def interactive_roles():
    _, _, main = agents_roles()
    title = Role("title", [say('{"title": "Counting fruit"}')], lambda r: not r.tools() and "Write the title" in r.first_user())
    summary = say("<analysis>Fruit was counted.</analysis>\n<summary>Seven apples and nine pears.</summary>")
    steps = [*main.steps, summary, say("There were sixteen.")]
    return [title, *agents_roles()[:2], Role("main", steps)]


def interactive(side, **more):
    """A title call, two sub-agents, the client's own compaction, and a question after it."""
    env = environment(side, **more)
    # With this the client makes no title.
    env.pop("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC")
    # Sub-agents are waited for, so that the order of calls does not hang on chance.
    env["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] = "1"
    command = [side.harness.npm("claude"), "--session-id", SESSION, "--permission-mode", "default", "--allowedTools", ALLOWED]
    screen = Terminal(command, side.work, side.environment(env))
    try:
        screen.shows("❯")
        screen.line("Count the fruit in the basket")
        screen.shows("Seven apples and nine pears.")
        screen.line("/compact")
        screen.shows("Compacted")
        screen.line("How many in all?")
        screen.shows("There were sixteen.")
    finally:
        screen.close()
    return "There were sixteen."


def stated(side):
    """The same with the headers in which the client tells its own provider what kind of call each is."""
    return interactive(side, CLAUDE_CODE_GATEWAY_HINT_HEADERS="1")


def stated_and_sixteen(direct, through):
    """The client said what its calls are, and the record says the same."""
    said = {one.role: one.headers.get("x-claude-code-request-class") for one in through.provider.calls()[:3]}
    equal((said["title"], said["main"]), ("auxiliary", "main"), "what the client states")
    FRUIT(direct, through)


# One session: what the person sees, the title call, two sub-agents, and what follows the compaction; with the client's title.
FRUIT = one_session("Counting fruit", main=1, side=1, sub_agent=2, branch=1)


# Windows


def overflow_roles():
    return long.claude_roles(10, 3000)()


def reading(rounds, tokens):
    def drive(side):
        long.files(side, rounds, tokens)
        return claude(side, "Read all modules", "--session-id", SESSION, seconds=600)["result"]

    return drive


WINDOW = '[models."anthropic:claude-opus-5-5"]\ncontext_window = 40000\n'


def thoughtless(side):
    """The provider answers without a thought although thinking is asked for; that is its own business."""
    return claude(side, "Try", "--session-id", SESSION, "--model", "claude-sonnet-4-5")["result"]


SOON = {"retry-after": "0"}

# Recall

LOG = "for n in $(seq 1 60); do echo line $n of the deployment log; done; echo the staging port is $((48000+123))"


def found_handle(request):
    """The handle of the entry that a search of the request found."""
    found = re.findall(r"(sb:[a-z0-9]{10}#\d+) [^\\]*result of Bash", request.texts())
    return do("mcp__scrollback__read", handle=found[-1] if found else "none", pattern="port")


def recall_roles():
    # The first reply is that of another session in the same folder.
    steps = [say("The production port is 49321.")]
    steps += [do("Bash", command=LOG, description="Print the log")]
    steps += [do("Bash", command=f"echo step {n}", description="Go on") for n in range(3)]
    steps += [
        do("mcp__scrollback__search", query="quokka"),
        do("mcp__scrollback__search", query="staging port"),
        found_handle,
        do("mcp__scrollback__search", query="production port"),
        do("mcp__scrollback__search", query="production port", scope="project"),
        do("Bash", command="echo connect to 48123", description="Use it"),
        say("It was 48123."),
    ]
    return [Role("main", steps)]


OTHER = "6f0d2c1e-0c8f-4a53-9d1b-2f6a1c1b7a10"


def recalling(side):
    claude(side, "Which port has production?", "--session-id", OTHER)
    store = f"sqlite:{side.folder}/server/record.db"
    server = {"command": side.harness.binary, "args": ["mcp", "--store", store]}
    return claude(
        side, "Find the port", "--session-id", SESSION, "--strict-mcp-config",
        "--mcp-config", json.dumps({"mcpServers": {"scrollback": server}}),
        "--allowedTools", ALLOWED + ",mcp__scrollback__search,mcp__scrollback__read",
        env={"SCROLLBACK_SESSION": SESSION, "ENABLE_TOOL_SEARCH": "false"},
    )["result"]


def recalled(_, through):
    calls = through.provider.calls("main")[1:]
    expect("mcp__scrollback__search" in calls[0].tools(), "the tools are offered from the first request on", calls[0].tools())
    before = calls[4].texts()
    expect("the staging port is 48123" not in before, "the value was cleared from the view")
    expect(re.search(r"result left out: 61 lines, read sb:[a-z0-9]{10}#\d+", before), "the placeholder has the handle", before[-3000:])
    expect("0 hits in this session" in calls[5].texts(), "an empty search says what was searched")
    expect("48123" not in calls[5].texts(), "nothing has told the value yet", calls[5].texts()[-2000:])
    expect("48123" in calls[6].texts(), "the search found it", calls[6].texts()[-2000:])
    expect("the staging port is 48123" in calls[7].texts(), "the exact text was read back", calls[7].texts()[-2000:])
    expect("widen with scope=project" in calls[8].texts(), "an empty search says where there is more", calls[8].texts()[-2000:])
    expect("49321" not in calls[8].texts(), "and does not tell it", calls[8].texts()[-2000:])
    expect("49321" in calls[9].texts(), "the wider search found the other session", calls[9].texts()[-2000:])
    found = through.server.command("search", "48123")
    expect(found and json.dumps(found).count("conversation"), "the record holds the value")
    sessions({"main": 1}, {"main": 1})(None, through)


SCENARIOS = [
    Scenario("claude-code", "recall", recall_roles, recalling, recalled, exact=False, direct=False,
             config='[server]\nmanagers = ["clear_tool_results(1)"]\n'),
    Scenario("claude-code", "no other machine", plain_roles, named("Say good day"), alone, direct=False, watched=True),
    Scenario("claude-code", "plain", plain_roles, named("Say good day"), one_conversation, short=True),
    Scenario("claude-code", "edits", edits_roles, named("Change all six lines"), edited, short=True),
    Scenario("claude-code", "parallel tools", parallel_roles, named("Do both"), one_conversation),
    Scenario("claude-code", "thinking", thinking_roles, named("Think about it"), one_conversation),
    Scenario("claude-code", "sub-agents", agents_roles, named("Count the fruit"),
             one_session("Count the fruit", main=1, sub_agent=2)),
    Scenario("claude-code", "continue", resumed_roles, continued, one_conversation),
    Scenario("claude-code", "resume", resumed_roles, resumed, one_conversation),
    Scenario("claude-code", "fork-session", resumed_roles, forked,
             sessions({"main": 1}, {"main": 1}, title="The word is heron")),
    Scenario("claude-code", "own compaction", compacted_roles, compacted,
             one_session("The word is heron", main=1, branch=1)),
    Scenario("claude-code", "429", failing(Fail(429, "rate_limit_error", "slow down", SOON)), named("Try"), one_conversation),
    Scenario("claude-code", "529", failing(Fail(529, "overloaded_error", "Overloaded", SOON)), named("Try"), one_conversation),
    Scenario("claude-code", "500", failing(Fail(500, "api_error", "Internal server error", SOON)), named("Try"), one_conversation),
    Scenario("claude-code", "lost connection", failing(Lost()), named("Try"), one_conversation),
    Scenario("claude-code", "lost in the middle", failing(Lost(say("Lost half way through."))), named("Try"), one_conversation),
    Scenario("claude-code", "interactive", interactive_roles, interactive, FRUIT),
    Scenario("claude-code", "interactive, with stated kinds", interactive_roles, stated, stated_and_sixteen),
    Scenario("claude-code", "a reply without a thought", failing(), thoughtless, one_conversation, said=["AN-32"]),
    Scenario("claude-code", "overflow", overflow_roles, reading(10, 3000), cut("messages", 36000), exact=False, direct=False,
             provider={"window": 36000}),
    Scenario("claude-code", "small window", long.claude_roles(30, 1500), reading(30, 1500), cut("messages", 40000), exact=False,
             direct=False, config=WINDOW),
    Scenario("claude-code", "error in the middle", failing(Spoilt(say("Spoilt half way through."))), named("Try"), one_conversation),
]
