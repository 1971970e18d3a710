"""The second reader agrees with `reticent ledger verify` on every ledger, and rejects what that rejects."""

from __future__ import annotations

import ast
import json
import lzma
import shutil
import sqlite3
import subprocess
import sys
import zipfile
import zlib
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from tests.compatibility.scenarios import FILES
from tests.evidence.compared_ledgers import compared, ours, theirs
from tests.evidence.count import count
from tests.evidence.generated_ledgers import at, leaves, other_values, rewrite, stored, write_small
from tests.evidence.second_reader import PROGRAM, READER

import reticent as rt
from reticent.kernel.accounting import epsilon_of, gaussian_epsilon_of
from reticent.kernel.ledger import chain
from reticent.kernel.mechanisms.base import Thresholded

LONGEST = 600
GENERATED = 2500
"""Seeds: each one writes a ledger and edits three copies of it, which makes 10^4."""


def test_it_is_small_and_needs_nothing_but_python() -> None:
    text = PROGRAM.read_text()
    assert len(text.splitlines()) <= LONGEST
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names


def test_generated_ledgers_read_alike_and_edits_are_noticed(tmp_path: Path) -> None:
    counts = sum((compared(seed, tmp_path) for seed in range(25)), Counter())
    assert counts["rejected"] > 20
    assert counts["only second"] > 0, "prices of edited charges are recomputed by the second reader"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_generated_ledgers() -> None:
    """Three of four are edited."""
    assert count("ledgers", GENERATED) == (GENERATED, [])


