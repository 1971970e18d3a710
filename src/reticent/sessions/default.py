"""The default engine: answers from knowledge, and measures only if the known error is too large (spec online.md 2)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from math import comb, expm1
from typing import Any, ClassVar

from reticent.errors import BudgetError, KeyReusedError, QueryError
from reticent.kernel.counting.marginals import HELD_CELLS
from reticent.kernel.curator import Curator, Noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import (
    answered,
    counts_instead,
    error_floor,
    free_single,
    known_for,
    refuse_unknown_size,
    share_of,
    uncertified,
)
from reticent.knowledge.knowledge import Knowledge, Reading, Single
from reticent.knowledge.learning import learn, refitted
from reticent.knowledge.measured import chosen_failure, possible
from reticent.knowledge.request import Request
from reticent.knowledge.tails import noise_failure, noise_within, reach
from reticent.queries.base import Linear, Query
from reticent.queries.forms import is_cell
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Mean, Ratio
from reticent.sessions.engine import Free, Measure, Purchase, Quote, SessionEngine
from reticent.sessions.investments import Investments, question_name
from reticent.sessions.journal import ASK
from reticent.sessions.numbers import quote_mean, quote_sums, sells_sums
from reticent.sessions.state import Payment, State

ROUNDED = 1 - 1e-9
"""A relative tolerance, so that a repeated question finds its own answer accurate enough."""

ORDER = 3
"""The largest number of attributes of expected questions, as for the classes that a session certifies."""
HARDLY_BETTER = 1.1
"""A marginal is not measured again if its known noise is at most this multiple of the new measurement's. The noise is
chosen so that a cell of average size is below the limit unless its noise exceeds one standard deviation, which holds
for `MOSTLY` of the cells. With r times that noise the allowed deviation is (1 + k) / r - k, where k is the bound in
standard deviations. Up to r = 1.1 that is above 0 for every k below 10: more than half of the cells are already known,
and a second purchase would add the smaller half. The value matters little: with 1, 1.1, 1.5 and 3, one stream of 1,500
questions spent the same budget to within a hundredth."""
MOSTLY = 0.84
"""The share of cells of average size or less whose measured value is below a limit one standard deviation above
them."""


class DefaultEngine(SessionEngine):
    """Every question has its own error; measurements are kept and answer all questions that they determine."""

    name: ClassVar[str] = "default"
    audits_batches: ClassVar[bool] = True
    reads_knowledge: ClassVar[bool] = True

    def __init__(
        self, state: State, confidence: float, investments: Investments | None = None, losses: int | None = None
    ) -> None:
        super().__init__(state, confidence)
        self.investments = investments
        """None for ledgers of earlier versions, which buy every cell with its marginal."""
        self.losses = losses
        """How many were announced, if any were."""

    def given(self, quote: Free) -> None:
        # Without a wanted error nothing would have been bought, so nothing was saved.
        if quote.request.error is not None and self.investments is not None and isinstance(quote.result, Answer):
            self.investments.free(quote.request, quote.result, known_for(quote.known, quote.request))

    def may_audit(self, key: str, cost: int) -> bool:
        """Whether an unrequested audit may be bought: under the rule of investments, or by its price alone."""
        rule = self.investments
        return rule is None or not rule.audits or self.state.charged(key) or rule.allows(key, cost)

    def audits(self, key: str, cost: int) -> None:
        if self.investments is not None and self.investments.audits:
            self.investments.invest(key, cost)

    def written(self) -> None:
        if self.investments is not None:
            self.investments.write()
        self.state.index_purchases(closing=True)

    def facts(self) -> Mapping[str, Any]:
        if (rule := self.investments) is None:
            return {}
        told = {"allowance": rule.allowance, "saved": rule.saved, "invested": rule.invested, "left": rule.left}
        return {"investments": {name: self.state.budget.amount(units) for name, units in told.items()}}

    def quote_losses(self, request: Request) -> Quote:
        from reticent.sessions.models import quote_models

        return quote_models(self.state, request, self.investments, self.losses)

    def quote_part(self, request: Request) -> Quote:
        """The quote of a part; a mean may use the rows' own numbers if binning causes most of the requested error."""
        if request.numbers:
            return quote_sums(self, request)
        found = quote_mean(self, request) if isinstance(request.question, (Mean, Ratio)) else None
        return super().quote_part(request) if found is None else found

    def sells(self, query: Query) -> bool:
        return sells_sums(self, query)

    def reading(self, request: Request, query: Single, wanted: float | None) -> Reading | None:
        return known_for(self.state.knowledge, request).free(query, request.confidence, wanted)

    def quote_single(self, request: Request, query: Single) -> Free | Measure:
        error, known = request.error, self.state.knowledge
        assert error is None or isinstance(error, float), "resolved before"
        if error is not None and request.key is not None and self.state.charged(ASK + request.key):
            return Measure(request, known, 0, self._bought(request, query, error))
        view = known_for(known, request)
        found = free_single(view, query, error, request.confidence, strict=request.strict, promise=request.promise)
        if found is not None:
            return Free(request, known, found)
        if error is None:
            raise uncertified(query)
        bought = self._affordable(request, query, share_of(query, error, known.domain))
        return Measure(request, known, 0 if self.state.charged(self._key(bought, request)) else bought.cost, (bought,))

    def buy(self, quote: Measure) -> Answer:
        """Buy the answer, or read again what its key bought: the same key returns the same bytes."""
        request, known = quote.request, quote.known
        query = request.question
        assert isinstance(query, Single), "single questions are bought"
        quote = self._within_rule(quote, query)
        try:
            settled, measured = self._paid(quote)
        except BudgetError:
            if request.strict:
                raise
            found = free_single(known_for(known, request), query, None, request.confidence, strict=False)
            assert found is not None, "without a wanted error there is an answer"
            return found
        # From this purchase alone, so that a repeated key returns the same bytes, independent of other knowledge.
        bare = Knowledge(known.current, known.records, known.records_error, unit=known.unit, shares=known.shares)
        alone = known_for(learn(bare, measured, fitted=True), request)
        # Not `best`, which ignores bounds above one half: a request with such an error has paid for it.
        found = min(alone.readings(query, request.confidence), key=lambda reading: reading.error)
        return answered(alone, query, found._replace(origin="measured"), request.confidence, settled.cost)

    def refit(self) -> bool:
        with self.state.lock:
            if not self.state.knowledge.unfitted:
                return False
            self.state.learn(refitted(self.state.knowledge))
            self.state.journal.save_snapshot(self.state.knowledge)
            return True

    def _paid(self, quote: Measure) -> Payment:
        """The last purchase of the quote, which the answer reports."""
        *former, last = quote.bought
        for bought in former:
            with suppress(QueryError, KeyReusedError):
                return self._pay(bought, quote.request)
        return self._pay(last, quote.request)

    def _pay(self, bought: Purchase, request: Request) -> Payment:
        key = self._key(bought, request)
        if self.investments is not None and bought.invested:
            self.investments.invest(key, bought.invested, question_name(request.question))  # pyright: ignore[reportArgumentType]
        return self.state.pay(bought.queries, bought.noises, key=key, analyst=request.analyst)

    def _key(self, bought: Purchase, request: Request) -> str:
        return self.state.question_key(bought.queries, bought.noises, key=request.key, analyst=request.analyst)

    def _affordable(self, request: Request, query: Single, share: float) -> Purchase:
        """A cell with further cells that later questions may ask for, if the rule of investments allows it; otherwise
        the cell alone.

        A purchase that was charged before is completed as it was begun. Otherwise the best affordable purchase that is
        expected to pay for itself is chosen.
        """
        whole = self._purchase(request, query, share)
        if self.investments is None or whole.query is query:
            return whole
        alone = self._alone(request, query, share)
        ways = self._ways(request, alone, whole, share)
        for one in (alone, whole, *ways):
            if self.state.charged(self._key(one, request)):
                return one
        for way in ways:
            affordable = way.cost <= max(alone.cost, self.state.curator.remaining)
            if affordable and self.investments.allows(self._key(way, request), way.invested):
                return way
        return alone

    def _ways(self, request: Request, alone: Purchase, whole: Purchase, share: float) -> list[Purchase]:
        """Purchases of a cell that include an investment, ordered by expected saving per price.

        The expectation assumes as many different cells as the budget would buy, evenly on all sets of up to `ORDER`
        attributes. Purchases that are not expected to save their price are left out.
        """
        domain, names = self.state.domain, whole.query.attributes
        order = min(len(domain), max(ORDER, len(names)))
        asked = self.state.budget.limit / max(1, alone.cost) / _supersets(len(domain), 0, order)
        invested = max(0, whole.cost - alone.cost)
        found = [(_expected(asked, domain.cells(names)), replace(whole, invested=invested))]
        for way in self._beside(request, alone, share):
            assert way.beside is not None, "a marginal of fewer attributes"
            served = _supersets(len(domain), len(way.beside[0].attributes), order)
            found.append((MOSTLY * asked * served, way))
        rated = [(saved * alone.cost / max(1, way.invested), way) for saved, way in found]
        return [way for rate, way in sorted(rated, key=lambda pair: -pair[0]) if rate >= 1]

    def _beside(self, request: Request, alone: Purchase, share: float) -> Iterator[Purchase]:
        """A cell together with a marginal of some of its attributes.

        A cell is at most the cell of fewer attributes that contains it. If that one is known to be below twice the
        error, it answers every part of itself: half of its bound, plus or minus half. The noise is chosen so that this
        succeeds for a cell of average size even if the noise is one standard deviation above zero.
        """
        state, known = self.state, known_for(self.state.knowledge, request)
        failure = chosen_failure(request.confidence, known.records_error, known.shares, 1 + len(known.marginals))
        if not known.shares.joint or not failure > 0 or not isinstance(alone.query, Linear):
            return
        names, pure = known.form(alone.query).attributes, state.budget.pure
        one: Noise = Laplace(1) if pure else Gaussian(1)
        for part in itertools.chain.from_iterable(itertools.combinations(names, k) for k in range(1, len(names))):
            cells = known.domain.cells(part)
            room = (2 * share - 1 / cells - error_floor(known, binary=True)) * known.records
            if room <= 0 or cells > HELD_CELLS:
                continue
            spread = reach(one, failure / (2 * cells)) / one.sd
            noise = noise_within(room * spread / (1 + spread), failure / cells, pure=pure)
            if known.finest_sd(part) > noise.sd * HARDLY_BETTER:
                bought = replace(alone, beside=(Marginal(part), noise))
                cost = state.budget.cost(state.curator.price(bought.queries, bought.noises))
                yield replace(bought, cost=cost, invested=cost - alone.cost)

    def _within_rule(self, quote: Measure, query: Single) -> Measure:
        """The quote, or a quote for the cell alone if other investments were made since."""
        rule, (*_, last) = self.investments, quote.bought
        if rule is None or not last.invested or rule.allows(self._key(last, quote.request), last.invested):
            return quote
        renewed = self.quote_single(quote.request, query)
        return renewed if isinstance(renewed, Measure) else quote

    def _alone(self, request: Request, query: Single, share: float) -> Purchase:
        known = known_for(self.state.knowledge, request)
        return purchase(self.state.curator, known, query, share, request.confidence, whole=False)

    def _bought(self, request: Request, query: Single, error: float) -> tuple[Purchase, ...]:
        """Purchases that this key may have made; ledgers of earlier versions bought means without binning error."""
        unbinned = error / abs(query.units(self.state.domain)[1]) if isinstance(query, Linear) else error
        found = []
        if query.binning(self.state.domain)[0] > 0:
            with suppress(QueryError):
                found.append(self._purchase(request, query, share_of(query, error, self.state.domain)))
        whole = self._purchase(request, query, unbinned)
        if whole.query is not query:
            alone = self._alone(request, query, unbinned)
            found += [alone, *self._begun_beside(request, alone)]
        return (*found, whole)

    def _begun_beside(self, request: Request, alone: Purchase) -> Iterator[Purchase]:
        """The marginal that a key was charged for together with its question."""
        reservation = self.state.ledger.reservation(ASK + str(request.key))
        begun = None if reservation is None else self.state.journal.purchase(reservation)
        if (
            begun is not None
            and len(begun.queries) == len(begun.noises) == 2
            and isinstance(begun.queries[1], Marginal)
        ):
            yield replace(alone, beside=(begun.queries[1], begun.noises[1]))

    def _purchase(self, request: Request, query: Single, share: float) -> Purchase:
        return purchase(self.state.curator, known_for(self.state.knowledge, request), query, share, request.confidence)


