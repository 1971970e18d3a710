"""The comparison shows what was measured, and nothing else."""

from __future__ import annotations

from benchmarks import comparison_page
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
