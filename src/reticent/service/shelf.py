"""The shelf holds published releases: what the custodian made public, ready to download."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

from reticent.releases import Release
from reticent.service.problems import Problem

FILES = {
    "parquet": ("synthetic.parquet", "application/vnd.apache.parquet"),
    "csv": ("synthetic.csv", "text/csv; charset=utf-8"),
    "report": ("report.html", "text/html; charset=utf-8"),
    "release": ("release.reticent", "application/zip"),
}
MAX_ROWS = 1_000_000
_NAME = re.compile(r"r[0-9]{4,}")


class Shelf:
    """A folder beside the ledger, one subfolder per release; names come from the folder, never from a request."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def publish(self, release: Release, title: str, rows: int, by: str) -> dict[str, Any]:
        """Write every form of a release, then show it: a half-written one is never listed."""
        import pyarrow.csv
        import pyarrow.parquet

        self._folder.mkdir(mode=0o700, exist_ok=True)
        name = f"r{len(self.all()) + 1:04d}"
        draft = self._folder / f".{name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        synthetic = release.synthesize(rows)
        pyarrow.parquet.write_table(synthetic, draft / FILES["parquet"][0])
        pyarrow.csv.write_csv(synthetic, draft / FILES["csv"][0])
        release.report(draft / FILES["report"][0])
        release.save(draft / FILES["release"][0])
        facts = {"id": name, "title": title, "rows": rows, "by": by, "at": int(time.time()), "privacy": release.privacy}
        (draft / "facts.json").write_text(json.dumps(facts))
        draft.rename(self._folder / name)
        return facts | {"formats": list(FILES)}

    def all(self) -> list[dict[str, Any]]:
        """Newest first."""
        if not self._folder.is_dir():
            return []
        names = sorted((path.name for path in self._folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)
        return [
            json.loads((self._folder / name / "facts.json").read_text()) | {"formats": list(FILES)} for name in names
        ]

    def file(self, identity: str, form: str) -> tuple[Path, str]:
        """Path and media type of one download."""
        if form not in FILES or not any(facts["id"] == identity for facts in self.all()):
            raise Problem("not-found", "no such release, or no such format")
        name, media = FILES[form]
        return self._folder / identity / name, media
