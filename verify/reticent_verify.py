#!/usr/bin/env python3
"""A second reader of Reticent's ledgers: plain Python, no other package, nothing of Reticent's own code.

    python3 reticent_verify.py census.ledger [--anchor FILE] [--release FILE]

It recomputes from the file alone: the hash chain, the rules of every event, the price of every charge from the noise
and the statistic that the charge names, what each analyst spent against their cap, the limit of the budget, the blobs,
the anchor, and the guarantee that a release states. It shares no code with the library, so that one mistake is not made
twice. Exit code 0: all agrees; 1: something does not; 2: the file cannot be read.

What it does not see: whether the noise was drawn from the stated distribution, and whether a statistic's sensitivity is
what the proofs say. The tests of the library are for that (docs/evidence.md).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import math
import re
import sqlite3
import sys
import zipfile
import zlib
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from urllib.parse import quote

NANO = 10**9
NEWEST_FORMAT = 3
SMALLEST = Fraction(11, 10)  # Gaussian noise below has no GDP price
SLOT = 4096
FIELDS = {"sequence", "kind", "at", "key", "analyst", "cost", "payload", "previous"}
TYPES = dict.fromkeys(("kind", "previous"), (str,)) | dict.fromkeys(("sequence", "at", "cost"), (int,))
TYPES |= dict.fromkeys(("key", "analyst"), (str, type(None))) | {"payload": (dict,)}
EXCESS_ALLOWANCE = Fraction(1, 20) + Fraction(1, 100)  # of a sensitivity (excess-risk.md): the solver's gap, floats
CONVERSION_SLACK = 1e-9  # relative; two programs minimise the same convex function of one variable in floats
DELTA_ROOM = 2  # a stated delta is an upper bound: tails are bounded by geometric series, which at most doubles them
WRITTEN = re.compile(r"\d{1,1200}(/[1-9]\d{0,1200})?", re.ASCII)


class Disagreement(Exception):
    """The file does not say what it should."""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def canonical(value) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def need(condition: bool, message: str) -> None:
    if not condition:
        raise Disagreement(message)


def written(text) -> Fraction:
    """A number as a ledger writes it: one integer, or two with a slash."""
    need(isinstance(text, str) and WRITTEN.fullmatch(text) is not None, "a number is not a written fraction")
    return Fraction(text)


def positive(text) -> Fraction:
    need(written(text) > 0, "a parameter of a mechanism is not above 0")
    return Fraction(text)


def connect(path: Path) -> sqlite3.Connection:
    """Read-only; a file without a log beside it is opened as immutable, which needs no right to write anywhere."""
    waiting = path.with_name(path.name + "-wal")
    mode = "mode=ro" if waiting.exists() and waiting.stat().st_size else "mode=ro&immutable=1"
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?{mode}", uri=True)


def read_events(connection: sqlite3.Connection):
    """Every event, its text checked against its hash and its canonical form."""
    for body, digest in connection.execute("SELECT body, digest FROM events ORDER BY sequence"):
        need(isinstance(body, str) and sha256(body.encode()) == digest, "an event does not match its hash")
        try:
            event = json.loads(body)
        except (ValueError, RecursionError):
            raise Disagreement("an event is no JSON") from None
        need(isinstance(event, dict) and set(event) == FIELDS, "an event has other fields than an event has")
        need(canonical(event) == body, "an event is not in canonical form")
        typed = all(type(event[name]) in kinds for name, kinds in TYPES.items())
        need(typed, f"event {event['sequence']!r:.20} has a field of another type")
        yield event, digest


def check_blobs(connection: sqlite3.Connection) -> int:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    count = 0
    for digest, data in connection.execute("SELECT digest, data FROM blobs") if "blobs" in tables else ():
        need(isinstance(data, bytes) and sha256(data) == digest, f"blob {str(digest)[:12]} does not match its hash")
        count += 1
    return count


class Price:
    """Pure epsilon, zCDP rho, and half of mu squared of GDP, as exact fractions; None: no such guarantee.

    `log_delta` is the logarithm of the probability with which rho does not cover the release; None: never.
    """

    def __init__(self, pure, rho, gaussian=None, log_delta=None):
        self.pure, self.rho, self.gaussian, self.log_delta = pure, rho, gaussian, log_delta

    @classmethod
    def bounded(cls, pure, rho):
        return cls(pure, rho, rho * Fraction(355, 226))  # above pi/2: docs/proofs/gaussian-dp.md, claim 5

    def __add__(self, other):
        pure = None if None in (self.pure, other.pure) else self.pure + other.pure
        gaussian = None if None in (self.gaussian, other.gaussian) else self.gaussian + other.gaussian
        return Price(pure, self.rho + other.rho, gaussian)

    def units(self, kind: str) -> int:
        amount = {"pure": self.pure, "zcdp": self.rho, "gaussian": self.gaussian}[kind]
        need(amount is not None, f"a {kind} budget paid for noise without such a guarantee")
        return math.ceil(amount * NANO)


FREE = Price(Fraction(0), Fraction(0), Fraction(0))


def sensitivity(statistic: dict, neighbours: str):
    """(L1, squared L2) of a statistic by its description, in records (docs/proofs)."""
    two = neighbours == "replace-one"
    if any(name in statistic for name in ("marginal", "groups", "blocks")):  # a record leaves a cell, enters another
        return (Fraction(2), Fraction(2)) if two else (Fraction(1), Fraction(1))
    if any(name in statistic for name in ("query", "max error", "errors of", "error quantile")):
        return Fraction(1), Fraction(1)  # values in [0, 1], a maximum or an order statistic of their errors
    if "bin offsets" in statistic or "clipped sums" in statistic:  # one entry moves by at most a half, up or down
        return (Fraction(1), Fraction(1)) if two else (Fraction(1, 2), Fraction(1, 4))
    if "residual" in statistic:
        sizes, cells, freedom = residual_parts(statistic)
        kept, least = Fraction(freedom, cells), min(sizes.values(), default=0)
        far = 2 * kept * Fraction(least, least - 1) if two and sizes else kept
        return kept * 2 ** len(sizes) * (2 if two and sizes else 1), far
    if "excess risks of" in statistic:
        size = (2 if two else 1) + EXCESS_ALLOWANCE + Fraction(statistic.get("hidden", 0))
        return size, size**2
    return None


def noise_price(mechanism: dict, l1, l2_squared) -> Price:
    if mechanism["mechanism"] == "Laplace":
        scale = positive(mechanism["scale"])
        return Price.bounded(l1 / scale, l2_squared / (2 * scale**2))
    need(mechanism["mechanism"] == "Gaussian", f"{mechanism['mechanism']} is not additive noise")
    sigma, steps = positive(mechanism["sigma"]), positive(mechanism.get("steps", "1"))
    need(steps in range(1, 2**31 + 1), "the steps of noise in a record are a whole number up to 2^31")
    rho, scale = l2_squared / (2 * sigma**2), sigma * steps  # in steps of the grid it is drawn on, at the least
    return Price(None, rho, rho * (1 + 1 / (4 * scale**2)) ** 2 if scale >= SMALLEST else None)


def log_tail(sigma: float, least: int) -> float:
    """ln P(Z >= least) of the discrete Gaussian, P(j) ~ exp(-j^2 / 2 sigma^2), least >= 1."""
    square = 2 * sigma**2
    if sigma < 10**4:  # relative to the first term, the rest is below exp(-45) from 10 sigma on
        tail = math.fsum(math.exp(-(2 * least * i + i * i) / square) for i in range(10 * math.ceil(sigma) + 1))
    else:  # the integral and half of the first term: a lower bound where the terms are convex
        x = least / (sigma * math.sqrt(2))
        tail = 0.5 + sigma * (math.sqrt(math.pi / 2) * math.exp(x * x) * math.erfc(x) if x < 25 else 0.7 / x)
    few = 1 + 2 * math.fsum(math.exp(-j * j / square) for j in range(1, 101))
    mass = sigma * math.sqrt(2 * math.pi) if sigma > 10 else few
    return -least * least / square + math.log(tail / mass)


def thresholded_price(mechanism: dict, statistic: dict, neighbours: str) -> Price:
    """Values shown above a threshold: zCDP of all counts that a unit moves, and what may show a unit's own value."""
    sides = 2 if neighbours == "replace-one" else 1
    most, threshold = int(mechanism["most"]), int(mechanism["threshold"])
    need(most == statistic["most"] >= 1 and threshold >= 2, "a threshold for other values than were counted")
    sigma = positive(mechanism["sigma"])
    shown = min(0.0, log_tail(float(sigma), threshold - 1))
    if shown > -600:  # 1 - (1 - p)^most
        share = math.exp(shown)
        shown = 0.0 if share >= 1 else math.log(-math.expm1(most * math.log1p(-share)))
    else:
        shown += math.log(most)
    return Price(None, Fraction(most * sides) / (2 * sigma**2), log_delta=shown + math.log(sides))


