"""The second reader as a module, loaded from its one file."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

PROGRAM = Path(__file__).resolve().parents[2] / "verify" / "reticent_verify.py"


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reticent_verify", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


READER = _loaded()
