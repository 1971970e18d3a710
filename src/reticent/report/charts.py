"""Charts as plain SVG text: bars for what was released, whiskers for what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

WIDTH, ROW, LABEL, VALUE = 560, 22, 150, 64


def bars(
    labels: Sequence[str],
    released: np.ndarray,
    measured: np.ndarray | None = None,
    error: float | None = None,
    *,
    title: str,
) -> str:
    """Horizontal bars of shares; a whisker spans the measured value plus and minus `error`."""
    plot = WIDTH - LABEL - VALUE
    top = max(float(np.max(released)), 1e-9)
    if measured is not None:
        top = max(top, float(np.max(measured)) + (error or 0.0))
    scale = plot / top
    height = ROW * len(labels) + 8
    parts = [
        f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {WIDTH} {height}" class="bars">',
        f"<title>{escape(title)}</title>",
    ]
    for i, (label, share) in enumerate(zip(labels, released, strict=True)):
        y = i * ROW + 4
        length = max(0.5, float(share) * scale)
        parts.append(
            f'<text x="{LABEL - 8}" y="{y + 13}" class="label">{escape(_short(label))}</text>'
            f'<rect x="{LABEL}" y="{y + 2}" width="{length:.1f}" height="{ROW - 8}" rx="2"/>'
        )
        if measured is not None and error is not None:
            low, high = (LABEL + max(0.0, float(measured[i]) + sign * error) * scale for sign in (-1, 1))
            middle = y + (ROW - 4) / 2
            parts.append(
                f'<path class="whisker" d="M{low:.1f} {middle - 4}v8M{low:.1f} {middle}H{high:.1f}'
                f'M{high:.1f} {middle - 4}v8"/>'
            )
        parts.append(f'<text x="{WIDTH - 4}" y="{y + 13}" class="value">{float(share):.1%}</text>')
    return "".join([*parts, "</svg>"])


def gauge(share: float, caption: str) -> str:
    """How much of a budget is spent."""
    filled = min(1.0, max(0.0, share)) * 100
    return (
        f'<div class="gauge" role="meter" aria-valuemin="0" aria-valuemax="100" aria-valuenow="{filled:.0f}"'
        f' aria-label="{escape(caption)}"><span style="width:{filled:.2f}%"></span></div><p>{escape(caption)}</p>'
    )


def _short(label: str) -> str:
    return label if len(label) <= 22 else label[:21] + "…"
