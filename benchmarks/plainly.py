"""Shows a recorded result by its own names, for suites that say nothing about how they want to be shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.shown import Claim, Grid, Plot, Shown, shown_value

MARKED = re.compile(r"^(?P<text>.*?)\s*\((?P<context>.*?)(?:,\s*)?at (?P<side>most|least) (?P<mark>[\d.]+)\)$")
UNITS = {"seconds": "s", "ms": "ms", "us": "µs", "gib": "GiB", "GiB": "GiB", "s": "s", "bytes": "bytes"}
SILENT = ("met", "name", "passed", "plots", "ratios")


def shown(found: Any) -> list[Shown]:
    """Claims first, then plots, then everything else as tables."""
    if not isinstance(found, Mapping):
        return _tables("", found)
    plots = [Plot(**plot) for plot in found.get("plots", ())]
    return [*claims(found), *plots, *_tables("", {name: v for name, v in found.items() if name not in SILENT})]


def claims(found: Mapping[str, Any]) -> list[Claim]:
    """The entries of `ratios`, whose names end in their marks."""
    return [_claim(name, value) for name, value in found.get("ratios", {}).items()]


def _claim(name: str, value: float) -> Claim:
    matched = MARKED.match(name)
    if matched is None:
        raise ValueError(f"the ratio {name!r} names no mark: end it in (at most 2) or (at least 2)")
    text = f"{matched['text']} ({matched['context']})" if matched["context"] else matched["text"]
    mark = float(matched["mark"])
    return Claim(text, value, at_most=mark) if matched["side"] == "most" else Claim(text, value, at_least=mark)


def _tables(title: str, value: Any) -> list[Shown]:
    """Records become one table, mappings of scalars another; what is deeper is taken apart."""
    if not value:
        return []
    if isinstance(value, list):
        records = all(isinstance(v, Mapping) for v in value)
        return [_grid(title, value) if records else f"**{title}:** {', '.join(map(shown_value, value))}"]
    if title and all(isinstance(v, Mapping) and _flat(v) for v in value.values()):
        return [_grid(title, [{"": name, **row} for name, row in value.items()])]
    scalars = {name: v for name, v in value.items() if not isinstance(v, (Mapping, list))}
    pairs = [{"": words(name), " ": f"{shown_value(v)}{_unit(name)}"} for name, v in scalars.items()]
    parts: list[Shown] = [Grid(title, {"": "", " ": ""}, pairs)] if pairs else []
    for name, deeper in value.items():
        if name not in scalars and name not in SILENT:
            parts += _tables(f"{title}: {words(name)}" if title else words(name), deeper)
    return parts


def _flat(row: Mapping[str, Any]) -> bool:
    return all(not isinstance(v, (Mapping, list)) for v in row.values())


def _grid(title: str, rows: Sequence[Mapping[str, Any]]) -> Grid:
    names = list(dict.fromkeys(name for row in rows for name in row if name not in SILENT))
    columns = {words(name): _unit(name).strip() for name in names}
    return Grid(title, columns, [{words(n): row[n] for n in names if n in row} for row in rows])


def _unit(name: str) -> str:
    *rest, last = re.split(r"[_ ]", name)
    return f" {UNITS[last]}" if rest and last in UNITS else ""


def words(name: str) -> str:
    """`peak_gib` becomes `peak`: units stand beside the figures."""
    parts = re.split(r"[_ ]", name)
    return " ".join(parts[:-1] if _unit(name) else parts)
