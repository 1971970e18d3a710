"""The pages: what was spent, what is guaranteed, what was measured, how to use it and how not to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from reticent.algorithms.estimates import told
from reticent.kernel.accounting import Budget
from reticent.publications import budget_of
from reticent.report.charts import bars, gauge
from reticent.report.style import STYLE
from reticent.report.words import certificate_sentence, epsilon_rows, generalisation_sentence, privacy_rows, promise

if TYPE_CHECKING:
    from reticent.releases import Release
    from reticent.session import Session

CHARTS = 12
LONGEST_CHART = 24
SETS_SHOWN = 60
READING = (
    "Bars are the published shares. Whiskers show the noisy measurement, plus and minus two standard deviations of its"
    " noise: where bar and whisker disagree, the fit trusted other measurements more."
)
WHISKER = 2.0
"""Standard deviations of the noise that a whisker spans on each side."""


def release_page(release: Release) -> str:
    facts = release.facts
    budget = Budget.from_dict(facts["budget"])
    body = [
        _head(facts["name"], f"Published under differential privacy by Reticent {facts.get('reticent', '')}"),
        f'<p class="lead promise">{escape(promise(budget, facts["unit"], facts["neighbours"]))}</p>',
        "<h2>What is guaranteed</h2>",
        *(f"<p>{escape(certificate_sentence(c, facts['unit']))}</p>" for c in release.certificates),
        "" if release.certificates else "<p>No error bound was bought: answers carry no certificate.</p>",
        _rows([("Records", f"{release.records:,.0f}"), *privacy_rows(facts)]),
        f"<details><summary>How it was computed</summary>{_rows(_algorithm(release))}</details>",
        "<h2>What was measured, and what is published</h2>",
        f'<p class="soft">{READING}</p>',
        _charts(release),
        "<h2>Expected error by attribute set</h2>",
        _sets(release),
        "<h2>Using the synthetic rows</h2>",
        _advice(),
    ]
    return _page(facts["name"], body)


def session_page(session: Session) -> str:
    known = session.describe()
    budget, total = session.budget, budget_of(session.publications)
    spent = session.spent / (session.spent + session.remaining)
    body = [
        _head(known["table"], "Questions answered under one differential privacy budget"),
        f'<p class="lead promise">{escape(promise(total, known["unit"], known["neighbours"]))}</p>',
        "<h2>Budget</h2>",
        gauge(spent, f"{budget.unit} {session.spent:.4g} spent, {session.remaining:.4g} left"),
        "" if total.pure else _rows(epsilon_rows(known["guarantee"])),
        "<h2>What is certified</h2>",
        *(f"<p>{escape(certificate_sentence(c))}</p>" for c in session.certificates),
        "" if session.certificates else "<p>Nothing yet: answers without a wanted error carry no certificate.</p>",
        "<h2>Results that hold beyond this table</h2>",
        f"<p>{escape(generalisation_sentence(known['generalisation']))}</p>",
    ]
    return _page(known["table"], body)


def _page(title: str, body: Iterable[str]) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}: privacy report</title><style>{STYLE}</style></head><body><main>"
        + "\n".join(body)
        + "</main></body></html>\n"
    )


def _head(name: str, line: str) -> str:
    return f'<h1>{escape(name)}</h1><p class="soft">{escape(line)}</p>'


def _rows(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><th scope='row'>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _algorithm(release: Release) -> list[tuple[str, str]]:
    described = dict(release.facts.get("algorithm", {}))
    name = str(described.pop("algorithm", "")) or "unknown"
    notes = {key: value for key, value in release.notes.items() if isinstance(value, (str, int, float))}
    return [
        ("Algorithm", name),
        *((key.replace("_", " "), _plain(value)) for key, value in (described | notes).items()),
    ]


def _plain(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _charts(release: Release) -> str:
    """One chart for each attribute, with its own measurement where there is one."""
    measured = {m.query.attributes: m for m in told(release.domain, release.measurements)}
    parts = []
    for name in release.domain.names[:CHARTS]:
        attribute = release.domain[name]
        shares = release.hypothesis.marginal((name,))
        if attribute.size > LONGEST_CHART:
            parts.append(_histogram(name, shares))
            continue
        seen = measured.get(frozenset((name,)))
        values = None if seen is None else np.asarray(seen.values)
        chart = bars(
            attribute.labels, shares, values, None if seen is None else WHISKER * seen.sd, title=f"Shares of {name}"
        )
        parts.append(f"<figure><figcaption>{escape(name)}</figcaption>{chart}</figure>")
    more = len(release.domain) - CHARTS
    note = f'<p class="soft">{more} more attributes are in the release.</p>' if more > 0 else ""
    return f'<div class="charts">{"".join(parts)}</div>{note}'


def _histogram(name: str, shares: np.ndarray) -> str:
    """A long attribute as columns."""
    width, height = 560, 120
    step = width / len(shares)
    scale = (height - 6) / max(float(shares.max()), 1e-9)
    columns = "".join(
        f'<rect x="{i * step:.1f}" y="{height - float(share) * scale:.1f}" width="{max(step - 0.5, 0.5):.1f}"'
        f' height="{float(share) * scale:.1f}"/>'
        for i, share in enumerate(shares)
    )
    title = escape(f"Shares of {name}, {len(shares)} codes in order")
    svg = f'<svg role="img" aria-label="{title}" viewBox="0 0 {width} {height}" class="bars">{columns}</svg>'
    return f"<figure><figcaption>{title}</figcaption>{svg}</figure>"


def _sets(release: Release) -> str:
    """Estimated error and noise of each measured marginal, largest first."""
    estimates = release.expected_variation()
    noise = {release.domain.canonical(m.query.attributes): m.sd for m in told(release.domain, release.measurements)}
    rows = sorted(((v, names) for names, v in estimates.items()), reverse=True)
    if not rows:
        return "<p>No marginal was measured by itself; the certificate above is the statement to use.</p>"
    head = (
        "<tr><th>attribute set</th><th class='number'>cells</th><th class='number'>noise per cell (sd)</th>"
        "<th class='number'>estimated total variation</th></tr>"
    )
    body = "".join(
        f"<tr><td>{escape(' × '.join(names))}</td><td class='number'>{release.domain.cells(names):,}</td>"
        f"<td class='number'>{noise[names]:.5f}</td><td class='number'>{variation:.4f}</td></tr>"
        for variation, names in rows[:SETS_SHOWN]
    )
    note = f'<p class="soft">The {SETS_SHOWN} largest of {len(rows)} are shown.</p>' if len(rows) > SETS_SHOWN else ""
    lead = (
        "<p>Half the sum of all cells' errors, estimated from the noise that the fit could not average away."
        " An estimate, not a bound: the certificates above are the bounds.</p>"
    )
    return f'{lead}<div class="wide"><table>{head}{body}</table></div>{note}'


def _advice() -> str:
    return (
        "<ul><li>Use them for what the workload covers: counts, shares, tables and simple regressions on the attribute"
        " sets above.</li><li>Quote the certified error with every figure. A difference smaller than it is not a"
        " finding.</li><li>Ask the release itself where you can: its answers carry their bounds, rows add"
        " rounding.</li><li>Do not look for individuals: no synthetic row is a person, and a rare combination may be"
        " noise.</li><li>Do not use them for sets of attributes far beyond the workload, for tails of a few records, or"
        " to compute p-values as if they were a sample.</li></ul>"
    )
