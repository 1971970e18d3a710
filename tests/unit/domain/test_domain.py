"""A domain is an ordered, self-validating description that survives TOML and JSON unchanged."""

from __future__ import annotations

import copy
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests.domain_strategies import domains

from reticent.domain import MAX_SIZE, Categorical, Domain, Integer, Numeric, attribute_from_dict
from reticent.errors import DomainError

CENSUS = Domain(age=Numeric(edges=[17, 25, 35], whole=True), sex=Categorical(["Female", "Male"], other=False), pets=4)


def test_names_shapes_and_order() -> None:
    assert CENSUS.names == ("age", "sex", "pets")
    assert CENSUS.shape == (3, 2, 4)
    assert CENSUS.size == 24
    assert CENSUS.index("pets") == 2
    assert CENSUS.canonical(["pets", "age"]) == ("age", "pets")
    assert CENSUS.shape_of(["pets", "age"]) == (4, 3)
    assert CENSUS.cells(["pets", "age"]) == 12
    assert CENSUS.cells([]) == 1
    assert list(CENSUS) == ["age", "sex", "pets"]
    assert CENSUS["pets"] == Integer(4)
    assert "age" in CENSUS
    assert "Age" not in CENSUS
    assert repr(CENSUS) == "Domain(age: 3, sex: 2, pets: 4; 24 cells)"


def test_size_is_exact_however_large() -> None:
    assert Domain({f"x{place}": 10 for place in range(400)}).size == 10**400


def test_order_and_declaration_are_part_of_the_fingerprint() -> None:
    swapped = Domain({name: CENSUS[name] for name in reversed(CENSUS.names)})
    assert swapped != CENSUS
    assert swapped.fingerprint != CENSUS.fingerprint
    assert Domain(dict(CENSUS)) == CENSUS
    assert Domain(a=Categorical([1, 0])) != Domain(a=Categorical([True, False]))
    # Ledgers store it, so it must never change by accident.
    assert Domain(a=2).fingerprint == "16857b0098927d581be3d2296f68401bce97ea1ea70304c51db912b44b8dd66d"


@given(domains())
def test_every_domain_survives_plain_values_pickle_and_copy(domain: Domain) -> None:
    assert Domain.from_dict(domain.to_dict()) == domain
    assert Domain.from_dict(json.loads(json.dumps(domain.to_dict()))) == domain
    assert pickle.loads(pickle.dumps(domain)) == domain
    assert copy.deepcopy(domain) == domain


@given(domains())
@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_every_domain_survives_files(tmp_path_factory: pytest.TempPathFactory, suffix: str, domain: Domain) -> None:
    path = tmp_path_factory.mktemp("domain") / f"domain.{suffix}"
    domain.write(path)
    assert Domain.read(path) == domain
    assert Domain.read(path).fingerprint == domain.fingerprint


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_awkward_texts_survive_files(tmp_path: Path, suffix: str) -> None:
    values = ["\x7f", "", "\n\r\t\b\f\x1b", '"', "\\", "''", "é\u2028", "\U0001f600", "a.b = 1 # c"]
    domain = Domain({"income>50K": Categorical(values), "a.b]": Categorical(["x"]), 'q"uote': 2})
    domain.write(tmp_path / f"domain.{suffix}")
    assert Domain.read(tmp_path / f"domain.{suffix}") == domain


def test_a_hand_written_file(tmp_path: Path) -> None:
    path = tmp_path / "census.toml"
    path.write_text(
        """
        pets = 4                                     # codes 0..3
        [age]
        edges = [17, 25, 35]
        whole = true
        [born]
        edges = [1950-01-01, 2000-01-01]
        [income]
        lower = 0
        upper = 100
        bins = 4
        outside = "other"
        [sex]
        type = "categorical"
        values = ["Female", "Male"]
        nullable = true
        """
    )
    domain = Domain.read(path)
    assert domain.names == ("pets", "age", "born", "income", "sex")
    assert domain["income"].labels == ("[0, 25)", "[25, 50)", "[50, 75)", "[75, 100]", "(other)")
    assert domain["born"].labels == ("1950-01-01 to 2000-01-01", "(other)")


