"""A domain is the public description of a table: named attributes, in order, and nothing about its rows."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

from reticent.domain.attribute import Attribute, checked_text, closest, shown
from reticent.domain.categorical import Categorical, Integer
from reticent.domain.files import replacing
from reticent.domain.impossible import Impossible, read_rules
from reticent.domain.numeric import Numeric
from reticent.errors import DomainError, given, has_items, has_type, is_list, is_mapping, require

T = TypeVar("T")

MAX_NAME_LENGTH = 128
RESERVED_PREFIX = "__"
_COUNTED_SETS = 4096
"""Sets of columns whose cells are remembered."""

_EXTRAS = ("nullable", "other", "strip", "casefold", "aliases", "missing", "decimal", "thousands", "units", "negative")
_NUMERIC = ("edges", "lower", "upper", "bins", "whole", "outside", "format", *_EXTRAS)
_KEYS = {
    "categorical": ("values", *_EXTRAS),
    "numeric": _NUMERIC,
    "integer": ("size",),
    "date": _NUMERIC,
    "datetime": _NUMERIC,
}
_TELLING = {"values": "categorical", "edges": "numeric", "lower": "numeric", "size": "integer"}
DISCOVERED = "__discovered__"
"""Where a domain file says what was paid to find its edges and values."""
IMPOSSIBLE = "__impossible__"
"""Where a description lists rules about records that cannot exist."""
RULES = "impossible"
"""The same in files that people write; a column of this name is a table or a number there, and rules are a list."""


class Domain(Mapping[str, Attribute]):
    """The public description of a table: its columns, in order, and the values that each can take.

    Write it without looking at the rows, because it is published. `Domain.read` and `write` use .toml or .json files.

    Args:
        attributes: A mapping from names to attributes; for names that are not Python identifiers.
        impossible: Conditions that no record can satisfy, as SQL text or from `rt.col`. Hypotheses have probability 0
            there, and synthetic rows do not occur there. Whether the rules together leave a record is checked by
            `reticent domain show`, releases, sessions and `rt.fit`, before anything is spent.
        **named: Attributes by keyword. A plain integer is a number of codes.

    Raises:
        DomainError: There is no attribute, a name occurs twice, a size is below 1, or a rule is always or never true.

    Example:
        >>> import reticent as rt
        >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), children=5)
        >>> domain.names
        ('age', 'children')
        >>> rules = [(rt.col("age") < 10) & (rt.col("children") > 0)]
        >>> rt.Domain(domain, impossible=rules).impossible[0].text
        '"age" < 10 AND "children" > 0'
    """

    def __init__(
        self,
        attributes: Mapping[str, Attribute | int] | None = None,
        /,
        *,
        impossible: Sequence[Any] = (),
        **named: Attribute | int,
    ) -> None:
        if attributes is not None and not is_mapping(attributes):
            raise DomainError(f"a domain needs a mapping of names to attributes, not {type(attributes).__name__}")
        if isinstance(impossible, (Attribute, Integral)):
            raise DomainError("impossible= takes rules; give a column of this name in the mapping")
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
        self.discovered: tuple[Mapping[str, Any], ...] = attributes.discovered if isinstance(attributes, Domain) else ()
        """What ledgers paid to find edges and values of this domain (`rt.discover`): whatever rests on it adds that."""
        self.names: tuple[str, ...] = tuple(self.attributes)
        self.positions: dict[str, int] = {name: place for place, name in enumerate(self.names)}
        self.impossible: tuple[Impossible, ...] = ()
        """Rules that no record can satisfy, compiled."""
        self.impossible = read_rules(impossible, self)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of codes of each attribute."""
        return tuple(attribute.size for attribute in self.attributes.values())

    @cached_property
    def size(self) -> int:
        """The number of cells of the universe, as an exact integer."""
        return math.prod(self.shape)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical description, including the order; a ledger records it."""
        text = json.dumps(self.to_dict(), ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def index(self, name: str) -> int:
        """The position of an attribute in the domain.

        Args:
            name: Its name.

        Returns:
            The position, from 0.

        Raises:
            DomainError: The name is not in the domain.

        Example:
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> domain.index("sex")
            1
        """
        try:
            return self.positions[name]
        except (KeyError, TypeError):
            raise DomainError(f"unknown attribute {shown(name)}{closest(str(name), self.names)}") from None

    def canonical(self, names: Iterable[str]) -> tuple[str, ...]:
        """Sort names into the order of the domain.

        Args:
            names: Attribute names.

        Returns:
            The names, sorted.

        Raises:
            DomainError: A name is not in the domain, or repeated.

        Example:
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> domain.canonical(["sex", "age"])
            ('age', 'sex')
        """
        if isinstance(names, str) or not has_items(names):
            told = shown(names) if isinstance(names, str) else given(names)
            raise DomainError(f"attributes {told} must be a list of names")
        places = sorted(self.index(name) for name in names)
        for first, second in itertools.pairwise(places):
            if first == second:
                raise DomainError(f"attribute {shown(self.names[first])} is named twice")
        return tuple(self.names[place] for place in places)

    def shape_of(self, names: Iterable[str]) -> tuple[int, ...]:
        """Sizes of the named attributes, in the order given.

        Args:
            names: Attribute names.

        Returns:
            One size for each.

        Raises:
            DomainError: A name is not in the domain.

        Example:
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> domain.shape_of(["sex", "age"])
            (2, 10)
        """
        if not has_items(names):
            raise DomainError(f"attributes {given(names)} must be a list of names")
        return tuple(self.shape[self.index(name)] for name in names)

    def cells(self, names: Iterable[str]) -> int:
        """Number of cells of the marginal over the named attributes.

        Args:
            names: Attribute names.

        Returns:
            The product of their sizes.

        Raises:
            DomainError: A name is not in the domain.

        Example:
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> domain.cells(["age", "sex"])
            20
        """
        if not has_type(names, (tuple, frozenset)):
            return math.prod(self.shape_of(names))
        try:
            return self._counted[names]
        except (KeyError, TypeError):
            found = math.prod(self.shape_of(names))
        if len(self._counted) < _COUNTED_SETS:
            self._counted[names] = found
        return found

    @cached_property
    def _counted(self) -> dict[Iterable[str], int]:
        """A cache of cell counts by set of names."""
        return {}

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
        """Describe the domain in plain values for JSON and TOML.

        Returns:
            The description; `from_dict` is the inverse.

        Example:
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> rt.Domain.from_dict(domain.to_dict()) == domain
            True
        """
        found: dict[str, Any] = {DISCOVERED: [dict(paid) for paid in self.discovered]} if self.discovered else {}
        if self.impossible:
            found[IMPOSSIBLE] = [rule.text for rule in self.impossible]
        return {name: attribute.to_dict() for name, attribute in self.items()} | found

    def with_discovered(self, *paid: Mapping[str, Any]) -> Domain:
        """The same attributes, with a record of the ledgers that paid for their discovery.

        Args:
            paid: The payment of each ledger, as `rt.discover` records it; repeated ones are kept once.

        Returns:
            A new domain.

        Example:
            >>> import reticent as rt
            >>> rt.Domain(a=3).with_discovered().discovered
            ()
        """
        for each in paid:
            require(each, Mapping, "paid", "what a discovery's domain lists as discovered")
        known = {each["ledger"] for each in self.discovered}
        domain = Domain(self.attributes, impossible=[rule.text for rule in self.impossible])
        domain.discovered = (*self.discovered, *(_paid(each) for each in paid if each.get("ledger") not in known))
        return domain

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Domain:
        """The domain of a description that `to_dict` returned; also of `{"column": size}`.

        Args:
            description: Plain values, as JSON and TOML hold them.

        Returns:
            The domain.

        Raises:
            DomainError: The description is not that of a domain.

        Example:
            >>> import reticent as rt
            >>> rt.Domain.from_dict({"a": 3, "b": 2}).size
            6
        """
        if not is_mapping(description):
            raise DomainError("a domain description must map names to attributes")
        entries, rules = without_rules(description)
        _refuse_unfinished(entries)
        attributes = {name: attribute_from_dict(name, entry) for name, entry in entries.items()}
        domain = cls(attributes, impossible=rules)
        paid = description.get(DISCOVERED, [])
        if not is_list(paid):
            raise DomainError(f"{DISCOVERED} must be a list of what was paid; leave it as discovery wrote it")
        return domain.with_discovered(*paid) if paid else domain

    @classmethod
    def read(cls, path: str | Path) -> Domain:
        """Read a domain from a .toml or .json file.

        Args:
            path: The file.

        Returns:
            The domain.

        Raises:
            DomainError: The file cannot be read or does not describe a domain; the message names the file.

        Example:
            >>> import tempfile
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     domain.write(f"{folder}/people.toml")
            ...     rt.Domain.read(f"{folder}/people.toml") == domain
            True
        """
        return read_description(path, cls.from_dict)

    def write(self, path: str | Path) -> None:
        """Write a .toml or .json file; `read` turns it back into the same domain.

        Args:
            path: The file to write; its suffix decides the format.

        Raises:
            DomainError: The file cannot be written, or has another suffix.

        Example:
            >>> import tempfile
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     domain.write(f"{folder}/people.json")
        """
        path = _named(path)
        if path.suffix.lower() == ".json":
            text = json.dumps(_for_people(self.to_dict()), indent=2, ensure_ascii=False) + "\n"
        elif path.suffix.lower() == ".toml":
            text = dumps_toml(_for_people(self.to_dict()))
        else:
            raise DomainError(f"{path}: a domain file ends in .toml or .json")
        try:
            with replacing(path) as draft:
                draft.write_text(text, encoding="utf-8")
        except OSError as error:
            raise DomainError(f"{path}: cannot be written ({error.strerror})") from None


def without_rules(description: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The attributes of a description, and its rules; payments of discovery are left out."""
    rules: list[Any] = []
    for key in (IMPOSSIBLE, RULES):
        listed = description.get(key)
        if is_list(listed):
            if not all(isinstance(rule, str) for rule in listed):
                raise DomainError(f'{key} must list conditions as text, such as ["age < 15 and pay > 0"]')
            rules += listed
        elif key == IMPOSSIBLE and listed is not None:
            raise DomainError(f"{IMPOSSIBLE} must be a list of conditions; leave it as it was written")
    hidden = {DISCOVERED, IMPOSSIBLE, *((RULES,) if is_list(description.get(RULES)) else ())}
    return {name: entry for name, entry in description.items() if name not in hidden}, rules


