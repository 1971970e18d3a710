"""docs/papers.md names things that exist, and its commands run on a real table."""

from __future__ import annotations

import ast
import gzip
import io
import json
import re
import shlex
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import reticent as rt
from reticent.cli import cli, main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "papers.md"
PAPERS = {"000", "001", "002", "003", "004", "all"}
ADULT = ROOT.parent / "shared" / "data" / "adult"
PLANTS = ROOT.parent / "shared" / "data" / "plants"
ASKED = "SELECT COUNT(*) FROM census WHERE {column} = 0;\nSELECT COUNT(*) FROM census WHERE {column} = 1;\n"

LOSSES = """
[[losses]]
loss = "logistic"
features = ["age", "education"]
label = "income>50K"
radius = 1
[[losses]]
loss = "quantile"
features = ["sex"]
label = "age"
level = 0.9
radius = 1
"""


KINDS = """
[[losses]]
loss = "hinge"
features = ["age", "sex"]
label = "income>50K"
radius = 1
[[losses]]
loss = "multinomial"
features = ["age"]
label = "race"
radius = 1
[[losses]]
loss = "poisson"
features = ["sex"]
label = "age"
radius = 1
[[losses]]
loss = "margin"
features = ["education"]
label = "age"
radius = 1
slopes = [[-0.5, -1.0], [0.5, 1.0]]
"""


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]
    assert all(len(row) == 6 for row in cells)
    return cells


def quoted(cell: str) -> list[str]:
    return [text.replace("\\|", "|") for text in re.findall(r"`([^`]+)`", cell)]


def piped(command: str) -> tuple[str | None, str]:
    """What `echo "..." |` gives a command to read, if anything, and the command."""
    told, bar, rest = command.partition(" | ")
    return (shlex.split(told)[1] + ";\n", rest) if bar else (None, command)


COMMANDS = [command for row in rows() for command in quoted(row[3])]


def test_every_paper_has_its_rows_and_every_row_its_state() -> None:
    assert {row[0] for row in rows()} == PAPERS
    for row in rows():
        works = row[5].startswith("works")
        assert works or row[5].startswith("*open*"), row[1]
        assert not works or row[4], f"{row[1]} works without a test"


def test_every_name_exists() -> None:
    for name in (name for row in rows() for name in quoted(row[2])):
        found = rt
        module, *path = name.split(".")
        assert module == "rt"
        for part in path:
            if part in getattr(found, "__dataclass_fields__", {}):
                break
            found = getattr(found, part)


def test_every_test_exists() -> None:
    for named in (named for row in rows() for named in quoted(row[4])):
        path, _, function = named.partition("::")
        tree = ast.parse((ROOT / path).read_text())
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert any(name.startswith("test_") for name in functions)
        assert not function or function in functions, named


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_understood(command: str) -> None:
    """Names and options, without running it."""
    program, name, *words = shlex.split(piped(command)[1].replace("SHARE", "0.01"))
    assert program == "reticent"
    found = cli.get_command(click.Context(cli), name)
    assert found is not None, command
    if words != ["--help"]:
        found.make_context(name, list(words))


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, float]:
    """Adult in the folder of the commands: a column of it, and the share of its largest cell."""
    folder = tmp_path_factory.mktemp("census")
    with gzip.open(ADULT / "adult_reduced7.csv.gz") as file:
        table = pyarrow.csv.read_csv(io.BytesIO(file.read()))
    codes = {name: table[name].to_numpy() for name in table.column_names}
    domain = rt.Domain({name: int(column.max()) + 1 for name, column in codes.items()})
    domain.write(folder / "census.toml")
    pyarrow.parquet.write_table(pa.table(codes), folder / "census.parquet")
    (folder / "losses.toml").write_text(LOSSES)
    (folder / "kinds.toml").write_text(KINDS)
    shares = np.linspace(0, 1, domain["age"].size).tolist()
    queries = [
        {"query": "linear", "attributes": ["age"], "values": shares},
        {"query": "linear", "attributes": ["age", "sex"], "values": [[share, 1 - share] for share in shares]},
    ]
    (folder / "linear.json").write_text(json.dumps(queries))
    ages = np.bincount(codes["age"], minlength=domain["age"].size) / table.num_rows
    measured = [{"query": {"query": "marginal", "attributes": ["age"]}, "values": ages.tolist(), "sd": 0.001}]
    (folder / "measured.json").write_text(json.dumps(measured))
    with gzip.open(PLANTS / "plants.csv.gz") as file:
        plants = pyarrow.csv.read_csv(io.BytesIO(file.read()))
    rt.Domain(dict.fromkeys(plants.column_names, 2)).write(folder / "plants.toml")
    pyarrow.parquet.write_table(plants, folder / "plants.parquet")
    _, counts = np.unique(np.stack(list(codes.values())), axis=1, return_counts=True)
    return folder, table.column_names[0], float(counts.max() / table.num_rows)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs_on_a_real_table(
    command: str,
    census: tuple[Path, str, float],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, column, share = census
    monkeypatch.chdir(folder)
    told, command = piped(command)
    monkeypatch.setattr("sys.stdin", io.StringIO(ASKED.format(column=column) if told is None else told))
    with pytest.raises(SystemExit) as stopped:
        main(shlex.split(command.replace("SHARE", f"{share:.9g}"))[1:])
    told = capsys.readouterr()
    assert stopped.value.code == 0, told.err
    assert told.out
