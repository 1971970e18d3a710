"""The questions behind a statement: each measure in each class of groups is one query, a constant, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reticent.answer import Answer
from reticent.queries import Count, Groups, Marginal, Predicate, Query, Total, all_of
from reticent.queries.base import RECORDS_FAILURE
from reticent.queries.forms import Form
from reticent.queries.numbers import weighted_by
from reticent.sql.expressions import Measure
from reticent.sql.intervals import Interval
from reticent.sql.keys import Grouping, reachable


@dataclass(frozen=True, eq=False)
class Block:
    """One measure within one combination of classes: where `mask` is false the share is exactly zero."""

    query: Query | None
    mask: np.ndarray
    """Over the flattened cells of the group columns."""

    def shares(self, answers: Mapping[Query, Answer]) -> tuple[np.ndarray, np.ndarray]:
        """Values and errors; without a query the share is 1, by the domain alone."""
        if self.query is None:
            return self.mask.astype(float), np.zeros(self.mask.size)
        answer = answers[self.query]
        values = np.where(self.mask, np.ravel(answer.value), 0.0)
        error = answer.error if answer.certified and answer.error is not None else np.inf
        return values, np.where(self.mask, error, 0.0)


def blocks_of(measure: Measure, grouping: Grouping) -> list[Block]:
    """In the order of the grouping's combinations."""
    return [_block(measure, all_of((measure.where, chosen)), grouping) for chosen in grouping.combinations]


def _block(measure: Measure, where: Predicate, grouping: Grouping) -> Block:
    domain, columns = grouping.domain, grouping.columns
    form: Form = where.compile(domain)
    if measure.column is not None:
        form = weighted_by(form, measure.column, domain)
    mask = reachable(form, columns, domain).ravel()
    if not mask.any() or (not form.attributes and not columns):
        return Block(None, mask)
    if not columns:
        return Block(Count(where) if measure.column is None else Total(measure.column, where), mask)
    if measure.column is None and set(form.attributes) <= set(columns):
        # WHERE on grouped columns only leaves cells out: the whole marginal answers every such statement.
        return Block(Marginal(columns), mask)
    return Block(Groups(columns, where, measure.column), mask)


def queries_of(measures: Sequence[Sequence[Block]]) -> tuple[Query, ...]:
    """Each distinct query once, in the order of use."""
    return tuple(dict.fromkeys(block.query for blocks in measures for block in blocks if block.query is not None))


def share_interval(blocks: Sequence[Block], answers: Mapping[Query, Answer], rows: np.ndarray) -> Interval:
    """The measure in every group; a certified share is a fraction, so its bounds are cut to [0, 1]."""
    parts = [block.shares(answers) for block in blocks]
    values = np.concatenate([value for value, _ in parts])[rows]
    errors = np.concatenate([error for _, error in parts])[rows]
    bounded = np.isfinite(errors)
    low, high = values - errors, values + errors
    return Interval(
        values,
        np.where(bounded, np.clip(low, 0.0, 1.0), low),
        np.where(bounded, np.clip(high, 0.0, 1.0), high),
    )


def joint_confidence(answers: Sequence[Answer], records_error: float) -> float | None:
    """With which probability all stated bounds hold at once.

    Certificates hold together by construction (the j-th audit may fail half as often as the one before); everything
    else may fail on its own account, the released number of records included.
    """
    certified = [answer for answer in answers if answer.certified and answer.confidence is not None]
    if answers and not certified:
        return None
    together = [1 - answer.confidence for answer in certified if answer.origin == "certificate" and answer.confidence]
    alone = [1 - answer.confidence for answer in certified if answer.origin != "certificate" and answer.confidence]
    size = RECORDS_FAILURE if records_error > 0 else 0.0
    return max(0.0, 1.0 - max(together, default=0.0) - sum(alone) - size)
