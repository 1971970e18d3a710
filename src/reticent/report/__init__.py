"""A report is one self-contained HTML page: readable by a board member, checkable by a statistician."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reticent.report.page import release_page, session_page
from reticent.report.summary import model_summary, release_summary, session_summary

if TYPE_CHECKING:
    from reticent.releases import Release
    from reticent.session import Session

__all__ = ["model_summary", "release_summary", "session_summary", "write_release", "write_session"]


def write_release(release: Release, path: Path) -> Path:
    path.write_text(release_page(release), encoding="utf-8")
    return path


def write_session(session: Session, path: Path) -> Path:
    path.write_text(session_page(session), encoding="utf-8")
    return path
