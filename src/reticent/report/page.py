"""The pages of a report: spending, guarantees, measurements, and advice on using the synthetic rows.

The look of every page we write to a file: one sheet, light and dark, no network.

A few lines of HTML for notebooks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.domain.values import confidence_text, shown_bound, shown_number
from reticent.kernel.accounting import Budget
from reticent.knowledge.answer import ORIGINS, Answer
from reticent.knowledge.population import population_facts
from reticent.knowledge.publications import budget_of
from reticent.knowledge.request import USUAL_CONFIDENCE
from reticent.knowledge.typical import told
from reticent.queries.linear import Marginal
from reticent.report.charts import Whisker, bars, columns, gauge, heat, plus_minus
from reticent.report.words import (
    analysis_rows,
    certificate_sentence,
    epsilon_rows,
    fit_sentence,
    for_one_person,
    generalisation_sentence,
    guarantee_sentence,
    losses_sentence,
    privacy_rows,
    promise,
    rules_sentence,
    typical_sentence,
    worth_telling,
)

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.releases.models import Model
    from reticent.releases.release import Release
    from reticent.sessions.session import Session


CHARTS = 12
LONGEST_CHART = 24
SETS_SHOWN = 60
LONGEST_SIDE = 12
"""The largest number of codes on one side of a two-way chart."""
READING = (
    "Bars are the published shares, in percent of the table. Thin whiskers show the certified error: with the"
    " confidence stated above, all true values lie within their whiskers at once. Thick lines show the smaller error"
    " that holds for 19 of 20 such questions. Without a certificate, whiskers show the noisy measurement, plus and"
    " minus two standard deviations of its noise."
)
WHISKER = 2.0
"""Standard deviations of the noise that a whisker spans on each side."""


@dataclass(frozen=True)
class Cover:
    """The custodian's title, author, date and source of a report."""

    title: str | None = None
    author: str | None = None
    date: str | None = None
    source: str | None = None
    """The origin of the rows and their selection."""

    def rows(self) -> list[tuple[str, str]]:
        written = (("Author", self.author), ("Date", self.date), ("Source and selection", self.source))
        return [(name, text) for name, text in written if text]


COVER = Cover()
NO_STATEMENT = (
    "This page states no privacy guarantee of its own: its figures were computed only from noisy measurements made with"
    " another tool. The privacy guarantee of those measurements extends to this page."
)


def release_page(release: Release, cover: Cover = COVER, scores: Sequence[tuple[str, str]] = ()) -> str:
    """The page of a release with the custodian's cover; with true scores it is the custodian's copy."""
    facts = release.facts
    title = cover.title or facts["name"]
    published = f"Published under differential privacy by Reticent {facts.get('reticent', '')}"
    body = [
        _head(title, published if release.stated else "Fitted to noisy measurements made with another tool"),
        _custodians(scores),
        _rows(stated) if (stated := cover.rows()) else "",
        _statement(release),
        "<h2>What is guaranteed</h2>",
        *(f"<p>{escape(certificate_sentence(c, facts['unit']))}</p>" for c in release.certificates),
        *(f"<p>{escape(guarantee_sentence(g))}</p>" for g in release.guarantees),
        *(
            f"<p>{escape(typical_sentence(error, facts['unit']))}</p>"
            for error in worth_telling(release.typical, release.certificates)
        ),
        *(f"<p>{escape(losses_sentence(c, release.confidence))}</p>" for c in release.losses),
        ""
        if release.knowledge.certified or release.losses
        else f"<p>No error bound was bought{_why(release.notes)}: answers carry no certificate.</p>",
        f'<p class="warning">{escape(unfitted)}</p>' if (unfitted := fit_sentence(release.notes)) else "",
        _rules(release.domain),
        _rows([(_counted(facts["unit"]), f"{release.records:,.0f}"), *(privacy_rows(facts) if release.stated else ())]),
        f"<details><summary>How it was computed</summary>{_rows(_algorithm(release))}</details>",
        "<h2>What was measured, and what is published</h2>",
        f'<p class="soft">{READING}</p>',
        _charts(release),
        _two_way(release),
        _generalisation(release) if release.stated else "",
        "<h2>Expected error by attribute set</h2>",
        _sets(release),
        "<h2>Using the synthetic rows</h2>",
        _advice(),
    ]
    return _page(title, body)


