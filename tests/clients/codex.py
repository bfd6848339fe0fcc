"""Codex: what it sends, and what must come of it."""

import base64
import json
import re
import time

import long
from harness import Scenario, alone, equal, expect
from said import Fail, Lost, Reply, Spoilt, call, do, say, text, thought
from sessions import cut, one_conversation, one_session, sessions
from upstream import Role

CONFIG = """
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "danger-full-access"
{settings}

[features]
plugins = false
remote_plugin = false
apps = false
{features}

[analytics]
enabled = false

[feedback]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 3
stream_max_retries = 3
{provider}
"""

# Settings of a person who uses the provider that is built in.
PLAIN = """
model = "gpt-5.5"
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "danger-full-access"

[features]
plugins = false
remote_plugin = false
apps = false

[analytics]
enabled = false

[feedback]
enabled = false
"""


def codex(side, prompt, *args, model="gpt-5.5", settings="", features="", provider="", fine=(0,), prompt_last=None, **more):
    """One headless run; its events."""
    home = side.home / ".codex"
    home.mkdir(exist_ok=True)
    text = CONFIG.format(url=side.url, model=model, settings=settings, features=features, provider=provider)
    (home / "config.toml").write_text(text)
    prompts = [prompt] if prompt_last is None else [prompt, prompt_last]
    command = [side.harness.npm("codex"), "exec", *args, "--json", "--skip-git-repo-check", *prompts]
    run = side.run(command, {"CODEX_HOME": str(home), "OPENAI_API_KEY": "sk-of-the-client"}, **more)
    expect(run.code in fine, "codex ended with", run.code, run.out[-1500:], run.err[-1500:])
    return run.lines()


def said_last(events):
    """The last message to the person."""
    texts = [one["item"]["text"] for one in events if one.get("item", {}).get("type") == "agent_message"]
    return texts[-1] if texts else ""


def asking(prompt, **more):
    return lambda side: said_last(codex(side, prompt, **more))


def no_upgrade(direct, through):
    one_conversation(direct, through)
    asked = [one for one in through.provider.received if one.method == "GET" and one.bare == "/v1/responses"]
    equal(len(asked), 0, "requests to speak over a websocket that reached the provider")


def plain_roles():
    return [Role("main", [say("Good day to you.")])]


def tools_roles():
    patch = "*** Begin Patch\n*** Add File: notes.txt\n+one\n+two\n*** End Patch\n"
    steps = [
        do("exec_command", cmd="echo one; echo two"),
        do("apply_patch", input=patch),
        do("exec_command", cmd="cat notes.txt"),
        say("The file holds two lines."),
    ]
    return [Role("main", steps)]


def written(direct, through):
    one_conversation(direct, through)
    equal((through.work / "notes.txt").read_text(), "one\ntwo\n", "the file")


def parallel_roles():
    both = Reply(call("exec_command", cmd="echo one"), call("exec_command", cmd="echo two"))
    return [Role("main", [both, say("Both are done.")])]


def thinking_roles():
    steps = [
        Reply(thought("First I look."), call("exec_command", cmd="echo seen")),
        Reply(thought("Then again."), call("exec_command", cmd="echo again")),
        Reply(thought("Now I know."), text("It was seen.")),
    ]
    return [Role("main", steps)]


def resumed_roles():
    return [Role("main", [say("It is noted: heron."), do("exec_command", cmd="echo looked"), say("The word is heron.")])]


def resumed(side):
    codex(side, "The word is heron")
    if side.server:
        side.server.restart()
    return said_last(codex(side, "Which word?", "resume", "--last"))


def forked(side):
    """A second session that begins with the history of the first."""
    begun = codex(side, "The word is heron")
    session = next(one["thread_id"] for one in begun if one["type"] == "thread.started")
    if side.server:
        side.server.restart()
    return said_last(codex(side, session, "fork", prompt_last="Which word?"))


# Sub-agents


def agent_id(request):
    """Waits for the sub-agent that was started last."""
    found = re.findall(r'agent_id\W+([0-9a-f-]{36})', request.texts())
    return do("multi_agent_v1/wait_agent", targets=[found[-1] if found else "none"], timeout_ms=170_000)


def agents_roles():
    steps = [
        # The client holds these tools back until the model looks for them.
        do("tool_search", query="spawn sub-agent", limit=8),
        do("multi_agent_v1/spawn_agent", message="APPLES: count them"),
        agent_id,
        say("Seven apples."),
    ]

    def of_agent(request):
        return "x-codex-parent-thread-id" in request.headers

    apples = [do("exec_command", cmd="echo 7"), say("There are seven apples.")]
    return [Role("apples", apples, of_agent), Role("main", steps, after=["apples"], waits=4)]


