"""The papers' rates as tables: the records that each mechanism needs, by error, number of questions and universe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from reticent.errors import QueryError
from reticent.planning.plan import CERTIFIED, Setting, fewest

Axis = Literal["error", "queries", "log_universe"]
MOST = 10**18
"""Records beyond which a mechanism counts as hopeless."""


def records_needed(mechanism: str, setting: Setting, error: float) -> float:
    """The fewest records at which the mechanism certifies `error`; `setting.records` does not matter."""
    if mechanism not in CERTIFIED:
        raise QueryError(f"mechanism {mechanism!r} is unknown; use one of {', '.join(CERTIFIED)}")
    formula = CERTIFIED[mechanism][0]
    return fewest(lambda records: formula(replace(setting, records=records)), error, MOST)


def rates(setting: Setting, axis: Axis, values: Sequence[float], *, error: float = 0.05) -> list[dict[str, Any]]:
    """One row per value of the axis with the records every mechanism needs; for tables and plots."""
    rows = []
    for value in values:
        if axis == "error":
            varied, wanted = setting, float(value)
        elif axis == "queries":
            varied, wanted = replace(setting, queries=int(value)), error
        elif axis == "log_universe":
            varied, wanted = replace(setting, log_universe=float(value)), error
        else:
            raise QueryError(f"axis {axis!r} is unknown; use 'error', 'queries' or 'log_universe'")
        needed = {name: records_needed(name, varied, wanted) for name in CERTIFIED}
        rows.append({axis: value, "needed": needed})
    return rows


def slope(rows: Sequence[dict[str, Any]], axis: Axis, mechanism: str) -> float:
    """The exponent of the axis: log-log slope between the first and the last row."""
    first, last = rows[0], rows[-1]
    rise = math.log(last["needed"][mechanism] / first["needed"][mechanism])
    return rise / math.log(last[axis] / first[axis])
