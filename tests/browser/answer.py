"""A paused run, answered by a person in a real browser, until the page shows how it ended.

    python3 tests/browser/answer.py BASE RUN PICTURES
"""

import pathlib
import sys

from chromium import Chromium

base, run, pictures = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
pictures.mkdir(parents=True, exist_ok=True)
QUESTION, ANSWER = "Where to, and when?", "to Oslo, on the 14th of May"


def expect(what, holds):
    if not holds:
        page.picture(pictures / "failed.png", whole=True)
        raise SystemExit(f"{what}: {page.run('document.body.innerText')}")


with Chromium() as browser:
    page = browser.page().open(f"{base}/lens/runs")
    expect("the list shows the run as paused", page.run(f"document.querySelector('tr a[href$=\"{run}\"]').closest('tr').innerText.includes('paused')"))
    page.click(f"tr a[href$='{run}']")
    asked = page.run("document.querySelector('.ask').innerText")
    expect("the page shows its question", QUESTION in asked)
    page.picture(pictures / "asked.png")

    # Typed as people type: the field is found by its label, and the form sent from the keyboard's side of it.
    page.run("[...document.querySelectorAll('label')].find((label) => label.textContent === 'Your answer').control.focus()")
    page.ask("Input.insertText", text=ANSWER)
    page.click(".ask button")
    expect("the question is gone", page.run("document.querySelector('.ask') === null"))

    # The page follows the run to its end without being asked for again.
    page.until("document.querySelector('.head').innerText.includes('done')")
    page.until(f"document.querySelector('main').innerText.includes('You said: {ANSWER}')")
    expect("nothing went wrong", not page.complaints(base))
    page.picture(pictures / "done.png")
