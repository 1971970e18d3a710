"""Writes docs/cli.md, every command with what it printed: `python -m scripts.record_cli` after changing an output."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cli.md"
WIDTH = 80

OPENING = """\
# Command line

Every command has `--help` with an example. Those that answer print JSON alone with `--json`. On a terminal a bar shows
what is being done and the time left; elsewhere nothing but the result is printed; `RETICENT_PROGRESS=off` turns bars
off. Exit codes: 0 done, 1 an audit found a broken promise, 2 bad input (one line on stderr says what and how to mend
it), 3 the budget cannot pay, 130 interrupted.

The outputs below were recorded with the invented census that `python examples/tiny_census.py` writes. Noise is fresh in
every run, so your numbers differ; a test keeps everything else true.
"""


@dataclass(frozen=True)
class Step:
    """A heading, what to say, one command (none where it never ends), and what is typed into it."""

    heading: str
    prose: str
    command: str = ""
    typed: str = ""
    shown: str = ""
    """Instead of the command, where what is recorded is a shortened run of it."""


STEPS = (
    Step("demo", "The whole job on a real public table, offline: measure, certify, ask, publish.", "reticent demo"),
    Step(
        "domain new",
        "A draft of the domain from names and declared types alone: no value is read. What is open has to be stated, "
        "or discovered; a CSV has no types, so `--number`, `--whole` and `--date` name such columns, and `--codebook` "
        "reads a Frictionless Table Schema or SDV metadata. See [domains](domain.md).",
        "reticent domain new census.parquet --out draft.toml",
    ),
    Step(
        "domain discover",
        "Finds what a draft leaves open, privately, for a budget of its own; whatever uses the domain adds it.",
        "reticent domain discover census.parquet --draft draft.toml --epsilon 0.2 --delta 1e-9 "
        "--ledger census.discovery --out discovered.toml",
    ),
    Step(
        "domain show",
        "What a domain file declares: columns, codes, and [rules](domain.md) about impossible records.",
        "reticent domain show census.toml",
    ),
    Step(
        "check",
        "For the custodian, before anything else: what in the table does not fit the declared domain, with examples "
        "and hints. Exact, so nothing of this may be published. Fails where more than a quarter of a column "
        "(`--limit`) fits nowhere; `release` and `serve` then stop before they spend, unless given `--accept-misfits`.",
        "reticent check census.parquet --domain census.toml",
    ),
    Step(
        "plan",
        "What a budget buys, from public facts alone: no table is read.",
        "reticent plan --records 20000 --domain census.toml --epsilon 1 --delta 1e-9 --queries 10000 --error 0.01",
    ),
    Step(
        "release",
        "Spends the budget on a public distribution. `--out` writes synthetic rows, `--save` the whole release for "
        "`reticent shell` and `rt.Release.load`, `--report` a page for a board, "
        "`--custodian-copy` the same page with scores against the true rows (SDMetrics' column shapes and pair trends, "
        "NIST's k-marginal, training on what is published and testing on the rows), which are exact and for the "
        "custodian alone. With `--ledger` every measurement is durable: after Ctrl-C or a crash the same command goes "
        "on with what was measured, and one budget may serve "
        "several releases and sessions. A workload is `marginals:3`, `ranges:age`, `prefixes:age`, "
        "`ranges:age*hours` (all boxes of two columns), several joined by `+`, or a file: "
        "attribute sets in JSON or CSV, or SQL statements. `--replicates 80` adds what tells the distance from the "
        "population ([guide](guide/population.md)): to the file of `--save`, and as columns `repwt1` to `repwt80` to "
        "the rows of `--out`, of which there are then four for each record.",
        "reticent release census.parquet --domain census.toml --workload marginals:2 --epsilon 1 --delta 1e-9 "
        "--out synthetic.parquet --save census.release --report report.html --ledger census.ledger",
    ),
    Step(
        "fit",
        "Fits models by minimising convex losses, which a file describes ([regressions](convex.md)). A release answers "
        "for free. On your own table `--error` is the largest excess risk wanted: what is not known well enough is "
        "audited or bought from the ledger. `--engine convex-tuned` answers all losses to come within one error.\n\n"
        "```sh\nreticent fit census.release losses.toml\n```",
    ),
    Step(
        "estimate",
        "Fits a distribution to noisy measurements that somebody else has made and paid for: a JSON list of objects "
        'with `query`, `values` (shares of the table) and `sd`, for example `[{"query": {"query": "marginal", '
        '"attributes": ["sex"]}, "values": [0.48, 0.52], "sd": 0.01}]`. Nothing is measured or charged, nothing is '
        "certified, and the result states no privacy: that of the measurements holds for it as well.\n\n"
        "```sh\nreticent estimate measured.json --domain census.toml --records 20000 --save fitted.release\n```",
    ),
    Step(
        "shell",
        "SQL at a prompt, with history and completion of columns and values. On a saved release every answer is free; "
        "`reticent shell URL` asks a server (its token in `RETICENT_TOKEN`); `reticent shell TABLE --domain D --ledger "
        "L --epsilon 1` opens a session of your own. `\\error 0.01` asks for better answers from then on: the price is "
        "shown first and only paid after a yes, or with `--yes`. Statements may also come through a pipe.",
        "reticent shell census.release",
        typed="SELECT education, COUNT(*) FROM census WHERE smoker = 'yes' GROUP BY education;\n"
        "SELECT sex, AVG(income) FROM census GROUP BY sex;\n"
        "SELECT age, income FROM census;\n",
    ),
    Step(
        "ledger show",
        "Every event of a budget's account, what it cost, and what is left.",
        "reticent ledger show census.ledger",
    ),
    Step(
        "ledger verify",
        "Checks the hash chain, the anchor and everything stored: exit code 2 if the file was edited, cut, rolled back "
        "or damaged. It needs no right to write. `reticent ledger backup` copies a ledger in use, `restore` puts a "
        "copy back, and `accept-rollback` goes on after a real loss.",
        "reticent ledger verify census.ledger",
    ),
    Step(
        "audit",
        "Tries to catch this installation breaking its promises. Every mechanism and every algorithm runs on made-up "
        "neighbouring tables; an event that tells them apart is chosen on some runs and counted on others; "
        "Clopper-Pearson bounds turn the counts into a loss that is certainly there. Chosen events and the number of "
        "lines are accounted for: correct mechanisms show a red line in at most one audit of 1,000. Bookkeeping "
        "(sensitivities, rounding, order of charge and noise) is checked exactly. About two minutes of processor time; "
        "`--deep` takes an hour and proves more, `--minutes 20` takes about that long in all. No table is read.",
        "reticent audit --seconds 0.01",
        shown="reticent audit --minutes 1",
    ),
    Step(
        "serve",
        "Puts a table behind HTTP and a web page; see [operations](operations.md). With `--json` it prints its "
        "address, its tables and where the custodian's token is, once it listens.\n\n```sh\nreticent serve "
        "census.parquet --domain census.toml --ledger census.ledger --epsilon 1 --delta 1e-9 --port 8000\n```",
    ),
    Step(
        "ask",
        "One question to a server; the token comes from `RETICENT_TOKEN`.\n\n```sh\nreticent ask http://localhost:8000 "
        '"SELECT sex, COUNT(*) FROM census GROUP BY sex"\n```\n\n'
        'A saved release is asked the same way, `reticent ask census.release "SELECT ..."`. With `--population 0.95` '
        "the errors shown are those of\nintervals for the population ([guide](guide/population.md)): estimated where "
        "the release has replicates, or `--mode certified`.",
    ),
)


def record(*, audit_seconds: float | None = None) -> str:
    """The page; `audit_seconds` shortens the audit, for a test."""
    parts = [OPENING]
    with _beside_census():
        for step in STEPS:
            parts.append(f"## {step.heading}\n\n{_wrapped(step.prose)}\n")
            if not step.command:
                continue
            command = step.shown or step.command
            words = shlex.split(step.command if audit_seconds is not None else command)[1:]
            if step.shown and audit_seconds is not None:
                words[-1] = str(audit_seconds)
            typed = "".join(f"{line}\n" for line in step.typed.splitlines())
            shown = f"{command} <<'SQL'\n{typed}SQL" if typed else _folded(command)
            parts.append(f"```sh\n{shown}\n```\n\n```output\n{_run(words, typed)}\n```\n")
    return "\n".join(parts)


@contextlib.contextmanager
def _beside_census() -> Iterator[None]:
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        runpy.run_path(str(ROOT / "examples" / "tiny_census.py"))["write"](Path(folder))
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(here)


def _run(words: list[str], typed: str) -> str:
    """What a reader sees: both streams, as they come."""
    from reticent.cli import main
    from reticent.cli.options import console

    seen, before = io.StringIO(), sys.stdin
    console.width = WIDTH
    sys.stdin = io.StringIO(typed)
    try:
        with contextlib.redirect_stdout(seen), contextlib.redirect_stderr(seen), contextlib.suppress(SystemExit):
            main(words)
    finally:
        sys.stdin = before
    return "\n".join(line.rstrip() for line in seen.getvalue().rstrip().splitlines())


def _folded(command: str) -> str:
    """Long commands over several lines."""
    text = ""
    for part in re.split(r" (?=--)", command):
        start = text.rpartition("\n")[2]
        text += part if not text else f" {part}" if len(start) + len(part) < 100 else f" \\\n    {part}"
    return text


def _wrapped(prose: str) -> str:
    lines, line = [], ""
    head, fence, rest = prose.partition("\n\n```")
    for word in head.split():
        if len(line) + len(word) >= 120:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join([*lines, line]) + fence + rest


if __name__ == "__main__":
    PAGE.write_text(record(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} written")
