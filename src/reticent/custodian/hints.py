"""Hints for values that fit no code: what they look like, and which reading rule would read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from reticent.domain import Attribute, Categorical, Numeric
from reticent.domain.domain import toml_value
from reticent.domain.formats import Format, parsed_format
from reticent.domain.rules import fold
from reticent.domain.values import Unread, microsecond_of

MOST_HINTS = 3
_ORDER = ("strip", "casefold", "aliases", "missing", "units", "thousands", "decimal", "negative")
_MISSING = frozenset(
    {
        "",
        "?",
        "-",
        "--",
        ".",
        "..",
        "na",
        "n/a",
        "n.a.",
        "nan",
        "none",
        "null",
        "nil",
        "nd",
        "missing",
        "unknown",
        "#n/a",
        "not available",
        "not applicable",
        "don't know",
        "no answer",
        "k.a.",
    }
)
_YES, _NO = "yes y t on true 1 ja j oui si sí", "no n f off false 0 nein non"
_TRUTHS: dict[str, bool] = {**dict.fromkeys(_YES.split(), True), **dict.fromkeys(_NO.split(), False)}
_CURRENCY = re.compile(r"[$€£¥₹]|\b(USD|EUR|GBP|CHF|JPY)\b")
_NUMBER = re.compile(r"^[^\d]*?(?P<digits>\d[\d.,'’ \u00a0\u202f]*\d|\d)[^\d]*$")
_CLOCKS = (
    *("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S"),
    *(" %H:%M:%S UTC", "T%H:%M:%S%z", "T%H:%M:%S.%f%z", "T%H:%M%z", " %H:%M:%S%z", " %H:%M:%S.%f%z"),
    *(" %H:%M:%S %z", " %H:%M %z", ":%H:%M:%S %z"),
)
_DATES = {
    "yyyy-mm-dd": "%Y-%m-%d",
    "dd/mm/yyyy": "%d/%m/%Y",
    "mm/dd/yyyy": "%m/%d/%Y",
    "dd.mm.yyyy": "%d.%m.%Y",
    "dd-mm-yyyy": "%d-%m-%Y",
    "yyyy/mm/dd": "%Y/%m/%d",
    "yyyymmdd": "%Y%m%d",
    "dd/mm/yy": "%d/%m/%y",
    "mm/dd/yy": "%m/%d/%y",
    "dd.mm.yy": "%d.%m.%y",
    "dd Mon yyyy": "%d %b %Y",
    "dd-Mon-yyyy": "%d-%b-%Y",
    "dd/Mon/yyyy": "%d/%b/%Y",
    "dd-Mon-yy": "%d-%b-%y",
    "Month dd, yyyy": "%B %d, %Y",
    "Mon dd, yyyy": "%b %d, %Y",
    "dd Month yyyy": "%d %B %Y",
}


class Likeness(NamedTuple):
    """The form of a text, the rules that read it, and the group of texts that share one hint."""

    kind: str
    what: str
    rules: Mapping[str, Any]


def hint_for(attribute: Attribute, texts: Iterable[Any]) -> str | None:
    """The forms of the texts, commonest first, and the rules to add to the domain; None if no form is known.

    Texts of one likeness share a hint whose rules read all of them, beside what the attribute's own rules read.
    """
    listed = [text for text in texts if isinstance(text, str)]
    alike: dict[str, list[Likeness]] = {}
    for text in listed:
        if (found := _likeness(attribute, text)) is not None:
            alike.setdefault(found.kind, []).append(found)
    hints = []
    for found in sorted(alike.values(), key=len, reverse=True):
        rules = _together(attribute, [likeness.rules for likeness in found])
        written = ", ".join(f"{name} = {toml_value(value)}" for name, value in rules.items())
        others = ", others likewise" if len({likeness.what for likeness in found}) > 1 else ""
        hints.append(found[0].what + others + (f": {written}" if written else ""))
    if isinstance(attribute, Numeric) and attribute.kind != "number" and (form := _date_hint(attribute, listed)):
        hints.insert(0, form)
    return "; ".join(hints[:MOST_HINTS]) or None


def _together(attribute: Attribute, found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One rule of each name: lists and aliases grow, of marks the commonest stays; the attribute's own come first."""
    own = _own(attribute)
    joined: dict[str, Any] = {}
    for rules in found:
        for name, value in rules.items():
            if isinstance(value, Mapping):
                joined[name] = {**joined.get(name, own.get(name, {})), **value}
            elif isinstance(value, list):
                joined[name] = list(dict.fromkeys([*joined.get(name, own.get(name, [])), *value]))
            elif value not in joined.values() or value is True:  # one mark is not both of two
                joined.setdefault(name, value)
    for name in ("units", "negative"):
        if len(joined.get(name, ())) == 1:
            joined[name] = joined[name][0]
    return {name: joined[name] for name in _ORDER if name in joined}


def _own(attribute: Attribute) -> dict[str, Any]:
    rules = getattr(attribute, "rules", None)
    return {} if rules is None else rules.to_dict()


def _likeness(attribute: Attribute, text: str) -> Likeness | None:
    stripped = text.strip()
    if stripped.casefold() in _MISSING:
        return Likeness("missing", "looks like a mark for missing values", {"missing": [text]})
    if isinstance(attribute, Categorical):
        return _category_hint(attribute, text)
    if isinstance(attribute, Numeric) and attribute.kind != "number":
        return None
    return _number_hint(stripped)