def check_delta(event: dict, price: Price) -> None:
    """That a charge names what its threshold may fail with, no less, and nothing where there is no threshold."""
    number, stated = event["sequence"], event["payload"].get("delta")
    if price.log_delta is None:
        need(stated is None, f"event {number}: its noise has no delta of its own")
        return
    need(stated is not None, f"event {number}: its threshold has a delta, and none was charged")
    amount = written(stated)
    logged = math.log(amount.numerator) - math.log(amount.denominator)
    least, most = price.log_delta - CONVERSION_SLACK, price.log_delta + math.log(DELTA_ROOM)
    need(logged >= least, f"event {number}: its threshold fails more often than was charged")
    need(logged <= most, f"event {number}: its threshold fails less often than was charged")


def residual_parts(statistic: dict) -> tuple[dict, int, int]:
    """Size of each attribute, cells, and the product of sizes less one."""
    named = statistic["residual"]
    sizes = dict(zip(named["marginal"], named["shape"], strict=True))
    need(all(type(size) is int and size > 1 for size in sizes.values()), "a residual of an attribute of one code")
    need(len(sizes) == len(named["marginal"]), "a residual names an attribute twice")
    return sizes, math.prod(sizes.values()), math.prod(size - 1 for size in sizes.values())


def largest_move(group: list) -> int:
    """The most over all sets D of attributes that differ of the sum of w (k - k(D)) (docs/proofs/residuals.md)."""
    every = {name: size for sizes, _ in group for name, size in sizes.items()}
    bits = {name: 1 << place for place, name in enumerate(every)}
    sums = [0] * 2 ** len(every)
    for sizes, weight in group:
        sums[sum(bits[name] for name in sizes)] += weight
    for name, bit in bits.items():
        for place in (place for place in range(len(sums)) if not place & bit):
            a, b = sums[place], sums[place | bit]
            sums[place], sums[place | bit] = a + (every[name] - 1) * b, a - b
    return sums[0] - min(sums)


