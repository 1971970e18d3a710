"""`reticent ledger`: backups, restored copies, accepted losses, and a release tied to the ledger that paid for it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.cli.cli_people import Called

Call = Callable[..., Called]
TABLE = ("people.csv", "--domain", "people.toml")
BUDGET = ("--epsilon", "1", "--delta", "1e-9")
RELEASE = ("release", *TABLE, *BUDGET, "--workload", "marginals:1", "--ledger", "p.ledger")


@pytest.fixture
def ledger(people: Path, call: Call) -> Path:
    (people / "elsewhere").mkdir()
    made = call(*RELEASE, "--anchor", "elsewhere/p.anchor", "--save", "p.release")
    assert made.code == 0
    assert made.err == ""
    return people / "p.ledger"


ANCHOR = ("--anchor", "elsewhere/p.anchor")


def test_a_new_ledger_says_what_an_anchor_beside_it_cannot_do(people: Path, call: Call) -> None:
    first, again = call(*RELEASE), call(*RELEASE)
    assert first.code == again.code == 0
    assert "Use --anchor to keep it on another volume" in first.err
    assert again.err == ""
    assert (people / "p.ledger.anchor").exists()


def test_an_anchor_needs_its_ledger(people: Path, call: Call) -> None:
    refused = call("release", *TABLE, *BUDGET, "--anchor", "a.anchor")
    assert (refused.code, refused.out) == (2, "")
    assert "--ledger" in refused.err


def test_the_shell_takes_the_anchor_too(ledger: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    refused = call("shell", *TABLE, "--ledger", "p.ledger", *BUDGET)
    assert refused.code == 2
    assert "anchor" in refused.err
    assert call("shell", *TABLE, "--ledger", "p.ledger", *BUDGET, *ANCHOR).code == 0


def test_a_saved_release_is_tied_to_the_ledger_that_paid(ledger: Path, people: Path, call: Call) -> None:
    shown = call("ledger", "verify", "p.ledger", *ANCHOR, "--release", "p.release")
    assert shown.code == 0
    assert "published by event" in shown.out
    again = call(*RELEASE, *ANCHOR, "--save", "again.release")
    assert again.code == 0
    assert (people / "again.release").read_bytes() == (people / "p.release").read_bytes()
    other = bytearray((people / "p.release").read_bytes())
    other[-1] ^= 1
    (people / "other.release").write_bytes(other)
    refused = call("ledger", "verify", "p.ledger", *ANCHOR, "--release", "other.release")
    assert refused.code == 2
    assert "has not published these bytes" in refused.err


def test_a_damaged_blob_is_reported(ledger: Path, call: Call) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("UPDATE blobs SET data = x'00'")
        connection.commit()
    refused = call("ledger", "verify", "p.ledger", *ANCHOR)
    assert refused.code == 2
    assert "chain intact, but damaged: " in refused.err
    assert "published of event" in refused.err


def test_backup_restore_and_accepted_loss(ledger: Path, people: Path, call: Call) -> None:
    copied = call("ledger", "backup", "p.ledger", "monday.ledger")
    assert copied.code == 0
    assert "verified" in copied.out
    spend = ("release", *TABLE, "--epsilon", "0.5", "--delta", "1e-9", "--workload", "marginals:1")
    assert call(*spend, "--ledger", "p.ledger", *ANCHOR).code in (0, 3)
    assert call("ledger", "accept-rollback", "p.ledger", *ANCHOR, "--yes").code == 2, "there is nothing to accept"
    ledger.unlink()
    assert "is missing but its anchor" in call(*RELEASE, *ANCHOR).err
    assert "holds no events" in call("ledger", "accept-rollback", "p.ledger", *ANCHOR, "--yes").err
    shutil.copy(people / "elsewhere" / "p.anchor", people / "kept.anchor")
    restored = call("ledger", "restore", "monday.ledger", "p.ledger", *ANCHOR, "--json").json
    assert restored["events"] > 0
    assert (people / "elsewhere" / "p.anchor").read_bytes() == (people / "kept.anchor").read_bytes()


def test_accepting_charges_what_the_anchor_saw(people: Path, call: Call) -> None:
    import reticent as rt

    table = rt.Table.read(people / "people.csv", rt.Domain.read(people / "people.toml"))
    budget = rt.Budget(rho=1)
    with rt.Session.open(people / "s.ledger", table, budget, warm_start=0) as session:
        session.ask(rt.count(), error=0.05)
    assert call("ledger", "backup", "s.ledger", "copy").code == 0
    with rt.Session.open(people / "s.ledger", table, budget, warm_start=0) as session:
        session.ask(rt.marginal(table.domain.names[0]), error=0.02)
        spent = session.spent
    (people / "s.ledger").unlink()
    restored = call("ledger", "restore", "copy", "s.ledger")
    assert "accept-rollback s.ledger" in restored.out
    refused = call("ledger", "accept-rollback", "s.ledger")
    assert refused.code == 2
    assert "add --yes" in refused.err
    accepted = call("ledger", "accept-rollback", "s.ledger", "--yes", "--json").json
    assert accepted["spent"] == round(spent * 10**9)
    assert call("ledger", "verify", "s.ledger").code == 0
