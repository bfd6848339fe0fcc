"""Every page of the lens in a real browser: no error, no request elsewhere, nothing said in a conversation does anything.

    python3 tests/browser/lens.py FACTS.json PICTURES

FACTS.json is written by the test that starts the servers: their addresses, and the pages to look at.
"""

import json
import pathlib
import sys
import urllib.request

from chromium import Chromium
from holds import HOLDS

facts = json.loads(pathlib.Path(sys.argv[1]).read_text())
pictures = pathlib.Path(sys.argv[2])
pictures.mkdir(parents=True, exist_ok=True)
BASE = facts["base"]

failures = []


def expect(what, wrong):
    if wrong:
        failures.append((what, wrong))
        print(f"FAILED {what}: {wrong}", file=sys.stderr)


def post(base, path, body):
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def every_page(browser):
    every = list(facts["pages"])
    some = ["list", "conversation", "call", "run", "search", "import", "simulate", "cache", "session", "people", "person", "keys", "health"]
    looks = [("light", every, dict()), ("phone", every, dict(width=390, height=800)), ("dark", some, dict(dark=True)), ("still", some, dict(script=False))]
    for look, names, how in looks:
        page = browser.page(**how)
        for name in names:
            path = facts["pages"][name]
            page.open(BASE + path)
            if look != "still":
                page.until("!document.querySelector('[aria-busy]')")
                expect(f"{look} {name}", page.run(HOLDS))
            expect(f"{look} {name}", page.complaints(BASE))
            page.seen.clear()
            page.picture(pictures / f"{look}-{name}.png", whole=look == "light" and name not in ("long", "hostile", "hostile_end", "huge"))


def opened_folds(browser):
    """Everything that can be opened is opened on the hostile pages, and still nothing happens."""
    page = browser.page()
    for name in ["hostile", "hostile_end", "hostile_run", "hostile_call", "huge"]:
        page.open(BASE + facts["pages"][name])
        page.run("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        page.run("document.querySelectorAll('.body *, .said').forEach((node) => { node.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})); })")
        expect(f"opened {name}", page.run(HOLDS))
        expect(f"opened {name}", page.complaints(BASE))
    odd = page.open(BASE + facts["pages"]["hostile"]).run("[...document.querySelectorAll('.odd')].map((node) => node.textContent).join(' ')")
    expect("controls are shown by name", [] if "U+202E" in odd and "U+001B" in odd else [odd])


