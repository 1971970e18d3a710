"""Workloads from text: `marginals:3+ranges:age` on a command line, or a file of attribute sets or queries."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from reticent.domain import Domain
from reticent.domain.attribute import shown
from reticent.errors import QueryError, ReticentError, require, whole_number
from reticent.queries.base import Query
from reticent.queries.linear import Marginal
from reticent.queries.workload import Workload, marginals, ranges

_USAGE = "use marginals:3, ranges:COLUMN, prefixes:COLUMN, ranges:A*B, several joined by +, or a .json or .csv file"


def parse_workload(text: str, domain: Domain) -> Workload:
    """A workload from one command line argument, bound to the domain."""
    require(text, str, "workload", 'text such as "marginals:3", or the name of a file')
    require(domain, Domain, "domain", "rt.Domain(...) or table.domain")
    path = Path(text)
    if path.suffix.lower() in (".json", ".csv"):
        return read_workload(path, domain)
    workload = Workload(domain=domain)
    for part in text.split("+"):
        kind, colon, detail = part.strip().partition(":")
        if not colon or not detail:
            raise QueryError(f"workload {shown(text)}: {_USAGE}")
        if kind == "marginals":
            for k in detail.split(","):
                if not (k.isascii() and k.isdigit()):
                    raise QueryError(f"workload {shown(text)}: {shown(k)} is not a number of attributes; {_USAGE}")
                number = whole_number(int(k), "attributes in each marginal: k", 1, len(domain))
                workload += marginals(domain, number)
        elif kind in ("ranges", "prefixes"):
            columns = [part.split("*") if "*" in part else part for part in detail.split(",")]
            workload += ranges(*columns, prefixes=kind == "prefixes", domain=domain)
        else:
            raise QueryError(f"workload {shown(text)}: {_USAGE}")
    return workload


def read_workload(path: str | Path, domain: Domain) -> Workload:
    """JSON: a list of name lists, of {"attributes": [...], "weight": w}, or of queries, or `Workload.to_dict`.

    CSV: one attribute set per line, names separated by commas, with an optional weight as the last cell.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        workload = _from_csv(text, domain) if path.suffix.lower() == ".csv" else _from_json(json.loads(text))
        return workload.on(domain)
    except OSError as error:
        raise QueryError(f"{path}: cannot be read ({error.strerror})") from None
    except ReticentError as error:
        raise QueryError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise QueryError(f"{path}: {' '.join(str(error).split())}") from None


def _from_json(content: Any) -> Workload:
    if not isinstance(content, list):
        return Workload.from_dict(content)
    entries: list[Query] = []
    weights: list[Any] = []
    for item in content:
        entry, weight = _json_entry(item)
        entries.append(entry)
        weights.append(weight)
    return Workload(entries, weights=weights)


def _json_entry(item: Any) -> tuple[Query, Any]:
    from reticent.queries.from_dict import query_from_dict

    if isinstance(item, list):
        return Marginal(item), 1.0
    if not isinstance(item, dict):
        raise QueryError(f"{shown(item)} is neither a list of names nor an object")
    settings = dict(item)
    weight = settings.pop("weight", 1.0)
    if "query" not in settings:
        settings["query"] = "marginal"
    return query_from_dict(settings), weight


def _from_csv(text: str, domain: Domain) -> Workload:
    entries: list[Query] = []
    weights: list[float] = []
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        weight = 1.0
        # A column may be called "2": a cell is a weight only if it is no attribute.
        if len(cells) > 1 and cells[-1] not in domain:
            try:
                weight = float(cells[-1])
            except ValueError:
                raise QueryError(f"line {number}: {shown(cells[-1])} is neither an attribute nor a weight") from None
            cells = cells[:-1]
        entries.append(Marginal(cells))
        weights.append(weight)
    return Workload(entries, weights=weights)
