"""Predicates: conditions on one record, comparisons joined by and, or, not, with SQL's three truth values.

A comparison with `(null)` is unknown, and so is its negation; a record counts if the whole condition is true. Trees are
frozen, limited in depth and size, and have a canonical text that does not depend on the order of writing.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

from reticent.domain import Domain
from reticent.domain.attribute import shown
from reticent.errors import QueryError, has_items, has_type, is_list, is_mapping
from reticent.queries.box import Box, CompileEffort
from reticent.queries.forms import Form
from reticent.queries.literals import (
    literal,
    literal_from_plain,
    literal_text,
    literal_to_plain,
    name_text,
    readable_name,
)

MAX_DEPTH = 64
MAX_SIZE = 20_000
"""Comparisons and listed values in one predicate."""

SHARED = 4096
"""Comparisons and lists that were parsed last: they are frozen, so questions share them and the texts they wrote."""
SHARED_VALUES = 32
SHARED_LENGTH = 256
"""Characters of a comparison that is shared."""
_PLAIN = frozenset({str, int, bool})
READ_CODES = 128
"""A comparison keeps what it says about a column of up to so many codes: 2 kB at most, so 20 MB for all shared ones."""

_NEGATION = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_UNARY = {"is_null": "is null", "is_known": "is known"}


class Predicate:
    """A condition, combined with `&`, `|`, `~`; two predicates are equal if their canonical texts are."""

    __slots__ = ("_text", "depth", "size")
    depth: int
    size: int

    def __and__(self, other: Predicate) -> Predicate:
        return _joined("and", (self, other))

    def __or__(self, other: Predicate) -> Predicate:
        return _joined("or", (self, other))

    def __rand__(self, other: object) -> Predicate:
        raise _without_parentheses()

    def __ror__(self, other: object) -> Predicate:
        raise _without_parentheses()

    def __invert__(self) -> Predicate:
        return negated(self)

    def __bool__(self) -> bool:
        raise QueryError("a predicate has no truth value; use & | ~ instead of and, or, not, and between(a, b)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Predicate) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Callable[[Any], Predicate], tuple[dict[str, Any]]]:
        return predicate_from_dict, (self.to_dict(),)

    @property
    def text(self) -> str:
        """Canonical text: the same for trees that differ only in order, nesting or repetition."""
        try:
            return self._text
        except AttributeError:
            self._text = self._write()
            return self._text

    @property
    def digest(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def attributes(self) -> frozenset[str]:
        """The columns that the predicate uses."""
        names: set[str] = set()
        self._collect(names)
        return frozenset(names)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, the same for equal texts; `predicate_from_dict` is the inverse."""

    def compile(self, domain: Domain, effort: CompileEffort | None = None) -> Form:
        """The indicator of the predicate, as a product of vectors if it factorises, otherwise as a tensor.

        `effort` limits the cells of several predicates together; without it each has its own limit.
        """
        box = Box(domain, effort)
        self.restrict(box, True)
        return box.form()

    @abstractmethod
    def restrict(self, box: Box, wanted: bool) -> None:
        """Narrow the box to the records where the predicate is true (or false, if that is wanted)."""

    @abstractmethod
    def _write(self) -> str: ...

    @abstractmethod
    def _collect(self, names: set[str]) -> None: ...


class Everything(Predicate):
    """The condition that is true for every record."""

    __slots__ = ()
    depth = 1
    size = 1

    def to_dict(self) -> dict[str, Any]:
        return {"op": "everything"}

    def restrict(self, box: Box, wanted: bool) -> None:
        box.empty = box.empty or not wanted

    def _write(self) -> str:
        return "everything"

    def _collect(self, names: set[str]) -> None:
        pass


class Comparison(Predicate):
    """One column against a value, a list of values, or nothing (is_null, is_known)."""

    __slots__ = ("_read", "name", "op", "value")

    def __init__(self, name: str, op: str, value: Any = None) -> None:
        self._read: tuple[Any, Any] | None = None
        self.name = name
        self.op = op
        self.value = value
        self.depth = 1
        self.size = len(value) if op == "in" else 1

    def to_dict(self) -> dict[str, Any]:
        if self.op in _UNARY:
            return {"op": self.op, "column": self.name}
        if self.op == "in":
            listed = _sorted_by_text(literal_text, self.value)
            return {"op": "in", "column": self.name, "values": [literal_to_plain(item) for item in listed]}
        return {"op": self.op, "column": self.name, "value": literal_to_plain(self.value)}

    def restrict(self, box: Box, wanted: bool) -> None:
        name, read = self.name, self._read
        attribute = box.domain.attributes.get(name) or box.attribute(name)
        if read is None or read[0] is not attribute:
            read = (attribute, attribute.truth(self.op, self.value, name))
            if attribute.size <= READ_CODES:
                self._read = read
        vector = read[1].vectors[wanted]
        if vector is not None:
            vectors = box.vectors
            vectors[name] = vectors[name] * vector if name in vectors else vector

    def _write(self) -> str:
        name = name_text(self.name)
        if self.op in _UNARY:
            return f"{name} {_UNARY[self.op]}"
        if self.op == "in":
            return f"{name} in [{', '.join(sorted({literal_text(item) for item in self.value}))}]"
        return f"{name} {self.op} {literal_text(self.value)}"

    def _collect(self, names: set[str]) -> None:
        names.add(self.name)


