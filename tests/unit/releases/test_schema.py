"""Release files are input: whatever is in them, they load whole or are refused in one line."""

from __future__ import annotations

import io
import json
import random
import time
import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.hypotheses.base import pack
from reticent.releases.schema import LARGEST_CONTENT

RECORDS = 300
DAMAGE = [
    *(None, -1, 0, 1, 2, "x", "", [], {}, [[]], 1e308, -1e308, float("nan"), float("inf"), 10**30, True),
    *("1e999999999", "9" * 5000, ["x"], {"a": 1}, 0.5, -0.001, "person", 10**400),
]


@pytest.fixture(scope="module")
def parts() -> dict[str, bytes]:
    """The entries of a small release file."""
    generator = np.random.default_rng(0)
    domain = rt.Domain(
        x=rt.Numeric(edges=[0, 5, 50, 100], nullable=True),
        s=rt.Categorical(["a", "b"], other=False),
        k=rt.Categorical([7, 8], other=False),
    )
    columns = {
        "x": generator.exponential(10, RECORDS),
        "s": generator.choice(["a", "b"], RECORDS),
        "k": generator.choice([7, 8], RECORDS),
    }
    table = rt.Table.of(pa.table(columns), domain)
    return entries_of(rt.release(table, rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9)))


@pytest.fixture(scope="module")
def counted() -> dict[str, bytes]:
    """The entries of a release of two counts, which bound their own errors."""
    rows = rt.Table.of(pa.table({"x": np.arange(RECORDS) % 40}), rt.Domain(x=40), neighbours="add-remove")
    asked = [rt.count(rt.col("x") < 9), rt.count(rt.col("x") < 30)]
    return entries_of(rt.release(rows, rt.Workload(asked), rt.Budget(epsilon=1, delta=1e-9)))


def entries_of(release: rt.Release) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(release.to_bytes())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return stream.getvalue()


def changed(parts: dict[str, bytes], path: tuple[Any, ...], value: Any) -> bytes:
    """The file with one entry of its manifest replaced."""
    manifest = json.loads(parts["manifest.json"])
    place = manifest
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return packed({**parts, "manifest.json": json.dumps(manifest).encode()})


def used(release: rt.Release) -> None:
    """All that reads what the file said."""
    repr(release)
    release._repr_html_()
    release.ask("SELECT s, COUNT(*), AVG(x) FROM t GROUP BY s")
    release.ask(rt.count(rt.col("x") >= 5))
    release.ask(rt.mean("k"))
    release.synthesize(20)
    release.expected_variation()
    release.to_bytes()


def load_or_refuse(data: bytes) -> bool:
    try:
        release = rt.Release.from_bytes(data)
    except rt.ReticentError as refused:
        text = str(refused)
        assert "\n" not in text
        assert len(text) < 700
        return False
    used(release)
    return True


CRAFTED = [
    (("certificates", 0, "index"), 10**400, "index"),
    (("certificates", 0, "index"), 10**6, "index"),
    (("certificates", 0, "index"), True, "index"),
    (("certificates", 0, "reading"), -1, "reading"),
    (("certificates", 0, "reading"), float("nan"), "reading"),
    (("certificates", 0, "slack"), -1, "slack"),
    (("certificates", 0, "confidence"), 1, "confidence"),
    (("certificates", 0, "records_error"), -0.5, "records_error"),
    (("certificates", 0, "kind"), "everything", "kind"),
    (("certificates", 0, "sets"), [], "sets"),
    (("certificates", 0, "sets"), [["nobody"]], "nobody"),
    (("certificates", 0, "noise"), {"mechanism": "Gaussian", "sigma": "1e999999999"}, "number"),
    (("certificates", 0, "noise"), {"mechanism": "Gaussian"}, "sigma"),
    (("certificates", 0, "noise"), {"mechanism": "Exponential", "epsilon": "1"}, ""),
    (("records",), 0, "records"),
    (("records",), float("inf"), "records"),
    (("notes", "records_error"), "x", "records_error"),
    (("facts", "budget"), {"epsilon": "1e9999999"}, ""),
    (("facts", "neighbours"), "anybody", "neighbours"),
    (("facts", "name"), 3, "name"),
    (("facts", "name"), "n" * 10**6, "long"),
    (("facts", "workload"), {"marginals": [["nobody"]]}, "nobody"),
    (("measurements", 0, "sd"), -1, "sd"),
    (("measurements", 0, "query"), {"query": "marginal", "attributes": ["s", "x", "k"]}, "shape"),
    (("format",), 2, "format 2"),
    (("format",), 10**400, "format"),
    (("domain",), {"x": {"type": "numeric", "edges": [0, 1]}}, ""),
]


@pytest.mark.parametrize(("path", "value", "named"), CRAFTED, ids=lambda part: str(part)[:50])
def test_a_crafted_entry_is_refused_at_load(
    parts: dict[str, bytes], path: tuple[Any, ...], value: Any, named: str
) -> None:
    started = time.process_time()
    with pytest.raises(rt.ReticentError) as refused:
        rt.Release.from_bytes(changed(parts, path, value), "p.release")
    assert str(refused.value).startswith("p.release: ")
    assert named in str(refused.value)
    assert time.process_time() - started < 5


