"""A report is one self-contained HTML page: readable by a board member, checkable by a statistician."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reticent.files import write_file
from reticent.report.page import release_page, session_page
from reticent.report.summary import model_summary, release_summary, session_summary

if TYPE_CHECKING:
    from reticent.releases import Release
    from reticent.session import Session

__all__ = ["model_summary", "release_summary", "session_summary", "write_release", "write_session"]


def write_release(release: Release, path: Path) -> Path:
    return write_file(path, release_page(release).encode())


def write_session(session: Session, path: Path) -> Path:
    return write_file(path, session_page(session).encode())
