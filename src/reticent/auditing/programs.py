"""Runs as users make them, for record and replay. A new statistic or minimiser is added by its line in `MAKERS`.

A program yields everything that its user would see, including refusals, and may depend on its answers. A test fails if
a statistic, a mechanism or a minimiser of the kernel takes part in none of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from reticent.auditing.neighbours import (
    EVERY,
    GENERALISED,
    Neighbourhood,
    neighbourhood,
    random_domain,
    some_loss,
    undeclared,
)
from reticent.discovery.discover import DiscoverySearch
from reticent.domain import Domain, Numeric, Undeclared
from reticent.errors import ReticentError
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.linear_scores import LargestError, LinearScores
from reticent.kernel.mechanisms.base import AboveThreshold, Exponential, Gaussian, Laplace
from reticent.kernel.minimizers.excess_risk import ExcessRisk, ExcessRisks
from reticent.kernel.minimizers.families import (
    LongDescent,
    NoisyGradientDescent,
    OutputPerturbation,
    RidgeGLM,
    SufficientStatistics,
    UnconstrainedGLM,
)
from reticent.kernel.minimizers.phased import PhasedERM
from reticent.kernel.numeric_sums import BinOffsets, ClippedSums
from reticent.kernel.order_statistic import ErrorQuantile
from reticent.kernel.residual_counts import ResidualCounts
from reticent.kernel.statistics import (
    KINDS,
    AnswerErrors,
    BlockCounts,
    CellScores,
    ConjunctionScores,
    GroupCounts,
    LinearCount,
    MarginalCounts,
    MaxError,
    PartitionCounts,
)
from reticent.kernel.table import Neighbours, Table, Unit
from reticent.losses.losses import MeanVector, Ridge, Squared
from reticent.planning.convex import ENGINES as CONVEX_ENGINES
from reticent.planning.convex import convex_plan
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.distribution import KINDS as QUESTION_KINDS
from reticent.queries.distribution import SEED_BYTES, WHOLE, Distribution, Questions
from reticent.queries.groups import Groups
from reticent.queries.linear import Count, Marginal, Residual, Weighted
from reticent.queries.predicate import Predicate, col
from reticent.queries.scalars import ScalarQueries
from reticent.queries.workload import Workload, marginals
from reticent.releases.adaptive import Adaptive
from reticent.releases.convex import ConvexPMW
from reticent.releases.convex_plan import Task
from reticent.releases.dualquery.dualquery import DualQuery
from reticent.releases.mwem import MWEM
from reticent.releases.release import release
from reticent.releases.textbook import TextbookPMW
from reticent.sessions.convex_epochs import ConvexEpochs
from reticent.sessions.session import Session

GAUSSIAN = Budget(epsilon=4.0, delta=1e-6, noise="gaussian")
RHO, PURE, AMPLE = Budget(rho=0.5), Budget(epsilon=2.0), Budget(rho=10**6)
"""Budgets. The last is for the papers' engines, whose constants guarantee nothing for a few records under a usual
budget.
"""
STEPS = 6
ERRORS = (0.02, 0.1, 0.3)
Run = Callable[[Table, Budget, random.Random], Iterator[object]]
Maker = Callable[[random.Random, "Public"], Any]


def declared(rng: random.Random, neighbours: Neighbours, unit: Unit) -> Neighbourhood:
    """A generated table and neighbours of it."""
    return neighbourhood(rng, random_domain(rng), neighbours, unit)


@dataclass(frozen=True)
class Program:
    """A run, the budgets under which it is made, and the tables it accepts."""

    run: Run
    budgets: tuple[Budget, ...] = (RHO, PURE)
    neighbours: tuple[Neighbours, ...] = ("replace-one", "add-remove")
    units: tuple[Unit, ...] = ("record", "person")
    weight: float = 1.0
    """Pairs per pair of a program of weight one."""
    tables: Callable[[random.Random, Neighbours, Unit], Neighbourhood] = declared


@dataclass(frozen=True)
class Public:
    """The public facts of a table."""

    domain: Domain
    neighbours: Neighbours
    records: int

    @classmethod
    def of(cls, table: Table) -> Public:
        return cls(table.domain, table.neighbours, table.records or 10)


def attempt(function: Callable[..., Any], *given: Any) -> Any:
    """What a user sees: an answer, or the text of a refusal."""
    try:
        return seen(function(*given))
    except ReticentError as refusal:
        return f"{type(refusal).__name__}: {refusal}"


def seen(answer: Any) -> Any:
    if isinstance(answer, list | tuple):
        return [seen(part) for part in answer]
    return answer.to_dict() if hasattr(answer, "to_dict") else answer


# ---- the kernel's own verbs, with every statistic and minimiser it defines


def some_predicate(rng: random.Random, domain: Domain) -> Predicate:
    first, last = rng.choice(domain.names), rng.choice(domain.names)
    one, other = _half(rng, domain, first), _half(rng, domain, last)
    return rng.choice([one, one & other, one | other, ~one])


def _half(rng: random.Random, domain: Domain, name: str) -> Predicate:
    """A condition: one value, several values, or all values from one on."""
    value = _value(rng, domain, name)
    if isinstance(domain[name], Numeric) or rng.random() < 0.5:
        return col(name) >= value
    return rng.choice([col(name) == value, col(name).isin([value, _value(rng, domain, name)])])


def _value(rng: random.Random, domain: Domain, name: str) -> Any:
    """A whole number, or an edge of a bin."""
    attribute = domain[name]
    return rng.choice(attribute.edges[:-1]) if isinstance(attribute, Numeric) else rng.randrange(attribute.size)


def some_query(rng: random.Random, domain: Domain) -> Any:
    if rng.random() < 0.5:
        return Count(some_predicate(rng, domain)).resolve(domain)
    names = rng.sample(domain.names, rng.randint(1, min(3, len(domain))))
    return Weighted({name: [rng.random() for _ in range(domain[name].size)] for name in names}).resolve(domain)


def some_sets(rng: random.Random, domain: Domain) -> tuple[tuple[str, ...], ...]:
    names = domain.names
    chosen = {domain.canonical(rng.sample(names, rng.randint(1, min(2, len(names))))) for _ in range(rng.randint(1, 3))}
    return tuple(sorted(chosen))


def some_guesses(rng: random.Random, domain: Domain, sets: Any, size: float) -> tuple[np.ndarray, ...]:
    """Guesses of the right size, or far off; a guess may be any public number."""
    size *= rng.choice([1.0, 0.0, 50.0])
    return tuple(
        np.array([rng.random() for _ in range(domain.cells(s))]).reshape(domain.shape_of(s)) * size for s in sets
    )


def _errors_of_answers(rng: random.Random, public: Public) -> AnswerErrors:
    queries = tuple(some_query(rng, public.domain) for _ in range(rng.randint(1, 3)))
    return AnswerErrors(queries, np.array([rng.uniform(0, public.records) for _ in queries]), public.domain)


def _weights(rng: random.Random, queries: int) -> dict[str, Any]:
    weights = np.array([rng.uniform(0.01, 1.0) for _ in range(queries)]) if rng.random() < 0.6 else None
    bonuses = np.array([rng.uniform(-3, 3) for _ in range(queries)]) if rng.random() < 0.5 else None
    return {"weights": weights, "bonuses": bonuses}


def _blocks(rng: random.Random, public: Public) -> BlockCounts:
    domain = public.domain
    names = domain.canonical(rng.choice(some_sets(rng, domain)))
    return BlockCounts(names, [rng.randint(1, size) for size in domain.shape_of(names)], domain)


def _partitions(rng: random.Random, public: Public) -> PartitionCounts:
    """A query and its rest, or the parts of several predicates."""
    domain = public.domain
    if rng.random() < 0.5:
        return PartitionCounts((some_query(rng, domain),), domain)
    return PartitionCounts([Count(some_predicate(rng, domain)) for _ in range(rng.randint(2, 3))], domain)


def _residuals(rng: random.Random, public: Public) -> list[Residual]:
    """Residuals of all subsets of a set of up to three attributes, or of some of them."""
    names = public.domain.canonical(rng.sample(public.domain.names, rng.randint(1, min(3, len(public.domain.names)))))
    inside = [subset for order in range(len(names) + 1) for subset in combinations(names, order)]
    return [Residual(subset) for subset in rng.sample(inside, rng.randint(1, len(inside)))]


def _cells(rng: random.Random, public: Public) -> CellScores:
    sets = some_sets(rng, public.domain)
    guesses = some_guesses(rng, public.domain, sets, public.records)
    return CellScores(sets, guesses, **_weights(rng, sum(guess.size for guess in guesses)))


def _conjunctions(rng: random.Random, public: Public) -> ConjunctionScores:
    listed = Conjunctions.of_cells(public.domain, list(some_sets(rng, public.domain)))
    offsets = np.array([rng.uniform(-public.records, public.records) for _ in range(len(listed))])
    return ConjunctionScores(listed, offsets, **_weights(rng, len(listed)))


def _listed(rng: random.Random, public: Public) -> ScalarQueries:
    """Cells and single queries together."""
    marginal = [Marginal(names) for names in some_sets(rng, public.domain)]
    single = [some_query(rng, public.domain) for _ in range(rng.randint(1, 3))]
    return ScalarQueries(Workload([*marginal, *single]), public.domain)


def _linear(rng: random.Random, public: Public) -> LinearScores:
    queries = _listed(rng, public)
    offsets = np.array([rng.uniform(-public.records, public.records) for _ in range(queries.size)])
    return LinearScores(queries, offsets, **_weights(rng, queries.size))


def _largest(rng: random.Random, public: Public) -> LargestError:
    queries = _listed(rng, public)
    return LargestError(queries, np.array([rng.uniform(0, public.records) for _ in range(queries.size)]))


def _quantile(rng: random.Random, public: Public) -> ErrorQuantile:
    """The quantile of a drawn list of questions, or of all questions."""
    domain = public.domain
    sets = tuple(dict.fromkeys(s for s in some_sets(rng, domain) if all(domain[name].size > 1 for name in s)))
    distribution = Distribution(rng.choice(QUESTION_KINDS), sets or (domain.names[:1],))
    if rng.random() < 0.5:
        questions, whole = Questions(domain, distribution, rng.randbytes(SEED_BYTES), 50), 50
    else:
        questions, whole = Questions(domain, distribution), WHOLE
    guesses = some_guesses(rng, domain, questions.sets, public.records)
    return ErrorQuantile(questions, guesses, max(1, int(whole * rng.uniform(0.3, 0.95))))


def _offsets(rng: random.Random, public: Public) -> BinOffsets:
    numeric = [name for name in public.domain.names if isinstance(public.domain[name], Numeric)]
    return BinOffsets(rng.choice(numeric or public.domain.names), public.domain)


def _sums(rng: random.Random, public: Public) -> ClippedSums:
    domain = public.domain
    numeric = [name for name in domain.names if isinstance(domain[name], Numeric)]
    names = rng.choice([(), *some_sets(rng, domain)])
    return ClippedSums(Groups(names, some_predicate(rng, domain), rng.choice(numeric or domain.names)), domain)


def _risks(kind: type) -> Maker:
    def make(rng: random.Random, public: Public) -> Any:
        losses = tuple(some_loss(rng, public.domain, *EVERY) for _ in range(1 if rng.random() < 0.6 else 2))
        problems = [loss.on(public.domain) for loss in losses]
        corners = [rng.choice([0.0, 1.0, -1.0]) * np.eye(p.dimension)[0] * p.radius for p in problems]
        scales = tuple(problem.scale * rng.choice([1.0, 3.0]) for problem in problems)
        hidden = rng.choice([0.0, 0.125])
        return kind(losses, tuple(corners), scales, public.domain, float(public.records), hidden=hidden)

    return make


def _minimizer(kind: type, *losses: type) -> Maker:
    def make(rng: random.Random, public: Public) -> Any:
        loss = some_loss(rng, public.domain, *losses)
        options = {"neighbours": public.neighbours, "records": public.records, "rho": rng.choice([0.01, 0.1])}
        return kind(loss, public.domain, **options)

    return make


MAKERS: Mapping[type, tuple[tuple[str, ...], Maker]] = {
    LinearCount: (("measure",), lambda rng, public: some_query(rng, public.domain)),
    MarginalCounts: (("measure",), lambda rng, public: Marginal(rng.choice(some_sets(rng, public.domain)))),
    GroupCounts: (
        ("measure",),
        lambda rng, public: Groups(rng.choice(some_sets(rng, public.domain)), some_predicate(rng, public.domain)),
    ),
    BlockCounts: (("measure",), _blocks),
    PartitionCounts: (("measure",), _partitions),
    ResidualCounts: (("measure",), _residuals),
    MaxError: (
        ("measure", "exceeds"),
        lambda rng, public: MaxError(
            rng.choice(KINDS),
            sets := some_sets(rng, public.domain),
            some_guesses(rng, public.domain, sets, public.records),
        ),
    ),
    AnswerErrors: (("measure", "exceeds"), _errors_of_answers),
    ErrorQuantile: (("measure",), _quantile),
    BinOffsets: (("measure",), _offsets),
    ClippedSums: (("measure",), _sums),
    CellScores: (("select",), _cells),
    ConjunctionScores: (("select",), _conjunctions),
    LinearScores: (("select",), _linear),
    LargestError: (("measure",), _largest),
    ExcessRisk: (("measure", "exceeds"), _risks(ExcessRisk)),
    ExcessRisks: (("select",), _risks(ExcessRisks)),
    NoisyGradientDescent: (("minimize",), _minimizer(NoisyGradientDescent, *EVERY)),
    LongDescent: (("minimize",), _minimizer(LongDescent, *EVERY)),
    OutputPerturbation: (("minimize",), _minimizer(OutputPerturbation, Ridge, MeanVector, *GENERALISED)),
    PhasedERM: (("minimize",), _minimizer(PhasedERM, *EVERY)),
    UnconstrainedGLM: (("minimize",), _minimizer(UnconstrainedGLM, *GENERALISED)),
    RidgeGLM: (("minimize",), _minimizer(RidgeGLM, *GENERALISED)),
    SufficientStatistics: (("minimize",), _minimizer(SufficientStatistics, Squared, Ridge)),
}
"""Everything that may be computed from rows: the verbs that accept it, and a maker of examples of many shapes."""


def verbs(table: Table, budget: Budget, rng: random.Random, kinds: Sequence[type] = tuple(MAKERS)) -> Iterator[object]:
    """The curator's verbs with everything they accept."""
    curator = Curator(table, Ledger.memory(identity=table.identity, budget=budget))
    public = Public.of(table)
    for kind in rng.choices(kinds, k=STEPS):
        allowed, make = MAKERS[kind]
        yield attempt(_carried_out, curator, rng.choice(allowed), make, public, rng)
    yield curator.worked, curator.remaining


