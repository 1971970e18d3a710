"""AboveThreshold: free "no", one paid "yes" (spec 2.1; spec online 5)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import ClassVar, NoReturn

import numpy as np

from reticent.errors import QueryError
from reticent.kernel.accounting import LARGEST_BUDGET, Described, Price, Real, exact
from reticent.kernel.mechanisms.sampler_check import verify_samplers
from reticent.kernel.mechanisms.sampling import LARGEST_SCALE, discrete_laplace, geometric


@dataclass(frozen=True, init=False)
class AboveThreshold(Described):
    """Any number of questions "is this value above the threshold?", up to and including the first "yes".

    One-sided noise (both noises added, never subtracted) has half the spread at the same price.
    Guarantee of one epoch: pure e1 + e2, and zCDP (e1 + e2)^2 / 2.
    """

    proof: ClassVar[str] = "docs/proofs/above-threshold.md"
    threshold_epsilon: Fraction
    query_epsilon: Fraction
    one_sided: bool

    def __init__(self, *, threshold_epsilon: Real, query_epsilon: Real, one_sided: bool = False) -> None:
        object.__setattr__(self, "threshold_epsilon", exact(threshold_epsilon, "threshold_epsilon", LARGEST_BUDGET))
        object.__setattr__(self, "query_epsilon", exact(query_epsilon, "query_epsilon", LARGEST_BUDGET))
        object.__setattr__(self, "one_sided", bool(one_sided))

    def price(self) -> Price:
        """The price, charged completely when the epoch opens."""
        return Price.of_pure(self.threshold_epsilon + self.query_epsilon)

    def threshold_scale(self, sensitivity: int) -> Fraction:
        """s / e1, in the unit of s."""
        return index(sensitivity) / self.threshold_epsilon

    def query_scale(self, sensitivity: int) -> Fraction:
        """2 s / e2: the tested values are not monotone in the data, so the factor 2 stays (spec 2.1)."""
        return 2 * index(sensitivity) / self.query_epsilon

    def open(self, threshold: int, sensitivity: int) -> Watch:
        """A fresh epoch; threshold and sensitivity are integers in grid units."""
        if sensitivity < 1:
            raise QueryError(f"sensitivity is {sensitivity} grid units; it must be at least 1")
        scales = self.threshold_scale(sensitivity), self.query_scale(sensitivity)
        if max(scales) > LARGEST_SCALE:
            raise QueryError("the threshold noise exceeds 2^62 grid units; give the epoch more budget")
        verify_samplers()
        sampler = geometric if self.one_sided else discrete_laplace
        return Watch(threshold, scales[0], scales[1], sampler)


class Watch:
    """One running epoch; its noisy threshold is secret, in memory only, and is discarded at the first "yes"."""

    __slots__ = ("_lock", "_noisy_threshold", "_query_scale", "sampler")

    def __init__(
        self,
        threshold: int,
        threshold_scale: Fraction,
        query_scale: Fraction,
        sampler: Callable[[Fraction, int], np.ndarray],
    ) -> None:
        self._noisy_threshold: int | None = index(threshold) + int(sampler(threshold_scale, 1)[0])
        self._query_scale, self.sampler, self._lock = query_scale, sampler, threading.Lock()

    @property
    def spent(self) -> bool:
        return self._noisy_threshold is None

    def exceeds(self, value: int) -> bool:
        """Whether value + fresh noise >= the noisy threshold; True ends the epoch. The sum is never returned."""
        with self._lock:
            if self._noisy_threshold is None:
                raise QueryError('this epoch ended with its first "above"; open and pay for a new one')
            above = index(value) + int(self.sampler(self._query_scale, 1)[0]) >= self._noisy_threshold
            if above:
                self._noisy_threshold = None
            return above

    def __repr__(self) -> str:
        return f"<Watch {'spent' if self.spent else 'open'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a watch holds a secret threshold and cannot be copied, pickled or stored")
