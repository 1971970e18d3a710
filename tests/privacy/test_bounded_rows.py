"""Some rows of each person: every sensitivity is that many times a record's, and which rows are kept is their own."""

from __future__ import annotations

import datetime
import itertools
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.privacy import curator_checks, numeric_checks
from tests.privacy.curator_checks import check_moves

from reticent.domain import Categorical, Domain
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Gaussian, Sensitivity
from reticent.kernel.statistics import Statistic
from reticent.kernel.table import Table
from reticent.queries.linear import Marginal
from reticent.sources import Table as Read
from reticent.sources import frames, weighing

Patch = pytest.MonkeyPatch
MOST = 2


class Declared:
    """A statistic with the sensitivity that the curator prices it with."""

    def __init__(self, statistic: Statistic, curator: Curator) -> None:
        self._statistic, self._curator = statistic, curator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._statistic, name)

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return self._curator.sensitivity(self._statistic)


def curator(kind: str, domain: Domain, source: Any) -> Curator:
    facts: dict[str, Any] = {"neighbours": kind, "unit": "row", "most": MOST}
    table = Table(source, domain, **facts)
    return Curator(table, Ledger.memory(Budget(rho=1), table.identity))


def check_persons_rows(kind: str) -> None:
    """A person with up to two rows, exchanged for any other such person; beside somebody who stays."""
    codes = list(itertools.product(range(2), range(3)))
    cases = [
        (curator_checks.statistics(), curator_checks.DOMAIN, codes, lambda rows: curator_checks.table(rows)._source),
        (numeric_checks.statistics(), numeric_checks.DOMAIN, numeric_checks.ROWS[::2], numeric_checks.source),
    ]
    for statistics, domain, values, source in cases:
        persons = [p for size in range(MOST + 1) for p in itertools.combinations_with_replacement(values, size)]
        beside = persons[-2]
        pairs = [((*beside, *one), (*beside, *other)) for one, other in itertools.permutations(persons, 2)]
        if kind == "add-remove":
            pairs = [pair for pair in pairs if pair[1] == beside]
        private = curator(kind, domain, source(beside))
        for statistic in statistics:
            check_moves(
                Declared(statistic, private), kind, pairs, source, 1, scores=curator_checks.is_scores(statistic)
            )


DOMAIN = Domain(a=Categorical(["u", "v", "w"]), b=2)
FIELDS = ("who", "a", "b")


def kept(rows: list[tuple[str | None, str, int]], most: int = MOST) -> np.ndarray:
    columns = {name: [row[place] for row in rows] for place, name in enumerate(FIELDS)}
    table = Read.of(pa.table(columns), DOMAIN, person="who", rows="bounded", most=most)
    return table._source.marginal(("a", "b"))


PERSON = [("p", "u", 0), ("p", "u", 0), ("p", "v", 1), ("p", "w", 0), ("p", "w", 1)]
OTHERS = [("q", "u", 0), ("q", "v", 1), ("r", "u", 0), ("r", "u", 0), ("r", "u", 0), (None, "w", 1)]


def check_rows_are_kept_alone() -> None:
    """What others have, and in which order rows lie, decides nothing about a person's rows."""
    alone = kept(PERSON)
    assert alone.sum() == MOST
    for others in (OTHERS, OTHERS[:2], OTHERS[2:]):
        beside = kept(others)
        for rows in ([*PERSON, *others], [*others, *PERSON], [*others[::-1], *PERSON[::-1]]):
            np.testing.assert_array_equal(kept(rows), alone + beside)


class Unnamed:
    """Cells that name one person together."""


def check_rows_of_untyped_persons_are_kept_alone() -> None:
    """Where cells have no common type, a person's rows are the same whoever else is there, and in whatever order."""
    rng = np.random.default_rng(6)
    persons: list[Any] = [
        "p",
        "7",
        7,
        2.5,
        uuid.UUID(int=3),
        b"p",
        datetime.date(2020, 1, 1),
        True,
        Unnamed(),
        "\ud800",
    ]
    owned = [[(who, "uvw"[a], int(b)) for a, b in rng.integers(0, (3, 2), (9, 2))] for who in persons]

    def found(rows: list[tuple[Any, str, int]]) -> np.ndarray:
        columns = {name: pd.Series([row[place] for row in rows], dtype=object) for place, name in enumerate(FIELDS)}
        table = Read.of(pd.DataFrame(columns), DOMAIN, person="who", rows="bounded", most=MOST)
        return table._source.marginal(("a", "b"))

    alone = [found(rows) for rows in owned]
    for order in (range(len(owned)), range(len(owned))[::-1], (0, 1), (1, 0), (1, 2), (4, 3, 0)):
        rows = [row for place in order for row in owned[place]]
        np.testing.assert_array_equal(found(rows), sum(alone[place] for place in order))
    np.testing.assert_array_equal(alone[0], kept(owned[0]))  # a column of texts