def _carried_out(curator: Curator, verb: str, make: Maker, public: Public, rng: random.Random) -> Any:
    made = make(rng, public)
    key = rng.choice([None, f"key {rng.randrange(3)}"])
    if verb == "measure":
        scale = Fraction(rng.randint(20, 400), rng.randint(1, 5))
        others = [some_query(rng, public.domain) for _ in range(rng.randrange(2))]
        kind = Laplace if curator.budget.pure or rng.random() < 0.5 else Gaussian
        if isinstance(made, list):
            noises = [kind(scale * Fraction(rng.randint(2, 9), 4)) for _ in made]
            return list(curator.measure(made, noises, key=key).values)
        noise = kind(scale)
        return list(curator.measure([made, *others], noise, key=key).values)
    if verb == "select":
        selection = Exponential(Fraction(rng.randint(1, 30), 100))
        return list(curator.select(made, selection, draws=rng.randint(1, 3), key=key).values)
    if verb == "minimize":
        return list(curator.minimize(made, key=key).values)
    each = Fraction(rng.randint(1, 20), 100)
    test = AboveThreshold(threshold_epsilon=each, query_epsilon=2 * each, one_sided=rng.random() < 0.5)
    epoch = curator.watch(rng.uniform(0, public.records), test)
    told = []
    while epoch.open and len(told) < 3:
        told.append(curator.exceeds(made, epoch))
    return told


