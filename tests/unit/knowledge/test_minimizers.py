"""Which private minimiser is chosen, and that it meets the wanted error."""

from __future__ import annotations

import pytest

import reticent as rt
from reticent.knowledge.minimizers import cheapest_within, choose_minimizer
from reticent.losses.base import ConvexLoss

DOMAIN = rt.Domain({"a": 4, "b": 3, "y": 2})
SQUARED = rt.Squared(features=["a", "b"], label="y", radius=1)
LOGISTIC = rt.Logistic(features=["a", "b"], label="y", radius=2)
MEAN = rt.MeanVector(features=["a", "b"])


@pytest.mark.parametrize(
    ("loss", "kind"),
    [(SQUARED, "SufficientStatistics"), (LOGISTIC, "NoisyGradientDescent"), (MEAN, "OutputPerturbation")],
    ids=["squared", "logistic", "mean"],
)
def test_the_choice_of_a_minimiser_explains_itself(loss: ConvexLoss, kind: str) -> None:
    choice = choose_minimizer(loss, DOMAIN, neighbours="replace-one", records=50_000, rho=0.01)
    assert type(choice.minimizer).__name__ == kind
    assert len(choice.bounds) >= 2
    assert kind in str(choice)
    assert choice.reason.split(":")[0] in str(choice)


def test_the_cheapest_minimiser_meets_the_wanted_error() -> None:
    facts = {"neighbours": "replace-one", "records": 50_000.0, "failure": 0.05, "error": 0.05}
    found = cheapest_within(LOGISTIC, DOMAIN, most=10.0, **facts)  # pyright: ignore[reportArgumentType]
    assert found is not None
    assert found.bound(0.05) <= 0.05
    cheaper = type(found)(LOGISTIC, DOMAIN, neighbours="replace-one", records=50_000, rho=found.rho / 2)
    assert cheaper.bound(0.05) > 0.05
    assert cheapest_within(LOGISTIC, DOMAIN, most=1e-6, **facts) is None  # pyright: ignore[reportArgumentType]