def worst_of_residuals(measured: list, two: bool) -> Fraction:
    """Half of the most that neighbours move residuals, squared, weighted by precisions; rounded up as documented."""
    parts = [(*residual_parts(statistic), precision) for statistic, precision in measured]
    total = sum(math.ceil(2**60 * precision / cells * freedom) for _, cells, freedom, precision in parts)
    unit = Fraction(2) ** (120 - total.bit_length())
    weights = [(sizes, freedom, math.ceil(unit * precision / cells)) for sizes, cells, freedom, precision in parts]
    if not two:
        return sum(freedom * weight for _, freedom, weight in weights) / (2 * unit)
    alone, groups = Fraction(sum(weight for sizes, _, weight in weights if not sizes), 2), []
    for sizes, weight in ((sizes, weight) for sizes, _, weight in weights if sizes):
        joined = next((g for g in groups if len(g[0] | set(sizes)) <= max(16, len(sizes))), None)
        if joined is None:
            groups.append(joined := (set(), []))
        joined[0].update(sizes)
        joined[1].append((sizes, weight))
    return (alone + sum(largest_move(members) for _, members in groups)) / unit


def residual_price(measured: list, neighbours: str, rows: int) -> Price:
    """Of residuals with normal noise, together."""
    prices = [(statistic, noise_price(mechanism, 1, 1)) for statistic, mechanism in measured]
    two, known = neighbours == "replace-one", all(price.gaussian is not None for _, price in prices)
    rho = worst_of_residuals([(statistic, 2 * price.rho) for statistic, price in prices], two)
    exact = worst_of_residuals([(s, 2 * price.gaussian) for s, price in prices], two) if known else None
    return Price(None, rho * rows**2, None if exact is None else exact * rows**2)


