"""`rt.discover`: what it finds, what it refuses before it pays, what it costs, and what later statements add."""

from __future__ import annotations

import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import reticent as rt
from reticent.discovery.discover import DiscoverySearch
from reticent.discovery.edges import edges_of, line_for
from reticent.domain import Undeclared
from reticent.kernel.discovery.lines import CalendarLine, Line, NumberLine
from reticent.kernel.discovery.medians import POSITIONS
from reticent.kernel.ledger.verify import verify

PURE = rt.Budget(epsilon=2)
APPROXIMATE = rt.Budget(epsilon=4, delta=1e-6)


def people(size: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, size),
            "gain": np.where(rng.random(size) < 0.9, 0.0, rng.lognormal(8, 1, size)),
            "sex": rng.choice(["Male", " male", "FEMALE", "rare"], size, p=[0.4, 0.2, 0.399, 0.001]),
            "born": [
                datetime.date(1950, 1, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(0, 20_000, size)
            ],
            "who": np.arange(size) // 2,
        }
    )


COLUMNS: dict[str, Any] = {
    "age": Undeclared("number", whole=True, lower=18, upper=90),
    "gain": "number",
    "sex": Undeclared("text", strip=True, casefold=True, nullable=True),
    "born": "date",
    "done": rt.Categorical(["x"]),
}


def test_a_domain_is_found_and_its_price_is_remembered(tmp_path: Path) -> None:
    frame = people().assign(done="x")
    found = rt.discover(frame, COLUMNS, APPROXIMATE, ledger=tmp_path / "d")
    assert found.names == tuple(COLUMNS)
    assert set(found["sex"].values) == {"male", "female"}
    assert found["sex"].nullable
    assert found["age"].edges[0] == 18
    assert found["age"].edges[-1] == 90
    assert all(isinstance(edge, int) for edge in found["age"].edges)
    assert 0 in found["gain"].edges
    assert found["born"].kind == "date"
    assert found["done"] == rt.Categorical(["x"])
    (paid,) = found.discovered
    assert paid["neighbours"] == "replace-one"
    statement = verify(tmp_path / "d")
    assert paid["spent"] == statement.history.spent <= statement.history.limit
    assert 0 < Fraction(statement.history.delta) <= Fraction(1, 2 * 10**6)
    again = rt.discover(frame, COLUMNS, APPROXIMATE, ledger=tmp_path / "d")
    assert again == found
    assert verify(tmp_path / "d").history.sequence == statement.history.sequence
    for suffix in (".toml", ".json"):
        found.write(tmp_path / f"domain{suffix}")
        assert rt.Domain.read(tmp_path / f"domain{suffix}") == found
    table = rt.Table.of(frame, found)
    assert np.bincount(found["age"].encode(frame["age"].to_numpy())).min() > 200
    assert table.records == 4000


def test_sessions_and_releases_state_the_sum(tmp_path: Path) -> None:
    frame, columns = people(), {"age": "number", "sex": "text"}
    found = rt.discover(frame, columns, APPROXIMATE, ledger=tmp_path / "d", neighbours="add-remove")
    spent = Fraction(found.discovered[0]["spent"], 10**9)
    table = rt.Table.of(frame, found, neighbours="add-remove")
    budget = rt.Budget(epsilon=1, delta=1e-6)
    release = rt.release(table, rt.marginals(found, 1), budget)
    assert [p["ledger"] for p in release.facts["publications"]][1:] == [found.discovered[0]["ledger"]]
    own = Fraction(release.facts["publications"][0]["spent"], 10**9)
    assert release.facts["privacy"]["rho"] == pytest.approx(float(own + spent), abs=2e-9)
    assert release.facts["privacy"]["approximate"] == 5e-7
    assert min(release.facts["privacy"]["epsilon"]) > 5e-7
    assert rt.Release.from_bytes(release.to_bytes()).domain == found
    with rt.Session.open(tmp_path / "s", table, budget, warm_start=0) as session:
        assert session.describe()["builds_on"][0]["ledger"] == found.discovered[0]["ledger"]
        assert session.release().facts["privacy"]["rho"] >= float(spent)
    with rt.Session.open(tmp_path / "t", table, budget, start=release) as session:
        assert [p.ledger for p in session.publications].count(found.discovered[0]["ledger"]) == 1
    for options in ({"neighbours": "replace-one"}, {"neighbours": "add-remove", "person": "who"}):
        other = rt.Table.of(frame, found, **options)
        with pytest.raises(rt.QueryError, match="prices would not add"):
            rt.release(other, rt.marginals(found, 1), budget)
        with pytest.raises(rt.QueryError, match="prices would not add"):
            rt.Session.open(None, other, budget)