def _for_people(description: dict[str, Any]) -> dict[str, Any]:
    """The description with rules first, under the name `impossible` unless a column has that name."""
    if IMPOSSIBLE not in description:
        return description
    rest = {name: entry for name, entry in description.items() if name != IMPOSSIBLE}
    return {IMPOSSIBLE if RULES in rest else RULES: description[IMPOSSIBLE]} | rest


def read_description(path: str | Path, read: Callable[[Any], T]) -> T:
    """The domain of the content of a .toml or .json file; error messages begin with the file's name."""
    path = _named(path)
    readers = {".toml": tomllib.loads, ".json": _loads_json}
    if path.suffix.lower() not in readers:
        raise DomainError(f"{path}: a domain file ends in .toml or .json")
    try:
        return read(readers[path.suffix.lower()](path.read_text(encoding="utf-8")))
    except OSError as error:
        raise DomainError(f"{path}: cannot be read ({error.strerror})") from None
    except DomainError as error:
        raise DomainError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise DomainError(f"{path}: {' '.join(str(error).split())}") from None


def _named(path: object) -> Path:
    if not isinstance(path, str | Path) or "\0" in str(path):
        raise DomainError(f"path is of type {type(path).__name__}; give the name of a .toml or .json file")
    return Path(path)


def attribute_from_dict(name: str, entry: Any) -> Attribute:
    """One attribute of a domain file; the name is for messages."""
    try:
        return _from_dict(entry)
    except DomainError as error:
        raise DomainError(f"{shown(name)}: {error}") from None


