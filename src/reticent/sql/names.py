"""Names of columns and tables as a statement must write them, and reserved words of SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORDS = """
    all alter and any array as between by case column connect_by_root create cross cube current_catalog current_date
    current_time current_timestamp current_user date default describe distinct drop else end except false fetch for
    force from glob grant group having if ilike in inner insert install intersect into is join lateral like limit list
    localtime localtimestamp lock map not notnull null nullable object offset on only or order outer partitioned_by
    positional qualify range regexp returning revoke rlike rollback rollup row select session_user struct summarize
    table tablesample then time true uncache union user using values when where window with xor
"""

RESERVED = frozenset(_WORDS.split())
"""Those that this parser does not read as a name everywhere, and the commonest that other databases do not."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quoted_name(name: str) -> str:
    """The name of a column or a table as a statement has to write it: in double quotes where it needs them."""
    plain = _PLAIN.fullmatch(name) is not None and name.lower() not in RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


def unquoted_names(text: str, names: Iterable[str]) -> list[str]:
    """The names of columns that need double quotes for their spaces or signs and stand in a text without them."""
    found = []
    for name in names:
        spelled = r"\s+".join(map(re.escape, name.split()))
        if _PLAIN.fullmatch(name) is None and re.search(rf"(?<![\w\"'`]){spelled}(?![\w\"'`])", text, re.IGNORECASE):
            found.append(name)
    return found


def reserved_names(words: Iterable[str], names: Iterable[str]) -> list[str]:
    """The names of columns that are among the bare words of a statement, but reserved."""
    said = {word.lower() for word in words}
    return [name for name in names if name.lower() in said and name.lower() in RESERVED]
