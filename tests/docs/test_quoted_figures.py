"""A figure on a page is the one that the last benchmark recorded, or the page is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.site.navigation import DOCS, ROOT
from scripts.site.quoted import Quoted, look_up, quoted, recorded

PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
RESULTS = {
    "release": {"found": {"adult": [{"eps": 1.0, "tv": 0.02594}], "speed": {"s": 1234.0}}},
    "online": {"failed": "x"},
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_quoted_figures_agree_with_the_last_benchmark(page: Path) -> None:
    results = recorded()
    problems = [problem for figure in quoted(page) if (problem := figure.disagreement(results))]
    assert problems == []


def figure(number: str, path: str = "release.adult[eps=1.0].tv", *, percent: bool = False) -> Quoted:
    return Quoted(ROOT / "README.md", 1, number, percent, path)


@pytest.mark.parametrize(("number", "percent"), [("0.026", False), (".0259", False), ("2.6", True), ("0.02594", False)])
def test_rounding_to_the_digits_shown_is_agreement(number: str, percent: bool) -> None:
    assert figure(number, percent=percent).disagreement(RESULTS) is None


@pytest.mark.parametrize("number", ["0.025", "0.0260", "2.6", "0.02595"])
def test_another_number_is_reported(number: str) -> None:
    assert "says 0.02594" in str(figure(number).disagreement(RESULTS))


@pytest.mark.parametrize(
    "path", ["nobody.x", "release.adult[eps=2.0].tv", "release.adult", "online.x", "release.adult[7].tv"]
)
def test_a_missing_key_is_reported(path: str) -> None:
    assert "no such figure" in str(figure("1", path).disagreement(RESULTS))


def test_thousands_and_places() -> None:
    assert figure("1,234", "release.speed.s").disagreement(RESULTS) is None
    assert look_up(RESULTS, "release.adult[0].tv") == 0.02594


def test_markers_are_found_on_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "| .026 <!-- figure: a.b --> | 3.1% of all <!-- figure: c[x=1].d --> |\n`<!-- figure: not.one -->`\n"
    )
    assert [(q.number, q.percent, q.path) for q in quoted(page)] == [(".026", False, "a.b"), ("3.1", True, "c[x=1].d")]
    page.write_text("no number <!-- figure: a.b -->\n")
    with pytest.raises(ValueError, match="needs a number"):
        quoted(page)
