"""Models trained on synthetic rows: gradient boosting tested on real rows that no release saw.

A release of all triples with the column to be predicted is made of seven tenths of the rows; a model
is trained on as many rows drawn from it, another on the rows themselves, both are tested on the other three tenths. XOR
is a label that no fewer than all three columns tell anything about: its four-way table is asked. The people of NIST are
released twice: with the label as the column to be predicted, as somebody prepares a table who wants to train a model,
and with the deciles from which it is computed, whose tables have more than five times as many cells. Both deltas of
NIST's score are run: the one of our other suites, and one that is common for training data and buys less noise.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import reticent as rt
from benchmarks import nist
from benchmarks.release import DATA, DELTA, TABLES
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.domain import Domain
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table
from reticent.queries.workload import Workload

EPSILON = 1.0
DELTAS = (DELTA, 1e-5)
RUNS = 5
TRAINED = 0.7
SEED = 20261117
MARK, XOR_MARK = 0.01, 0.95
LABEL, INCOME = "label", "PINCP_DECILE"


def adult() -> tuple[Domain, np.ndarray, str, tuple[int, ...]]:
    """Domain, codes of all records, the column to be predicted and its codes that count as positive."""
    import pandas as pd

    folder, rows, described = TABLES["adult_orig"]
    domain = Domain.read(DATA / folder / described)
    frame = pd.read_csv(DATA / folder / rows)
    return domain, frame[list(domain.names)].to_numpy(), "income>50K", (1,)


def deciles() -> tuple[Domain, np.ndarray, str, tuple[int, ...]]:
    """Who has an income above the median; children, who have none, count as below."""
    domain, truth = nist.domain_of(), nist.people()
    codes = np.column_stack([domain[name].encode(truth[name].to_numpy()) for name in domain.names])
    return domain, codes, INCOME, tuple(range(5, 10))


def people() -> tuple[Domain, np.ndarray, str, tuple[int, ...]]:
    """The same people, with a column that says who has such an income in place of the deciles."""
    domain, codes, _, positive = deciles()
    place = domain.index(INCOME)
    codes[:, place] = np.isin(codes[:, place], positive)
    columns = {name: domain[name] for name in domain.names} | {INCOME: rt.Categorical(["low", "high"], other=False)}
    rules = [rule.text for rule in domain.impossible if INCOME not in rule.attributes]
    return Domain(columns, impossible=[*rules, f"AGEP < 15 AND {INCOME} = 'high'"]), codes, INCOME, (1,)


def xor(rows: int = 20_000) -> tuple[Domain, np.ndarray, str, tuple[int, ...]]:
    generator = np.random.default_rng(SEED)
    bits = generator.integers(0, 2, (rows, 3))
    others = generator.integers(0, (3, 4), (rows, 2))
    codes = np.column_stack([bits, bits.sum(axis=1) % 2, others])
    return Domain({"a": 2, "b": 2, "c": 2, LABEL: 2, "d": 3, "e": 4}), codes, LABEL, (1,)


TASKS = {"adult": adult, "nist": people, "nist, deciles": deciles, "xor of three": xor}


def asked(task: str, domain: Domain, label: str) -> Workload:
    if task == "xor of three":
        pairs = [rt.marginal(*names) for names in itertools.combinations(domain.names, 2)]
        return Workload([*pairs, rt.marginal("a", "b", "c", LABEL)], domain=domain)
    others = [name for name in domain.names if name != label]
    return Workload([rt.marginal(*names, label) for names in itertools.combinations(others, 2)], domain=domain)


def scores(rows: np.ndarray, test: np.ndarray, place: int, positive: Sequence[int]) -> dict[str, float]:
    """Area under the curve and accuracy on the test rows of a model trained on the others."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    features = [i for i in range(rows.shape[1]) if i != place]
    wanted, truth = (np.isin(part[:, place], positive) for part in (rows, test))
    model = HistGradientBoostingClassifier(random_state=SEED).fit(rows[:, features], wanted)
    likely = model.predict_proba(test[:, features])[:, 1]
    return {"auc": float(roc_auc_score(truth, likely)), "accuracy": float(((likely > 0.5) == truth).mean())}


def one(
    task: str, delta: float, domain: Domain, codes: np.ndarray, label: str, positive: Sequence[int], run: int
) -> dict[str, float]:
    order = np.random.default_rng(SEED + run).permutation(len(codes))
    train, test = np.split(codes[order], [round(TRAINED * len(codes))])
    columns = dict(zip(domain.names, train.T, strict=True))
    records = Records.of_codes(domain, columns, np.ones(len(train), dtype=np.int64))
    table = Table(records, domain, neighbours="add-remove")
    cpu = time.process_time()
    budget = rt.Budget(epsilon=EPSILON, delta=delta)
    made = rt.release(table, asked(task, domain, label), budget, progress=False)
    cpu = time.process_time() - cpu
    drawn = made.synthesize(len(train), seed=SEED + run).to_pandas()
    rows = np.column_stack([domain[name].encode(drawn[name].to_numpy()) for name in domain.names])
    place = domain.index(label)
    real, ours = (scores(part, test, place, positive) for part in (train, rows))
    return {
        "auc, real rows": real["auc"],
        "auc, synthetic rows": ours["auc"],
        "auc lost": real["auc"] - ours["auc"],
        "accuracy, synthetic rows": ours["accuracy"],
        "processor seconds": cpu,
    }


def run(quick: bool) -> dict[str, Any]:
    """Medians over runs with fresh noise and other test rows."""
    if not DATA.is_dir():
        return {"skipped": "the public tables of ../shared/data are not on this machine"}
    cases = []
    for task, read in TASKS.items():
        domain, codes, label, positive = read()
        for delta in DELTAS:
            found = [one(task, delta, domain, codes, label, positive, i) for i in range(1 if quick else RUNS)]
            row = {"task": task, "delta": delta, "records": len(codes), "columns": len(domain)}
            row |= {key: statistics.median(f[key] for f in found) for key in found[0]}
            cases.append(row)
            print(row, flush=True)
    return {"epsilon": EPSILON, "runs": 1 if quick else RUNS, "cases": cases}


def present(found: dict[str, Any]) -> list[Shown]:
    cases = {(row["task"], row["delta"]): row for row in found["cases"]}
    learned = ("adult", "nist", "nist, deciles")
    lost = {
        f"delta {delta:g}": [(task, cases[task, delta]["auc lost"]) for task in learned]
        for delta in sorted({delta for _, delta in cases})
    }
    return [
        (
            "Gradient boosting (scikit-learn's HistGradientBoosting, its defaults) trained on as many synthetic rows as"
            f" the release saw, tested on three tenths of the table that it did not see; epsilon {found['epsilon']:g},"
            f" add-remove, {found['runs']} runs, medians. All triples with the predicted column are asked; of XOR all"
            " pairs and the four-way table."
        ),
        *(
            Claim(f"area under the curve lost, {task}, delta {delta:g}", row["auc lost"], at_most=MARK)
            for (task, delta), row in cases.items()
            if task in learned
        ),
        *(
            Claim(f"accuracy, xor of three, delta {delta:g}", row["accuracy, synthetic rows"], at_least=XOR_MARK)
            for (task, delta), row in cases.items()
            if task == "xor of three"
        ),
        Plot(
            "auc-lost",
            "Area under the curve lost by training on synthetic rows",
            "task",
            "area lost",
            series=lost,
            marks={"mark": MARK},
            expected="What noise on pairs and triples hides from a model, and nothing more.",
        ),
        Grid("Each task", {key: "s" if key.endswith("seconds") else "" for key in found["cases"][0]}, found["cases"]),
    ]