def test_persons_and_queries(tmp_path: Path) -> None:
    frame = people()
    frame.to_csv(tmp_path / "people.csv", index=False)
    found = rt.discover(
        tmp_path / "people.csv",
        {"age": "number", "sex": "text"},
        APPROXIMATE,
        ledger=tmp_path / "d",
        query="SELECT * FROM rows WHERE age >= '20'",
        person="who",
        values=2,
        neighbours="add-remove",
        edges=3,
    )
    assert len(found["age"].edges) == 5
    assert found.discovered[0]["unit"] == "person"


REFUSED = [
    ({"columns": {"age": rt.Categorical(["a"])}}, rt.DomainError, "nothing is left"),
    ({"columns": {"age": "colour"}}, rt.DomainError, "is unknown"),
    ({"columns": {"age": "number", "sex": "text"}}, rt.QueryError, "needs a delta; a pure budget"),
    ({"columns": {"sex": "text"}, "budget": rt.Budget(rho=1)}, rt.QueryError, "needs a delta; a rho budget"),
    ({"edges": 6}, rt.QueryError, "must be one of 1, 3, 7"),
    ({"edges": 0}, rt.QueryError, "at least 1"),
    ({"columns": 5}, rt.QueryError, "columns is of type"),
    ({"budget": 1}, rt.QueryError, "budget is of type"),
    ({"ledger": None}, rt.QueryError, "ledger is of type"),
    ({"person": "age"}, rt.DomainError, "names persons"),
    ({"columns": {"nothing": "number"}}, rt.SourceError, "no column 'nothing'"),
    ({"budget": rt.Budget(rho=1e-9)}, rt.BudgetError, "column needs rho"),
    ({"columns": "none.toml"}, rt.DomainError, "none.toml"),
]


@pytest.mark.parametrize(("changed", "error", "word"), REFUSED)
def test_what_is_refused_before_anything_is_paid(tmp_path: Path, changed: dict, error: type, word: str) -> None:
    settings: dict[str, Any] = {"columns": {"age": "number"}, "budget": PURE, "ledger": tmp_path / "d"} | changed
    options = {name: value for name, value in settings.items() if name not in ("columns", "budget")}
    if "person" in options:
        options["neighbours"] = "add-remove"
    with pytest.raises(error, match=word) as refused:
        rt.discover(people(50), settings["columns"], settings["budget"], **options)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "d").exists() or verify(tmp_path / "d").history.spent == 0


def test_nothing_common_enough_leaves_a_column_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": [f"n{i}" for i in range(300)], "age": range(300)})
    found = rt.discover(frame, {"name": "text", "age": "number"}, APPROXIMATE, ledger=tmp_path / "d")
    assert found.names == ("age",)
    with pytest.raises(rt.DomainError, match="frequent enough"):
        rt.discover(frame, {"name": "text"}, APPROXIMATE, ledger=tmp_path / "e")


def test_empty_and_constant_columns_are_found_something(tmp_path: Path) -> None:
    """No outcome depends on whether there is anything to find."""
    for place, values in enumerate(([None] * 50, [7.5] * 50, [float("inf"), float("-inf")] * 25, [1e300] * 50)):
        frame = pd.DataFrame({"x": pd.Series(values, dtype="float64")})
        found = rt.discover(frame, {"x": "number"}, PURE, ledger=tmp_path / str(place))
        assert len(found["x"].edges) >= 3


