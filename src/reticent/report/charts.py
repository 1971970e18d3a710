"""Charts as plain SVG text: bars for released values, whiskers for certified and typical errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np

WIDTH, ROW, VALUE = 440, 22, 100
"""Of a chart, which is shown about as wide as it is drawn: two beside each other on a desk, one on a phone."""
PAIR = 560
"""Width of a two-way picture."""
TICKS = 18
"""Height of the line of numbers under a chart."""
NARROWEST, WIDEST = 70, 190
"""Of the place for labels."""
DARK = 0.74
"""Share of the largest above which letters are white: there black and white are read equally well on the blue."""
LETTER, SLIM, BROAD = 7.4, 4.4, 10.0
"""Widths of letters of the labels' size in the widest of the usual fonts: most, thin ones, and broad ones."""
_THIN, _WIDE = frozenset("iljtfrI.,:;'|!()[] -"), frozenset("mwMWGOQNHUDAVÄÖÜ—…%@")


@dataclass(frozen=True)
class Whisker:
    """A line of `half` to both sides of each middle: what is certified, what is typical, what noise was measured."""

    kind: Literal["certified", "typical", "measured"]
    middle: np.ndarray
    half: float


def bars(labels: Sequence[str], released: np.ndarray, whiskers: Sequence[Whisker] = (), *, title: str) -> str:
    """Horizontal bars of shares on a scale from 0, with whiskers; values carry the certified error."""
    left = _room(labels)
    reach = [float(np.max(whisker.middle)) + whisker.half for whisker in whiskers]
    top = min(1.0, max(float(np.max(released)), *reach, 1e-9)) if reach else max(float(np.max(released)), 1e-9)
    scale = (WIDTH - left - VALUE) / top
    body = ROW * len(labels) + 4
    certified = next((whisker.half for whisker in whiskers if whisker.kind == "certified"), None)
    parts = [*_opened(title, body + TICKS), _scale(top, left, scale, body)]
    for i, (label, share) in enumerate(zip(labels, released, strict=True)):
        y = i * ROW + 4
        parts.append(
            f'<text x="{left - 8}" y="{y + 13}" class="label">{_named(label, left)}</text>'
            f'<rect x="{left}" y="{y + 2}" width="{max(0.5, float(share) * scale):.1f}" height="{ROW - 8}" rx="2"/>'
        )
        middle = y + (ROW - 4) / 2
        for whisker in whiskers:
            ends = (float(whisker.middle[i]) + sign * whisker.half for sign in (-1, 1))
            low, high = (left + min(top, max(0.0, end)) * scale for end in ends)
            caps = (
                (f"M{low:.1f} {middle - 4}v8", f"M{high:.1f} {middle - 4}v8") if whisker.kind != "typical" else ("", "")
            )
            parts.append(f'<path class="whisker {whisker.kind}" d="{caps[0]}M{low:.1f} {middle}H{high:.1f}{caps[1]}"/>')
        parts.append(f'<text x="{WIDTH - 4}" y="{y + 13}" class="value">{_value(float(share), certified)}</text>')
    return "".join([*parts, "</svg>"])


def columns(labels: Sequence[str], released: np.ndarray, *, title: str) -> str:
    """A long attribute as columns in order, with a scale and the labels at both ends."""
    left, height = 52, 120
    top = max(float(np.max(released)), 1e-9)
    step, scale = (WIDTH - left) / len(labels), (height - 6) / top
    parts = _opened(title, height + TICKS)
    for tick in _ticks(top):
        y = height - tick * scale
        parts.append(
            f'<path class="grid" d="M{left} {y:.1f}H{WIDTH}"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" class="value">{_tick(tick)}</text>'
        )
    for i, share in enumerate(released.tolist()):
        parts.append(
            f'<rect x="{left + i * step:.1f}" y="{height - share * scale:.1f}" width="{max(step - 0.5, 0.5):.1f}"'
            f' height="{share * scale:.1f}"/>'
        )
    parts.append(f'<text x="{left}" y="{height + 14}" class="start">{escape(_cut(labels[0], 30))}</text>')
    parts.append(f'<text x="{WIDTH - 4}" y="{height + 14}" class="value">{escape(_cut(labels[-1], 30))}</text>')
    return "".join([*parts, "</svg>"])