def _statement(release: Release) -> str:
    """The privacy guarantee and its meaning for one person; a fit to others' measurements has none."""
    facts = release.facts
    if not release.stated:
        return f'<p class="lead promise">{escape(NO_STATEMENT)}</p>'
    budget = Budget.from_dict(facts["budget"])
    return (
        f'<p class="lead promise">{escape(promise(budget, facts["unit"], facts["neighbours"]))}</p>'
        "<h2>What this means for one person</h2>"
        f"<p>{escape(for_one_person(budget, facts['unit'], facts['neighbours']))}</p>"
    )


def _generalisation(release: Release) -> str:
    return (
        "<h2>From the table to the population</h2>"
        f"<p>{escape(generalisation_sentence(_population_facts(release)))}</p>{_populations(release)}"
    )


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
        *(f"<p>{escape(certificate_sentence(c, known['unit']))}</p>" for c in session.certificates),
        *(
            f"<p>{escape(typical_sentence(error, known['unit']))}</p>"
            for error in worth_telling(session.typical, session.certificates)
        ),
        _rules(session.domain),
        "" if session.certificates else "<p>Nothing yet: answers without a wanted error carry no certificate.</p>",
        "<h2>Results that hold beyond this table</h2>",
        f"<p>{escape(generalisation_sentence(known['generalisation']))}</p>",
    ]
    return _page(known["table"], body)


def _why(notes: Mapping[str, Any]) -> str:
    return f" ({why})" if (why := notes.get("uncertified")) else ""


def _rules(domain: Domain) -> str:
    """The impossible rules of a domain, as they were declared."""
    if not domain.impossible:
        return ""
    listed = "".join(f"<li><code>{escape(rule.text)}</code></li>" for rule in domain.impossible)
    return f"<p>{escape(rules_sentence(domain))}</p><ul>{listed}</ul>"


def _custodians(scores: Sequence[tuple[str, str]]) -> str:
    """Scores from the true rows, if there are any, under a warning."""
    if not scores:
        return ""
    note = (
        "Custodian's copy, not private: the scores below were computed from the true rows, without noise,"
        " and no budget covers them. Do not pass this copy on; the published report does not contain them."
    )
    return (
        f'<p class="lead warning"><strong>{escape(note)}</strong></p>'
        f"<h2>Scores against the true rows</h2>{_rows(list(scores))}"
    )


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
        *analysis_rows(release.notes),
    ]


