"""From values to places along an axis, and where its ticks stand."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.shown import number

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high` laid over `start` to `end` of the picture."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float, *, log: bool, zero: bool = False) -> Scale:
        """A little more than the values need; `zero` is for bars: they begin at zero, or well below the least."""
        found = list(values)
        low, high = min(found), max(found)
        if log:
            room = 1.12 if high / low > 1.5 else 1.5
            return cls(low / (2.5 if zero else room), high * room, start, end, log)
        room = 0.06 * (high - low or abs(high) or 1.0)
        near = zero or 0 <= low < 0.35 * high
        return cls(0.0 if near and low >= 0 else low - room, high + room, start, end, log)

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        if not self.log:
            return [(value, _label(value)) for value in self._even()]
        decades = [10.0**k for k in range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)]
        if len(decades) > 1:
            decades = decades[:: 1 + len(decades) // 8]
            return [(value, _label(value)) for value in decades]
        exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        fine = [digit * 10.0**k for k in exponents for digit in (1, 2, 3, 5, 7)]
        held = [value for value in fine if self.low <= value <= self.high]
        return [(value, _label(value)) for value in held or self._even()]

    def _even(self) -> list[float]:
        """Four to eight steps of 1, 2 or 5 times a power of ten."""
        width = self.high - self.low
        raw = width / 5
        power = 10.0 ** math.floor(math.log10(raw))
        step = min((factor * power for factor in (1, 2, 5, 10)), key=lambda s: abs(math.log(s / raw)))
        first = math.ceil(self.low / step - 1e-9)
        return [float(f"{k * step:.12g}") for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _label(value: float) -> str:
    """Plain where that is short, else a power of ten."""
    if not value or 1e-3 <= abs(value) <= 99_999:
        return number(float(f"{value:.3g}"))
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    digits = f"{value / 10.0**exponent:.3g}"
    power = f"10{str(exponent).translate(SUPERSCRIPTS)}"
    return power if digits == "1" else f"{digits}·{power}"