UNREADABLE: list[tuple[pa.DataType, Any]] = [
    (pa.string(), "number"),
    (pa.dictionary(pa.int32(), pa.string()), "number"),
    (pa.date32(), "number"),
    (pa.timestamp("us"), Undeclared("number", missing=[9])),
    (pa.list_(pa.int64()), "number"),
    (pa.int64(), "date"),
    (pa.float64(), "datetime"),
    (pa.timestamp("us"), "text"),
    (pa.binary(), "text"),
]


@pytest.mark.parametrize(("kind", "declared"), UNREADABLE, ids=str)
def test_types_that_are_never_read_are_refused_before_anything_is_paid(
    tmp_path: Path, kind: pa.DataType, declared: Any
) -> None:
    """Whatever the rows hold: here nothing."""
    rows = pa.table({"x": pa.nulls(40, kind), "y": pa.array(range(40))})
    with pytest.raises(rt.SourceError, match="column 'x' has values of") as refused:
        rt.discover(rows, {"x": declared, "y": "number"}, APPROXIMATE, ledger=tmp_path / "d")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "d").exists()


def test_texts_that_may_be_numbers_are_not_refused(tmp_path: Path) -> None:
    """A CSV file has no types, a frame of objects has none of its own, and rules say that texts are numbers."""
    texts = [str(number) for number in range(40)]
    for place, (rows, declared) in enumerate(
        [
            (pa.table({"x": texts}), Undeclared("number", strip=True)),
            (pd.DataFrame({"x": pd.Series(texts, dtype=object)}), "number"),
            (pd.DataFrame({"x": pd.Series([*texts[1:], 7], dtype=object)}), "number"),
            (pa.table({"x": pa.array([1, 2] * 200)}), "text"),
            (pa.table({"x": ["2024-01-31"] * 40}), "date"),
            (pa.table({"x": [20240131] * 40}), Undeclared("date", format="%Y%m%d")),
        ]
    ):
        assert rt.discover(rows, {"x": declared}, APPROXIMATE, ledger=tmp_path / str(place)).names == ("x",)


def test_what_was_paid_before_types_were_judged_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"x": ["a", "b"] * 50})
    with monkeypatch.context() as former:
        former.setattr("reticent.discovery.discover.refuse_types", lambda *_: None)
        paid = rt.discover(rows, {"x": "number"}, PURE, ledger=tmp_path / "d")
    assert rt.discover(rows, {"x": "number"}, PURE, ledger=tmp_path / "d") == paid


def test_a_crash_between_levels_costs_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, columns = people(), {"age": "number", "gain": "number"}
    whole = DiscoverySearch.find

    def dies(self: DiscoverySearch, name: str, attribute: Undeclared) -> Any:
        if name == "gain":
            raise KeyboardInterrupt
        return whole(self, name, attribute)

    with monkeypatch.context() as patch:
        patch.setattr(DiscoverySearch, "find", dies)
        with pytest.raises(KeyboardInterrupt):
            rt.discover(frame, columns, PURE, ledger=tmp_path / "d")
    before = verify(tmp_path / "d").history.spent
    found = rt.discover(frame, columns, PURE, ledger=tmp_path / "d")
    after = verify(tmp_path / "d").history
    assert 0.9e9 < before <= 1e9
    assert before < after.spent <= after.limit
    assert found.names == ("age", "gain")


def test_a_ledger_of_other_columns_is_refused(tmp_path: Path) -> None:
    frame = people()
    rt.discover(frame, {"age": "number"}, PURE, ledger=tmp_path / "d")
    with pytest.raises(rt.LedgerError, match="opened for"):
        rt.discover(frame, {"gain": "number"}, PURE, ledger=tmp_path / "d")
    with pytest.raises(rt.LedgerError, match="opened for"):
        rt.discover(frame, {"age": "number"}, rt.Budget(epsilon=3), ledger=tmp_path / "d")


# ---- lines and edges


