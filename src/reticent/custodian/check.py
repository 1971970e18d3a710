"""`reticent check`: exact counts of values that do not fit a domain, for the custodian only."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from reticent.custodian.hints import hint_for
from reticent.custodian.misfits import count_misfits, count_violations, misfit_cells, misfit_texts
from reticent.domain import Attribute, Categorical, Domain, Numeric, Status, Undeclared
from reticent.domain.values import EXACT_FLOAT
from reticent.errors import QueryError, SourceError, given, whole_number
from reticent.sources import open_rows

WARNING = "NOT PRIVATE: exact counts for the custodian only; never publish them"
LIMIT = 0.25
"""Share of a column that may fit nowhere before the custodian's commands stop."""
EXAMPLES = 5

HINTED = 30
"""Different values that a hint looks at."""


@dataclass(frozen=True)
class Fit:
    """The numbers of rows of one attribute that are null, fit no code, or lie outside the edges."""

    attribute: str
    null: int
    unfit: int
    outside: int
    unplaced: int = 0
    """Rows without a declared value or bin of their own: they share the code of all that fits nowhere."""
    examples: tuple[str, ...] = ()
    """The commonest values that fit nowhere."""
    beyond: tuple[str, ...] = ()
    """The commonest values outside the edges."""
    hint: str | None = None
    """What the values that fit nowhere look like, and what to write into the domain."""

    @property
    def fits(self) -> bool:
        return self.null == self.unfit == self.outside == 0


