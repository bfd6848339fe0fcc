#!/usr/bin/env python3
"""The promise "never worse", measured: real clients through Scrollback and directly, side by side in one run.

    bench.py --binary PATH --tools PATH [--json FILE]

Costs are in input tokens at full price, by the prices and rules of `caching.py`: a write 1.25, a read what the model's price list
says (0.05 or 0.1), output 5.
"""

import argparse
import json
import pathlib
import sys

import caching
import claude_code
import codex
import harness
import long
from harness import Scenario, Side
from said import say
from sessions import kinds
from upstream import Role

AUTO = 'managers = ["auto(60k)"]'
BOUND = 60_000
WINDOW = '[models."openai:gpt-5.5"]\ncontext_window = 40000\n'
# What `auto` shall keep of what replies use, at cuts: the goal of simulate.md for Claude Code at 32k, the largest budget it names.
KEPT = 0.95
# Of requests that send more than this many tokens only each tenth is checked by `scrollback check`, which reads all of it.
LONG = 100_000
# A prompt cache keeps prefixes in steps of so many tokens: within one for each call, two runs are the same.
STEP = 128


def run(stage, scenario, through):
    side = Side(stage, scenario, through)
    try:
        side.output = scenario.drive(side)
        if through:
            side.listed, side.cuts = side.server.conversations(), side.server.cuts()
            calls = side.provider.answered()
            chosen = [one for number, one in enumerate(calls) if one.usage.total < LONG or number % 10 == 0]
            side.provider.problems.extend(problem for one in chosen for problem in side.server.problems(one, scenario.said))
        return side
    finally:
        side.close()


def claude_reading(rounds, tokens, *more):
    """One call in each round."""

    def drive(side):
        long.files(side, rounds, tokens)
        named = ("--session-id", claude_code.SESSION)
        return claude_code.claude(side, "Read all modules", *named, *more, seconds=900)["result"]

    return drive


def claude_working(rounds, tokens):
    """Rounds of a person, with several calls in each."""
    prompts, steps = long.working_rounds(rounds, tokens)

    def drive(side):
        long.files(side, rounds, tokens)
        return claude_code.talk(side, prompts)[-1]

    return drive, lambda: [Role("main", list(steps))]


def codex_reading(rounds, tokens, **more):
    def drive(side):
        long.files(side, rounds, tokens)
        return codex.said_last(codex.codex(side, "Read all modules", seconds=900, **more))

    return drive


def moved(side, wire_list):
    """Requests that do not begin with the one before although nothing was cut there."""
    return max(0, len(long.breaks(side.provider, wire_list)) - side.cuts)


