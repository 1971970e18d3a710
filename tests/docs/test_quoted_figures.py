"""A figure on a page is the one that the last benchmark recorded, or the page is wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from scripts.site.paths import ROOT
from scripts.site.quoted import MARKER, Quoted, like, look_up, pages, quoted, recorded, requoted

PAGES = pages()
RESULTS = {
    "release": {
        "found": {
            "adult": [{"eps": 1.0, "tv": 0.02594}, {"eps": 5.0, "n": 1, "tv": 3}, {"eps": 5.0, "n": 2, "tv": 4}],
            "speed": {"s": 1234.0},
            "at most 2.5, [x]": 1.9,
        },
    },
    "online": {"failed": "x"},
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_quoted_figures_agree_with_the_last_benchmark(page: Path) -> None:
    results = recorded()
    problems = [problem for figure in quoted(page) if (problem := figure.disagreement(results))]
    assert problems == []


def figure(number: str, path: str = "release.adult[eps=1.0].tv", *, factor: int = 1) -> Quoted:
    return Quoted(ROOT / "README.md", 1, number, path, Decimal(factor))


@pytest.mark.parametrize(("number", "factor"), [("0.026", 1), (".0259", 1), ("2.6", 100), ("0.02594", 1), ("26", 1000)])
def test_rounding_to_the_digits_shown_is_agreement(number: str, factor: int) -> None:
    assert figure(number, factor=factor).disagreement(RESULTS) is None


@pytest.mark.parametrize("number", ["0.025", "0.0260", "2.6", "0.02595"])
def test_another_number_is_reported(number: str) -> None:
    assert "says 0.02594" in str(figure(number).disagreement(RESULTS))


@pytest.mark.parametrize(
    "path", ["nobody.x", "release.adult[eps=2.0].tv", "release.adult", "online.x", "release.adult[7].tv"]
)
def test_a_missing_key_is_reported(path: str) -> None:
    assert "no such figure" in str(figure("1", path).disagreement(RESULTS))


def test_thousands_places_and_names_with_dots() -> None:
    assert figure("1,234", "release.speed.s").disagreement(RESULTS) is None
    assert look_up(RESULTS, "release.adult[0].tv") == 0.02594
    assert look_up(RESULTS, "release.adult[eps=5.0,n=2].tv") == 4
    with pytest.raises(LookupError, match="2 entries"):
        look_up(RESULTS, "release.adult[eps=5.0].tv")
    assert look_up(RESULTS, 'release."at most 2.5, [x]"') == 1.9


def test_markers_are_found_on_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "| .026 <!-- figure: a.b --> | 3.1% of all <!-- figure: c[x=1].d --> | 2 ms <!-- figure: e * 1000 --> |\n"
        "`<!-- figure: not.one -->`\n"
    )
    found = [(q.number, int(q.factor), q.path) for q in quoted(page)]
    assert found == [(".026", 1, "a.b"), ("3.1", 100, "c[x=1].d"), ("2", 1000, "e")]
    page.write_text("no number <!-- figure: a.b -->\n")
    with pytest.raises(ValueError, match="needs a number"):
        quoted(page)


@pytest.mark.parametrize(
    ("number", "value", "anew"),
    [
        ("0.026", "0.031415", "0.031"),
        (".0259", "0.0031415", ".00314"),
        ("1.9", "2.0449", "2.0"),
        ("12", "9.63", "9.6"),
        ("3,287", "12345.6", "12,346"),
        ("0.9", "1.23", "1"),
        ("2,280", "982", "982"),
        ("5", "0", "0"),
        ("2.6", "0.04", "0.040"),
    ],
)
def test_a_figure_keeps_its_digits_when_it_is_written_anew(number: str, value: str, anew: str) -> None:
    assert like(number, Decimal(value)) == anew


def test_a_page_is_written_anew_where_figures_changed() -> None:
    page = "TV .031 <!-- figure: release.adult[eps=1.0].tv -->, unknown 7 <!-- figure: nobody.x -->\n"
    assert requoted(page, RESULTS) == page.replace(".031", ".026")


def test_a_wrong_figure_on_any_page_would_fail() -> None:
    """Every marked figure, changed in its last digit's place by two, disagrees."""
    results = recorded()
    for page in pages():
        for marked in quoted(page):
            step = Decimal(1).scaleb(Decimal(marked.number.replace(",", "")).as_tuple().exponent)  # type: ignore[arg-type]
            wrong = replace(marked, number=str(Decimal(marked.number.replace(",", "")) + 2 * step))
            assert wrong.disagreement(results) is not None


MEASURED = re.compile(
    r"(?<![\w.,])[\d,]*\.?\d+ ?(?:ms|µs|GiB|MiB|GB|MB|a second\b|times (?:faster|slower))"
    r"|(?<![\w/.])\.\d{2,}\b|\b\d+ of 500?\b"
)
"""What only a measurement can say: times, sizes, rates, errors written as decimals."""
SAID_ELSEWHERE = re.compile(r"<!-- not measured: [^>]+ -->")


def unmarked(text: str) -> list[str]:
    """Lines of prose and tables with such a figure and no marker; code and formulas aside."""
    found, fenced = [], False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        plain = re.sub(r"`[^`]*`", "", line)
        figures, markers = len(MEASURED.findall(re.sub(r"<!--.*?-->", "", plain))), len(MARKER.findall(plain))
        if not fenced and figures > markers and not SAID_ELSEWHERE.search(plain):
            found.append(line)
    return found


@pytest.mark.parametrize("page", [p for p in PAGES if "proofs" not in p.parts], ids=lambda page: page.name)
def test_no_page_quotes_a_measurement_without_its_marker(page: Path) -> None:
    assert unmarked(page.read_text()) == []


def test_an_unmarked_measurement_is_noticed() -> None:
    assert unmarked("it takes 3 ms\n`4 ms`\n```sh\n5 ms\n```\n| TV | .026 |\n") == ["it takes 3 ms", "| TV | .026 |"]
    assert unmarked("3 ms <!-- figure: a.b -->, but 4 ms") == ["3 ms <!-- figure: a.b -->, but 4 ms"]
    assert unmarked("a tick of 50 ms <!-- not measured: a setting -->") == []
