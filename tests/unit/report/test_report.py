"""Reports and notebook views: self-contained, escaped, with budget, certificates and everything that was measured."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from tests.small_tables import skewed

import reticent as rt
from reticent.knowledge.typical import told
from reticent.report.charts import Whisker, bars, gauge, plus_minus
from reticent.report.page import STYLE
from reticent.report.words import TEST_LEVEL, for_one_person, most_power, percent, worth_telling

NASTY = '<img src=x onerror="alert(1)">&"\'</style>'
BUDGET = rt.Budget(epsilon=1, delta=1e-9)


@pytest.fixture(scope="module")
def table() -> rt.Table:
    import pyarrow as pa

    random = np.random.default_rng(8)
    domain = rt.Domain(
        {
            "age": rt.Numeric(edges=[0, 20, 40, 60, 90], other=False),
            NASTY: rt.Categorical([NASTY, "plain"], other=False),
            "code": rt.Integer(60),
        }
    )
    rows = {
        "age": random.integers(0, 90, 900),
        NASTY: random.choice([NASTY, "plain"], 900),
        "code": random.integers(0, 60, 900),
    }
    return rt.Table.of(pa.table(rows), domain, name=f"people {NASTY}")


@pytest.fixture(scope="module")
def release(table: rt.Table) -> rt.Release:
    return rt.release(table, rt.marginals(table.domain, 2), BUDGET)


@pytest.fixture(scope="module")
def release_page(release: rt.Release, tmp_path_factory: pytest.TempPathFactory) -> str:
    return release.report(tmp_path_factory.mktemp("report") / "r.html").read_text(encoding="utf-8")


class Page(HTMLParser):
    """Tags that are open, every attribute seen, and the text."""

    VOID = frozenset({"meta", "br", "rect", "path", "img", "link"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check_self_contained(text: str) -> Page:
    page = Page(text)
    assert page.open == []
    assert not {"script", "img", "link", "iframe", "object", "embed"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href")]
    assert not re.search(r"https?://|url\(|@import|//[a-z]", text)
    return page


def test_the_page_is_one_file_with_every_name_escaped(release_page: str) -> None:
    page = check_self_contained(release_page)
    assert NASTY in page.text
    assert "<img" not in release_page


def test_the_page_says_what_was_spent_and_what_is_guaranteed(release: rt.Release, release_page: str) -> None:
    text = Page(release_page).text
    assert "If any one record was replaced by any other" in text
    assert "ε = 1, δ = 1e-09" in text
    assert "Spent" in text
    for delta, epsilon in release.facts["privacy"]["epsilon"].items():
        assert f"ε at δ = {float(delta):.0e}" in text
        assert f"{float(epsilon):.4g}" in text
    assert release.certificates
    for certificate in release.certificates:
        assert f"at most {100 * certificate.bound:.3g}% of the table" in text
        assert f"probability {certificate.confidence:g}" in text


def test_the_page_lists_every_measured_set_and_charts_every_attribute(release: rt.Release, release_page: str) -> None:
    text = Page(release_page).text
    sets = {release.domain.canonical(m.query.attributes) for m in told(release.domain, release.measurements)}
    assert len(sets) == 3 + 3
    for names in sets:
        assert " × ".join(names) in text
    assert release_page.count("<figure") == 4, "three attributes, and two of them together"
    assert "Do not look for individuals" in text


def test_a_release_without_certificate_says_so(table: rt.Table, tmp_path: Path) -> None:
    bare = rt.release(
        table, rt.marginals(table.domain, 1), rt.Budget(epsilon=3), algorithm=rt.MWEM(rounds=2, audit_share=0)
    )
    text = check_self_contained(bare.report(tmp_path / "r.html").read_text(encoding="utf-8")).text
    assert "No error bound was bought" in text
    assert f"at most {np.exp(3):.3g} times as likely" in text


@pytest.fixture(scope="module")
def session(table: rt.Table) -> Any:
    from reticent.sessions.session import Session

    with Session.open(None, table, BUDGET, purpose="unlimited") as opened:
        yield opened


def test_session_report(session: Any, tmp_path: Path) -> None:
    page = check_self_contained(session.report(tmp_path / "s.html").read_text(encoding="utf-8"))
    assert "Budget" in page.text
    assert f"{session.spent:.4g} spent" in page.text
    assert f"at most {percent(session.certificates[-1].bound)} of the table" in page.text
    assert "chosen after seeing earlier answers" in page.text
    assert "{" not in page.text.replace(STYLE, ""), "a raw value on the page"
    assert NASTY in page.text


def test_charts() -> None:
    shares = np.array([0.75, 0.25])
    whiskers = [Whisker("certified", shares, 0.0512), Whisker("typical", shares, 0.02)]
    drawing = bars(["a" * 40, "b"], shares, whiskers, title=NASTY)
    page = Page(drawing)
    assert page.tags.count("rect") == 2
    assert drawing.count("whisker certified") == drawing.count("whisker typical") == 2
    for text in (NASTY, "a" * 40, "75.0% ± 5.2", "0%", "20%", "60%"):
        assert text in page.text
    assert 'width:100.00%"' in gauge(7.0, "over")


@pytest.mark.parametrize(
    ("error", "told"), [(0.0512, "5.2"), (0.05, "5.0"), (0.12301, "13"), (0.000101, "0.011"), (1.0, "100"), (0.0, "0")]
)
def test_a_bound_is_rounded_up(error: float, told: str) -> None:
    assert plus_minus(error) == told


def test_certified_and_typical_errors_are_drawn(release: rt.Release, release_page: str) -> None:
    assert release_page.count('class="whisker certified"') == 4 + 2, "codes of the two short attributes"
    assert "measured" not in "".join(re.findall(r'class="whisker (\w+)"', release_page))
    answer = release.answer(rt.marginal("age"))
    assert answer.error is not None
    assert f"± {plus_minus(answer.error)}" in Page(release_page).text
    assert release_page.count('class="whisker typical"') in (0, 2, 4, 6), "all codes of an attribute or none"


def test_gauge() -> None:
    assert 'width:100.00%"' in gauge(7.0, "over")


# ---- notebooks


def values(release: rt.Release, session: Any) -> dict[str, Any]:
    domain = release.domain
    return {
        "release": release,
        "session": session,
        "answer": release.answer(rt.count(rt.col("age") >= 40)),
        "marginal": release.answer(rt.marginal(NASTY)),
        "table": release.ask("SELECT code, COUNT(*) FROM people GROUP BY code"),
        "plan": rt.plan(records=900, domain=domain, budget=BUDGET, queries=100),
        "model": release.minimize(rt.Squared(features=["age"], label="code")),
    }


def test_every_value_has_a_notebook_view(release: rt.Release, session: Any) -> None:
    for name, value in values(release, session).items():
        shown = value._repr_html_()
        page = check_self_contained(shown)
        assert page.tags, name
        assert page.text.strip(), name
    assert NASTY in Page(release.answer(rt.marginal(NASTY))._repr_html_()).text


def test_a_board_reads_who_when_and_what_it_means_for_one_person(release: rt.Release, tmp_path: Path) -> None:
    cover = {"title": "Health <2026>", "author": "Office", "date": "17 November 2026", "source": "Survey, adults"}
    page = Page(release.report(tmp_path / "r.html", **cover).read_text(encoding="utf-8"))
    for text in cover.values():
        assert text in page.text
    assert "What this means for one person" in page.text
    assert "percent of the table" in page.text, "a two-way picture"
    with pytest.raises(rt.QueryError, match="author"):
        release.report(tmp_path / "r.html", author=3)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-9), (4.0, 0.01), (1000.0, 0.0)])
def test_no_test_has_more_power_than_the_report_says(epsilon: float, delta: float) -> None:
    """Against the extremal mechanism of (epsilon, delta): four outcomes, every set of them is a test."""
    if epsilon > 500:
        assert most_power(epsilon, delta) == 1
        return
    high = np.exp(epsilon) / (1 + np.exp(epsilon)) * (1 - delta)
    low = (1 - delta) - high
    here, there = np.array([delta, high, low, 0.0]), np.array([0.0, low, high, delta])
    likely = np.argsort(-here / np.maximum(there, 1e-300))
    levels, powers = np.cumsum(there[likely]), np.cumsum(here[likely])
    best = np.interp(0.05, np.concatenate([[0.0], levels]), np.concatenate([[delta], powers]))
    assert most_power(epsilon, delta) == pytest.approx(best, abs=1e-9)


def test_power_against_exact_composition_is_that_of_shifted_noise() -> None:
    budget = rt.Budget(epsilon=1, delta=1e-9, noise="gaussian")
    mu = budget.guarantee()["mu"]
    power = 1 - NormalDist(mu).cdf(NormalDist().inv_cdf(1 - TEST_LEVEL))
    text = for_one_person(budget, "record", "replace-one")
    assert f"at most {percent(power)} of" in text
    assert power < most_power(1.0, 1e-9)
    alike = rt.Budget(rho=budget.rho, noise="gaussian", approximate=1e-10)
    assert f"at most {percent(power)} of" not in for_one_person(alike, "record", "replace-one"), "it may fail"


def test_plots_carry_the_error_bars(release: rt.Release, session: Any) -> None:
    answer = release.answer(rt.marginal("age"))
    figure = answer.plot()
    (axes,) = figure.axes
    heights = [patch.get_height() for patch in axes.patches]
    np.testing.assert_allclose(heights, answer.value)
    (whiskers,) = [c for c in axes.containers if hasattr(c, "has_yerr") and c.has_yerr]
    low, high = np.asarray(whiskers.lines[2][0].get_segments())[0][:, 1]
    assert high - low == pytest.approx(2 * answer.error)
    pair = release.plot("age", NASTY)
    np.testing.assert_allclose(pair.axes[0].images[0].get_array(), release.answer(rt.marginal("age", NASTY)).value)
    assert len(release.plot().axes) == 3
    (many,) = release.plot("code").axes
    assert len(many.patches) == 1, "very many bars are one outline"
    assert len(many.get_xticklabels()) < 20
    steps = session.plot().axes[0].lines[0].get_ydata()
    assert steps[-1] == pytest.approx(session.spent)
    for drawn in (figure, pair, session.plot()):
        drawn.canvas.draw()


def test_what_cannot_be_drawn_is_refused(release: rt.Release, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(rt.QueryError, match="one or two attributes"):
        release.answer(rt.count(rt.col("age") >= 40)).plot()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(rt.QueryError, match="pip install matplotlib"):
        release.answer(rt.marginal("age")).plot()


@pytest.mark.parametrize("budget", [rt.Budget(epsilon=1000), rt.Budget(epsilon=1000, delta=1e-9), rt.Budget(rho=1000)])
def test_a_budget_that_promises_nothing_is_still_reported(tmp_path: Path, budget: rt.Budget) -> None:
    with rt.Session.open(None, skewed(100), budget) as session:
        assert "e^" in session.report(tmp_path / "s.html").read_text()
        assert session.describe()["generalisation"]["expected_bias"] == 1


def test_a_fit_that_has_not_converged_is_said(release: rt.Release, release_page: str, tmp_path: Path) -> None:
    """Under a heading of its own sentence, with the reason; nothing of the kind on the page of one that has."""
    from dataclasses import replace

    assert release.notes["converged"] is (release.notes["fit"] == "converged")
    reason = "not converged: a measured cell is 9.9 standard deviations of its noise off"
    missed = replace(release, notes=release.notes | {"converged": False, "fit": reason})
    page = missed.report(tmp_path / "m.html").read_text(encoding="utf-8")
    assert f"did not converge ({reason})" in page
    reached = replace(release, notes=release.notes | {"converged": True, "fit": "converged"})
    assert "not the best fit" not in reached.report(tmp_path / "c.html").read_text(encoding="utf-8")


def test_whoever_is_the_unit_is_counted_everywhere(tmp_path: Path) -> None:
    import pyarrow as pa

    domain = rt.Domain(a=rt.Integer(3), b=rt.Integer(2))
    rows = pa.table({"who": [i // 2 for i in range(4000)], "a": [i % 3 for i in range(4000)], "b": [0, 1] * 2000})
    table = rt.Table.of(rows, domain, person="who", records=2000)
    with rt.Session.open(None, table, rt.Budget(rho=1), warm_start=0.5) as session:
        assert session.certificates
        assert session.typical
        pages = [session._repr_html_(), session.report(tmp_path / "s.html").read_text(encoding="utf-8")]
        release = session.release()
    pages += [release._repr_html_(), release.report(tmp_path / "r.html").read_text(encoding="utf-8")]
    for page in pages:
        assert re.search(r"\(about \d+ persons\)", page)
        assert re.search(r"\(about \d+ records\)", page) is None
        assert "much closer" not in page, "a typical error may be no smaller than a certified one"
    assert "Persons" in pages[-1]
    assert '<th scope="row">Records' not in pages[-1]


@pytest.mark.parametrize("label", ["Notaufnahme", "MMMWWW", "2023-01-01 to 2023-03-31", "(other)", "x" * 60])
def test_a_label_fits_into_its_place(label: str) -> None:
    """In the widest usual font; once "Notaufnahme" lost its first letter."""
    room = 190  # the widest
    chart = bars([label], np.array([0.5]), title="t")
    place, shown = re.search(r'<text x="(\d+)"[^>]* class="label">([^<]*)', chart).groups()  # type: ignore[union-attr]
    wide = sum(10.0 if letter in "MWN" else 7.4 if letter not in " -()[]ilftjr" else 4.4 for letter in shown)
    assert wide <= int(place) <= room
    assert shown == label or shown.endswith("…")


def test_a_typical_error_above_the_worst_is_not_told() -> None:
    from types import SimpleNamespace

    def bounds(*pairs: tuple[str, float]) -> list[Any]:
        return [SimpleNamespace(kind=kind, bound=bound) for kind, bound in pairs]

    certificates = bounds(("cells", 0.01), ("boxes", 0.17))
    assert worth_telling(bounds(("", 0.22)), certificates) == []
    smaller = bounds(("", 0.04))
    assert worth_telling(smaller, certificates) == smaller
    assert worth_telling(smaller, certificates[:1]) == smaller, "cells say nothing about ranges"
