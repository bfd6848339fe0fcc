"""Hostile texts in every place of the lens, in a real browser: no script, no dialog, no request elsewhere, no node that is not ours.

    python3 tests/browser/inert.py FACTS.json

FACTS.json is written by the test that starts the server: pages with harmless texts, and the same pages with hostile ones.
"""

import json
import pathlib
import sys

from chromium import Chromium

facts = json.loads(pathlib.Path(sys.argv[1]).read_text())

# The kinds of nodes a page is made of: names of elements with the names of their attributes.
KINDS = """
(() => {
  document.querySelectorAll('details').forEach((details) => { details.open = true; });
  document.querySelectorAll('main *').forEach((node) => { node.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})); });
  const kinds = new Set();
  for (const node of document.querySelectorAll('*')) kinds.add([node.localName, ...node.getAttributeNames().sort()].join(' '));
  // A link that somebody wrote in markdown may lead elsewhere; it is followed only by a click, and says nothing of this page.
  const leads = (node) => node.matches('.md a') && /^(https?|mailto):/.test(node.href) && node.rel === 'noopener noreferrer nofollow';
  const elsewhere = [...document.querySelectorAll('[href], [src], [action]')]
    .filter((node) => !leads(node))
    .map((node) => node.href?.baseVal ?? node.href ?? node.src ?? node.action)
    .filter((place) => new URL(place, location).origin !== location.origin);
  return {kinds: [...kinds], elsewhere, hit: !!window.hit, text: document.body.textContent};
})()
"""
# Pages that show the text itself wherever it can be shown as it is.
SHOWN = {"conversation", "call", "run"}

failures = []


def failed(page, text, why):
    failures.append(why)
    print(f"FAILED {page} with {text!r}: {why}", file=sys.stderr)


def look(page, base, path):
    page.open(base + path)
    found = page.run(KINDS)
    # A page may say that it was asked for nonsense; the browser notes that, and it is all right.
    refused = ("log", "Failed to load resource: the server responded with a status of 400 (Bad Request)")
    # Few of the texts can be the name of a person.
    nobody = ("log", "Failed to load resource: the server responded with a status of 404 (Not Found)")
    fine = {"/lens?": refused, "/lens/people/": nobody}
    found["complaints"] = [one for one in page.complaints(base) if not any(one[:2] == note and start in path for start, note in fine.items())]
    page.seen.clear()
    return found


def lists(page, base):
    """The pages that list everything, each turned to its end."""
    for name in ["/lens", "/lens/runs", "/lens/people"]:
        path = name
        while path:
            yield name, "all of them", look(page, base, path)
            path = page.run("document.querySelector('a[rel=next]')?.getAttribute('href') ?? null")


def pages(page, side):
    for one in side["sets"]:
        for name, path in one["pages"].items():
            yield name, one["text"], look(page, side["base"], path)
    yield from lists(page, side["base"])


def judge(name, text, found, ours):
    for what in ["elsewhere", "complaints"]:
        if found[what]:
            failed(name, text, f"{what}: {found[what]}")
    if strange := set(found["kinds"]) - ours:
        failed(name, text, f"nodes that are not ours: {sorted(strange)}")
    if found["hit"]:
        failed(name, text, "a script of somebody else ran")
    if name in SHOWN and text.isprintable() and text not in found["text"]:
        failed(name, text, "the text is not shown as it is")


with Chromium() as browser:
    # Few harmless texts need no second page; the hostile ones may.
    pager = {"a class href rel", "nav aria-label class"}
    page, looked = browser.page(), 0
    # A list that shows a session offers to compare.
    compare = {"a data-key href", "p"}
    ours = {name: set(pager) for name in ["/lens", "/lens/runs", "/lens/people", "search", "of_recipient", "filtered"]}
    for name in ["/lens", "of_recipient", "filtered"]:
        ours[name] |= compare
    for name, text, found in pages(page, facts["harmless"]):
        ours.setdefault(name, set()).update(found["kinds"])
        judge(name, text, found, ours[name])
    for name, text, found in pages(page, facts["hostile"]):
        judge(name, text, found, ours[name])
        looked += 1

print(json.dumps({"payloads": len(facts["hostile"]["sets"]), "pages": looked, "failures": len(failures)}))
sys.exit(1 if failures else 0)
