"""Files named by users: an operating system error becomes one line, if possible before anything is spent."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reticent.errors import ReticentError, require

LONGEST = 200
"""Characters of a path in a message."""
_DATABASE = b"SQLite format 3\0"


def named_path(path: object, example: str = "report.html") -> Path:
    """A path from text or a path object; the operating system must accept it."""
    require(path, str | os.PathLike, "path", f'the name of a file, for example "{example}"')
    text = os.fspath(path)  # pyright: ignore[reportArgumentType, reportCallIssue]
    if not isinstance(text, str) or "\0" in text or not _encodable(text):
        raise ReticentError("path holds a zero byte or is not text; no file can have this name")
    return Path(text)


def _encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def reason(problem: OSError | ValueError) -> str:
    """Why the operating system refused, in its own words."""
    return getattr(problem, "strerror", None) or type(problem).__name__


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Context manager for code that writes to `path`: an operating system error becomes one line."""
    try:
        yield
    except OSError as problem:
        refused = f"{shown_path(path)}: cannot be written ({reason(problem)}); choose another place"
        raise ReticentError(refused) from None


@contextmanager
def reading_file(path: Path) -> Iterator[None]:
    """Context manager for code that reads all of `path`, which must be a file of finite size."""
    try:
        if path.is_char_device():
            raise ReticentError(f"{shown_path(path)}: a device, not a file; give the name of a file")
        yield
    except FileNotFoundError:
        raise ReticentError(f"{shown_path(path)}: no such file") from None
    except OSError as problem:
        raise ReticentError(f"{shown_path(path)}: cannot be read ({reason(problem)})") from None


def shown_path(path: str | Path) -> str:
    """A path as messages show it: a very long name is abbreviated in the middle."""
    text = str(path)
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}...{text[-LONGEST // 2 :]}"


def write_file(path: Path, data: bytes) -> Path:
    with writing(path), replacing(path) as draft:
        draft.write_bytes(data)
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that replaces `path`, flushed, when the block ends; until then the old file is unchanged.

    A special file (a device, a pipe), or one in a folder where no file can be created, is written in place.
    A database is refused, so that a result never replaces a ledger.
    """
    _refuse_database(path)
    target = path.resolve()
    if (target.exists() and not target.is_file()) or not os.access(target.parent, os.W_OK):
        yield path
        return
    mode = target.stat().st_mode & 0o7777 if target.exists() else None
    draft = target.with_name(
        f".{secrets.token_hex(8)}{target.suffix}"
    )  # short: the name itself may be as long as allowed
    try:
        yield draft
        with open(draft, "rb+") as file:
            if mode is not None:
                os.chmod(draft, mode)
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _refuse_database(path: Path) -> None:
    if not path.is_file():
        return
    with open(path, "rb") as file:
        if file.read(len(_DATABASE)) == _DATABASE:
            raise ReticentError(f"{shown_path(path)}: is a database, such as a ledger; choose another name")


def refuse_unwritable(path: Path) -> None:
    """Refuse a path that cannot be written, without creating an empty file that looks like a result."""
    path = named_path(path)
    with writing(path):
        folder = path.resolve().parent
        if not folder.is_dir():
            raise ReticentError(f"{shown_path(path)}: the folder {shown_path(folder)} does not exist; create it first")
        if path.is_dir():
            raise ReticentError(f"{shown_path(path)}: is a folder; name a file in it")
        _refuse_database(path)
        longest = os.pathconf(folder, "PC_NAME_MAX") if hasattr(os, "pathconf") else None
        if longest is not None and len(os.fsencode(path.name)) > longest:
            raise ReticentError(f"{shown_path(path)}: cannot be written (File name too long); choose a shorter name")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise ReticentError(f"{shown_path(path)}: cannot be written (no permission); choose another place")
