"""The page of shares says what the code does."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from reticent.knowledge.tails import KINDS, PLAIN_RULE, PLAIN_WIDE, SESSION_WIDE, Shares, audit_share, session_share
from reticent.releases.adaptive import Adaptive
from reticent.releases.budgeting import TOTAL_SHARE
from reticent.releases.rounds import UNASKED_SHARE
from reticent.releases.workload_audit import TYPICAL_SHARE as RELEASED_SHARE
from reticent.sessions.investments import INVESTED_SHARE
from reticent.sessions.start import WARM_SHARE
from reticent.sessions.warm_start import AUDIT_SHARE, CHEAP_SHARE, OFFSET_SHARE, TYPICAL_SHARE

PAGE = Path(__file__).parents[2] / "docs" / "budget.md"


def stated() -> dict[str, Fraction]:
    rows = re.findall(r"^\| ([^|]+?) \| (\d+/\d+)[^|]*\|", PAGE.read_text(), re.MULTILINE)
    return {name: Fraction(share) for name, share in rows}


def test_budget_shares_are_those_of_the_code() -> None:
    page = stated()
    assert page["session, warm start"] == Fraction(WARM_SHARE)
    assert page["session, first certificate"] == AUDIT_SHARE
    assert page["session, first typical error"] == TYPICAL_SHARE
    assert page["session, offsets within bins"] == OFFSET_SHARE
    assert page["session, number of records"] == TOTAL_SHARE
    assert page["default session, investments"] == INVESTED_SHARE
    assert page["default session, a start for losses"] == INVESTED_SHARE
    assert page["default session, certificate for predicates"] == CHEAP_SHARE
    assert page["release, certificates"] == Adaptive().audit_share
    assert page["release, typical error"] == RELEASED_SHARE
    assert page["release, columns outside the workload"] == UNASKED_SHARE


def test_failure_shares_are_those_of_the_code() -> None:
    page = stated()
    assert page["a purchased answer"] == 1 - SESSION_WIDE
    own = page["the r-th audit purchased for one loss"]
    assert (float(own), audit_share(2)) == (audit_share(1), float(1 - SESSION_WIDE - own) / 2)
    kinds = dict(
        zip(
            ("certificates", "typical", "derived"),
            (name for name in page if "j-th" in name),
            strict=True,
        )
    )
    for kind, name in kinds.items():
        assert page[name] == SESSION_WIDE * KINDS[kind]
        assert session_share(kind, 3) == page[name] / 12


def test_shares_of_plain_sessions_are_those_of_the_code() -> None:
    text = " ".join(PAGE.read_text().split())
    assert f"have 1/{PLAIN_WIDE[PLAIN_RULE].denominator:,} of the failure probability instead of {SESSION_WIDE}" in text
    assert f"Ledgers of earlier versions keep {PLAIN_WIDE[1]}." in text
    for plain in (0, *PLAIN_WIDE):
        shares = Shares(joint=True, plain=plain)
        parts = [shares.certificate(1), shares.derived(1), float(session_share("typical", 1, shares.wide))]
        # Half of each kind is left for those that follow: all of them and one purchase make one.
        assert abs(shares.own + 2 * sum(parts) - 1) < 1e-12