@pytest.mark.parametrize("packed", sorted(FILES.glob("*.ledger.xz")), ids=lambda path: path.name)
def test_ledgers_of_version_0_1(packed: Path, tmp_path: Path) -> None:
    name = packed.name.split(".")[0]
    for file in FILES.glob(f"{name}.*.xz"):
        (tmp_path / file.stem).write_bytes(lzma.decompress(file.read_bytes()))
    anchor = tmp_path / f"{name}.anchor"
    arguments = [str(tmp_path / f"{name}.ledger"), *(["--anchor", str(anchor)] if anchor.exists() else [])]
    if (tmp_path / f"{name}.release").exists():
        arguments += ["--release", str(tmp_path / f"{name}.release")]
    done = subprocess.run([sys.executable, "-I", str(PROGRAM), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " 0 taken as charged" in done.stdout
    assert theirs(tmp_path / f"{name}.ledger", anchor if anchor.exists() else None) == ours(
        tmp_path / f"{name}.ledger", anchor if anchor.exists() else None
    )


@pytest.mark.parametrize("rho", [1e-9, 1e-4, 0.0149, 0.5, 12.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5])
def test_two_programs_convert_alike(rho: float, delta: float) -> None:
    assert READER.epsilon_at(rho, delta) == pytest.approx(epsilon_of(rho, delta), rel=1e-9)
    assert READER.gaussian_epsilon_at(rho, delta) == pytest.approx(gaussian_epsilon_of(rho, delta), rel=1e-6)


def test_an_understated_release_is_noticed(tmp_path: Path) -> None:
    packed = FILES / "adaptive.release.xz"
    path, edited = tmp_path / "a.release", tmp_path / "b.release"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    assert READER.check_release(path, None)["rho"] > 0
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(edited, "w") as changed:
        manifest = json.loads(archive.read("manifest.json"))
        manifest["facts"]["privacy"]["epsilon"]["1e-09"] *= 0.9
        changed.writestr("manifest.json", json.dumps(manifest))
    with pytest.raises(READER.Disagreement, match="understates"):
        READER.check_release(edited, None)


@pytest.mark.parametrize("kind", ["gaussian", "pure"])
def test_a_release_that_states_more_than_its_ledger_composes_is_noticed(kind: str, tmp_path: Path) -> None:
    """Units of zCDP are neither those of GDP nor pure epsilon, which say more about the same number."""
    file, path, edited = (tmp_path / name for name in ("z.ledger", "a.release", "b.release"))
    table = rt.Table.of(pa.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
    made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(rho=0.01), ledger=file)
    made.save(path)
    account, _ = READER.read(file)
    assert READER.check_release(path, account)["rho"] > 0
    spent = Fraction(made.facts["spent"], 10**9)
    claimed = rt.Budget(epsilon=spent) if kind == "pure" else rt.Budget(rho=spent, noise="gaussian")
    (own,) = made.facts["publications"]
    told = {"budget": claimed.to_dict(), "privacy": claimed.guarantee()}
    forged = made.facts | told | {"publications": [own | {"budget": claimed.to_dict()}]}
    replace(made, facts=forged).save(edited)
    with pytest.raises(READER.Disagreement, match=f"zcdp ledger's prices as {kind}"):
        READER.check_release(edited, account)
    replace(made, facts=made.facts | {"privacy": made.facts["privacy"] | {"mu": 0.1}}).save(edited)
    with pytest.raises(READER.Disagreement, match="understates its mu"):
        READER.check_release(edited, account)


def test_a_sum_may_be_stated_by_either_composition(tmp_path: Path) -> None:
    """Earlier versions stated Gaussian and pure budgets together as zCDP, which is less where the pure one is large."""
    table = rt.Table.of(pa.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
    made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(rho=0.01))
    parts = [rt.Budget(epsilon=0.1, delta=1e-9, noise="gaussian"), rt.Budget(epsilon=1)]
    publications = [{"ledger": str(i), "budget": b.to_dict(), "spent": b.limit} for i, b in enumerate(parts)]
    whole = rt.Budget(rho=Fraction(parts[0].limit, 10**9) + Fraction(1, 2))
    stated = {"budget": whole.to_dict(), "privacy": whole.guarantee(), "publications": publications}
    path = tmp_path / "sum.release"
    replace(made, facts=made.facts | stated).save(path)
    assert READER.check_release(path, None)["rho"] == pytest.approx(0.5, abs=1e-3)
    stated["privacy"] = stated["privacy"] | {"epsilon": {"1e-09": 0.99 * whole.guarantee()["epsilon"][1e-9]}}
    replace(made, facts=made.facts | stated).save(path)
    with pytest.raises(READER.Disagreement, match="understates its epsilon"):
        READER.check_release(path, None)


PRICED = {
    ("payload", "budget", "approximate"),
    ("payload", "budget", "delta"),
    ("payload", "budget", "epsilon"),
    ("payload", "budget", "limit"),
    ("payload", "budget", "noise"),
    ("payload", "budget", "rho"),
    ("payload", "delta"),
    ("payload", "kind"),
    ("payload", "request", "draws"),
    ("payload", "request", "mechanisms", 0, "epsilon"),
    ("payload", "request", "mechanisms", 0, "most"),
    ("payload", "request", "mechanisms", 0, "sigma"),
    ("payload", "request", "mechanisms", 0, "threshold"),
    ("payload", "request", "scores", "most"),
}
"""Fields of an opening and of a charge that its price follows from."""


def in_favour(place: tuple, old: object, new: object) -> bool:
    """Whether the edit promises no more than the file did: of these a smaller one, of the others a larger one."""
    if place[:2] != ("payload", "budget") or place[-1] == "noise" or not isinstance(new, type(old)):
        return False
    try:
        less = Fraction(new) < Fraction(old)  # pyright: ignore[reportArgumentType]
    except (ValueError, ZeroDivisionError):
        return False
    return less == (place[-1] in ("limit", "approximate"))


@pytest.mark.parametrize("kind", ["discovery", "gaussian"])
def test_no_field_can_be_changed_unnoticed(kind: str, tmp_path: Path) -> None:
    """Every field of every event, with all hashes mended: what sets a price is noticed."""
    path, copy = tmp_path / "x.ledger", tmp_path / "y.ledger"
    write_small(path, kind)
    with sqlite3.connect(path) as connection:
        events = stored(connection)
    assert {event["kind"] for event in events} >= {"open", "reserve", "settle", "cap"}
    counts: Counter[str] = Counter()
    for index, event in enumerate(events):
        for place in leaves(event):
            for value in other_values(at(event, place)):
                edited = json.loads(json.dumps(events))
                at(edited[index], place[:-1])[place[-1]] = value
                shutil.copy(path, copy)
                rewrite(copy, edited)
                first, second = ours(copy), theirs(copy)
                assert second is None or second == first, (place, value)
                counts["rejected by both" if first is None else "by the second" if second is None else "read"] += 1
                if place in PRICED and event["kind"] in ("open", "reserve"):
                    assert second is None or in_favour(place, at(event, place), value), (place, value)
    assert set(counts) == {"rejected by both", "by the second", "read"}


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("sigma", [Fraction(2, 5), Fraction(3, 2), Fraction(20), Fraction(911, 7), Fraction(20000)])
def test_two_programs_bound_thresholds_alike(sigma: Fraction, neighbours: str) -> None:
    """The library sums exact fractions upwards; the second reader adds floats."""
    for spread in (1, 4, 9, 30):
        for most in (1, 3):
            wanted = Thresholded(sigma, 2 + int(sigma * spread), most)
            statistic = {"values of": "x", "most": most}
            price = READER.thresholded_price(wanted.describe(), statistic, neighbours)
            stated = wanted.price(neighbours)
            logged = READER.math.log(stated.delta.numerator) - READER.math.log(stated.delta.denominator)
            assert price.rho == stated.rho
            assert -READER.CONVERSION_SLACK <= logged - price.log_delta <= READER.math.log(READER.DELTA_ROOM)


def test_a_false_checkpoint_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint names all that was spent: one with less, under mended hashes, would open the budget again."""
    monkeypatch.setattr(chain, "LEAST", 4)
    path = tmp_path / "x.ledger"
    write_small(path, "gaussian")
    with sqlite3.connect(path) as connection:
        events = stored(connection)
    (place,) = [index for index, event in enumerate(events) if event["kind"] == "checkpoint"]
    assert theirs(path) == ours(path) is not None
    Path(f"{path}.anchor").unlink()
    with sqlite3.connect(path) as connection:
        (data,) = connection.execute("SELECT data FROM blobs").fetchone()
        told = json.loads(zlib.decompress(data)) | {"spent": 0}
        told["head"] = events[place]["previous"]
        false = zlib.compress(json.dumps(told, sort_keys=True, separators=(",", ":")).encode(), 1)
        connection.execute("UPDATE blobs SET data = ?, digest = ?", (false, READER.sha256(false)))
    events[place]["payload"]["state"] = READER.sha256(false)
    rewrite(path, events)
    assert ours(path) is None
    assert theirs(path) is None


def test_a_release_on_a_discovered_domain_states_its_delta(tmp_path: Path) -> None:
    """What thresholds of the discovery may fail with is part of every delta that the release states."""
    rows = {"sex": ["f", "m"] * 800, "age": [20, 30, 40, 60] * 400}
    columns = {"sex": "text", "age": rt.Undeclared("number", whole=True, lower=0, upper=100)}
    found = rt.discover(
        pa.table(rows), columns, rt.Budget(epsilon=2, delta=1e-6), ledger=tmp_path / "d.ledger", edges=1, progress=False
    )
    table = rt.Table.of(pa.table(rows), found)
    release = rt.release(table, rt.marginals(found, 1), budget=rt.Budget(rho=0.5), ledger=tmp_path / "r.ledger")
    release.save(tmp_path / "x.release")
    for name in ("d.ledger", "r.ledger"):
        account = READER.read(tmp_path / name)[0]
        assert account.unpriced == 0
        stated = READER.check_release(tmp_path / "x.release", account)
    assert stated["approximate"] == 5e-7
    assert set(stated["epsilon"]) == {"1e-06"}
    edited = tmp_path / "y.release"
    for change in (
        {"approximate": 0.0},
        {"epsilon": {"1e-06": stated["epsilon"]["1e-06"] * 0.99}},
        {"epsilon": {"5e-7": 99}},
    ):
        with zipfile.ZipFile(tmp_path / "x.release") as archive, zipfile.ZipFile(edited, "w") as changed:
            manifest = json.loads(archive.read("manifest.json"))
            manifest["facts"]["privacy"] |= change
            changed.writestr("manifest.json", json.dumps(manifest))
        with pytest.raises(READER.Disagreement):
            READER.check_release(edited, None)
