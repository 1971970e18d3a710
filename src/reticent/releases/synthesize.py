"""Synthetic rows: codes from a hypothesis, decoded through the domain into an Arrow table.

Synthetic numbers are spread inside their bins so that each bin keeps its mean (spec answers 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow.compute import ReplaceSubstringOptions, call_function

from reticent.domain import OTHER_LABEL, Numeric
from reticent.errors import QueryError
from reticent.hypotheses.sampling import low_variance_rows

if TYPE_CHECKING:
    from reticent.domain import Attribute, Domain
    from reticent.hypotheses.base import Hypothesis
    from reticent.hypotheses.replicates import Replicates


__all__ = ["WEIGHT", "check_weight_names", "decode", "null_breaks_rule", "row_variances", "synthesize", "weighted_rows"]

WEIGHT = "repwt"
"""Prefix of the columns of replicate weights, followed by a number from 1, as in survey files."""
LEAST_EFFECTIVE = 1 / 3
"""The smallest effective share of the rows; below it the weights of a replicate are too uneven (spec
population.md 2).
"""


def synthesize(
    hypothesis: Hypothesis,
    rows: int,
    generator: np.random.Generator,
    *,
    sets: Sequence[Sequence[str]] | None = None,
    asked: Iterable[Sequence[str]] = (),
    means: Mapping[str, np.ndarray] | None = None,
    independent: bool = False,
) -> pa.Table:
    """Rows that keep the marginals of `sets` as close as whole rows allow.

    By default these are all sets of three attributes; if there are too many, smaller sets and the sets in `asked`.
    Numbers are spread inside their bins; `means` gives the mean of each bin, by attribute. Independent rows have
    sampling noise of their own; use them for procedures that assume independence.
    """
    if independent:
        codes = hypothesis.sample(rows, generator)
    else:
        codes = low_variance_rows(hypothesis, rows, generator, sets, asked)
    codes = np.asarray(codes).reshape(-1, len(hypothesis.domain))
    return decode(codes, hypothesis.domain, _spread(codes, hypothesis.domain, generator, means or {}, independent))


def weighted_rows(
    replicates: Replicates, rows: int, generator: np.random.Generator, *, independent: bool = False
) -> pa.Table:
    """Rows with one column of weights for each replicate: the density ratio times a random factor of mean one.

    The ratio carries a row from the published distribution to the replicate. The factor bootstraps the rows, so that
    their own sampling is part of the variance: Poisson(1) for independent rows. Systematic rows, the default, have less
    sampling variance (`row_variances`).
    """
    domain, base = replicates.domain, replicates.base
    check_weight_names(domain, replicates.count)
    codes = base.sample(rows, generator) if independent else replicates.systematic(rows, generator)
    ratios = replicates.ratios(codes)
    effective = effective_share(ratios)
    if effective < LEAST_EFFECTIVE:
        raise QueryError(
            f"the weights of the most uneven replicate are worth {effective:.0%} of the rows (effective sample size), "
            "less than a third: too few to represent the replicate; use answer.population or model.population of the "
            "release"
        )
    codes = np.asarray(codes).reshape(-1, len(domain))
    table = decode(codes, domain, _spread(codes, domain, generator, {}, independent))
    own = 1.0
    if not independent:
        own = row_variances(rows * replicates.shares(codes), _hidden_by_bins(base))
    for place in range(replicates.count):
        factor = 1 + np.sqrt(own) * (generator.poisson(1.0, rows) - 1.0)
        weights = ratios[:, place] * factor
        table = table.append_column(f"{WEIGHT}{place + 1}", pa.array(weights.astype(np.float32)))
    return table


def effective_share(ratios: np.ndarray) -> float:
    """The smallest effective number of rows of a replicate (Kish), as a share of the rows; 0 if all its weights vanish.

    Ratios reach the largest numbers, whose squares are infinite, so they are first divided by the largest of each
    replicate.
    """
    peaks = ratios.max(axis=0)
    if not (peaks > 0).all():
        return 0.0
    shares = ratios / peaks
    return float((shares.sum(axis=0) ** 2 / np.square(shares).sum(axis=0)).min()) / len(ratios)


def check_weight_names(domain: Domain, count: int) -> None:
    """Refuse a column that has the name of one of `count` replicate weights."""
    taken = {f"{WEIGHT}{number}" for number in range(1, count + 1)} & set(domain.names)
    if taken:
        raise QueryError(f"column {min(taken)} has the name of a replicate weight; rename it in the domain")


def row_variances(expected: np.ndarray, hidden: float = 0.0) -> np.ndarray:
    """The share of the sampling variance of independent rows that remains in systematic rows (proofs/population.md, 8).

    A cell with m expected rows has the whole number below or above m, hence variance f (1 - f) with f the fraction of
    m; independent rows have variance m. Numbers are drawn inside bins, so a share `hidden` of their variance stays that
    of independent rows.

    Args:
        expected: The expected number of rows in each row's cell.
        hidden: The share of a number's variance inside bins.
    """
    fraction = expected - np.floor(expected)
    left = fraction * (1 - fraction) / expected
    return left + (1 - left) * hidden


def _hidden_by_bins(hypothesis: Hypothesis) -> float:
    """The largest share of a numeric attribute's variance that lies inside its bins."""
    shares, domain = [0.0], hypothesis.domain
    for name, attribute in domain.items():
        if isinstance(attribute, Numeric) and attribute.radii.any():
            weights = hypothesis.marginal((name,))[: attribute.known]
            ends = np.array([attribute.bin(code) for code in range(attribute.known)], dtype=float)
            weights, middles = weights / max(weights.sum(), 1e-12), ends.mean(axis=1)
            inside = float(weights @ np.square(ends[:, 1] - ends[:, 0])) / 12
            between = float(weights @ np.square(middles - weights @ middles))
            shares.append(inside / (inside + between))
    return max(shares)


