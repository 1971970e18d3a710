"""The shapes of requests and responses, as the OpenAPI document shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from reticent.errors import given, is_mapping
from reticent.service.settings import (
    LONGEST_ERROR,
    LONGEST_TITLE,
    LONGEST_TOKEN_DAYS,
    MOST_LOSSES,
    MOST_TOKEN_TABLES,
    PERSON_NAME,
    PUBLISHED_ROWS,
    SQL_LENGTH,
    TABLE_NAME,
)


class Strict(BaseModel):
    """Requests with unknown members are refused: a misspelt option must not be ignored."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def refuse_unknown(cls, content: Any) -> Any:
        """Refuse unknown members with the known ones; Pydantic's own message names only the former."""
        for name in content if is_mapping(content) else ():
            if name not in cls.model_fields:
                raise PydanticCustomError(
                    "unknown_member",
                    "there is no member {name}; known: {known}",
                    {"name": given(name), "known": ", ".join(cls.model_fields)},
                )
        return content


class ProblemDocument(BaseModel):
    """RFC 9457; `type` is stable, further members depend on it."""

    model_config = ConfigDict(extra="allow")
    type: str
    title: str
    status: int
    detail: str


class Question(Strict):
    """Exactly one of `sql` and `query`; with `error` the answer may be paid for."""

    sql: str | None = Field(None, max_length=SQL_LENGTH, examples=["SELECT sex, COUNT(*) FROM census GROUP BY sex"])
    query: dict[str, Any] | None = Field(
        None, examples=[{"query": "count", "where": {"op": ">=", "column": "age", "value": 45}}]
    )
    error: Annotated[float, Field(gt=0)] | Annotated[str, Field(max_length=LONGEST_ERROR)] | None = Field(
        None,
        description="Wanted error, in the unit of the answer (records for COUNT in SQL), or a percentage; may cost.",
        examples=[80, "1%"],
    )
    confidence: float | None = Field(None, gt=0, lt=1, description="Probability that the error bound holds.")
    max_price: float | None = Field(None, ge=0, description="Refuse rather than pay more than this.")
    promise: Literal["certified", "typical"] = Field(
        "certified", description="What the error bounds: this very question, or 19 of 20 questions like it."
    )


class Fitting(Strict):
    """Exactly one of `loss` and `losses` (a declared batch), as `to_dict()` of the library's losses writes them."""

    loss: dict[str, Any] | None = Field(
        None, examples=[{"loss": "squared", "features": ["sex"], "label": "age", "radius": 2.0}]
    )
    losses: list[dict[str, Any]] | None = Field(None, min_length=1, max_length=MOST_LOSSES)
    error: float | None = Field(None, gt=0, description="Wanted excess risk, in the unit of the loss; may cost.")
    confidence: float | None = Field(None, gt=0, lt=1, description="Probability that the error bound holds.")
    max_price: float | None = Field(None, ge=0, description="Refuse rather than pay more than this.")


class Reply(BaseModel):
    """`result` is an answer (one number or the cells of a marginal), a table (SQL), or models with their price."""

    kind: Literal["answer", "table", "models"]
    result: dict[str, Any]
    guarantee: str
    meaning: str


class Cost(BaseModel):
    price: float
    unit: str
    free: bool
    affordable: bool
    remaining: float


class Health(BaseModel):
    status: Literal["ok"]
    version: str


class Me(BaseModel):
    name: str
    role: Literal["custodian", "analyst"]
    expires: int | None
    tables: list[str]


class TableSummary(BaseModel):
    name: str
    title: str
    attributes: int
    records: float
    unit: str


class TableList(BaseModel):
    tables: list[TableSummary]


class AttributeFacts(BaseModel):
    """`values` are what a filter may compare with: categories, or the lower edges of bins."""

    name: str
    type: str
    ordered: bool
    labels: list[str]
    declaration: dict[str, Any]


class TableFacts(TableSummary):
    attributes: int
    domain: list[AttributeFacts]
    neighbours: str
    confidence: float
    promise: str
    fingerprint: str
    impossible: list[str] = Field(description="Conditions that no record can satisfy, as the domain declares.")


class CertificateFacts(BaseModel):
    kind: str
    sets: list[list[str]]
    bound: float | None = Field(description="Null where it would be infinite; then the sentence says so.")
    confidence: float
    snapshot: str
    sentence: str


class CertificateList(BaseModel):
    certificates: list[CertificateFacts]


class Budgeted(BaseModel):
    unit: str
    limit: float
    spent: float
    remaining: float
    own_spent: float
    own_remaining: float
    own_cap: float | None
    guarantee: str


class HistoryEntry(BaseModel):
    sequence: int
    at: int
    analyst: str
    question: str
    price: float
    error: float | str | None


class HistoryPage(BaseModel):
    entries: list[HistoryEntry]
    next: int | None = Field(description="Pass as `before` to get the next page; null on the last one.")


class ReleaseFacts(BaseModel):
    id: str
    title: str
    rows: int
    by: str
    at: int
    privacy: str
    formats: list[str]


class ReleaseList(BaseModel):
    releases: list[ReleaseFacts]


class Publication(Strict):
    title: str = Field(min_length=1, max_length=LONGEST_TITLE)
    rows: int | None = Field(None, ge=1, le=PUBLISHED_ROWS)


class TokenFacts(BaseModel):
    id: str
    name: str
    role: Literal["custodian", "analyst"]
    created: int
    expires: int | None
    revoked: int | None
    tables: list[str] | None


class TokenList(BaseModel):
    tokens: list[TokenFacts]


class FreshToken(TokenFacts):
    token: str = Field(description="Shown this once; only its hash is kept.")


class NewToken(Strict):
    name: str = Field(pattern=f"^{PERSON_NAME}$")
    role: Literal["custodian", "analyst"] = "analyst"
    days: float | None = Field(
        None, gt=0, le=LONGEST_TOKEN_DAYS, description="Number of days until it expires; null: until revoked."
    )
    tables: list[Annotated[str, Field(pattern=f"^{TABLE_NAME}$")]] | None = Field(
        None,
        min_length=1,
        max_length=MOST_TOKEN_TABLES,
        description="The tables it is for; null: all tables of the creator's token.",
    )


class Rotation(Strict):
    days: float | None = Field(None, gt=0, le=LONGEST_TOKEN_DAYS)


class Cap(Strict):
    amount: float | None = Field(ge=0, description="The most this analyst may spend; null lifts the cap.")


class CapFacts(BaseModel):
    analyst: str
    cap: float | None
    spent: float


class CapList(BaseModel):
    caps: list[CapFacts]


class Charge(BaseModel):
    at: int
    analyst: str | None
    cost: float
    total: float


class Spending(BaseModel):
    unit: str
    limit: float
    charges: list[Charge]


class Verification(BaseModel):
    verified: bool
    events: int
    spent: float
    anchored: bool
    problem: str | None
