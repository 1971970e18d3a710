"""Plots for notebooks: bars with certified errors, heat maps, and the spending of a budget; matplotlib is optional."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.errors import QueryError
from reticent.queries.linear import Marginal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from reticent.knowledge.answer import Answer
    from reticent.releases.release import Release

ACCENT = "#1f5f8b"
WIDTH, PANEL = 6.4, 2.6
MOST_BARS = 40
"""More bars than that become one outline, as of a histogram, with some of the labels."""
MOST_TICKS, MOST_WRITTEN, MOST_PANELS = 14, 120, 12
DARK = 0.5
"""Of the colour scale: darker cells have white numbers."""


def new_figure(panels: int = 1, height: float = PANEL) -> Figure:
    """A figure of its own: no global state, no window. A notebook shows it where it is the value of a cell."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise QueryError("plot() needs matplotlib: pip install matplotlib, or use to_pandas()") from None

    class Picture(Figure):
        """A figure that notebooks show, also without `%matplotlib inline`."""

        def _repr_png_(self) -> bytes:
            drawn = BytesIO()
            self.savefig(drawn, format="png", dpi=120)
            return drawn.getvalue()

    return Picture(figsize=(WIDTH, height * panels), layout="constrained")


def plot_answer(answer: Answer) -> Figure:
    """One attribute as bars whose whiskers span the certified error, two as a heat map."""
    values, order = np.asarray(answer.value, dtype=float), answer.labels
    if values.ndim not in (1, 2) or not order:
        raise QueryError("plot() draws marginals of one or two attributes; ask rt.marginal('age', 'sex')")
    if values.ndim == 1:
        figure = new_figure()
        axes = figure.add_subplot()
        _bars(axes, order[0][1], values, [answer.error] * len(values))
        axes.set_xlabel(order[0][0])
        axes.set_ylabel("share of the table")
    else:
        figure = new_figure(height=_height(values))
        axes = figure.add_subplot()
        _heat(axes, order[0], order[1], values, "share of the table")
    axes.set_title(answer.guarantee, fontsize=9, loc="right", color="0.4")
    return figure


def plot_groups(
    names: Sequence[str],
    keys: Sequence[tuple[str, ...]],
    numbers: Mapping[str, tuple[Sequence[float], Sequence[float | None]]],
    guarantee: str,
) -> Figure:
    """A panel per aggregate of a result table: a heat map where two columns make the groups, bars otherwise."""
    if not numbers or not keys:
        raise QueryError("plot() needs a number and at least one group; this result has none")
    sides = [tuple(dict.fromkeys(side)) for side in zip(*keys, strict=True)]
    two_way = len(names) == 2 and len(set(keys)) == len(keys) and min(map(len, sides)) > 1
    shape = tuple(map(len, sides)) if two_way else (1, 1)
    figure = new_figure(len(numbers), _height(np.empty(shape)) if two_way else PANEL)
    for panel, (title, (values, errors)) in enumerate(numbers.items(), start=1):
        axes = figure.add_subplot(len(numbers), 1, panel)
        if two_way:
            cells = np.full(shape, np.nan)
            for key, value in zip(keys, values, strict=True):
                cells[sides[0].index(key[0]), sides[1].index(key[1])] = value
            _heat(axes, (names[0], sides[0]), (names[1], sides[1]), cells, title)
        else:
            _bars(axes, [", ".join(key) for key in keys], np.asarray(values), errors)
            axes.set_xlabel(", ".join(names))
            axes.set_ylabel(title)
    figure.axes[0].set_title(guarantee, fontsize=9, loc="right", color="0.4")
    return figure