def price_of(verb: str, request: dict, neighbours: str, rows: int):
    """The price that the request's own description implies; None where the description does not determine it."""
    if verb == "measure":
        total, together = FREE, []
        need(len(request["statistics"]) == len(request["mechanisms"]) > 0, "statistics and mechanisms do not pair up")
        for statistic, mechanism in zip(request["statistics"], request["mechanisms"], strict=True):
            if "residual" in statistic and mechanism["mechanism"] == "Gaussian":
                together.append((statistic, mechanism))
                continue
            moved = sensitivity(statistic, neighbours)
            if moved is None:
                return None
            total = total + noise_price(mechanism, moved[0] * rows, moved[1] * rows**2)
        return total + residual_price(together, neighbours, rows) if together else total
    if verb == "select":
        (mechanism,) = request["mechanisms"]
        if mechanism["mechanism"] == "Thresholded":
            need(request["draws"] == 1, "values are shown once for each charge")
            return thresholded_price(mechanism, request["scores"], neighbours)
        need(mechanism["mechanism"] == "Exponential", "a selection without the exponential mechanism")
        need(type(request["draws"]) is int and request["draws"] >= 1, "a selection draws at least once")
        epsilon, draws = positive(mechanism["epsilon"]), request["draws"]
        return Price.bounded(epsilon * draws, epsilon**2 / 8 * draws)
    if verb == "watch":
        (mechanism,) = request["mechanisms"]
        epsilon = positive(mechanism["threshold_epsilon"]) + positive(mechanism["query_epsilon"])
        return Price.bounded(epsilon, epsilon**2 / 2)
    return None


def check_price(event: dict, identity: dict, kind: str) -> bool:
    """Whether the charge could be recomputed; Disagreement where it is not what the description implies."""
    verb, request = event["payload"]["kind"], event["payload"]["request"]
    known = verb in ("measure", "select", "watch", "minimize") or not {"mechanisms", "minimizer"} & set(request)
    need(isinstance(verb, str) and known, f"event {event['sequence']}: its verb is unknown here")
    digest = sha256(canonical({"kind": verb, "request": request}).encode())
    need(digest == event["payload"]["digest"], f"event {event['sequence']}: the request does not match its digest")
    if verb == "minimize":  # the minimiser's noise is scaled, upwards, to the rho that it states
        stated = positive(request["minimizer"]["rho"])
        need(kind != "pure", "a pure budget paid for a minimiser")
        more = (1 + 1 / (4 * SMALLEST**2)) ** 2 if kind == "gaussian" else 1
        low, high = math.ceil(stated * (1 - Fraction(1, 10**12)) * NANO), math.ceil(stated * more * NANO)
        need(low <= event["cost"] <= high, f"event {event['sequence']}: its minimiser states {high} as its cost")
        check_delta(event, FREE)
        return True
    price = price_of(verb, request, identity.get("neighbours", "replace-one"), identity.get("most", 1))
    if price is None:
        return False
    check_delta(event, price)
    expected = price.units(kind)
    need(event["cost"] == expected, f"event {event['sequence']}: charged {event['cost']}, its noise costs {expected}")
    return True