class Junction(Predicate):
    """`and` or `or` of two or more predicates; nested ones of the same kind are flattened."""

    __slots__ = ("op", "operands")

    def __init__(self, op: str, operands: tuple[Predicate, ...]) -> None:
        self.op = op
        self.operands = operands
        depth = size = 0
        for operand in operands:
            size += operand.size
            if operand.depth > depth:
                depth = operand.depth
        self.depth = depth + 1
        self.size = size
        _check_limits(self.depth, size)

    def to_dict(self) -> dict[str, Any]:
        operands = _sorted_by_text(attrgetter("text"), self.operands)
        return {"op": self.op, "of": [operand.to_dict() for operand in operands]}

    def restrict(self, box: Box, wanted: bool) -> None:
        # not (a and b) is (not a) or (not b), also with three truth values
        if (self.op == "and") is wanted:
            for operand in self.operands:
                operand.restrict(box, wanted)
        else:
            box.either(partial(_restrict, operand, wanted) for operand in self.operands)

    def _write(self) -> str:
        texts = sorted({operand.text for operand in self.operands})
        return texts[0] if len(texts) == 1 else f"({f' {self.op} '.join(texts)})"

    def _collect(self, names: set[str]) -> None:
        for operand in self.operands:
            operand._collect(names)


class Not(Predicate):
    """True where the operand is false; unknown stays unknown."""

    __slots__ = ("operand",)

    def __init__(self, operand: Predicate) -> None:
        self.operand = operand
        self.depth = 1 + operand.depth
        self.size = operand.size
        _check_limits(self.depth, self.size)

    def to_dict(self) -> dict[str, Any]:
        return {"op": "not", "of": self.operand.to_dict()}

    def restrict(self, box: Box, wanted: bool) -> None:
        self.operand.restrict(box, not wanted)

    def _write(self) -> str:
        return f"not {self.operand.text}"

    def _collect(self, names: set[str]) -> None:
        self.operand._collect(names)


