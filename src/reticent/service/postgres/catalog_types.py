"""PostgreSQL types in the catalog, and the functions by which drivers identify a type's format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reticent.service.postgres.types import ARRAYS

OWNER = 10
"""OID of the role that owns everything."""
_ROUTINES = ("in", "out", "recv", "send")
_KNOWN_TYPES = [
    # OID, name, length, category, SQL's name, OIDs of its functions in the order of _ROUTINES
    (16, "bool", 1, "B", "boolean", (1242, 1243, 2436, 2437)),
    (17, "bytea", -1, "U", "bytea", (1244, 31, 2412, 2413)),
    (18, "char", 1, "S", '"char"', (1245, 33, 2434, 2435)),
    (19, "name", 64, "S", "name", (34, 35, 2422, 2423)),
    (20, "int8", 8, "N", "bigint", (460, 461, 2408, 2409)),
    (21, "int2", 2, "N", "smallint", (38, 39, 2404, 2405)),
    (23, "int4", 4, "N", "integer", (42, 43, 2406, 2407)),
    (24, "regproc", 4, "N", "regproc", (44, 45, 2444, 2445)),
    (25, "text", -1, "S", "text", (46, 47, 2414, 2415)),
    (26, "oid", 4, "N", "oid", (1798, 1799, 2418, 2419)),
    (114, "json", -1, "U", "json", (321, 322, 323, 324)),
    (700, "float4", 4, "N", "real", (200, 201, 2424, 2425)),
    (701, "float8", 8, "N", "double precision", (214, 215, 2426, 2427)),
    (705, "unknown", -2, "X", "unknown", (109, 110, 2416, 2417)),
    (1042, "bpchar", -1, "S", "character", (1044, 1045, 2430, 2431)),
    (1043, "varchar", -1, "S", "character varying", (1046, 1047, 2432, 2433)),
    (1082, "date", 4, "D", "date", (1084, 1085, 2468, 2469)),
    (1083, "time", 8, "D", "time without time zone", (1143, 1144, 2470, 2471)),
    (1114, "timestamp", 8, "D", "timestamp without time zone", (1312, 1313, 2474, 2475)),
    (1184, "timestamptz", 8, "D", "timestamp with time zone", (1150, 1151, 2476, 2477)),
    (1186, "interval", 16, "T", "interval", (1160, 1161, 2478, 2479)),
    (1700, "numeric", -1, "N", "numeric", (1701, 1702, 2460, 2461)),
    (2205, "regclass", 4, "N", "regclass", (2218, 2219, 2452, 2453)),
    (2206, "regtype", 4, "N", "regtype", (2220, 2221, 2454, 2455)),
    (2950, "uuid", 16, "U", "uuid", (2952, 2953, 2961, 2962)),
    (3802, "jsonb", -1, "U", "jsonb", (3806, 3804, 3805, 3803)),
]
_ARRAY_ROUTINES = (750, 751, 2400, 2401)
_UNDERSCORED = frozenset(
    {"array", "json", "jsonb", "date", "time", "timestamp", "timestamptz", "interval", "numeric", "uuid"}
)
"""Types whose functions are called `date_in`; others have `boolin`."""
_MORE_ARRAYS = {17: 1001, 114: 199, 700: 1021, 1042: 1014, 1043: 1015, 1082: 1182, 1114: 1115, 1184: 1185, 1700: 1231}
_PREFERRED = ("bool", "text", "oid", "float8", "timestamptz", "interval")

TYPE_ARRAYS = ARRAYS | _MORE_ARRAYS
"""OID of the array of each type."""
SQL_NAMES = {oid: name for oid, _, _, _, name, _ in _KNOWN_TYPES}
SHORT_NAMES = {oid: name for oid, name, _, _, _, _ in _KNOWN_TYPES}
TYPE_OIDS = {name: oid for oid, short, _, _, long, _ in _KNOWN_TYPES for name in (short, long)}
ROUTINE_COLUMNS = {"typinput": "in", "typoutput": "out", "typreceive": "recv", "typsend": "send"}
"""Columns of `pg_type` that hold the OID of a function, and are shown by its name."""


def _routine_names(name: str) -> tuple[str, ...]:
    between = "_" if name in _UNDERSCORED else ""
    return tuple(f"{name}{between}{routine}" for routine in _ROUTINES)


ROUTINES: dict[int, str] = {
    oid: name
    for short, oids in [("array", _ARRAY_ROUTINES), *((known[1], known[5]) for known in _KNOWN_TYPES)]
    for oid, name in zip(oids, _routine_names(short), strict=True)
}
"""Names of the functions that read and write values, by OID."""
ROUTINE_OIDS = {name: oid for oid, name in ROUTINES.items()}


def type_rows() -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of `pg_type`, and of `pg_proc` for the functions that types name."""
    common: dict[str, Any] = {
        "typnamespace": 11,
        "typowner": OWNER,
        "typtype": "b",
        "typisdefined": True,
        "typdelim": ",",
        "typrelid": 0,
        "typnotnull": False,
        "typbasetype": 0,
        "typtypmod": -1,
        "typndims": 0,
        "typcollation": 0,
        "typalign": "i",
    }
    for oid, name, length, category, _, routines in _KNOWN_TYPES:
        own = {"oid": oid, "typname": name, "typlen": length, "typbyval": 0 < length <= 8, "typcategory": category}
        collation = 100 if category == "S" else 0
        extra = {"typelem": 0, "typarray": TYPE_ARRAYS.get(oid, 0), "typcollation": collation, "typstorage": "p"}
        preferred = {"typispreferred": name in _PREFERRED}
        yield "pgc.pg_type", common | own | extra | preferred | _named(routines)
        if oid in TYPE_ARRAYS:
            own = {"oid": TYPE_ARRAYS[oid], "typname": f"_{name}", "typlen": -1, "typbyval": False, "typcategory": "A"}
            array = {"typelem": oid, "typarray": 0, "typstorage": "x", "typispreferred": False}
            yield "pgc.pg_type", common | own | array | _named(_ARRAY_ROUTINES)
    for oid, name in ROUTINES.items():
        function = {"oid": oid, "proname": name, "pronamespace": 11, "proowner": OWNER, "prolang": 12, "prokind": "f"}
        yield "pgc.pg_proc", function | {"proretset": False, "provolatile": "i", "pronargs": 1, "prosrc": name}


def _named(routines: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(ROUTINE_COLUMNS, routines, strict=True))