def _plain(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _charts(release: Release) -> str:
    """One chart for each attribute, with what is certified of it; where nothing is, with its own measurement."""
    measured = {m.query.attributes: m for m in told(release.domain, release.measurements)}
    parts = []
    for name in release.domain.names[:CHARTS]:
        attribute = release.domain[name]
        answer = release.answer(Marginal((name,)))
        shares = np.asarray(answer.value)
        if attribute.size > LONGEST_CHART:
            bound = "" if answer.error is None else f", each ± {plus_minus(answer.error)} percentage points certified"
            caption = f"{name}: percent of the table, {attribute.size} codes in order{bound}"
            chart = columns(attribute.labels, shares, title=f"Shares of {name}")
        else:
            caption = f"{name}: percent of the table"
            seen = measured.get(frozenset((name,)))
            chart = bars(attribute.labels, shares, _whiskers(answer, shares, seen), title=f"Shares of {name}")
        parts.append(f"<figure><figcaption>{escape(caption)}</figcaption>{chart}</figure>")
    more = len(release.domain) - CHARTS
    note = f'<p class="soft">{more} more attributes are in the release.</p>' if more > 0 else ""
    return f'<div class="charts">{"".join(parts)}</div>{note}'


def _whiskers(answer: Answer, shares: np.ndarray, seen: Any) -> list[Whisker]:
    """The certificate and, where it says more, the typical error; without either the measurement's own noise."""
    if answer.error is None and answer.typical is None:
        return [] if seen is None else [Whisker("measured", np.asarray(seen.values), WHISKER * seen.sd)]
    found = [] if answer.error is None else [Whisker("certified", shares, answer.error)]
    if answer.typical is not None and (answer.error is None or answer.typical < answer.error):
        found.append(Whisker("typical", shares, answer.typical))
    return found


def _two_way(release: Release) -> str:
    """The short pair of attributes that the published distribution ties together most."""
    short = [name for name in release.domain.names[:CHARTS] if 2 <= release.domain[name].size <= LONGEST_SIDE]
    tied = [(_information(release.hypothesis.marginal(pair)), pair) for pair in combinations(short, 2)]
    if not tied:
        return ""
    _, (down, across) = max(tied)
    if release.domain[down].size < release.domain[across].size:
        down, across = across, down
    cells = release.hypothesis.marginal(release.domain.canonical((down, across)))
    if release.domain.canonical((down, across)) != (down, across):
        cells = cells.T
    chart = heat(
        release.domain[down].labels, release.domain[across].labels, cells, title=f"Shares of {down} by {across}"
    )
    error = release.answer(Marginal((down, across))).error
    bound = "" if error is None else f", each ± {plus_minus(error)} percentage points certified"
    caption = f"{down} (rows) by {across} (columns): percent of the table{bound}"
    scrolled = (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(f"{down} by {across}")}">{chart}</div>'
    )
    return f'<figure class="pair"><figcaption>{escape(caption)}</figcaption>{scrolled}</figure>'


def _information(cells: np.ndarray) -> float:
    """Mutual information of the two sides of a table."""
    expected = cells.sum(axis=1, keepdims=True) * cells.sum(axis=0, keepdims=True)
    inside = cells > 0
    return float(np.sum(cells[inside] * np.log(cells[inside] / expected[inside])))


def _population_facts(release: Release) -> dict[str, Any]:
    budget = Budget.from_dict(release.facts["budget"])
    return population_facts(
        budget,
        release.certificates,
        guarantees=release.guarantees,
        confidence=release.confidence,
        neighbours=release.facts["neighbours"],
    )


def _populations(release: Release) -> str:
    """For short attributes what is certified of the table beside what is estimated of the population."""
    if release.replicated is None:
        return '<p class="soft">Without replicates (release.replicates(80)) nothing is estimated of the population.</p>'
    head = (
        "<tr><th>share</th><th class='number'>published</th><th class='number'>table, certified</th>"
        "<th class='number'>population, estimated</th></tr>"
    )
    rows = []
    for name in [name for name in release.domain.names if release.domain[name].size <= LONGEST_CHART][:CHARTS]:
        answer = release.answer(Marginal((name,)))
        estimated = answer.population()
        table = "" if answer.error is None else f"± {answer.error:.2%}"
        ends = zip(
            np.atleast_1d(answer.value), np.atleast_1d(estimated.low), np.atleast_1d(estimated.high), strict=True
        )
        for label, (value, low, high) in zip(release.domain[name].labels, ends, strict=True):
            rows.append(
                f"<tr><td>{escape(name)} = {escape(label)}</td><td class='number'>{value:.2%}</td>"
                f"<td class='number'>{table}</td><td class='number'>{low:.2%} to {high:.2%}</td></tr>"
            )
    note = (
        f"Estimated from {release.replicated.count} replicates at {USUAL_CONFIDENCE:g}, each interval by itself; for a"
        " simple random sample, and too narrow for interactions much stronger than the fit expects."
    )
    return f'<p class="soft">{note}</p><div class="wide"><table>{head}{"".join(rows)}</table></div>'


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
        "<ul><li>Use them for the questions of the workload: counts, shares, tables and simple regressions on the"
        " attribute sets above.</li><li>Quote the certified error with every figure. A difference smaller than this"
        " error is not a finding.</li><li>Ask the release itself if you can: its answers have bounds, and rows add"
        " sampling error.</li><li>Do not look for individuals: no synthetic row is a person, and a rare combination may"
        " be noise.</li><li>Do not use them for sets of attributes far beyond the workload, for counts of a few"
        " records, or to compute p-values as if they were a sample.</li></ul>"
    )


