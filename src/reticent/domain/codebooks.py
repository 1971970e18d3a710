"""Codebooks that other tools write, read as public facts about columns: Frictionless Table Schema and SDV metadata."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reticent.domain.attribute import shown
from reticent.domain.draft import ColumnFacts, Kind
from reticent.domain.files import reading_file
from reticent.domain.formats import parsed_format
from reticent.errors import DomainError

_FRICTIONLESS: dict[str, Kind] = {
    "string": "text",
    "number": "number",
    "integer": "number",
    "boolean": "truth",
    "date": "date",
    "datetime": "datetime",
    "year": "number",
}
_SDV: dict[str, Kind] = {
    "numerical": "number",
    "categorical": "text",
    "boolean": "truth",
    "datetime": "datetime",
    "unknown": "unknown",
}
_TRUE, _FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")
_LARGEST = 1 << 26


def read_codebook(path: Path) -> dict[str, ColumnFacts]:
    """Columns by name; DomainError where the file is neither kind of codebook."""
    with reading_file(path):
        if path.stat().st_size > _LARGEST:
            raise DomainError(f"{path}: larger than any codebook; give a Table Schema or SDV metadata in JSON")
        data = path.read_bytes()
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise DomainError(f"{path}: no JSON; give a Frictionless Table Schema or SDV metadata") from None
    try:
        columns = list(_columns(content))
    except DomainError as error:
        raise DomainError(f"{path}: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DomainError(f"{path}: not a Frictionless Table Schema nor SDV metadata as they are specified") from None
    return {column.name: column for column in columns}


def _columns(content: Any) -> Iterable[ColumnFacts]:
    if "fields" in content:
        return _frictionless(content)
    if "resources" in content:
        schemas = [resource["schema"] for resource in content["resources"] if "schema" in resource]
        return _frictionless(_only(schemas, "resources with a schema"))
    if "tables" in content:
        return _sdv(_only(list(content["tables"].values()), "tables"))
    if "columns" in content:
        return _sdv(content)
    raise DomainError("neither fields (Frictionless Table Schema) nor columns (SDV metadata) are in it")


def _only(found: Sequence[Any], what: str) -> Any:
    if len(found) != 1:
        raise DomainError(f"it has {len(found)} {what}; give a codebook of one table")
    return found[0]


# -- Frictionless ----------------------------------------------------------------------------------------------------


def _frictionless(schema: Mapping[str, Any]) -> Iterable[ColumnFacts]:
    keys = schema.get("primaryKey", [])
    identifiers = [keys] if isinstance(keys, str) else list(keys)
    for entry in schema["fields"]:
        column = _field(entry, _marks(entry.get("missingValues", schema.get("missingValues", [""]))))
        alone = len(identifiers) == 1 and column.name == identifiers[0]
        yield replace(column, identifier=alone or bool(entry.get("constraints", {}).get("unique")))


def _marks(listed: Sequence[Any]) -> list[str]:
    """Marks of missing values, which may have labels; an empty field is null anyway."""
    marks = [mark["value"] if isinstance(mark, Mapping) else mark for mark in listed]
    return [str(mark) for mark in marks if mark != ""]


def _field(entry: Mapping[str, Any], missing: list[str]) -> ColumnFacts:
    kind = _FRICTIONLESS.get(entry.get("type", "string"), "unknown")
    limits = entry.get("constraints", {})
    column = ColumnFacts(
        str(entry["name"]),
        kind,
        declared=str(entry.get("type", "string")),
        whole=entry.get("type") in ("integer", "year"),
        nullable=not limits.get("required", False),
        title=str(entry.get("title") or entry.get("description") or ""),
        rules={"missing": missing} if missing else {},
    )
    listed, aliases = _categories(entry, limits)
    if kind == "truth":
        spelled = {text: True for text in entry.get("trueValues", ()) if text not in _TRUE}
        spelled |= {text: False for text in entry.get("falseValues", ()) if text not in _FALSE}
        return _ruled(column, aliases=spelled)
    if listed:
        return _ruled(replace(column, values=tuple(listed)), aliases=aliases)
    if kind == "number":
        column = replace(column, lower=_number(limits.get("minimum")), upper=_number(limits.get("maximum")))
        marks = {"decimal": entry.get("decimalChar", "."), "thousands": entry.get("groupChar", "")}
        bare = () if entry.get("bareNumber", True) else ("numbers have signs around them: state units",)
        column = _ruled(replace(column, notes=(*column.notes, *bare)), **marks)
    if kind in ("date", "datetime"):
        column = replace(column, lower=_date(limits.get("minimum")), upper=_date(limits.get("maximum")))
        column = _formatted(column, entry.get("format", "default"))
    return column


def _categories(entry: Mapping[str, Any], limits: Mapping[str, Any]) -> tuple[list[Any], dict[str, str]]:
    """Declared values; where they have labels, the labels, and the values as other spellings of them."""
    given = entry.get("categories", limits.get("enum", ()))
    if given and all(isinstance(each, Mapping) for each in given):
        labels = [str(each.get("label", each["value"])) for each in given]
        spelled = {str(each["value"]): label for each, label in zip(given, labels, strict=True)}
        return labels, {value: label for value, label in spelled.items() if value != label}
    return list(given), {}


def _formatted(column: ColumnFacts, form: str) -> ColumnFacts:
    if form == "default":
        return column
    if form != "any":
        try:
            parsed_format(form)
            return _ruled(column, format=form)
        except DomainError:
            pass
    return replace(
        column, notes=(*column.notes, f"format {shown(form)} in the codebook: state a format such as %d/%m/%Y")
    )


def _ruled(column: ColumnFacts, **rules: Any) -> ColumnFacts:
    usual = {"decimal": "."}
    stated = {name: value for name, value in rules.items() if value not in ("", {}, None, usual.get(name))}
    return replace(column, rules={**stated, **column.rules})


def _number(value: Any) -> int | float | None:
    if isinstance(value, str):
        value = float(value)
    return None if value is None or isinstance(value, bool) else int(value) if float(value).is_integer() else value


def _date(value: Any) -> datetime.date | None:
    return None if value is None else datetime.date.fromisoformat(str(value)[:10])


# -- SDV -------------------------------------------------------------------------------------------------------------


def _sdv(table: Mapping[str, Any]) -> Iterable[ColumnFacts]:
    for name, entry in table["columns"].items():
        sdtype = entry["sdtype"]
        kind = _SDV.get(sdtype, "text")
        form = entry.get("datetime_format")
        clock = form is None or any(f"%{directive}" in form for directive in "HIMSf")
        column = ColumnFacts(
            str(name),
            "date" if kind == "datetime" and not clock else kind,
            declared=sdtype,
            whole="int" in str(entry.get("computer_representation", "")).lower(),
            nullable=name != table.get("primary_key"),
            identifier=sdtype not in _SDV or name == table.get("primary_key"),
        )
        yield column if form is None else _formatted(column, "default" if form == "%Y-%m-%d" else form)


def merged(declared: ColumnFacts, codebook: ColumnFacts | None) -> ColumnFacts:
    """What the codebook says, and where it is silent what the source declares."""
    if codebook is None:
        return declared
    if codebook.kind == "unknown":
        return replace(declared, title=codebook.title or declared.title)
    return replace(
        codebook,
        declared=codebook.declared if declared.kind == "unknown" else declared.declared,
        whole=codebook.whole or declared.whole,
        nullable=codebook.nullable or declared.nullable,
        values=codebook.values or declared.values,
        lower=declared.lower if codebook.lower is None else codebook.lower,
        upper=declared.upper if codebook.upper is None else codebook.upper,
        identifier=codebook.identifier or declared.identifier,
        notes=(*codebook.notes, *declared.notes),
    )
