"""A headless Chromium, driven over a pipe with nothing but the standard library."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


class Gone(Exception):
    """The browser ended, or did not answer in time."""


class Chromium:
    """One browser with a fresh profile. Every page records its console, its dialogs and its requests."""

    FLAGS = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-extensions",
        "--disable-component-update", "--disable-sync", "--no-first-run", "--hide-scrollbars", "--mute-audio",
        "--force-color-profile=srgb", "--remote-debugging-pipe",
    ]

    def __init__(self):
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if not program:
            raise SystemExit("chromium is missing: install the package chromium")
        self.profile = tempfile.mkdtemp(prefix="scrollback-chromium-")
        to_read, self.to = os.pipe()
        self.back, from_write = os.pipe()

        def pipes():
            # Chromium reads commands from descriptor 3 and writes answers to 4.
            high = [os.dup2(to_read, 30), os.dup2(from_write, 31)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program, *self.FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=pipes, close_fds=False,
        )
        os.close(to_read)
        os.close(from_write)
        self.number, self.rest, self.events = 0, b"", []

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read(self, until):
        """The next message, or none when time is up."""
        while b"\0" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                return None
            piece = os.read(self.back, 1 << 20)
            if not piece:
                raise Gone("the browser ended")
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, session=None, timeout=60, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + timeout
        while True:
            answer = self._read(until)
            if answer is None:
                raise Gone(f"no answer to {method}")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise Gone(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait(self, method, session, timeout=60):
        """Waits for an event of a page."""
        until = time.monotonic() + timeout
        while True:
            for place, event in enumerate(self.events):
                if event.get("method") == method and event.get("sessionId") == session:
                    return self.events.pop(place)["params"]
            event = self._read(until)
            if event is None:
                raise Gone(f"{method} did not come")
            self.events.append(event)

    def page(self, width=1280, height=900, dark=False, script=True):
        return Page(self, width, height, dark, script)


class Page:
    def __init__(self, browser, width, height, dark, script):
        self.browser = browser
        self.target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.ask("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Network", "Log"]:
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=scheme)
        if not script:
            self.ask("Emulation.setScriptExecutionDisabled", value=True)
        self.seen = []

    def ask(self, method, **params):
        return self.browser.ask(method, session=self.session, **params)

    def open(self, url):
        """Goes to a page and waits until it is loaded."""
        self.collect()
        self.ask("Page.navigate", url=url)
        self.browser.wait("Page.loadEventFired", self.session)
        return self

    def close(self):
        """Ends the tab, and with it the connections it holds."""
        self.browser.ask("Target.closeTarget", targetId=self.target)

    def run(self, expression):
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def until(self, expression, timeout=30):
        """Waits until an expression is true."""
        end = time.monotonic() + timeout
        while not self.run(f"!!({expression})"):
            if time.monotonic() > end:
                raise AssertionError(f"never became true: {expression}")
            time.sleep(0.05)

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        self.browser.wait("Page.loadEventFired", self.session)

    def press(self, key, **more):
        for kind in ["keyDown", "keyUp"]:
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, **more)

    def collect(self):
        """Everything this page has told so far."""
        self.run("1")
        mine = [event for event in self.browser.events if event.get("sessionId") == self.session]
        self.browser.events = [event for event in self.browser.events if event.get("sessionId") != self.session]
        self.seen.extend(mine)
        return self.seen

    def complaints(self, origin):
        """Errors on the console, dialogs, and requests to anywhere else."""
        found = []
        for event in self.collect():
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(("exception", params["exceptionDetails"].get("text")))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(("console", params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(("log", params["entry"]["text"], params["entry"].get("url")))
            elif method == "Page.javascriptDialogOpening":
                found.append(("dialog", params.get("message")))
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith((origin + "/", "about:", "data:image/")):
                    found.append(("request", url))
        return found

    def picture(self, path, whole=False):
        clip = {}
        if whole:
            size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 8000), "scale": 1}, "captureBeyondViewport": True}
        data = self.ask("Page.captureScreenshot", format="png", **clip)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
