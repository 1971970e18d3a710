"""Where compiled functions are kept: numba cannot even be imported beside code that it may not cache anywhere."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

PLACE = "NUMBA_CACHE_DIR"


def prepare(package: Path) -> None:
    """A private folder for this run where neither the package nor the user's cache can be written.

    An operator who sets NUMBA_CACHE_DIR to a folder of the service keeps compiled functions from start to start.
    Never a shared or guessable one: what lies there is loaded as code.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if PLACE in os.environ or os.access(package, os.W_OK) or _may_make(cache):
        return
    os.environ[PLACE] = folder = tempfile.mkdtemp(prefix="reticent-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


def _may_make(folder: Path) -> bool:
    """Whether it, or the nearest folder above it that exists, takes new files; a user may have no home at all."""
    if not folder.is_absolute():
        return False
    there = next((place for place in (folder, *folder.parents) if os.path.exists(place)), folder)
    return os.access(there, os.W_OK)