def _from_dict(entry: Any) -> Attribute:
    if isinstance(entry, Attribute):
        return entry
    if isinstance(entry, Integral) and not has_type(entry, bool):
        return Integer(int(entry))
    if not is_mapping(entry):
        raise DomainError(f"{shown(entry)} must be a number of codes or a table with values, edges or size")
    settings: dict[str, Any] = dict(entry)
    kind: Any = settings.pop("type", None) or next((_TELLING[key] for key in _TELLING if key in settings), None)
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
    numeric = Numeric(**settings)
    if kind != "numeric" and numeric.kind != kind:
        raise DomainError(f"type {kind} but the edges are {numeric.kind}s; write {kind}s as edges, or another type")
    return numeric


def unfinished(entry: Any) -> str | None:
    """The key that is still empty in a draft's column, "values" or "edges"; None if the column is complete."""
    if not is_mapping(entry):
        return None
    kind: Any = entry.get("type")
    empty: tuple[Any, ...] = ([], None)
    numeric = kind in ("numeric", "date", "datetime")
    if not numeric and (entry.get("values", None) == [] or (kind == "categorical" and entry.get("values") in empty)):
        return "values"
    bins = all(entry.get(name) is not None for name in ("lower", "upper", "bins"))
    return "edges" if entry.get("edges") in empty and not bins and (numeric or "edges" in entry) else None


