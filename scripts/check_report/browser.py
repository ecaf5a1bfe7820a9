"""A headless Chromium, steered over a pipe by the DevTools protocol. Needs no package."""

import base64
import json
import os
import select
import shutil
import subprocess
import time

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--hide-scrollbars", "--remote-debugging-pipe", "about:blank",
]
PROGRAMS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
PATIENCE = 60


def program():
    """The browser on this machine, if there is one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    def __init__(self, browser, profile):
        to_browser, self.out = os.pipe()
        self.inn, from_browser = os.pipe()
        # The protocol is on the descriptors 3 and 4, whatever the pipes are called here.
        start = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["bash", "-c", start, "browser", browser, f"--user-data-dir={profile}", *FLAGS],
            pass_fds=[to_browser, from_browser], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.events = 0, b"", []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.ask(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.inn)

    def ask(self, method, **parameters):
        """Sends a command and waits for its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        answer = self.until(lambda found: found.get("id") == self.number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def until(self, wanted):
        """Reads until a message is the wanted one; the others are kept as events."""
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self.buffer:
                message, self.buffer = self.buffer.split(b"\0", 1)
                message = json.loads(message)
                if "method" in message:
                    self.events.append(message)
                if wanted(message):
                    return message
            ready, _, _ = select.select([self.inn], [], [], max(0, end - time.monotonic()))
            data = os.read(self.inn, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("the browser does not answer" if not ready else "the browser has ended")
            self.buffer += data

    def open(self, url, width, height, scheme="light", media="screen"):
        """Shows a page in a window of that size, and forgets what happened before."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)
        self.events = []
        self.ask("Page.navigate", url=url)
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.until(lambda found: found.get("method") == "Page.loadEventFired")

    def evaluate(self, script):
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def complaints(self):
        """What the console said, and what was asked for besides the file itself."""
        found = []
        for event in self.events:
            method, told = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(f"exception: {told['exceptionDetails'].get('text')}")
            elif method == "Runtime.consoleAPICalled" and told["type"] in ["error", "warning", "assert"]:
                found.append(f"console: {told['args']}")
            elif method == "Log.entryAdded" and told["entry"]["level"] in ["error", "warning"]:
                found.append(f"console: {told['entry']['text']}")
            elif method == "Network.requestWillBeSent" and not told["request"]["url"].startswith("file:"):
                found.append(f"asked for {told['request']['url']}")
        return found

    def screenshot(self, file):
        size = self.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": min(size[1], 16000), "scale": 1}
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self):
        printed = self.ask("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(printed["data"])
