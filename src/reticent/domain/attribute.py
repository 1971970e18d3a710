"""An attribute is a finite list of codes and a rule that maps every possible value to exactly one of them."""

from __future__ import annotations

import difflib
import enum
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from reticent.domain.values import Unread, number_of, number_text
from reticent.errors import DomainError, QueryError, given

if TYPE_CHECKING:
    from reticent.domain.rules import Rules

NULL_LABEL = "(null)"
OTHER_LABEL = "(other)"
MAX_SIZE = 2**20
"""Codes of one attribute; a vector of that many floats is 8 MiB."""

_CACHED_CODES = 2**22
"""Analysts choose what is compared, so the masks one attribute remembers are limited (about 80 MB at most)."""
_CODE_BYTES = 18
"""Of one code in both outcomes of a comparison, as truth values and as numbers."""
_KEY_CODES = 32
"""What one compared value weighs beside its mask, in codes."""
_REMEMBERED = 2**16
_NEGATED = {"!=": "==", "<": ">=", "<=": ">"}


class Status(enum.IntEnum):
    """How one value fits an attribute; for the custodian only."""

    FITS = 0
    NULL = 1
    UNFIT = 2
    OUTSIDE = 3


class CodeTruth:
    """The codes for which a comparison is true and those for which it is false; for the others it is unknown (SQL)."""

    __slots__ = ("false", "true", "vectors")

    def __init__(self, true: np.ndarray, false: np.ndarray) -> None:
        self.true = frozen(true)
        self.false = frozen(false)
        # Indexed by the wanted outcome; None means "on every code", which spares the caller an attribute.
        self.vectors = tuple(None if mask.all() else frozen(mask.astype(np.float64)) for mask in (false, true))


