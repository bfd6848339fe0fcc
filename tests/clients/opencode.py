"""opencode: what it sends, and what must come of it."""

import json

from harness import Scenario, alone, equal, expect
from said import do, say
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


def opencode(side, prompt, *args):
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
    run = side.run([side.harness.npm("opencode"), "run", *args, prompt], env)
    expect(run.code == 0, "opencode ended with", run.code, run.out[-1500:], run.err[-1500:])
    return run.out


def titles(request):
    return "Generate a title" in request.first_user()


def tools_roles():
    steps = [do("write", filePath="{work}/notes.txt", content="one\n"), do("bash", command="cat notes.txt", description="Show it")]
    # The title is asked for beside the first call, and nothing waits for it: opencode ends with the last reply of the other.
    main = Role("main", [*steps, say("The file holds one line.")], after=["title"])
    return [Role("title", [say("Notes of one line")], titles), main]


def asked(side):
    return opencode(side, "Write a line").strip()


def written(_, through):
    expect("The file holds one line." in through.output, through.output)
    equal((through.work / "notes.txt").read_text(), "one\n", "the file")


SCENARIOS = [
    Scenario("opencode", "tools and a title", tools_roles, asked, written, short=True),
    Scenario("opencode", "no other machine", tools_roles, asked, alone, direct=False, watched=True),
]