def keyboard(browser):
    page = browser.page().open(BASE + facts["pages"]["conversation"])
    page.press("Tab", code="Tab", windowsVirtualKeyCode=9)
    expect("the first stop skips to the content", [] if page.run("document.activeElement.className") == "skip" else ["no"])
    page.press("/", text="/")
    expect("the slash goes to the search", [] if page.run("document.activeElement.id") == "q" else ["no"])
    page.run("document.activeElement.blur()")
    before = page.run("document.querySelector('#call').value")
    page.press("ArrowLeft")
    browser.wait("Page.loadEventFired", page.session)
    after = page.run("document.querySelector('#call').value")
    expect("the left arrow goes to the call before", [] if int(after) == int(before) - 1 else [before, after])
    page.press("ArrowRight")
    browser.wait("Page.loadEventFired", page.session)
    expect("the right arrow goes to the next one", [] if page.run("document.querySelector('#call').value") == before else ["no"])
    page.press("?", text="?")
    expect("the question mark lists the keys", [] if page.run("document.querySelector('#keys').open") else ["closed"])
    page.press("Escape", code="Escape", windowsVirtualKeyCode=27)
    expect("escape closes the list", [] if not page.run("document.querySelector('#keys').open") else ["open"])
    stop = "document.activeElement.id"
    page.press("j", text="j")
    first = page.run(stop)
    page.press("j", text="j")
    second = page.run(stop)
    page.press("k", text="k")
    expect("j and k go through the entries", [] if first.startswith("e") and second != first and page.run(stop) == first else [first, second, page.run(stop)])
    # The page may not read the clipboard, so what it is asked to write is caught.
    page.run("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.press(".", text=".")
    copied = page.run("window.copied") or ""
    expect("the dot copies the handle of the entry", [] if copied.startswith("sb:") and copied.endswith("#" + first[1:]) else [copied])
    page.press("c", text="c")
    browser.wait("Page.loadEventFired", page.session)
    expect("c compares managers", [] if page.run("location.pathname") == "/lens/simulate" else [page.run("location.href")])
    page.press("g", text="g")
    page.press("s", text="s")
    browser.wait("Page.loadEventFired", page.session)
    expect("g s goes to the sessions", [] if page.run("location.pathname") == "/lens" else [page.run("location.href")])
    page.press("j", text="j")
    page.press("Enter", code="Enter", windowsVirtualKeyCode=13)
    browser.wait("Page.loadEventFired", page.session)
    expect("enter opens the row", [] if page.run("location.pathname").startswith("/lens/conversations/") else [page.run("location.href")])
    page.open(BASE + facts["pages"]["conversation"])
    page.run("(() => { const slider = document.querySelector('#call'); slider.value = 3; slider.dispatchEvent(new Event('change', {bubbles: true})); })()")
    browser.wait("Page.loadEventFired", page.session)
    expect("the slider goes to its call", [] if page.run("document.querySelector('.side h2').textContent").startswith("Call 3 of") else ["no"])
    unreached = page.run("""(() => { // The bars of the chart are for the mouse: slider and table have the same calls.
        const shown = [...document.querySelectorAll('a[href]:not(svg a), button, summary, input:not([type=hidden]), select, textarea')];
        return shown.filter((node) => node.tabIndex < 0).map((node) => node.outerHTML.slice(0, 80)); })()""")
    expect("everything is reached by the keyboard", unreached)


WIDTHS = [360, 768, 1280, 2560]
# What a page may take with it when it is scrolled sideways: only boxes that scroll by themselves.
WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth + 1 ? [...document.querySelectorAll('main *')].filter((node) => node.getBoundingClientRect().right > innerWidth + 1 && !node.closest('.scroll, .charted, .raw, .code, .paste')).slice(0, 3).map((node) => node.outerHTML.slice(0, 120)).concat(['page ' + document.documentElement.scrollWidth]) : []"


def widths(browser):
    """No page scrolls sideways, however wide the window is, with all its folds open."""
    for width in WIDTHS:
        page = browser.page(width=width, height=900)
        for name in facts["pages"]:
            page.open(BASE + facts["pages"][name])
            page.until("!document.querySelector('[aria-busy]')")
            page.run("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
            expect(f"{width} px {name}", page.run(WIDE))
        page.close()


# The criteria of WCAG 2.2 up to AA, and what axe-core calls good practice of landmarks is left to HOLDS.
AXE = """
axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'] })
  .then((found) => found.violations.map((one) => one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? '')).join(' | ')))
"""


def accessible(browser):
    """axe-core finds nothing on any page, in light and dark, on a desk and on a phone."""
    if not facts["axe"]:
        return
    rules = pathlib.Path(facts["axe"]).read_text()
    for look, how in [("light", dict()), ("dark", dict(dark=True)), ("phone", dict(width=390, height=800))]:
        page = browser.page(**how)
        others = [("welcome", facts["empty"] + "/lens"), ("login", facts["keyed"] + "/lens/login")]
        for name, address in [(name, BASE + path) for name, path in facts["pages"].items()] + others:
            # Long pages repeat what the others have, and take long: once is enough.
            if name in ("long", "huge", "huge_entry", "hostile_end") and look != "light":
                continue
            page.open(address)
            page.until("!document.querySelector('[aria-busy]')")
            page.run("document.querySelectorAll('main details').forEach((details) => { details.open = true; })")
            page.run(rules + ";0")
            expect(f"axe {look} {name}", page.run(AXE))
            page.seen.clear()
        page.close()


def walk(browser):
    """With nothing but the Tab key every page is gone through to its end, and what has the focus is seen to have it."""
    for name in ["list", "session", "call", "body", "entry", "cache", "people", "person", "keys", "health", "import", "simulate", "search", "runs", "run"]:
        page = browser.page().open(BASE + facts["pages"][name])
        page.until("!document.querySelector('[aria-busy]')")
        stops = page.run("[...document.querySelectorAll('a[href]:not(svg a), button, summary, input:not([type=hidden]), select, textarea, [tabindex=\"0\"]')].filter((node) => node.checkVisibility() && !node.closest('details:not([open]) > :not(summary)')).length")
        # A page may put the focus into its first field; the walk starts at the top of the page.
        page.run("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex'); 0")
        seen, hidden = 0, []
        for _ in range(min(stops, 150)):
            page.press("Tab", code="Tab", windowsVirtualKeyCode=9)
            at = page.run("(() => { const node = document.activeElement; if (node === document.body) return null; const style = getComputedStyle(node); return style.outlineStyle === 'none' && !node.matches('.skip') ? node.outerHTML.slice(0, 100) : ''; })()")
            if at is None:
                break
            seen += 1
            if at:
                hidden.append(at)
        expect(f"the focus is seen on {name}", hidden[:3])
        expect(f"tab reaches everything on {name}", [] if seen >= min(stops, 150) - 1 else [seen, stops])
        page.close()


def live_session(browser):
    """A client works while somebody reads: entries, calls and sums appear, and what is read stays where it is."""
    ask = {"model": "gpt-4o", "messages": [{"role": "user", "content": "a long story, please. " * 200}]}
    answer = post(BASE, "/v1/chat/completions", ask)
    said = ask["messages"] + [answer["choices"][0]["message"]]
    listed = browser.page().open(BASE + "/lens")
    listed.until("document.querySelector('#live').textContent === 'live'")
    path = listed.run("[...document.querySelectorAll('a.name')].find((link) => link.textContent.includes('a long story')).pathname")
    page = browser.page(height=400).open(BASE + path)
    page.until("document.querySelector('#live').textContent === 'live'")
    calls = "document.querySelector('[data-fresh=side] h2')?.textContent"
    expect("one call", [] if "1 of 1" in page.run(calls) else [page.run(calls)])
    page.run("scrollTo(0, document.querySelector('#e1').getBoundingClientRect().top + scrollY - 100)")
    before = page.run("document.querySelector('#e1').getBoundingClientRect().top")
    post(BASE, "/v1/chat/completions", {"model": "gpt-4o", "messages": said + [{"role": "user", "content": "and what then?"}]})
    page.until("document.querySelectorAll('.timeline > li').length >= 4 && " + calls + ".includes('2 of 2')")
    moved = abs(page.run("document.querySelector('#e1').getBoundingClientRect().top") - before)
    expect("what is read stays where it is", [] if moved < 3 else [moved])
    listed.until("[...document.querySelectorAll('.rows tr')].find((row) => row.textContent.includes('a long story')).querySelector('[data-l=Calls]').textContent === '2'")
    expect("live session", page.complaints(BASE) + listed.complaints(BASE))


def live(browser):
    page = browser.page().open(BASE + facts["pages"]["live"])
    page.until("document.querySelector('#live').textContent === 'live'")
    before = page.run("document.querySelectorAll('.timeline > li').length")
    post(BASE, f"/api/conversations/{facts['live']}/entries", {"messages": [{"role": "user", "content": "said while somebody looks"}]})
    page.until(f"document.querySelectorAll('.timeline > li').length === {before + 1}")
    expect("what is said appears", [] if "said while somebody looks" in page.run("document.querySelector('.timeline').textContent") else ["no"])
    expect("live", page.complaints(BASE))


def first_steps(browser):
    """An empty store: the button loads the sample, and the whole of it can be looked at."""
    base = facts["empty"]
    page = browser.page().open(base + "/lens")
    page.picture(pictures / "welcome.png", whole=True)
    expect("welcome", page.run(HOLDS))
    page.click("form[action='/lens/sample'] button")
    expect("the sample is shown", [] if "bicycle" in page.run("document.querySelector('h1').textContent") else ["no"])
    page.run("document.querySelector('.fold').open = true")
    expect("the sample", page.run(HOLDS) + page.complaints(base))


def login(browser):
    base = facts["keyed"]
    page = browser.page().open(base + "/lens/runs")
    expect("strangers are sent to the login", [] if page.run("location.pathname") == "/lens/login" else ["no"])
    page.picture(pictures / "login.png")
    expect("login", page.run(HOLDS))
    page.run("document.querySelector('#key').value = 'sb_wrong'")
    page.click("main button")
    expect("a wrong key is refused", [] if "not valid on this server" in page.run("document.body.textContent") else ["no"])
    page.seen.clear()
    page.collect().clear()
    page.run(f"document.querySelector('#key').value = {json.dumps(facts['key'])}")
    page.click("main button")
    expect("the right key opens the page asked for", [] if page.run("location.pathname") == "/lens/runs" else ["no"])
    expect("scripts cannot read the session", [] if page.run("document.cookie") == "" else ["cookie"])


def answer(browser):
    page = browser.page().open(BASE + facts["pages"]["run"])
    page.run("document.querySelectorAll('.tree details').forEach((details) => { details.open = true; })")
    shown = page.run("document.querySelector('.tree').textContent")
    expect("prompts are shown with their badge", [] if "conversation injected" in shown and "A week in Lisbon" in shown else [shown])
    page.run("document.querySelector('.ask textarea').value = 'on the 14th of May'")
    page.click(".ask button")
    expect("an answered run goes on", [] if page.run("document.querySelector('.ask')") is None else ["still asks"])
    expect("answer", page.complaints(BASE))


with Chromium() as browser:
    for trial in [every_page, widths, accessible, opened_folds, keyboard, walk, live, live_session, first_steps, login, answer]:
        trial(browser)

print(json.dumps({"failures": len(failures), "pages": len(facts["pages"])}))
sys.exit(1 if failures else 0)
