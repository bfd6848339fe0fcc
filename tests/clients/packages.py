"""The packages that programs are written with: openai, anthropic, google-genai, LangChain, OpenAI Agents, Pydantic AI, AI SDK."""

import judge
from harness import HERE, Scenario, equal, expect
from said import Fail, do, say
from upstream import Role

ANSWERS = "It rains in Oslo.\nTomorrow the sun shines.\n"


def roles():
    steps = [do("weather", city="Oslo"), say("It rains in Oslo."), say("Tomorrow the sun shines.")]
    return [Role("main", steps)]


def python(script, *args):
    def drive(side):
        run = side.run([side.harness.python(), HERE / "programs" / script, side.url, *args], ENVIRONMENT)
        expect(run.code == 0, script, "ended with", run.code, run.out[-1500:], run.err[-2500:])
        return run.out

    return drive


def node(which):
    def drive(side):
        script = HERE / "programs" / "use_ai_sdk.mjs"
        run = side.run(["node", script, side.harness.tools, side.url, which], ENVIRONMENT)
        expect(run.code == 0, "node ended with", run.code, run.out[-1500:], run.err[-2500:])
        return run.out

    return drive


# No word to any other place.
ENVIRONMENT = {
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "DO_NOT_TRACK": "1",
}


def two_rounds(_, through):
    equal(through.output, ANSWERS, "what the program printed")
    calls = through.provider.calls("main")
    expect("Rain in Oslo" in calls[1].texts(), "the result of the tool did not reach the provider")
    listed = through.server.conversations()
    equal(len(listed), 1, "conversations")
    equal(listed[0]["turns"], 2, "turns")


def expiring():
    """The provider forgets the thread before its third request."""
    steps = [do("weather", city="Oslo"), say("It rains in Oslo."), Fail(404, "not_found_error", "gone", {"code": "thread_not_found"}),
             say("Tomorrow the sun shines.")]
    return [Role("main", steps)]


def expired(_, through):
    """The record knows what the provider forgot; or the client is told, and sends everything again."""
    told = ANSWERS.replace("Tomorrow", "the provider says thread_not_found\nTomorrow")
    expect(through.output in (ANSWERS, told), through.output)
    last = through.provider.answered("main")[-1]
    expect("Rain in Oslo" in last.texts() and last.json.get("system"), "the whole list was not sent again")
    equal(len(through.server.conversations()), 1, "conversations")


def continued(direct, through):
    """The record has everything although only what is new was sent."""
    two_rounds(direct, through)
    sent = judge.readable(through.provider.calls("main")[-1].body)
    equal((len(sent["messages"]), sent.get("system")), (1, None), "what was sent last")
    listed = through.server.conversations()[0]
    expect(listed["entries"] >= 7, "entries", listed["entries"])


def package(client, drive, name="two rounds", short=False, **more):
    return Scenario(client, name, more.pop("roles", roles), drive, more.pop("verify", two_rounds), short=short, **more)


SCENARIOS = [
    package("openai", python("use_openai.py", "chat"), "chat", short=True),
    package("openai", python("use_openai.py", "responses"), "responses", short=True),
    package("openai", python("use_openai.py", "state"), "previous_response_id", short=True),
    package("anthropic", python("use_anthropic.py", "messages"), short=True),
    package("anthropic", python("use_anthropic.py", "threads"), "threads", verify=continued),
    package("anthropic", python("use_anthropic.py", "threads"), "an expired thread", roles=expiring, verify=expired,
            exact=False),
    package("google-genai", python("use_google.py"), short=True),
    package("langchain", python("use_langchain.py", "chat"), "chat", short=True),
    package("langchain", python("use_langchain.py", "responses"), "responses"),
    package("langchain", python("use_langchain.py", "anthropic"), "anthropic"),
    package("openai-agents", python("use_agents.py"), short=True),
    package("pydantic-ai", python("use_pydantic_ai.py", "chat"), "chat", short=True),
    package("pydantic-ai", python("use_pydantic_ai.py", "anthropic"), "anthropic"),
    package("pydantic-ai", python("use_pydantic_ai.py", "google"), "google", short=True),
    package("ai-sdk", node("anthropic"), "anthropic", short=True),
    package("ai-sdk", node("responses"), "responses"),
    package("ai-sdk", node("chat"), "chat"),
    package("ai-sdk", node("google"), "google"),
]
