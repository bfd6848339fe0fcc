"""What the record must hold after a scenario: sessions, the kinds of their conversations, titles; and cuts that cost nothing twice."""

from collections import Counter

import long
from harness import equal, expect


def kinds(side):
    """Of each session of the record, how many conversations of each kind."""
    found = {}
    for one in side.listed:
        found.setdefault(one.get("session"), Counter())[one.get("kind")] += 1
    return [dict(one) for one in found.values()]


def in_order(session):
    return sorted(session.items())


def sessions(*wanted, title=None):
    """The sessions of the record, with so many conversations of each kind; and what the person sees them called."""
    wanted = [{name.replace("_", "-"): number for name, number in one.items()} for one in wanted]

    def check(_, through):
        through.listed = through.server.conversations()
        equal(sorted(kinds(through), key=in_order), sorted(wanted, key=in_order), "sessions")
        if title is not None:
            found = {one["title"] for one in through.server.get("/api/sessions")["sessions"]}
            equal(found, {title}, "titles")

    return check


def one_session(title=None, **wanted):
    """One session with so many conversations of each kind."""
    return sessions(wanted, title=title)


def one_conversation(_, through):
    equal(len(through.server.conversations()), 1, "conversations")


def cut(wire_list, window, conversations=1):
    """Cut, and no conversation more for it: between cuts each request begins with the one before, and every call pays for what is new only;
    at a cut for what the cut left, which is at most the low mark of three fifths, and for what came since."""

    def check(_, through):
        equal(len(through.server.conversations()), conversations, "conversations")
        cuts = through.server.cuts()
        expect(cuts > 0, "nothing was cut", long.figures(through.provider))
        breaks = long.breaks(through.provider, wire_list)
        expect(len(breaks) <= cuts, f"{len(breaks)} requests do not begin with the one before, and {cuts} cuts are recorded", breaks)
        expect(all(later - earlier > 1 for earlier, later in zip(breaks, breaks[1:])), "two cuts in a row", breaks)
        long.bounded(through.provider, breaks, window * 3 // 5)

    return check
