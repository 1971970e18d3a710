"""Reports and notebook views: self-contained, escaped, with budget, certificates and everything that was measured."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.algorithms.estimates import told
from reticent.report.charts import bars, gauge
from reticent.report.style import STYLE

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
        assert f"at most {certificate.bound:.4f} of the table" in text
        assert f"probability {certificate.confidence:g}" in text


def test_the_page_lists_every_measured_set_and_charts_every_attribute(release: rt.Release, release_page: str) -> None:
    text = Page(release_page).text
    sets = {release.domain.canonical(m.query.attributes) for m in told(release.domain, release.measurements)}
    assert len(sets) == 3 + 3
    for names in sets:
        assert " × ".join(names) in text
    assert release_page.count("<figure>") == 3
    assert "Do not look for individuals" in text


def test_a_release_without_certificate_says_so(table: rt.Table, tmp_path: Path) -> None:
    bare = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=3), algorithm=rt.MWEM(rounds=2))
    text = check_self_contained(bare.report(tmp_path / "r.html").read_text(encoding="utf-8")).text
    assert "No error bound was bought" in text
    assert f"at most {np.exp(3):.3g} times as likely" in text


@pytest.fixture(scope="module")
def session(table: rt.Table) -> Any:
    from reticent.session import Session

    with Session.open(None, table, BUDGET) as opened:
        yield opened


def test_session_report(session: Any, tmp_path: Path) -> None:
    page = check_self_contained(session.report(tmp_path / "s.html").read_text(encoding="utf-8"))
    assert "Budget" in page.text
    assert f"{session.spent:.4g} spent" in page.text
    assert f"at most {session.certificates[-1].bound:.4f}" in page.text
    assert "chosen after seeing earlier answers" in page.text
    assert "{" not in page.text.replace(STYLE, ""), "a raw value on the page"
    assert NASTY in page.text


def test_charts() -> None:
    drawing = bars(["a" * 40, "b"], np.array([0.75, 0.25]), np.array([0.7, 0.3]), 0.05, title=NASTY)
    page = Page(drawing)
    assert page.tags.count("rect") == 2
    assert page.tags.count("path") == 2
    assert NASTY in page.text
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
    assert len(pair.axes[0].patches) == 8
    assert len(release.plot().axes) == 2, "code has too many values for bars"
    steps = session.plot().axes[0].lines[0].get_ydata()
    assert steps[-1] == pytest.approx(session.spent)
    for drawn in (figure, pair, session.plot()):
        drawn.canvas.draw()


def test_what_cannot_be_drawn_is_refused(release: rt.Release, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(rt.QueryError, match="too many for bars"):
        release.plot("code")
    with pytest.raises(rt.QueryError, match="one or two attributes"):
        release.answer(rt.count(rt.col("age") >= 40)).plot()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(rt.QueryError, match="pip install matplotlib"):
        release.answer(rt.marginal("age")).plot()
