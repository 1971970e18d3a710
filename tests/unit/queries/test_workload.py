"""Workloads stay structured, count their scalar queries and survive text, files and concatenation."""

from __future__ import annotations

import itertools
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.domain import Categorical, Domain, Integer, Numeric
from reticent.errors import QueryError
from reticent.queries import AllRanges, Range, Workload, col, count, marginal, marginals, mean, ranges

DOMAIN = Domain(age=Numeric(edges=[17, 25, 35, 45], whole=True), sex=Categorical(["f", "m"], other=False), pets=3)
LARGEST_SECONDS = 10.0
"""Far above what 161,700 marginals need (about 0.2 s), far below building their cells."""


def test_all_marginals() -> None:
    workload = marginals(DOMAIN, 2)
    assert workload.marginals == (("age", "sex"), ("age", "pets"), ("sex", "pets"))
    assert workload.marginal_weights == (1.0, 1.0, 1.0)
    assert len(workload) == 8 + 12 + 6
    assert len(marginals(DOMAIN, 0)) == 1
    assert len(list(workload.scalars(DOMAIN))) == len(workload)


def test_large_workloads_are_never_materialised() -> None:
    wide = Domain({f"x{place}": 1000 for place in range(100)})
    started = time.process_time()
    workload = marginals(wide, 3)
    assert len(workload) == math.comb(100, 3) * 10**9
    assert time.process_time() - started < LARGEST_SECONDS
    assert marginals(Domain({f"x{place}": 1000 for place in range(10)}), 10).size == 1000**10
    with pytest.raises(QueryError, match=r"use workload\.size"):
        len(marginals(Domain({f"x{place}": 1000 for place in range(10)}), 10))


def test_all_ranges_and_prefixes() -> None:
    workload = ranges("age", "pets", domain=DOMAIN)
    assert len(workload) == 6 + 6
    assert len(ranges("age", prefixes=True, domain=DOMAIN)) == 3
    assert list(ranges("age", prefixes=True).scalars(DOMAIN)) == [Range({"age": (0, code)}) for code in range(3)]
    counts = np.array([5, 7, 11, 100])
    for entry in (AllRanges("age"), AllRanges("age", prefixes=True)):
        spans = zip(*entry.spans(DOMAIN), strict=True)
        expected = [counts[first : last + 1].sum() for first, last in spans]
        assert entry.answers(DOMAIN, counts).tolist() == expected
        assert len(expected) == entry.count(DOMAIN)


def test_a_list_of_queries() -> None:
    adult = count(col("age") >= 25)
    workload = Workload([adult, marginal("pets", "age"), mean("age"), AllRanges("age"), adult], weights=[1, 2, 3, 4, 5])
    assert workload.queries == (adult, mean("age"))
    assert workload.query_weights == (6.0, 3.0)
    bound = workload.on(DOMAIN)
    assert bound.marginals == (("age", "pets"),)
    assert bound.marginal_weights == (2.0,)
    assert [query.text for query in bound.queries] == [
        "count(age >= 25)",
        "total(age, everything)",
        "count(age is known)",
    ]
    assert len(bound) == 12 + 6 + 3
    assert bound.on(DOMAIN) is bound
    assert bound.attribute_sets(DOMAIN) == {("age", "pets"): 2.0, ("age",): 4.0 + 6.0 + 3.0 + 3.0}


def test_concatenation() -> None:
    both = marginals(DOMAIN, 1) + Workload([marginal("age")], weights=[0.5]) + ranges("pets")
    assert both.domain is DOMAIN
    assert both.marginals == (("age",), ("sex",), ("pets",))
    assert both.marginal_weights == (1.5, 1.0, 1.0)
    assert len(both) == 4 + 2 + 3 + 6
    assert Workload([count()]) + Workload([count()]) == Workload([count()], weights=[2])
    assert not Workload()
    assert repr(both) == "Workload(3 marginals, 1 range sets, 0 queries)"


def test_text_and_digest_do_not_depend_on_order() -> None:
    entries = [count(col("age") >= 25), marginal("age"), marginal("sex", "age"), AllRanges("pets")]
    texts = {Workload(order).text for order in itertools.permutations(entries)}
    assert texts == {"count(age >= 25)\nmarginal(age)\nmarginal(age, sex)\nranges(pets)"}
    assert Workload(entries).digest != Workload(entries, weights=[1, 1, 1, 2]).digest
    assert Workload(entries).on(DOMAIN) == Workload(entries)


def test_plain_form() -> None:
    workload = Workload([count(col("age") >= 25), marginal("sex"), AllRanges("age")], weights=[1, 2, 0.25])
    same = Workload.from_dict(json.loads(json.dumps(workload.to_dict())))
    assert same == workload
    assert Workload.from_dict({"marginals": [["age"]]}) == Workload([marginal("age")])


