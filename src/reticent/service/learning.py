"""Fitting models over HTTP: losses in plain values become the library's own, free or paid like any other order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reticent import fitting
from reticent.algorithms.risks import SAMPLED_ROWS
from reticent.models import Model
from reticent.queries.convex import ConvexLoss, loss_from_dict
from reticent.queries.risk import moment_sets
from reticent.service.complexity import Work, check
from reticent.service.orders import TERMS, Order, Parser, Terms
from reticent.service.problems import Problem
from reticent.session import Session

MOST_LOSSES = 1000


@dataclass(frozen=True)
class Fitted:
    """One model per loss, and what they were charged together."""

    models: tuple[Model, ...]
    price: float

    @property
    def origin(self) -> str:
        return " + ".join(sorted({model.origin for model in self.models}))

    @property
    def guarantee(self) -> str:
        """The largest excess risk of all, or how many have none certified."""
        count, loose = len(self.models), sum(not model.certified for model in self.models)
        if loose:
            return "uncertified" if loose == count else f"{loose} of {count} uncertified"
        worst = max(model.error or 0.0 for model in self.models)
        confidence = min(model.confidence or 0.0 for model in self.models)
        return f"excess risk at most {worst:.3g} at {confidence:.4g}"

    def to_dict(self) -> dict[str, Any]:
        return {"models": [model.to_dict() for model in self.models], "price": self.price}


@dataclass(frozen=True, eq=False)
class Fit(Order):
    """A loss, or a declared batch of them that one audit may certify together."""

    losses: tuple[ConvexLoss, ...]
    fields = tuple(sorted({"loss", "losses", *TERMS}))

    @property
    def text(self) -> str:
        first = f"minimise {self.losses[0]!r}"
        return first if len(self.losses) == 1 else f"{first} and {len(self.losses) - 1} more"

    def answer(self, session: Session) -> Fitted:
        found = session.minimize(list(self.losses), error=self.terms.error, confidence=self.terms.confidence)
        return Fitted(tuple(found), 0.0)

    def price(self, session: Session, analyst: str, key: str | None = None) -> float:
        return session.budget.amount(fitting.cost(session, self.losses, self._wish(session, key, analyst)))

    def buy(self, session: Session, key: str, analyst: str) -> Fitted:
        """What an audit does not certify and the budget cannot buy comes back uncertified: the audit was paid for."""
        models = fitting.minimize_all(session, self.losses, self._wish(session, key, analyst))
        return Fitted(tuple(models), session.budget.amount(self.charged(session, key)))

    def charged(self, session: Session, key: str) -> int:
        return fitting.charged(session, key)

    def _wish(self, session: Session, key: str | None, analyst: str) -> fitting.Wish:
        assert self.terms.error is not None, "only a wanted error has a price"
        confidence = session.confidence if self.terms.confidence is None else self.terms.confidence
        return fitting.Wish(self.terms.error, confidence, key, analyst, batch=len(self.losses) > 1)


class Fits(Parser[Fit]):
    """Losses about one table."""

    def parsed(self, content: dict[str, Any]) -> Fit:
        if not set(content) <= set(Fit.fields) or ("loss" in content) == ("losses" in content):
            raise Problem(
                "request", 'send {"loss": {...}} as its to_dict() writes it, or a list of them in "losses", with error'
            )
        described = content["losses"] if "losses" in content else [content["loss"]]
        if not isinstance(described, list) or not 1 <= len(described) <= MOST_LOSSES:
            raise Problem("request", f'"losses" must be a list of 1 to {MOST_LOSSES} losses')
        losses = tuple(loss_from_dict(entry) for entry in described)
        terms, work = Terms.of(content), Work(0, 0, 0)
        for loss in losses:
            work = work + self._work(loss)
        check(work, self.settings, paid=terms.error is not None)
        return Fit(terms, work, content, losses)

    def _work(self, loss: ConvexLoss) -> Work:
        """A squared loss reads its moments, others all their cells at once, or as many sampled records."""
        problem = loss.on(self.domain)
        if loss.quadratic:
            cells = sum(map(self.domain.cells, moment_sets(problem)))
        else:
            cells = min(self.domain.cells(problem.attributes), SAMPLED_ROWS)
        return Work(cells, problem.dimension, 1)
