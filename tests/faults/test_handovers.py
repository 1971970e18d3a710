"""What one processor began another ends: killed under one setting, gone on with under the other, and back again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.faults.payments import KEYED, OPERATIONS, RELEASES
from tests.faults.processor_lives import START

from reticent.kernel.accounting import NANO

SETTINGS = {
    "native": {},
    "generic": {"NUMBA_CPU_NAME": "generic", "NPY_DISABLE_CPU_FEATURES": "X86_V4,X86_V3,AVX512F,AVX2,FMA3"},
}
ALONE = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
HANDED_OVER = [*OPERATIONS, START, *RELEASES]


class Lives:
    """Processes under one setting."""

    def __init__(self, setting: str) -> None:
        kept = {name: value for name, value in os.environ.items() if name not in SETTINGS["generic"]}
        command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("processor_lives.py"))]
        self.process = subprocess.Popen(
            command, env=kept | ALONE | SETTINGS[setting], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def live(self, folder: Path, operation: str, fatal: int = 0) -> dict[str, Any] | None:
        """What a life came to; None if it died on the way."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        order = {"folder": str(folder), "operation": operation, "fatal": fatal}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        assert told is None or "error" not in told, f"{operation}, killed at {fatal}: {told['error']}"
        return told

    def whole(self, folder: Path, operation: str) -> dict[str, Any]:
        told = self.live(folder, operation)
        assert told is not None
        return told

    def close(self) -> None:
        with self.process:  # closes its pipes: it ends by itself
            pass
        assert self.process.returncode == 0


@contextmanager
def lives() -> Iterator[dict[str, Lives]]:
    servers = {setting: Lives(setting) for setting in SETTINGS}
    yield servers
    for server in servers.values():
        server.close()


def handed_over(first: Lives, second: Lives, operation: str, fatal: int, folder: Path) -> bool:
    """Die under one setting, end under the other, read again under the first; whether it died at all."""
    folder.mkdir()
    died = first.live(folder, operation, fatal) is None
    told = second.whole(folder, operation)
    again = first.whole(folder, operation)
    once_more = second.whole(folder, operation)
    for later in (again, once_more):
        assert later["reserved"] == told["reserved"], "nothing is charged on another processor"
        assert later["charged"] == 0
    assert set(told["reserved"]) <= set(told["settled"]), "what was charged is answered"
    assert len([key for key in told["reserved"] if key.startswith("session:audit:")]) <= 2
    paid = sum(told["reserved"].values())
    if operation in KEYED:
        assert told["content"] == again["content"] == once_more["content"]
        assert round(told["price"] * NANO) == round(again["price"] * NANO) == paid
    elif operation in RELEASES or operation == START:
        assert told["content"] == again["content"] == once_more["content"]
    elif operation != "audit":
        assert again["price"] == once_more["price"] == 0
    return died


@pytest.mark.skipif(not hasattr(os, "fork"), reason="lives are forked")
@pytest.mark.parametrize("operation", ["keyed count"])
def test_an_operation_is_handed_over(operation: str, tmp_path: Path) -> None:
    with lives() as servers:
        (tmp_path / "whole").mkdir()
        steps = servers["native"].whole(tmp_path / "whole", operation)["steps"]
        native, generic = servers["native"], servers["generic"]
        assert handed_over(native, generic, operation, steps // 2, tmp_path / "there")
        assert handed_over(generic, native, operation, 2 * steps // 3, tmp_path / "back")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="lives are forked")
def test_two_hundred_handovers(tmp_path: Path) -> None:
    """Every operation and release, and a session's start, killed at places all over; both ways."""
    kills = 0
    with lives() as servers:
        for operation in HANDED_OVER:
            (tmp_path / operation).mkdir()
            steps = servers["native"].whole(tmp_path / operation, operation)["steps"]
            for way, (first, second) in enumerate((("native", "generic"), ("generic", "native"))):
                for fatal in sorted({1 + (2 * place + way) * steps // 16 for place in range(8)}):
                    folder = tmp_path / f"{operation} {first} {fatal}"
                    kills += handed_over(servers[first], servers[second], operation, fatal, folder)
    assert kills >= 200
