"""Reports: one self-contained HTML page, for a board member and for a statistician."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reticent.domain.files import write_file
from reticent.report.page import Cover, model_summary, release_page, release_summary, session_page, session_summary

if TYPE_CHECKING:
    from reticent.releases.release import Release
    from reticent.sessions.session import Session

__all__ = ["Cover", "model_summary", "release_summary", "session_summary", "write_release", "write_session"]


def write_release(release: Release, path: Path, cover: Cover, scores: Sequence[tuple[str, str]] = ()) -> Path:
    return write_file(path, release_page(release, cover, scores).encode())


def write_session(session: Session, path: Path) -> Path:
    return write_file(path, session_page(session).encode())
