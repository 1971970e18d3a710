"""A few lines of HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from reticent.answer import ORIGINS
from reticent.report.charts import gauge
from reticent.report.words import certificate_sentence

if TYPE_CHECKING:
    from reticent.models import Model
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


def model_summary(model: Model) -> str:
    """Coefficients on the original scale, and what is known about their excess risk."""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td style='text-align:right'>{value:.5g}</td></tr>"
        for name, value in model.coefficients.items()
    )
    kept = "uncertified" if model.error is None else f"excess risk at most {model.error:.3g} at {model.confidence:.4g}"
    origin = ORIGINS.get(model.origin, model.origin)
    return (
        f"<div><b>{escape(repr(model.loss))}</b><table>{rows}</table>"
        f"<small>{escape(kept)}; {escape(origin)}; price {model.price:.3g}</small></div>"
    )
