"""A domain is the public description of a table: named attributes, in order, and nothing about its rows."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any

from reticent.domain.attribute import Attribute, checked_text, closest, shown
from reticent.domain.categorical import Categorical, Integer
from reticent.domain.numeric import Numeric
from reticent.errors import DomainError

MAX_NAME_LENGTH = 128
RESERVED_PREFIX = "__"

_EXTRAS = ("nullable", "other")
_KEYS = {
    "categorical": ("values", *_EXTRAS),
    "numeric": ("edges", "lower", "upper", "bins", "whole", "outside", *_EXTRAS),
    "integer": ("size",),
}
_TELLING = {"values": "categorical", "edges": "numeric", "lower": "numeric", "size": "integer"}


class Domain(Mapping[str, Attribute]):
    """`Domain(age=Numeric(...), sex=Categorical(...))`, or a mapping; a plain integer means that many codes."""

    def __init__(self, attributes: Mapping[str, Attribute | int] | None = None, /, **named: Attribute | int) -> None:
        if attributes is not None and not isinstance(attributes, Mapping):
            raise DomainError(f"a domain needs a mapping of names to attributes, not {type(attributes).__name__}")
        given = {**(attributes or {}), **named}
        if len(given) < len(attributes or {}) + len(named):
            raise DomainError("an attribute is named both in the mapping and as a keyword")
        if not given:
            raise DomainError("a domain needs at least one attribute")
        self.attributes: dict[str, Attribute] = {
            _checked_name(name): _attribute(name, value) for name, value in given.items()
        }
        folded: dict[str, str] = {}
        for name in self.attributes:
            if folded.setdefault(name.lower(), name) != name:
                raise DomainError(f"names {folded[name.lower()]} and {name} differ only in case, which SQL ignores")
        self.names: tuple[str, ...] = tuple(self.attributes)
        self.positions: dict[str, int] = {name: place for place, name in enumerate(self.names)}

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of codes of each attribute."""
        return tuple(attribute.size for attribute in self.attributes.values())

    @cached_property
    def size(self) -> int:
        """Cells of the universe, exact however many."""
        return math.prod(self.shape)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical description, order included; a ledger is bound to it."""
        text = json.dumps(self.to_dict(), ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def index(self, name: str) -> int:
        """Place of an attribute in the domain's order."""
        try:
            return self.positions[name]
        except (KeyError, TypeError):
            raise DomainError(f"unknown attribute {shown(name)}{closest(str(name), self.names)}") from None

    def canonical(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names in the domain's order."""
        if isinstance(names, str):
            raise DomainError(f"attributes {shown(names)} must be a list of names, not one text")
        places = sorted(self.index(name) for name in names)
        for first, second in itertools.pairwise(places):
            if first == second:
                raise DomainError(f"attribute {shown(self.names[first])} is named twice")
        return tuple(self.names[place] for place in places)

    def shape_of(self, names: Iterable[str]) -> tuple[int, ...]:
        """Sizes of the named attributes, in the order given."""
        return tuple(self.shape[self.index(name)] for name in names)

    def cells(self, names: Iterable[str]) -> int:
        """Number of cells of the marginal over the named attributes."""
        return math.prod(self.shape_of(names))

    def __getitem__(self, name: str) -> Attribute:
        self.index(name)
        return self.attributes[name]

    def __contains__(self, name: object) -> bool:
        return name in self.attributes

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        """Order matters: codes of a record are stored in the domain's order."""
        return isinstance(other, Domain) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}: {size}" for name, size in zip(self.names, self.shape, strict=True))
        return f"Domain({listed}; {self.size} cells)"

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict`, JSON and TOML understand."""
        return {name: attribute.to_dict() for name, attribute in self.items()}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Domain:
        """The inverse of `to_dict`; also `{"column": size}`."""
        if not isinstance(description, Mapping):
            raise DomainError("a domain description must map names to attributes")
        return cls({name: attribute_from_dict(name, entry) for name, entry in description.items()})

    @classmethod
    def read(cls, path: str | Path) -> Domain:
        """Read a .toml or .json file."""
        path = Path(path)
        readers = {".toml": tomllib.loads, ".json": _loads_json}
        if path.suffix.lower() not in readers:
            raise DomainError(f"{path}: a domain file ends in .toml or .json")
        try:
            return cls.from_dict(readers[path.suffix.lower()](path.read_text(encoding="utf-8")))
        except OSError as error:
            raise DomainError(f"{path}: cannot be read ({error.strerror})") from None
        except DomainError as error:
            raise DomainError(f"{path}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise DomainError(f"{path}: {' '.join(str(error).split())}") from None

    def write(self, path: str | Path) -> None:
        """Write a .toml or .json file that `read` turns back into the same domain."""
        path = Path(path)
        if path.suffix.lower() == ".json":
            text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"
        elif path.suffix.lower() == ".toml":
            text = _dumps_toml(self.to_dict())
        else:
            raise DomainError(f"{path}: a domain file ends in .toml or .json")
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise DomainError(f"{path}: cannot be written ({error.strerror})") from None


def attribute_from_dict(name: str, entry: Any) -> Attribute:
    """One attribute of a domain file; the name is for messages."""
    try:
        return _from_dict(entry)
    except DomainError as error:
        raise DomainError(f"{shown(name)}: {error}") from None


def _from_dict(entry: Any) -> Attribute:
    if isinstance(entry, Attribute):
        return entry
    if isinstance(entry, Integral) and not isinstance(entry, bool):
        return Integer(int(entry))
    if not isinstance(entry, Mapping):
        raise DomainError(f"{shown(entry)} must be a number of codes or a table with values, edges or size")
    settings = dict(entry)
    kind = settings.pop("type", None) or next((_TELLING[key] for key in _TELLING if key in settings), None)
    if kind is None:
        raise DomainError("give values (categorical), edges (numeric) or size (integer)")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise DomainError(f"unknown type {shown(kind)}; use {', '.join(_KEYS)}")
    for key in settings:
        if key not in _KEYS[kind]:
            raise DomainError(f"unknown key {shown(key)} for type {kind}{closest(str(key), _KEYS[kind])}")
    if kind == "integer":
        return Integer(settings.get("size", 0))
    if kind == "categorical":
        return Categorical(settings.pop("values", ()), **settings)
    return Numeric(**settings)


def _attribute(name: str, value: Any) -> Attribute:
    if isinstance(value, Attribute):
        return value
    if isinstance(value, Mapping):
        raise DomainError(f"{shown(name)}: use Domain.from_dict for plain descriptions")
    return attribute_from_dict(name, value)


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name or name != name.strip():
        raise DomainError(f"attribute name {name!r} must be text without surrounding spaces")
    if len(name) > MAX_NAME_LENGTH:
        raise DomainError(f"attribute name {shown(name)} has {len(name)} characters; at most {MAX_NAME_LENGTH}")
    checked_text(name)
    if not name.isprintable():
        raise DomainError(f"attribute name {name!r} contains a control character")
    if name.startswith(RESERVED_PREFIX):
        raise DomainError(f"attribute name {shown(name)}: names that begin with {RESERVED_PREFIX} are reserved")
    return name


def _loads_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique_pairs)


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DomainError(f"{shown(twice)} is described twice")
    return entries


def _dumps_toml(description: Mapping[str, Mapping[str, Any]]) -> str:
    """Only what `to_dict` yields: tables of text, numbers, truth values and flat lists."""
    lines: list[str] = []
    for name, entry in description.items():
        lines.append(f"[{_toml_text(name)}]")
        lines += [f"{key} = {_toml_value(value)}" for key, value in entry.items()]
        lines.append("")
    return "\n".join(lines)


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, str):
        return _toml_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _toml_text(text: str) -> str:
    # JSON's escapes are a subset of TOML's, except that TOML also wants DEL escaped and knows no surrogate pairs.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