def _supersets(attributes: int, held: int, order: int) -> int:
    """The number of non-empty sets of up to `order` attributes that contain a given number of attributes."""
    return sum(comb(attributes - held, size - held) for size in range(max(1, held), order + 1))


def _expected(asked: float, cells: int) -> float:
    """The expected number of further cells of a marginal among a given number of questions about it."""
    return (cells - 1) * -expm1(-asked / cells)


def purchase(
    curator: Curator, knowledge: Knowledge, query: Single, error: float, confidence: float, *, whole: bool = True
) -> Purchase:
    """The purchase with the widest noise that meets `error`; a `whole` marginal is bought for one of its cells."""
    domain, failure = knowledge.domain, noise_failure(confidence, knowledge.records_error) * knowledge.shares.own
    if not failure > 0:
        raise QueryError(f"confidence {confidence:.9g} is beyond what the noisy number of records allows; ask for less")
    form = query.form(domain) if isinstance(query, Groups) else None
    if isinstance(query, Linear):
        form = knowledge.form(query)
        # A cell is bought with all cells of its marginal, if the kernel can count so many.
        held = whole and is_cell(form) and domain.cells(form.attributes) <= HELD_CELLS
        query = Marginal(form.attributes) if held else query
    room = _room(knowledge, error, binary=form is None or form.binary)
    if isinstance(query, Linear):
        parts = 1
    elif isinstance(query, Groups):
        parts = max(1, int(possible(query, domain).sum()))
    else:
        parts = domain.cells(query.canonical(domain))
    noise = noise_within(room, failure / parts, pure=curator.budget.pure)
    return Purchase(query, noise, curator.budget.cost(curator.price([query], noise)))


def _room(knowledge: Knowledge, error: float, *, binary: bool) -> float:
    """The error left for noise, in records, after the number of records and rounding have taken their parts."""
    least = error_floor(knowledge, binary=binary)
    if not error > least:
        refuse_unknown_size(knowledge, least)
        raise QueryError(
            f"an error of {error:.3g} of the table is not above {least:.3g}, what counting {knowledge.records:.0f} "
            f"records leaves whatever is paid; ask for a larger one{counts_instead(knowledge)}"
        )
    return (error - least) * knowledge.records * ROUNDED
