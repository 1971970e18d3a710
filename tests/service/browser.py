"""A real headless Chromium through plain WebDriver calls: what a person at a screen would see and press."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
PATIENCE = 20.0
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Browser:
    """One window."""

    def __init__(self, http: httpx.Client, session: str) -> None:
        self._http = http
        self._base = f"/session/{session}"

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        sent = {} if method != "POST" else (body or {})
        reply = self._http.request(method, self._base + path, json=sent if method == "POST" else None).json()["value"]
        if isinstance(reply, dict) and "error" in reply:
            raise LookupError(f"{reply['error']}: {reply['message'][:200]}")
        return reply

    def open(self, url: str) -> None:
        self.call("POST", "/url", {"url": url})

    def script(self, text: str, *arguments: Any) -> Any:
        return self.call("POST", "/execute/sync", {"script": text, "args": list(arguments)})

    def script_async(self, text: str, *arguments: Any) -> Any:
        return self.call("POST", "/execute/async", {"script": text, "args": list(arguments)})

    def find(self, css: str) -> str:
        """Waits until it is there and can be seen."""
        return self.until(lambda: self._visible(css), f"nothing at {css}")

    def _visible(self, css: str) -> str | None:
        found = self.call("POST", "/elements", {"using": "css selector", "value": css})
        for entry in found:
            if self.call("GET", f"/element/{entry[ELEMENT]}/displayed"):
                return entry[ELEMENT]
        return None

    def click(self, css: str) -> None:
        self.until(lambda: self._try(css, "click"), f"cannot click {css}")

    def click_text(self, text: str, css: str = "button, a, [role=tab], summary") -> None:
        """The visible control with exactly this text."""
        mark = (
            "for (const e of document.querySelectorAll(arguments[0])) e.removeAttribute('data-found');"
            "for (const e of document.querySelectorAll(arguments[0])) if (e.textContent.trim() === arguments[1] && "
            "e.checkVisibility() && !e.disabled) { e.setAttribute('data-found', ''); return true; } return false;"
        )
        self.until(lambda: self.script(mark, css, text), f"no control says {text!r}: {self.text('main')[:400]}")
        self.click("[data-found]")

    def type(self, css: str, text: str, *, clear: bool = True) -> None:
        """Into an empty field it is typed again where the page was drawn anew meanwhile."""
        if clear:
            self.until(lambda: self._typed(self.find(css), text), f"cannot type into {css}")
        else:
            self.call("POST", f"/element/{self.find(css)}/value", {"text": text})

    def _typed(self, element: str, text: str) -> bool:
        self.call("POST", f"/element/{element}/clear")
        self.call("POST", f"/element/{element}/value", {"text": text})
        return self.call("GET", f"/element/{element}/property/value") == text

    def press(self, keys: str) -> None:
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": steps}]})

    def _try(self, css: str, action: str) -> bool:
        element = self._visible(css)
        if element is None:
            return False
        try:
            self.call("POST", f"/element/{element}/{action}")
        except LookupError:
            return False
        return True

    def text(self, css: str) -> str:
        return self.script("return document.querySelector(arguments[0])?.innerText ?? ''", css)

    def sees(self, text: str, css: str = "body") -> None:
        self.until(lambda: text in self.text(css), f"{text!r} not seen")

    def until(self, condition: Any, complaint: str) -> Any:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if found := condition():
                    return found
            except LookupError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"{complaint}; the page says: {self.text('body')[:600]!r}")

    def size(self, width: int, height: int) -> None:
        """Headless windows have a least width; the emulated screen has not."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)

    def dark(self, on: bool) -> None:
        value = "dark" if on else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        self.devtools("Emulation.setEmulatedMedia", {"features": features})

    def devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def screenshot(self, path: Path) -> None:
        """The whole page, not only what fits the window."""
        shot = self.devtools("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(shot["data"]))

    def console(self) -> list[str]:
        """Errors and warnings that the page caused since the last look."""
        entries = self.call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]


@contextmanager
def chromium() -> Iterator[Browser]:
    assert CHROMIUM is not None
    assert DRIVER is not None
    port = free_port()
    with tempfile.TemporaryDirectory() as profile:
        driver = subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
                _await(http)
                options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]}
                wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
                reply = http.post("/session", json={"capabilities": {"alwaysMatch": wanted}}).json()["value"]
                browser = Browser(http, reply["sessionId"])
                try:
                    yield browser
                finally:
                    browser.call("DELETE", "")
        finally:
            driver.terminate()
            driver.wait(10)


def _await(http: httpx.Client) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if http.get("/status").json()["value"]["ready"]:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("chromedriver did not start")