def _spread(
    codes: np.ndarray,
    domain: Domain,
    generator: np.random.Generator,
    means: Mapping[str, np.ndarray],
    independent: bool,
) -> dict[str, np.ndarray]:
    found = {}
    for place, (name, attribute) in enumerate(domain.items()):
        if isinstance(attribute, Numeric) and attribute.radii.any():
            column, known = codes[:, place], means.get(name)
            found[name] = drawn_numbers(attribute, column, generator, means=known, independent=independent)
    return found


def decode(codes: np.ndarray, domain: Domain, numbers: Mapping[str, np.ndarray] | None = None) -> pa.Table:
    """One column per attribute: categories, or the representative value of a bin; `(null)` becomes null.

    `(other)` becomes null too in a column that is not text, unless a rule forbids the null there (`null_breaks_rule`):
    such a column is written as text. `numbers` replaces the representatives of some numeric attributes by values as
    `Numeric.read` would give them.
    """
    codes, numbers = np.asarray(codes).reshape(-1, len(domain)), numbers or {}
    columns = []
    for place, (name, attribute) in enumerate(domain.items()):
        found = codes[:, place]
        if name in numbers:
            column = _numbers(attribute, numbers[name])
        else:
            column = _values(attribute).take(pa.array(found))
        if null_breaks_rule(domain, name):
            column = _texts(attribute, column, found)
        columns.append(column)
    return pa.table(columns, names=list(domain.names))


def null_breaks_rule(domain: Domain, name: str) -> bool:
    """Whether a row with `(other)` in this column is possible, but would break a rule if it were written as null."""
    null, other = domain[name].null_code, domain[name].other_code
    if null is None or other is None:
        return False
    for rule in domain.impossible:
        if name in rule.attributes:
            axis = rule.attributes.index(name)
            if (rule.cells.take(null, axis) & ~rule.cells.take(other, axis)).any():
                return True
    return False


def _texts(attribute: Attribute, column: pa.Array, codes: np.ndarray) -> pa.Array:
    """The column as text that the attribute reads as the same codes, with `(other)` in words."""
    if not pa.types.is_string(column.type):
        column = column.cast(pa.string())
        if attribute.rules is not None and attribute.rules.decimal != ".":
            marks = ReplaceSubstringOptions(".", attribute.rules.decimal)
            column = call_function("replace_substring", [column], marks)
    return call_function("if_else", [pa.array(codes == attribute.other_code), pa.scalar(OTHER_LABEL), column])


def _numbers(attribute: Attribute, numbers: np.ndarray) -> pa.Array:
    """Numbers typed like the representatives of the attribute; null if there is no number."""
    assert isinstance(attribute, Numeric), "only numbers lie in bins"
    missing = np.isnan(numbers)
    if not attribute.whole and attribute.kind == "number":
        return pa.array(numbers, pa.float64(), mask=missing)
    whole = np.where(missing, 0, numbers).astype(np.int64)
    if attribute.kind == "date":
        return pa.array(whole.astype(np.int32), mask=missing).cast(pa.date32())
    return pa.array(whole, pa.timestamp("us") if attribute.kind == "datetime" else pa.int64(), mask=missing)