def epsilon_at(rho: float, delta: float) -> float:
    """min over a > 1 of  a rho + ln(1/(a delta))/(a - 1) + ln(1 - 1/a)  (Canonne, Kamath, Steinke 2020, Prop. 12)."""
    if rho <= 0:
        return 0.0

    def bound(t: float) -> float:  # a = 1 + exp(t)
        x = math.exp(t)
        return (1 + x) * rho + (-math.log(delta) - math.log1p(x)) / x + t - math.log1p(x)

    middle = 0.5 * math.log(-math.log(delta) / rho)
    best = min((middle - 30 + i * 0.02 for i in range(2001)), key=bound)
    low, high = best - 0.02, best + 0.02
    for _ in range(200):
        third = (high - low) / 3
        lower = bound(low + third) < bound(high - third)
        low, high = (low, high - third) if lower else (low + third, high)
    return max(0.0, bound((low + high) / 2))


def gaussian_epsilon_at(rho: float, delta: float) -> float:
    """Where delta = Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2), mu^2 = 2 rho (Dong, Roth, Su 2022, Cor. 2.13)."""
    mu = math.sqrt(2 * max(rho, 1e-300))

    def reached(epsilon: float) -> float:  # ln delta
        first, second = log_above(epsilon / mu - mu / 2), epsilon + log_above(epsilon / mu + mu / 2)
        return first + math.log(-math.expm1(second - first)) if second < first else -math.inf

    low, high, wanted = 0.0, 1.0, math.log(delta)
    while reached(high) > wanted:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) <= wanted else (middle, high)
    return high if reached(0.0) > wanted else 0.0


def log_above(x: float) -> float:
    """ln P(Z > x) of a standard normal variable."""
    if x < 30:
        return math.log(math.erfc(x / math.sqrt(2)) / 2)
    return -x * x / 2 - math.log(x * math.sqrt(2 * math.pi)) + math.log1p(-1 / x**2 + 3 / x**4 - 15 / x**6)


def kind_of(budget: dict) -> str:
    """How prices add: pure epsilon, zCDP, or GDP for ledgers that compose Gaussian noise exactly."""
    return budget.get("noise", "zcdp") if {"delta", "rho"} & set(budget) else "pure"


def check_budget(budget: dict) -> str:
    """Its kind; Disagreement where its limit is more than its parameters allow."""
    limit, kind = budget["limit"], kind_of(budget)
    need(type(limit) is int and limit > 0, "the budget has no positive limit")
    need(budget.get("noise", "gaussian") == "gaussian", "the budget is for noise that is unknown here")
    taken = written(budget["approximate"]) if "approximate" in budget else Fraction(0)
    need("approximate" not in budget or (kind != "pure" and 0 < taken < 1), "a pure budget has no approximate part")
    if "rho" in budget:
        need(limit <= written(budget["rho"]) * NANO, "the limit exceeds the budget's rho")
    elif "delta" in budget:
        need(taken < written(budget["delta"]) < 1, "what mechanisms may fail with is not less than the budget's delta")
        epsilon, delta = float(written(budget["epsilon"])), float(written(budget["delta"]) - taken)
        reached = (gaussian_epsilon_at if kind == "gaussian" else epsilon_at)(limit / NANO, delta)
        need(reached <= epsilon * (1 + CONVERSION_SLACK), "the limit's rho exceeds the budget's epsilon at delta")
    else:
        need(limit <= written(budget["epsilon"]) * NANO, "the limit exceeds the budget's epsilon")
    need(budget["unit"] == ("epsilon" if kind == "pure" else "rho"), "the budget names another unit than it has")
    return kind