def _refuse_unfinished(entries: Mapping[str, Any]) -> None:
    open_ones: dict[str, list[str]] = {}
    for name, entry in entries.items():
        if (wanted := unfinished(entry)) is not None:
            open_ones.setdefault(wanted, []).append(shown(name))
    if open_ones:
        told = "; ".join(f"{what} of {_first_of(names)}" for what, names in open_ones.items())
        raise DomainError(
            f"not finished: state {told}; delete columns that you will not publish, or find what is missing with"
            " `reticent domain discover`"
        )


def _first_of(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _paid(entry: Any) -> dict[str, Any]:
    """One payment of discovery, with its form checked; amounts are checked when they are added."""
    wanted: dict[str, type] = {"ledger": str, "budget": Mapping, "spent": int, "neighbours": str, "unit": str}
    if not is_mapping(entry) or set(entry) != set(wanted):
        raise DomainError(f"{DISCOVERED} has {', '.join(wanted)} for each ledger; leave it as discovery wrote it")
    for name, kind in wanted.items():
        if not isinstance(entry[name], kind) or isinstance(entry[name], bool):
            raise DomainError(f"{DISCOVERED}: {name} is damaged; leave it as discovery wrote it")
    return {**entry, "budget": dict(entry["budget"])}


def _attribute(name: str, value: Any) -> Attribute:
    if isinstance(value, Attribute):
        return value
    if isinstance(value, Mapping):
        raise DomainError(f"{shown(name)}: use Domain.from_dict for plain descriptions")
    return attribute_from_dict(name, value)


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name or name != name.strip():
        raise DomainError(f"attribute name {given(name)} must be text without surrounding spaces")
    if len(name) > MAX_NAME_LENGTH:
        raise DomainError(f"attribute name {shown(name)} has {len(name)} characters; at most {MAX_NAME_LENGTH}")
    checked_text(name)
    if not name.isprintable():
        raise DomainError(f"attribute name {given(name)} contains a control character")
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


def dumps_toml(description: Mapping[str, Any]) -> str:
    """TOML of what `to_dict` returns: tables of text, numbers, truth values, flat lists and flat tables."""
    lines: list[str] = []
    description = dict(description)
    for name in (IMPOSSIBLE, RULES):
        if is_list(listed := description.get(name)):
            rules = ",\n".join(f"    {toml_text(rule)}" for rule in listed)
            del description[name]
            lines += [f"{name} = [\n{rules},\n]", ""]
    for name, entry in description.items():
        tables: list[dict[str, Any]] = entry if is_list(entry) else [entry]
        for table in tables:
            header = f"[{toml_text(name)}]"
            lines.append(f"[{header}]" if is_list(entry) else header)
            lines += [f"{key} = {toml_value(value)}" for key, value in table.items()]
            lines.append("")
    return "\n".join(lines)


def toml_value(value: Any) -> str:
    """One value as TOML writes it."""
    if is_list(value):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if is_mapping(value):
        return "{" + ", ".join(f"{toml_text(key)} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def toml_text(text: str) -> str:
    """A quoted text, as value or as key."""
    # JSON's escapes are a subset of TOML's, except that TOML also wants DEL escaped and knows no surrogate pairs.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
