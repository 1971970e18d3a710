"""Synthetic rows: codes from a hypothesis, decoded through the domain into an Arrow table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from reticent.hypotheses.rounding import low_variance_rows

if TYPE_CHECKING:
    from reticent.domain import Attribute, Domain
    from reticent.hypotheses.base import Hypothesis

__all__ = ["decode", "synthesize"]


def synthesize(
    hypothesis: Hypothesis,
    rows: int,
    generator: np.random.Generator,
    *,
    sets: Sequence[Sequence[str]] | None = None,
    asked: Iterable[Sequence[str]] = (),
    independent: bool = False,
) -> pa.Table:
    """Rows that keep the marginals of `sets` as near as whole rows can.

    Default: all sets of three attributes; where these are too many, smaller ones and those `asked` about.

    Independent rows instead carry sampling noise of their own; take them where a procedure assumes it.
    """
    if independent:
        codes = hypothesis.sample(rows, generator)
    else:
        codes = low_variance_rows(hypothesis, rows, generator, sets, asked)
    return decode(codes, hypothesis.domain)


def decode(codes: np.ndarray, domain: Domain) -> pa.Table:
    """One column per attribute: categories, or the representative value of a bin; `(null)` becomes null."""
    codes = np.asarray(codes).reshape(-1, len(domain))
    columns = [_values(domain[name]).take(pa.array(codes[:, place])) for place, name in enumerate(domain.names)]
    return pa.table(columns, names=list(domain.names))


def _values(attribute: Attribute) -> pa.Array:
    """The value of every code; `(other)` becomes null in a column that is not text."""
    values: list[Any] = [attribute.value(code) for code in range(attribute.size)]
    known = [value for code, value in enumerate(values) if code not in (attribute.null_code, attribute.other_code)]
    if all(isinstance(value, str) for value in known):
        return pa.array(values, pa.string())
    if attribute.other_code is not None:
        values[attribute.other_code] = None
    return pa.array(values)
