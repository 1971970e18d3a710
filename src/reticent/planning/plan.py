"""`rt.plan`: what each mechanism certifies or is expected to certify, and which one to choose, before any spending."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError, real_number, require, whole_number
from reticent.kernel.accounting import NANO, Budget, epsilon_of
from reticent.knowledge.knowledge import VACUOUS
from reticent.knowledge.publications import composing
from reticent.knowledge.tails import check_confidence, z_score

if TYPE_CHECKING:
    from reticent.losses.base import ConvexLoss
    from reticent.planning.losses import LossPlan

EXPECTED_SPREAD = 9.0
"""Certified bound of an audited fit, in standard deviations of its triples' cells, if these are `SEEN_NOISE`."""
SEEN_NOISE = 0.0014
"""Adult, seven attributes, half of (1, 1e-9). With less noise a fit can smooth less: 17 standard deviations were seen
at 10^6 records, 32 at 10^7, about the fourth root."""

MOST = 10**15
"""Records or questions that a plan is made for."""

LEDGER_ROUNDING = 3 / NANO
"""An epoch has three prices, each charged in whole nano-units."""


@dataclass(frozen=True)
class Setting:
    """The public facts from which a plan is computed."""

    records: int
    log_universe: float
    queries: int
    failure: float
    pure: bool
    amount: float
    """Pure epsilon, or rho."""

    gaussian_amount: float | None = None
    """What mechanisms that need Gaussian noise only may spend, where that is more (`publications.composing`)."""

    rounding: float = 0.0
    """What the ledger may add to an epoch by rounding its prices up; the papers' rates know none."""

    delta: float | None = None
    """Of a budget stated as (epsilon, delta); None for pure and rho budgets."""

    gamma: float = 0.0
    """How far the best distribution on a sampled support may be from the table (spec 6.4); 0 for the universe."""

    def scaled(self, factor: float) -> Setting:
        more = None if self.gaussian_amount is None else self.gaussian_amount * factor
        return replace(self, amount=self.amount * factor, gaussian_amount=more)

    @property
    def of_gaussian(self) -> float:
        """The amount that Gaussian noise may cost."""
        return self.amount if self.gaussian_amount is None else self.gaussian_amount


@dataclass(frozen=True)
class Option:
    """One mechanism: its error for all queries together, and whether formulas certify it."""

    name: str
    error: float
    certified: bool
    note: str

    @property
    def vacuous(self) -> bool:
        return not self.error < VACUOUS


def laplace(setting: Setting) -> float:
    """Every query gets its own Laplace noise; error k ln(k/b) / (n eps), or with rho/k each."""
    n, k = setting.records, setting.queries
    scale = k / setting.amount if setting.pure else math.sqrt(k / (2 * setting.amount))
    return scale * math.log(k / setting.failure) / n


def gaussian(setting: Setting) -> float:
    """Every distinct query gets Gaussian noise once, repeats are free."""
    if setting.pure:
        return math.inf
    n, k = setting.records, setting.queries
    return z_score(setting.failure / (2 * k)) * math.sqrt(k / (2 * setting.of_gaussian)) / n


def plain_answers(setting: Setting, error: float) -> int:
    """How many distinct queries Gaussian noise answers within `error`, each with the confidence: K of online.md."""
    return int(2 * setting.of_gaussian * (setting.records * error / z_score(setting.failure / 2)) ** 2)


def of_epoch(setting: Setting, epochs: Any) -> Any:
    """The largest price of one epoch."""
    return setting.amount / epochs - setting.rounding


def textbook_online(setting: Setting) -> float:
    """3a/4, by the triangle inequality: a threshold of a/2 and two noises of at most a/8 (004)."""
    return 0.75 * textbook_parameter(setting) + setting.gamma


def textbook_parameter(setting: Setting) -> float:
    """The papers' a (spec 6.2): L = 64 ln|U| / a^2 epochs, all noises at most a/8, each epoch 4 e0."""

    def fits(a: float) -> bool:
        each = of_epoch(setting, epochs := 64 * setting.log_universe / a**2)
        if each <= 0:
            return False
        e0 = each / 4 if setting.pure else math.sqrt(each / 5)
        return math.log((2 * epochs + setting.queries) / setting.failure) / (setting.records * e0) <= a / 8

    return smallest_error(fits)