def heat(down: Sequence[str], across: Sequence[str], cells: np.ndarray, *, title: str) -> str:
    """A two-way table as squares, darker for larger shares, each with its percentage."""
    left = _room(down)
    side = (PAIR - left - 40) / len(across)  # slanted names reach beyond the last column
    top = max(float(np.max(cells)), 1e-9)
    longest = min(WIDEST, max(map(_width, across)))
    slanted = longest > side
    head = 20 + (longest * 0.6 if slanted else 0)
    parts = _opened(title, round(head + ROW * len(down) + 8), PAIR)
    for column, label in enumerate(across):
        x = left + (column + 0.5) * side
        style = f'class="start" transform="rotate(-36 {x:.1f} {head - 6:.1f})"' if slanted else 'class="middle"'
        parts.append(f'<text x="{x:.1f}" y="{head - 6:.1f}" {style}>{_named(label, WIDEST)}</text>')
    for row, label in enumerate(down):
        y = head + row * ROW
        parts.append(f'<text x="{left - 8}" y="{y + 14:.1f}" class="label">{_named(label, left)}</text>')
        for column, share in enumerate(cells[row].tolist()):
            x = left + column * side
            dark = ' class="dark"' if share > DARK * top else ""
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{side - 1:.1f}" height="{ROW - 1}"'
                f' fill-opacity="{share / top:.3f}"/>'
                f'<text x="{x + side / 2:.1f}" y="{y + 14:.1f}" class="middle">'
                f"<tspan{dark}>{share:.1%}</tspan></text>"
            )
    return "".join([*parts, "</svg>"])


def plus_minus(error: float) -> str:
    """A bound in percent, rounded up to two digits: it must stay one."""
    if error <= 0:
        return "0"
    places = max(0, 1 - math.floor(math.log10(100 * error)))
    return f"{math.ceil(100 * error * 10**places - 1e-9) / 10**places:.{places}f}"


def _value(share: float, error: float | None) -> str:
    return f"{share:.1%}" if error is None else f"{share:.1%} ± {plus_minus(error)}"


def _opened(title: str, height: int, width: int = WIDTH) -> list[str]:
    return [
        f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {width} {height}" class="bars">',
        f"<title>{escape(title)}</title>",
    ]


def _scale(top: float, left: int, scale: float, body: int) -> str:
    """Lines at round percentages, with their numbers underneath."""
    return "".join(
        f'<path class="grid" d="M{left + tick * scale:.1f} 0V{body}"/>'
        f'<text x="{left + tick * scale:.1f}" y="{body + 13}" class="tick">{_tick(tick)}</text>'
        for tick in _ticks(top)
    )


def _tick(share: float) -> str:
    return f"{100 * share:.4g}%"


def _ticks(top: float) -> list[float]:
    """Zero and two to four round numbers up to the top: steps of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(top / 4))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if top / step <= 5)
    return [step * i for i in range(int(top / step) + 1)]


def _room(labels: Sequence[str]) -> int:
    """The place that the longest label needs."""
    return round(min(WIDEST, max(NARROWEST, max(map(_width, labels)) + 14)))


def _width(label: str) -> float:
    """How wide a label is at most."""
    return sum(SLIM if letter in _THIN else BROAD if letter in _WIDE else LETTER for letter in label)


def _named(label: str, room: float) -> str:
    """A label cut to its place; the whole of it appears when the pointer rests on it."""
    short = label
    while _width(short) > room - 12 and len(short) > 1:
        short = _cut(label, len(short) - 1)
    return escape(short) if short == label else f"{escape(short)}<title>{escape(label)}</title>"


def _cut(label: str, longest: int) -> str:
    return label if len(label) <= longest else label[: max(1, longest - 1)] + "…"


def gauge(share: float, caption: str) -> str:
    """How much of a budget is spent."""
    filled = min(1.0, max(0.0, share)) * 100
    return (
        f'<div class="gauge" role="meter" aria-valuemin="0" aria-valuemax="100" aria-valuenow="{filled:.0f}"'
        f' aria-label="{escape(caption)}"><span style="width:{filled:.2f}%"></span></div><p>{escape(caption)}</p>'
    )
