"""Every command under fuzzed arguments and files: one line and an exit code that is the caller's, never a fault."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.cli_people import write_people

from reticent.cli import INTERNAL, main

BUDGET = ("--epsilon", "1", "--delta", "1e-9")
WORDS = [
    *("", "-1", "0", "1", "0.5", "2", "1e-9", "1e309", "nan", "inf", "-inf", "1e-320", "10000000000000000000000", "x"),
    *("%", "1%", "-5%", "1e5%", "\x00", "a\nb", "é", "\ud800", "n" * 400, "'", '"', ";", "--", "-h", "../gone"),
    *("marginals:2", "marginals:99", "ranges:age", "ranges:", "marginals:1+ranges:age", "people.toml", "people.csv"),
    *(
        "people.release",
        "bad.release",
        "bad.toml",
        "bad.json",
        "bad.csv",
        "bad.sql",
        "p.ledger",
        "bad.ledger",
        "nowhere/x",
    ),
    *(
        "null.device",
        "full.device",
        "rows.csv",
        "rows.parquet",
        "r.html",
        "SELECT COUNT(*) FROM t",
        "SELECT AVG(age) FROM t",
    ),
    *("SELECT", "SELECT SUM(age) FROM t GROUP BY sex", "SELECT COUNT(*) FROM t WHERE age > 99", "http://[", "http://"),
    *(
        "adaptive",
        "mwem",
        "textbook",
        "dualquery",
        "add-remove",
        "replace-one",
        "sex",
        "age",
        "nobody",
        "postgresql://x",
    ),
]
TABLE = ("people.csv", "--domain", "people.toml")
ANCHOR = ("--anchor", "p.ledger.anchor")
COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "check": [(*TABLE, "--records", "2000", "--person", "age", "--json"), (*TABLE, "--query", "x")],
    "plan": [
        ("--records", "2000", "--domain", "people.toml", *BUDGET, "--queries", "10", "--error", "0.1"),
        ("--records", "9", "--domain", "people.toml", "--rho", "0.1", "--confidence", "0.9", "--json"),
    ],
    "estimate": [
        ("measured.json", "--domain", "people.toml", "--records", "2000", "--json"),
        ("bad.measured.json", "--domain", "people.toml", "--records", "9", "--out", "e.csv", "--rows", "9"),
    ],
    "ask": [
        ("people.release", "SELECT COUNT(*) FROM t", "--json"),
        ("people.release", "SELECT COUNT(*) FROM t", "--error", "10", "--confidence", "0.9", "--key", "k"),
        ("http://127.0.0.1:9", "SELECT COUNT(*) FROM t", "--table", "t", "--error", "10", "--max-price", "1"),
    ],
    "shell": [
        ("people.release", "--json"),
        (*TABLE, *BUDGET, "--ledger", "new.ledger", "--warm-start", "0", "--error", "10", "--yes"),
    ],
    "fit": [
        ("people.release", "losses.json", "--json"),
        ("people.release", "bad.losses.json", "--out", "new.json"),
        (*TABLE, "losses.json", *BUDGET, "--ledger", "new.ledger", "--warm-start", "0", "--error", "0.5", "--cost"),
    ],
    "domain new": [
        ("people.csv", "--number", "age", "--json"),
        ("people.csv", "--codebook", "bad.json", "--out", "new.toml"),
    ],
    "domain show": [("people.toml", "--json"), ("bad.toml",)],
    "domain discover": [
        ("people.csv", "--draft", "draft.toml", "--ledger", "new.ledger", *BUDGET, "--edges", "3"),
        ("people.csv", "--draft", "people.toml", "--ledger", "new.ledger", *BUDGET, "--values", "2"),
        ("people.csv", "--draft", "bad.draft.toml", "--ledger", "new.ledger", "--rho", "1", "--out", "new.toml"),
    ],
    "ledger show": [("p.ledger", *ANCHOR, "--json"), ("bad.ledger",)],
    "ledger verify": [("p.ledger", *ANCHOR), ("bad.ledger",), ("p.ledger", "--release", "people.release", "--json")],
    "ledger backup": [("p.ledger", "new.ledger"), ("bad.ledger", "new.ledger", "--json")],
    "ledger restore": [("p.ledger", "new.ledger"), ("bad.ledger", "new.ledger", "--anchor", "new.anchor", "--json")],
    "ledger accept-rollback": [("bad.ledger", "--yes"), ("bad.ledger", *ANCHOR, "--json")],
    "serve": [
        (*TABLE, *BUDGET, "--ledger", "new.ledger", "--port", "99999", "--tick", "1", "--readers", "0"),
        ("--config", "bad.toml", "--host", "x", "--port", "99999"),
    ],
    "audit": [("--seconds", "0")],
    "release": [
        (*TABLE, *BUDGET, "--workload", "marginals:9", "--algorithm", "mwem", "--rounds", "1", "--ledger", "new.l"),
        (*TABLE, *BUDGET, "--out", "rows.txt", "--rows", "5", "--save", "s.release", "--report", "r.html"),
        ("bad.csv", "--domain", "bad.toml", *BUDGET, "--records", "3", "--neighbours", "add-remove"),
    ],
    "demo": [("--out", "people.csv")],
}
"""None of them spends much or listens: `release`, `demo` and `serve` are refused unless the fuzz mends them."""
DRAFT = b"[age]\ntype = 'numeric'\nedges = []\n[sex]\nvalues = []\n[smoker]\nvalues = ['no', 'yes']\nnullable = true\n"
LOSSES = b'[{"loss": "logistic", "features": ["age", "sex"], "label": "smoker", "positive": "yes"}]'
MEASURED = b'[{"query": {"query": "marginal", "attributes": ["sex"]}, "values": [0.5, 0.5], "sd": 0.01}]'
FEW, MANY = 7, int(os.environ.get("RETICENT_FUZZ", "10000"))
"""Calls of each command; `RETICENT_FUZZ` reduces the many of `make slow`."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, release_file: Path) -> Path:
    import reticent as rt

    # One level down: what is written to "../gone" stays inside.
    found = tmp_path_factory.mktemp("fuzz") / "in"
    found.mkdir()
    place_devices(found)
    write_people(found)
    (found / "losses.json").write_bytes(LOSSES)
    (found / "measured.json").write_bytes(MEASURED)
    (found / "draft.toml").write_bytes(DRAFT)
    shutil.copy(release_file, found / "people.release")
    table = rt.Table.read(found / "people.csv", rt.Domain.read(found / "people.toml"))
    rt.Session.open(found / "p.ledger", table, rt.Budget(epsilon=1, delta=1e-9), warm_start=0).close()
    return found


