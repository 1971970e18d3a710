"""Compares the memory that a run needs with what this process may still allocate, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reticent.errors import ResourceError

__all__ = ["available", "keeping", "refuse_beyond"]

_CONTAINERS = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)
_MIB = 2**20


def available() -> int | None:
    """Bytes that the system, its container and the limits of this process still allow; None if unknown."""
    known = [room for room in (_system(), _container(Path("/sys/fs/cgroup")), *_limits()) if room is not None]
    return max(0, min(known)) if known else None


def refuse_beyond(needed: int, what: str, remedy: str) -> None:
    """ResourceError if `what` needs more bytes than are available; nothing has been measured yet."""
    room = available()
    if room is not None and needed > room:
        raise ResourceError(
            f"{what} needs about {needed / _MIB:,.0f} MiB of memory, {room / _MIB:,.0f} MiB are available: {remedy};"
            " this call spent nothing"
        )


@contextmanager
def keeping(what: str, ledger: object) -> Iterator[None]:
    """Around a run that pays: if memory runs out anyway, one line says how to continue."""
    try:
        yield
    except MemoryError:
        kept = "give ledger= so that a run can go on, and" if ledger is None else f"{ledger} keeps what was measured:"
        raise ResourceError(f"memory ran out during {what}; {kept} repeat the same call with more memory") from None


def _system() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None


def _container(folder: Path) -> int | None:
    """The memory that a control group still allows; its usage counts file pages that it would release first."""
    for limit, usage in _CONTAINERS:
        try:
            most, used = (folder / limit).read_text().strip(), int((folder / usage).read_text())
            stat = (folder / usage).with_name("memory.stat").read_text().split()
        except (OSError, ValueError):
            continue
        if most == "max":
            return None
        facts = dict(zip(stat[::2], stat[1::2], strict=False))
        return int(most) - used + int(facts.get("inactive_file", 0))
    return None


def _limits() -> list[int | None]:
    """The memory that `ulimit -v` and `ulimit -d` still allow."""
    try:
        import resource

        pages = Path("/proc/self/statm").read_text().split()
    except (ImportError, OSError):
        return []
    page, unlimited = resource.getpagesize(), resource.RLIM_INFINITY
    used = {resource.RLIMIT_AS: int(pages[0]) * page, resource.RLIMIT_DATA: int(pages[5]) * page}
    soft = {kind: resource.getrlimit(kind)[0] for kind in used}
    return [None if soft[kind] == unlimited else soft[kind] - used[kind] for kind in used]
