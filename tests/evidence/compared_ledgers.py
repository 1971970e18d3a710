"""Ledgers and edited copies of them, as the library and the second reader see them."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

from tests.evidence.generated_ledgers import edit, write_ledger
from tests.evidence.second_reader import READER

from reticent.errors import LedgerError
from reticent.kernel.ledger.verify import verify

EDITED = 3


def ours(path: Path, anchor: Path | None = None) -> int | None:
    """Units spent; None where the library refuses the file."""
    try:
        return verify(path, anchor=anchor).history.spent
    except LedgerError:
        return None


def theirs(path: Path, anchor: Path | None = None) -> int | None:
    """The same by the second reader."""
    try:
        return READER.read(path, anchor)[0].spent
    except READER.Disagreement:
        return None


def compared(seed: int, folder: Path) -> Counter[str]:
    """A ledger that both read alike, and edited copies: the second reader rejects all that the library rejects."""
    rng = random.Random(seed)
    place = folder / str(seed)
    place.mkdir()
    path = place / "x.ledger"
    write_ledger(path, rng)
    assert theirs(path) == ours(path) is not None
    counts = Counter({"ledgers": 1, "read": 1})
    for number in range(EDITED):
        copy = place / f"{number}.ledger"
        shutil.copy(path, copy)
        if rng.random() < 0.5:
            shutil.copy(f"{path}.anchor", f"{copy}.anchor")
        what = edit(copy, rng)
        first, second = ours(copy), theirs(copy)
        assert second == first or second is None, what
        counts += Counter(
            {"ledgers": 1, "read" if second is not None else "rejected" if first is None else "only second": 1}
        )
    shutil.rmtree(place)
    return counts