def check_persons_choose_apart() -> None:
    """Every code's kept rows are those of independent uniform choices, but for five standard deviations.

    Of a person's k rows, c of them with the code, m are kept: c m/k with the code, with the variance of a
    hypergeometric number, and the variances of persons add.
    """
    rng = np.random.default_rng(11)
    domain, persons = Domain(code=8), 4000
    for most, rows_of, shares in [
        (1, np.full(persons, 10), np.full(8, 1 / 8)),
        (3, np.full(persons, 10), np.full(8, 1 / 8)),
        (3, 1 + rng.poisson(4, persons), np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05])),
        (20, np.full(persons // 10, 60), np.array([0.9, 0.1, 0, 0, 0, 0, 0, 0])),
    ]:
        numbers = np.repeat(np.arange(len(rows_of)), rows_of)
        codes = rng.choice(8, len(numbers), p=shares)
        own = np.zeros((len(rows_of), 8))
        np.add.at(own, (numbers, codes), 1)
        share, left = own / rows_of[:, None], np.minimum(rows_of, most)[:, None]
        spread = left * share * (1 - share) * (rows_of[:, None] - left) / np.maximum(rows_of[:, None] - 1, 1)
        bound = 5 * np.sqrt(spread.sum(0))
        for who in (pa.array(numbers), pa.array([f"person {number}" for number in numbers])):
            rows = pa.table({"who": who, "code": codes})
            table = Read.of(rows, domain, person="who", rows="bounded", most=most, progress=False)
            counts = table._source.marginal(("code",))
            assert counts.sum() == left.sum()
            assert np.all(np.abs(counts - (left * share).sum(0)) <= bound)


def check_a_marginal_pays_for_rows() -> None:
    """The price of a marginal is that of m rows which all leave one cell for another."""
    private = curator("replace-one", curator_checks.DOMAIN, curator_checks.table(((0, 0),))._source)
    price = private.price([Marginal(("a", "b"))], Gaussian(10))
    assert price.rho >= Gaussian(10).price(Sensitivity(2 * MOST, 2 * MOST**2)).rho


CHECKS: dict[str, Callable[[], None]] = {
    "bounded rows under replace-one": lambda: check_persons_rows("replace-one"),
    "bounded rows under add-remove": lambda: check_persons_rows("add-remove"),
    "rows are kept alone": check_rows_are_kept_alone,
    "rows of untyped persons are kept alone": check_rows_of_untyped_persons_are_kept_alone,
    "persons choose apart": check_persons_choose_apart,
    "a marginal pays for rows": check_a_marginal_pays_for_rows,
}


@pytest.mark.parametrize("name", CHECKS)
def test_rows_of_persons_keep(name: str) -> None:
    CHECKS[name]()


def by_position(engine: Any, coded: str, content: Any, most: int, key: str, carried: Any = ()) -> str:
    listed = ", ".join([*content, *carried])
    ranked = f"SELECT {listed}, person, ROW_NUMBER() OVER () AS place FROM ({coded}) AS coded"
    first = f"SELECT {listed}, ROW_NUMBER() OVER (PARTITION BY person ORDER BY place) AS r FROM ({ranked}) AS ranked"
    return f"SELECT {listed} FROM ({first}) AS first WHERE r <= {most}"


def planted_text(old: str, new: str) -> Callable[[Patch], None]:
    """The statement that keeps rows, with a part of it changed."""

    def plant(patch: Patch) -> None:
        original = weighing._kept

        def changed(*arguments: Any) -> str:
            statement = original(*arguments)
            assert old in statement
            return statement.replace(old, new)

        patch.setattr(weighing, "_kept", changed)

    return plant


MUTATIONS: list[tuple[str, Callable[[Patch], None], str]] = [
    ("rows kept by position", lambda patch: patch.setattr(weighing, "_kept", by_position), "rows are kept alone"),
    (
        "equal rows numbered across persons",
        planted_text("(PARTITION BY person, k0, named", "(PARTITION BY k0"),
        "rows are kept alone",
    ),
    ("every person prefers the same contents", planted_text("named, ':', ", ""), "persons choose apart"),
    (
        "persons named by position",
        lambda patch: patch.setattr(frames, "_names", lambda cells: frames._identities(cells).cast(pa.large_string())),
        "rows of untyped persons are kept alone",
    ),
    ("one row too many", planted_text(f"r <= {MOST}", f"r <= {MOST + 1}"), "rows are kept alone"),
    (
        "a sensitivity without the number of rows",
        lambda patch: patch.setattr(Sensitivity, "times", lambda self, rows: self),
        "bounded rows under add-remove",
    ),
    (
        "L2 grows with the root of the rows",
        lambda patch: patch.setattr(
            Sensitivity, "times", lambda self, rows: Sensitivity(self.l1 * rows, self.l2_squared * rows)
        ),
        "bounded rows under replace-one",
    ),
]


@pytest.mark.parametrize(("plant", "check"), [m[1:] for m in MUTATIONS], ids=[m[0] for m in MUTATIONS])
def test_a_planted_bug_turns_its_check_red(plant: Callable[[Patch], None], check: str, monkeypatch: Patch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        CHECKS[check]()
