"""A few lines of HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from reticent.knowledge.answer import ORIGINS
from reticent.report.charts import gauge
from reticent.report.words import certificate_sentence, guarantee_sentence, losses_sentence, typical_sentence

if TYPE_CHECKING:
    from reticent.releases.models import Model
    from reticent.releases.release import Release
    from reticent.sessions.session import Session


def _stated(source: Release | Session, unit: str) -> list[str]:
    bounds = [certificate_sentence(certificate, unit) for certificate in source.certificates]
    return bounds + [typical_sentence(error, unit) for error in source.typical]


def release_summary(release: Release) -> str:
    sentences = [*_stated(release, release.knowledge.unit), *map(guarantee_sentence, release.guarantees)]
    sentences += [losses_sentence(certificate, release.confidence) for certificate in release.losses]
    bounds = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<div><b>Release of {escape(release.facts['name'])}</b><br>{escape(release.privacy)}<ul>{bounds}</ul></div>"


def session_summary(session: Session) -> str:
    spent = session.spent / max(session.spent + session.remaining, 1e-300)
    caption = f"{session.budget.unit} {session.spent:.4g} spent, {session.remaining:.4g} left"
    bounds = "".join(f"<li>{escape(sentence)}</li>" for sentence in _stated(session, session.state.knowledge.unit))
    return f"<div><b>Session on {escape(session.name)}</b>{gauge(spent, caption)}<ul>{bounds}</ul></div>"


def model_summary(model: Model) -> str:
    """Coefficients on the original scale, and what is known about their excess risk."""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td style='text-align:right'>{value:.5g}</td></tr>"
        for name, value in model.coefficients.items()
    )
    kept = "uncertified" if model.error is None else f"excess risk at most {model.error:.3g} at {model.confidence:.4g}"
    if model.wanted is not None:
        kept += f"; at most {model.wanted:g} was wanted and not reached"
    origin = ORIGINS.get(model.origin, model.origin)
    of = "" if model.positive is None else f" of {model.positive}"
    return (
        f"<div><b>{escape(repr(model.loss) + of)}</b><table>{rows}</table>"
        f"<small>{escape(kept)}; {escape(origin)}; price {model.price:.3g}</small></div>"
    )
