"""Every page of the lens in a real browser: no error, no request elsewhere, nothing said in a conversation does anything.

    python3 tests/browser/lens.py FACTS.json PICTURES

FACTS.json is written by the test that starts the servers: their addresses, and the pages to look at.
"""

import json
import pathlib
import sys
import urllib.request

from chromium import Chromium

facts = json.loads(pathlib.Path(sys.argv[1]).read_text())
pictures = pathlib.Path(sys.argv[2])
pictures.mkdir(parents=True, exist_ok=True)
BASE = facts["base"]

# What must hold on every page, whatever it shows. Gives the list of what does not.
HOLDS = r"""
(() => {
  const wrong = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  if (window.hit) wrong.push('a script of somebody else ran');
  for (const node of all('iframe, object, embed, img, video, audio, base, link:not([href^="/lens/assets/"]), style, script:not([src^="/lens/assets/"]), meta[http-equiv], template, math, form:not([action^="/lens"])'))
    wrong.push('not ours: ' + node.outerHTML.slice(0, 100));
  for (const node of all('*')) for (const attribute of node.attributes)
    if (/^on/i.test(attribute.name) || attribute.name === 'style') wrong.push('attribute ' + attribute.name + ' on ' + node.tagName);
  // Only what somebody said in markdown may lead elsewhere, and then without telling where the person came from.
  const leads = (link) => link.closest('.md') && /^(https?|mailto):/.test(link.href) && link.rel === 'noopener noreferrer nofollow';
  for (const link of all('a[href]')) if (new URL(link.href, location).origin !== location.origin && !leads(link)) wrong.push('link to ' + link.href);
  for (const name of ['main', 'header.top', 'h1']) if (all(name).length !== 1) wrong.push(name + ': ' + all(name).length);
  const ids = all('[id]').map((node) => node.id);
  for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) wrong.push('twice: #' + id);
  const named = (node) => (node.textContent.trim() || node.getAttribute('aria-label') || node.title || '').length > 0;
  for (const node of all('a[href], button, summary')) if (!named(node)) wrong.push('no name: ' + node.outerHTML.slice(0, 100));
  for (const field of all('input:not([type=hidden]), select, textarea')) if (!field.labels.length && !field.getAttribute('aria-label')) wrong.push('no label: ' + field.outerHTML.slice(0, 100));
  for (const picture of all('svg')) if (picture.getAttribute('aria-hidden') !== 'true' && !picture.getAttribute('aria-label')) wrong.push('an unnamed picture');
  for (const table of all('table')) if (!table.querySelector('th[scope]')) wrong.push('a table without headings');
  if (!document.documentElement.lang) wrong.push('no language');
  if (document.documentElement.scrollWidth > innerWidth + 1) wrong.push('wider than the window: ' + document.documentElement.scrollWidth);

  // Contrast of what is read, by the formula of WCAG 2.
  const light = (color) => {
    const [r, g, b] = color.map((part) => { const c = part / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const low = new Set();
  for (const node of all('p, a, td, th, dt, dd, h1, h2, span, label, button, summary, code, pre, time, li')) {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()) || !node.getClientRects().length) continue;
    if (node.closest('.fate-dropped .body, .fate-later .body, [aria-hidden=true], .out, .skip')) continue;
    const [front, back] = [light(parse(getComputedStyle(node).color).slice(0, 3)), light(behind(node))];
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < 4.5) low.add(node.tagName + '.' + node.className + ' ' + ratio.toFixed(2));
  }
  for (const one of low) wrong.push('contrast: ' + one);
  return wrong;
})()
"""

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
    some = ["list", "conversation", "call", "run", "search", "import", "simulate"]
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
    page.press("k", text="k")
    browser.wait("Page.loadEventFired", page.session)
    after = page.run("document.querySelector('#call').value")
    expect("k goes to the call before", [] if int(after) == int(before) - 1 else [before, after])
    page.run("(() => { const slider = document.querySelector('#call'); slider.value = 3; slider.dispatchEvent(new Event('change', {bubbles: true})); })()")
    browser.wait("Page.loadEventFired", page.session)
    expect("the slider goes to its call", [] if page.run("document.querySelector('.side h2').textContent").startswith("Call 3 of") else ["no"])
    unreached = page.run("""(() => { // The bars of the chart are for the mouse: slider and table have the same calls.
        const shown = [...document.querySelectorAll('a[href]:not(svg a), button, summary, input:not([type=hidden]), select, textarea')];
        return shown.filter((node) => node.tabIndex < 0).map((node) => node.outerHTML.slice(0, 80)); })()""")
    expect("everything is reached by the keyboard", unreached)


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
    expect("a wrong key is refused", [] if "no valid key" in page.run("document.body.textContent") else ["no"])
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
    for trial in [every_page, opened_folds, keyboard, live, first_steps, login, answer]:
        trial(browser)

print(json.dumps({"failures": len(failures), "pages": len(facts["pages"])}))
sys.exit(1 if failures else 0)