# A person who is signed in


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def signed_in(side):
    """With the provider that is built in, and the tokens of a login: bodies are then packed with zstd."""
    home = side.home / ".codex"
    home.mkdir()
    about = {"chatgpt_plan_type": "pro", "chatgpt_user_id": "user-1", "chatgpt_account_id": "account-1", "user_id": "user-1"}
    claims = {"email": "anna@example.com", "exp": 4102444800, "https://api.openai.com/auth": about}
    token = f'{part({"alg": "none", "typ": "JWT"})}.{part(claims)}.{part("unsigned")}'
    tokens = {"id_token": token, "access_token": token, "refresh_token": "none", "account_id": "account-1"}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    (home / "auth.json").write_text(json.dumps({"auth_mode": "chatgpt", "tokens": tokens, "last_refresh": now}))
    places = f'openai_base_url = "{side.url}/v1"\nchatgpt_base_url = "{side.url}/backend-api"\n'
    (home / "config.toml").write_text(places + PLAIN)
    command = [side.harness.npm("codex"), "exec", "--json", "--skip-git-repo-check", "Write two lines"]
    run = side.run(command, {"CODEX_HOME": str(home)})
    expect(run.code == 0, "codex ended with", run.code, run.out[-1500:], run.err[-1500:])
    return said_last(run.lines())


def packed(direct, through):
    """The client packed its bodies, and the provider received what is in them."""
    written(direct, through)
    codings = {one.headers.get("content-encoding") for one in direct.provider.calls()}
    equal(codings, {"zstd"}, "codings of the direct bodies")
    equal({one.headers.get("authorization") for one in through.provider.calls()},
          {one.headers.get("authorization") for one in direct.provider.calls()}, "tokens of the login")


def failing(*failures):
    return lambda: [Role("main", [*failures, do("exec_command", cmd="echo done"), *failures, say("Done in the end.")])]


# Windows


def reading(rounds, tokens, **more):
    def drive(side):
        long.files(side, rounds, tokens)
        return said_last(codex(side, "Read all modules", seconds=600, **more))

    return drive


def kept_tools(direct, through):
    """After cuts the tools that the client sends as an item of the list still stand in front."""
    cut("input", 40000)(direct, through)
    for number, one in enumerate(through.provider.answered("main")):
        expect(one.json["input"][0].get("type") == "additional_tools", f"request {number} has lost its tools")


def compacting(rounds, tokens):
    """The client makes its own history shorter when it passes what its settings allow."""
    return reading(rounds, tokens, settings="model_context_window = 40000\nmodel_auto_compact_token_limit = 20000")


def sums_up(request):
    """Whether the client asks for a summary of its history."""
    return "CONTEXT CHECKPOINT" in json.dumps(request.json["input"][-1])


def compacting_roles():
    """One call that sums up comes where the client wants it, and is answered whenever it comes."""
    return [Role("summary", [say("Modules were read.")], sums_up), *long.codex_roles(6, 3000)()]


def questions(side):
    """Eight long questions to the newest model, each in a run of its own."""
    for number in range(8):
        words = f"Question {number}: what does this do?\n{long.source(number, 4000)}"
        more = ("resume", "--last") if number else ()
        answer = codex(side, words, *more, model="gpt-6.1-sol")
    return said_last(answer)


def questions_roles():
    return [Role("main", [say(f"It keeps order, {number}.") for number in range(8)])]


# Recall

LOG = "for n in $(seq 1 60); do echo line $n of the deployment log; done; echo the staging port is $((48000+123))"


def recall_tool(name):
    """The tool of the MCP server as this client spells it."""
    return f"mcp__scrollback/{name}"


def found_handle(request):
    """Reads the handle of the first result that the last search found."""
    found = re.findall(r"(sb:[a-z0-9]{10}#\d+) [^\\]*result of exec_command", request.texts())
    return do(recall_tool("read"), handle=found[-1] if found else "none", pattern="port")


def recall_roles():
    # The first reply is that of another session in the same folder.
    steps = [say("The production port is 49321."), do("exec_command", cmd=LOG)]
    steps += [do("exec_command", cmd=f"echo step {n}") for n in range(3)]
    steps += [
        # The client holds tools of servers back until the model looks for them.
        do("tool_search", query="search the record", limit=8),
        do(recall_tool("search"), query="quokka"),
        do(recall_tool("search"), query="staging port"),
        found_handle,
        do(recall_tool("search"), query="production port"),
        do(recall_tool("search"), query="production port", scope="project"),
        do("exec_command", cmd="echo connect to 48123"),
        say("It was 48123."),
    ]
    return [Role("main", steps)]


