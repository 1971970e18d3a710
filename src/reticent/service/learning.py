"""Fitting models over HTTP: a loss by name becomes one of the library's own classes, and the session pays."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pydantic import ValidationError

from reticent.errors import QueryError
from reticent.service.desk import Desk
from reticent.service.models import Loss
from reticent.service.problems import Problem


async def minimise(desk: Desk, content: Any, analyst: str, key: str | None) -> dict[str, Any]:
    """The fitted model as plain values."""
    try:
        wanted = Loss.model_validate(content)
    except ValidationError:
        raise Problem("request", 'send {"loss": "Logistic", "features": [...], "label": "..."}') from None
    session: Any = desk.session
    if not hasattr(session, "minimize"):
        raise Problem("unavailable", "this version of the server fits no models")
    loss = _loss(wanted)

    def pay() -> dict[str, Any]:
        own = None if key is None else f"{analyst}/{key}"
        return session.minimize(loss, key=own, analyst=analyst).to_dict()

    return await desk.paying(pay)


def _loss(wanted: Loss) -> Any:
    """Only classes that the library lists as losses can be named."""
    losses: dict[str, type] = getattr(import_module("reticent.queries.convex"), "LOSSES", {})
    if wanted.loss.lower() not in losses:
        raise QueryError(f"unknown loss {wanted.loss}; use {', '.join(sorted(losses))}")
    try:
        return losses[wanted.loss.lower()](features=wanted.features, label=wanted.label, **wanted.options)
    except TypeError:
        raise QueryError(f"loss {wanted.loss} does not take these options: {', '.join(wanted.options)}") from None
