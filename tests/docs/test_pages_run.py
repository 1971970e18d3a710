"""Every code block of the README and the guide runs, and prints what the page shows."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.docs.runnable import ROOT, blocks, masked, pages, run

LANGUAGES = {"python", "sh", "toml", "sql", "text", "output", "json", "r"}
RUN_FOR_REAL = {"check", "plan", "release", "ledger"}


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("census")
    runpy.run_path(str(ROOT / "examples" / "tiny_census.py"))["write"](folder)
    return folder


@pytest.fixture
def beside_census(census: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in census.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_python_blocks_run_and_print_what_is_shown(page: Path, beside_census: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{page.name}:{block.line}: language {block.language!r}"
        if block.language != "python":
            continue
        printed = run(block, page, namespace)
        if block.output is not None:
            assert masked(printed) == masked(block.output), f"{page.name}:{block.line} printed:\n{printed}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Answer(0.09, about 1,838 records, ±0.0185 at 0.95, typically ±0.00847, certificate, price 0)",
         "Answer(0.1, about 2,001 records, ±0.0131 at 0.95, typically ±0.00612, derived, price 0)"),
        ("Answer(0.09, about 1,796 records, ±0.003 at 0.95, measured, price 0.000564)",
         "Answer(0.0912, about 1,824 records, ±0.003 at 0.95, measured, price 0.000564)"),
        ("basic  3,909 ± 319  31,837 ± 29,152", "basic  3,928 ± 223  31,375 ± 14,091"),
        ("within count(*) ± 170", "within count(*) ± 183.5"),
        ("certified to ±0.00506>", "certified to ±0.00723>"),
    ],
)  # fmt: skip
def test_what_noise_decides_is_an_example(one: str, other: str) -> None:
    assert masked(one) == masked(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<Session on 'c': rho 0.008235 spent, 0.006738 left>", "<Session on 'c': rho 0.009171 spent, 0.006738 left>"),
        ("<Session on 'c': rho 0.009171 spent, 0.006738 left>", "<Session on 'c': rho 0.009171 spent, 0.005802 left>"),
        ("0.02 0.0 of 0.006738", "0.02 0.0 of 0.005802"),
        ("Answer(0.1, about 2 records, ±0.003 at 0.95, measured, price 0.000553)",
         "Answer(0.1, about 2 records, ±0.003 at 0.95, measured, price 0.000564)"),
        ("Answer(0.1, about 2 records, ±0.003 at 0.95, measured, price 0)",
         "Answer(0.1, about 2 records, ±0.004 at 0.95, measured, price 0)"),
        ("15 measurements", "45 measurements"),
        ("clipped to [0, 100000]", "clipped to [0, 90000]"),
        ("<Table 'c': 20000 records, 5 attributes>", "<Table 'c': 20000 records, 6 attributes>"),
    ],
)  # fmt: skip
def test_what_public_facts_decide_is_compared(one: str, other: str) -> None:
    assert masked(one) != masked(other)


def commands() -> list[Any]:
    found = []
    for page in pages():
        for block in blocks(page):
            if block.language != "sh":
                continue
            for line in block.text.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["reticent"]:
                    found.append(pytest.param(words[1:], id=f"{page.stem}: {' '.join(words)[:60]}"))
    return found


@pytest.mark.parametrize("words", commands())
def test_commands_exist_with_the_options_shown(words: list[str], beside_census: Path) -> None:
    import click

    from reticent.cli import cli

    context = click.Context(cli)
    command: Any = cli
    rest = list(words)
    while isinstance(command, click.Group):
        name = rest.pop(0)
        command = command.get_command(context, name)
        assert command is not None, f"no command {name!r}"
    options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    assert {word for word in rest if word.startswith("--")} <= options
    if words[0] == "ledger":
        _make_ledger(beside_census)
    if words[0] in RUN_FOR_REAL:
        cli.main(args=words, prog_name="reticent", standalone_mode=False)


def _make_ledger(folder: Path) -> None:
    from reticent import Budget, Domain, Ledger, Table

    table = Table.read(folder / "census.parquet", Domain.read(folder / "census.toml"))
    Ledger.open(folder / "census.ledger", identity=table.identity, budget=Budget(epsilon=1, delta=1e-9)).close()


def test_make_targets_named_on_the_pages_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in pages():
        for block in blocks(page):
            for line in block.text.splitlines() if block.language == "sh" else ():
                if line.startswith("make "):
                    target = line.split()[1]
                    assert f"\n{target}:" in makefile, f"{page.name}: no target {target}"


def test_the_readme_says_what_make_test_leaves_out() -> None:
    recipe = re.search(r"\ntest: setup\n.*-m \"(?P<chosen>[^\"]+)\"", (ROOT / "Makefile").read_text())
    said = next(line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("make test"))
    assert recipe is not None
    left_out = re.findall(r"not (\w+)", recipe["chosen"])
    assert left_out
    assert [mark for mark in left_out if f"make {mark}" not in said] == []