def hardt_rothblum_online(setting: Setting) -> float:
    """3T/2 of Definition 3.1 (003); infinite without a delta, or where its constants do not fit the budget."""
    constants = hardt_rothblum_constants(setting)
    return math.inf if constants is None else 1.5 * constants["threshold"] + setting.gamma


def hardt_rothblum_constants(setting: Setting) -> dict[str, float] | None:
    """sigma, eta and T of Definition 3.1 (003) as fractions of the table, and the updates that Lemma 3.3 leaves.

    Three noises stand where the paper has one, so each may fail a third as often: log(3/b) for log(1/b). The paper's
    updates end at n sqrt(ln M), those of Lemma 3.3 sooner: each takes eta (T/2 - eta) off a potential of ln M.
    """
    if setting.pure or setting.delta is None or not setting.amount > 0:
        return None
    n, log_size = setting.records, setting.log_universe
    root = log_size**0.25 / math.sqrt(n)
    epsilon = epsilon_of(setting.amount, setting.delta)
    sigma = 10 * math.log(1 / setting.delta) * root / epsilon

    # Every epoch and every measurement follows a test, and there are no more tests than questions.
    height = 4 * sigma * math.log(3 * setting.queries / setting.failure)
    if not height / 2 >= 2 * root:
        return None  # then the paper's number of updates does not follow from Lemma 3.3
    epochs = max(1.0, math.floor(min(n * math.sqrt(log_size), log_size / (root * (height / 2 - root)))))
    if 5 / (n * sigma) ** 2 > of_epoch(setting, min(epochs, setting.queries)):
        return None
    return {"sigma": sigma, "step": root, "threshold": height, "epochs": epochs}


def tuned_online(setting: Setting) -> float:
    """One-sided noise and conservative projection (spec 6.2): c1 + c2 + 2 c3 + m, least over margin and split."""
    return _tuned(setting)[0] + setting.gamma


def tuned_parameters(setting: Setting) -> dict[str, float]:
    """The margin, epochs and per-epoch prices behind `tuned_online`; all in fractions and the budget's unit."""
    error, margin, share, split = _tuned(setting)
    epochs = max(1.0, math.floor(setting.log_universe / (2 * margin**2)))
    return {"error": error, "margin": margin, "epochs": epochs, "threshold_share": share, "split": split}


def _tuned(setting: Setting) -> tuple[float, float, float, float]:
    margins = np.geomspace(1e-4, 0.5, 160)[:, None, None]
    shares = np.linspace(0.5, 0.995, 34)[None, :, None]
    splits = np.linspace(0.02, 0.5, 33)[None, None, :]
    epochs = np.maximum(1.0, np.floor(setting.log_universe / (2 * margins**2)))
    n, b = setting.records, setting.failure / 3
    each = np.maximum(of_epoch(setting, epochs), np.finfo(float).tiny)
    watch = shares * each if setting.pure else np.sqrt(2 * shares * each)
    with np.errstate(over="ignore"):  # a budget too small for so many epochs certifies nothing: infinity says so
        c1 = np.log(epochs / b) / (n * splits * watch)
        c2 = 2 * math.log(setting.queries / b) / (n * (1 - splits) * watch)
        if setting.pure:
            c3 = np.log(epochs / b) / (n * (1 - shares) * each)
        else:

            def quantile(count: float) -> float:
                return z_score(b / (2 * count))

            z = np.vectorize(quantile)(epochs)
            c3 = z / (n * np.sqrt(2 * (1 - shares) * each))
        error = c1 + c2 + 2 * c3 + margins
    i, j, k = np.unravel_index(int(np.argmin(error)), error.shape)
    return float(error[i, j, k]), float(margins[i, 0, 0]), float(shares[0, j, 0]), float(splits[0, 0, k])


def textbook_offline(setting: Setting) -> float:
    """Error 4a with L = ceil(4 ln|U| / a^2) rounds, if n >= 2 ln(2kL/b) / (e0 a) (spec 5.1)."""

    def fits(error: float) -> bool:
        a = error / 4
        rounds = math.ceil(4 * setting.log_universe / a**2)
        e0 = setting.amount / (2 * rounds) if setting.pure else math.sqrt(8 * setting.amount / (5 * rounds))
        return setting.records >= 2 * math.log(4 * setting.queries * rounds / setting.failure) / (e0 * a)

    return smallest_error(fits)