def place_devices(folder: Path) -> None:
    """Devices of the folder's own: a command that replaced the system's would break the machine it is tested on."""
    for name, minor in (("null.device", 3), ("full.device", 7)):
        try:
            os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        except PermissionError:  # then nothing in /dev can be replaced either
            (folder / name).symlink_to(f"/dev/{name.removesuffix('.device')}")


def damaged(data: bytes, source: random.Random) -> bytes:
    raw = bytearray(data)
    for _ in range(source.randint(1, 8)):
        kind, place = source.random(), source.randrange(max(1, len(raw)))
        if kind < 0.5 and raw:
            raw[place] = source.randrange(256)
        elif kind < 0.7:
            raw[place:place] = source.choice([b"\x00", b"\n", b"[", b"{", b'"', b"=", b"9" * 400, b"\xff\xfe", b"'"])
        elif kind < 0.9:
            del raw[place : place + source.randint(1, 60)]
        else:
            raw = raw[:place]
    return bytes(raw)


def spoiled(folder: Path, source: random.Random) -> None:
    """The files with `bad` in their names, damaged anew."""
    good = {
        "bad.release": "people.release",
        "bad.toml": "people.toml",
        "bad.csv": "people.csv",
        "bad.ledger": "p.ledger",
    }
    name, origin = source.choice(list(good.items()))
    (folder / name).write_bytes(damaged((folder / origin).read_bytes(), source))
    if source.random() < 0.3:
        with zipfile.ZipFile(folder / "people.release") as archive:
            parts = {entry: archive.read(entry) for entry in archive.namelist()}
        chosen = source.choice(list(parts))
        parts[chosen] = damaged(parts[chosen], source)
        with zipfile.ZipFile(folder / "bad.release", "w") as archive:
            for entry, data in parts.items():
                archive.writestr(entry, data)
    (folder / "bad.losses.json").write_bytes(damaged(LOSSES, source))
    (folder / "bad.measured.json").write_bytes(damaged(MEASURED, source))
    (folder / "bad.draft.toml").write_bytes(damaged(DRAFT, source))
    (folder / "bad.json").write_bytes(damaged(b'[["age", "sex"], {"attributes": ["age"], "weight": 2}]', source))
    (folder / "bad.sql").write_bytes(damaged(b"SELECT COUNT(*) FROM t WHERE age >= 45; SELECT AVG(age) FROM t", source))