class Account:
    """What the events add up to."""

    def __init__(self):
        self.sequence, self.head, self.spent, self.kind = 0, "0" * 64, 0, "zcdp"
        self.opening, self.caps, self.by_analyst = {}, {}, {}
        self.limit, self.approximate = 0, Fraction(0)
        self.delta = Fraction(0)  # what mechanisms may have failed with so far, exactly
        self.standing = {}  # key to [status, redeemable, cost, analyst]
        self.priced = self.unpriced = 0
        self.digests, self.last = {0: "0" * 64}, None

    def add(self, event: dict, digest: str) -> None:
        number, kind = event["sequence"], event["kind"]
        need(number == self.sequence + 1 and event["previous"] == self.head, f"event {number} is out of the chain")
        need((kind == "open") == (number == 1), f"event {number}: a ledger opens once, with its first event")
        need(type(event["cost"]) is int and event["cost"] >= 0, f"event {number}: its cost is no whole amount")
        rule = getattr(self, f"_{kind}", None) if kind in RULES else None
        if rule is not None:
            rule(event)
        need(self.spent <= self.limit, f"event {number}: more was spent than the limit allows")
        self.sequence, self.head, self.last = number, digest, event
        self.digests[number] = digest

    def _open(self, event: dict) -> None:
        self.opening = event["payload"]
        need(1 <= self.opening["format"] <= NEWEST_FORMAT, f"ledger format {self.opening['format']} is unknown here")
        self.kind, self.limit = check_budget(self.opening["budget"]), self.opening["budget"]["limit"]
        self.approximate = Fraction(self.opening["budget"].get("approximate", "0"))

    def _reserve(self, event: dict) -> None:
        number, key, analyst = event["sequence"], event["key"], event["analyst"]
        need(isinstance(key, str) and key not in self.standing, f"event {number}: its key was used before")
        left = self.limit - self.spent
        if analyst in self.caps:
            left = min(left, self.caps[analyst] - self.by_analyst.get(analyst, 0))
        need(event["cost"] <= max(left, 0), f"event {number}: charged beyond the limit or the analyst's cap")
        known = check_price(event, self.opening["identity"], self.kind)
        self.priced, self.unpriced = self.priced + known, self.unpriced + (not known)
        if "delta" in event["payload"]:
            taken = written(event["payload"]["delta"])
            need(0 < taken <= self.approximate - self.delta, f"event {number}: fails more than the budget sets aside")
            self.delta += taken
        self.standing[key] = ["reserved", bool(event["payload"]["redeemable"]), event["cost"], analyst]
        self.spent += event["cost"]
        if analyst is not None:
            self.by_analyst[analyst] = self.by_analyst.get(analyst, 0) + event["cost"]

    def _pending(self, event: dict):
        entry = self.standing.get(event["key"], [None])
        need(entry[0] in ("reserved", "redeemed"), f"event {event['sequence']}: nothing is pending")
        return entry

    def _redeem(self, event: dict) -> None:
        entry = self._pending(event)
        need(entry[1] and entry[0] == "reserved", f"event {event['sequence']}: a charge is redeemed once, if at all")
        entry[0] = "redeemed"

    def _settle(self, event: dict) -> None:
        self._pending(event)[0] = "settled"

    def _forfeit(self, event: dict) -> None:
        self._pending(event)[0] = "forfeited"

    def _cap(self, event: dict) -> None:
        cap, analyst = event["payload"]["cap"], event["analyst"]
        need(isinstance(analyst, str) and type(cap) is int, f"event {event['sequence']}: a cap without analyst")
        need(0 <= cap <= self.limit, f"event {event['sequence']}: a cap beyond the limit")
        self.caps[analyst] = cap

    def _rollback(self, event: dict) -> None:
        self.spent += event["cost"]
        self.delta = self.approximate  # the anchor does not say how much of it was lost: all of it
        for entry in self.standing.values():
            if entry[0] in ("reserved", "redeemed"):
                entry[0] = "forfeited"


RULES = ("open", "reserve", "redeem", "settle", "forfeit", "cap", "rollback")


