"""Long sessions: many rounds of a real client, and what they cost directly and through Scrollback."""

import json
import random

from harness import Failed, expect
from said import Reply, call, say, text
from upstream import Role

WORDS = "parse render stream record cache index token window cursor ledger budget prefix reply group entry order total".split()
NOTES = "keeps the order of what was said", "is asked once for each call", "never looks at the clock", "returns what the caller gave"


def source(number, tokens):
    """A file of a made-up program, of about so many tokens, with names that stand in no other."""
    chance = random.Random(number)
    lines = [f'"""Module {number:02} of the made-up program."""']
    size = len(lines[0])
    while size < tokens * 4:
        first, second, third = (chance.choice(WORDS) for _ in range(3))
        name = f"{first}_{second}_{chance.randrange(10**4):04}"
        line = f"def {name}(entry, limit):\n    # This {third} {chance.choice(NOTES)}.\n    return {third}(entry, limit)\n"
        lines.append(line)
        size += len(line) + 1
    return "\n".join(lines) + "\n"


def files(side, rounds, tokens):
    """The files a session reads, in the folder the client works in."""
    for number in range(rounds):
        (side.work / f"module_{number:02}.py").write_text(source(number, tokens))


def name_in(number, tokens):
    """A name that stands in a file, somewhere in the middle."""
    lines = [line for line in source(number, tokens).splitlines() if line.startswith("def ")]
    return lines[len(lines) // 2].split("(")[0].removeprefix("def ")


def steps(rounds, tokens, read, find):
    """Each round reads the next file; every fifth looks for a name from a file it read five rounds before."""
    made = []
    for number in range(rounds):
        if number % 5 == 4:
            made.append(Reply(text(f"Where is it used? Round {number}."), find(name_in(number - 4, tokens))))
        else:
            made.append(Reply(text(f"Next is module {number}."), read(number)))
    return [*made, say("All modules are read.")]


def claude_roles(rounds, tokens):
    def read(number):
        return call("Read", file_path=f"{{work}}/module_{number:02}.py")

    def find(name):
        return call("Bash", command=f"grep -n {name} module_*.py", description="Find it")

    return lambda: [Role("main", steps(rounds, tokens, read, find))]


def codex_roles(rounds, tokens):
    def read(number):
        return call("exec_command", cmd=f"cat module_{number:02}.py")

    def find(name):
        return call("exec_command", cmd=f"grep -n {name} module_*.py")

    return lambda: [Role("main", steps(rounds, tokens, read, find))]


# What came of it


def figures(provider):
    """What a run used, in tokens; a cut is a call that sends less than the one before."""
    calls = provider.answered("main")
    totals = [one.usage.total for one in calls]
    return {
        "calls": len(calls),
        "input": sum(totals),
        "uncached": sum(one.usage.uncached for one in calls),
        "cost": round(sum(one.usage.cost() for one in calls)),
        "input_cost": round(sum(one.usage.input_cost() for one in calls)),
        "peak": max(totals),
        "cuts": sum(later < earlier for earlier, later in zip(totals, totals[1:])),
    }


def leaves(value):
    if isinstance(value, dict):
        for one in value.values():
            yield from leaves(one)
    elif isinstance(value, str) and len(value) >= 3:
        yield value


def words_of(value):
    """The words of arguments that a reply needs from what it was shown: names and paths."""
    for leaf in leaves(value):
        for word in leaf.replace("/", " ").split():
            if "_" in word and "*" not in word:
                yield word


def kept(direct, through):
    """Of the names in the arguments of replies that stood in the whole history, the share that stood in what was sent."""
    stood = found = 0
    for whole, sent in zip(direct.answered("main"), through.answered("main")):
        for part in whole.reply.parts if whole.reply else []:
            if part[0] != "call":
                continue
            for word in set(words_of(part[2])):
                if word in whole.texts():
                    stood += 1
                    found += word in sent.texts()
    return found / stood if stood else 1.0


def stable(provider, wire_list):
    """Between cuts each request begins with the one before; the first place that does not, or nothing."""
    calls = provider.answered("main")
    for number, (earlier, later) in enumerate(zip(calls, calls[1:])):
        if later.usage.total < earlier.usage.total:
            continue
        before, after = (plain(one.json[wire_list]) for one in (earlier, later))
        if after[: len(before)] != before:
            place = next(at for at, (a, b) in enumerate(zip(before, after)) if a != b) if len(after) >= len(before) else len(after)
            return f"request {number + 1} does not begin with the one before: item {place} of {len(before)}"
    return None


def plain(listed):
    """A list of messages without cache marks, each spelled."""
    made = []
    for message in listed:
        content = message.get("content")
        # Clients write a text with a mark as a block, and the same text without one as a string.
        content = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if isinstance(content, list):
            content = [{key: one for key, one in block.items() if key != "cache_control"} for block in content]
        made.append(json.dumps({**message, "content": content}, sort_keys=True))
    return made


def bounded(provider, most):
    """No call sent more uncached tokens than this."""
    worst = max(one.usage.uncached for one in provider.answered("main")[1:])
    expect(worst <= most, f"a call had {worst} uncached tokens, more than {most}")


__all__ = ["Failed", "bounded", "claude_roles", "codex_roles", "figures", "files", "kept", "stable"]
