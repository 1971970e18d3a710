"""What values that fit nowhere look like, and which reading rule would read them: judged by their form alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from reticent.domain import Attribute, Categorical, Numeric
from reticent.domain.domain import toml_value
from reticent.domain.formats import Format, parsed_format
from reticent.domain.rules import fold
from reticent.domain.values import Unread, microsecond_of

MOST_HINTS = 3
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
    }
)
_TRUTHS = {"yes": True, "y": True, "t": True, "on": True, "no": False, "n": False, "f": False, "off": False}
_CURRENCY = re.compile(r"[$€£¥₹]|\b(USD|EUR|GBP|CHF|JPY)\b")
_NUMBER = re.compile(r"^[^\d]*?(?P<digits>\d[\d.,'’ \u00a0\u202f]*\d|\d)[^\d]*$")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
_DATES = {
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
    "dd-Mon-yy": "%d-%b-%y",
    "Month dd, yyyy": "%B %d, %Y",
    "Mon dd, yyyy": "%b %d, %Y",
    "dd Month yyyy": "%d %B %Y",
}


def hint_for(attribute: Attribute, texts: Iterable[Any]) -> str | None:
    """What the texts look like, commonest first, and what to write into the domain; None where no form is known."""
    listed = [text for text in texts if isinstance(text, str)]
    told = Counter(hint for text in listed if (hint := _likeness(attribute, text)) is not None)
    # Of hints that say the same the one with most rules: it reads the others, too.
    longest: dict[str, str] = {}
    for hint, _ in told.most_common():
        what = hint.partition(":")[0]
        longest[what] = max(longest.get(what, ""), hint, key=len)
    found = list(longest.values())
    if isinstance(attribute, Numeric) and attribute.kind != "number" and (form := _date_hint(listed)) is not None:
        found.insert(0, form)
    return "; ".join(found[:MOST_HINTS]) or None


def _likeness(attribute: Attribute, text: str) -> str | None:
    stripped = text.strip()
    if stripped.casefold() in _MISSING:
        return f"looks like a mark for missing values: missing = {toml_value([text])}"
    if isinstance(attribute, Categorical):
        return _category_hint(attribute, text)
    return _number_hint(stripped) if not isinstance(attribute, Numeric) or attribute.kind == "number" else None


def _category_hint(attribute: Categorical, text: str) -> str | None:
    labels = attribute.labels[: attribute.known]
    plain = fold(text.strip())
    for label in labels:
        if fold(label.strip()) == plain and text != label:
            rules = [name for name, differs in _differences(text, label) if differs]
            return f"differs from {toml_value(label)} in case or blanks alone: {', '.join(rules)}"
    if attribute.kind == "truth values" and plain in _TRUTHS:
        return f"looks like a truth value: aliases = {toml_value({text: _TRUTHS[plain]})}"
    if attribute.kind == "numbers":
        return _number_hint(text.strip())
    short = [label for label in labels if plain and fold(label).startswith(plain)]
    if len(short) == 1 and attribute.kind == "text":
        return f"looks short for {toml_value(short[0])}: aliases = {toml_value({text: short[0]})}"
    return None


def _differences(text: str, label: str) -> list[tuple[str, bool]]:
    return [
        ("strip = true", text.strip() != text or label.strip() != label),
        ("casefold = true", text.strip() != label.strip()),
    ]


def _number_hint(text: str) -> str | None:
    """How a number is written that plain reading does not understand."""
    found = _NUMBER.match(text)
    if found is None:
        return None
    rules = []
    around = (text[: found.start("digits")] + text[found.end("digits") :]).replace("-", "").replace("+", "").strip()
    digits = found["digits"]
    what = "looks like a number with a unit"
    if around == "%":
        what = "looks like a percentage"
    elif _CURRENCY.search(around):
        what = "has a currency sign"
    if around:
        rules.append(f"units = {toml_value(around)}")
    thousands, decimal = _marks(digits)
    if thousands:
        rules.append(f"thousands = {toml_value(thousands)}")
        what = "has separators between thousands" if not around else what
    if decimal == ",":
        rules.append('decimal = ","')
        what = "looks like a decimal comma" if not around and not thousands else what
    return f"{what}: {', '.join(rules)}" if rules else None


def _marks(digits: str) -> tuple[str, str]:
    """Marks between thousands and before decimals; empty where there is none."""
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


def _date_hint(texts: list[str]) -> str | None:
    """The format that reads most of the texts; of day and month the one that reads more of them."""
    best: tuple[int, str, str] | None = None
    stripped = [text.strip() for text in texts if text.strip().casefold() not in _MISSING]
    for shown, form in _DATES.items():
        for clock in _CLOCKS:
            read = sum(_reads(parsed_format(form + clock), text) for text in stripped)
            if read and (best is None or read > best[0]):
                best = read, f"{shown}{' and a time' if clock else ''}", form + clock
    if best is None:
        return None
    return f'looks like {best[1]}: format = "{best[2]}"'


def _reads(form: Format, text: str) -> bool:
    iso = form.read(text)
    return iso is not None and not isinstance(microsecond_of(iso), Unread)