def dualquery(setting: Setting) -> float:
    """The textbook's T, s and eta (spec 7.3), priced with bounded range (spec 7.2)."""
    n, log_queries = setting.records, math.log(2 * setting.queries)

    def fits(a: float) -> bool:
        rounds = math.ceil(16 * log_queries / a**2)
        draws = math.ceil(48 * (setting.log_universe + math.log(2 * rounds / setting.failure)) / a**2)
        if setting.pure:
            return a / 4 * draws * rounds * (rounds - 1) / n <= setting.amount
        squares = rounds * (rounds - 1) * (2 * rounds - 1) / 12
        return draws * (a / 4) ** 2 * squares / n**2 <= setting.amount

    return smallest_error(fits)


def smallest_error(fits: Callable[[float], bool]) -> float:
    """The smallest error that satisfies a monotone condition; infinite if 1 does not satisfy it."""
    low, high = 1e-9, 1.0
    if not fits(high):
        return math.inf
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def expected(setting: Setting, domain: Domain, *, share: float = 0.5) -> float:
    """The expected certificate of an audited fit for boxes on up to three attributes: an assumption, not a theorem."""
    order = min(3, len(domain))
    sets = math.comb(len(domain), order)
    if sets > 100_000:
        order, sets = 2, math.comb(len(domain), 2)
    if setting.pure:
        scale = 2 * sets / (share * setting.amount) * math.sqrt(2)
    else:
        scale = 1 / math.sqrt(share * setting.of_gaussian / sets)
    noise = scale / setting.records
    return EXPECTED_SPREAD * noise * max(1.0, SEEN_NOISE / noise) ** 0.25


CERTIFIED: dict[str, tuple[Callable[[Setting], float], str]] = {
    "Laplace": (laplace, "fresh noise for every query"),
    "Gaussian + cache": (gaussian, "fresh noise for every distinct query; repeats are free"),
    "textbook PMW (online)": (textbook_online, "the papers' constants"),
    "Hardt-Rothblum (online)": (hardt_rothblum_online, "the constants of their own paper; needs epsilon and delta"),
    "tuned PMW (online)": (tuned_online, "one-sided noise, conservative projection"),
    "textbook PMW (offline)": (textbook_offline, "queries known in advance"),
    "DualQuery (offline)": (dualquery, "queries known in advance; no universe in memory"),
}
PRACTICAL = "measure - fit - audit"


