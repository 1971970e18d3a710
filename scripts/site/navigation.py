"""What the site holds and in which order; pages nobody placed are listed under Reference by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

PLACED = {
    "Guide": (
        "guide/index.md",
        "guide/start.md",
        "guide/how-it-works.md",
        "guide/custodians.md",
        "guide/analysts.md",
        "guide/auditors.md",
        "guide/recipes.md",
        "guide/limits.md",
    ),
    "Background": (
        "validation.md",
        "comparison.md",
        "theory.md",
        "spec.md",
        "architecture.md",
        "threat-model.md",
        "notation.md",
    ),
}
GENERATED = ("reference/api.html", "reference/commands.html")


@dataclass(frozen=True)
class Place:
    """One page: where it comes from, where it goes, what the menu calls it."""

    section: str
    source: Path | None
    target: str
    title: str


def places() -> list[Place]:
    """Every page of the site in reading order."""
    placed = [(section, DOCS / name) for section, names in PLACED.items() for name in names if (DOCS / name).exists()]
    known = {path for _, path in placed}
    others = [path for path in sorted(DOCS.glob("*.md")) if path not in known]
    proofs = sorted((DOCS / "proofs").glob("*.md"))
    found = [Place(section, path, target(path), title(path)) for section, path in placed]
    found += [
        Place("Reference", None, GENERATED[0], "Python API"),
        Place("Reference", None, GENERATED[1], "Command options"),
    ]
    found += [Place("Reference", path, target(path), title(path)) for path in others]
    return found + [Place("Proofs", path, target(path), title(path)) for path in proofs]


def target(source: Path) -> str:
    """guide/start.md becomes start.html at the top; other folders stay."""
    name = source.relative_to(DOCS).with_suffix(".html").as_posix()
    return name.removeprefix("guide/")


def title(source: Path) -> str:
    """The first heading."""
    for line in source.read_text().splitlines():
        if line.startswith("# "):
            return line.removeprefix("# ").strip()
    return source.stem
