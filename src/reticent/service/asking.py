"""A request to ask: one query or one SQL statement, from plain values to a checked question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reticent.queries.base import Query
from reticent.queries.parsing import query_from_dict
from reticent.service.complexity import Work, check, weigh, work_of
from reticent.service.orders import TERMS, Order, Parser, Terms
from reticent.service.problems import Problem
from reticent.session import Session
from reticent.sql import compile_sql

SQL_LENGTH = 20_000


@dataclass(frozen=True, eq=False)
class Request(Order):
    """A question; without an error bound its answer is always free."""

    question: Query | str
    fields = tuple(sorted({"sql", "query", *TERMS}))

    @property
    def text(self) -> str:
        return self.question if isinstance(self.question, str) else self.question.text

    def answer(self, session: Session) -> Any:
        return session.ask(self.question, error=self.terms.error, confidence=self.terms.confidence)

    def price(self, session: Session, analyst: str, key: str | None = None) -> float:
        assert self.terms.error is not None, "only a wanted error has a price"
        return session.cost(self.question, error=self.terms.error, confidence=self.terms.confidence, key=key)

    def buy(self, session: Session, key: str, analyst: str) -> Any:
        error, confidence = self.terms.error, self.terms.confidence
        return session.ask(self.question, error=error, confidence=confidence, key=key, analyst=analyst)


class Requests(Parser[Request]):
    """Questions about one table."""

    def parsed(self, content: dict[str, Any]) -> Request:
        if not set(content) <= set(Request.fields) or ("sql" in content) == ("query" in content):
            raise Problem("request", 'send {"sql": "..."} or {"query": {...}}, with error, confidence or max_price')
        terms = Terms.of(content)
        question, work = self._question(content)
        check(work, self.settings, paid=terms.error is not None)
        return Request(terms, work, content, question)

    def _question(self, content: dict[str, Any]) -> tuple[Query | str, Work]:
        if "query" in content:
            query = query_from_dict(content["query"])
            return query, work_of(query, self.domain)
        sql = content["sql"]
        if not isinstance(sql, str) or len(sql) > SQL_LENGTH:
            raise Problem("question", f"sql must be a text of at most {SQL_LENGTH} characters")
        return sql, weigh(compile_sql(sql, self.domain).queries, self.domain)