# ---- releases


def releasing(algorithm: Callable[[random.Random, Table], Any], order: int) -> Run:
    def run(table: Table, budget: Budget, rng: random.Random) -> Iterator[object]:
        domain = table.domain
        workload: Workload = marginals(domain, min(order, len(domain.names)))
        if rng.random() < 0.3:
            extra = Workload([some_query(rng, domain) for _ in range(2)])
            workload = workload + extra
        try:
            published = release(table, workload, budget, algorithm=algorithm(rng, table))
        except ReticentError as refusal:
            yield str(refusal)
            return
        yield published.facts
        for _ in range(2):
            yield attempt(published.ask, some_query(rng, domain))

    return run


def _dualquery(rng: random.Random, table: Table) -> DualQuery:
    plain = DualQuery(rounds=3, draws=2, replies=1)
    sampled = table.unit == "record" and table.neighbours == "replace-one" and rng.random() < 0.3
    return replace(plain, sample=max(1, (table.records or 1) // 2)) if sampled else plain


# ---- sessions


QUESTIONS: Mapping[str, Sequence[int]] = {"all": range(7), "papers": range(4), "sql": (3,), "models": (7, 8)}
"""Numbers of the questions in `_ask`, by program. Models have their own program, because they take longer than
everything else.
"""


def asking(engine: str, questions: str) -> Run:
    """An adaptive analyst: each question depends on earlier answers."""

    def run(table: Table, budget: Budget, rng: random.Random) -> Iterator[object]:
        options: dict[str, Any] = {"queries": 40} if engine != "default" else {"warm_start": rng.choice([0.0, 0.4])}
        try:
            session = Session.open(None, table, budget, engine=engine, confidence=0.9, **options)
        except ReticentError as refusal:
            yield str(refusal)
            return
        for number in range(STEPS):
            key = f"key {number}" if rng.random() < 0.5 else None
            answer = attempt(_ask, session, rng, engine, key, QUESTIONS[questions])
            yield answer
            if isinstance(answer, dict) and np.ravel(answer.get("value") or 0.0)[0] > 0.3:
                rng.random()  # another stream of questions from here on
        yield session.spent
        session.close()

    return run


def _ask(session: Session, rng: random.Random, engine: str, key: str | None, questions: Sequence[int]) -> Any:
    domain = session.domain
    error = rng.choice(ERRORS) if engine == "default" else None
    match rng.choice(questions):
        case 0 | 1:
            return session.ask(some_query(rng, domain), error=error, key=key)
        case 2:
            return session.ask(Marginal(rng.choice(some_sets(rng, domain))), error=error, key=key)
        case 3:
            return session.ask(some_sql(rng, domain), error=None if error is None else f"{error:.0%}", key=key)
        case 4:
            return session.ask_all([some_query(rng, domain) for _ in range(3)], error=0.3)
        case 5:
            return session.cost(Marginal(list(domain.names)[:1]), error=0.05)
        case 7:
            return session.minimize(some_loss(rng, domain, *EVERY), error=rng.choice([0.5, 2.0]), key=key)
        case 8:
            losses = [some_loss(rng, domain, *EVERY) for _ in range(2)]
            return session.minimize(losses, error=1.0)
        case _:
            certify = getattr(session, "certify", None) or session.audit
            return certify("cells", order=1, amount=session.remaining / 10)


def some_sql(rng: random.Random, domain: Domain) -> str:
    first, last = rng.choice(domain.names), rng.choice(domain.names)
    where = f"{first} >= {_value(rng, domain, first)}"
    return rng.choice(
        [
            f"SELECT COUNT(*) FROM t WHERE {where}",
            f"SELECT {last}, COUNT(*) FROM t WHERE {where} GROUP BY {last}",
            f"SELECT COUNT(*) FROM t WHERE {where} OR {last} >= {_value(rng, domain, last)}",
            f"SELECT AVG({last}) FROM t WHERE {where}",
            f"SELECT SUM({last}) FROM t",
            f"SELECT {first}, AVG({last}) FROM t GROUP BY {first}",
        ]
    )


def convex(table: Table, budget: Budget, rng: random.Random) -> Iterator[object]:
    """The papers' online mechanism for convex losses."""
    curator = Curator(table, Ledger.memory(identity=table.identity, budget=budget))
    domain, records = table.domain, float(table.records or 10)
    losses = [some_loss(rng, domain, *EVERY) for _ in range(3)]
    hypothesis = DenseHypothesis(domain)
    # Planned for a table large enough to certify something: here only what is charged and told counts.
    task = Task(tuple(losses), domain, table.neighbours, 1e9, 5, 0.1, hypothesis.log_size)
    try:
        planned = convex_plan(rng.choice(CONVEX_ENGINES), task, 1.0, task.scale / 3)
    except ReticentError as refusal:
        yield str(refusal)
        return
    doubt = 0.0 if table.records is not None else 0.05
    plan = replace(planned, records=records, records_error=doubt, measured=task.scale)
    online = ConvexEpochs(curator, plan, Snapshot(hypothesis))
    for loss in losses:
        yield attempt(online.ask, loss)


def _convex_pmw(rng: random.Random, table: Table) -> ConvexPMW:
    return ConvexPMW([some_loss(rng, table.domain, *EVERY) for _ in range(3)], rounds=2)


def discovering(table: Table, budget: Budget, rng: random.Random) -> Iterator[object]:
    """Edges by levels of private medians, each level between the cuts of the last one; texts above a threshold."""
    curator = Curator(table, Ledger.memory(identity=table.identity, budget=budget))
    values = 1 if table.unit == "record" else rng.choice([1, 2])
    names = [name for name in table.domain.names if budget.approximate or name == "size"]
    search = DiscoverySearch(curator, budget, len(names), rng.randint(1, 3), values)
    for name in rng.sample(names, len(names)):
        attribute = table.domain[name]
        assert isinstance(attribute, Undeclared)
        yield attempt(search.find, name, attribute)
    yield curator.remaining


THRESHOLDS = Budget(epsilon=2.0, delta=1e-3, approximate=5e-4)
"""A delta that a few records cannot hide: thresholds are low enough for rare texts to pass sometimes."""
COUNTED: tuple[Unit, ...] = ("record", "person", "row")

PROGRAMS: Mapping[str, Program] = {
    "kernel verbs": Program(verbs, budgets=(RHO, PURE, GAUSSIAN), units=COUNTED, weight=12),
    "discovery": Program(discovering, budgets=(THRESHOLDS, PURE), tables=undeclared),
    "release: Adaptive": Program(
        releasing(lambda rng, table: Adaptive(), 2), budgets=(RHO, PURE, GAUSSIAN), units=COUNTED
    ),
    "release: Adaptive, proposals": Program(
        releasing(lambda rng, table: Adaptive(dense_cells=1, support=64), 2), units=("record",), weight=0.2
    ),
    "release: MWEM": Program(releasing(lambda rng, table: MWEM(rounds=2), 2), weight=2),
    "release: textbook": Program(
        releasing(lambda rng, table: TextbookPMW(error=0.22), 1), budgets=(AMPLE,), neighbours=("replace-one",)
    ),
    "release: DualQuery": Program(releasing(_dualquery, 2), weight=2),
    "session: default": Program(asking("default", "all"), budgets=(RHO, PURE, GAUSSIAN), units=COUNTED, weight=2),
    "session: models": Program(asking("default", "models"), budgets=(RHO, PURE, GAUSSIAN), units=COUNTED, weight=0.3),
    "session: SQL": Program(asking("default", "sql"), weight=0.5),
    "session: tuned": Program(asking("tuned", "papers"), budgets=(AMPLE,), weight=1.5),
    "session: textbook": Program(asking("textbook", "papers"), budgets=(AMPLE,), weight=1.5),
    "convex losses": Program(convex, budgets=(AMPLE,), weight=0.4),
    "release: ConvexPMW": Program(releasing(_convex_pmw, 2), budgets=(AMPLE, RHO), weight=0.4),
}
