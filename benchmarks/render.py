"""Turns recorded results into docs/validation.md: every figure there is one that a run printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "validation.md"
HEAD = """# Validation

Every figure on this page was measured by `make bench` on the machine described first, and is written here by
`benchmarks/render.py` from `benchmarks/results/full.json`. Run `python -m benchmarks NAME` for one suite. Ratios
compare within one run; absolute seconds depend on the machine and its load. True errors are computed in
benchmarks only.
"""


def write_validation(record: dict[str, Any]) -> None:
    DOCUMENT.write_text(render(record))


def render(record: dict[str, Any]) -> str:
    parts = [HEAD]
    for name, entry in record.items():
        parts.append(f"\n## {entry['title']}\n")
        parts.append(f"`python -m benchmarks {name}`, {entry['at']}, {entry['seconds']:.0f} s.\n")
        if "failed" in entry:
            parts.append(f"This run failed: {entry['failed']}\n")
            continue
        parts.extend(_section(entry["found"]))
    return "\n".join(parts).rstrip() + "\n"


def _section(found: Any, heading: str = "###") -> list[str]:
    """Scalars as one table, lists of records as one table each, mappings as subsections."""
    if isinstance(found, list):
        return [_records(found)]
    scalars = {k: v for k, v in found.items() if not isinstance(v, (dict, list))}
    parts = [_pairs(scalars)] if scalars else []
    for name, value in found.items():
        if not isinstance(value, (dict, list)) or not value:
            continue
        parts.append(f"{heading} {name}\n")
        if isinstance(value, dict) and all(not isinstance(v, (dict, list)) for v in value.values()):
            parts.append(_pairs(value))
        elif isinstance(value, dict) and all(isinstance(v, dict) for v in value.values()):
            parts.append(_records([{"": k} | v for k, v in value.items()]))
        elif isinstance(value, list) and not all(isinstance(v, dict) for v in value):
            parts.append(", ".join(_shown(v) for v in value) + "\n")
        else:
            parts.extend(_section(value, heading + "#"))
    return parts


def _pairs(values: dict[str, Any]) -> str:
    rows = [f"| {name} | {_shown(value)} |" for name, value in values.items()]
    return "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def _records(rows: list[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    body = [f"| {' | '.join(_shown(row.get(name, '')) for name in columns)} |" for row in rows]
    return "\n".join([*head, *body]) + "\n"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_shown(v)}" for k, v in value.items())
    return str(value).replace("|", "\\|")
