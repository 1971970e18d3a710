"""Drafts of domain files: names and declared types are filled in, the other keys are left empty.

It is written from public facts alone (`reticent domain new`), finished by hand, or by private discovery.
"""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from reticent.domain.attribute import Attribute, shown
from reticent.domain.domain import (
    attribute_from_dict,
    read_description,
    toml_text,
    toml_value,
    unfinished,
    without_rules,
)
from reticent.domain.undeclared import Undeclared
from reticent.errors import DomainError

Kind = Literal["truth", "text", "number", "date", "datetime", "unknown", "unread"]

MOST_VALUES = 1000
"""Listed in one draft; a column of more is better left to bins or out."""
_COMMENT = 26
"""Where comments begin."""
_IDENTIFIER = re.compile(
    r"(^|.*_)(id|uuid|guid|ssn|iban|email|e_mail|phone|telephone)$|.*_(no|nr|number)$"
    r"|^(name|full_?name|first_?name|last_?name|surname)$"
)
_DATE = re.compile(r"(^|.*_)(date|dob|birth_?day)$|^date_.*")
_TYPES = {"number": "numeric", "date": "date", "datetime": "datetime"}
_SAMPLES = {
    "number": "[0, 10.5, 100]",
    "whole": "[0, 18, 65, 120]",
    "date": "[1930-01-01, 1960-01-01, 2020-12-31]",
    "datetime": "[2020-01-01T00:00:00, 2021-01-01T00:00:00]",
}


_UNREAD = "values of this type fit nowhere; leave it out, or give a query that casts it"


@dataclass(frozen=True)
class ColumnFacts:
    """Public facts about a column, known without reading its values."""

    name: str
    kind: Kind = "unknown"
    declared: str = ""
    """Its type, as the source spells it."""
    whole: bool = False
    nullable: bool = False
    values: tuple[Any, ...] = ()
    lower: Any = None
    upper: Any = None
    edges: tuple[Any, ...] = ()
    rules: Mapping[str, Any] = field(default_factory=dict)
    identifier: bool = False
    title: str = ""
    notes: tuple[str, ...] = ()


def looks_like_an_identifier(name: str) -> bool:
    """Whether a column's name looks like that of an identifier."""
    return _IDENTIFIER.match(_snake(name)) is not None


def _snake(name: str) -> str:
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[ .-]+", "_", parted).strip("_").lower()


def draft_text(label: str, columns: Iterable[ColumnFacts], *, read: str) -> str:
    """The text of a draft; `read` is the header's statement of what was read."""
    listed = list(columns)
    lines = [
        f"# Domain of {_comment(label)}, drafted from {read}.",
        "# State what is public about every column, from the codebook, the questionnaire or the law, never from the",
        "# rows; delete the columns that you will not publish. What is open (`values = []`, `edges = []`) is refused",
        "# until it is stated; `reticent domain discover` can find it privately, for a part of the budget.",
        "#",
        "# Where cells are written in several ways, add to a column (docs/domain.md, reading rules):",
        '#   texts:    strip = true, casefold = true, aliases = {M = "Male"}, missing = ["", "NA"], nullable = true',
        '#   numbers:  strip = true, thousands = ",", decimal = ".", units = ["$", "USD"],',
        '#             negative = ["parentheses", "trailing"]     # (5) and 5- beside -5',
        '#   dates:    format = ["%d/%m/%Y"]     # beside 2024-12-31, which is always read; %z: offset from UTC',
        "",
    ]
    for column in listed:
        lines += [*_block(column), ""]
    return "\n".join(lines)