def recalling(side):
    codex(side, "Which port has production?")
    store = f"sqlite:{side.folder}/server/record.db"
    args = json.dumps(["mcp", "--store", store])
    # The client gives its servers few variables and no session: it is found by the working directory.
    provider = f"[mcp_servers.scrollback]\ncommand = {json.dumps(side.harness.binary)}\nargs = {args}"
    return said_last(codex(side, "Find the port", provider=provider, features="tool_search = false"))


def recalled(direct, through):
    calls = through.provider.calls("main")[1:]
    expect("search" in json.dumps(calls[0].json["tools"]), "the tools are offered from the first request on", calls[0].json["tools"])
    before = calls[4].texts()
    expect("the staging port is 48123" not in before, "the value was cleared from the view")
    expect(not re.search(r"read sb:[a-z0-9]{10}#\d+", before), "no handle before the model knows the tools", before[-3000:])
    expect(re.search(r"read sb:[a-z0-9]{10}#\d+", calls[5].texts()), "the placeholder has the handle", calls[5].texts()[-3000:])
    expect("0 hits in this session" in calls[6].texts(), "an empty search says what was searched", calls[6].texts()[-2000:])
    expect("48123" in calls[7].texts(), "the search found it", calls[7].texts()[-2000:])
    expect("the staging port is 48123" in calls[8].texts(), "the exact text was read back", calls[8].texts()[-2000:])
    expect("widen with scope=project" in calls[9].texts(), "an empty search says where there is more", calls[9].texts()[-2000:])
    expect("49321" in calls[10].texts(), "the wider search found the other session", calls[10].texts()[-2000:])
    found = through.server.command("search", "48123")
    expect(found and json.dumps(found).count("conversation"), "the record holds the value")


WINDOW = '[models."openai:{}"]\ncontext_window = 40000\n'

SOON = {"retry-after": "0"}

SCENARIOS = [
    Scenario("codex", "recall", recall_roles, recalling, recalled, exact=False, direct=False,
             config='[server]\nmanagers = ["clear_tool_results(1)"]\n'),
    Scenario("codex", "no other machine", plain_roles, asking("Say good day"), alone, direct=False, watched=True),
    Scenario("codex", "plain", plain_roles, asking("Say good day"), one_conversation, short=True),
    Scenario("codex", "plain, newest model", plain_roles, asking("Say good day", model="gpt-6.1-sol"), one_conversation),
    Scenario("codex", "tools", tools_roles, asking("Write two lines"), written, short=True),
    Scenario("codex", "parallel tools", parallel_roles, asking("Do both"), one_conversation),
    Scenario("codex", "thinking", thinking_roles, asking("Think about it"), one_conversation),
    Scenario("codex", "resume", resumed_roles, resumed, one_conversation),
    Scenario("codex", "fork", resumed_roles, forked, sessions({"main": 1}, {"main": 1}, title="The word is heron")),
    Scenario("codex", "sub-agents", agents_roles, asking("Count the fruit"),
             one_session("Count the fruit", main=1, sub_agent=1), compared=False),
    Scenario("codex", "signed in, with packed bodies", tools_roles, signed_in, packed),
    Scenario("codex", "websocket", tools_roles, asking("Try", provider="supports_websockets = true"), no_upgrade),
    Scenario("codex", "small window", long.codex_roles(30, 1500), reading(30, 1500), cut("input", 40000), exact=False,
             direct=False, config=WINDOW.format("gpt-5.5")),
    Scenario("codex", "small window, newest model", questions_roles, questions, kept_tools, exact=False, direct=False,
             config=WINDOW.format("gpt-6.1-sol")),
    Scenario("codex", "own compaction", compacting_roles, compacting(6, 3000),
             one_session("Read all modules", main=1, branch=1)),
    Scenario("codex", "overflow", long.codex_roles(10, 3000), reading(10, 3000), cut("input", 32000), exact=False,
             direct=False, provider={"window": 32000}),
    Scenario("codex", "429", failing(Fail(429, "rate_limit_error", "slow down", SOON)), asking("Try"), one_conversation),
    Scenario("codex", "500", failing(Fail(500, "server_error", "Internal server error", SOON)), asking("Try"), one_conversation),
    Scenario("codex", "lost connection", failing(Lost()), asking("Try"), one_conversation),
    Scenario("codex", "lost in the middle", failing(Lost(say("Lost half way through."))), asking("Try"), one_conversation),
    Scenario("codex", "error in the middle", failing(Spoilt(say("Spoilt half way through."))), asking("Try"), one_conversation),
]
