"""Writes the files of `scenarios` with the code at hand: `python -m tests.compatibility.record`.

Run once, with the version whose files are to be kept; refuses to overwrite.
"""

from __future__ import annotations

import json
import lzma
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.compatibility.scenarios import (
    APPROXIMATE,
    COARSE,
    FILES,
    FREE,
    LOSSES,
    PAID,
    RELEASES,
    SESSIONS,
    SQL,
    Session,
    answered,
    workload,
)
from tests.session_tables import table

import reticent as rt
from reticent.kernel.ledger.ledger import Ledger


class Died(BaseException):
    """The process ended here."""


def keep(name: str, content: bytes) -> None:
    target = FILES / f"{name}.xz"
    if target.exists():
        raise SystemExit(f"{target.name} is kept already")
    target.write_bytes(lzma.compress(content, preset=9))


def keep_ledger(path: Path) -> None:
    for file in path.parent.glob(f"{path.stem}.*"):
        if file.suffix != ".lock":
            keep(file.name, file.read_bytes())


def lose(scenario: Session, session: rt.Session, key: str) -> None:
    def die(*_: Any, **__: Any) -> None:
        raise Died

    with patch.object(Ledger, "settle", die):
        try:
            scenario.ask(session, key)
        except Died:
            return
    raise SystemExit(f"{key} was free and could not be lost")


def record(scenario: Session, folder: Path) -> None:
    path = folder / f"{scenario.name}.ledger"
    said: dict[str, Any] = {"paid": {}, "free": {}, "models": {}}
    with scenario.open(path) as session:
        session.set_cap("ann", session.remaining / 2)
        for key in PAID:
            if key != scenario.lost:
                said["paid"][key] = answered(scenario.ask(session, key))
        if not scenario.threshold:
            said["sql"] = session.ask(SQL, error=0.02, key="sql").to_dict()
            session.ask_all([rt.count(rt.col("b") == 1), rt.count(rt.col("c") == 3)], error=0.05)
            session.audit("cells", order=1, amount=session.remaining / 10)
        if scenario.losses:
            for key, loss in LOSSES.items():
                model = session.minimize(loss, error=0.05, key=key)
                said["models"][key] = [float(x) for x in model.theta]
        for name, query in FREE.items():
            said["free"][name] = answered(session.ask(query))
        if scenario.lost is not None:
            lose(scenario, session, scenario.lost)
        said["spent"] = session.spent
    keep_ledger(path)
    keep(f"{scenario.name}.json", json.dumps(said, default=str).encode())


def record_release(name: str, folder: Path) -> None:
    path = folder / f"{name}.ledger"
    source = table(2000, weight=50)
    release = rt.release(source, workload(), APPROXIMATE, algorithm=RELEASES[name](), ledger=path)
    said = {query: answered(release.answer(asked)) for query, asked in FREE.items()}
    said["certificates"] = [c.to_dict() for c in release.certificates]
    release.save(folder / f"{name}.release")
    keep_ledger(path)
    keep(f"{name}.json", json.dumps(said).encode())


def interrupted(folder: Path) -> None:
    """A release whose process died after its third charge."""
    path, settle, left = folder / "interrupted.ledger", Ledger.settle, [3]

    def die_later(self: Ledger, *arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise Died
        return settle(self, *arguments, **options)

    with patch.object(Ledger, "settle", die_later):
        try:
            rt.release(table(2000, weight=50), workload(), APPROXIMATE, ledger=path)
        except Died:
            keep_ledger(path)
            return
    raise SystemExit("the release had fewer than three charges")


def coarse(folder: Path, name: str) -> None:
    """Sessions and a release with small noise on ledgers that compose exactly; each died at one kind of charge."""
    path, settle = folder / f"{name}.ledger", Ledger.settle

    def die_there(self: Ledger, reservation: Any, *arguments: Any, **options: Any) -> Any:
        if COARSE[name].dies in reservation.key:
            raise Died
        return settle(self, reservation, *arguments, **options)

    with patch.object(Ledger, "settle", die_there):
        try:
            COARSE[name].run(path)
        except Died:
            keep_ledger(path)
            return
    raise SystemExit(f"{name} had no such charge")


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        for scenario in SESSIONS:
            print(scenario.name)
            record(scenario, Path(place))
        for algorithm in RELEASES:
            print(algorithm)
            record_release(algorithm, Path(place))
        interrupted(Path(place))
        for name in COARSE:
            coarse(Path(place), name)
