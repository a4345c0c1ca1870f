"""Drives a headless Chromium over its debugging pipe: no port, no package beyond the browser itself.

    with Browser(folder) as browser:
        page = browser.open("/tmp/report.html", width=400)
        page.evaluate("document.title")
        page.screenshot("/tmp/report.png")
        page.problems   # console errors, exceptions, requests for anything but the page
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium():
    """Path of an installed browser, or None."""
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.next_id = 0
        self.events = []
        self.buffer = b""

    def __enter__(self):
        to_browser, self.out = os.pipe()
        self.incoming, from_browser = os.pipe()
        # The browser reads descriptor 3 and writes descriptor 4.
        script = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                 "--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage",
                 f"--user-data-dir={self.folder / 'profile'}", "about:blank"]
        self.log = open(self.folder / "chromium.log", "wb")
        self.process = subprocess.Popen(["bash", "-c", script, find_chromium(), *flags],
                                        pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log)
        os.close(to_browser)
        os.close(from_browser)
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.incoming)
        self.log.close()

    def read_message(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.incoming, 1 << 16)
            if not piece:
                raise RuntimeError("the browser is gone; see " + str(self.folder / "chromium.log"))
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        """The result of one command; events that come meanwhile are kept."""
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while True:
            answer = self.read_message()
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path, **view):
        return Page(self, pathlib.Path(path).resolve().as_uri(), **view)


class Page:
    def __init__(self, browser, url, width=1280, height=900, dark=False, script=True):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.target = target
        self.url = url
        self.width = width
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.media(dark=dark)
        if not script:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.call("Page.navigate", url=url)
        end = time.monotonic() + 60
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events()):
            if time.monotonic() > end:
                raise RuntimeError("the page did not load")
            browser.events.append(browser.read_message())

    def call(self, method, **params):
        return self.browser.call(method, session=self.session, **params)

    def events(self):
        return [event for event in self.browser.events if event.get("sessionId") == self.session]

    def media(self, dark=False, kind=""):
        self.call("Emulation.setEmulatedMedia", media=kind,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression[:80]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def settle(self):
        """Waits for two drawn frames."""
        self.evaluate("new Promise(f=>requestAnimationFrame(()=>requestAnimationFrame(()=>f(1))))")

    def screenshot(self, path, whole=True):
        height = self.evaluate("document.documentElement.scrollHeight") if whole else 900
        clip = {"x": 0, "y": 0, "width": self.width, "height": min(height, 16000), "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, clip=clip)
        pathlib.Path(path).write_bytes(base64.b64decode(answer["data"]))

    def pdf(self, path):
        answer = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        pathlib.Path(path).write_bytes(base64.b64decode(answer["data"]))

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    @property
    def problems(self):
        """Console errors, uncaught exceptions, and requests for anything but the page itself."""
        self.evaluate("1")
        found = []
        for event in self.events():
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append("exception: " + json.dumps(params["exceptionDetails"])[:400])
            if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append("console: " + json.dumps(params["args"])[:400])
            if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append("log: " + params["entry"]["text"])
            if method == "Network.requestWillBeSent" and params["request"]["url"] != self.url:
                found.append("request: " + params["request"]["url"][:200])
        return found
