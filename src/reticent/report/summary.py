"""A few lines of HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from reticent.report.charts import gauge
from reticent.report.words import certificate_sentence

if TYPE_CHECKING:
    from reticent.releases import Release
    from reticent.session import Session


def release_summary(release: Release) -> str:
    bounds = "".join(f"<li>{escape(certificate_sentence(c))}</li>" for c in release.certificates)
    return f"<div><b>Release of {escape(release.facts['name'])}</b><br>{escape(release.privacy)}<ul>{bounds}</ul></div>"


def session_summary(session: Session) -> str:
    spent = session.spent / max(session.spent + session.remaining, 1e-300)
    caption = f"{session.budget.unit} {session.spent:.4g} spent, {session.remaining:.4g} left"
    bounds = "".join(f"<li>{escape(certificate_sentence(c))}</li>" for c in session.certificates)
    return f"<div><b>Session on {escape(session.name)}</b>{gauge(spent, caption)}<ul>{bounds}</ul></div>"
