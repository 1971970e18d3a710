"""The comparison shows what was measured, and nothing else."""

from __future__ import annotations

import re

from benchmarks import comparison_page
from benchmarks.fresh import TIMED, TIMED_WARM, WARM
from scripts.site.quoted import recorded

TEMPLATE = """# T

| peer | TV |
|---|---|
| here | .01 <!-- figure: pgm.cases[peer=here].tv --> |
| absent | .02 <!-- figure: pgm.cases[peer=absent].tv --> |

| other | s |
|---|---|
| absent | 3 <!-- figure: smartnoise.seconds --> |

After.
"""


def test_the_page_on_disk_is_current() -> None:
    page = comparison_page.render(comparison_page.TEMPLATE.read_text(), recorded())
    assert comparison_page.DOCUMENT.read_text() == page, "run `python -m benchmarks --render`"


def test_rows_without_a_record_stay_out_and_empty_tables_say_so() -> None:
    page = comparison_page.render(TEMPLATE, {"pgm": {"found": {"cases": [{"peer": "here", "tv": 0.0213}]}}})
    assert "| here | .02 <!-- figure: pgm.cases[peer=here].tv --> |" in page
    assert "absent" not in page
    assert page.count("|---|---|") == 1
    assert comparison_page.UNMEASURED in page
    assert page.endswith("After.\n")


GAVE_UP = {"peer": "here", "mine": 0.02, "skipped": "did not finish in 900 s | no memory"}
TRIED = """| peer | its | ours | its seconds |
|---|---|---|---|
| me | .1 <!-- figure: pgm.cases[0].tv --> | .1 <!-- figure: pgm.cases[0].mine --> | 1 <!-- figure: pgm.cases[0].s --> |
| chosen | <!-- word: pgm.cases[0].skipped --> | | |
"""


def test_a_peer_that_gave_up_is_shown_with_its_reason() -> None:
    page = comparison_page.render(TRIED, {"pgm": {"found": {"cases": [GAVE_UP]}}}).splitlines()
    ours = ".02 <!-- figure: pgm.cases[0].mine -->"
    assert page[2] == f"| me | did not finish in 900 s / no memory | {ours} | \u2013 |"
    assert page[3].startswith("| chosen | did not finish in 900 s")


def test_seconds_say_how_they_were_taken() -> None:
    text = comparison_page.TIMING
    for case, said in (({"our seconds": 1}, TIMED_WARM), ({"our seconds": 1, WARM: 2}, TIMED)):
        assert comparison_page.render(text, {"pgm": {"found": {"cases": [case]}}}) == said


def test_the_template_states_no_number_of_its_own() -> None:
    numbers = re.findall(r"([\d.,]+)%? <!-- figure", comparison_page.TEMPLATE.read_text())
    assert {number for number in numbers if not set(number) <= set("01.,")} == set()
