"""Free results for every kind of question, from knowledge alone: what the service's readers answer by."""

from __future__ import annotations

from reticent.knowledge.answer import Answer
from reticent.knowledge.free import Recall, free_answer
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.request import Request, excess_error
from reticent.losses.losses import ConvexLoss
from reticent.queries.base import Query
from reticent.releases.models import Model, free_model
from reticent.sql.asking import free_table
from reticent.sql.result import ResultTable
from reticent.sql.statement import Statement


def free_result(
    knowledge: Knowledge, request: Request, recall: Recall | None = None
) -> Answer | ResultTable | Model | list[Model] | None:
    """What is known about the question; None where that is not good enough and only a session can answer.

    `recall` finds the errors with which the parts of a question were bought before.
    """
    question = request.question
    if isinstance(question, Query):
        return free_answer(knowledge, request, recall)
    if isinstance(question, Statement):
        return free_table(knowledge, request, recall)
    if isinstance(question, ConvexLoss):
        return _free_model(knowledge, question, request)
    found = [_free_model(knowledge, loss, request) for loss in question if isinstance(loss, ConvexLoss)]
    assert len(found) == len(question), "batches of queries are asked one by one"
    return None if None in found else [model for model in found if model is not None]


def _free_model(knowledge: Knowledge, loss: ConvexLoss, request: Request) -> Model | None:
    model = free_model(knowledge, loss, request.confidence)
    if request.error is None:
        return model
    reached = model.certified and model.error is not None and model.error <= excess_error(request.error)
    return model if reached else None
