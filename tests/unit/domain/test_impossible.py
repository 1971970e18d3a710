"""Rules about impossible records: read from text and predicates, kept in files, part of a domain's identity."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import reticent as rt
from reticent.custodian.check import check
from reticent.domain.impossible import MAX_RULE_CELLS, impossible_cells, impossible_rows
from reticent.errors import DomainError
from reticent.queries.predicate import Predicate

COLUMNS = {
    "age": rt.Numeric(edges=range(0, 91, 15)),
    "income": rt.Categorical(["N", "low", "it's high"]),
    "born": rt.Numeric(edges=[datetime.date(1900, 1, 1), datetime.date(2000, 1, 1), datetime.date(2030, 1, 1)]),
    "weird name": rt.Categorical(["a", "b"], nullable=True),
}
RULES = ["age < 15 and income != 'N'", "born >= DATE '2000-01-01' AND age >= 45"]
PREDICATES: list[Predicate] = [
    (rt.col("age") < 15) & (rt.col("income") != "N"),
    (rt.col("income").isin(["low", "it's high"])) & ~(rt.col("weird name") == "a"),
    ~((rt.col("age") >= 15) | rt.col("weird name").is_null()),
    (rt.col("born") >= datetime.date(2000, 1, 1)) & (rt.col("age") >= 45),
    ~(rt.col("weird name").is_null()) & (rt.col("age") >= 30) & (rt.col("age") < 45) & (rt.col("income") == "N"),
]


def test_a_rule_is_true_where_its_condition_is() -> None:
    domain = rt.Domain(COLUMNS, impossible=RULES)
    (first, second) = domain.impossible
    assert first.attributes == ("age", "income")
    expected = np.zeros(domain.shape_of(first.attributes), dtype=bool)
    expected[0, 1:] = True
    np.testing.assert_array_equal(first.cells, expected)
    assert second.attributes == ("age", "born")
    both = impossible_cells(domain, domain.names)
    assert both is not None
    codes = np.stack(np.unravel_index(np.arange(domain.size), domain.shape), axis=1)
    np.testing.assert_array_equal(impossible_rows(domain, codes), both.ravel())
    assert impossible_cells(domain, ("age",)) is None


@pytest.mark.parametrize("predicate", PREDICATES, ids=lambda each: each.text)
def test_predicates_become_text_that_reads_back_the_same(predicate: Predicate) -> None:
    domain = rt.Domain(COLUMNS, impossible=[predicate])
    again = rt.Domain(COLUMNS, impossible=[domain.impossible[0].text])
    assert again == domain
    names = domain.canonical(predicate.attributes)
    form = predicate.compile(domain)
    wanted = np.zeros(domain.shape_of(names), dtype=bool)
    wanted |= np.asarray(form.tensor() > 0).reshape([domain[n].size if n in form.attributes else 1 for n in names])
    found = impossible_cells(domain, names)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(impossible_cells(again, names), wanted)


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_files_keep_rules(tmp_path: Path, suffix: str) -> None:
    domain = rt.Domain(COLUMNS, impossible=[*RULES, *PREDICATES])
    path = tmp_path / f"domain.{suffix}"
    domain.write(path)
    again = rt.Domain.read(path)
    assert again == domain
    assert [rule.text for rule in again.impossible] == [rule.text for rule in domain.impossible]
    assert rt.Domain.from_dict(json.loads(json.dumps(domain.to_dict()))) == domain
    assert path.read_text().lstrip("{\n ").startswith(("impossible = [", '"impossible": ['))


def test_a_column_may_be_called_impossible(tmp_path: Path) -> None:
    plain = rt.Domain.from_dict({"impossible": 2, "a": 3})
    assert plain.names == ("impossible", "a")
    ruled = rt.Domain(plain, impossible=["impossible = 0 AND a = 1"])
    ruled.write(tmp_path / "d.toml")
    assert rt.Domain.read(tmp_path / "d.toml") == ruled
    with pytest.raises(DomainError, match="takes rules"):
        rt.Domain(impossible=2)  # type: ignore[arg-type]


def test_domains_without_rules_are_described_as_before() -> None:
    """Recorded before rules existed: ledgers are bound to these digests."""
    plain = rt.Domain({"a": 3, "b": rt.Categorical(["x", "y"])})
    assert json.dumps(plain.to_dict(), separators=(",", ":")) == (
        '{"a":{"type":"integer","size":3},"b":{"type":"categorical","values":["x","y"]}}'
    )
    assert plain.fingerprint == "722f45f671c4d3035d0a06e786b82a896b775a80ca9dec638185cda733bc7715"
    assert plain == rt.Domain(plain, impossible=[])
    ruled = rt.Domain(plain, impossible=["a = 0 AND b = 'x'"])
    assert ruled != plain
    assert list(ruled.to_dict()) == ["a", "b", "__impossible__"]


def test_discovered_domains_keep_rules() -> None:
    domain = rt.Domain(COLUMNS, impossible=RULES)
    paid = {"ledger": "x", "budget": {}, "spent": 1, "neighbours": "replace-one", "unit": "record"}
    assert domain.with_discovered(paid).impossible[0].text == RULES[0]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (["age < 12 and income = 'N'"], "cuts the bin"),
        (["salary > 3"], 'unknown column "salary"'),
        (["income = 'Q'"], "not one of the 3 declared values"),
        (["age < 15 OR age >= 15 OR age IS NULL OR TRUE"], "every record satisfies it"),
        (["income = 'N' AND income = 'low'"], "no record of this domain"),
        (["age < 15 GROUP BY age"], "cannot be read at line 1, column "),
        (["age <"], "cannot be read at its end: something is missing there"),
        (["age < 15 and\n income ! 'N'"], "cannot be read at line 2, column 9 near"),
        (["age < 15) UNION SELECT (1"], "one condition"),
        (["count(*) > 3"], "aggregate"),
        ([""], "not a condition"),
        ([7], "not a condition"),
        ([rt.col("age").is_known()], "is_known"),
        ("age < 15", "must be a list"),
        (5.0, "must be a list"),
        (["age < 15"] * 1001, "at most 1000"),
    ],
)
def test_refusals_are_one_line(rules: object, said: str) -> None:
    with pytest.raises(DomainError, match=said.replace("(", r"\(")) as refusal:
        rt.Domain(COLUMNS, impossible=rules)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


def test_a_rule_over_too_many_cells_is_refused() -> None:
    wide = {"a": 300, "b": 300, "c": 2}
    with pytest.raises(DomainError, match=f"a, b have 90000 combinations of codes; at most {MAX_RULE_CELLS}"):
        rt.Domain(wide, impossible=["a = 0 AND b = 0"])
    rt.Domain(wide, impossible=["a = 0 AND c = 0"])


@pytest.mark.parametrize("entry", [{"a": 2, "impossible": [3]}, {"a": 2, "__impossible__": "a = 0"}])
def test_files_list_rules_as_text(entry: dict[str, object]) -> None:
    with pytest.raises(DomainError, match="must"):
        rt.Domain.from_dict(entry)


def test_check_counts_what_violates_rules() -> None:
    import pyarrow as pa

    domain = rt.Domain({"age": rt.Numeric(edges=range(0, 91, 15)), "job": 3}, impossible=["age < 15 AND job > 0"])
    rows = pa.table({"age": [3, 4, 50, 9, 14.9], "job": [0, 1, 2, 2, 1]})
    found = check(rows, domain)
    assert found.violations == (("age < 15 AND job > 0", 3),)
    assert "3 rows satisfy age < 15 AND job > 0, which is declared impossible" in str(found)
    assert found.to_dict()["violations"] == (("age < 15 AND job > 0", 3),)


def test_the_command_shows_rules(tmp_path: Path) -> None:
    path = tmp_path / "census.toml"
    rt.Domain(COLUMNS, impossible=RULES).write(path)
    shown = subprocess.run(
        [sys.executable, "-c", "from reticent.cli import main; main()", "domain", "show", str(path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert all(f"impossible: {rule}" in shown for rule in RULES)


def test_nothing_that_counts_for_the_kernel_reads_rules() -> None:
    """Sensitivities rest on it: a record that violates a rule is coded and counted like any other (claim 1)."""
    package = Path(rt.__file__).parent
    files = [*(package / "kernel").rglob("*.py"), *(package / "sources").rglob("*.py")]
    assert [file.name for file in files if "impossible" in file.read_text()] == []
    assert len(files) > 40


def test_a_violating_record_counts_like_any_other() -> None:
    import pyarrow as pa

    rows = pa.table({"a": [0, 0, 1, 1], "b": [0, 1, 1, 1]})
    plain, ruled = rt.Domain({"a": 2, "b": 2}), rt.Domain({"a": 2, "b": 2}, impossible=["a = 0 AND b = 1"])
    counted = [rt.Table.of(rows, domain)._source.marginal(("a", "b")) for domain in (plain, ruled)]
    np.testing.assert_array_equal(*counted)