STYLE = """
:root{--ink:#1c2530;--soft:#5a6773;--line:#dfe4e8;--paper:#fff;--tint:#f4f7f9;--accent:#1f5f8b;--mark:#b3541e}
@media (prefers-color-scheme:dark){:root{--ink:#e4e9ee;--soft:#9aa7b3;--line:#323c46;--paper:#14191e;--tint:#1b2229;
--accent:#6db3e2;--mark:#f0a06a}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:880px;margin:0 auto;padding:32px 20px 80px}h1{font-size:1.7rem;line-height:1.2;margin:.2em 0}
h2{font-size:1.2rem;margin:2.2em 0 .6em;padding-top:.6em;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.4em 0 .3em}
p,li{max-width:68ch}.lead{font-size:1.06rem}.soft{color:var(--soft)}
.warning{border-left:4px solid var(--mark);padding:14px 20px;background:var(--tint);border-radius:4px}
.promise{background:var(--tint);border-left:4px solid var(--accent);padding:14px 20px;border-radius:4px;margin:18px 0}
table{border-collapse:collapse;width:100%;font-size:.92rem;margin:.6em 0}th,td{text-align:left;padding:5px 10px 5px 0;
border-bottom:1px solid var(--line);vertical-align:top}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}
figure{margin:0 0 18px}.pair{max-width:640px}figcaption{font-size:.88rem;color:var(--soft);margin-bottom:4px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:10px 28px}
svg.bars{width:100%;height:auto}svg rect{fill:var(--accent)}svg .label{text-anchor:end;font-size:12px;fill:var(--ink)}
svg .middle{text-anchor:middle;font-size:11px;fill:var(--ink)}svg tspan.dark{fill:var(--paper)}
svg .value{text-anchor:end;font-size:12px;fill:var(--soft)}svg .start{font-size:11px;fill:var(--ink)}
svg .tick{text-anchor:middle;font-size:11px;fill:var(--soft)}svg .grid{stroke:var(--line);fill:none}
svg .whisker{stroke:var(--mark);stroke-width:1.6;fill:none}svg .typical{stroke-width:4.5}
svg .measured{stroke-dasharray:3 2}.pair svg.bars{min-width:560px}
.gauge{height:14px;background:var(--tint);border:1px solid var(--line);border-radius:7px;
overflow:hidden;max-width:420px}
.gauge span{display:block;height:100%;background:var(--accent)}.wide{overflow-x:auto}
details{margin:.8em 0}summary{cursor:pointer;color:var(--accent)}
@media print{.pair svg.bars{min-width:0}main{padding:0}h2{break-after:avoid}}
"""


def _counted(unit: str) -> str:
    """What the size of a table counts: of persons with several rows each has the weight one."""
    return "Persons" if unit == "person" else "Records"


def _typical(source: Release | Session, unit: str) -> list[str]:
    listed = worth_telling(source.typical, source.certificates)
    return [f"<p>{escape(typical_sentence(error, unit))}</p>" for error in listed]


def _stated(source: Release | Session, unit: str) -> list[str]:
    bounds = [certificate_sentence(certificate, unit) for certificate in source.certificates]
    return bounds + [typical_sentence(error, unit) for error in worth_telling(source.typical, source.certificates)]


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
        f"<tr><td>{escape(name)}</td><td style='text-align:right'>{shown_number(value)}</td></tr>"
        for name, value in model.coefficients.items()
    )
    kept = (
        "uncertified"
        if model.error is None or model.confidence is None
        else f"excess risk at most {shown_bound(model.error)} at {confidence_text(model.confidence)}"
    )
    if model.wanted is not None:
        kept += f"; at most {model.wanted:g} was wanted and not reached"
    origin = ORIGINS.get(model.origin, model.origin)
    of = "" if model.positive is None else f" of {model.positive}"
    return (
        f"<div><b>{escape(repr(model.loss) + of)}</b><table>{rows}</table>"
        f"<small>{escape(kept)}; {escape(origin)}; price {model.price:.3g}</small></div>"
    )