def _bars(axes: Axes, labels: Sequence[str], heights: np.ndarray, errors: Sequence[float | None]) -> None:
    """Bars with whiskers; very many as one outline within the band of their errors."""
    places, bounds = np.arange(len(labels)), np.array([error or 0.0 for error in errors])
    if len(labels) <= MOST_BARS:
        # matplotlib refuses error bars of None beside a colour for them
        known = any(error is not None for error in errors)
        whiskers = {"yerr": bounds, "ecolor": "0.25", "capsize": 2} if known else {}
        axes.bar(places, heights, 0.8, color=ACCENT, **whiskers)
    else:
        axes.stairs(heights, np.arange(len(labels) + 1) - 0.5, fill=True, color=ACCENT)
        low, high = (np.repeat(np.maximum(heights + sign * bounds, 0), 2) for sign in (-1, 1))
        axes.fill_between(np.repeat(np.arange(len(labels) + 1) - 0.5, 2)[1:-1], low, high, color="0.25", alpha=0.3)
    _ticks(axes.set_xticks, labels, upright=len(labels) <= 6)
    axes.set_ylim(bottom=min(0.0, float(np.min(heights - bounds))))
    axes.spines[["top", "right"]].set_visible(False)


def _heat(
    axes: Axes, down: tuple[str, Sequence[str]], across: tuple[str, Sequence[str]], cells: np.ndarray, title: str
) -> None:
    """Colours for the cells, their numbers written in where there is room."""
    drawn = axes.imshow(np.ma.masked_invalid(cells), aspect="auto", cmap="Blues", vmin=min(0.0, np.nanmin(cells)))
    _ticks(axes.set_yticks, down[1], upright=True)
    _ticks(axes.set_xticks, across[1], upright=len(across[1]) <= 6)
    axes.set_ylabel(down[0])
    axes.set_xlabel(across[0])
    axes.figure.colorbar(drawn, ax=axes, label=title)
    if cells.size <= MOST_WRITTEN:
        for (row, column), value in np.ndenumerate(cells):
            if np.isfinite(value):
                colour = "white" if float(np.asarray(drawn.norm(value))) > DARK else "black"
                axes.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize=7, color=colour)


def _height(cells: np.ndarray) -> float:
    return min(9.0, max(PANEL, 1.2 + 0.28 * min(cells.shape[0], MOST_BARS)))


def _ticks(place: Callable[..., Any], labels: Sequence[str], *, upright: bool) -> None:
    """All labels where they fit, else every second, third, ..."""
    every = 1 if len(labels) <= MOST_BARS else math.ceil(len(labels) / MOST_TICKS)
    turned = {} if upright else {"rotation": 40, "ha": "right"}
    place(np.arange(len(labels))[::every], [_cut(label) for label in labels[::every]], fontsize=8, **turned)


def _cut(label: str) -> str:
    return label if len(label) <= 24 else f"{label[:23]}…"


def plot_release(release: Release, names: Sequence[str]) -> Figure:
    """One or two attributes together; without names every attribute, one panel each, up to twelve."""
    if names:
        return plot_answer(release.answer(Marginal(tuple(names))))
    drawn = release.domain.names[:MOST_PANELS]
    figure = new_figure(len(drawn), 2.0)
    for place, name in enumerate(drawn, start=1):
        answer = release.answer(Marginal((name,)))
        axes = figure.add_subplot(len(drawn), 1, place)
        values = np.asarray(answer.value)
        _bars(axes, answer.labels[0][1], values, [answer.error] * len(values))
        axes.set_title(name, fontsize=10, loc="left")
    return figure


def plot_budget(unit: str, charges: Sequence[float], limit: float) -> Figure:
    """The account as steps: one charge after the other, up to the limit."""
    figure = new_figure()
    axes = figure.add_subplot()
    spent = np.concatenate([[0.0], np.cumsum(charges)])
    axes.step(range(len(spent)), spent, where="post", color=ACCENT)
    axes.fill_between(range(len(spent)), spent, step="post", color=ACCENT, alpha=0.15)
    axes.axhline(limit, color="0.4", linestyle="--", linewidth=1)
    axes.set_xlabel("charges")
    axes.set_ylabel(f"{unit} spent")
    axes.set_title(f"{spent[-1]:.4g} of {limit:.4g} spent", fontsize=9, loc="right", color="0.4")
    axes.set_ylim(0, limit * 1.08)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
