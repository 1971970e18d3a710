"""A page's code blocks as a reader would run them: in order, in one namespace, beside a tiny census table.

What a block prints is compared with the `output` block below it: words, layout, and every number except those that
noise decides (`CHANCE`), which differ from run to run and are examples.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
FREE = re.compile(r"\b(?:certificate|derived)(?: \+ (?:certificate|derived))*(?=[,;] price)")
"""Which of two free steps bounds an answer best depends on the noise."""
NUMBER = r"[+-]?\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+)?"
CHANCE = (
    rf"{NUMBER} (?:±|\+-) {NUMBER}",  # a cell of a SQL result, or a page's own text
    rf"(?<=count\(\*\)) ± {NUMBER}",  # its typical error
    rf"(?<=Answer\(){NUMBER}(?:, about {NUMBER} records)?(?:, ±{NUMBER} at 0\.95, typically ±{NUMBER})?",
    rf"(?<=Population\(){NUMBER} in \[{NUMBER}, {NUMBER}\]",
    rf"(?<=certified to ±){NUMBER}",
    rf"(?<=largest error) +{NUMBER}|(?<=mean error) +{NUMBER}|(?<=mean total variation) +{NUMBER}",
)
"""The numbers that depend on noise, each where its form says so: values, and bounds that a noisy audit found.

All others are fixed by public facts: prices, amounts spent and left, requested errors, sizes.
"""
BY_CHANCE = re.compile("|".join(CHANCE))


@dataclass(frozen=True)
class Block:
    """One fenced block: its language and text, where it stands, and the output shown below it."""

    language: str
    text: str
    line: int
    output: str | None = None


def pages() -> list[Path]:
    """Everything a newcomer reads: the README and the guide."""
    return [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    fences = [token for token in MarkdownIt().parse(page.read_text()) if token.type == "fence" and token.map]
    for place, fence in enumerate(fences):
        following = fences[place + 1] if place + 1 < len(fences) else None
        shown = following.content if following is not None and following.info == "output" else None
        assert fence.map is not None
        yield Block(fence.info.strip(), fence.content, fence.map[0] + 2, shown)


def run(block: Block, page: Path, namespace: dict[str, Any]) -> str:
    """Executes a block as a notebook does: the value of a final expression is printed, unless it ends in `;`."""
    tree = ast.parse(block.text)
    ast.increment_lineno(tree, block.line - 1)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, str(page), "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), str(page), "eval"), namespace)
            if value is not None and not block.text.rstrip().endswith(";"):
                print(repr(value))
    return printed.getvalue()


def masked(text: str) -> str:
    """Numbers that noise decides, the width of columns and the kind of free answer aside."""
    text = re.sub(r"-{3,}", "---", BY_CHANCE.sub("#", FREE.sub("free", text)))
    return re.sub(r"\s+", " ", text).strip()