def check_checkpoint(account: Account, event: dict, connection: sqlite3.Connection) -> None:
    """A checkpoint that the file still holds says what the events before it add up to."""
    digest = event["payload"].get("state")
    row = connection.execute("SELECT data FROM blobs WHERE digest = ?", (str(digest),)).fetchone()
    if row is None:  # replaced by a newer one
        return
    try:
        told = json.loads(zlib.decompress(row[0]))
        if (told["sequence"], told["head"]) != (account.sequence, account.head):
            raise ValueError("of another place")
        columns = told["reservations"] or [[]] * 9
        if isinstance(columns, dict):  # keys in one text, and terms that many share
            texts, terms = io.BytesIO(columns["texts"].encode("latin-1")), columns["terms"]
            keys = [texts.read(length).decode("utf-8", "surrogatepass") for length in columns["lengths"]]
            shared = [(*terms[code][:5], 0, terms[code][5]) for code in columns["codes"]]
            columns = [keys, *zip(*shared, strict=True)] if keys else [[]] * 9
        kept = (columns[place] for place in (0, 7, 5, 2, 4))
        standing = {key: entry for key, *entry in zip(*kept, strict=True)}
        facts = [account.spent, account.caps, account.by_analyst, account.opening]
        same = [told[name] for name in ("spent", "caps", "spent_by", "opening")] == facts
    except (zlib.error, ValueError, KeyError, TypeError, IndexError):
        raise Disagreement(f"event {event['sequence']}: its checkpoint cannot be read") from None
    same = same and standing == account.standing and Fraction(told.get("delta", "0")) == account.delta
    need(same, f"event {event['sequence']}: its checkpoint is not what the events add up to")


def newest_mark(path: Path):
    content, found = path.read_bytes(), None
    for slot in (content[:SLOT], content[SLOT : 2 * SLOT]):
        digest, _, body = slot.rstrip(b"\0").partition(b" ")
        if body and sha256(body).encode() == digest:
            record = json.loads(body)
            found = max(found or record, record, key=lambda read: read["generation"])
    return None if found is None else found["mark"]


def check_anchor(account: Account, path: Path) -> None:
    mark = newest_mark(path)
    need(mark is not None, "the anchor is empty or ruined")
    need(mark["ledger"] == account.opening["ledger"], "the anchor belongs to another ledger")
    need(account.sequence >= mark["sequence"], "the ledger was rolled back or cut: its anchor saw more events")
    last = account.last
    if last["kind"] == "rollback" and last["payload"].get("head") == mark["head"]:
        need(account.spent >= mark["spent"], "the ledger claims a recovery that forgets charges")
        return
    need(account.digests[mark["sequence"]] == mark["head"], "the ledger was edited or forked at its anchored event")
    need(account.sequence <= mark["sequence"] + 1, "the anchor is more than one event behind")


def paid(budget: dict, spent: int) -> Price:
    """What so many units of one ledger's budget guarantee; what may fail is added up beside it."""
    kind, amount = kind_of(budget), Fraction(spent, NANO)
    if kind == "pure":
        return Price.bounded(amount, amount**2 / 2)
    return Price(None, amount, amount if kind == "gaussian" else None)


