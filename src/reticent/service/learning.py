"""Fitting models over HTTP: a loss in plain values becomes one of the library's own, minimised on what is public."""

from __future__ import annotations

from typing import Any

from reticent.service.desk import Desk
from reticent.service.problems import Problem


async def minimise(desk: Desk, content: Any) -> dict[str, Any]:
    """The fitted model as plain values; free, for it reads the certified snapshot only."""
    from reticent.queries.convex import loss_from_dict

    if not isinstance(content, dict) or set(content) != {"loss"}:
        raise Problem("request", 'send {"loss": {...}} with a loss as its to_dict() writes it')
    loss = loss_from_dict(content["loss"])

    def fit() -> dict[str, Any]:
        return desk.session.minimize(loss).to_dict()

    return await desk.work(fit)
