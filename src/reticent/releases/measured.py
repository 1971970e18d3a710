"""Fits to noisy measurements that were made elsewhere. This is post-processing: it costs nothing and states no
privacy.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.domain.attribute import shown
from reticent.domain.files import named_path, reading_file, shown_path
from reticent.errors import (
    QueryError,
    ReticentError,
    has_items,
    has_type,
    is_list,
    is_mapping,
    real_number,
    require,
    whole_number,
)
from reticent.hypotheses.base import FitReport, Hypothesis, Measurement
from reticent.hypotheses.choose import PUBLIC_SEED, TREE_CELLS, choose, with_room
from reticent.hypotheses.junction_tree.tree import check_rules
from reticent.hypotheses.memory import refuse_beyond
from reticent.knowledge.guarantees import Outcome
from reticent.queries.base import Linear
from reticent.queries.from_dict import query_from_dict
from reticent.queries.linear import Marginal
from reticent.queries.workload import Workload
from reticent.releases.release import Release

__all__ = ["fit", "read_measurements"]

COPIES = 3
"""Copies of the hypothesis held at once: its own, the start of a fit, the published one."""
MOST_RECORDS = 2**53
MOST_CELLS = 2**22
"""The largest number of cells of one measurement."""
LARGEST = 2.0**31
"""The largest share and the largest standard deviation of one: the sum of `MOST_CELLS` of them is at most 2^53, so that
one record more or less still changes it."""
SMALLEST = 2.0**-53
"""The smallest standard deviation: between a half and one, floating-point numbers are this far apart."""
FITTED = "fit"
"""Name of the algorithm among a release's facts."""
KEYS = {"query", "values", "sd"}


def fit(domain: Domain, measurements: Iterable[Measurement], *, records: int, name: str = "measurements") -> Release:
    """Fit a distribution to noisy measurements of a table that were made and paid for elsewhere.

    Nothing is measured, charged or certified here, and the release makes no statement about privacy. The privacy
    guarantee of the measurements extends to the release, because it is computed from them alone.

    Args:
        domain: The attributes of the table.
        measurements: One `rt.Measurement` for each linear query or marginal: noisy shares of the table, or for
            `rt.mean` a noisy mean in the column's own unit. The axes of a marginal's values come in the order in which
            it names its attributes. Each counts by its precision; where they contradict each other by more than noise
            explains, `notes["fit"]` of the release says so.
        records: Records of the table, for answers in records and as the default number of synthetic rows.
        name: What the release calls the table.

    Returns:
        A release whose answers carry no bound, with synthetic rows and models.

    Raises:
        DomainError: The rules of the domain together exclude every record.
        QueryError: A measurement has another shape than its query, names attributes that the domain lacks, or is
            outside the range of numbers that a fit takes.

    Example:
        >>> import reticent as rt
        >>> domain = rt.Domain(sex=2, smokes=2)
        >>> measured = [
        ...     rt.Measurement(rt.marginal("sex", "smokes"), [[0.31, 0.19], [0.4, 0.1]], sd=0.01),
        ...     rt.Measurement(rt.count(rt.col("smokes") == 1), 0.3, sd=0.001),
        ... ]
        >>> fitted = rt.fit(domain, measured, records=1000)

        The marginal says 0.29; the count is ten times as precise, and the fit follows it.

        >>> round(fitted.answer(rt.count(rt.col("smokes") == 1)).value, 3)
        0.3
        >>> fitted.notes["converged"]
        True
        >>> fitted.privacy
        'no privacy statement: fitted to measurements that were made elsewhere'
    """
    require(domain, Domain, "domain", "rt.Domain(age=rt.Integer(100))")
    require(name, str, "name", "a text")
    records = whole_number(records, "records", 1, MOST_RECORDS)
    known = tuple(_checked(entry, domain) for entry in _listed(measurements))
    if not known:
        raise QueryError("there are no measurements; give at least one rt.Measurement(query, values, sd=...)")
    asked = Workload([entry.query for entry in known if isinstance(entry.query, Linear | Marginal)], domain=domain)
    sets = Workload([Marginal(entry.query.attributes) for entry in known])
    choice = choose(domain, sets, tree_cells=TREE_CELLS)
    check_rules(domain)
    refuse_beyond(COPIES * choice.bytes, "the fit", "use fewer or coarser attributes")

    def learn(held: Hypothesis) -> FitReport:
        return held.fit(known)

    hypothesis, found, note = with_room(choice.build(np.random.default_rng(PUBLIC_SEED)), learn)
    notes: dict[str, Any] = {
        "representation": hypothesis.kind,
        "measured": len(known),
        "fit": found.message or "converged",
        "converged": found.converged,
    }
    facts = {
        "name": name,
        "unit": "record",
        "budget": None,
        "algorithm": {"algorithm": FITTED},
        "workload": asked.to_dict(),
        "python": platform.python_version(),
    }
    notes |= {"learning": [note]} if note else {}
    return Release.of(Outcome(hypothesis, known, (), float(records), notes), facts)


