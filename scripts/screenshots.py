"""Screenshots of the page for the guide: a real table behind a real server in a real browser.

`python -m scripts.screenshots [FOLDER]` writes those the guide shows into docs/guide/screens; with a FOLDER, every view
goes there to be looked at. It is the page as it is now: `make screenshots` runs it again. Answers carry fresh noise, so
numbers differ from run to run.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
SCREENS = ROOT / "docs" / "guide" / "screens"
SHOWN = ("ask", "price", "account")
WIDTH, HEIGHT = 1100, 860
PHONE = (390, 844)
COLOURS = 128
"""Enough for a page of few colours, in a third of the bytes."""
PAGE = ROOT / "src" / "reticent" / "service" / "static"
MADE_FROM = "made-from.txt"

sys.path.insert(0, str(ROOT / "tests" / "service"))
from browser import CHROMIUM, DRIVER, Browser, chromium  # noqa: E402


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str]]:
    """The demo's table behind `reticent serve`: address and the custodian's token."""
    from reticent.cli import demo

    demo.rows().to_parquet(folder / "visits.parquet")
    demo.domain().write(folder / "visits.toml")
    command = "serve visits.parquet --domain visits.toml --ledger visits.ledger --epsilon 1 --delta 1e-9 --port 0"
    command += " --log-level warning"  # nobody empties the pipe once the address is known
    process = subprocess.Popen(
        [sys.executable, "-c", "from reticent.cli import main; main()", *command.split(), "--title", "Doctor visits"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        told = next((line for line in process.stdout if " on http" in line), None)
        if told is None:
            raise RuntimeError("the server did not start")
        yield told.split()[-1], (folder / "visits.ledger.tokens.custodian").read_text().strip()
    finally:
        process.terminate()
        process.wait(30)


class Visit:
    """What a person does on the page, and what it looks like meanwhile."""

    def __init__(self, window: Browser, url: str, custodian: str, folder: Path, wanted: tuple[str, ...] | None) -> None:
        self.window, self.url, self.folder, self.wanted = window, url, folder, wanted
        self.http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {custodian}"}, timeout=300)
        self.custodian = custodian
        self.people = {name: self._token(name) for name in ("ada", "grace", "emmy")}

    def _token(self, name: str) -> str:
        return self.http.post("/v1/tokens", json={"name": name}).json()["token"]

    def shoot(self, name: str) -> None:
        if self.wanted is not None and name not in self.wanted:
            return
        path = self.folder / f"{name}.png"
        self.window.script("document.activeElement?.blur(); window.scrollTo(0, 0)")
        self.window.screenshot(path)
        Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)

    def sign_in(self, token: str, view: str = "ask") -> None:
        self.window.open(f"{self.url}/")
        self.window.script("sessionStorage.clear()")
        self.window.open("about:blank")
        self.window.open(f"{self.url}/#/{view}")
        self.window.type("input[type=password]", token)
        self.window.click_text("Sign in", "form button")
        self.window.sees("left", "header")

    def analyst(self) -> None:
        window = self.window
        self.sign_in(self.people["ada"])
        self.shoot("empty")
        window.click("[aria-label='Group by health']")
        window.click("[data-restrict=doctor_visits]")
        for place in (5, 6, 7):
            window.click(f".attributes li:first-child .value-choice:nth-child({place}) input")
        window.click_text("Ask", "form button")
        window.sees("Free", ".result")
        self.shoot("ask")
        window.type("[aria-label='Wanted error']", "150")
        window.sees("Left afterwards")
        self.shoot("price")
        window.click(".ask button[type=submit]")
        window.sees("Paid", ".result")
        self.shoot("paid")
        window.type("[aria-label='Wanted error']", "3")
        window.sees("Not enough budget left")
        self.shoot("out-of-budget")

    def sql(self) -> None:
        window = self.window
        window.click("#p-free")
        window.click_text("SQL")
        window.type(
            "textarea",
            "SELECT free_care, AVG(doctor_visits) AS mean_visits, COUNT(*) AS people\nFROM visits GROUP BY free_care",
        )
        window.click_text("Ask", "form button")
        window.sees("MEAN_VISITS", ".result")
        self.shoot("sql")
        loss = {"loss": "squared", "features": ["free_care", "health"], "label": "doctor_visits", "radius": 2.0}
        headers = {"Authorization": f"Bearer {self.people['ada']}"}
        body: dict[str, Any] = {"loss": loss, "error": 0.2}
        reply = self.http.post("/v1/tables/visits/minimize", json=body, headers=headers)
        reply.raise_for_status()
        window.click_text("History", "nav a")
        window.click("[aria-label^='Show answer']")
        window.sees("(intercept)", ".result")
        self.shoot("history")

    def phone_and_dark(self) -> None:
        window = self.window
        window.size(*PHONE)
        self.sign_in(self.people["ada"])
        window.click("[aria-label='Group by health']")
        window.click_text("Ask", "form button")
        window.sees("Free", ".result")
        self.shoot("phone")
        window.size(WIDTH, HEIGHT)
        window.dark(True)
        window.click_text("Ask", "form button")  # a chart is drawn for the width it finds
        window.until(lambda: not window.script("return !!document.querySelector('.busy')"), "no answer")
        self.shoot("dark")
        window.dark(False)

    def spend(self) -> None:
        """Two more analysts, so that the custodian has something to see."""
        for name, error in (("grace", 0.01), ("emmy", 0.008)):
            for value in ("fair", "poor"):
                query = {"query": "count", "where": {"op": "==", "column": "health", "value": value}}
                headers = {"Authorization": f"Bearer {self.people[name]}"}
                self.http.post("/v1/tables/visits/ask", json={"query": query, "error": error}, headers=headers)
        self.http.put("/v1/tables/visits/caps/emmy", json={"amount": 0.001})

    def institution(self) -> None:
        window = self.window
        self.spend()
        self.sign_in(self.custodian, "analysts")
        window.sees("emmy", "main")
        self.shoot("analysts")
        window.click_text("Account", "nav a")
        window.click_text("Verify now")
        window.sees("The ledger is intact")
        self.shoot("account")
        window.click_text("Releases", "nav a")
        window.type("input[name=title]", "Spring release")
        window.click_text("Publish", "form button")
        window.sees("is now open to every analyst")
        self.shoot("releases")
        window.click_text("Sign out")
        window.find("input[type=password]")
        self.shoot("sign-in")


def fingerprint() -> str:
    """Of the page's own files: pictures of another page are old."""
    digest = hashlib.sha256()
    for path in sorted(PAGE.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def main(folder: Path, wanted: tuple[str, ...] | None) -> None:
    if CHROMIUM is None or DRIVER is None:
        raise SystemExit("screenshots need chromium and chromedriver: run scripts/browser.sh")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, serving(Path(scratch)) as (url, token), chromium() as window:
        window.size(WIDTH, HEIGHT)
        visit = Visit(window, url, token, folder, wanted)
        visit.analyst()
        visit.sql()
        visit.phone_and_dark()
        visit.institution()
    (folder / MADE_FROM).write_text(fingerprint() + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SCREENS, None if len(sys.argv) > 1 else SHOWN)