def fuzzed(command: str, source: random.Random) -> list[str]:
    first = command.split()
    words = [*first, *source.choice(COMMANDS[command])]
    for _ in range(source.choice([1, 1, 2, 3])):
        place, kind = source.randrange(len(first), len(words) + 1), source.random()
        if kind < 0.6 and place < len(words):
            words[place] = source.choice(WORDS)
        elif kind < 0.8:
            words.insert(place, source.choice(WORDS))
        elif place < len(words):
            del words[place]
    return words


def costly(words: list[str]) -> bool:
    """What would really publish, listen, or try every mechanism takes seconds: other tests do that."""
    if words[0] in ("demo", "audit"):
        return "people.csv" not in words and "0" not in words
    if words[0] == "serve":
        return "99999" not in words
    return words[0] == "release" and "marginals:9" not in words and "rows.txt" not in words and "bad.csv" not in words


def test_a_zero_byte_in_any_argument_is_refused_in_one_line() -> None:
    """The library that reads the arguments asked the system for such a file, and raised."""
    for words in (
        ["domain", "show", "\0"],
        ["fit", "a.release", "l.json", "--out", "\0"],
        ["ledger", "backup", "a", "\0"],
    ):
        code, said = called(words, "")
        assert (code, said.count("\n")) == (2, 1)
        assert "zero byte" in said


def test_what_has_no_end_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release or a configuration read from such a device filled the memory."""
    monkeypatch.chdir(folder)
    for words in (
        ["ledger", "verify", "p.ledger", "--release", "full.device"],
        ["serve", "--config", "full.device"],
        ["domain", "new", "people.csv", "--codebook", "full.device"],
    ):
        code, said = called(words, "")
        assert code == 2
        assert "a device, not a file" in said


class Lines(io.StringIO):
    """Standard input that is no terminal."""


def statements(source: random.Random) -> str:
    return "\n".join(
        source.choice([*WORDS, "\\cost", "\\error 1%", "\\error", "\\domain", "\\budget"]) for _ in range(3)
    )


NOTICE = "The anchor is kept beside the ledger"
"""Said when a command creates a ledger; what the command then reads may still be refused."""


def called(words: list[str], text: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", Lines(text))
        try:
            main(words)
        except SystemExit as stopped:
            return int(stopped.code or 0), err.getvalue()
    raise AssertionError("main returned")


def calls(command: str, count: int, folder: Path) -> Iterator[tuple[list[str], int, str]]:
    source = random.Random(f"{command} {count}")
    whole = {name: (folder / name).read_bytes() for name in ("people.release", "people.toml", "people.csv", "p.ledger")}
    done = 0
    while done < count:
        words = fuzzed(command, source)
        if costly(words):
            continue
        if done % 5 == 0:
            spoiled(folder, source)
        yield words, *called(words, statements(source))
        done += 1
        for path in (*folder.glob("new.*"), *folder.glob("*.replaced-*")):
            path.unlink()
        for name, data in whole.items():  # a restore sets aside what is in its place
            if (folder / name).read_bytes() != data:
                (folder / name).write_bytes(data)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])])
def test_no_command_ends_in_a_fault(folder: Path, command: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("RETICENT_TOKEN", "x")
    monkeypatch.setattr("reticent.client.ATTEMPTS", 1)
    codes: dict[int, int] = {}
    for words, code, said in calls(command, count, folder):
        assert code != INTERNAL, (words, said)
        assert code in (0, 2, 3), (words, said)
        assert "Traceback" not in said
        lines = [line for line in said.splitlines() if line and not line.startswith(NOTICE)]
        assert code == 0 or all(line.startswith("reticent: ") for line in lines), (words, said)
        assert code == 0 or len(lines) == 1 or command == "shell", (
            words,
            said,
        )  # each statement of a shell has its own
        codes[code] = codes.get(code, 0) + 1
        assert all((folder / name).is_char_device() for name in ("null.device", "full.device")), words
    print(command, dict(sorted(codes.items())))
    assert 2 in codes or count < MANY
