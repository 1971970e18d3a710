"""docs/validation.md is what the recorded results say: current, complete, readable, and honest about misses."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks import render
from benchmarks.__main__ import RESULTS, SUITES
from benchmarks.drawing import svg
from benchmarks.plainly import shown
from benchmarks.scales import Scale
from benchmarks.shown import Claim, Grid, Plot, Shown

FILE_NAMES = re.compile(r"`[^`]*`|\]\([^)]*\)|adult_\w+")


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return render.ordered(json.loads((RESULTS / "full.json").read_text()), SUITES)[0]


@pytest.fixture(scope="module")
def sections(record: dict[str, Any]) -> dict[str, list[Shown]]:
    return {name: render.presented(name, entry["found"]) for name, entry in record.items() if "found" in entry}


def missing(record: dict[str, Any]) -> list[str]:
    return [title for name, title in SUITES.items() if name not in record]


def test_the_page_on_disk_is_current(record: dict[str, Any], sections: dict[str, list[Shown]]) -> None:
    assert render.DOCUMENT.read_text() == render.render(record, sections, missing(record)), (
        "run `python -m benchmarks --render`"
    )


def test_the_plots_on_disk_are_current(sections: dict[str, list[Shown]]) -> None:
    drawn = {
        render.file_name(suite, part): svg(part)
        for suite, parts in sections.items()
        for part in parts
        if isinstance(part, Plot)
    }
    assert {file.name: file.read_text() for file in render.FIGURES.glob("*.svg")} == drawn


def test_no_recorded_suite_failed_or_is_of_an_earlier_form(
    record: dict[str, Any], sections: dict[str, list[Shown]]
) -> None:
    assert {name: entry["failed"] for name, entry in record.items() if "failed" in entry} == {}
    assert [name for name, parts in sections.items() if render.OUTDATED in parts] == []


def test_a_suite_that_was_not_recorded_is_named_at_the_top(record: dict[str, Any]) -> None:
    told = render.DOCUMENT.read_text().partition("\n## ")[0]
    assert [title for title in missing(record) if title not in told] == []
    assert "**Not recorded yet:** A; B." in render.render({}, {}, ["A", "B"])


def test_a_record_that_its_suite_no_longer_understands_is_told() -> None:
    assert render.presented("rates", {"other": 1}) == [render.OUTDATED]


def test_suites_with_claims_have_plots_and_plots_say_what_was_expected(sections: dict[str, list[Shown]]) -> None:
    for suite, parts in sections.items():
        plots = [part for part in parts if isinstance(part, Plot)]
        assert plots or not any(isinstance(part, Claim) for part in parts), suite
        assert [plot.name for plot in plots if not plot.expected] == [], suite


def test_no_name_of_the_program_is_left_on_the_page() -> None:
    text = FILE_NAMES.sub("", render.DOCUMENT.read_text())
    assert re.findall(r"\b[a-z]+_[a-z_0-9]+\b", text) == []


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (Claim("x", 2.0, at_most=2.0), "met"),
        (Claim("x", 2.1, at_most=2.0), "**missed by 5.0%**"),
        (Claim("x", 9.0, at_most=2.0, unit="s"), "**missed by 7 s**"),
        (Claim("x", 5.0, at_least=5.0), "met"),
        (Claim("x", 4.5, at_least=5.0), "**missed by 10.0%**"),
        (Claim("x", -0.45, expected=-0.5, within=0.1), "met"),
        (Claim("x", -0.35, expected=-0.5, within=0.1), "**missed by 0.05**"),
    ],
)
def test_a_verdict_says_by_how_much(claim: Claim, verdict: str) -> None:
    assert claim.verdict == verdict
    assert claim.met == (verdict == "met")


@pytest.mark.parametrize("marks", [{}, {"at_most": 1, "at_least": 1}, {"expected": 1.0}, {"within": 1.0, "at_most": 2}])
def test_a_claim_has_one_mark(marks: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give one of"):
        Claim("x", 1.0, **marks)


def test_a_missed_mark_is_told_at_the_top() -> None:
    record = {"a": {"title": "A suite", "at": "2026-01-01 00:00 UTC", "seconds": 1.0, "found": {}}}
    page = render.render(record, {"a": [Claim("speed", 3.0, at_least=4.0, unit="GB/s"), Claim("size", 1, at_most=2)]})
    assert "| [A suite](#a-suite) | 1 of 2 | 2026-01-01 |" in page
    assert "- A suite: speed: 3 GB/s, mark at least 4 GB/s, **missed by 25.0%**" in page.partition("## A suite")[0]


def test_a_failed_suite_is_told() -> None:
    page = render.render({"a": {"title": "A", "at": "2026-01-01 00:00", "seconds": 0.0, "failed": "OSError: full"}}, {})
    assert "**This run failed:** OSError: full" in page
    assert "| failed |" in page


def test_names_become_words_units_and_claims() -> None:
    parts = shown({"met": True, "ratios": {"slow over fast (10^6 rows, at most 1.5)": 1.2}, "times": {"peak_gib": 0.5}})
    assert parts[0] == Claim("slow over fast (10^6 rows)", 1.2, at_most=1.5)
    assert parts[1] == Grid("times", {"": "", " ": ""}, [{"": "peak", " ": "0.5 GiB"}])
    with pytest.raises(ValueError, match="names no mark"):
        shown({"ratios": {"a over b": 1.0}})


LINE = {"name": "n", "title": "t & u", "x": "x", "y": "y"}


@pytest.mark.parametrize(
    "plot",
    [
        Plot(**LINE, series={"a": [(1, 2), (10, 3)], "b": [(1, 5, 4, 6)]}, lines={"l": [(1, 1), (9, 9)]}, log="xy"),
        Plot(**LINE, series={"a": [(0, 0)]}, marks={"mark": 1.0}),
        Plot(**LINE, series={"a": [("one", 2), ("two", 3, 2, 4)]}, marks={"mark": 2.5}),
        Plot(**LINE, series={"a": [("one", 2), ("two", 3000)]}, log="y"),
    ],
    ids=["logarithmic", "one point", "bars", "logarithmic bars"],
)
def test_plots_are_well_formed_and_stay_inside_their_frame(plot: Plot) -> None:
    root = ElementTree.fromstring(svg(plot))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for element in root.iter():
        for name, most in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y1", height), ("y2", height)):
            assert 0 <= float(element.attrib.get(name, 0)) <= most, ElementTree.tostring(element)
    assert svg(plot) == svg(plot)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"series": {}}, "needs points"),
        ({"series": {"a": [(0, 1)]}, "log": "x"}, "cannot be drawn"),
        ({"series": {"a": [(1, float("nan"))]}}, "cannot be drawn"),
        ({"series": {"a": [(1, 2, 3)]}}, "a point is"),
        ({"series": {"a": [(1, 2)]}, "log": "z"}, "log is"),
    ],
)
def test_a_plot_that_cannot_be_drawn_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Plot(**LINE, **changed)


@pytest.mark.parametrize(
    ("low", "high", "log"), [(0, 7, False), (-3, 2e-4, False), (1e-4, 3e5, True), (0.4, 0.6, True)]
)
def test_ticks_lie_on_the_axis_and_places_are_ordered(low: float, high: float, log: bool) -> None:
    scale = Scale.over([low, high], 10.0, 200.0, log=log)
    ticks = [value for value, _ in scale.ticks()]
    assert len(ticks) >= 2
    assert ticks == sorted(set(ticks))
    assert all(9.99 <= scale(value) <= 200.01 for value in ticks)
    assert 10.0 <= scale(low) < scale(high) <= 200.0
