"""Random small structures and their brute-force enumeration, for tests of the factored hypothesis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RELATIVE = 1e-10
"""The contract of issue 3: relative error against dense enumeration."""


@dataclass
class Structure:
    """Attribute sizes, attribute sets by position, and one log factor for each set."""

    sizes: list[int]
    sets: list[tuple[int, ...]]
    factors: list[np.ndarray]

    @property
    def domain(self) -> dict[str, int]:
        return {f"a{i}": size for i, size in enumerate(self.sizes)}

    @property
    def named(self) -> list[tuple[str, ...]]:
        return [tuple(f"a{i}" for i in s) for s in self.sets]

    def spread(self, arrays: list[np.ndarray]) -> np.ndarray:
        """The sum of arrays over the sets, broadcast to the whole universe."""
        total = np.zeros(self.sizes)
        for positions, array in zip(self.sets, arrays, strict=True):
            total = total + array.reshape([s if i in positions else 1 for i, s in enumerate(self.sizes)])
        return total

    def enumerate(self) -> tuple[float, np.ndarray]:
        """log Z and the whole distribution."""
        logs = self.spread(self.factors)
        log_partition = float(logs.max() + np.log(np.exp(logs - logs.max()).sum()))
        return log_partition, np.exp(logs - log_partition)


def random_structure(generator: np.random.Generator, *, scale: float, distinct: bool = False) -> Structure:
    """Up to seven attributes of one to four values, up to eight sets of zero to three attributes."""
    count = int(generator.integers(1, 8))
    sizes = generator.integers(1, 5, count).tolist()
    sets = [
        tuple(sorted(generator.choice(count, int(generator.integers(0, min(count, 3) + 1)), replace=False).tolist()))
        for _ in range(int(generator.integers(0, 9)))
    ]
    if distinct:
        sets = list(dict.fromkeys(sets))
    return Structure(sizes, sets, [scale * generator.normal(size=[sizes[i] for i in s]) for s in sets])


def collapse(tensor: np.ndarray, positions: tuple[int, ...]) -> np.ndarray:
    """The marginal of a dense tensor."""
    return tensor.sum(axis=tuple(i for i in range(tensor.ndim) if i not in positions))


def assert_close(got: np.ndarray, expected: np.ndarray, *, floor: float = 1e-250) -> None:
    """Relative error below the contract wherever the expected number is not negligible."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    error = np.abs(got - expected) / np.maximum(np.abs(expected), floor)
    assert float(error.max(initial=0.0)) < RELATIVE