@pytest.mark.parametrize("line", [NumberLine(), NumberLine(lowest=0), NumberLine(2, -3, 4)], ids=str)
def test_values_are_located_exactly(line: NumberLine) -> None:
    rng = np.random.default_rng(0)
    decimals = [0.0, -0.0, 0.57, 0.29, 1e-9, -1e-9, 9.999999e15, 1e16, -1e16, np.inf, -np.inf, 5e-324, 501.0, 6.907755]
    drawn = rng.normal(size=3000) * 10.0 ** rng.integers(-12, 18, 3000)
    values = np.concatenate([decimals, drawn, np.round(drawn[:1000], 2), rng.integers(-1000, 1000, 500)])
    places, exact = line.located(values)
    inside = (places > 0) & (places < line.size - 1)
    for value, place, equal in zip(values[inside], places[inside], exact[inside], strict=True):
        assert line.value(int(place)) <= value < line.value(int(place) + 1)
        assert equal == (line.value(int(place)) == value)
    assert places.min() >= 0
    assert places.max() < line.size


def test_each_length_of_numbers_has_the_same_share() -> None:
    line = NumberLine(digits=3, lowest=0, highest=2)
    own = np.diff(line.copies_upto(np.arange(-1, line.size)))
    lengths: dict[int, list[int]] = {}
    for place, copies in enumerate(own.tolist()):
        if line.value(place) == 0:
            continue
        digits = len(f"{abs(line.value(place)):.2e}".split("e")[0].rstrip("0").replace(".", ""))
        lengths.setdefault(digits, []).append(copies)
    assert {digits: set(copies) for digits, copies in lengths.items()} == {1: {111}, 2: {11}, 3: {1}}
    assert own[line.size // 2] == 1000


@pytest.mark.parametrize("line", [CalendarLine(), CalendarLine(minutes=True)], ids=["days", "minutes"])
def test_calendars(line: CalendarLine) -> None:
    moments = [datetime.datetime(2024, 2, 29), datetime.datetime(1970, 1, 1), datetime.datetime(1800, 1, 1)]
    seconds = np.array([(m - datetime.datetime(1970, 1, 1)).total_seconds() for m in moments])
    places, exact = line.located(seconds)
    assert exact.all()
    assert [line.value(int(place)) for place in places] == seconds.tolist()
    own = line.copies_upto(places) - line.copies_upto(places - 1)
    assert own[1] > own[0]
    clipped, _ = line.located(np.array([-1e18, 1e18]))
    assert clipped.tolist() == [0, line.size - 1]


def positions(line: Line, values: list[float]) -> list[int]:
    return [int(place) * POSITIONS for place in line.located(np.array(values))[0]]


@pytest.mark.parametrize(
    ("attribute", "medians", "edges"),
    [
        (Undeclared("number"), [1.5, 2.25, 40.0], [1.4, 1.5, 2.25, 40, 41]),
        (Undeclared("number"), [0.0, 0.0, 0.0], [-1, 0, 1e-9, 1]),
        (Undeclared("number"), [-2.0, 501.0, 501.0], [-3, -2, 501, 501.0001, 510]),
        (Undeclared("number", whole=True), [17.2, 17.9, 40.0], [17, 18, 19, 40, 41]),
        (Undeclared("number", whole=True, lower=0, upper=120), [0.0, 0.0, 40.0], [0, 1, 40, 120]),
        (Undeclared("number", lower=0), [5.0, 6.0, 7.0], [0, 5, 6, 7, 8]),
        (Undeclared("number", whole=True), [0.0, 0.0, 0.0], [-1, 0, 1, 2]),
    ],
)
def test_edges_from_medians(attribute: Undeclared, medians: list[float], edges: list[float]) -> None:
    line = line_for(attribute)
    assert edges_of(line, positions(line, medians), attribute) == edges
    attribute.found(edges)


def test_dates_from_medians() -> None:
    attribute, line = Undeclared("date"), line_for(Undeclared("date"))
    days = [datetime.date(1990, 1, 1), datetime.date(1995, 6, 2), datetime.date(1995, 6, 2)]
    seconds = [(day - datetime.date(1970, 1, 1)).days * 86_400.0 for day in days]
    assert edges_of(line, positions(line, seconds), attribute) == [
        datetime.date(1989, 1, 1),
        *days[:2],
        datetime.date(1995, 6, 3),
        datetime.date(1996, 1, 1),
    ]
    moment = Undeclared("datetime")
    found = edges_of(line_for(moment), positions(line_for(moment), [seconds[1]]), moment)
    assert found == [datetime.datetime(1995, 6, d) for d in (1, 2, 3)]
