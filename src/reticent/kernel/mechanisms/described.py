"""What every mechanism says about itself: its proof, and its parameters as exact text for the ledger."""

from __future__ import annotations

from dataclasses import fields
from typing import ClassVar


class Described:
    """Base of the mechanisms, all frozen dataclasses of exact numbers."""

    proof: ClassVar[str]

    def describe(self) -> dict[str, str]:
        """Name and exact parameters; `mechanisms.restore` reads them back, so history can be priced again."""
        parameters = {field.name: str(getattr(self, field.name)) for field in fields(self)}  # pyright: ignore[reportArgumentType]
        return {"mechanism": type(self).__name__, **parameters}
