"""Files that users name: what the operating system refuses is one line, if possible before anything is spent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reticent.errors import ReticentError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around whatever writes to `path`."""
    try:
        yield
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise ReticentError(f"{path}: cannot be written ({reason}); choose another place") from None


def write_file(path: Path, data: bytes) -> Path:
    with writing(path):
        path.write_bytes(data)
    return path


def refuse_unwritable(path: Path) -> None:
    """Nothing is created: a later crash must not leave an empty file that looks like a result."""
    with writing(path):
        folder = path.resolve().parent
        if not folder.is_dir():
            raise ReticentError(f"{path}: the folder {folder} does not exist; create it first")
        if path.is_dir():
            raise ReticentError(f"{path}: is a folder; name a file in it")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise ReticentError(f"{path}: cannot be written (no permission); choose another place")
