#!/usr/bin/env python3
"""Drives real clients through Scrollback against a scripted provider.

    run.py --binary target/debug/scrollback --tools target/clients [--short] [--only TEXT] [--jobs N] [--again] [--keep FOLDER]

Scenarios that show a defect which is not repaired yet say so (`known`): they run in the long form, are listed with the reason, and
fail nothing.
"""

import argparse
import collections
import concurrent.futures
import os
import sys
import time
import traceback

import harness


def scenarios():
    import claude_code
    import codex
    import first_minute
    import opencode
    import packages

    return [*claude_code.SCENARIOS, *codex.SCENARIOS, *opencode.SCENARIOS, *first_minute.SCENARIOS, *packages.SCENARIOS]


def short(error):
    """Why a scenario failed, in a few lines."""
    text = str(error) or type(error).__name__
    return text if len(text) <= 900 else text[:600] + "\n        …\n" + text[-300:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, help="the built scrollback")
    parser.add_argument("--tools", required=True, help="where ./dev setup installed the clients")
    parser.add_argument("--short", action="store_true", help="two rounds of each client, and nothing that is known to fail")
    parser.add_argument("--only", default="", help="scenarios whose name holds this")
    parser.add_argument("--jobs", type=int, default=min(4, max(2, os.cpu_count() or 2)), help="scenarios at once")
    parser.add_argument("--again", action="store_true", help="play a scenario that failed once more, by itself, and say so")
    parser.add_argument("--keep", help="where what was sent is kept")
    parser.add_argument("--trace", action="store_true", help="say where in the harness a scenario failed")
    asked = parser.parse_args()
    stage = harness.Harness(asked.binary, asked.tools, asked.keep)
    chosen = [one for one in scenarios() if asked.only in f"{one.client} {one.name}"]
    if asked.short:
        chosen = [one for one in chosen if one.short and not one.known]
    counted, failed = collections.Counter(), []

    def play(scenario):
        today = time.localtime()[:3]
        try:
            return scenario, stage.play(scenario), None
        except Exception as error:
            # Clients tell the model the date: over midnight two runs differ.
            if time.localtime()[:3] != today:
                return play(scenario)
            return scenario, 0, traceback.format_exc() if asked.trace else error

    def tell(scenario, seconds, error):
        name = f"{scenario.client}: {scenario.name}"
        if error is None:
            word, why = "ok", f"({seconds:.1f} s)" + (", and was known to fail" if scenario.known else "")
        elif scenario.known:
            word, why = "known", f"{scenario.known}\n        {str(error)[:600]}"
        else:
            word, why = "FAILED", error
            failed.append((scenario, error))
        counted[word] += 1
        print(f"{word:7} {name} {why}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for played in pool.map(play, chosen):
            tell(*played)
    if asked.again and failed:
        print("once more, one by one:", flush=True)
        first, failed = failed, []
        counted["FAILED"] = 0
        for scenario, _ in first:
            tell(*play(scenario))
    print(", ".join(f"{number} {word}" for word, number in counted.items() if number), f"– what was sent is in {stage.folder}")
    # Once more, because the last lines are what is seen of a long output.
    for scenario, error in failed:
        print(f"FAILED  {scenario.client}: {scenario.name} {short(error)}", flush=True)
    sys.exit(1 if counted["FAILED"] else 0)


if __name__ == "__main__":
    main()
