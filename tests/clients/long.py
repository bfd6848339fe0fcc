"""Long sessions: many rounds of a real client, and what they cost directly and through Scrollback."""

import collections
import functools
import json
import random
import re

import caching
from harness import Failed, expect
from said import Reply, call, do, say, text
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


# How many rounds ago the model saw what it speaks of. In the public sessions of Claude Code that this was measured on, 97 % of the
# names in arguments stand in the newest 50,000 tokens, all of those in answers do, and of the older ones the model itself
# had used 85 % before. Here more is old than there: a fifth of what calls name is from five rounds ago or more.
AGES = (0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 5, 8, 13)
RECENT = 3
USED_BEFORE = 0.85


@functools.cache
def definitions(number, tokens):
    """The names that a file defines once, in order."""
    names = [line.split("(")[0].removeprefix("def ") for line in source(number, tokens).splitlines() if line.startswith("def ")]
    return [name for name in names if names.count(name) == 1]


# Parts in which a file is read.
PARTS = 4
# Calls of a round: the parts, two searches, a change and the answer.
CALLS = PARTS + 4


def working_rounds(rounds, tokens):
    """The rounds of a person who works on one file after the other: what they say, and what the model does about it. In each round
    it reads a file in parts, looks for two names and changes a line, in files it read now or earlier, and answers with the
    name of another."""
    prompts, made, changed, used = [], [], set(), collections.defaultdict(list)
    chance = random.Random(rounds)

    def named(number, ages=AGES, fit=lambda name: True):
        """A file that was read by then, and a name in it: if that is long ago, mostly one that the model used since."""
        age = chance.choice(ages)
        file = max(0, number - age)
        known = [name for name in used[file] if fit(name)]
        again = age >= RECENT and known and chance.random() < USED_BEFORE
        name = chance.choice(known if again else [name for name in definitions(file, tokens) if fit(name)])
        used[file].append(name)
        return file, name

    def find(number):
        return do("Bash", command=f"grep -n {named(number)[1]} module_*.py", description="Find it")

    for number in range(rounds):
        prompts.append(f"Round {number}: go on with module {number:02}.")
        path, lines = f"{{work}}/module_{number:02}.py", len(source(number, tokens).splitlines())
        size = -(-lines // PARTS)
        made += [do("Read", file_path=path, offset=1 + part * size, limit=size) for part in range(PARTS)]
        made.append(find(number))
        file, name = named(number, fit=lambda name: name not in changed)
        changed.add(name)
        change = {"old_string": f"def {name}(entry, limit):", "new_string": f"def {name}(entry, limit, at_{number:02}):"}
        made += [do("Edit", file_path=f"{{work}}/module_{file:02}.py", **change), find(number)]
        file, name = named(number, [age for age in AGES if age < RECENT])
        made.append(say(f"Done. `{name}` of module_{file:02}.py is the next to look at."))
    return prompts, made


# What came of it


def figures(provider, role="main"):
    """What the calls of a role used, or those of all, in tokens."""
    calls = provider.answered(role)
    totals = [one.usage.total for one in calls]
    return {
        "calls": len(calls),
        "input": sum(totals),
        "uncached": sum(one.usage.uncached for one in calls),
        "cost": round(sum(one.usage.cost() for one in calls)),
        "input_cost": round(sum(one.usage.input_cost() for one in calls)),
        "peak": max(totals),
    }


def strings(value):
    """Every text and number in a value."""
    if isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)


# Names of programs, with their paths.
NAME = re.compile(r"[A-Za-z0-9_.-]*_[A-Za-z0-9_.-]*[A-Za-z0-9_]")


def values_of(part):
    """What a part of a reply needs from what was shown: arguments as they are, and the names in arguments and answers."""
    found = set()
    if part[0] == "call":
        for leaf in strings(part[2]):
            found.update(one for one in [leaf, *NAME.findall(leaf)] if len(one) >= 3)
    elif part[0] == "text":
        found.update(name for name in NAME.findall(part[1]) if len(name) >= 3)
    return found


def stands(value, words):
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", words) is not None


def said_in(listed):
    """Every text of messages, as one."""
    return "\n".join(strings([message.get("content", message) for message in listed]))


def messages(body):
    return body.get("messages") or body["input"]


def at_hand(request):
    """What every manager keeps: instructions, what the person said last, and the last results with their calls."""
    body = request.json
    listed = messages(body)
    by_person = [place for place, message in enumerate(listed) if message.get("role") == "user" and not is_result(message)]
    task = listed[by_person[-1]] if by_person else {}
    return "\n".join([*strings(body.get("system") or body.get("instructions") or ""), said_in([task, *listed[-2:]])])


def is_result(message):
    content = message.get("content")
    return isinstance(content, list) and any(block.get("type") == "tool_result" for block in content)


def retained(direct, through, bound):
    """The figures of `scrollback simulate`, of what was really sent: of the values in the replies' arguments, and of the names in
    their answers, that stood in the whole history, the share that stood in what the model was shown. *At cut* counts only calls
    whose history is longer than the bound, and values that no manager could have left out."""
    shares = collections.Counter()
    for whole, sent in zip(direct.answered("main"), through.answered("main")):
        listed = [said_in(messages(one.json)) for one in (whole, sent)]
        protected = at_hand(whole)
        for part in whole.reply.parts if whole.reply else []:
            kind = "arguments" if part[0] == "call" else "answers"
            for value in values_of(part):
                if not stands(value, listed[0]):
                    continue
                kept = stands(value, listed[1])
                shares[kind, "all"] += 1
                shares[kind, "all", "kept"] += kept
                if whole.usage.total > bound and not stands(value, protected):
                    shares[kind, "cut"] += 1
                    shares[kind, "cut", "kept"] += kept
                    if not kept:
                        shares["lost", value] += 1

    def share(*key):
        return round(shares[*key, "kept"] / shares[key], 3) if shares[key] else None

    return {
        "arguments": share("arguments", "all"), "answers": share("answers", "all"),
        "at_cut": {"arguments": share("arguments", "cut"), "answers": share("answers", "cut"),
                   "values": shares["arguments", "cut"] + shares["answers", "cut"]},
    }


def breaks(provider, wire_list):
    """The calls that do not begin with the one before, by number: a cut, or something that moved."""
    found, before = [], []
    for number, one in enumerate(provider.answered("main")):
        after = plain(one.json[wire_list])
        if after[: len(before)] != before:
            found.append(number)
        before = after
    return found


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


# Tokens that a prompt cache may leave out at the end of what it has: it keeps prefixes in steps, or up to a mark.
SLACK = 512


def bounded(provider, breaks, low):
    """Each call pays uncached for what came since the one before; where the list begins anew, for what is left of it at most."""
    calls = provider.answered("main")
    for number, (before, call) in enumerate(zip(calls, calls[1:]), start=1):
        new = max(0, call.usage.total - before.usage.total)
        # At a cut what is new is hidden by what was left out: the newest results are part of it.
        most = low + largest(call) if number in breaks else new
        worst = call.usage.uncached
        expect(worst <= most + SLACK, f"call {number} paid for {worst} uncached tokens, more than {most} and {SLACK}")


def largest(call):
    """Tokens of the last message or item of a request."""
    return caching.tokens(json.dumps(messages(call.json)[-1]))


__all__ = [
    "Failed", "bounded", "breaks", "claude_roles", "codex_roles", "figures", "files", "retained", "working_rounds",
]
