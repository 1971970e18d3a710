"""`fit` and `plan --losses`: models of a file of losses, from a release and from a table with a budget."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.cli.cli_people import Called

from reticent.domain.values import shown_bound
from reticent.releases.models import Model

Call = Callable[..., Called]
TABLE = ("people.csv", "losses.toml", "--domain", "people.toml", "--ledger", "people.ledger", "--rho", "0.5")
LOSSES = """
[[losses]]
loss = "logistic"
features = ["age", "sex"]
label = "smoker"
radius = 1

[[losses]]
loss = "quantile"
features = ["sex"]
label = "age"
level = 0.9
radius = 1
"""


@pytest.fixture(autouse=True)
def losses(people: Path) -> None:
    (people / "losses.toml").write_text(LOSSES)


def spent(call: Call) -> float:
    return call("ledger", "show", "people.ledger", "--json").json["spent"] / 1e9


def test_a_table_is_fitted_within_an_error_at_the_price_named(people: Path, call: Call) -> None:
    words = ("fit", *TABLE, "--error", "0.2")
    price = call(*words, "--cost", "--json").json["price"]
    before = spent(call)
    shown = call(*words, "--out", "models.json")
    assert shown.code == 0
    assert "smoker = yes" in shown.out
    models = [Model.from_dict(fields) for fields in json.loads((people / "models.json").read_text())]
    assert [model.certified for model in models] == [True, True]
    records = len((people / "people.csv").read_text().splitlines()) - 1
    about_population = [model.population_excess(0.9, records=records).error for model in models]
    said = [f"on the population excess risk at most {shown_bound(error)} at 0.9" for error in about_population if error]
    assert said
    assert all(sentence in shown.out for sentence in said)
    # Where the start happens to certify both models, they are free and were announced as free.
    assert sum(model.price for model in models) == pytest.approx(spent(call) - before, abs=1e-12)
    assert spent(call) - before <= price + 1e-12
    assert (price > 0) == (spent(call) > before)
    assert call(*words, "--json").json[0]["price"] == 0


def test_a_release_fits_for_free(people: Path, call: Call) -> None:
    made = call("release", "people.csv", "--domain", "people.toml", "--rho", "0.5", "--save", "p.release", "--json")
    assert made.code == 0
    found = call("fit", "p.release", "losses.toml", "--json").json
    assert [model["price"] for model in found] == [0, 0]
    assert call("fit", "p.release", "losses.toml", "--error", "0.1").code == 2


def test_a_release_for_declared_losses_certifies_their_models(people: Path, call: Call) -> None:
    words = ("release", "people.csv", "--domain", "people.toml", "--rho", "0.5", "--algorithm", "convex")
    shown = call(*words, "--losses", "losses.toml", "--rounds", "2", "--save", "p.release", "--report", "r.html")
    assert shown.code == 0
    said = "For the models of 2 declared losses, the mean loss over all records exceeds that of the best parameters by"
    assert said in " ".join(shown.out.split())
    assert said in (people / "r.html").read_text()
    found = [Model.from_dict(fields) for fields in call("fit", "p.release", "losses.toml", "--json").json]
    assert all(model.certified for model in found)
    assert call(*words).code == 2
    assert call("release", "people.csv", "--domain", "people.toml", "--rho", "0.5", "--start", "0.1").code == 2


def test_a_convex_engine_plans_for_the_file_or_says_what_it_would_certify(call: Call) -> None:
    refused = call("fit", *TABLE, "--engine", "convex-tuned", "--queries", "5")
    assert refused.code == 2
    assert "certifies an excess risk of" in refused.err
    assert len(refused.err.strip().splitlines()) <= 2
    assert call("fit", *TABLE, "--queries", "5").code == 2


def test_a_plan_for_losses(call: Call) -> None:
    words = ("plan", "--losses", "losses.toml", "--domain", "people.toml", "--rho", "0.5", "--queries", "10")
    assert "convex-tuned" in call(*words, "--error", "0.05").out
    assert call("plan", "--domain", "people.toml", "--rho", "0.5").code == 2


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("l.toml", "losses = []", "holds no losses"),
        ("l.toml", "[[losses]]\nloss = 'cubic'", "unknown loss"),
        ("l.json", "{", "l.json"),
        ("l.json", '{"loss": "logistic", "features": ["age"], "label": "smoker", "width": 3}', "does not take"),
        ("l.csv", "", "ends in .toml or .json"),
    ],
)
def test_a_bad_file_of_losses_is_refused_in_one_line(
    name: str, text: str, words: str, people: Path, call: Call
) -> None:
    (people / name).write_text(text)
    found = call("fit", "people.csv", name, "--domain", "people.toml", "--ledger", "people.ledger", "--rho", "0.5")
    assert found.code == 2
    assert words in found.err
    assert len(found.err.strip().splitlines()) == 1
    assert not (people / "people.ledger").exists()
