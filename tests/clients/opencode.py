"""opencode: what it sends, and what must come of it."""

import json

import long
from harness import Scenario, alone, equal, expect
from said import Fail, Lost, Spoilt, do, say
from sessions import cut, one_session
from upstream import Role

# No word to any other place.
QUIET = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    # It would fetch a package for plug-ins that are not used here.
    "npm_config_offline": "true",
}


def opencode(side, prompt, *args, **more):
    """One headless run; what it printed for the person."""
    settings = {"options": {"baseURL": side.url + "/v1", "apiKey": "sk-ant-of-the-client"}}
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "anthropic/claude-sonnet-4-5",
        "small_model": "anthropic/claude-haiku-4-5",
        "provider": {"anthropic": settings},
        "permission": {"*": "allow"},
    }
    env = {
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        **QUIET,
    }
    run = side.run([side.harness.npm("opencode"), "run", *args, prompt], env, **more)
    expect(run.code == 0, "opencode ended with", run.code, run.out[-1500:], run.err[-1500:])
    return run.out


def titles(request):
    return "Generate a title" in request.first_user()


def tools_roles():
    steps = [do("write", filePath="{work}/notes.txt", content="one\n"), do("bash", command="cat notes.txt", description="Show it")]
    # The title is asked for beside the first call, and nothing waits for it: opencode ends with the last reply of the other.
    return with_title("Notes of one line", *steps, say("The file holds one line."))


def with_title(title, *steps, waits=None):
    return [Role("title", [say(title)], titles), Role("main", list(steps), after=["title"], waits=waits)]


def asking(prompt):
    return lambda side: opencode(side, prompt).strip()


def written(direct, through):
    expect("The file holds one line." in through.output, through.output)
    equal((through.work / "notes.txt").read_text(), "one\n", "the file")
    one_session("Notes of one line", main=1, side=1)(direct, through)


# Sub-agents have sessions of their own below that of the main one.


def agents_roles():
    task = do("task", description="Count apples", prompt="APPLES: count them", subagent_type="general")
    apples = [do("bash", command="echo 7", description="Count"), say("There are seven apples.")]
    title, main = with_title("Counting fruit", task, say("Seven in all."))
    return [title, Role("apples", apples, lambda request: "APPLES: count" in request.first_user()), main]


# Sessions that go on


def resumed_roles():
    steps = [say("It is noted: heron."), do("bash", command="echo looked", description="Look"), say("The word is heron.")]
    return with_title("A word to remember", *steps, waits=1)


def resumed(side):
    opencode(side, "The word is heron")
    if side.server:
        side.server.restart()
    return opencode(side, "Which word?", "--continue").strip()


# Errors


def failing(failure):
    return lambda: with_title("A try", failure, do("bash", command="echo done", description="Try"), failure, say("Done in the end."))


# Windows


def long_roles(rounds, tokens):
    def read(number):
        return do("read", filePath=f"{{work}}/module_{number:02}.py").parts[0]

    def find(name):
        return do("bash", command=f"grep -n {name} module_*.py", description="Find it").parts[0]

    return lambda: with_title("Reading modules", *long.steps(rounds, tokens, read, find))


def reading(rounds, tokens):
    def drive(side):
        long.files(side, rounds, tokens)
        return opencode(side, "Read all modules").strip()

    return drive


def cut_beside_the_title(direct, through):
    one_session("Reading modules", main=1, side=1)(direct, through)
    cut("messages", 30000, conversations=2)(direct, through)


WINDOW = '[models."anthropic:claude-sonnet-4-5"]\ncontext_window = 30000\n'
SOON = {"retry-after": "0"}
TRIED = one_session("A try", main=1, side=1)


SCENARIOS = [
    Scenario("opencode", "tools and a title", tools_roles, asking("Write a line"), written, short=True),
    Scenario("opencode", "no other machine", tools_roles, asking("Write a line"), alone, direct=False, watched=True),
    Scenario("opencode", "sub-agents", agents_roles, asking("Count the fruit"),
             one_session("Counting fruit", main=1, side=1, sub_agent=1)),
    Scenario("opencode", "resume", resumed_roles, resumed, one_session("A word to remember", main=1, side=1)),
    Scenario("opencode", "small window", long_roles(20, 1500), reading(20, 1500), cut_beside_the_title, exact=False,
             direct=False, config=WINDOW),
    Scenario("opencode", "429", failing(Fail(429, "rate_limit_error", "slow down", SOON)), asking("Try"), TRIED),
    Scenario("opencode", "500", failing(Fail(500, "api_error", "Internal server error", SOON)), asking("Try"), TRIED),
    Scenario("opencode", "lost connection", failing(Lost()), asking("Try"), TRIED),
    Scenario("opencode", "lost in the middle", failing(Lost(say("Lost half way through."))), asking("Try"), TRIED),
    Scenario("opencode", "error in the middle", failing(Spoilt(say("Spoilt half way through."))), asking("Try"), TRIED),
]