def check_release(path: Path, account: Account | None) -> dict:
    """The guarantee of a release: the sum of what its ledgers spent, converted, not understated."""
    with zipfile.ZipFile(path) as archive:
        facts = json.loads(archive.read("manifest.json"))["facts"]
    publications = facts.get("publications") or [{"ledger": "", "budget": facts["budget"], "spent": facts["spent"]}]
    total, taken = FREE, Fraction(0)
    for publication in publications:
        need(int(publication["spent"]) >= 0, "the release states a negative charge")
        total = total + paid(publication["budget"], int(publication["spent"]))
        taken += written(publication["budget"].get("approximate", "0"))
    if account is not None:
        own = [p for p in publications if p["ledger"] == account.opening["ledger"]]
        need(len(own) == 1, "the release does not name this ledger")
        need(int(own[0]["spent"]) <= account.spent, "the release states more than its ledger spent")
        budget = own[0]["budget"]
        alike = {account.kind} if account.kind == "pure" else {account.kind, "zcdp", "any"}  # mu-GDP is mu^2/2-zCDP
        need(kind_of(budget) in alike, f"the release states its {account.kind} ledger's prices as {kind_of(budget)}")
        need(written(budget.get("approximate", "0")) == account.approximate, "another approximate part than its ledger")
    stated = facts["privacy"]
    if "rho" in stated:
        need(stated["rho"] * (1 + CONVERSION_SLACK) >= float(total.rho), "the release understates its rho")
        told = stated.get("approximate", 0.0) * (1 + CONVERSION_SLACK)
        need(told >= float(taken), "the release understates what its mechanisms may fail with")
        curve = math.inf if total.gaussian is None else math.sqrt(2 * total.gaussian)
        need(stated.get("mu", curve) * (1 + CONVERSION_SLACK) >= curve, "the release understates its mu")
        for delta, epsilon in stated["epsilon"].items():
            left = Fraction(repr(float(delta))) - taken
            need(left > 0, f"the release states an epsilon at delta {delta}, which its mechanisms use up")
            true = [epsilon_at(float(total.rho), float(left))]  # each of them holds
            true += [] if total.gaussian is None else [gaussian_epsilon_at(float(total.gaussian), float(left))]
            need(epsilon * (1 + CONVERSION_SLACK) >= min(true), f"the release understates its epsilon at delta {delta}")
    else:
        need(total.pure is not None, "the release states a pure guarantee that its ledgers do not give")
        need(stated["epsilon"] * (1 + CONVERSION_SLACK) >= float(total.pure), "the release understates its epsilon")
    return stated


def read(path: Path, anchor: Path | None = None) -> tuple[Account, int]:
    """The account of a ledger's file and how many blobs it holds; Disagreement where a rule is broken."""
    with closing(connect(path)) as connection:
        account = Account()
        for event, digest in read_events(connection):
            try:
                if event["kind"] == "checkpoint":
                    check_checkpoint(account, event, connection)
                account.add(event, digest)
            except (KeyError, TypeError, ValueError, ArithmeticError) as problem:
                raise Disagreement(f"event {event.get('sequence')} is malformed ({type(problem).__name__})") from None
        need(account.sequence > 0, "the ledger has no events")
        blobs = check_blobs(connection)
    marks = anchor or path.with_name(path.name + ".anchor")
    if anchor is not None or marks.exists():
        check_anchor(account, marks)
    return account, blobs


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--anchor", type=Path, help="where the anchor is, if not beside the ledger")
    parser.add_argument("--release", type=Path, help="a release whose stated guarantee is to be checked")
    given = parser.parse_args(arguments)
    try:
        account, blobs = read(given.ledger, given.anchor)
        stated = None if given.release is None else check_release(given.release, account)
    except Disagreement as problem:
        print(f"does not agree: {problem}")
        return 1
    except (OSError, sqlite3.Error, zipfile.BadZipFile, KeyError, ValueError) as problem:
        print(f"cannot be read: {type(problem).__name__}: {problem}")
        return 2
    print(f"{account.sequence} events, chain intact; {blobs} blobs match their hashes")
    print(f"{account.priced} charges recomputed from their noise; {account.unpriced} taken as charged")
    print(f"{account.opening['budget']['unit']} spent {account.spent / NANO:.9g} of {account.limit / NANO:.9g}")
    if account.approximate:
        print(f"delta of thresholds {float(account.delta):.3g} of {float(account.approximate):.3g} set aside")
    for analyst, spent in sorted(account.by_analyst.items()):
        cap = f" of {account.caps[analyst] / NANO:.9g}" if analyst in account.caps else ""
        print(f"  {analyst}: {spent / NANO:.9g}{cap}")
    if stated is not None:
        print(f"release: {json.dumps(stated)} is not less than what was spent")
    return 0


if __name__ == "__main__":
    sys.exit(main())
