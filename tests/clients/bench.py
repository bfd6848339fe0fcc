#!/usr/bin/env python3
"""The promise "never worse", measured: real clients through Scrollback and directly, side by side in one run.

    bench.py --binary PATH --tools PATH [--json FILE]

Costs are in input tokens at full price, by the prices and rules of `caching.py`: a write 1.25, a read 0.1, output 5.
"""

import argparse
import json
import pathlib
import sys

import claude_code
import codex
import harness
import long
from harness import Scenario, Side

AUTO = 'managers = ["auto(60k)"]'


def run(stage, scenario, through):
    side = Side(stage, scenario, through)
    try:
        side.output = scenario.drive(side)
        if through:
            side.listed = side.server.conversations()
            side.sessions = sessions(side.server)
            problems = [one for request in side.provider.answered() for one in side.server.problems(request)]
            side.provider.problems.extend(problems)
        return side
    finally:
        side.close()


def sessions(server):
    """The sessions of a record, with the kinds of their conversations, where the server knows them."""
    try:
        return server.get("/api/sessions")
    except Exception:
        return None


def claude_session(rounds, tokens, *more):
    def drive(side):
        long.files(side, rounds, tokens)
        named = ("--session-id", claude_code.SESSION)
        return claude_code.claude(side, "Read all modules", *named, *more, seconds=900)["result"]

    return drive


def codex_session(rounds, tokens, **more):
    def drive(side):
        long.files(side, rounds, tokens)
        return codex.said_last(codex.codex(side, "Read all modules", seconds=900, **more))

    return drive


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--tools", required=True)
    parser.add_argument("--json")
    parser.add_argument("--keep")
    asked = parser.parse_args()
    stage = harness.Harness(asked.binary, asked.tools, asked.keep)
    rows = []

    def row(session, must, met, **found):
        rows.append({"session": session, "must": must, "met": met, **found})
        print(f"{'met ' if met else 'MISS' if met is not None else '–   '}  {session}: {must}\n      {json.dumps(found)}", flush=True)

    # Claude Code, 45 rounds
    rounds, tokens = 45, 3200
    roles = long.claude_roles(rounds, tokens)
    plain = Scenario("bench", "claude", roles, claude_session(rounds, tokens))
    direct = run(stage, plain, through=False)
    through = run(stage, plain, through=True)
    one, other = long.figures(direct.provider), long.figures(through.provider)
    ratio = other["cost"] / one["cost"]
    fine = ratio <= 1.01 and other["cuts"] == 0 and not through.provider.problems
    row("Claude Code, 45 rounds, default configuration", "≤ 1.01 × direct, no cut", fine,
        ratio=round(ratio, 4), direct=one, through=other, problems=through.provider.problems[:3])
    older = Scenario("bench", "claude", roles, claude_session(rounds, tokens, "--model", "claude-sonnet-4-5"))
    first, second = (long.figures(run(stage, older, through=which).provider) for which in (False, True))
    ratio = second["cost"] / first["cost"]
    row("the same with a window of 200k", "≤ 1.01 × direct, no cut", ratio <= 1.01 and second["cuts"] == 0,
        ratio=round(ratio, 4), direct=first, through=second)
    limited = Scenario("bench", "claude", roles, claude_session(rounds, tokens), config=f"[server]\n{AUTO}\n")
    try:
        short = run(stage, limited, through=True)
        found = long.figures(short.provider)
        ratio = found["input_cost"] / one["input_cost"]
        share = long.kept(direct.provider, short.provider)
        row("the same, bound of 60k by auto", "≤ 0.45 × direct", ratio <= 0.45 and not short.provider.problems,
            ratio=round(ratio, 4), arguments_kept=round(share, 3), through=found, problems=short.provider.problems[:3],
            unstable=long.stable(short.provider, "messages"))
    except harness.Failed as error:
        row("the same, bound of 60k by auto", "≤ 0.45 × direct", None, why=str(error)[-300:])

    # Codex, 30 rounds
    # As many tokens as in the session that the promise was made for: 1.69 million directly.
    rounds, tokens = 30, 3400
    roles = long.codex_roles(rounds, tokens)
    plain = Scenario("bench", "codex", roles, codex_session(rounds, tokens))
    window = '[models."openai:gpt-5.5"]\ncontext_window = 40000\n'
    small = Scenario("bench", "codex", roles, codex_session(rounds, tokens), config=window)
    direct, through = run(stage, plain, through=False), run(stage, small, through=True)
    one, other = long.figures(direct.provider), long.figures(through.provider)
    row("Codex, 30 rounds, 40k window", "fewer uncached tokens than direct",
        other["uncached"] < one["uncached"] and not through.provider.problems,
        direct=one, through=other, arguments_kept=round(long.kept(direct.provider, through.provider), 3),
        problems=through.provider.problems[:3], unstable=long.stable(through.provider, "input"))

    # Sessions
    edits = next(one for one in claude_code.SCENARIOS if one.name == "edits")
    side = run(stage, edits, through=True)
    row("six Edit calls", "1 conversation", len(side.listed) == 1, conversations=len(side.listed))
    interactive = next((one for one in claude_code.SCENARIOS if one.name == "interactive"), None)
    if interactive:
        side = run(stage, interactive, through=True)
        kinds = claude_code.kinds(side)
        wanted = [{"main": 1, "side": 1, "sub-agent": 2, "branch": 1}]
        row("interactive session with title call, 2 sub-agents, one compaction",
            "1 session: main, 1 side, 2 sub-agents, 1 branch", kinds == wanted, sessions=kinds)
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(rows, indent=1))
    sys.exit(0 if all(one["met"] for one in rows) else 1)


if __name__ == "__main__":
    main()
