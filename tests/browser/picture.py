"""The pictures of the lens that README.md shows: the bundled sample at a call after a cut, and managers compared on it.

    python3 tests/browser/picture.py SERVER SESSION.png COMPARE.png

SERVER is a command that serves an empty store and prints the address of its lens.
"""

import subprocess
import sys

from chromium import Chromium

server = subprocess.Popen(sys.argv[1].split(), stdout=subprocess.PIPE, text=True)
try:
    base = server.stdout.readline().strip().removesuffix("/lens")
    with Chromium() as browser:
        page = browser.page(width=1360, height=1180)
        page.open(base + "/lens")
        page.click("form[action='/lens/sample'] button")
        conversation = page.run("location.href.split('?')[0]")
        page.open(conversation + "?call=14")
        page.run("document.querySelector('.entry:not(.fate-dropped) .fold.result').open = true")
        page.picture(sys.argv[2])
        managers = ["passthrough", "auto(4k)", "auto(2k)", "sticky(token_budget(4200),low=2400)", "sliding_window(12)", "clear_tool_results(3)"]
        page.open(f"{base}/lens/simulate?conversation={conversation.rsplit('/', 1)[1]}" + "".join(f"&m={manager}" for manager in managers))
        page.picture(sys.argv[3])
finally:
    server.terminate()
    server.wait()