@dataclass(frozen=True)
class Check:
    """Exact counts of values that do not fit a domain; its text says that it is not private."""

    rows: int
    units: int
    """Persons, or rows where records are the unit: what `records=` should declare."""
    nameless: int
    """Rows without a person; they weigh nothing."""
    attributes: tuple[Fit, ...]
    declared: int | None
    limit: float = LIMIT
    violations: tuple[tuple[str, int], ...] = ()
    """Each impossible rule of the domain, and the number of rows that satisfy it."""
    discovered: tuple[str, ...] = ()
    """Categories that may have been found privately: the rare ones are not among them."""

    @property
    def over(self) -> tuple[str, ...]:
        """Attributes in which more values than the limit fit no code."""
        return tuple(fit.attribute for fit in self.attributes if fit.unplaced > self.limit * self.rows)

    def refuse(self, remedy: str) -> None:
        """Raise SourceError if an attribute exceeds the limit; the message has no count and no value, because it may be
        logged.
        """
        for first in self.over[:1]:
            others = len(self.over) - 1
            more = f", and of {others} more {'column' if others == 1 else 'columns'}," if others else ""
            if first in self.discovered:
                remedy += "; private discovery leaves rare values in (other): accept them if that is all"
            raise SourceError(f"over {self.limit:.0%} of column {first!r}{more} does not fit the domain: {remedy}")

    def refuse_number(self, remedy: str) -> None:
        """Raise SourceError if the declared number of records differs from the counted one by more than the limit; the
        message does not state the counted number.
        """
        declared = self.declared or 0
        if declared > 0 and abs(self.units - declared) > self.limit * declared:
            raise SourceError(
                f"records={declared} differs by over {self.limit:.0%} from the number of records or persons of the"
                f" table, which every share refers to: {remedy}"
            )

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
        for fit in self.attributes:
            if fit.examples:
                hint = f" ({fit.hint})" if fit.hint else ""
                lines.append(f"{fit.attribute}: such as {', '.join(fit.examples)}{hint}")
            if fit.null and fit.attribute in self.over and fit.unplaced >= fit.null + fit.unfit:
                told = "rows without a value share the code of what fits nowhere: nullable = true gives them their own"
                lines.append(f"{fit.attribute}: {told}")
            if fit.beyond:
                lines.append(f"{fit.attribute}: outside its edges, such as {', '.join(fit.beyond)}")
        for rule, count in self.violations:
            remedy = (
                ": correct the rows or the rule, because synthetic rows will not have such records" if count else ""
            )
            lines.append(f"{count} rows satisfy {rule}, which is declared impossible{remedy}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `--json`, with the warning."""
        return {"warning": WARNING, **asdict(self), "over": list(self.over)}


def check(
    rows: Any,
    domain: Domain,
    *,
    query: str | None = None,
    person: str | None = None,
    records: int | None = None,
    limit: float = LIMIT,
    examples: int = EXAMPLES,
) -> Check:
    """Count the values of a file, a database or an object that do not fit the domain; for the custodian only.

    Args:
        rows: A file, a database URL with `query`, a data frame.
        domain: The declared domain.
        query, person, records: As for `Table.read`; `records` is compared with the counted number.
        limit: The share of a column that may fit no code.
        examples: The number of unfitting values of each column to show.

    Returns:
        Exact counts, examples and hints. They must not be published.
    """
    if not (isinstance(limit, (int, float)) and 0 <= limit <= 1):
        raise QueryError(f"limit={given(limit)} is a share of a column; it must lie between 0 and 1")
    examples = whole_number(examples, "examples", 0, 1000)
    engine = open_rows(rows, domain, query=query, person=person)
    try:
        found = count_misfits(engine, domain, person)
        violating = count_violations(engine, domain)
        fits = []
        for name, (null, unfit, outside) in found.attributes.items():

            def values(status: Status, most: int, name: str = name) -> list[Any]:
                texts = misfit_texts(engine, domain, name, most, status)
                return texts or misfit_cells(rows, domain, name, most, status)

            unread = values(Status.UNFIT, max(examples, HINTED)) if examples and unfit else []
            beyond = values(Status.OUTSIDE, examples) if examples and outside else []
            fits.append(
                Fit(
                    name,
                    null,
                    unfit,
                    outside,
                    _unplaced(domain[name], null, unfit, outside),
                    tuple(given(text) for text in unread[:examples]),
                    tuple(given(text) for text in beyond),
                    hint_for(domain[name], unread),
                )
            )
    finally:
        engine.close()
    violations = tuple((rule.text, count) for rule, count in zip(domain.impossible, violating, strict=True))
    texts = [name for name, each in domain.items() if isinstance(each, Categorical) and each.kind == "text"]
    discovered = tuple(texts) if domain.discovered else ()
    return Check(found.rows, found.persons, found.nameless, tuple(fits), records, limit, violations, discovered)


def readable_part(draft: Mapping[str, Attribute]) -> Domain | None:
    """The part of a draft that can be checked before discovery is paid: declared columns, and whether cells of
    undeclared columns can be read as numbers or dates. None if all columns are undeclared texts.
    """
    parts = {name: _widest(each) if isinstance(each, Undeclared) else each for name, each in draft.items()}
    known = {name: part for name, part in parts.items() if part is not None}
    return Domain(known) if known else None


def _widest(attribute: Undeclared) -> Attribute | None:
    ends: Mapping[str, tuple[Any, Any]] = {
        "number": (1 - EXACT_FLOAT, EXACT_FLOAT - 1),
        "date": (datetime.date.min, datetime.date.max),
        "datetime": (datetime.datetime.min, datetime.datetime.max.replace(microsecond=0)),
    }
    return attribute.found(ends[attribute.kind]) if attribute.kind in ends else None


def refuse_unreadable(
    rows: Any, draft: Mapping[str, Attribute], *, query: str | None = None, person: str | None = None
) -> None:
    """Raise SourceError if the rules of a draft cannot read the numbers or dates of an undeclared column, before
    payment.

    Missing values are no reason, because discovery ignores them.
    """
    columns = {name: each for name, each in draft.items() if isinstance(each, Undeclared)}
    if (domain := readable_part(columns)) is None:
        return
    found = check(rows, domain, query=query, person=person, examples=0)
    for fit in found.attributes:
        if fit.unfit > found.limit * found.rows:
            kind = {"number": "numbers", "date": "dates", "datetime": "times"}[columns[fit.attribute].kind]
            raise SourceError(
                f"over {found.limit:.0%} of column {fit.attribute!r} cannot be read as {kind}, and edges would be paid"
                " for all the same: see `reticent check`, add reading rules to the draft, or --accept-misfits"
            )


def refuse_misfits(
    rows: Any, domain: Domain, *, query: str | None = None, person: str | None = None, records: int | None = None
) -> None:
    """Raise SourceError if more of a column than the limit fits no code, or if the declared number of records is
    further off; called before a custodian's command spends.

    Sessions, releases and services never call it, because a refusal would reveal facts about rows to an analyst.
    """
    found = check(rows, domain, query=query, person=person, records=records, examples=0)
    found.refuse_number("see `reticent check --records`, declare that number, or continue with --accept-misfits")
    found.refuse("see `reticent check`, correct the domain or the rows, or continue with --accept-misfits")


def _unplaced(attribute: Attribute, null: int, unfit: int, outside: int) -> int:
    lost = unfit + (0 if attribute.nullable else null)
    return lost + (outside if isinstance(attribute, Numeric) and attribute.outside == "other" else 0)