@dataclass(frozen=True)
class Plan:
    """The options of a plan; all queries together meet their errors (fractions of the table) with the stated
    confidence.
    """

    setting: Setting
    options: tuple[Option, ...]
    budget: Budget
    domain: Domain

    @property
    def choice(self) -> Option:
        """The option with the smallest error; the default engine's expected error counts, because its audit certifies
        it later.
        """
        return min(self.options, key=lambda option: option.error)

    @property
    def crossover(self) -> int | None:
        """The number of distinct questions above which the audited fit is expected to beat Gaussian + cache; None if
        never.
        """
        fit = next(option.error for option in self.options if option.name == PRACTICAL)
        if self.setting.pure:
            return None
        low, high = 1, 10**9
        if gaussian(replace(self.setting, queries=high)) < fit:
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if gaussian(replace(self.setting, queries=middle)) >= fit else (middle + 1, high)
        return low

    def records_needed(self, error: float) -> dict[str, float]:
        """The smallest number of records at which each mechanism reaches `error` with this budget; infinite if none
        does.

        Args:
            error: A fraction of the table, above 0 and below 1.

        Returns:
            Records by the name of the mechanism.

        Raises:
            QueryError: The error is outside its range.

        Example:
            >>> import reticent as rt
            >>> made = rt.plan(records=1000, domain=rt.Domain({"x": 64}), budget=rt.Budget(rho=0.02), queries=100)
            >>> needed = made.records_needed(0.05)
            >>> again = rt.plan(records=round(needed["Laplace"]), domain=made.domain, budget=made.budget, queries=100)
            >>> again.options[0].error <= 0.05
            True
        """
        error = self._checked(error)
        found: dict[str, float] = {}
        for name, (formula, _) in CERTIFIED.items():
            found[name] = fewest(lambda n, f=formula: f(replace(self.setting, records=n)), error)
        found[PRACTICAL] = fewest(lambda n: expected(replace(self.setting, records=n), self.domain), error)
        return found

    def _checked(self, error: float) -> float:
        error = real_number(error, "error", "a fraction of the table between 0 and 1")
        if not 0 < error < 1:
            raise QueryError(f"error={error!r} is a fraction of the table; it must lie between 0 and 1")
        return error

    def needed(self, error: float) -> dict[str, float]:
        """The multiple of this budget (epsilon or rho) at which each mechanism reaches `error`."""
        error = self._checked(error)
        found: dict[str, float] = {}
        for name, (formula, _) in CERTIFIED.items():
            found[name] = _multiple(lambda factor, f=formula: f(self.setting.scaled(factor)), error)
        found[PRACTICAL] = _multiple(lambda factor: expected(self.setting.scaled(factor), self.domain), error)
        return found

    def to_dict(self) -> dict[str, Any]:
        return {
            "records": self.setting.records,
            "queries": self.setting.queries,
            "confidence": 1 - self.setting.failure,
            "budget": self.budget.to_dict(),
            "universe": str(self.domain.size),
            "options": [
                {"name": o.name, "error": _finite(o.error), "certified": o.certified, "note": o.note}
                for o in self.options
            ],
            "choice": self.choice.name,
            "crossover": self.crossover,
        }

    @property
    def guarantee(self) -> str:
        """The budget in one line, composed as on a new ledger of a default session or release."""
        return composing(self.budget).describe()

    def __str__(self) -> str:
        s = self.setting
        facts = f"{s.queries:,} questions, {s.records:,} records, universe of {float(self.domain.size):.3g}"
        lines = [
            f"{facts}, confidence {1 - s.failure:g}",
            self.guarantee,
            "",
            f"{'mechanism':<26}{'error':>10}   what it is",
        ]
        for option in sorted(self.options, key=lambda option: option.error):
            shown = "vacuous" if option.vacuous else f"{option.error:.2g}"
            mark = "" if option.certified else " (expected, not promised: the audit certifies)"
            lines.append(f"{option.name:<26}{shown:>10}   {option.note}{mark}")
        lines += ["", self.advice]
        return "\n".join(lines)

    @property
    def advice(self) -> str:
        """One sentence: which mechanism to choose, or what would be needed."""
        if self.choice.vacuous:
            factor = min(self.needed(0.05).values())
            more = factor if self.budget.pure else math.sqrt(factor)  # noise in records: 1/epsilon or 1/sqrt(rho)
            return (
                "Not useful as planned: no mechanism says more than a coin would. An error of 0.05 needs about"
                f" {factor:.3g} times this {self.budget.unit}, or {more:.3g} times the records."
            )
        off = self.choice.error * self.setting.records
        text = (
            f"Choose {self.choice.name}: answers within about {self.choice.error:.2g} of the table, {off:,.0f} records."
        )
        if self.crossover is not None:
            text += f" Below about {self.crossover:,} distinct questions plain Gaussian answers are enough."
        return text

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(option.name)}</td><td style='text-align:right'>"
            f"{'vacuous' if option.vacuous else f'{option.error:.2g}'}</td>"
            f"<td>{'certified' if option.certified else 'expected'}</td><td>{escape(option.note)}</td></tr>"
            for option in sorted(self.options, key=lambda option: option.error)
        )
        s = self.setting
        facts = f"{s.queries:,} questions, {s.records:,} records, confidence {1 - s.failure:g}"
        head = "<tr><th>mechanism</th><th>error</th><th></th><th>what it is</th></tr>"
        return (
            f"<div><b>{escape(facts)}</b><br>{escape(self.guarantee)}"
            f"<table>{head}{rows}</table><p>{escape(self.advice)}</p></div>"
        )


@overload
def plan(*, records: int, domain: Domain, budget: Budget, queries: int = 10_000, confidence: float = 0.95) -> Plan: ...


@overload
def plan(
    *,
    domain: Domain,
    losses: ConvexLoss | Sequence[ConvexLoss],
    count: int = 100,
    records: int | None = None,
    error: float | None = None,
    budget: Budget | None = None,
    confidence: float = 0.95,
    neighbours: str = "replace-one",
) -> LossPlan: ...


