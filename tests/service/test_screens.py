"""The guide's pictures show the page as it is."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from scripts.screenshots import MADE_FROM, SCREENS, SHOWN, fingerprint  # noqa: E402

LARGEST = 150_000


def test_the_pictures_were_taken_of_this_page() -> None:
    assert (SCREENS / MADE_FROM).read_text().strip() == fingerprint(), "the page has changed: run `make screenshots`"


@pytest.mark.parametrize("name", SHOWN)
def test_every_picture_is_small_and_shown_in_the_guide(name: str) -> None:
    picture = SCREENS / f"{name}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < LARGEST
    shown = {
        found for page in SCREENS.parent.glob("*.md") for found in re.findall(r"screens/(\w+)\.png", page.read_text())
    }
    assert name in shown
