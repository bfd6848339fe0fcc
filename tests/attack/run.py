"""Attacks on the built program: what an outsider, a tenant or a broken disk may try, and what happened.

Each attack is a function that returns whether the wall held and what happened in a few words; one that cannot be tried here
returns None for the first, and stands in no table. `--markdown FILE` writes the
table into a page, between its two marks; `--short` leaves out what takes long.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import attacks
from target import Canary, Provider, Target

BEGIN, END = "<!-- attacks -->", "<!-- end of attacks -->"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--markdown")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    provider, canary = Provider(), Canary()
    provider.canary = canary.port
    binary = Path(options.binary).resolve()
    ground = attacks.Ground(binary, provider, canary)
    rows, failed, began = [], 0, time.time()
    try:
        for attack in attacks.ALL:
            if (options.short and attack.long) or options.only not in attack.name:
                continue
            try:
                held, happened = attack(ground)
            except Exception as error:  # An attack that breaks its own tools has proved nothing.
                held, happened = False, f"{type(error).__name__}: {error}"
            if canary.reached:
                held, happened, canary.reached = False, "another host was reached", 0
            if held is None and os.environ.get("SCROLLBACK_REQUIRE") == "all":
                held = False
            if held is None:
                print(f"left out  {attack.tried}: {happened}", flush=True)
                continue
            rows.append((attack.row, attack.tried, happened, held))
            failed += not held
            print(f"{'held  ' if held else 'BROKEN'}  {attack.tried}: {happened}", flush=True)
    finally:
        ground.end()
    print(f"{len(rows)} attacks, {failed} got through, {time.time() - began:.0f} s")
    if options.markdown:
        page = Path(options.markdown)
        text = page.read_text()
        table = ["| promise | tried | what happened |", "|---|---|---|"]
        table += [f"| {row} | {tried} | {happened}{'' if held else ' **(got through)**'} |" for row, tried, happened, held in rows]
        before, rest = text.split(BEGIN)
        page.write_text(before + BEGIN + "\n" + "\n".join(table) + "\n" + END + rest.split(END)[1])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
