"""The site builds without warnings, reaches every page, names every public name, and its drawings are current."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from scripts.site.__main__ import build
from scripts.site.drawings import DRAWINGS
from scripts.site.navigation import DOCS, ROOT, places
from scripts.site.rendering import Renderer, broken, slug

import reticent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    out = tmp_path_factory.mktemp("site")
    return out, build(out)


class Links(HTMLParser):
    """References and ids of one page, and whether its tags are balanced."""

    VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.remote: list[str] = []
        self.images: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if values.get("id"):
            self.ids.append(str(values["id"]))
        if tag == "a" and values.get("href"):
            self.targets.append(str(values["href"]))
        if tag in ("link", "script", "img"):
            loaded = values.get("href") or values.get("src") or ""
            self.remote += [loaded] if "//" in loaded else []
            self.images += [loaded] if tag == "img" else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open, f"</{tag}> closes nothing"
            assert self.open.pop() == tag


def read(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text())
    return links


def test_it_builds_without_warnings(site: tuple[Path, list[str]]) -> None:
    assert site[1] == []


def test_every_document_is_a_page(site: tuple[Path, list[str]]) -> None:
    sources = {place.source for place in places()}
    assert set(DOCS.rglob("*.md")) <= sources
    assert all((site[0] / place.target).exists() for place in places())


def test_links_tags_and_anchors_of_the_built_pages(site: tuple[Path, list[str]]) -> None:
    pages = {file.resolve(): read(file) for file in site[0].rglob("*.html")}
    for file, page in pages.items():
        assert page.open == [], f"{file.name}: unclosed {page.open}"
        assert page.remote == [], f"{file.name} loads {page.remote}"
        assert all((file.parent / image).exists() for image in page.images), f"{file.name}: an image is missing"
        assert len(set(page.ids)) == len(page.ids), f"{file.name}: an id occurs twice"
        for target in page.targets:
            if target.startswith(("https://", "mailto:")):
                continue
            path, _, anchor = target.partition("#")
            goal = (file.parent / path).resolve() if path else file
            assert goal in pages, f"{file.name}: {target}"
            assert not anchor or anchor in pages[goal].ids, f"{file.name}: {target}"


def test_every_public_name_is_in_the_reference(site: tuple[Path, list[str]]) -> None:
    reference = read(site[0] / "reference" / "api.html")
    assert {slug(f"rt.{name}") for name in reticent.__all__} <= set(reference.ids)


def test_every_command_is_in_the_reference(site: tuple[Path, list[str]]) -> None:
    from reticent.cli import COMMANDS

    commands = read(site[0] / "reference" / "commands.html")
    assert {f"reticent-{name}" for name in COMMANDS} <= set(commands.ids)


@pytest.mark.parametrize("draw", DRAWINGS, ids=lambda draw: draw.__name__)
def test_drawings_on_disk_are_those_of_the_script(draw) -> None:
    drawing = draw()
    assert (DOCS / "guide" / "figures" / f"{drawing.name}.svg").read_text() == drawing.svg(), "run `make docs`"


def test_a_dead_link_a_dead_anchor_and_a_missing_image_are_warned_of() -> None:
    source = DOCS / "guide" / "start.md"
    renderer = Renderer({source: "start.html"})
    page = renderer.page("# A\n[x](nowhere.md) [y](#b) ![z](none.svg)\n", source, "start.html")
    assert len(page.warnings) == 2
    assert broken({"start.html": page}) == ["start.html: link to start.html#b, which has no such heading"]


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
        beside = name.rsplit("/", 1)[-1]
        kernel = ROOT / "src" / "reticent" / "kernel" / beside  # a row may name a folder once and then its files
        assert (ROOT / name).exists() or (ROOT / "src" / "reticent" / name).exists() or kernel.exists(), name
