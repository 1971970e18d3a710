"""Losses read from a file, for the command line and the server: JSON as `to_dict()` writes it, or TOML."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from reticent.domain.files import named_path, reading_file
from reticent.errors import QueryError, is_list, is_mapping
from reticent.losses.base import ConvexLoss
from reticent.losses.losses import loss_from_dict

READERS = {".toml": tomllib.loads, ".json": json.loads}


def read_losses(path: str | Path) -> tuple[ConvexLoss, ...]:
    """Every loss of a file: a JSON object or a list of them, or `[[losses]]` tables of a TOML file."""
    path = named_path(path, "losses.toml")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise QueryError(f"{path}: losses are written in a file that ends in .toml or .json")
    with reading_file(path):
        data = path.read_bytes()
    try:
        content: Any = reader(data.decode())
    except (ValueError, RecursionError) as problem:
        raise QueryError(f"{path}: {' '.join(str(problem).split())}") from None
    if is_mapping(content):
        content = content["losses"] if set(content) == {"losses"} else [content]
    if not is_list(content) or not content:
        raise QueryError(
            f'{path}: holds no losses; write [[losses]] tables with loss = "logistic", features = [...] and label'
        )
    try:
        return tuple(map(loss_from_dict, content))
    except QueryError as problem:
        raise QueryError(f"{path}: {problem}") from None
