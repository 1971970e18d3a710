"""A `Plot` as SVG: readable as a file, on light and on dark paper, the same bytes for the same points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from benchmarks.scales import Scale
from benchmarks.shown import Plot, Points, number

WIDTH, HEIGHT = 640, 380
LEFT, RIGHT, TOP, BOTTOM = 76, 18, 44, 52
ROW, LEGEND = 18, 20
LIGHT = ("#1f6fa8", "#c2571a", "#3b8a52", "#8a4fb0", "#a8324a", "#7a6a2b", "#4a5a68")
DARK = ("#6db3e2", "#f0a06a", "#7fcf97", "#c79be6", "#ec8496", "#d3c06c", "#a9b8c5")
SHAPES = ("circle", "square", "diamond", "triangle")


def _sheet() -> str:
    rules = (
        'text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1c2530}.soft{fill:#5a6773;font-size:12px}'
    )
    rules += ".title{font-weight:600;font-size:14px}.grid{stroke:#dfe4e8}.axis{stroke:#8b97a2}.mark{stroke:#5a6773}"
    rules += ".m{text-anchor:middle}.e{text-anchor:end}path,line{fill:none}"
    dark = "text{fill:#e4e9ee}.soft{fill:#9aa7b3}.grid{stroke:#323c46}.axis{stroke:#6b7885}.mark{stroke:#9aa7b3}"
    for place, (light, night) in enumerate(zip(LIGHT, DARK, strict=True)):
        rules += f".s{place}{{stroke:{light}}}.f{place}{{fill:{light}}}"
        dark += f".s{place}{{stroke:{night}}}.f{place}{{fill:{night}}}"
    return f"<style>{rules}@media (prefers-color-scheme:dark){{{dark}}}</style>"


def svg(plot: Plot) -> str:
    """The whole file."""
    return _bars(plot) if plot.bars else _points(plot)


def _framed(plot: Plot, height: float, parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">'
    title = f"<title>{escape(plot.title)}</title><desc>{escape(plot.expected)}</desc>"
    return "\n".join([head, title, _sheet(), _text(WIDTH / 2, 20, plot.title, "title m"), *parts, "</svg>\n"])


def _text(x: float, y: float, words: str, style: str, turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}"{turn}>{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, style: str, extra: str = "") -> str:
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{extra}/>'


def _legend(plot: Plot) -> tuple[list[str], float]:
    """One line of keys after another below the title, and the height they take."""
    entries = [(name, place, "series") for place, name in enumerate(plot.series)]
    entries += [(name, place, "line") for place, name in enumerate(plot.lines, start=len(plot.series))]
    if len(plot.series) == 1 and len(entries) == 1:
        return [], 0.0
    parts, x, y = [], float(LEFT), float(TOP - 4)
    for name, place, kind in entries:
        length = 30 + 6.6 * len(name)
        if x > LEFT and x + length > WIDTH - RIGHT:
            x, y = float(LEFT), y + LEGEND
        tone = place % len(LIGHT)
        if kind == "line":
            parts.append(_line(x, y - 4, x + 18, y - 4, f"s{tone}", ' stroke-width="2" stroke-dasharray="6 4"'))
        else:
            parts.append(_symbol(x + 9, y - 4, place, bar=plot.bars))
        parts.append(_text(x + 24, y, name, "soft"))
        x += length + 14
    return parts, y + LEGEND - TOP


def _symbol(x: float, y: float, place: int, *, bar: bool = False) -> str:
    tone, shape = f"f{place % len(LIGHT)}", "square" if bar else SHAPES[place % len(SHAPES)]
    if shape == "circle":
        return f'<circle class="{tone}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    corners = {
        "square": [(-4, -4), (4, -4), (4, 4), (-4, 4)],
        "diamond": [(0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)],
        "triangle": [(0, -5), (5, 4), (-5, 4)],
    }[shape]
    listed = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon class="{tone}" points="{listed}"/>'


def _values(plot: Plot) -> list[float]:
    held = [float(v) for points in (*plot.series.values(), *plot.lines.values()) for p in points for v in p[1:]]
    return held + [float(level) for level in plot.marks.values()]


def _points(plot: Plot) -> str:
    legend, taken = _legend(plot)
    top, bottom = TOP + taken, HEIGHT + taken - BOTTOM
    places = [float(p[0]) for points in (*plot.series.values(), *plot.lines.values()) for p in points]
    across = Scale.over(places, LEFT, WIDTH - RIGHT, log="x" in plot.log)
    up = Scale.over(_values(plot), bottom, top, log="y" in plot.log)
    parts = [*legend]
    for value, label in across.ticks():
        parts += [_line(across(value), top, across(value), bottom, "grid")]
        parts += [_text(across(value), bottom + 17, label, "soft m")]
    for value, label in up.ticks():
        parts += [_line(LEFT, up(value), WIDTH - RIGHT, up(value), "grid")]
        parts += [_text(LEFT - 7, up(value) + 4, label, "soft e")]
    parts += [_line(LEFT, bottom, WIDTH - RIGHT, bottom, "axis"), _line(LEFT, top, LEFT, bottom, "axis")]
    for name, level in plot.marks.items():
        parts.append(_line(LEFT, up(level), WIDTH - RIGHT, up(level), "mark", ' stroke-dasharray="2 3"'))
        parts.append(_text(WIDTH - RIGHT - 4, up(level) - 5, f"{name}: {number(level)}", "soft e"))
    for place, points in enumerate(plot.lines.values(), start=len(plot.series)):
        parts.append(_path(points, across, up, place, ' stroke-width="1.8" stroke-dasharray="6 4"'))
    for place, points in enumerate(plot.series.values()):
        parts += _series(points, across, up, place)
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, bottom + 40, plot.x, "m"))
    parts.append(_text(18, (top + bottom) / 2, plot.y, "m", turned=True))
    return _framed(plot, HEIGHT + taken, parts)


def _series(points: Points, across: Scale, up: Scale, place: int) -> list[str]:
    parts = [_path(points, across, up, place, ' stroke-width="1.4" stroke-opacity="0.55"')] if len(points) > 1 else []
    for point in points:
        x = across(float(point[0]))
        if len(point) == 4:
            parts.append(_line(x, up(point[2]), x, up(point[3]), f"s{place % len(LIGHT)}", ' stroke-width="1.6"'))
        parts.append(_symbol(x, up(float(point[1])), place))
    return parts


def _path(points: Points, across: Scale, up: Scale, place: int, extra: str) -> str:
    ordered = sorted(points, key=lambda point: float(point[0]))
    steps = " L".join(f"{across(float(p[0])):.1f} {up(float(p[1])):.1f}" for p in ordered)
    return f'<path class="s{place % len(LIGHT)}" d="M{steps}"{extra}/>'


def _bars(plot: Plot) -> str:
    """Horizontal bars, grouped by category, each with its number; here marks stand upright."""
    legend, taken = _legend(plot)
    groups = list(dict.fromkeys(str(p[0]) for points in plot.series.values() for p in points))
    left = min(24 + 7.2 * max(map(len, groups)), WIDTH * 0.5)
    top = TOP + taken + (16 if plot.marks else 0)
    tall = ROW * len(plot.series) + 12
    bottom = top + tall * len(groups)
    along = Scale.over(_values(plot), left, WIDTH - RIGHT - 62, log="y" in plot.log, zero=True)
    parts = [*legend]
    for value, label in along.ticks():
        parts += [_line(along(value), top, along(value), bottom, "grid")]
        parts += [_text(along(value), bottom + 17, label, "soft m")]
    for row, group in enumerate(groups):
        middle = top + tall * (row + 0.5)
        parts.append(_text(left - 8, middle + 4, group, "e"))
        for place, points in enumerate(plot.series.values()):
            y = middle + ROW * (place - len(plot.series) / 2)
            parts += [part for point in points if point[0] == group for part in _bar(point, along, left, y, place)]
    for name, level in plot.marks.items():
        parts.append(
            _line(along(level), top, along(level), bottom, "mark", ' stroke-dasharray="2 3" stroke-width="1.6"')
        )
        parts.append(_text(along(level), top - 4, f"{name}: {number(level)}", "soft m"))
    parts += [_line(left, top, left, bottom, "axis"), _text((left + WIDTH - RIGHT) / 2, bottom + 40, plot.y, "m")]
    return _framed(plot, math.ceil(bottom + BOTTOM), parts)


def _bar(point: Sequence[Any], along: Scale, left: float, y: float, place: int) -> list[str]:
    tone, value = place % len(LIGHT), float(point[1])
    end = along(value)
    parts = [
        f'<rect class="f{tone}" x="{left:.1f}" y="{y + 2:.1f}" width="{max(end - left, 1):.1f}" height="{ROW - 4}"/>'
    ]
    furthest = end
    if len(point) == 4:
        furthest = along(float(point[3]))
        parts.append(_line(along(float(point[2])), y + ROW / 2, furthest, y + ROW / 2, "axis", ' stroke-width="2"'))
    return [*parts, _text(max(furthest, end) + 6, y + ROW / 2 + 4, number(value), "soft")]