class Attribute(ABC):
    """Codes 0..known-1 are declared values; then `(null)` if nullable, then `(other)` if there is one.

    Nulls get the code `(null)` if it exists, else `(other)`, else code 0. Values that fit no code get `(other)`, else
    `(null)`, else code 0. No row is ever dropped, because that would change the public number of records.
    """

    type: ClassVar[str]
    ordered: ClassVar[bool] = False
    nullable: bool
    other: bool
    known: int
    """Number of declared values or bins."""
    size: int
    """Number of codes, with `(null)` and `(other)`."""
    rules: Rules | None = None
    """How cells are rewritten before they are read; None where they are read as they are."""

    @property
    def null_code(self) -> int | None:
        return self.known if self.nullable else None

    @property
    def other_code(self) -> int | None:
        return self.known + self.nullable if self.other else None

    @property
    def missing_code(self) -> int:
        """The code of nulls."""
        return self.known if self.nullable or self.other else 0

    @property
    def misfit_code(self) -> int:
        """The code of values that fit no declared code."""
        return self.size - 1 if self.nullable or self.other else 0

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The text of each code."""
        return self._known_labels() + (NULL_LABEL,) * self.nullable + (OTHER_LABEL,) * self.other

    @cached_property
    def group_keys(self) -> tuple[Any, ...]:
        """The key of each code in a result table: a category, the label of a bin, None for null."""
        return tuple(self.value(code) for code in range(self.size))

    def value(self, code: int) -> Any:
        """The value that a code decodes to.

        Args:
            code: A code, from 0 to `size` - 1.

        Returns:
            A category or a bin's representative; None for null, `(other)` for other.

        Raises:
            DomainError: The code does not exist.

        Example:
            >>> import reticent as rt
            >>> rt.Categorical(["no", "yes"]).value(1)
            'yes'
        """
        code = int(code)
        if not 0 <= code < self.size:
            raise DomainError(f"code {code} is outside 0..{self.size - 1}")
        if code < self.known:
            return self._known_value(code)
        return None if code == self.null_code else OTHER_LABEL

    @cached_property
    def representatives(self) -> np.ndarray | None:
        """A number for each code, NaN for `(null)` and `(other)`; None if values are not numbers."""
        numbers = self._known_numbers()
        if numbers is None:
            return None
        return frozen(np.concatenate([numbers, np.full(self.size - self.known, np.nan)]))

    @cached_property
    def radii(self) -> np.ndarray:
        """The largest distance of a value of each code from its representative; zero if a code is a single value."""
        return frozen(np.zeros(self.size))

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Declared smallest and largest number; None if values are not numbers."""
        numbers = self._known_numbers()
        return None if numbers is None else (float(numbers.min()), float(numbers.max()))

    @cached_property
    def scaled(self) -> tuple[np.ndarray, float, float] | None:
        """Representatives scaled into [0, 1] by the bounds (0 for codes without one), and the bounds."""
        numbers, bounds = self.representatives, self.bounds
        if numbers is None or bounds is None:
            return None
        lower, upper = bounds
        width = upper - lower
        scaled = (numbers - lower) / width if width > 0 else np.zeros(len(numbers))
        return frozen(np.clip(np.nan_to_num(scaled), 0.0, 1.0)), lower, upper

    def encode(self, values: Any) -> np.ndarray:
        """The codes of raw values. Every engine must give the same codes.

        Args:
            values: A list, an array or an Arrow column; any value has a code.

        Returns:
            One code per value.

        Example:
            >>> import reticent as rt
            >>> rt.Categorical(["no", "yes"]).encode(["yes", "no"]).tolist()
            [1, 0]
        """
        if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iufb":
            return self._encode_numbers(values)
        return self.judge(values)[0]

    def judge(self, values: Any) -> tuple[np.ndarray, np.ndarray]:
        """The codes and statuses of raw values. Each value is encoded independently of all others.

        Args:
            values: A list, an array or an Arrow column; any value has a code.

        Returns:
            One code and one status per value; the status says whether the value is declared, missing or neither.

        Example:
            >>> import reticent as rt
            >>> codes, statuses = rt.Categorical(["no", "yes"]).judge(["yes", "perhaps"])
            >>> codes.tolist()
            [1, 2]
        """
        to_list = getattr(values, "to_pylist", None)
        raw = values if to_list is None else to_list()
        seen: dict[tuple[type, Any], tuple[int, Status]] = {}
        judged = np.array([self._remembered(value, seen) for value in raw], dtype=np.int64).reshape(-1, 2)
        return judged[:, 0], judged[:, 1]

    def _remembered(self, value: Any, seen: dict[tuple[type, Any], tuple[int, Status]]) -> tuple[int, Status]:
        """The same result from a cache, for plain values seen before; no method of another class is called."""
        if type(value) not in (str, int, float, bool):
            return self._judge_one(value)
        key = (type(value), value)
        found = seen.get(key)
        if found is None:
            found = self._judge_one(value)
            if len(seen) < _REMEMBERED:
                seen[key] = found
        return found

    def where(self, op: str, value: Any = None, *, name: str = "value") -> np.ndarray:
        """The codes for which a comparison is true.

        Args:
            op: One of == != < <= > >= in is_null is_known.
            value: The right side of the comparison; a list for "in".
            name: The column's name, for messages.

        Returns:
            A mask over the codes.

        Raises:
            QueryError: The value does not fit the attribute.

        Example:
            >>> import reticent as rt
            >>> rt.Integer(3).where(">=", 1).tolist()
            [False, True, True]
        """
        return self.truth(op, value, name).true

    def truth(self, op: str, value: Any = None, name: str = "value") -> CodeTruth:
        """Both outcomes of one comparison: the codes for which it is true, and those for which it is false.

        For `(null)` every comparison is unknown. `(other)` differs from each declared category, so == is false and !=
        is true; in an ordered attribute it may stand for any value, and every comparison is unknown.

        Args:
            op: One of == != < <= > >= in is_null is_known.
            value: The right side of the comparison; a list for "in".
            name: The column's name, for messages.

        Returns:
            Two masks over the codes; for a code in neither the comparison is unknown.

        Raises:
            QueryError: The value does not fit the attribute.

        Example:
            >>> import reticent as rt
            >>> rt.Integer(3).truth("==", 1).false.tolist()
            [True, False, True]
        """
        key = (op, type(value), value) if op != "in" else (op, *((type(item), item) for item in value))
        masks = self._masks
        try:
            found = masks.get(key)
        except TypeError:
            raise QueryError(f"{name} {op}: cannot compare with {type(value).__name__}") from None
        if found is None:
            found = self._truth(op, value, name)
            weight = self.size + _KEY_CODES * len(key) + sum(len(item) for item in key_texts(value)) // _CODE_BYTES
            if weight <= _CACHED_CODES // 8:
                kept = vars(self)
                kept["_masked"] = kept.get("_masked", 0) + weight
                if kept["_masked"] > _CACHED_CODES:
                    masks.clear()
                    kept["_masked"] = weight
                masks[key] = found
        return found

    @cached_property
    def _masks(self) -> dict[tuple, CodeTruth]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Copies and other processes get the declaration, not the cached masks."""
        return {key: state for key, state in self.__dict__.items() if key not in ("_masks", "_masked")}

    def _truth(self, op: str, value: Any, name: str) -> CodeTruth:
        codes = np.arange(self.size)
        if op == "is_null":
            null = codes == (-1 if self.null_code is None else self.null_code)
            return CodeTruth(null, ~null)
        known = codes < self.known
        if op == "is_known":
            return CodeTruth(known, ~known)
        wanted = tuple(value) if op == "in" else (value,)
        holds = np.zeros(self.size, dtype=bool)
        decided = known.copy()
        if op in ("==", "!=", "in"):
            listed = [item for item in wanted if not (self.other and isinstance(item, str) and item == OTHER_LABEL)]
            named_other = len(listed) < len(wanted)
            holds[: self.known] = self._members(op, listed, name)
            if self.other and (named_other or not self.ordered):
                holds[-1], decided[-1] = named_other, True
        elif op in ("<", "<=", ">", ">="):
            holds[: self.known] = self._above(op, value, name)
        else:
            raise QueryError(f"{name} {op}: unknown comparison; use one of == != < <= > >= in is_null is_known")
        true, false = holds & decided, ~holds & decided
        return CodeTruth(false, true) if op in _NEGATED else CodeTruth(true, false)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attribute) and self._declaration == other._declaration

    def __hash__(self) -> int:
        return hash(self._declaration)

    @cached_property
    def _declaration(self) -> str:
        # Text, because 1 == True == 1.0 in Python and they are different declarations.
        return json.dumps(self.to_dict())

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in a domain file.

        Returns:
            The type and its settings.

        Example:
            >>> import reticent as rt
            >>> rt.Integer(3).to_dict()
            {'type': 'integer', 'size': 3}
        """

    @abstractmethod
    def _known_labels(self) -> tuple[str, ...]: ...

    @abstractmethod
    def _known_value(self, code: int) -> Any: ...

    @abstractmethod
    def _known_numbers(self) -> np.ndarray | None: ...

    @abstractmethod
    def _judge_one(self, value: Any) -> tuple[int, Status]: ...

    @abstractmethod
    def _encode_numbers(self, values: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _members(self, op: str, values: list[Any], name: str) -> np.ndarray:
        """Declared codes whose value is among `values`; QueryError if the code does not decide it."""

    @abstractmethod
    def _above(self, op: str, value: Any, name: str) -> np.ndarray:
        """Declared codes with x > value for the operators > and <=, x >= value for >= and <."""


def declare(attribute: Attribute, **fields: Any) -> None:
    """Set the fields of a frozen attribute once, and its size with them; for the constructors of its subclasses."""
    for name, field in fields.items():
        object.__setattr__(attribute, name, field)
    object.__setattr__(attribute, "size", attribute.known + attribute.nullable + attribute.other)
    if attribute.size > MAX_SIZE:
        raise DomainError(f"{attribute.size} codes exceed the limit of {MAX_SIZE}; use wider bins or fewer values")


def extras_of(attribute: Attribute) -> dict[str, Any]:
    """The part of an attribute's description that says how nulls and other cells are read."""
    extra: dict[str, Any] = {}
    if attribute.nullable:
        extra["nullable"] = True
    if attribute.other is attribute.nullable:
        extra["other"] = attribute.other
    return extra if attribute.rules is None else extra | attribute.rules.to_dict()


def checked_extras(nullable: Any, other: Any) -> tuple[bool, bool]:
    """Resolve `other=None`: a column without a null code gets an `(other)` code."""
    if not isinstance(nullable, bool):
        raise DomainError(f"nullable {given(nullable)} must be true or false")
    if other is not None and not isinstance(other, bool):
        raise DomainError(f"other {given(other)} must be true or false")
    return nullable, not nullable if other is None else other


def checked_text(text: str) -> str:
    """Refuse text that no engine can hold: the null character and half of a surrogate pair."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise DomainError(f"text {given(text)} contains a null character or a lone surrogate")
    return str(text)


def shown(value: Any) -> str:
    """A value as messages show it: text quoted, numbers short, everything truncated to 60 characters.

    For a frame or an array given by mistake, which may hold rows, only its type is shown.
    """
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        text = number_text(value) if isinstance(value, float) or value.bit_length() < 1000 else "an integer over 2^1000"
    else:
        return given(value)
    return text if len(text) <= 60 else text[:57] + "..."


def key_texts(value: Any) -> Iterable[str]:
    """The texts in the right side of a comparison."""
    listed = value if isinstance(value, (tuple, list)) else (value,)
    return (item for item in listed if isinstance(item, str))


def closest(wanted: str, known: Iterable[str]) -> str:
    """`; did you mean ...` or the first few possibilities."""
    listed = list(known)
    near = [one for one in listed[:2000] if one.lower() == wanted.lower() != ""][:3]
    near = near or difflib.get_close_matches(wanted, listed[:2000], n=3, cutoff=0.6)
    if near:
        return "; did you mean " + " or ".join(map(_brief, near))
    return "; known: " + ", ".join(map(_brief, listed[:8])) + (", ..." if len(listed) > 8 else "")


def _brief(text: str) -> str:
    return text if text.isprintable() and len(text) <= 60 else shown(text)


def asked_number(op: str, value: Any, name: str) -> float:
    """A finite number from a query; text is refused there, though a text column may hold numbers."""
    number = Unread.MISFIT if isinstance(value, (str, bool)) else number_of(value)
    if not isinstance(number, float) or number in (float("inf"), float("-inf")):
        raise QueryError(f"{name} {op} {shown(value)}: expected a finite number")
    return number


def frozen(array: np.ndarray) -> np.ndarray:
    """The same array, read-only, because all callers share it."""
    array.flags.writeable = False
    return array
