"""Backups of a ledger, made while it is in use, and restored without changing its anchor."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from reticent.errors import LedgerError
from reticent.kernel.ledger.anchor import places
from reticent.kernel.ledger.store import companions, flush_directory, io_errors, lock_of, open_locked, reading
from reticent.kernel.ledger.verify import LedgerStatement, verify


def back_up(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> LedgerStatement:
    """Copy the whole ledger at one moment; only the owner can read the copy, and it never replaces a file."""
    (file, _), (copy, _) = places(path, None), places(target, None)
    if not file.exists():
        raise LedgerError(f"{file} does not exist: check the path")
    if copy.exists():
        raise LedgerError(f"{copy} exists already: a backup never replaces a file; choose another name")
    draft = _copied(file, copy)
    try:
        statement = _checked(draft)
        with io_errors(copy):
            os.replace(draft, copy)
            flush_directory(copy.parent)
    finally:
        draft.unlink(missing_ok=True)
    return statement


def restore_backup(
    backup: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    anchor: str | os.PathLike[str] | None = None,
) -> tuple[LedgerStatement, str | None, Path | None]:
    """Put a backup in a ledger's place; the anchor stays, and what the two disagree on is returned, not accepted.

    What was there is kept under another name, the third value. A ledger that is intact is left alone.
    """
    (file, _), (source, _) = places(path, anchor), places(backup, None)
    if not source.exists():
        raise LedgerError(f"{source} does not exist: check the path")
    with ExitStack() as undo, io_errors(file):
        undo.callback(os.close, open_locked(lock_of(file), create=True))
        if _problem(file, anchor) is None:
            raise LedgerError(f"{file} is intact and agrees with its anchor: there is nothing to restore")
        draft = _copied(source, file)
        try:
            statement = _checked(draft)
            aside = _set_aside(file)
            os.replace(draft, file)
            flush_directory(file.parent)
        finally:
            draft.unlink(missing_ok=True)
    return statement, _problem(file, anchor), aside


def _copied(file: Path, place: Path) -> Path:
    draft = place.with_name(f"{place.name}.new")
    with io_errors(place):
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with reading(file) as store:
                store.copy_to(draft)
            with open(draft, "rb+") as copy:
                os.fsync(copy.fileno())
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    return draft


def _checked(copy: Path) -> LedgerStatement:
    """From first event to last and every blob; against no anchor, which is another question."""
    return verify(copy, anchor=copy.with_name(f"{copy.name}.no-anchor"), keep=False)


def _problem(file: Path, anchor: str | os.PathLike[str] | None) -> str | None:
    try:
        statement = verify(file, anchor=anchor, keep=False)
    except LedgerError as problem:
        return str(problem)
    return "parts of it are damaged" if statement.damaged else None


def _set_aside(file: Path) -> Path | None:
    if not file.exists():
        return None
    number = 1
    while (aside := file.with_name(f"{file.name}.replaced-{number}")).exists():
        number += 1
    for old, new in zip((*companions(file), file), (*companions(aside), aside), strict=True):
        if old.exists():
            os.replace(old, new)
    return aside
