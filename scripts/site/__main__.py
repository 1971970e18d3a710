"""`python -m scripts.site [--out site]`: builds the site; warnings are failures."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from scripts.site.drawings import draw_all
from scripts.site.navigation import DOCS, GENERATED, ROOT, places
from scripts.site.reference import api_page, commands_page
from scripts.site.rendering import Renderer, broken, entries
from scripts.site.template import SCRIPT, SHEET, framed


def build(out: Path) -> list[str]:
    """Writes every page; returns warnings."""
    every = places()
    targets = {place.source: place.target for place in every if place.source is not None}
    renderer = Renderer(targets)
    api, warnings = api_page()
    written = {GENERATED[0]: api, GENERATED[1]: commands_page()}
    pages = {}
    for place in every:
        text = written[place.target] if place.source is None else place.source.read_text()
        source = place.source or DOCS / place.target
        pages[place.target] = renderer.page(text, source, place.target)
        warnings += pages[place.target].warnings
    warnings += broken(pages)
    out.mkdir(parents=True, exist_ok=True)
    for place in every:
        file = out / place.target
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(framed(place, pages[place.target], every))
    for plot in {plot for page in pages.values() for plot in page.plots}:
        (out / "figures").mkdir(exist_ok=True)
        shutil.copy(plot, out / "figures")
    titles = {place.target: place.title for place in every}
    (out / "site.css").write_text(SHEET)
    (out / "site.js").write_text(SCRIPT)
    (out / "index.js").write_text(f"const INDEX = {json.dumps(entries(pages, titles))};\n")
    return warnings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "site")
    out: Path = parser.parse_args().out
    draw_all(DOCS / "guide" / "figures")
    if out.exists():
        if not (out / "site.css").exists():
            parser.error(f"{out} exists and is not a site of ours; name another folder")
        shutil.rmtree(out)
    warnings = build(out)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(f"{out}/index.html: {len(list(out.rglob('*.html')))} pages, {len(warnings)} warnings")
    return 1 if warnings else 0


if __name__ == "__main__":
    raise SystemExit(main())
