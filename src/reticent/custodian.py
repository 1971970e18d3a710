"""The custodian's own views of a table: exact, not private, unreachable from sessions and services."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from reticent.domain import Domain
from reticent.sources import open_rows
from reticent.sources.fit import count_misfits

WARNING = "NOT PRIVATE: exact counts for the custodian only; never publish them"


@dataclass(frozen=True)
class Fit:
    """How many rows of one attribute are null, fit nowhere, or lie outside the edges."""

    attribute: str
    null: int
    unfit: int
    outside: int

    @property
    def fits(self) -> bool:
        return self.null == self.unfit == self.outside == 0


@dataclass(frozen=True)
class Check:
    """Exact counts of what did not fit a domain; its text says that it is not private."""

    rows: int
    units: int
    """Persons, or rows where records are the unit: what `records=` should declare."""
    nameless: int
    """Rows without a person; they weigh nothing."""
    attributes: tuple[Fit, ...]
    declared: int | None

    def __str__(self) -> str:
        lines = [WARNING, f"{self.rows} rows, {self.units} units of privacy"]
        if self.nameless:
            lines.append(f"{self.nameless} rows name no person and will weigh nothing")
        if self.declared is not None and self.declared != self.units:
            lines.append(f"records={self.declared} was declared but there are {self.units}: declare that number")
        width = max(len(fit.attribute) for fit in self.attributes)
        lines.append(f"{'attribute':<{max(width, 9)}} {'null':>12} {'fits nowhere':>12} {'outside':>12}")
        for fit in self.attributes:
            lines.append(f"{fit.attribute:<{max(width, 9)}} {fit.null:>12} {fit.unfit:>12} {fit.outside:>12}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `--json`, with the warning."""
        return {"warning": WARNING, **asdict(self)}


def check(
    rows: Any,
    domain: Domain,
    *,
    query: str | None = None,
    person: str | None = None,
    records: int | None = None,
) -> Check:
    """Count what does not fit the domain, in a file, a database or an object; for the custodian only."""
    engine = open_rows(rows, domain, query=query)
    try:
        found = count_misfits(engine, domain, person)
    finally:
        engine.close()
    fits = tuple(Fit(name, *counts) for name, counts in found.attributes.items())
    return Check(found.rows, found.persons, found.nameless, fits, records)
