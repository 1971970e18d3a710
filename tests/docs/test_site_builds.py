"""The site builds without warnings, reaches every page, names every public name, and its drawings are current."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from latex2mathml.converter import convert
from scripts.site.__main__ import build
from scripts.site.drawings import DRAWINGS
from scripts.site.paths import DOCS, ROOT

import reticent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    assert build(out) == 0, "a page of docs/ has a dead link, a broken directive or no place in a table of contents"
    return out


class Page(HTMLParser):
    """Ids of one page, and what it loads from elsewhere."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.remote: list[str] = []
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids.add(str(values.get("id")))
        if tag in ("link", "script", "img"):
            loaded = values.get("href") or values.get("src") or ""
            self.remote += [loaded] if "//" in loaded else []


def test_every_document_is_a_page_that_loads_nothing_from_elsewhere(site: Path) -> None:
    for source in DOCS.rglob("*.md"):
        page = site / source.relative_to(DOCS).with_suffix(".html")
        assert page.exists(), source
        assert Page(page).remote == [], source


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    ids = Page(site / "reference" / "api.html").ids
    assert {f"reticent.{name}" for name in reticent.__all__} <= ids


def test_every_command_is_in_the_reference(site: Path) -> None:
    from reticent.cli import COMMANDS

    assert {f"reticent-{name}" for name in COMMANDS} <= Page(site / "reference" / "commands.html").ids


def test_formulas_are_shown_without_a_script() -> None:
    assert convert("x^2").startswith("<math")


@pytest.mark.parametrize("draw", DRAWINGS, ids=lambda draw: draw.__name__)
def test_drawings_on_disk_are_those_of_the_script(draw) -> None:
    drawing = draw()
    assert (DOCS / "guide" / "figures" / f"{drawing.name}.svg").read_text() == drawing.svg(), "run `make docs`"


def test_readme_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / "README.md").read_text()):
        assert target.startswith("https://") or (ROOT / target).exists(), target


PATHS = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|md|toml)|(?:[\w.-]+/)+)`")
WRITTEN_BY_READERS = {"census.toml", "site/", "server.toml"}


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((DOCS / "guide").glob("*.md")), DOCS / "architecture.md"])
def test_files_named_on_the_pages_exist(page: Path) -> None:
    for name in PATHS.findall(page.read_text()):
        if name in WRITTEN_BY_READERS or name.startswith("demo-output"):
            continue
        assert (ROOT / name).exists() or (ROOT / "src" / "reticent" / name).exists(), name