def _category_hint(attribute: Categorical, text: str) -> Likeness | None:
    labels = attribute.labels[: attribute.known]
    plain = fold(text.strip())
    for label in labels:
        if fold(label.strip()) == plain and text != label:
            what = f"differs from {toml_value(label)} in case or blanks alone"
            return Likeness("case", what, _differences(text, label))
    if attribute.kind == "truth values" and plain in _TRUTHS:
        return _truth_hint(text, _TRUTHS[plain])
    if attribute.kind == "numbers":
        return _number_hint(text.strip())
    if attribute.kind != "text" or not plain:
        return None
    if text in labels:
        return Likeness("type", "is written like a declared value, but the column's type is not read as text", {})
    short = [label for label in labels if fold(label).startswith(plain)]
    if len(short) == 1:
        return Likeness("short", f"looks short for {toml_value(short[0])}", {"aliases": {text: short[0]}})
    meant = [label for label in labels if plain in _TRUTHS and _TRUTHS.get(fold(label)) is _TRUTHS[plain]]
    return _truth_hint(text, meant[0]) if len(meant) == 1 else None


def _truth_hint(text: str, value: bool | str) -> Likeness:
    return Likeness("truth", "looks like a truth value", {"aliases": {text: value}})


def _differences(text: str, label: str) -> dict[str, bool]:
    differs = {"strip": text.strip() != text or label.strip() != label, "casefold": text.strip() != label.strip()}
    return {name: True for name, needed in differs.items() if needed}


def _number_hint(text: str) -> Likeness | None:
    """The hint for a number in a form that needs rules."""
    found = _NUMBER.match(text)
    if found is None:
        return None
    rules: dict[str, Any] = {}
    before, after, digits = text[: found.start("digits")], text[found.end("digits") :], found["digits"]
    what = "looks like a number with a unit"
    if "(" in before and ")" in after:
        rules["negative"] = ["parentheses"]
    elif "-" in after:
        rules["negative"] = ["trailing"]
    around = (before + after).translate({ord(sign): None for sign in "()+-"}).strip()
    if around == "%":
        what = "looks like a percentage"
    elif _CURRENCY.search(around):
        what = "has a currency sign"
    if around:
        rules["units"] = [around]
    thousands, decimal = _marks(digits)
    if thousands:
        rules["thousands"] = thousands
        what = "has separators between thousands" if not around else what
    if decimal == ",":
        rules["decimal"] = ","
        what = "looks like a decimal comma" if not around and not thousands else what
    if "negative" in rules and not around:
        form = "in parentheses" if "(" in before else "with the minus sign behind it"
        what = f"looks like a negative number {form}"
    return Likeness("number", what, rules) if rules else None


def _marks(digits: str) -> tuple[str, str]:
    """The marks between thousands and before decimals; empty if there is none."""
    marks = [c for c in digits if not c.isdigit()]
    if not marks:
        return "", ""
    kinds = set(marks)
    last, groups = digits.rpartition(marks[-1])[2], re.split(r"\D", digits)
    grouped = len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])
    if len(kinds) == 1:
        mark = marks[0]
        if mark in ".," and len(marks) == 1 and not (grouped and mark == "," and len(last) == 3):
            return "", mark
        return (_plain_space(mark), "") if grouped else ("", "")
    if len(kinds) == 2 and marks.count(marks[-1]) == 1 and marks[-1] in ".,":
        return _plain_space(marks[0]), marks[-1]
    return "", ""


def _plain_space(mark: str) -> str:
    return {"’": "'", "\u00a0": " ", "\u202f": " "}.get(mark, mark)


def _date_hint(attribute: Attribute, texts: list[str]) -> str | None:
    """The formats that read most of the texts, in addition to the declared ones.

    The order of day and month is the one that reads more texts; with both orders a date would be ambiguous.
    """
    left = [text.strip() for text in texts if text.strip().casefold() not in _MISSING]
    seen: list[str] = []
    forms: list[str] = []
    while left and len(forms) < MOST_HINTS:
        read, shown, form = max(
            (
                (
                    sum(_reads(parsed_format(form + clock), text) for text in left),
                    shown + bool(clock) * " and a time",
                    form + clock,
                )
                for shown, form in _DATES.items()
                for clock in _CLOCKS
                if not any(_swapped(form) == _days(known) for known in forms)
            ),
            key=lambda found: found[0],
        )
        if not read:
            break
        seen, forms = [*seen, shown], [*forms, form]
        left = [text for text in left if not _reads(parsed_format(form), text)]
    if not forms:
        return None
    declared = _own(attribute).get("format", [])
    declared = [declared] if isinstance(declared, str) else declared
    listed = [*declared, *forms]
    return f"looks like {', or '.join(seen)}: format = {toml_value(listed if len(listed) > 1 else listed[0])}"


def _days(form: str) -> str:
    """The part of a format before its clock."""
    return min((form.removesuffix(clock) for clock in _CLOCKS), key=len)


def _swapped(form: str) -> str:
    """The format with day and month exchanged; None for formats that name the month."""
    return "" if "%m" not in form or form.startswith("%Y") else form.translate({ord("d"): "m", ord("m"): "d"})


def _reads(form: Format, text: str) -> bool:
    iso = form.read(text)
    return iso is not None and not isinstance(microsecond_of(iso), Unread)