def floor(direct, bound):
    """What any manager with this bound pays at least, as a share of direct: everything new is written once, and the instructions
    are read in each call."""
    calls = direct.answered("main")
    usage, whole = calls[0].usage, sum(one.usage.input_cost() for one in calls)
    new = sum(one.usage.uncached for one in calls)
    written, read = caching.WRITE["5m"] * new, usage.read_price * len(calls) * usage.total
    room = (0.45 * whole - written) / len(calls) / usage.read_price
    return {
        "writes": round(written / whole, 3), "instructions": round(read / whole, 3),
        "tokens_that_calls_could_read_at_0.45": round(room), "instructions_and_tools": usage.total, "bound": bound,
    }


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
        print(f"{'met ' if met else 'MISS'}  {session}: {must}\n      {json.dumps(found)}", flush=True)

    def never_worse(session, direct, through):
        one, other = long.figures(direct.provider), long.figures(through.provider)
        ratio, unstable = other["cost"] / one["cost"], moved(through, "messages")
        fine = ratio <= 1.01 and through.cuts == 0 and not unstable and not through.provider.problems
        row(session, "≤ 1.01 × direct, no cut", fine, ratio=round(ratio, 4), cuts=through.cuts, unstable=unstable,
            direct=one, through=other, problems=through.provider.problems[:3])

    # Claude Code, 45 rounds of a person with eight calls each
    drive, roles = claude_working(45, 9000)
    direct = run(stage, Scenario("bench", "claude", roles, drive), through=False)
    through = run(stage, Scenario("bench", "claude", roles, drive), through=True)
    never_worse("Claude Code, 45 rounds of 8 calls, default configuration", direct, through)
    limited = run(stage, Scenario("bench", "claude", roles, drive, config=f"[server]\n{AUTO}\n"), through=True)
    # Half a gigabyte of requests that are not compared any more.
    through.provider.received.clear()
    one, other = long.figures(direct.provider), long.figures(limited.provider)
    ratio, unstable = other["input_cost"] / one["input_cost"], moved(limited, "messages")
    kept = long.retained(direct.provider, limited.provider, BOUND)
    whole = min(kept["at_cut"]["arguments"], kept["at_cut"]["answers"]) >= KEPT
    row("the same, bound of 60k by auto", f"≤ 0.45 × direct, {KEPT:.0%} kept at cuts",
        ratio <= 0.45 and whole and not unstable and not limited.provider.problems,
        ratio=round(ratio, 4), floor=floor(direct.provider, BOUND), kept=kept, cuts=limited.cuts, unstable=unstable,
        through=other, problems=limited.provider.problems[:3])

    # The same with one call in each round, on a model with a window of 200k
    rounds, tokens = 45, 3200
    roles = long.claude_roles(rounds, tokens)
    older = Scenario("bench", "claude", roles, claude_reading(rounds, tokens, "--model", "claude-sonnet-4-5"),
                     said=["AN-32"])
    never_worse("Claude Code, 45 calls, a window of 200k", *(run(stage, older, through=which) for which in (False, True)))

    # Codex, 30 rounds. As many tokens as in the session that the promise was made for: 1.69 million directly.
    rounds, tokens = 30, 3400
    roles = long.codex_roles(rounds, tokens)
    drive = codex_reading(rounds, tokens)
    direct = run(stage, Scenario("bench", "codex", roles, drive), through=False)
    through = run(stage, Scenario("bench", "codex", roles, drive, config=WINDOW), through=True)
    one, other = long.figures(direct.provider), long.figures(through.provider)
    unstable = moved(through, "input")
    fine = not unstable and not through.provider.problems
    row("Codex, 30 rounds, 40k window", "fewer uncached tokens than direct", other["uncached"] < one["uncached"] and fine,
        tie=abs(other["uncached"] - one["uncached"]) <= other["calls"] * STEP, direct=one, through=other, cuts=through.cuts,
        unstable=unstable, problems=through.provider.problems[:3])

    # The same where the window is really that small: directly, Codex makes its own history shorter.
    def compacting():
        return [Role("summary", [say("Modules were read.")] * rounds, codex.sums_up), *roles()]

    own = codex_reading(rounds, tokens, settings="model_context_window = 40000")
    alone = run(stage, Scenario("bench", "codex", compacting, own, provider={"window": 40000}), through=False)
    one = long.figures(alone.provider, None)
    row("the same against Codex's own compaction", "fewer uncached tokens than direct", other["uncached"] < one["uncached"] and fine,
        ratio=round(other["uncached"] / one["uncached"], 3), direct=one, through=other)

    # Sessions
    edits = next(one for one in claude_code.SCENARIOS if one.name == "edits")
    side = run(stage, edits, through=True)
    row("six Edit calls", "1 conversation", len(side.listed) == 1, conversations=len(side.listed))
    interactive = next(one for one in claude_code.SCENARIOS if one.name == "interactive")
    side = run(stage, interactive, through=True)
    found = kinds(side)
    row("interactive session with title call, 2 sub-agents, one compaction", "1 session: main, 1 side, 2 sub-agents, 1 branch",
        found == [{"main": 1, "side": 1, "sub-agent": 2, "branch": 1}], sessions=found)
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(rows, indent=1))
    sys.exit(0 if all(one["met"] for one in rows) else 1)


if __name__ == "__main__":
    main()
