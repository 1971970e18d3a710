"""What an operator installs: a wheel that is whole without its sources, and files that are as the guide shows them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import httpx
import pytest
from tests.service.serving import Server, bearer, running_app, write_survey

from reticent._numba_cache import prepare

ROOT = Path(__file__).resolve().parents[2]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
STATIC = ROOT / "src" / "reticent" / "service" / "static"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as an operator gets it."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "src/reticent", folder / "src/reticent", ignore=shutil.ignore_patterns("__pycache__"))
    build = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", "wheels", "."]
    subprocess.run(build, cwd=folder, check=True, timeout=120)
    (made,) = (folder / "wheels").glob("reticent-*.whl")
    return made


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    package = ROOT / "src"
    ours = {
        str(path.relative_to(package))
        for path in (package / "reticent").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        assert ours <= set(archive.namelist())


@pytest.mark.slow  # counting functions are compiled anew for it
def test_a_server_from_the_wheel_has_its_whole_page(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    subprocess.run([*PIP, "install", "--no-deps", "--target", str(installed), str(wheel)], check=True, timeout=120)
    monkeypatch.setenv("PYTHONPATH", str(installed))
    monkeypatch.chdir(tmp_path)
    told = subprocess.run(
        [sys.executable, "-c", "import reticent; print(reticent.__file__)"], capture_output=True, text=True, check=True
    )
    assert Path(told.stdout.strip()).is_relative_to(installed), "the checkout was imported, not the wheel"
    write_survey(tmp_path)
    server = Server(tmp_path, ["--epsilon", "1", "--delta", "1e-9", "--tick", "0", "--readers", "1"], patience=240)
    try:
        server.start()
        with httpx.Client(base_url=server.url, headers=bearer(server.custodian), timeout=30) as client:
            for path in STATIC.iterdir():
                assert client.get(f"/static/{path.name}").content == path.read_bytes(), path.name
            assert client.get("/").content == (STATIC / "index.html").read_bytes()
            asked = client.post("/v1/tables/survey/ask", json={"sql": "SELECT COUNT(*) FROM survey"})
            assert asked.json()["result"]["rows"][0][0] > 0
    finally:
        server.stop()


def test_compiled_functions_have_a_private_place_where_nothing_else_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service user without a home, and a program that belongs to root: numba would refuse to be imported."""
    unwritable = Path("/proc/self")  # for root, too
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/chosen")
    prepare(unwritable)
    assert os.environ["NUMBA_CACHE_DIR"] == "/chosen"
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a" / "b"))
    prepare(unwritable)
    assert "NUMBA_CACHE_DIR" not in os.environ
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/self/nowhere")
    prepare(tmp_path)
    assert "NUMBA_CACHE_DIR" not in os.environ
    prepare(unwritable)
    made = Path(os.environ["NUMBA_CACHE_DIR"])
    assert made.stat().st_mode & 0o777 == 0o700
    made.rmdir()


@pytest.mark.parametrize("name", ["reticent.service", "Containerfile"])
def test_the_guide_shows_the_files_themselves(name: str) -> None:
    assert (ROOT / "deploy" / name).read_text() in (ROOT / "docs" / "operations.md").read_text()


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (ROOT / "deploy" / "reticent.service").read_text()
    assert "/opt/reticent/bin/reticent" in unit
    # the command must exist for systemd to be content, so any other stands in for it
    (tmp_path / "reticent.service").write_text(unit.replace("/opt/reticent/bin/reticent", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "reticent.service")],
        capture_output=True,
        text=True,
        env=os.environ | {"SYSTEMD_LOG_LEVEL": "warning"},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_image_is_built_from_the_sources_alone(tmp_path: Path) -> None:
    """Everything is left out but what is named; what the build reads is named."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert rules[0] == "*"
    kept = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert kept == {"pyproject.toml", "README.md", "LICENSE", "requirements/dev.txt", "src"}
    assert all((ROOT / name).exists() for name in kept)


def test_the_containers_health_check_tells_a_server_from_none(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "Containerfile").read_text()
    (line,) = (line for line in text.splitlines() if line.strip().startswith("CMD ["))
    program, flag, code = json.loads(line.strip().removeprefix("CMD "))
    assert (program, flag) == ("python", "-c")
    write_survey(tmp_path)
    with running_app(tmp_path) as service:
        asked = code.replace("127.0.0.1:8000", f"127.0.0.1:{service.client.base_url.port}")
        assert subprocess.run([sys.executable, "-c", asked], timeout=60).returncode == 0
    assert subprocess.run([sys.executable, "-c", asked], timeout=60, capture_output=True).returncode != 0


def test_the_containers_user_owns_what_it_writes() -> None:
    text = (ROOT / "deploy" / "Containerfile").read_text()
    cache = text.partition("ENV NUMBA_CACHE_DIR=")[2].split()[0]
    made = text.partition("install -d -m 0700 -o reticent -g reticent ")[2].splitlines()[0].split()
    assert {cache, text.partition("WORKDIR ")[2].split()[0]} <= set(made)
    assert text.index("install -d") < text.index("USER reticent")


def test_the_container_runs_a_command_that_exists() -> None:
    """Its options are the program's: a renamed one would only show in production."""
    from reticent.cli import cli

    (entry,) = (line for line in (ROOT / "deploy" / "Containerfile").read_text().splitlines() if "ENTRYPOINT" in line)
    program, command, *options = [
        part.strip('" ') for part in entry.removeprefix("ENTRYPOINT [").rstrip("]").split(",")
    ]
    assert (program, command) == ("reticent", "serve")
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    known = {name for option in found.params for name in option.opts}
    assert {option for option in options if option.startswith("--")} <= known
