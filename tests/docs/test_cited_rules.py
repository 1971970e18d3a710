"""`spec 4.3` in a comment leads somewhere: docs/spec.md states every rule that is cited."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts.site.paths import DOCS, ROOT

PAGE = DOCS / "spec.md"
FOLDERS = ("src", "docs", "benchmarks", "tests", "examples", "scripts")
NUMBER = r"\d+(?:\.\d+)?(?![\w])"
BOOKS = "online|release|answers"
CITED = re.compile(
    rf"\bspec (?P<book>{BOOKS})?(?:\.md)? ?(?P<numbers>{NUMBER}(?:(?:, | and |-){NUMBER})*)", re.IGNORECASE
)
STATED = re.compile(rf"^\| (?P<rule>(?:(?:{BOOKS}) )?[\d.]+) \|", re.MULTILINE)


def stated(text: str) -> set[str]:
    sections = re.findall(r"^## (\d+)\.", text, re.MULTILINE)
    return set(STATED.findall(text)) | set(sections)


def cited(text: str) -> list[str]:
    found = []
    for match in CITED.finditer(text):
        for number in re.findall(NUMBER, match["numbers"]):
            # The ladder of online 2 is numbered inside its row.
            rule = number.split(".")[0] if match["book"] else number
            found.append(f"{match['book'].lower()} {rule}" if match["book"] else rule)
    return found


def files() -> list[Path]:
    kinds = ("*.py", "*.md", "*.js", "*.toml")
    return [
        file for folder in FOLDERS for kind in kinds for file in sorted((ROOT / folder).rglob(kind)) if file != PAGE
    ]


def test_every_cited_rule_is_stated() -> None:
    known = stated(PAGE.read_text())
    unknown = {
        f"{file.relative_to(ROOT)}: spec {rule}"
        for file in files()
        if file != Path(__file__)
        for rule in cited(file.read_text())
        if rule not in known
    }
    assert unknown == set()


def test_citations_are_found_in_all_their_forms() -> None:
    text = "(spec 4.3, 6.1) spec 2 and 3.1; Spec online.md 2.3 (spec release.md 3-4), spec online 5. specific 7"
    assert cited(text) == ["4.3", "6.1", "2", "3.1", "online 2", "release 3", "release 4", "online 5"]


@pytest.mark.parametrize("missing", ["4.3", "online 5", "8.7"])
def test_a_rule_that_is_not_stated_would_be_noticed(missing: str) -> None:
    page = re.sub(rf"^\| {re.escape(missing)} \|.*$", "", PAGE.read_text(), flags=re.MULTILINE)
    assert missing not in stated(page)
    assert any(missing in cited(file.read_text()) for file in files())
