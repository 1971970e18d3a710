"""docs/cli.md shows what the commands print today: words and layout must agree; numbers do where no noise is drawn."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from scripts.record_cli import PAGE, STEPS, record  # noqa: E402

from reticent.cli import COMMANDS  # noqa: E402

NUMBER = re.compile(r"~?\d[\d,:]*(?:\.\d+)?(?:e[+-]?\d+)?")
KEY = re.compile(r"release:[0-9a-f]+\S*")
TYPICALLY = re.compile(r"typically within #%: # of # questions .*? (?=\(all of these)")
"""Said where its noise leaves it below the certified bound: nearly always, and then compared."""
AUDIT_SECONDS = 0.002
NOISELESS = ("domain new", "domain show", "check", "plan")
"""Sections whose numbers do not depend on noise."""


def masked(text: str) -> str:
    text = KEY.sub("key", text)
    text = NUMBER.sub("#", re.sub(r"[█▓░]+", "", text))
    return re.sub(r"\s+", " ", text)


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return {"opening": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def test_the_page_is_what_the_commands_print(monkeypatch: pytest.MonkeyPatch) -> None:
    from reticent.cli import options

    monkeypatch.setattr(options.console, "_width", 80)
    written, now = sections(PAGE.read_text(encoding="utf-8")), sections(record(audit_seconds=AUDIT_SECONDS))
    assert written.keys() == now.keys(), "run `python -m scripts.record_cli`"
    for name, text in now.items():
        page, printed = masked(written[name]), masked(text)
        if not TYPICALLY.search(printed):
            page = TYPICALLY.sub("", page)
        assert page == printed, f"{name}: run `python -m scripts.record_cli`"
        if name in NOISELESS:
            assert written[name].split() == text.split(), f"{name}: run `python -m scripts.record_cli`"


def test_every_command_is_on_the_page() -> None:
    headings = {step.heading.split()[0] for step in STEPS}
    assert headings == set(COMMANDS)
