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
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cli.md"
WIDTH = 80

OPENING = """\
# Command line

Every command has `--help` with an example. Commands that print results print only JSON with `--json`. On a terminal, a
progress bar shows the current step and the remaining time; otherwise only the result is printed.
`RETICENT_PROGRESS=off` turns progress bars off.

| exit code | meaning |
|---:|---|
| 0 | done |
| 1 | an audit found a violated claim |
| 2 | bad input; one line on stderr states the problem and the remedy |
| 3 | the budget cannot pay |
| 70 | internal error; the line on stderr has a report id, and what was paid for is kept in the ledger |
| 130 | interrupted |
| 141 | the reader of the output closed it, as `head` does; files are written before results are printed |

The outputs below were recorded with the invented census that `python examples/tiny_census.py` writes. Noise is drawn
afresh in every run, so your numbers differ. A test compares everything else with the program's output.
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
    Step(
        "demo",
        "Runs the whole process on a real public table, offline: measure, certify, ask, publish.",
        "reticent demo",
    ),
    Step(
        "domain new",
        "Writes a draft of the domain from column names and declared types. It reads no values. You fill in the "
        "empty lists, or `domain discover` finds them. A CSV file has no types, so `--number`, `--whole` and "
        "`--date` name the columns of these types. `--codebook` reads a Frictionless Table Schema or SDV "
        "metadata. See [domains](domain.md).",
        "reticent domain new census.parquet --out draft.toml",
    ),
    Step(
        "domain discover",
        "Fills the empty lists of a draft privately. It has a separate budget, which is added to the budget of "
        "every session or release that uses the domain.",
        "reticent domain discover census.parquet --draft draft.toml --epsilon 0.2 --delta 1e-9 "
        "--ledger census.discovery --out discovered.toml",
    ),
    Step(
        "domain show",
        "Prints what a domain file declares: columns, codes, and [rules](domain.md) about impossible records.",
        "reticent domain show census.toml",
    ),
    Step(
        "check",
        "Counts the values of the table that do not fit the declared domain, with examples and hints. This "
        "command is for the custodian: its output is exact and must not be published. It fails if more than a "
        "quarter of a column (`--limit`) does not fit, or if the number of records or persons differs from the "
        "declared one (`--records`) by more than that. `release` and `serve` make the same checks and stop "
        "before they spend, unless `--accept-misfits` is given.",
        "reticent check census.parquet --domain census.toml",
    ),
    Step(
        "plan",
        "Computes what accuracy a budget buys, from public facts alone. It reads no table.",
        "reticent plan --records 20000 --domain census.toml --epsilon 1 --delta 1e-9 --queries 10000 --error 0.01",
    ),
    Step(
        "release",
        "Spends the budget on a public distribution.\n\n"
        "- `--out` writes synthetic rows. `--save` writes the whole release for `reticent shell` and "
        "`rt.Release.load`. `--report` writes a page for a board.\n"
        "- `--custodian-copy` writes the same page with scores against the true rows: SDMetrics' column shapes "
        "and pair trends, NIST's k-marginal score, and models trained on the published data and tested on the "
        "rows. These scores are exact and for the custodian alone.\n"
        "- With `--ledger` every measurement is stored: after Ctrl-C or a crash the same command continues with "
        "the measurements already made, and several releases and sessions may share one budget.\n"
        "- A workload is `marginals:3`, `ranges:age`, `prefixes:age`, `ranges:age*hours` (all boxes of two "
        "columns), several of these joined by `+`, or a file with attribute sets (JSON or CSV) or SQL statements.\n"
        "- `--replicates 80` adds replicates, which estimate the distance from the population "
        "([guide](guide/population.md)): to the file of `--save`, and as columns `repwt1` to `repwt80` to the "
        "rows of `--out`. There are then four rows for each record.\n"
        "- What can be known beforehand is checked before anything is paid. If a file cannot be written afterwards, "
        "one line says what was written and where the release is kept: in the ledger, in the file of `--save`, or in "
        "a new file whose name it says.",
        "reticent release census.parquet --domain census.toml --workload marginals:2 --epsilon 1 --delta 1e-9 "
        "--out synthetic.parquet --save census.release --report report.html --ledger census.ledger",
    ),
    Step(
        "fit",
        "Fits models by minimising the convex losses that a file describes ([regressions](convex.md)). Models "
        "from a release are free. On your own table `--error` is the largest acceptable excess risk; if the free "
        "model is not certified for it, the command pays for an audit or a private minimiser from the ledger. "
        "`--engine convex-tuned` answers all later losses within one common error."
        "\n\n"
        "```sh\n"
        "reticent fit census.release losses.toml\n"
        "```",
    ),
    Step(
        "estimate",
        "Fits a distribution to noisy measurements that another tool has made and paid for. The input is a JSON "
        'list of objects with `query`, `values` (shares of the table) and `sd`, for example `[{"query": {"query": '
        '"marginal", "attributes": ["sex"]}, "values": [0.48, 0.52], "sd": 0.01}]`. Nothing is measured, charged '
        "or certified. The result states no privacy guarantee of its own; the guarantee of the measurements "
        "extends to it."
        "\n\n"
        "```sh\n"
        "reticent estimate measured.json --domain census.toml --records 20000 --save fitted.release\n"
        "```",
    ),
    Step(
        "shell",
        "Opens an SQL prompt with history and completion of columns and values. On a saved release every answer "
        "is free. `reticent shell URL` asks a server; the token is in `RETICENT_TOKEN`. `reticent shell TABLE "
        "--domain D --ledger L --epsilon 1` opens a session on your own table. `\\error 0.01` requests this error "
        "for all following statements: the shell shows each price and pays only after you confirm, or with "
        "`--yes`. Statements may also come through a pipe.",
        "reticent shell census.release",
        typed="SELECT education, COUNT(*) FROM census WHERE smoker = 'yes' GROUP BY education;\n"
        "SELECT sex, AVG(income) FROM census GROUP BY sex;\n"
        "SELECT age, income FROM census;\n",
    ),
    Step(
        "ledger show",
        "Lists every event of a ledger with its price, what is spent and left, and what the whole budget guarantees.",
        "reticent ledger show census.ledger",
    ),
    Step(
        "ledger verify",
        "Checks the hash chain, the anchor and all stored data. The exit code is 2 if the file was edited, "
        "truncated, rolled back or damaged. The command needs no write permission. `reticent ledger backup` "
        "copies a ledger in use, `restore` restores a copy, and `accept-rollback` continues after a real loss.",
        "reticent ledger verify census.ledger",
    ),
    Step(
        "audit",
        "Tests empirically whether this installation keeps its privacy claims. It runs every mechanism and every "
        "algorithm on generated neighbouring tables. It chooses an event that distinguishes the tables on some "
        "runs and counts it on others. Clopper-Pearson bounds turn the counts into a lower bound on the privacy "
        "loss. The bounds account for the choice of events and the number of checks: if all mechanisms are "
        "correct, at most one audit of 1,000 shows a red line. Sensitivities, rounding, and the order of charge "
        "and noise are checked exactly. The audit takes about two minutes of processor time; `--deep` takes an "
        "hour and proves tighter bounds, and `--minutes 20` takes about that long in all. It reads no table.",
        "reticent audit --seconds 0.01",
        shown="reticent audit --minutes 1",
    ),
    Step(
        "serve",
        "Serves a table over HTTP with a web page; see [operations](operations.md). With `--json` it prints its "
        "address, its tables and the file with the custodian's token as soon as it listens."
        "\n\n"
        "```sh\n"
        "reticent serve census.parquet --domain census.toml --ledger census.ledger --epsilon 1 --delta 1e-9 "
        "--port 8000\n"
        "```",
    ),
    Step(
        "ask",
        "Sends one question to a server. The token is taken from `RETICENT_TOKEN`."
        "\n\n"
        "```sh\n"
        'reticent ask http://localhost:8000 "SELECT sex, COUNT(*) FROM census GROUP BY sex"\n'
        "```\n\n"
        'A saved release is asked in the same way: `reticent ask census.release "SELECT ..."`. With '
        "`--population 0.95` the errors shown belong to\n"
        "intervals for the population ([guide](guide/population.md)): estimated if the release has "
        "replicates, or certified with `--mode certified`.",
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
    """Each paragraph and each item of a list wrapped by itself; from the first code block on as it stands."""
    head, fence, rest = prose.partition("\n\n```")
    wrapped = [
        textwrap.fill(line, 120, subsequent_indent="  " * line.startswith("- "), break_on_hyphens=False)
        for line in head.split("\n")
    ]
    return "\n".join(wrapped) + fence + rest


if __name__ == "__main__":
    PAGE.write_text(record(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} written")
