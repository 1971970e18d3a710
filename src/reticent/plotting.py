"""Pictures for notebooks: marginals with error bars, and where a budget went. Needs matplotlib, which is optional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from reticent.errors import QueryError
from reticent.queries.linear import Marginal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from reticent.answer import Answer
    from reticent.releases import Release

ACCENT = "#1f5f8b"
WIDTH, PANEL = 6.4, 2.6
MOST_BARS = 40
MOST_SERIES, MOST_PANELS = 6, 12


def new_figure(panels: int = 1, height: float = PANEL) -> Figure:
    """A figure of its own: no global state, no window."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise QueryError("plot() needs matplotlib: pip install matplotlib, or use to_pandas()") from None
    return Figure(figsize=(WIDTH, height * panels), layout="constrained")


def plot_answer(answer: Answer) -> Figure:
    """One attribute as bars, two as grouped bars; the whiskers span the certified error."""
    values, order = np.asarray(answer.value, dtype=float), answer.labels
    if values.ndim not in (1, 2) or not order:
        raise QueryError("plot() draws marginals of one or two attributes; ask rt.marginal('age', 'sex')")
    if values.ndim == 2 and values.shape[1] > values.shape[0]:
        values, order = values.T, order[::-1]  # the longer attribute along the axis, the shorter as colours
    if values.shape[0] > MOST_BARS or values.shape[1:] > (MOST_SERIES,):
        raise QueryError(f"{values.size} cells are too many for bars; use to_pandas()")
    figure = new_figure()
    axes = figure.add_subplot()
    series = [(None, values)] if values.ndim == 1 else list(zip(order[1][1], values.T, strict=True))
    _bars(axes, order[0][1], series, answer.error)
    axes.set_xlabel(order[0][0])
    axes.set_ylabel("share of the table")
    axes.set_title(answer.guarantee, fontsize=9, loc="right", color="0.4")
    if values.ndim == 2:
        axes.legend(title=order[1][0], frameon=False, fontsize=8)
    return figure


def _bars(
    axes: Axes, labels: Sequence[str], series: Sequence[tuple[str | None, np.ndarray]], error: float | None
) -> None:
    width = 0.8 / len(series)
    places = np.arange(len(labels))
    for index, (name, heights) in enumerate(series):
        colour = ACCENT if len(series) == 1 else f"C{index}"
        shift = (index - (len(series) - 1) / 2) * width
        # matplotlib refuses error bars of None beside a colour for them
        whiskers = {} if error is None else {"yerr": error, "ecolor": "0.25", "capsize": 2}
        axes.bar(places + shift, heights, width, label=name, color=colour, **whiskers)
    axes.set_xticks(
        places, labels, rotation=0 if len(labels) <= 6 else 40, ha="center" if len(labels) <= 6 else "right"
    )
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)


def plot_release(release: Release, names: Sequence[str]) -> Figure:
    """One or two attributes together; without names every attribute that has few values, one panel each."""
    if names:
        return plot_answer(release.answer(Marginal(tuple(names))))
    short = [name for name in release.domain.names if release.domain[name].size <= MOST_BARS][:MOST_PANELS]
    if not short:
        raise QueryError(f"every attribute has more than {MOST_BARS} values; use answer(...).to_pandas()")
    figure = new_figure(len(short), 2.0)
    for place, name in enumerate(short, start=1):
        answer = release.answer(Marginal((name,)))
        axes = figure.add_subplot(len(short), 1, place)
        _bars(axes, answer.labels[0][1], [(None, np.asarray(answer.value))], answer.error)
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