MEASURED = ("guarantees", 0, "measured")
OWN = [
    (MEASURED, {}, "no list"),
    ((*MEASURED, 0), {"place": 0}, "damaged"),
    ((*MEASURED, 0, "place"), 2, "workload"),
    ((*MEASURED, 0, "place"), True, "workload"),
    ((*MEASURED, 0, "share"), 1.5, "share"),
    ((*MEASURED, 0, "reading"), {}, "reading"),
    ((*MEASURED, 0, "reading", "noise"), {"mechanism": "Exponential", "epsilon": "1"}, "noise"),
    ((*MEASURED, 0, "reading", "noise"), [], "noise"),
    ((*MEASURED, 0, "reading", "held"), float("nan"), "records"),
    ((*MEASURED, 0, "reading", "cells"), 0, "cells"),
    ((*MEASURED, 0, "reading", "others"), 1.5, "others"),
    ((*MEASURED, 0, "reading", "rest"), None, "number of records"),
    ((*MEASURED, 0, "reading", "records"), 0, "records"),
    ((*MEASURED, 0, "reading", "exact"), 1, "exact"),
]


@pytest.mark.parametrize(("path", "value", "named"), OWN, ids=lambda part: str(part)[:50])
def test_a_crafted_bound_of_a_query_is_refused_at_load(
    counted: dict[str, bytes], path: tuple[Any, ...], value: Any, named: str
) -> None:
    with pytest.raises(rt.ReticentError, match=named):
        rt.Release.from_bytes(changed(counted, path, value), "p.release")


def test_bounds_of_queries_are_saved(counted: dict[str, bytes]) -> None:
    release = rt.Release.from_bytes(packed(counted))
    query = rt.count(rt.col("x") < 9)
    error = release.answer(query).error
    assert error is not None
    assert 0 < error < 0.5
    assert rt.Release.from_bytes(release.to_bytes()).answer(query) == release.answer(query)
    assert release.answer(rt.count(rt.col("x") >= 9)).error == pytest.approx(error)
    assert not release.answer(rt.count(rt.col("x") < 10)).certified
    release._repr_html_()


def test_what_was_saved_loads_and_is_the_same(parts: dict[str, bytes]) -> None:
    release = rt.Release.from_bytes(packed(parts))
    used(release)
    again = rt.Release.from_bytes(release.to_bytes())
    assert again.ask(rt.count(rt.col("x") >= 5)) == release.ask(rt.count(rt.col("x") >= 5))


def test_few_bytes_do_not_become_many(parts: dict[str, bytes], tmp_path: Path) -> None:
    bomb = packed({**parts, "hypothesis.bin": bytes(2**22)}, zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(io.BytesIO(bomb)) as archive:
        place = archive.getinfo("hypothesis.bin")
    real = (2**22).to_bytes(4, "little")
    stated = (LARGEST_CONTENT + 1).to_bytes(4, "little")
    assert place.file_size == 2**22
    with pytest.raises(rt.ReticentError, match="unpack to more than"):
        rt.Release.from_bytes(bomb.replace(real, stated))
    wide = np.lib.format.header_data_from_array_1_0(np.zeros(3)) | {"shape": (10**12,)}
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, wide)
    with pytest.raises(rt.ReticentError, match="cut short"):
        rt.Release.from_bytes(packed({**parts, "measurements/0.npy": stream.getvalue()}))
    huge = pack("dense", {}, []).replace(b'"arrays": []', b'"arrays": [["<f8", [1000000000000]]]')
    with pytest.raises(rt.ReticentError):
        rt.Release.from_bytes(packed({**parts, "hypothesis.bin": huge}))
    folder = tmp_path / "folder.release"
    folder.mkdir()
    with pytest.raises(rt.ReticentError, match="cannot be read"):
        rt.Release.load(folder)


def damaged(parts: dict[str, bytes], paths: list[tuple[Any, ...]], source: random.Random) -> bytes:
    kind = source.random()
    if kind < 0.6:
        manifest = json.loads(parts["manifest.json"])
        for _ in range(source.choice([1, 1, 2])):
            path = source.choice(paths)
            try:
                place = manifest
                for step in path[:-1]:
                    place = place[step]
                if source.random() < 0.2:
                    del place[path[-1]]
                else:
                    place[path[-1]] = deepcopy(source.choice(DAMAGE))  # a second change may lie inside it
            except (KeyError, IndexError, TypeError):
                continue  # an earlier change took it away
        return packed({**parts, "manifest.json": json.dumps(manifest).encode()})
    if kind < 0.8:
        name = source.choice(list(parts))
        raw = bytearray(parts[name])
        for _ in range(source.randint(1, 4)):
            raw[source.randrange(len(raw) if source.random() < 0.5 else min(len(raw), 400))] = source.randrange(256)
        return packed({**parts, name: bytes(raw[: source.randrange(len(raw))] if source.random() < 0.3 else raw)})
    whole = bytearray(packed(parts, zipfile.ZIP_DEFLATED))
    for _ in range(source.randint(1, 6)):
        whole[source.randrange(len(whole))] = source.randrange(256)
    return bytes(whole)


def entries(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    children = value.items() if isinstance(value, dict) else enumerate(value[:5]) if isinstance(value, list) else ()
    for name, child in children:
        found += entries(child, (*path, name))
    return found


@pytest.mark.parametrize("count", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_files_load_or_are_refused_in_one_line(parts: dict[str, bytes], count: int) -> None:
    source = random.Random(count)
    paths = entries(json.loads(parts["manifest.json"]))
    loaded = sum(load_or_refuse(damaged(parts, paths, source)) for _ in range(count))
    assert 0 < loaded < count / 2
