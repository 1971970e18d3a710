"""Published releases: files that the custodian has made public, ready for download."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reticent.releases.release import Release
from reticent.service.http.problems import HttpProblem
from reticent.service.schemas import ReleaseFacts
from reticent.service.settings import RELEASE_NAME

FILES = {
    "parquet": ("synthetic.parquet", "application/vnd.apache.parquet"),
    "csv": ("synthetic.csv", "text/csv; charset=utf-8"),
    "report": ("report.html", "text/html; charset=utf-8"),
    "release": ("release.reticent", "application/zip"),
}
FACTS = "facts.json"
LAST = "last"
"""The highest number ever given, so that no number is given twice, also after a release was removed."""


class PublishedReleases:
    """A folder in the ledger's folder, one subfolder per release; names come from the folder, never from a request."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def publish(self, release: Release, title: str, rows: int, by: str) -> dict[str, Any]:
        """Write every form of a release, then list it: an incomplete release is never listed."""
        import pyarrow.csv
        import pyarrow.parquet

        self._folder.mkdir(mode=0o700, exist_ok=True)
        name = self._next_name()
        draft = self._folder / f".{name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            synthetic = release.synthesize(rows)
            pyarrow.parquet.write_table(synthetic, draft / FILES["parquet"][0])
            pyarrow.csv.write_csv(synthetic, draft / FILES["csv"][0])
            release.report(draft / FILES["report"][0])
            release.save(draft / FILES["release"][0])
            facts: dict[str, Any] = {"id": name, "title": title, "rows": rows, "by": by, "at": int(time.time())}
            facts["privacy"] = release.privacy
            _write(draft / FACTS, json.dumps(facts))
            draft.rename(self._folder / name)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        return facts | {"formats": list(FILES)}

    def all(self) -> list[dict[str, Any]]:
        """All releases, newest first; one with missing or damaged facts is left out."""
        found = [self._facts(name) for name in sorted(self._names(), key=_number, reverse=True)]
        return [facts for facts in found if facts is not None]

    def file(self, identity: str, form: str) -> tuple[Path, str]:
        """Path and media type of one download."""
        if form in FILES and identity in self._names() and self._facts(identity) is not None:
            name, media = FILES[form]
            path = self._folder / identity / name
            if path.is_file():
                return path, media
        raise HttpProblem("not-found", "no such release, or no such format")

    def _names(self) -> set[str]:
        """Names of all published releases, damaged or not."""
        if not self._folder.is_dir():
            return set()
        return {path.name for path in self._folder.iterdir() if re.fullmatch(RELEASE_NAME, path.name)}

    def _next_name(self) -> str:
        try:
            last = int((self._folder / LAST).read_text())
        except (OSError, ValueError):
            last = 0
        number = max([last, *map(_number, self._names())]) + 1
        _write(self._folder / LAST, str(number))
        return f"r{number:04d}"

    def _facts(self, name: str) -> dict[str, Any] | None:
        try:
            facts = json.loads((self._folder / name / FACTS).read_text())
            checked = ReleaseFacts.model_validate({**facts, "id": name, "formats": list(FILES)}, strict=True)
        except (OSError, ValueError, TypeError, RecursionError, ValidationError):
            return None
        return checked.model_dump()


def _number(name: str) -> int:
    return int(name[1:])


def _write(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
