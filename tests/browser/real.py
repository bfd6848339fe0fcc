"""Every page of real sessions in a real browser: what must hold on every page holds, and a picture of each is left.

    python3 tests/browser/real.py FACTS.json PICTURES

FACTS.json is written by the test that imported the sessions: the address of the server, and the pages of each by name.
"""

import json
import pathlib
import sys

from chromium import Chromium
from holds import HOLDS

facts = json.loads(pathlib.Path(sys.argv[1]).read_text())
pictures = pathlib.Path(sys.argv[2])
pictures.mkdir(parents=True, exist_ok=True)
LOOKS = [("light", dict()), ("dark", dict(dark=True)), ("phone", dict(width=390, height=800))]

failures = 0
with Chromium() as browser:
    for look, how in LOOKS:
        page = browser.page(**how)
        for name, path in facts["pages"].items():
            # One look in the dark is enough for pages of the same kind.
            if look == "dark" and not name.startswith(facts["dark"]):
                continue
            page.open(facts["base"] + path)
            page.until("!document.querySelector('[aria-busy]')")
            wrong = page.run(HOLDS) + page.complaints(facts["base"])
            page.seen.clear()
            if wrong:
                failures += 1
                print(f"FAILED {look} {name}: {wrong}", file=sys.stderr)
            page.picture(pictures / f"{look}-{name}.png", whole=look == "light")
        page.close()

print(json.dumps({"pages": len(facts["pages"]), "failures": failures}))
sys.exit(1 if failures else 0)