@pytest.mark.shared
def test_public_domain_files_are_read(shared_data: Path) -> None:
    domain = Domain.read(shared_data / "adult" / "adult_gem13-domain.json")
    assert domain.shape == (9, 16, 7, 15, 6, 5, 2, 42, 2, 10, 13, 6, 10)
    assert domain.size == math.prod(domain.shape)


def test_unknown_and_repeated_names() -> None:
    with pytest.raises(DomainError, match='unknown attribute "aeg"; did you mean age'):
        CENSUS.canonical(["aeg"])
    with pytest.raises(DomainError, match='attribute "age" is named twice'):
        CENSUS.canonical(["age", "age"])
    with pytest.raises(DomainError, match='"age" must be a list of names'):
        CENSUS.canonical("age")
    with pytest.raises(DomainError, match="unknown attribute"):
        CENSUS["x"]


BAD_ENTRIES: list[tuple[Any, str]] = [
    ({"values": []}, "values is empty"),
    ({"values": "ab"}, "must be a list"),
    ({"values": ["a", "a"]}, 'value "a" is listed twice'),
    ({"values": [1, 1.0]}, "value 1 is listed twice"),
    ({"values": ["a", 1]}, "values mix numbers and text"),
    ({"values": [True, 1]}, "values mix numbers and truth values"),
    ({"values": ["(other)"]}, "is reserved"),
    ({"values": ["(null)"]}, "is reserved"),
    ({"values": [None]}, "must be text, a finite number"),
    ({"values": [float("nan")]}, "must be text, a finite number"),
    ({"values": [2**60]}, "below 2\\^53"),
    ({"values": ["a\0"]}, "null character"),
    ({"values": ["\ud800"]}, "lone surrogate"),
    ({"values": ["a"], "nullable": 1}, "nullable 1 must be true or false"),
    ({"values": ["a"], "other": "yes"}, "other 'yes' must be true or false"),
    ({"values": ["a"], "nulable": True}, 'unknown key "nulable" for type categorical; did you mean nullable'),
    ({"edges": [0]}, "edges has 1 entries; at least two"),
    ({"edges": 5}, "edges 5 must be a list"),
    ({"edges": [0, 0]}, "edges must increase: 0 is followed by 0"),
    ({"edges": [0, 2, 1]}, "edges must increase: 2 is followed by 1"),
    ({"edges": [0, 1, 1, 2], "whole": True}, "edges must increase"),
    ({"edges": [0, float("nan")]}, "edge nan must be a finite number"),
    ({"edges": [0, float("inf")]}, "edge inf must be a finite number"),
    ({"edges": [False, True]}, "edge False must be a finite number"),
    ({"edges": [0, "1"]}, 'edge "1" is neither a number nor an ISO date'),
    ({"edges": [0, "2020-01-01"]}, "edges mix numbers, dates or datetimes"),
    ({"edges": ["2020-01-01", "2020-13-01"]}, "neither a number nor an ISO date"),
    ({"edges": ["2020-01-01T00:00+01:00", "2021-01-01T00:00"]}, "has a time zone"),
    ({"edges": ["2020-01-01T00:00", "2021-01-01T00:00"], "whole": True}, "whole does not apply to datetimes"),
    ({"edges": [0, 0.5], "whole": True}, "edge 0.5 must be an integer"),
    ({"edges": [0, 1], "whole": "yes"}, 'whole "yes" must be true or false'),
    ({"edges": [0, 1], "outside": "drop"}, 'outside "drop" must be "clamp" or "other"'),
    ({"edges": [0, 1], "bins": 3}, "either edges or lower, upper and bins"),
    ({"lower": 0, "upper": 1}, "needs edges, or lower, upper and bins"),
    ({"lower": 0, "upper": 1, "bins": 0}, "bins=0 must be a whole number, at least 1"),
    ({"lower": 0, "upper": 1, "bins": True}, "bins=True must be a whole number"),
    ({"lower": 0, "upper": 1, "bins": MAX_SIZE + 1}, "exceed the limit"),
    ({"lower": 1, "upper": 0, "bins": 2}, "edges must increase"),
    ({"lower": 0, "upper": 3, "bins": 5, "whole": True}, "bins 5 exceed the 4 integers from 0 to 3"),
    ({"lower": 0, "upper": 5e-324, "bins": 5}, "edges must increase"),
    ({"size": 0}, "size=0 must be a whole number, at least 1"),
    ({"size": 2.5}, "size=2.5 must be a whole number"),
    ({"size": "3"}, "size is of type str; give a whole number"),
    ({"size": MAX_SIZE + 1}, "exceed the limit"),
    ({"type": "integer"}, "size=0 must be"),
    ({"type": "text"}, 'unknown type "text"; use categorical, numeric, integer'),
    ({"type": ["integer"]}, "unknown type"),
    ({}, "give values"),
    ({"size": 3, "values": ["a"]}, 'unknown key "size" for type categorical'),
    (-1, "size=-1 must be a whole number"),
    (True, "True must be a number of codes or a table"),
    ([0, 7300], "must be a number of codes or a table"),
    ("numeric", '"numeric" must be a number of codes or a table'),
    (None, "must be a number of codes or a table"),
]


