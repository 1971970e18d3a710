"""`rt.discover`: finds the missing parts of a domain privately and charges a ledger for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from reticent.discovery.edges import edges_of, first_piece, line_for
from reticent.discovery.types import refuse_types
from reticent.domain import Attribute, Domain, Undeclared
from reticent.domain.domain import attribute_from_dict
from reticent.domain.draft import draft_from_dict, read_draft
from reticent.domain.files import named_path
from reticent.errors import BudgetError, DomainError, QueryError, require, whole_number
from reticent.kernel.accounting import NANO, Budget
from reticent.kernel.curator import Curator
from reticent.kernel.discovery.medians import MedianScores
from reticent.kernel.discovery.values import ValueCounts
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Exponential, Thresholded
from reticent.kernel.table import Neighbours
from reticent.progress.bars import Progress, Report, listening
from reticent.sources import Table, open_undeclared

EDGES = 7
MOST_LEVELS = 8
TAKEN = Fraction(1, 2)
"""Of delta, for thresholds where categories are wanted: a half costs a factor 2 inside a logarithm, on either side."""
KINDS = {"number", "date", "datetime", "text"}

Columns = Mapping[str, Attribute | str | Mapping[str, Any]] | str | Path


def discover(
    rows: Any,
    columns: Columns,
    budget: Budget,
    *,
    ledger: str | Path | Ledger,
    edges: int = EDGES,
    values: int = 1,
    query: str | None = None,
    person: str | None = None,
    records: int | None = None,
    neighbours: Neighbours = "replace-one",
    version: str | None = None,
    anchor: str | Path | None = None,
    progress: Report | bool = True,
) -> Domain:
    """Find undeclared edges and categories privately, spending `budget`, and return the complete domain.

    Numbers and dates get edges at their quantiles, by private medians. Texts get the values that enough records share.
    The budget is divided evenly among the undeclared columns. The ledger records the result: the same call again is
    free and gives the same domain. The domain records the price, and every session and release on it states the sum
    (docs/domain.md).

    Args:
        rows: A file, a database URL with `query`, or a data frame, as for `Table.read` and `Table.of`.
        columns: For each column a kind ("number", "date", "datetime", "text"), an `Undeclared` with reading rules and
            bounds, or a declared attribute, which is kept; or the file of a draft, as `reticent domain new` writes it.
        budget: The total that may be spent. Categories need a delta: half of it is set aside for their thresholds.
        ledger: The ledger of this budget; a new file, or that of the same call.
        edges: The number of edges to find: 1, 3, 7, 15, ...; there is one bin more.
        values: For persons with several rows: the number of distinct values of one column that count for each person.
        query, person, records, neighbours, version: As for `Table.read`. Sessions and releases on the domain must have
            the same unit and neighbours, so that prices add up.
        anchor: The file of the ledger's anchor; by default in the same folder.
        progress: Whether to show a progress bar on terminals and in notebooks; or a function that is called with each
            step.

    Returns:
        The domain. It omits text columns in which no value is common enough. Numbers and dates always get edges, drawn
        from the whole line or from between the bounds if no value can be read: only a noisy result may depend on that.

    Raises:
        DomainError: No column is undeclared, or nothing was found.
        SourceError: The type of a column shows that none of its values can be read as what it is declared to be.
        QueryError: The budget has no delta, which categories need.
        BudgetError: The ledger cannot pay.

    Example:
        >>> import os, tempfile
        >>> import pyarrow as pa, reticent as rt
        >>> rows = pa.table({"age": [21, 34, 48, 67] * 500, "sex": ["f", "m"] * 1000})
        >>> ledger = os.path.join(tempfile.mkdtemp(), "census.discovery")
        >>> columns = {"age": rt.Undeclared("number", whole=True, lower=0, upper=120), "sex": "text"}
        >>> domain = rt.discover(rows, columns, rt.Budget(epsilon=2, delta=1e-6), ledger=ledger)
        >>> sorted(domain["sex"].values)
        ['f', 'm']
        >>> domain["age"].bounds
        (0.0, 120.0)
    """
    require(budget, Budget, "budget", "rt.Budget(epsilon=0.1), or with delta where categories are wanted")
    require(ledger, str | Path | Ledger, "ledger", 'the name of a file, for example "census.discovery"')
    attributes = _attributes(columns)
    open_ones = {name: each for name, each in attributes.items() if isinstance(each, Undeclared)}
    if not open_ones:
        raise DomainError("every column is declared: nothing is left to discover")
    if person is not None and person in open_ones:
        raise DomainError(f"{person!r} names persons: leave it out of the domain")
    levels = _levels(edges)
    values = whole_number(values, "values", 1, 1000) if person is not None else 1
    budget = _with_thresholds(budget, any(each.kind == "text" for each in open_ones.values()))
    found: dict[str, Attribute] = dict(attributes)
    with (
        listening(progress) as report,
        open_undeclared(
            rows,
            Domain(open_ones),
            query=query,
            person=person,
            records=records,
            neighbours=neighbours,
            version=version,
            judge=None if _begun(ledger) else partial(refuse_types, rows, Domain(open_ones)),
        ) as table,
    ):
        opened = ledger if isinstance(ledger, Ledger) else _open(ledger, table, budget, anchor)
        try:
            own = budget.composed_like(opened.budget.noise)
            search = DiscoverySearch(Curator(table, opened), own, len(open_ones), levels, values)
            for done, (name, attribute) in enumerate(open_ones.items()):
                looked_for = f"values of {name}" if attribute.kind == "text" else f"edges of {name}"
                report(Progress(done, len(open_ones), looked_for, done / len(open_ones)))
                if (attribute_found := search.find(name, attribute)) is None:
                    del found[name]
                else:
                    found[name] = attribute_found
            paid = _paid(opened, table)
        finally:
            if opened is not ledger:
                opened.close()
    if not found:
        raise DomainError("no value of these columns is frequent enough to be shown: declare them, or give more budget")
    return Domain(found).with_discovered(paid)


class DiscoverySearch:
    """One run: the budget of each column, and the ledger keys of its steps."""

    def __init__(self, curator: Curator, budget: Budget, columns: int, levels: int, values: int) -> None:
        self._curator, self._budget, self._levels, self._values = curator, budget, levels, values
        self._units = budget.limit // columns
        self._delta = budget.approximate / columns
        if self._units < levels:
            needed, unit = columns * levels / NANO, budget.unit
            many = "1 column needs" if columns == 1 else f"{columns} columns need"
            raise BudgetError(
                f"{many} {unit} {needed:g} to discover, the budget has {budget.limit / NANO:g}: "
                f"{'raise it' if columns == 1 else 'raise it, or discover fewer columns'}",
                requested=needed,
                remaining=budget.limit / NANO,
            )

    def find(self, name: str, attribute: Undeclared) -> Attribute | None:
        return self._listed(name, attribute) if attribute.kind == "text" else self._binned(name, attribute)

    def _binned(self, name: str, attribute: Undeclared) -> Attribute:
        """Find edges by levels of medians: each level divides every piece of the preceding levels."""
        line = line_for(attribute)
        bounds = first_piece(line, attribute)
        for level, units in enumerate(self._shares()):
            scores = MedianScores(name, line, tuple(pairwise(bounds)), attribute.bounds)
            mechanism = Exponential(self._epsilon(units))
            key = f"discover:{name[:100]}:{self._levels}:{level}"
            settled = self._curator.select_medians(scores, mechanism, key=self._curator.successor(key)[0])
            bounds = sorted([*bounds, *settled.values[0].tolist()])
        return attribute.found(edges_of(line, bounds[1:-1], attribute))

    def _shares(self) -> Iterator[int]:
        """Nano-units of each level.

        An error of one level is halved by every later one, so the last level's error counts twice that of the one
        before it. The sum of errors a_l / e_l is least at shares of epsilon in proportion to the root of a_l; under
        zCDP, where e_l is the root of 8 rho_l, at shares of rho in proportion to a_l^(2/3).
        """
        power = 1 / 2 if self._budget.pure else 2 / 3
        weights = [2 ** (power * level) for level in range(self._levels)]
        return (math.floor(self._units * weight / sum(weights)) for weight in weights)

    def _epsilon(self, units: int) -> Fraction:
        amount = self._budget.amount_of_other_noise(max(units, 1))
        return amount if self._budget.pure else Exponential.costing(rho=amount).epsilon

    def _listed(self, name: str, attribute: Undeclared) -> Attribute | None:
        mechanism = Thresholded.costing(
            rho=Fraction(self._units, NANO),
            delta=self._delta,
            neighbours=self._curator.neighbours,
            most=self._values,
        )
        key = self._curator.successor(f"discover:{name[:100]}:values:{self._values}")[0]
        texts, counts = self._curator.select_values(ValueCounts(name, self._values), mechanism, key=key).values
        commonest = sorted(zip(counts.tolist(), texts.tolist(), strict=True), key=lambda pair: (-pair[0], pair[1]))
        return attribute.listing(text for _, text in commonest) if commonest else None


def _attributes(columns: Columns) -> dict[str, Attribute]:
    if isinstance(columns, (str, Path)):
        return read_draft(columns)
    require(columns, Mapping, "columns", '{"age": "number", "sex": "text"}, or the file of a draft')
    return {name: _attribute(name, given) for name, given in columns.items()}


def _attribute(name: str, given: Any) -> Attribute:
    if isinstance(given, Attribute):
        return given
    if isinstance(given, str):
        if given not in KINDS:
            raise DomainError(f"{name!r}: kind {given[:40]!r} is unknown; use {', '.join(sorted(KINDS))}")
        return Undeclared(given)  # pyright: ignore[reportArgumentType]
    return draft_from_dict({name: given})[name] if isinstance(given, Mapping) else attribute_from_dict(name, given)


def _levels(edges: object) -> int:
    levels = (whole_number(edges, "edges", 1) + 1).bit_length() - 1
    if levels > MOST_LEVELS or 2**levels - 1 != edges:
        listed = ", ".join(str(2**level - 1) for level in range(1, MOST_LEVELS + 1))
        raise QueryError(f"edges={edges} must be one of {listed}: medians of medians")
    return levels


def _with_thresholds(budget: Budget, wanted: bool) -> Budget:
    """The budget with half of delta set aside, if categories need it and the caller set nothing aside."""
    if not wanted or budget.approximate:
        return budget
    if budget.delta is None:
        kind = "pure" if budget.pure else "rho"
        raise QueryError(
            f"categories are found by a threshold, which needs a delta; a {kind} budget has none: give one"
        )
    return Budget(epsilon=budget.epsilon, delta=budget.delta, approximate=budget.delta * TAKEN)


def _begun(ledger: str | Path | Ledger) -> bool:
    """Whether an earlier call paid: it is repeated, whatever is refused today."""
    return ledger.spent > 0 if isinstance(ledger, Ledger) else named_path(ledger, "census.discovery").exists()


def _open(ledger: str | Path, table: Table, budget: Budget, anchor: str | Path | None) -> Ledger:
    path = named_path(ledger, "census.discovery")
    return Ledger.open(path, identity=table.identity, budget=budget, anchor=anchor)


def _paid(ledger: Ledger, table: Table) -> dict[str, Any]:
    """The record of a discovery's price in a domain."""
    return {
        "ledger": ledger.name,
        "budget": ledger.budget.to_dict(),
        "spent": ledger.spent,
        "neighbours": table.neighbours,
        "unit": table.unit,
    }