def plan(
    *,
    domain: Domain,
    records: int | None = None,
    budget: Budget | None = None,
    queries: int | None = None,
    confidence: float = 0.95,
    losses: ConvexLoss | Sequence[ConvexLoss] | None = None,
    count: int | None = None,
    error: float | None = None,
    neighbours: str | None = None,
) -> Plan | LossPlan:
    """Compute what each mechanism certifies, from public facts alone, before anything is spent.

    For counting queries, the plan states the certified error of every mechanism for `queries` adaptive questions. For
    convex losses (`losses=`), it states the needs of one loss, and of `count` adaptive losses like it: give two of
    `records`, `error` and `budget`, and the plan computes the third for each family of losses and each mechanism.

    Args:
        domain: the attributes of the table.
        records: the number of records (or persons) of the table.
        budget: the whole privacy budget.
        queries: the number of counting queries that will be asked; by default 10,000.
        confidence: the probability with which all bounds hold together.
        losses: a loss, or several, like those that will be asked; the plan uses the widest range and the highest price.
        count: the number of losses that will be asked, adaptively; by default 100.
        error: the excess risk that every model must meet.
        neighbours: for losses, "replace-one" (the default) or "add-remove", as for the table.

    Returns:
        A `Plan`, or a `LossPlan` if `losses` are given; print it, or use its `to_dict()`.

    Raises:
        QueryError: an argument is out of range, or not exactly two of `records`, `error` and `budget` are given.

    Example:
        >>> import reticent as rt
        >>> domain = rt.Domain(age=rt.Integer(10), job=rt.Integer(6), smoker=rt.Integer(2))
        >>> loss = rt.Logistic(features=["age", "job"], label="smoker", radius=2)
        >>> found = rt.plan(domain=domain, losses=loss, error=0.1, budget=rt.Budget(epsilon=1, delta=1e-9))
        >>> print(found.choice.mechanism, f"{found.choice.value:.0e}")
        a minimiser each 3e+04
    """
    if losses is not None:
        from reticent.planning.losses import plan_losses

        if queries is not None:
            raise QueryError("queries= is for counting queries; state the number of losses with count=")
        return plan_losses(
            losses, domain=domain, records=records, error=error, budget=budget, count=100 if count is None else count,
            confidence=confidence, neighbours=neighbours or "replace-one",
        )  # fmt: skip
    if error is not None:
        raise QueryError("error= is for losses; for queries read plan.needed(error)")
    if count is not None or neighbours is not None:
        given = "count=" if count is not None else "neighbours="
        raise QueryError(f"{given} is for losses; state the number of counting queries with queries=")
    require(domain, Domain, "domain", "rt.Domain(...) or table.domain")
    require(budget, Budget, "budget", "rt.Budget(epsilon=1, delta=1e-9)")
    assert budget is not None
    if records is None:
        raise QueryError("records is None, as under add-remove, where it is private: give a public estimate of it")
    exactly = composing(budget)
    setting = Setting(
        records=whole_number(records, "records", 1, MOST),
        log_universe=max(math.log(domain.size), 1e-9),
        queries=10_000 if queries is None else whole_number(queries, "queries", 1, MOST),
        failure=1 - check_confidence(confidence),
        pure=budget.pure,
        amount=float(budget.amount_of_other_noise(budget.limit)),
        gaussian_amount=exactly.amount(exactly.limit),
        rounding=LEDGER_ROUNDING,
        delta=None if budget.delta is None else float(budget.delta),
    )
    options = [Option(name, formula(setting), True, note) for name, (formula, note) in CERTIFIED.items()]
    note = "fit to measured marginals, then one noisy maximum covers all boxes on up to three attributes"
    options.append(Option(PRACTICAL, expected(setting, domain), False, note))
    return Plan(setting, tuple(options), budget, domain)


def fewest(error_at: Callable[[int], float], wanted: float, most: int = MOST) -> float:
    """The smallest number of records at which a decreasing error is reached, to within a thousandth."""
    low, high = 1, most
    if not error_at(high) <= wanted:
        return math.inf
    while high - low > max(1, low // 1000):
        middle = min(max(math.isqrt(low * high), low + 1), high - 1)
        low, high = (low, middle) if error_at(middle) <= wanted else (middle, high)
    return float(high)


def _multiple(error_at: Callable[[float], float], wanted: float) -> float:
    low, high = 1e-9, 1e15
    if not error_at(high) <= wanted:
        return math.inf
    for _ in itertools.repeat(None, 100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if error_at(middle) <= wanted else (middle, high)
    return high


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
