"""`python -m scripts.site [--out site]`: draws the guide's pictures and builds the site; warnings are failures."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.site.drawings import draw_all
from scripts.site.paths import DOCS, ROOT


def build(out: Path) -> int:
    """Build every page into `out`, in a process of its own; 0 if there was nothing to warn of."""
    with tempfile.TemporaryDirectory() as doctrees:
        options = ["-b", "html", "-W", "--keep-going", "-q", "-d", doctrees]
        return subprocess.run([sys.executable, "-m", "sphinx", *options, DOCS, out], cwd=ROOT, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "site")
    out: Path = parser.parse_args().out
    draw_all(DOCS / "guide" / "figures")
    failed = build(out)
    print(f"{out}/index.html: {len(list(out.rglob('*.html')))} pages{', with warnings' if failed else ''}")
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