def test_parse() -> None:
    assert Workload.parse("marginals:2", DOMAIN) == marginals(DOMAIN, 2)
    assert Workload.parse("marginals:1,2", DOMAIN) == marginals(DOMAIN, 1) + marginals(DOMAIN, 2)
    combined = Workload.parse("marginals:1 + ranges:age,pets + prefixes:age", DOMAIN)
    assert combined == marginals(DOMAIN, 1) + ranges("age", "pets") + ranges("age", prefixes=True)
    assert combined.domain is DOMAIN


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("w.json", '[["sex", "age"], {"attributes": ["pets"], "weight": 2.5}]'),
        ("w.json", '{"marginals": [["age", "sex"], ["pets"]], "marginal_weights": [1, 2.5]}'),
        ("w.json", '[{"query": "marginal", "attributes": ["age", "sex"]}, {"attributes": ["pets"], "weight": 2.5}]'),
        ("w.csv", "# sets\nsex, age\n\npets, 2.5\n"),
        ("w.csv", '"sex","age",1.0\npets,2.5'),
    ],
)
def test_files(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    workload = Workload.parse(str(path), DOMAIN)
    assert workload == Workload([marginal("age", "sex"), marginal("pets")], weights=[1, 2.5])
    assert workload.marginals == (("age", "sex"), ("pets",))


def test_a_column_may_look_like_a_weight(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("a,2\n2\n")
    assert Workload.parse(str(path), Domain({"a": 3, "2": Integer(2)})).marginals == (("a", "2"), ("2",))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.json", "[", "w.json: "),
        ("w.json", "3", "w.json: a workload is an object"),
        ("w.json", '["age"]', "neither a list of names nor an object"),
        ("w.json", '[["agee"]]', 'unknown attribute "agee"; did you mean age'),
        ("w.json", '[["age", "age"]]', "twice"),
        ("w.json", '[{"attributes": ["age"], "weight": 0}]', "weight 0 must be positive"),
        ("w.json", '[{"attributes": ["age"], "weight": "2"}]', "weight is of type str; give a positive number"),
        ("w.json", '{"marginals": 3}', "must be lists"),
        ("w.json", '{"marginals": [3]}', "a marginal is a list"),
        ("w.json", '{"marginals": [["age"]], "marginal_weights": []}', "must list 1 weights"),
        ("w.csv", "age,size\n", 'line 1: "size" is neither an attribute nor a weight'),
        ("w.csv", "age,nan\n", "weight nan must be positive"),
        ("missing.csv", None, "missing.csv: cannot be read"),
    ],
)
def test_bad_files_are_named_in_one_line(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(QueryError, match=message) as caught:
        Workload.parse(str(path), DOMAIN)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "marginals", "marginals:", "marginals:x", "marginals:-1", "cubes:3", "ranges:", "²:²"]
)
def test_bad_specifications_say_what_is_possible(text: str) -> None:
    with pytest.raises(QueryError, match="use marginals:3"):
        Workload.parse(text, DOMAIN)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: marginals(DOMAIN, 4), "at least 0 and at most 3"),
        (lambda: marginals(DOMAIN, -1), "at least 0 and at most 3"),
        (lambda: marginals(DOMAIN, True), "k=True"),
        (lambda: marginals(Domain({f"x{place}": 2 for place in range(60)}), 10), "exceed the limit of 2000000"),
        (lambda: ranges(), "at least one column"),
        (lambda: ranges("agee", domain=DOMAIN), "unknown attribute"),
        (lambda: Workload.parse("ranges:agee", DOMAIN), "unknown attribute"),
        (lambda: Workload([count()], weights=[]), "need as many weights, not 0"),
        (lambda: Workload([count()], weights=[-1]), "must be positive"),
        (lambda: Workload([count()], weights=[float("inf")]), "must be positive and finite"),
        (lambda: Workload([count()], weights=[1e300]), "must lie between 1e-50 and 1e\\+50"),
        (lambda: Workload([count(col("age") > 30)], domain=DOMAIN), "cuts the bin"),
        (lambda: Workload([count(col("sex") == "x")], domain=DOMAIN), "x"),
        (lambda: Workload([count(col("pets") == 7)], domain=DOMAIN), "7"),
        (lambda: Workload([count((col("pets") == 1) & (col("age") > 30))], domain=DOMAIN), "cuts the bin"),
        (lambda: Workload([count(col("sex") < "m")], domain=DOMAIN), "sex"),
        (lambda: Workload([3]), "int is not a query"),  # type: ignore[list-item]
        (lambda: Workload(["age"], domain=DOMAIN), "str is not a query"),  # type: ignore[list-item]
        (lambda: Workload(count()), "needs a list of queries"),  # type: ignore[arg-type]
        (lambda: Workload([marginal("x")], domain=DOMAIN), "unknown attribute"),
        (lambda: Workload([count(col("age") >= 30)]).on(DOMAIN), "cuts the bin 25-34"),
        (lambda: len(Workload([marginal("age")])), "depends on the domain"),
        (lambda: Workload.from_dict([]), "a workload is an object"),
        (lambda: Workload.from_dict({"sets": []}), "a workload is an object"),
    ],
)
def test_bad_workloads_are_refused(build: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_numbers_of_numpy_are_numbers() -> None:
    assert marginals(DOMAIN, np.int64(2)) == marginals(DOMAIN, 2)  # type: ignore[arg-type]
    weighted = Workload([marginal("sex")], weights=[np.int64(2)])  # type: ignore[list-item]
    assert weighted == Workload([marginal("sex")], weights=[2.0])
