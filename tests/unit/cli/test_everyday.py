"""Everyday trouble on the command line: folders, disks, terminals and memory; always one line, never a traceback."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import pkgutil
import resource
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from tests.unit.cli.cli_people import Called

import reticent
import reticent.cli
from reticent.cli import INTERNAL, report_id

Call = Callable[..., Called]
TABLE = ("people.csv", "--domain", "people.toml")
BUDGET = ("--epsilon", "1", "--delta", "1e-9")
NOBODY = 65534


def spawned(
    *words: str, out: str | None = None, env: dict[str, str] | None = None, before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """`reticent ...` in a process of its own, which may be of another user or have less memory."""
    with open(out or os.devnull, "w") as stream:
        return subprocess.run(
            [sys.executable, "-c", "from reticent.cli import main; main()", *words],
            stdout=stream if out else subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
            preexec_fn=before,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def everything() -> None:
    """All modules loaded, as a command would load them when they are wanted."""
    for found in pkgutil.walk_packages(reticent.__path__, "reticent."):
        import_module(found.name)
    codecs.lookup("utf-8-sig")  # loaded on first use too


def one_line(error: bytes, *named: str) -> None:
    text = error.decode()
    assert text.startswith("reticent: "), text
    assert text.count("\n") == 1, text
    assert "Traceback" not in text
    for name in named:
        assert name in text


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize(
    "words",
    [
        ("check", "{locked}/people.csv", "--domain", "people.toml"),
        ("check", "people.csv", "--domain", "{locked}/people.toml"),
        ("release", *TABLE, *BUDGET, "--save", "{locked}/p.release"),
        ("release", *TABLE, *BUDGET, "--ledger", "{locked}/p.ledger"),
        ("release", *TABLE, *BUDGET, "--report", "r.html", "--workload", "{locked}/w.json"),
        ("release", *TABLE, *BUDGET, "--report", "r.html", "--workload", "{locked}/w.sql"),
        ("shell", "{locked}/p.release"),
        ("ask", "{locked}/p.release", "SELECT COUNT(*) FROM t"),
        ("ledger", "verify", "{locked}/p.ledger"),
        ("ledger", "show", "{locked}/p.ledger"),
        ("demo", "--out", "{locked}/demo"),
        ("shell", *TABLE, *BUDGET, "--ledger", "{locked}/p.ledger"),
        ("serve", *TABLE, *BUDGET, "--ledger", "{locked}/p.ledger"),
        ("serve", "--config", "{locked}/server.toml"),
    ],
    ids=lambda words: " ".join(words)[:60],
)
@pytest.mark.usefixtures("everything")
def test_a_folder_without_permission(words: tuple[str, ...], people: Path) -> None:
    locked = people / "locked"
    locked.mkdir(mode=0o700)
    for folder in (people, *people.parents):
        if folder != Path("/") and folder.stat().st_uid == os.getuid() and "pytest" in str(folder):
            folder.chmod(folder.stat().st_mode | 0o005)
    said = people / "said"
    with said.open("w") as stream:
        pid = os.fork()
        if pid == 0:  # a child of this process: another user may not be able to read our installation
            code = 99
            try:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                with contextlib.redirect_stderr(stream), contextlib.redirect_stdout(io.StringIO()):
                    reticent.cli.main([word.format(locked=locked) for word in words])
            except SystemExit as stopped:
                code = int(stopped.code or 0)
            finally:
                stream.flush()
                os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 2, said.read_text()
    one_line(said.read_bytes())


LONG = "n" * 5000
LONG_NAMES = [
    ("check", f"{LONG}.csv", "--domain", "people.toml"),
    ("check", "people.csv", "--domain", f"{LONG}.toml"),
    ("release", *TABLE, *BUDGET, "--save", f"{LONG}.release"),
    ("release", *TABLE, *BUDGET, "--out", f"{LONG}.csv"),
    ("release", *TABLE, *BUDGET, "--report", f"{'n' * 300}.html"),
    ("release", *TABLE, *BUDGET, "--ledger", LONG),
    ("release", *TABLE, *BUDGET, "--report", "r.html", "--workload", f"{LONG}.json"),
    ("release", *TABLE, *BUDGET, "--report", "r.html", "--workload", f"{LONG}.sql"),
    ("shell", f"{LONG}.release"),
    ("ledger", "show", LONG),
    ("ledger", "verify", LONG, "--anchor", LONG),
    ("demo", "--out", LONG),
]


@pytest.mark.parametrize("words", LONG_NAMES, ids=lambda words: " ".join(word[:12] for word in words))
def test_a_name_too_long(words: tuple[str, ...], people: Path, call: Call) -> None:
    refused = call(*words)
    assert refused.code == 2
    one_line(refused.err.encode())
    assert len(refused.err) < 1000
    assert not list(people.glob("*.ledger"))


def test_a_full_disk_behind_the_output(people: Path) -> None:
    plan = ("plan", "--records", "2000", "--domain", "people.toml", *BUDGET)
    for words in ((*plan, "--json"), ("--help",)):
        full = spawned(*words, out="/dev/full")
        assert full.returncode == 2
        one_line(full.stderr, "No space left")


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)], ids=str)
def test_closed_streams_lead_nowhere(closed: tuple[int, ...], people: Path) -> None:
    """`reticent ... >&-`: no traceback, the right exit code, and no file takes the number of a stream."""

    def close() -> None:
        for number in closed:
            os.close(number)

    ended = spawned("release", *TABLE, *BUDGET, "--ledger", "closed.ledger", "--save", "closed.release", before=close)
    assert ended.returncode == 0
    assert b"Traceback" not in ended.stderr
    verified = spawned("ledger", "verify", "closed.ledger", "--release", "closed.release")
    assert verified.returncode == 0, verified.stderr
    refused = spawned("ledger", "verify", "none.ledger", before=close)
    assert refused.returncode == 2
    if 2 not in closed:
        one_line(refused.stderr)


def test_a_full_disk_behind_a_file(people: Path, call: Call) -> None:
    refused = call("release", *TABLE, *BUDGET, "--save", "/dev/full", "--ledger", "p.ledger")
    assert refused.code == 2
    anchor, _, failure = refused.err.partition("\n")
    assert "beside the ledger" in anchor
    one_line(failure.encode(), "/dev/full", "No space left")
    again = call("release", *TABLE, *BUDGET, "--save", "p.release", "--ledger", "p.ledger", "--json")
    assert again.json["charged_now"] == 0, "what was paid for is kept"


def test_a_terminal_that_knows_ascii_only_shows_what_was_paid_for(people: Path) -> None:
    words = ("release", *TABLE, *BUDGET, "--save", "p.release")
    shown = spawned(*words, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"})
    assert shown.returncode == 0, shown.stderr
    asked = ("ask", "p.release", "SELECT sex, COUNT(*) FROM people GROUP BY sex")
    answer = spawned(*asked, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"})
    assert answer.returncode == 0, answer.stderr
    assert b" +- " in answer.stdout


def test_too_little_memory(people: Path) -> None:
    (people / "w.toml").write_text("".join(f"[c{place}]\nvalues = ['a', 'b']\n" for place in range(3)))

    def little() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))

    words = ("release", *TABLE, *BUDGET, "--out", "rows.csv", "--rows", str(2**31 - 1))
    short = spawned(*words, before=little, env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    assert short.returncode == 2, short.stderr
    one_line(short.stderr, "memory")


def test_a_fault_of_ours_is_one_line_with_a_report_id(
    people: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a value of a row")

    monkeypatch.setattr("reticent.custodian.check.check", broken)
    failed = call("check", *TABLE)
    assert failed.code == INTERNAL
    one_line(failed.err.encode(), "report ", "KeyError")
    assert "a value of a row" not in failed.err
    assert call("check", *TABLE).err == failed.err, "the same fault has the same id"


def test_a_report_id_names_no_value() -> None:
    with pytest.raises(ValueError, match="secret") as caught:
        int("secret")
    assert "secret" not in report_id(caught.value)
    assert "ValueError" in report_id(caught.value)


UNUSED = [
    ("release", *TABLE, *BUDGET, "--algorithm", "mwem", "--error", "0.1"),
    ("release", *TABLE, *BUDGET, "--error", "0.1"),
    ("release", *TABLE, *BUDGET, "--algorithm", "mwem", "--error", "0.1"),
    ("release", *TABLE, *BUDGET, "--rounds", "3"),
    ("release", *TABLE, *BUDGET, "--algorithm", "textbook", "--error", "0.3", "--rounds", "3"),
    ("release", *TABLE, *BUDGET, "--algorithm", "mwem", "--model-cells", "3"),
    ("release", *TABLE, *BUDGET, "--rows", "10"),
    ("shell", "p.release", "--error", "10"),
    ("shell", "p.release", "--yes"),
    ("shell", "p.release", "--ledger", "l"),
    ("shell", "p.release", "--neighbours", "add-remove"),
    ("shell", "p.release", *BUDGET),
    ("shell", "http://127.0.0.1:9", "--domain", "people.toml"),
    ("shell", "http://127.0.0.1:9", "--warm-start", "0.5"),
    ("shell", "http://127.0.0.1:9", *BUDGET),
    ("shell", *TABLE, *BUDGET, "--ledger", "l", "--table", "t"),
    ("ask", "http://127.0.0.1:9", "SELECT COUNT(*) FROM t", "--key", "k"),
    ("ask", "http://127.0.0.1:9", "SELECT COUNT(*) FROM t", "--max-price", "1"),
    ("ask", "http://127.0.0.1:9", "SELECT COUNT(*) FROM t", "--cost", "--error", "10", "--key", "k"),
    ("serve", "--config", "server.toml", "--domain", "people.toml"),
    ("serve", "--config", "server.toml", "--ledger", "l"),
    ("serve", "--config", "server.toml", "--neighbours", "add-remove"),
    ("serve", "--config", "server.toml", "--epsilon", "1"),
    ("serve", "--config", "server.toml", "--title", "T"),
]


@pytest.mark.parametrize("words", UNUSED, ids=" ".join)
def test_an_option_without_effect_is_refused(words: tuple[str, ...], people: Path, call: Call) -> None:
    refused = call(*words)
    assert refused.code == 2
    one_line(refused.err.encode(), "has no effect")
    assert not (people / "l").exists()