def read_measurements(path: str | Path) -> list[Measurement]:
    """Measurements of a JSON file: a list of objects with `query`, `values` and `sd`."""
    place = named_path(path, "measured.json")
    with reading_file(place):
        data = place.read_bytes()
    try:
        entries: Any = json.loads(data)
    except (ValueError, RecursionError):
        raise ReticentError(f"{shown_path(place)}: no JSON") from None
    try:
        if not is_list(entries):
            raise QueryError('give a list such as [{"query": {...}, "values": [...], "sd": 0.01}]')
        return [_from_dict(entry) for entry in entries]
    except QueryError as problem:
        raise QueryError(f"{shown_path(place)}: {problem}") from None


def _from_dict(entry: Any) -> Measurement:
    if not is_mapping(entry) or set(entry) != KEYS:
        raise QueryError('a measurement is an object with the keys "query", "values" and "sd"')
    query = query_from_dict(entry["query"])
    if not isinstance(query, Linear | Marginal):
        raise QueryError(f"{query.wording} is neither a linear query nor a marginal: measure its parts")
    return Measurement(query, entry["values"], real_number(entry["sd"], "sd", "a positive number"))


def _listed(measurements: Any) -> list[Any]:
    if has_type(measurements, (str, Mapping, Measurement)) or not has_items(measurements):
        raise QueryError("measurements must be a list of rt.Measurement(query, values, sd=...)")
    return list(measurements)


def _checked(entry: Any, domain: Domain) -> Measurement:
    """A measurement as shares, with its axes in the domain's order; a marginal's values come in the order of its own
    attributes, those of other queries in the unit of their answers.
    """
    require(entry, Measurement, "a measurement", 'rt.Measurement(rt.marginal("age"), shares, sd=0.01)')
    query = entry.query
    if not isinstance(query, Linear | Marginal):
        raise QueryError(f"a measurement of type {type(query).__name__}: give a linear query or a marginal")
    names = query.names if isinstance(query, Marginal) else ()
    canonical = domain.canonical(query.attributes)
    if domain.cells(canonical) > MOST_CELLS:
        raise QueryError(f"{query.wording} has {domain.cells(canonical)} cells; a fit takes up to {MOST_CELLS}")
    values = entry.values
    shape = tuple(domain[name].size for name in names)
    if values.shape != shape:
        raise QueryError(f"{query.wording} has values of shape {values.shape}; it needs {shape}")
    values, sd = _as_shares(query, domain, values, real_number(entry.sd, "sd", "a positive number"))
    ordered = values.transpose([names.index(name) for name in canonical]) if names else values
    return Measurement(Marginal(canonical) if names else query, ordered, sd, entry.noise)


def _as_shares(query: Linear | Marginal, domain: Domain, values: np.ndarray, sd: float) -> tuple[np.ndarray, float]:
    """Values and their noise in units of the query's range, as fits take them."""
    offset, scale = query.units(domain) if isinstance(query, Linear) else (0.0, 1.0)
    if scale == 0:
        raise QueryError(f"{query.wording} is {shown(offset)} on every table of this domain; leave its measurement out")
    low, high = SMALLEST * scale, LARGEST * scale
    if not low <= sd <= high:
        raise QueryError(
            f"{query.wording} has sd={sd:.3g}; a fit takes {low:.2g} to {high:.2g}: "
            + (f"for an exact value give sd={1e-9 * scale:.2g}" if sd < low else "leave this measurement out")
        )
    distance = np.abs(values - offset)
    if distance.size and float(distance.max()) > high:
        most = float(values.flat[int(distance.argmax())])
        remedy = "divide counts by the records" if (offset, scale) == (0.0, 1.0) else "give it in the column's unit"
        raise QueryError(f"{query.wording} has the value {most:.3g}; a fit takes at most {high:.2g}: {remedy}")
    return (values - offset) / scale, sd / scale
