"""An immutable hypothesis for reading: many threads, many questions, a few microseconds each."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from reticent.hypotheses.base import Hypothesis, average, form_of
from reticent.queries.forms import Dense, Product

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.queries.linear import Linear

__all__ = ["Snapshot"]

# A query over more cells than this is put to the hypothesis itself; the kept marginals stay below 128 MiB.
_SMALL = 1 << 18
_KEPT_CELLS = 1 << 24
# Lists of marginals that were computed together, each of up to _SMALL cells.
_KEPT_LISTS = 32


class Snapshot:
    """A copy that cannot be changed. Answers come from marginals, each computed once per attribute set."""

    def __init__(self, hypothesis: Hypothesis) -> None:
        self._hypothesis = hypothesis.copy()
        self._domain = hypothesis.domain
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, ...], np.ndarray] = OrderedDict()
        self._kept_cells = 0
        self._together: OrderedDict[tuple[tuple[str, ...], ...], list[np.ndarray]] = OrderedDict()
        self._digest: str | None = None
        self._uniform: dict[str, bool] = {}

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    def kind(self) -> str:
        """The representation: dense, factored, support or records."""
        return self._hypothesis.kind

    @property
    def log_size(self) -> float:
        return self._hypothesis.log_size

    @property
    def digest(self) -> str:
        """SHA-256 of the saved bytes; certificates refer to it."""
        if self._digest is None:
            self._digest = hashlib.sha256(self.to_bytes()).hexdigest()
        return self._digest

    def uniform(self, name: str) -> bool:
        """Whether all values of a column are equally likely, as before anything was learned about it."""
        if name not in self._uniform:
            shares = self.marginal((name,))
            self._uniform[name] = bool(np.allclose(shares, shares[0], rtol=1e-9, atol=0))
        return self._uniform[name]

    def expect(self, query: Linear | Product | Dense) -> float:
        form = query if isinstance(query, (Product, Dense)) else query.compile(self._domain)
        marginal = self._kept.get(form.attributes)
        if marginal is None:
            form_of(form, self._domain)  # refuses another order of attributes; nothing is kept under one
            if self._domain.cells(form.attributes) > _SMALL:
                with self._lock:
                    return self._hypothesis.expect(form)
            marginal = self._remember(form.attributes)
        return average(form, marginal)

    def marginal(self, attributes: Sequence[str]) -> np.ndarray:
        """Read-only, axes in domain order."""
        names = self._domain.canonical(attributes)
        marginal = self._kept.get(names)
        return self._remember(names) if marginal is None else marginal

    def marginals(self, sets: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Read-only marginals, computed together: to the bit a function of the list of sets, independent of earlier
        questions.

        Shared work rounds differently from `marginal`, so neither reuses the results of the other.
        """
        wanted = tuple(self._domain.canonical(names) for names in sets)
        with self._lock:
            found = self._together.get(wanted)
            if found is None:
                distinct = list(dict.fromkeys(wanted))
                fresh = dict(zip(distinct, self._hypothesis.marginals(distinct), strict=True))
                found = [fresh[names] for names in wanted]
                for marginal in found:
                    marginal.setflags(write=False)
                if sum(marginal.size for marginal in fresh.values()) <= _SMALL:
                    self._together[wanted] = found
                    while len(self._together) > _KEPT_LISTS:
                        self._together.popitem(last=False)
            return list(found)

    def sample(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        with self._lock:
            return self._hypothesis.sample(rows, generator)

    def thaw(self) -> Hypothesis:
        """An independent hypothesis that can be changed."""
        with self._lock:
            return self._hypothesis.copy()

    def to_bytes(self) -> bytes:
        with self._lock:
            return self._hypothesis.to_bytes()

    def _remember(self, names: tuple[str, ...]) -> np.ndarray:
        with self._lock:
            marginal = self._kept.get(names)
            if marginal is None:
                marginal = self._hypothesis.marginal(names)
                self._keep(names, marginal)
            return marginal

    def _keep(self, names: tuple[str, ...], marginal: np.ndarray) -> None:
        """Remove the oldest first; a concurrent lookup that misses only computes again."""
        marginal.setflags(write=False)
        if names in self._kept or marginal.size > _SMALL:
            return
        self._kept[names] = marginal
        self._kept_cells += marginal.size
        while self._kept_cells > _KEPT_CELLS:
            _, old = self._kept.popitem(last=False)
            self._kept_cells -= old.size
