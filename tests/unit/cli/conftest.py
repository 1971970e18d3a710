"""A tiny table on disk, and the command line called in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.cli.cli_people import Called, write_people


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with people.csv and people.toml."""
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Called]:
    """Runs `reticent ...` in this process."""
    from reticent.cli import main

    def run(*words: str) -> Called:
        with pytest.raises(SystemExit) as stopped:
            main(list(words))
        seen = capsys.readouterr()
        code = stopped.value.code
        assert isinstance(code, int)
        return Called(code, seen.out, seen.err)

    return run


@pytest.fixture(scope="session")
def release_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the tiny table, made once."""
    import reticent as rt

    folder = tmp_path_factory.mktemp("release")
    write_people(folder)
    table = rt.Table.read(folder / "people.csv", rt.Domain.read(folder / "people.toml"))
    release = rt.release(table, rt.marginals(table.domain, 2), rt.Budget(epsilon=1, delta=1e-9))
    return release.save(folder / "people.release")