class Column:
    """A column in a condition, compared with `==`, `!=`, `<`, `<=`, `>` or `>=`.

    Conditions are joined by `&`, `|` and `~`.

    Args:
        name: The column.

    Raises:
        QueryError: `name` is not text.

    Example:
        >>> import reticent as rt
        >>> old = rt.col("age") >= 60
        >>> smokes = rt.col("smoker").isin(["daily", "sometimes"])
        >>> question = rt.count(old & ~smokes)
    """

    __slots__ = ("name",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        if (type(name) is not str and not has_type(name, str)) or not name:
            raise QueryError(f"column name {shown(name)} must be text")
        self.name = name

    def __eq__(self, value: Any) -> Predicate:  # type: ignore[override]
        return Comparison(self.name, "==", literal(value, self.name))

    def __ne__(self, value: Any) -> Predicate:  # type: ignore[override]
        return Comparison(self.name, "!=", literal(value, self.name))

    def __lt__(self, value: Any) -> Predicate:
        return Comparison(self.name, "<", literal(value, self.name))

    def __le__(self, value: Any) -> Predicate:
        return Comparison(self.name, "<=", literal(value, self.name))

    def __gt__(self, value: Any) -> Predicate:
        return Comparison(self.name, ">", literal(value, self.name))

    def __ge__(self, value: Any) -> Predicate:
        return Comparison(self.name, ">=", literal(value, self.name))

    def __and__(self, other: object) -> Predicate:
        # `&` and `|` bind more tightly than comparisons: `a >= 18 & b == "f"` is `a >= (18 & b) == "f"`.
        raise _without_parentheses()

    def __or__(self, other: object) -> Predicate:
        raise _without_parentheses()

    __rand__ = __and__
    __ror__ = __or__

    def __invert__(self) -> Predicate:
        raise _without_parentheses()

    def __bool__(self) -> bool:
        raise QueryError(
            f"column {readable_name(self.name)} has no truth value: compare it with a value, and join comparisons in"
            " parentheses by & | ~"
        )

    def isin(self, values: Iterable[Any]) -> Predicate:
        """Whether the value is one of a list. A bin of whole numbers counts if all of its integers are listed.

        Args:
            values: The values.

        Returns:
            A condition.

        Raises:
            QueryError: The values are not a list.

        Example:
            >>> import reticent as rt
            >>> rt.count(rt.col("region").isin(["north", "east"]))
            count(region in ["east", "north"])
        """
        if not has_type(values, list) and (  # what a body holds: the tests of abstract classes are slow
            has_type(values, (str, bytes, Mapping)) or not has_items(values)
        ):
            raise QueryError(f"{readable_name(self.name)}: isin needs a list of values, not {type(values).__name__}")
        listed = tuple(literal(value, self.name) for value in values)
        if not listed:
            raise QueryError(f"{readable_name(self.name)}: isin got an empty list; list at least one value")
        _check_limits(1, len(listed))
        first = literal_text(listed[0])
        if all(literal_text(value) == first for value in listed):
            return Comparison(self.name, "==", listed[0])
        return Comparison(self.name, "in", listed)

    def between(self, low: Any, high: Any) -> Predicate:
        """Whether the value is at least `low` and at most `high`, as in SQL.

        Args:
            low: The smallest value.
            high: The largest value.

        Returns:
            A condition.

        Raises:
            QueryError: `low` is above `high`, so that no value lies between them.

        Example:
            >>> import reticent as rt
            >>> rt.count(rt.col("age").between(40, 64))
            count((age <= 64 and age >= 40))
        """
        least, most = literal(low, self.name), literal(high, self.name)
        if _above(least, most):
            raise QueryError(
                f"{readable_name(self.name)}: between({shown(low)}, {shown(high)}) holds no value; give the lower end"
                f" first: between({shown(high)}, {shown(low)})"
            )
        return (self >= least) & (self <= most)

    def is_null(self) -> Predicate:
        """Whether the value is missing. Only a column that is declared nullable has a code for missing values.

        Returns:
            A condition.

        Example:
            >>> import reticent as rt
            >>> rt.count(rt.col("age").is_null())
            count(age is null)
        """
        return Comparison(self.name, "is_null")

    def is_known(self) -> Predicate:
        """Whether the value is one of the declared values or bins, neither `(null)` nor `(other)`.

        Returns:
            A condition.

        Example:
            >>> import reticent as rt
            >>> rt.count(rt.col("age").is_known())
            count(age is known)
        """
        return Comparison(self.name, "is_known")

    def __repr__(self) -> str:
        return f"col({self.name!r})"


col = Column


def _without_parentheses() -> QueryError:
    return QueryError('put each comparison in parentheses: (col("age") >= 18) & (col("sex") == "f")')


def _above(low: Any, high: Any) -> bool:
    """Whether a literal lies above another one of its kind; texts are ordered by their column's declaration."""
    numbers = type(low) in (int, float) and type(high) in (int, float)
    return (numbers or (type(low) in (date, datetime) and type(high) is type(low))) and low > high


def all_of(predicates: Iterable[Predicate]) -> Predicate:
    """The conjunction of predicates; without any, the condition that is always true."""
    return _joined("and", predicates)


def any_of(predicates: Iterable[Predicate]) -> Predicate:
    """The disjunction of predicates; without any, the condition that is never true."""
    return _joined("or", predicates)


def negated(predicate: Predicate) -> Predicate:
    """The negation; a double negation is removed and a comparison is inverted."""
    if isinstance(predicate, Not):
        return predicate.operand
    if isinstance(predicate, Comparison) and predicate.op in _NEGATION:
        return Comparison(predicate.name, _NEGATION[predicate.op], predicate.value)
    return Not(predicate)


def _joined(op: str, predicates: Iterable[Predicate]) -> Predicate:
    operands: list[Predicate] = []
    for predicate in predicates:
        if type(predicate) is Junction and predicate.op == op:
            operands += predicate.operands
        elif has_type(predicate, Predicate):
            if op == "or" or type(predicate) is not Everything:
                operands.append(predicate)
        elif isinstance(predicate, Column):
            raise _without_parentheses()
        else:
            raise QueryError(
                f"{type(predicate).__name__} is not a predicate; write comparisons in parentheses: (a == 1) & (b == 2)"
            )
    if not operands:
        return Everything() if op == "and" else negated(Everything())
    if len(operands) == 1:
        return operands[0]
    junction = Junction(op, tuple(operands))  # checks the limits before any text is written
    first = operands[0]
    repeated = _alike(first, operands[1]) and all(_alike(first, operand) for operand in operands)
    return first if repeated else junction


def _alike(first: Predicate, second: Predicate) -> bool:
    """Equality that avoids computing canonical texts, because columns usually differ."""
    if type(first) is Comparison and type(second) is Comparison and first.name != second.name:
        return False
    return first.text == second.text


def _sorted_by_text(text: Callable[[Any], str], items: Iterable[Any]) -> list[Any]:
    """The predicates without repetition, sorted by canonical text."""
    named = {text(item): item for item in items}
    return [named[name] for name in sorted(named)]


def _restrict(operand: Predicate, wanted: bool, box: Box) -> None:
    operand.restrict(box, wanted)


def _check_limits(depth: int, size: int) -> None:
    if depth > MAX_DEPTH:
        raise QueryError(f"the predicate is nested {depth} deep; at most {MAX_DEPTH}")
    if size > MAX_SIZE:
        raise QueryError(
            f"the predicate has {size} comparisons and values; at most {MAX_SIZE}: use fewer, or a coarser column"
        )


def predicate_from_dict(description: Any) -> Predicate:
    """The inverse of `to_dict`: a closed vocabulary, validated, limited in depth and size."""
    return _parsed(description, MAX_DEPTH)


def _parsed(description: Any, depth: int) -> Predicate:
    if depth == 0:
        raise QueryError(f"the predicate is nested more than {MAX_DEPTH} deep")
    op = description.get("op") if is_mapping(description) else None
    if not isinstance(op, str):
        raise QueryError('a predicate is an object such as {"op": ">=", "column": "age", "value": 45}')
    shared = _shared(op, description) if len(description) == 3 else None
    if shared is not None:
        return shared
    if op == "everything":
        _expect_keys(description, "op")
        return Everything()
    if op in ("and", "or"):
        _expect_keys(description, "op", "of")
        parts = description["of"]
        if not is_list(parts) or not 2 <= len(parts) <= MAX_SIZE:
            raise QueryError(f'"{op}" needs a list of two or more predicates in "of"')
        return _joined(op, [_parsed(part, depth - 1) for part in parts])
    if op == "not":
        _expect_keys(description, "op", "of")
        return negated(_parsed(description["of"], depth - 1))
    return _parsed_comparison(op, description)


def _parsed_comparison(op: str, description: Mapping[str, Any]) -> Predicate:
    if op in _UNARY:
        _expect_keys(description, "op", "column")
        return Comparison(Column(description["column"]).name, op)
    if op == "in":
        _expect_keys(description, "op", "column", "values")
        return _listed(description["column"], description["values"])
    if op in _NEGATION:
        _expect_keys(description, "op", "column", "value")
        return _compared(description["column"], op, description["value"])
    known = [*_NEGATION, "in", *_UNARY, "and", "or", "not", "everything"]
    raise QueryError(f"unknown predicate op {shown(op)}; use {' '.join(known)}")


def _shared(op: str, description: Mapping[str, Any]) -> Predicate | None:
    """A plain comparison or list from the cache, or parsed now; None if the description needs the full parser."""
    column = description.get("column")
    if type(column) is not str:
        return None
    if op in _NEGATION:
        value: Any = description.get("value")
        if type(value) is int or (type(value) is str and len(column) + len(value) <= SHARED_LENGTH):
            return _shared_comparison(column, op, type(value), value)
    elif op == "in":
        values = description.get("values")
        if is_list(values) and len(values) <= SHARED_VALUES:
            kinds: tuple[type, ...] = tuple(map(type, values))
            if _PLAIN.issuperset(kinds) and len(column) + sum(map(len, map(str, values))) <= SHARED_LENGTH:
                return _shared_list(column, kinds, tuple(values))
    return None


def _listed(column: Any, values: Any) -> Predicate:
    named = Column(column)
    if not is_list(values):
        raise QueryError(f'{readable_name(named.name)}: "values" must be a list')
    return named.isin([literal_from_plain(value, named.name) for value in values])


def _compared(column: Any, op: str, value: Any) -> Predicate:
    name = Column(column).name
    return Comparison(name, op, literal_from_plain(value, name))


@lru_cache(maxsize=SHARED)
def _shared_list(column: str, kinds: tuple[type, ...], values: tuple[Any, ...]) -> Predicate:
    """A cached list; types are part of the cache key, because values compare equal across types (1 and true)."""
    return _listed(column, list(values))


@lru_cache(maxsize=SHARED)
def _shared_comparison(column: str, op: str, kind: type, value: int | str) -> Predicate:
    return _compared(column, op, value)


def _expect_keys(description: Mapping[str, Any], *keys: str) -> None:
    if len(description) != len(keys) or not all(map(description.__contains__, keys)):
        raise QueryError(f"predicate {shown(description['op'])} needs exactly the keys {', '.join(keys)}")