@pytest.mark.parametrize(("entry", "message"), BAD_ENTRIES)
def test_bad_attributes_are_refused_in_one_line(entry: Any, message: str) -> None:
    with pytest.raises(DomainError, match=message) as caught:
        attribute_from_dict("income", entry)
    assert str(caught.value).startswith('"income": ')
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, "at least one attribute"),
        ({"": 2}, "must be text"),
        ({" age": 2}, "without surrounding spaces"),
        ({3: 2}, "must be text"),
        ({"a\nb": 2}, "control character"),
        ({"__weight": 2}, "reserved"),
        ({"age": 2, "Age": 2}, "differ only in case"),
        ({"x" * 129: 2}, "129 characters; at most 128"),
        ({"a": {"size": 3}}, "use Domain.from_dict"),
        ([("a", 3)], "mapping of names"),
    ],
)
def test_bad_names_are_refused(names: Any, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        Domain(names)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(DomainError, match="both in the mapping and as a keyword"):
        Domain({"a": 2}, a=3)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.toml", "[age]\nedge = [0, 1]\nvalues = ['a']", 'd.toml: "age": unknown key "edge"'),
        ("d.toml", "[age", "d.toml: "),
        ("d.json", "{", "d.json: "),
        ("d.json", "[1]", "d.json: a domain description must map names"),
        ("d.json", '{"a": 2, "a": 3}', 'd.json: "a" is described twice'),
        ("d.json", '{"a": {"edges": [NaN, 1]}}', "d.json: .*edge nan must be a finite number"),
        ("d.json", "[" * 100_000, "d.json: "),
        ("d.csv", "a,2", "d.csv: a domain file ends in .toml or .json"),
        ("missing.toml", None, "missing.toml: cannot be read"),
        ("d.toml", b"\xff\xfe", "d.toml: "),
    ],
)
def test_bad_files_are_named_in_one_line(tmp_path: Path, name: str, content: Any, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DomainError, match=message) as caught:
        Domain.read(path)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match=r"ends in \.toml or \.json"):
        CENSUS.write(tmp_path / "domain.yaml")
    with pytest.raises(DomainError, match="cannot be written"):
        CENSUS.write(tmp_path / "missing" / "domain.toml")


def test_whole_numbers_of_numpy_become_plain() -> None:
    three = np.int64(3)
    domain = Domain(a=three, b=Integer(three), c=Numeric(lower=0, upper=9, bins=three))  # type: ignore[arg-type]
    assert domain == Domain(a=3, b=Integer(3), c=Numeric(lower=0, upper=9, bins=3))
    assert Domain.from_dict(json.loads(json.dumps(domain.to_dict()))) == domain
