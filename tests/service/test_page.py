"""The page in a real browser: an analyst and a custodian at work, at a desk, on a phone, by keyboard alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.browser import CHROMIUM, DRIVER, Browser, chromium
from tests.service.serving import DOMAIN, Server, bearer, in_thread, survey_settings, write_survey

import reticent as rt
from reticent.service.app import create_app
from reticent.service.auth import Tokens
from reticent.service.server import open_tables

AXE = "axe-core@4.14.0"
ENTER, TAB, SPACE = "\ue007", "\ue004", " "
SHOTS = os.environ.get("RETICENT_SCREENSHOTS")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="chromium and chromedriver are not installed: run scripts/browser.sh"
)


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    return serve("--tick", "0.05")


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with chromium() as browser:
        browser.size(1280, 900)
        yield browser


@pytest.fixture(scope="module")
def analyst(server: Server) -> str:
    made = httpx.post(f"{server.url}/v1/tokens", json={"name": "ada"}, headers=bearer(server.custodian), timeout=30)
    return made.json()["token"]


@dataclass(frozen=True)
class Address:
    """A server of two tables, in a thread of this process."""

    url: str
    custodian: str


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    folder = tmp_path_factory.mktemp("pair")
    write_survey(folder)
    settings = survey_settings(folder)
    census = replace(settings.tables[0], name="census", ledger=str(folder / "census.ledger"), title="Census 2026")
    settings = replace(settings, tables=(*settings.tables, census))
    tokens = Tokens(Path(settings.tokens))
    custodian = tokens.create("carol", "custodian")[1]
    with in_thread(create_app(settings, open_tables(settings), tokens), settings) as url:
        yield Address(url, custodian)


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The accessibility checker's source, from the npm registry."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, so axe-core cannot be fetched")
    folder = tmp_path_factory.mktemp("axe")
    done = subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, capture_output=True, timeout=120)
    if done.returncode:
        pytest.skip("axe-core cannot be fetched from the npm registry here")
    archive = next(folder.glob("*.tgz"))
    subprocess.run(["tar", "xzf", archive.name, "package/axe.min.js"], cwd=folder, check=True)
    return (folder / "package" / "axe.min.js").read_text()


def sign_in(window: Browser, server: Server | Address, token: str, view: str = "ask") -> None:
    window.open(f"{server.url}/")
    window.script("sessionStorage.clear()")
    window.open("about:blank")
    window.console()
    window.open(f"{server.url}/#/{view}")
    window.type("input[type=password]", token)
    window.click_text("Sign in", "form button")
    window.sees("left", "header")


def shoot(window: Browser, name: str) -> None:
    if SHOTS:
        Path(SHOTS).mkdir(exist_ok=True)
        window.screenshot(Path(SHOTS) / f"{name}.png")


def said(window: Browser, text: str) -> None:
    """What a screen reader was told last."""
    status = "return document.getElementById('status').textContent"
    window.until(lambda: window.script(status) == text, f"{text!r} was not announced")


def accessible(window: Browser, axe: str) -> None:
    """No violation that axe can find."""
    window.script(axe)
    found = window.script_async(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations.map(v => "
        "v.id + ': ' + v.nodes.map(n => n.target.join(' ')).slice(0, 3).join(', '))), e => done([String(e)]))"
    )
    assert found == []


def test_a_wrong_token_is_told_and_the_page_stays(window: Browser, server: Server) -> None:
    window.open(f"{server.url}/")
    window.type("input[type=password]", "rt_wrong")
    window.click_text("Sign in", "form button")
    window.sees("unknown, expired or revoked")
    window.console()


def test_ask_by_clicking_then_pay_for_a_bound(window: Browser, server: Server, analyst: str) -> None:
    sign_in(window, server, analyst)
    assert "Account" not in window.text("nav")
    window.click("[aria-label='Group by sex']")
    window.click("[data-restrict=age]")
    window.click(".attributes li:first-child .value-choice:nth-child(5) input")
    window.click(".attributes li:first-child .value-choice:nth-child(6) input")
    window.sees("Number of records by sex, where age is 55-64 or 65-90")
    window.click_text("Ask", "form button")
    window.sees("Free", ".result")
    # A bound of both groups; their typical error only where it is below the bound, which is a matter of the noise.
    free = {"sql": "SELECT sex, COUNT(*) AS records FROM survey WHERE age >= 55 GROUP BY sex"}
    known = httpx.post(f"{server.url}/v1/tables/survey/ask", json=free, headers=bearer(analyst), timeout=30).json()
    cells = zip(known["result"]["typical"], known["result"]["errors"], strict=True)
    usual = sum(typical[-1] < error[-1] for typical, error in cells)
    assert window.script("return document.querySelectorAll('.result .whisker:not(.typical)').length") == 2
    assert window.script("return document.querySelectorAll('.result .whisker.typical').length") == usual
    assert "With 95% probability" in window.text(".promise")
    shoot(window, "free")
    window.type("[aria-label='Wanted error']", "60")
    window.sees("Left afterwards")
    shoot(window, "price")
    before = window.text(".purse")
    window.click(".ask button[type=submit]")
    window.sees("Paid", ".result")
    window.until(lambda: window.text(".purse") != before, "the gauge did not move")
    shoot(window, "paid")
    assert window.console() == []


def test_typical_errors_are_drawn_only_below_the_bound(window: Browser, server: Server) -> None:
    window.open(f"{server.url}/")
    drawn = (
        "const [typical, done] = arguments;"
        "const result = {columns: ['sex', 'records'], aggregates: [false, true], rows: [['Female', 40], ['Male', 60]],"
        "errors: [[null, 9], [null, 9]], typical, confidence: 0.95, certified: true, price: 0};"
        "const reply = {kind: 'table', result, meaning: ''};"
        "import('/static/result.js').then((page) => {"
        "const view = page.resultView(reply, 'q', {name: 't', records: 100, unit: 'record'}, String);"
        "done(['.whisker:not(.typical)', '.whisker.typical'].map((css) => view.querySelectorAll(css).length)); });"
    )
    assert window.script_async(drawn, [[None, 5], [None, 5]]) == [2, 2]
    assert window.script_async(drawn, [[None, 5], [None, 12]]) == [2, 1]
    assert window.script_async(drawn, [[None, 12], [None, 12]]) == [2, 0]
    assert window.script_async(drawn, []) == [2, 0]
    assert window.console() == []


def test_persons_are_not_called_records(window: Browser, server: Server) -> None:
    window.open(f"{server.url}/")
    words = (
        "const done = arguments[0];"
        "const table = {name: 'visits', records: 50, unit: 'person', domain: []};"
        "const result = {labels: [], count: 20, value: 0.4, error: 0.1, price: 0};"
        "Promise.all(['builder', 'result'].map((part) => import(`/static/${part}.js`))).then(([builder, page]) => {"
        "const view = page.resultView({kind: 'number', result, meaning: ''}, 'q', table, String);"
        "done([builder.sqlOf(builder.newQuestion(), table), view.querySelector('dt').textContent]); });"
    )
    assert window.script_async(words) == ["SELECT COUNT(*) AS persons\nFROM visits", "persons"]
    assert window.console() == []


def test_columns_are_listed_with_what_is_declared(window: Browser, server: Server) -> None:
    window.open(f"{server.url}/")
    listed = (
        "const done = arguments[0];"
        "const age = {name: 'age', ordered: true, labels: ['0-9', '10-19', '(null)', '(other)'],"
        "declaration: {type: 'numeric', edges: [0, 10, 20]}};"
        "const sex = {name: 'sex', ordered: false, labels: ['f', 'm', '(other)'],"
        "declaration: {type: 'categorical', values: ['f', 'm']}};"
        "Promise.all(['builder', 'filters'].map((part) => import(`/static/${part}.js`))).then(([builder, page]) => {"
        "const lists = page.filterControls({domain: [age, sex]}, builder.newQuestion(), () => {});"
        "const counts = lists.flatMap((e) => [...e.querySelectorAll('.count')]).map((e) => e.textContent);"
        "done(counts); });"
    )
    assert window.script_async(listed) == ["2 bins", "2 values"]
    assert window.console() == []


DRAW = (
    "const [entries, done] = arguments;"
    "import('/static/chart.js').then((page) => { const figure = page.bars(entries, 'c');"
    "document.body.prepend(figure); const box = (e) => { const b = e.getBoundingClientRect();"
    "return [b.left, b.top, b.right, b.bottom]; };"
    "const all = (css) => [...figure.querySelectorAll(css)];"
    "const found = {frame: box(figure.querySelector('svg')), "
    "labels: all('.label').map((e) => e.firstChild.textContent),"
    "texts: all('text').map(box), marks: all('rect, .whisker').map(box)};"
    "figure.remove(); done(found); });"
)


def drawn(window: Browser, entries: list[dict[str, Any]]) -> dict[str, Any]:
    return window.script_async(DRAW, entries)


def apart(one: list[float], other: list[float]) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@pytest.mark.parametrize("width", [390, 1400])
def test_no_bar_or_whisker_lies_on_a_text(width: int, window: Browser, server: Server) -> None:
    """`37,023 ± 11,079` was struck through on a phone: its place had a fixed width."""
    window.size(width, 900)
    try:
        window.open(f"{server.url}/")
        for value, error in ((37_023, 11_079), (1_234_567_890, 987_654_321), (0.5, 0.012)):
            entries = [
                {"label": ["college or university", "45-54"], "value": value, "error": error, "typical": error / 2},
                {"label": ["secondary", "17-24"], "value": value / 3, "error": error, "typical": None},
            ]
            found = drawn(window, entries)
            for text in found["texts"]:
                assert all(apart(text, mark) for mark in found["marks"])
                assert found["frame"][0] - 1 <= text[0]
                assert text[2] <= found["frame"][2] + 1
            for place, text in enumerate(found["texts"]):
                assert all(apart(text, other) for other in found["texts"][place + 1 :])
        typical = drawn(window, [{"label": ["a"], "value": 5, "error": None, "typical": 50}])
        assert all(mark[2] <= typical["frame"][2] + 1 for mark in typical["marks"])
        assert all(apart(text, mark) for text in typical["texts"] for mark in typical["marks"])
    finally:
        window.size(1280, 900)


def test_the_heat_map_of_a_report_can_be_read_on_a_phone(window: Browser, tmp_path: Path) -> None:
    write_survey(tmp_path)
    table = rt.Table.read(tmp_path / "survey.parquet", DOMAIN)
    report = rt.release(table, rt.marginals(DOMAIN, 2), rt.Budget(epsilon=1, delta=1e-9), progress=False).report(
        tmp_path / "report.html"
    )
    window.size(390, 844)
    try:
        window.open(report.as_uri())
        heights = window.script(
            "return [...document.querySelectorAll('.pair text')].map((e) => e.getBoundingClientRect().height)"
        )
        assert heights
        assert min(heights) >= 11
        assert narrow_enough(window, "document.documentElement")
        assert window.script("return document.querySelector('.pair .wide').tabIndex") == 0
    finally:
        window.size(1280, 900)


@pytest.mark.parametrize("width", [390, 1400])
def test_shortened_labels_still_differ(width: int, window: Browser, server: Server) -> None:
    window.size(width, 900)
    try:
        window.open(f"{server.url}/")
        long = "a doctoral degree of a university or of another school of that rank"
        pairs = [{"label": [long, ages], "value": 370_230, "error": 11_079} for ages in ("17-24", "25-34")]
        labels = drawn(window, pairs)["labels"]
        assert [label.rpartition(" · ")[2] for label in labels] == ["17-24", "25-34"]
        assert all("…" in label for label in labels)
        names = [f"{long}, {ending}" for ending in ("with distinction", "without it")]
        single = drawn(window, [{"label": [name], "value": 370_230, "error": 11_079} for name in names])["labels"]
        assert single[0] != single[1]
        short = drawn(window, [{"label": ["Female", "17-24"], "value": 3, "error": 1}])["labels"]
        assert short == ["Female · 17-24"]
    finally:
        window.size(1280, 900)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("-3", "-3 is not an error; enter a number of records above 0."),
        ("0", "0 is not an error; enter a number of records above 0."),
        ("abc", "abc is not an error; enter a number of records above 0."),
        ("1e999", "1e999 is not an error"),
        ("-1%", "-1% is not an error"),
        ("%", "% is not an error"),
        ("1,000", "with a decimal point and no commas"),
    ],
)
def test_an_error_that_is_none_is_named_and_cannot_be_asked(
    text: str, told: str, window: Browser, server: Server, analyst: str
) -> None:
    sign_in(window, server, analyst)
    window.type("[aria-label='Wanted error']", text)
    window.sees(told, ".price")
    disabled = "return document.querySelector('.ask button[type=submit]').disabled"
    assert window.script(disabled)
    window.type("[aria-label='Wanted error']", "60")
    window.until(lambda: not window.script(disabled), "asking stays impossible")
    assert told not in window.text(".price")


def test_a_refused_statement_is_told_once(window: Browser, server: Server, analyst: str) -> None:
    sign_in(window, server, analyst)
    window.click_text("SQL")
    window.type("[aria-label='Wanted error']", "5%")
    window.type("textarea", "SELECT nothing FROM survey")
    window.script("document.querySelector('form.ask').requestSubmit()")
    window.sees("unknown column", ".answer")
    time.sleep(1)  # a price would have been asked for by now
    assert window.text("main").count("unknown column") == 1
    window.type("textarea", "SELECT neither FROM survey")
    window.sees("neither", ".price")
    assert window.text("main").count("unknown column") == 1
    window.console()


def test_tables_are_chosen_by_title_and_a_token_may_be_for_some(window: Browser, pair: Address) -> None:
    sign_in(window, pair, pair.custodian, "analysts")
    assert window.text(".bar select").split("\n") == ["Survey", "Census 2026"]
    window.type("input[name=name]", "hedy")
    window.click("input[name=tables][value=survey]")
    window.click_text("Create token")
    window.sees("It is shown only now")
    fresh = window.text("dialog output")
    assert httpx.get(f"{pair.url}/v1/me", headers=bearer(fresh), timeout=30).json()["tables"] == ["census"]
    window.click_text("Close")
    window.sees("Census 2026", "tbody")
    window.type("input[name=name]", "mary")
    window.click("input[name=tables][value=survey]")
    window.click_text("Create token")
    window.sees("It is shown only now")
    everything = window.text("dialog output")
    assert httpx.get(f"{pair.url}/v1/me", headers=bearer(everything), timeout=30).json()["tables"] == [
        "survey",
        "census",
    ]
    window.click_text("Close")
    window.type("input[name=name]", "none")
    for name in ("survey", "census"):
        window.click(f"input[name=tables][value={name}]")
    window.click_text("Create token")
    assert not window.script("return document.querySelector('form.card').checkValidity()")
    people = httpx.get(f"{pair.url}/v1/tokens", headers=bearer(pair.custodian), timeout=30).json()["tokens"]
    assert {entry["name"]: entry["tables"] for entry in people} == {"carol": None, "hedy": ["census"], "mary": None}
    assert window.console() == []


def test_ask_in_sql_and_look_back(window: Browser, server: Server, analyst: str) -> None:
    sign_in(window, server, analyst)
    window.click_text("SQL")
    window.type("textarea", "SELECT region, AVG(age) AS mean_age, COUNT(*) FROM survey GROUP BY region ORDER BY 3 DESC")
    window.click_text("Ask", "form button")
    window.sees("MEAN_AGE", ".result")
    window.sees("north", ".result table")
    window.type("textarea", "SELECT * FROM survey")
    window.click_text("Ask", "form button")
    window.sees("cannot be answered in this form")
    window.console()
    paid = {"sql": "SELECT COUNT(*) FROM survey WHERE region = 'west'", "error": "1.2%"}
    ask = f"{server.url}/v1/tables/survey/ask"
    assert httpx.post(ask, json=paid, headers=bearer(analyst), timeout=30).json()["result"]["price"] > 0
    window.click_text("History", "nav a")
    window.click("[aria-label^='Show answer']")
    window.sees("Paid", ".result")
    assert window.console() == []


def test_names_of_columns_stay_as_they_are_written(window: Browser, server: Server, analyst: str) -> None:
    sign_in(window, server, analyst)
    window.click_text("SQL")
    window.sees("MEDIAN", ".ask")
    window.type("textarea", "SELECT sex, AVG(age) FROM survey GROUP BY sex ORDER BY 2 DESC LIMIT 1")
    window.click_text("Ask", "form button")
    window.sees("Basis: age clipped to", ".result")
    shown = window.script("return document.querySelector('.result').innerText")
    assert "Age clipped" not in shown
    assert "Note: rows are chosen by estimate" in shown
    assert "Less precise than requested" not in shown, "no error was requested"


def test_texts_and_dates_of_groups_are_no_bars(window: Browser, server: Server, analyst: str) -> None:
    """Bars were drawn to NaN, and a text that is certain was shown as `many ± 0`."""
    sign_in(window, server, analyst)
    window.click_text("SQL")
    size = "CASE WHEN COUNT(*) > 10 THEN 'many' ELSE 'few' END AS size, COUNT(*) > 10 AS is_many"
    window.type("textarea", f"SELECT sex, {size}, AVG(age) AS mean FROM survey GROUP BY sex")
    window.click_text("Ask", "form button")
    window.sees("many", ".result table")
    window.sees("MEAN", ".result h3")
    assert window.script("return document.querySelectorAll('.result figure').length") == 1
    assert "many ±" not in window.text(".result")
    assert "true ±" not in window.text(".result")
    assert window.console() == []


def test_running_out_of_budget_is_told_before_paying(window: Browser, server: Server, analyst: str) -> None:
    sign_in(window, server, analyst)
    window.click("[aria-label='Group by region']")
    window.type("[aria-label='Wanted error']", "3")
    window.sees("Not enough budget left")
    assert window.script("return document.querySelector('.ask button[type=submit]').disabled")
    shoot(window, "no-budget")
    window.click("#p-free")
    window.click_text("Ask", "form button")
    window.sees("Free", ".result")
    assert window.console() == []


def test_the_custodian_adds_people_caps_them_verifies_and_publishes(window: Browser, server: Server) -> None:
    sign_in(window, server, server.custodian, "analysts")
    window.type("input[name=name]", "grace")
    window.click_text("Create token")
    window.sees("It is shown only now")
    fresh = window.text("dialog output")
    window.click_text("Close")
    window.type("[aria-label='Cap of grace']", "0.0001")
    window.click("[aria-label='Set cap of grace']")
    said(window, "Cap of grace set")
    budget = httpx.get(f"{server.url}/v1/tables/survey/budget", headers=bearer(fresh), timeout=30).json()
    assert budget["own_cap"] == pytest.approx(0.0001, abs=1e-9)
    shoot(window, "analysts")
    window.click("[aria-label='Revoke grace']")
    window.click_text("Revoke", "dialog button")
    window.sees("revoked")
    assert httpx.get(f"{server.url}/v1/me", headers=bearer(fresh), timeout=30).status_code == 401
    window.click_text("Account", "nav a")
    window.click_text("Verify now")
    window.sees("The ledger is intact")
    window.sees("for every choice of questions")
    shoot(window, "account")
    window.click_text("Releases", "nav a")
    window.type("input[name=title]", "Spring release")
    window.click_text("Publish", "form button")
    window.sees("is now open to every analyst")
    window.script("HTMLAnchorElement.prototype.click = function () { window.saved = this.download; };")
    window.click("[aria-label='Download Release file of Spring release']")
    window.until(
        lambda: window.script("return window.saved") == "survey-r0001.release", "not named as the CLI reads it"
    )
    window.script("document.getElementById('status').textContent = ''")
    window.click("[aria-label='Download CSV of Spring release']")
    window.until(
        lambda: window.script("return document.getElementById('status').textContent") == "Downloaded", "no file"
    )
    shoot(window, "releases")
    assert window.console() == []


def test_a_keyboard_is_enough(window: Browser, server: Server, analyst: str) -> None:
    sign_in(window, server, analyst)
    window.find(".attributes")
    window.script("document.querySelector(\"[aria-label='Group by sex']\").focus()")
    window.press(SPACE)
    window.sees("by sex", ".summary")
    window.script("document.getElementById('tab-build').focus()")
    window.press("\ue014")
    window.until(lambda: window.script("return document.activeElement.id") == "tab-sql", "arrow keys do not move tabs")
    window.press(TAB)
    assert window.script("return document.activeElement.tagName") == "TEXTAREA"
    window.script("document.querySelector('.ask button[type=submit]').focus()")
    window.press(ENTER)
    window.sees("Free", ".result")
    assert window.script("return document.activeElement.id") == "answer-title"


def test_a_phone_shows_everything_without_sideways_scrolling(window: Browser, server: Server, analyst: str) -> None:
    window.size(390, 844)
    try:
        sign_in(window, server, analyst)
        window.click("[aria-label='Group by age']")
        window.click_text("Ask", "form button")
        window.sees("Free", ".result")
        assert narrow_enough(window)
        shoot(window, "phone")
        sign_in(window, server, server.custodian)
        for view, sign in (("History", "Price"), ("Releases", "Publish"), ("Analysts", "ada"), ("Account", "ada")):
            window.click_text(view, "nav a")
            window.sees(sign, "main")
            assert narrow_enough(window), view
    finally:
        window.size(1280, 900)


def narrow_enough(
    window: Browser, what: str = "document.documentElement, ...document.querySelectorAll('.wide')"
) -> bool:
    """Neither the page nor a table on it is wider than its place."""
    over = f"[{what}].map((e) => e.scrollWidth - e.clientWidth)"
    return window.script(f"return Math.max(...{over})") <= 0


def test_the_view_begins_at_its_top_and_spent_and_left_agree_with_the_bar(
    window: Browser, server: Server, analyst: str
) -> None:
    window.size(390, 500)
    try:
        sign_in(window, server, analyst)
        window.find(".attributes")
        assert window.script("return window.scrollY") == 0
    finally:
        window.size(1280, 900)
    told = window.text(".purse")
    spent, left = (float(part) for part in re.findall(r"([\d.]+)%", told))
    assert spent + left == pytest.approx(100, abs=0.1)  # both are rounded to three digits
    assert spent == pytest.approx(
        float(window.script("return parseFloat(document.querySelector('.purse .gauge span').style.width)")), abs=0.1
    )


def test_an_answer_stands_open_only_under_its_own_question(window: Browser, server: Server, analyst: str) -> None:
    sign_in(window, server, analyst)
    window.click("[aria-label='Group by sex']")
    window.click_text("Ask", "form button")
    window.sees("Female", ".result")
    window.click("[aria-label='Group by region']")
    window.sees("Answer to an earlier question: Number of records by sex", ".earlier summary")
    assert not window.script("return document.querySelector('.earlier .result').checkVisibility()")
    window.click("[aria-label='Group by region']")
    window.sees("Female", ".result")
    assert window.script("return document.querySelector('.earlier') === null")


def test_many_groups_show_their_numbers(window: Browser, server: Server, analyst: str) -> None:
    sign_in(window, server, analyst)
    for name in ("age", "sex", "smoker", "region"):
        window.click(f"[aria-label='Group by {name}']")
    window.click_text("Ask", "form button")
    window.sees("Table of 108 rows", ".result")
    window.sees("17-24", ".result table")  # a folded table has no text


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_view_passes_the_accessibility_checker(window: Browser, server: Server, axe: str, dark: bool) -> None:
    window.dark(dark)
    try:
        sign_in(window, server, server.custodian)
        window.click("[aria-label='Group by age']")
        window.click("[data-restrict=region]")
        window.click_text("Ask", "form button")
        window.sees("Free", ".result")
        shoot(window, "dark" if dark else "light")
        accessible(window, axe)
        for view, sign in (
            ("History", "Price"),
            ("Releases", "Publish what is known"),
            ("Analysts", "no end"),
            ("Account", "BY WHOM"),
        ):
            window.click_text(view, "nav a")
            window.sees(sign, "main")
            accessible(window, axe)
        window.click_text("Sign out")
        window.find("input[type=password]")
        accessible(window, axe)
    finally:
        window.dark(False)