def _values(attribute: Attribute) -> pa.Array:
    """The value of every code; `(other)` becomes null in a column that is not text."""
    values: list[Any] = [attribute.value(code) for code in range(attribute.size)]
    known = [value for code, value in enumerate(values) if code not in (attribute.null_code, attribute.other_code)]
    if all(isinstance(value, str) for value in known):
        return pa.array(values, pa.string())
    if attribute.other_code is not None:
        values[attribute.other_code] = None
    return pa.array(values)


STEEPEST = 600.0
"""The largest exponential tilt within a bin: its mean then lies 1/600 of the width from an end."""
_HALVINGS = 60


def drawn_numbers(
    attribute: Numeric,
    codes: np.ndarray,
    generator: np.random.Generator,
    *,
    means: np.ndarray | None = None,
    independent: bool = False,
) -> np.ndarray:
    """A number for each code, as `Numeric.read` would give it: whole for integers and dates, and inside the same bin.

    The numbers of a bin follow the density of largest entropy with the bin's mean, an exponential between its ends.
    Their mean equals that mean as far as numbers inside the bin allow; independent numbers have it only in expectation.
    Without `means` a bin's mean is its middle. Codes without a bin get NaN.
    """
    numbers = np.full(len(codes), np.nan)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(attribute.known + 1))
    for code in range(attribute.known):
        rows = order[starts[code] : starts[code + 1]]
        if len(rows):
            wanted = None if means is None else float(means[code])
            numbers[rows] = _bin(attribute, code, len(rows), wanted, generator, independent)
    return numbers


def _bin(
    attribute: Numeric, code: int, rows: int, mean: float | None, generator: np.random.Generator, independent: bool
) -> np.ndarray:
    low, high = attribute.bin(code)
    whole = attribute.whole or attribute.kind == "datetime"
    last = high if attribute.whole or code == attribute.known - 1 else _below(high, whole)
    if not last > low:
        return np.full(rows, low)
    # From the lower end, where floating point has digits to spare.
    length, mean = last - low, (high - low) / 2 if mean is None else min(max(mean, low), last) - low
    # A whole number stands for all that round to it.
    start, stop = (-0.5, length + 0.5) if whole else (0.0, high - low)
    places = generator.random(rows) if independent else (np.arange(rows) + generator.random(rows)) / rows
    found = start + (stop - start) * _tilted(places, (mean - start) / (stop - start))
    found = np.clip(found, 0.0, length)
    found = found if independent else _with_mean(found, mean, length)
    if whole:
        found = np.rint(found)
    if not independent:
        found = _summing_to(found, round(mean * rows), length, generator) if whole else found
        generator.shuffle(found)
    return np.minimum(low + found, last)


def _below(end: float, whole: bool) -> float:
    """The largest number of a bin whose upper end belongs to the next bin."""
    return end - 1 if whole else float(np.nextafter(end, -np.inf))


def _tilted(places: np.ndarray, mean: float) -> np.ndarray:
    """Quantiles of the exponential density on [0, 1] with this mean."""
    slope = _slope(mean)
    return places if slope == 0 else np.log1p(places * np.expm1(slope)) / slope


def _slope(mean: float) -> float:
    """The tilt that gives a mean: 1/(1 - exp(-t)) - 1/t grows from 0 to 1 with t."""
    low, high = -STEEPEST, STEEPEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        # Close to zero the formula loses all digits, and its series does not.
        reached = 0.5 + middle / 12 if abs(middle) < 1e-3 else -1 / np.expm1(-middle) - 1 / middle
        low, high = (middle, high) if reached < mean else (low, middle)
    return (low + high) / 2


def _with_mean(found: np.ndarray, mean: float, length: float) -> np.ndarray:
    """Numbers moved toward the end that corrects their mean; none leaves its bin."""
    reached = float(found.mean())
    if mean < reached:
        return found * (mean / reached)
    return length - (length - found) * ((length - mean) / (length - reached)) if mean > reached else found


def _summing_to(found: np.ndarray, total: int, length: float, generator: np.random.Generator) -> np.ndarray:
    """Whole numbers, some moved by one within the bin, so that they have the given sum."""
    missing = total - round(found.sum())
    while missing:
        sign = 1 if missing > 0 else -1
        moved = generator.permutation(np.flatnonzero(found < length if sign > 0 else found > 0))[: abs(missing)]
        if not len(moved):
            break
        found[moved] += sign
        missing -= sign * len(moved)
    return found