def _block(column: ColumnFacts) -> list[str]:
    title = [f"# {_comment(column.title)}"] if column.title else []
    if column.identifier or looks_like_an_identifier(column.name):
        name = shlex.quote(_comment(column.name))
        why = "declared as an identifier" if column.identifier else "looks like an identifier"
        return [
            *title,
            _aside(f"# [{toml_text(column.name)}]", f"{why}: leave it out; --person {name} makes it the unit"),
        ]
    if column.kind == "unread":
        why = (
            f"{_comment(column.declared)}: values of this type fit nowhere; leave it out, or give a query that casts it"
        )
        return [*title, _aside(f"# [{toml_text(column.name)}]", why)]
    lines = [*title, f"[{_key(column.name)}]", *(f"# {_comment(note)}" for note in column.notes)]
    stated = _stated(column)
    if column.nullable:
        stated.append(("nullable", "true", ""))
    stated += [(name, toml_value(value), "") for name, value in column.rules.items()]
    return [*lines, *(_aside(f"{name} = {value}", remark) for name, value, remark in stated)]


def _stated(column: ColumnFacts) -> list[tuple[str, str, str]]:
    """Keys, values and remarks."""
    if column.kind == "truth":
        return [("values", "[true, false]", column.declared)]
    if column.values:
        return [("values", toml_value([_plain(value) for value in column.values]), column.declared)]
    if column.kind == "unknown" and _DATE.match(_snake(column.name)):
        return [
            ("type", '"date"', 'by its name; or "datetime", or "categorical" with values = []'),
            ("edges", "[]", f"state: such as {_SAMPLES['date']}"),
        ]
    if column.kind == "unknown":
        return [
            ("type", '"categorical"', 'or "numeric", "date", "datetime", with edges = []'),
            ("values", "[]", 'state: such as ["no", "yes"]'),
        ]
    if column.kind == "text":
        return [
            ("type", '"categorical"', column.declared),
            ("values", "[]", 'state: such as ["no", "yes"]'),
        ]
    stated = [("type", f'"{_TYPES[column.kind]}"', column.declared)]
    if column.whole:
        stated.append(("whole", "true", ""))
    if column.edges:
        return [*stated, ("edges", _edges(column.edges), "")]
    sample = _SAMPLES["whole" if column.whole else column.kind]
    if column.lower is None and column.upper is None:
        return [*stated, ("edges", "[]", f"state: such as {sample}")]
    bounds = [
        (name, _edge(bound), "")
        for name, bound in (("lower", column.lower), ("upper", column.upper))
        if bound is not None
    ]
    if len(bounds) == 2:
        return [*stated, *bounds, ("# bins", "10", "state: how many, equally wide; or edges instead of all three")]
    return [*stated, *bounds, ("edges", "[]", f"state: such as {sample}, and drop the bound")]


def _edge(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime.date) else toml_value(value)


def _edges(values: Iterable[Any]) -> str:
    return "[" + ", ".join(map(_edge, values)) + "]"


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float)) else str(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_text(name)


def _comment(text: str) -> str:
    """A comment on one line, whatever a name or a title contains."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]


def _aside(text: str, remark: str) -> str:
    return f"{text:<{_COMMENT - 2}}  # {_comment(remark)}" if remark else text


def read_draft(path: str | Path) -> dict[str, Attribute]:
    """The attributes of a draft; incomplete columns become `Undeclared`, with their rules and bounds."""
    return read_description(path, draft_from_dict)


def draft_from_dict(description: Any) -> dict[str, Attribute]:
    """The same from plain values."""
    if not isinstance(description, Mapping):
        raise DomainError("a draft must map names to attributes")
    entries, rules = without_rules(description)
    if rules:
        raise DomainError("a draft has no impossible rules: they must not cut bins; add them to the finished domain")
    return {name: _attribute(name, entry) for name, entry in entries.items()}


def _attribute(name: str, entry: Any) -> Attribute:
    wanted = unfinished(entry)
    if wanted is None:
        return attribute_from_dict(name, entry)
    settings = {key: value for key, value in entry.items() if key not in ("values", "edges", "type", "bins")}
    kind = {"numeric": "number", "date": "date", "datetime": "datetime"}.get(entry.get("type", "numeric"), "number")
    try:
        return Undeclared("text" if wanted == "values" else kind, **settings)  # pyright: ignore[reportArgumentType]
    except DomainError as error:
        raise DomainError(f"{shown(name)}: {error}") from None
    except TypeError:
        raise DomainError(f"{shown(name)}: a key of this draft is not understood; see docs/domain.md") from None
