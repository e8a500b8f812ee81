"""A headless Chromium, driven over a pipe by its DevTools protocol: messages of JSON, each ended by a zero byte.

    with Browser(program) as browser:
        page = browser.open("file:///tmp/a.html", width=390, height=844, dark=True)
        page.value("document.title"), page.complaints, page.requests
"""
import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, program, patience=60):
        self.profile = tempfile.mkdtemp(prefix="reprise-browser-")
        self.patience = patience
        self.n_sent, self.events, self.rest, self.targets = 0, [], b"", []
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        self.reader, self.writer = ours_in, ours_out

        def take_places():              # the browser reads from 3 and writes to 4
            os.dup2(os.dup2(theirs_in, 100, inheritable=False), 3)
            os.dup2(os.dup2(theirs_out, 101, inheritable=False), 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--hide-scrollbars",
             "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={self.profile}"]
            + (["--no-sandbox"] if os.geteuid() == 0 else []) + ["about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=take_places, close_fds=False)
        os.close(theirs_in)
        os.close(theirs_out)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, EOFError):
            self.call("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.reader)
        os.close(self.writer)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.rest:
            more = os.read(self.reader, 1 << 20)
            if not more:
                raise EOFError("the browser ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.n_sent += 1
        number = self.n_sent
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") != number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def open(self, url, **how):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.targets.append(target)
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, url, **how)

    def close_pages(self):
        for target in self.targets:
            self.call("Target.closeTarget", targetId=target)
        self.targets, self.events = [], []


class Page:
    """Loaded, and drawn twice, when it is made."""

    def __init__(self, browser, session, url, width=1280, height=900, dark=False, script=True, media="", vision="none"):
        self.browser, self.session = browser, session
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Emulation.setEmulatedVisionDeficiency", type=vision)
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")
        if script:
            self.settle()

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def heard(self, *methods):
        return [e["params"] for e in self.browser.events if e.get("sessionId") == self.session and e["method"] in methods]

    def wait_for(self, method):
        until = time.monotonic() + self.browser.patience
        while not self.heard(method):
            if time.monotonic() > until:
                raise TimeoutError(method)
            self.browser.events.append(self.browser.receive())

    def value(self, expression):
        """Of an expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def settle(self):
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    @property
    def complaints(self):
        """What the console says, and what was thrown."""
        return self.heard("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")

    @property
    def requests(self):
        return [r["request"]["url"] for r in self.heard("Network.requestWillBeSent") if not r["request"]["url"].startswith("data:")]

    def mouse(self, kind, x, y, down=False):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if down or kind != "mouseMoved" else "none",
                  buttons=int(down), clickCount=1)

    def drag(self, x1, y1, x2, y2):
        self.mouse("mouseMoved", x1, y1)
        self.mouse("mousePressed", x1, y1, True)
        self.mouse("mouseMoved", (x1 + x2) / 2, (y1 + y2) / 2, True)
        self.mouse("mouseMoved", x2, y2, True)
        self.mouse("mouseReleased", x2, y2)

    def key(self, key, text=None):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, file, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(file, "wb") as out:
            out.write(base64.b64decode(shot["data"]))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])
