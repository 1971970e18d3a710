"""Cells that were clearly measured have records to be fitted with, whatever the tree had room for."""

from itertools import combinations

import numpy as np

import reticent as rt
from reticent.domain import Domain
from reticent.hypotheses import moving
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.missing import with_missing_cells
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table
from reticent.queries.linear import Marginal
from reticent.queries.workload import Workload
from reticent.releases import adaptive

CODES, COLUMNS, ROWS = 10, 5, 20_000
DOMAIN = Domain({f"c{i}": CODES for i in range(COLUMNS)})
MOST = 2 * ROWS
RELEASES = 2


def hub(columns: int = COLUMNS) -> np.ndarray:
    """Every column is a noisy permutation of a code that is none of them: all pairs are strong."""
    generator = np.random.default_rng(3)
    latent = generator.choice(CODES, ROWS, p=np.arange(1, CODES + 1) / 55)
    return np.column_stack(
        [
            np.where(
                generator.random(ROWS) < 0.9, generator.permutation(CODES)[latent], generator.integers(0, CODES, ROWS)
            )
            for _ in range(columns)
        ]
    )


def shares(codes: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    places = np.ravel_multi_index(tuple(codes[:, i] for i in columns), (CODES,) * len(columns))
    return np.bincount(places, minlength=CODES ** len(columns)).reshape((CODES,) * len(columns)) / len(codes)


def exactly(codes: np.ndarray, sd: float, noise: dict[str, str] | None = None) -> list[Measurement]:
    sets = [s for order in (1, 2) for s in combinations(range(COLUMNS), order)]
    return [Measurement(Marginal([f"c{i}" for i in s]), shares(codes, s), sd, noise) for s in sets]


def test_records_are_added_for_cells_that_lack_them_and_no_others():
    truth = hub()
    independent = np.column_stack([np.random.default_rng(i).permutation(truth[:, i]) for i in range(COLUMNS)])
    found = with_missing_cells(DOMAIN, independent, exactly(truth, 1e-4), MOST)
    assert np.array_equal(found[: len(independent)], independent)
    assert len(independent) < len(found) <= MOST
    assert np.array_equal(with_missing_cells(DOMAIN, truth, exactly(truth, 1e-4), MOST), truth)
    assert np.array_equal(with_missing_cells(DOMAIN, independent, exactly(truth, 1.0), MOST), independent)


def test_a_cell_without_any_record_gets_its_share():
    truth = hub()
    truth[:, 0] = np.where(truth[:, 1] == 9, 9, truth[:, 0] % 9)
    empty = truth.copy()
    empty[:, 0] = np.minimum(empty[:, 0], 8)
    measured = exactly(truth, 1e-5)
    before, after = shares(empty, (0, 1)), shares(with_missing_cells(DOMAIN, empty, measured, MOST), (0, 1))
    assert before[9, 9] == 0
    assert after[9, 9] > shares(truth, (0, 1))[9, 9] / 2


def test_noise_of_laplace_is_further_off():
    truth = hub()
    empty = truth.copy()
    empty[:, 0] = np.minimum(empty[:, 0], 8)
    sd = float(shares(truth, (0, 1))[9].max()) / 6.2
    assert len(with_missing_cells(DOMAIN, empty, exactly(truth, sd), MOST)) > len(empty)
    laplace = with_missing_cells(DOMAIN, empty, exactly(truth, sd, {"mechanism": "Laplace"}), MOST)
    assert len(laplace) == len(empty)


def mean_variation(codes: np.ndarray) -> float:
    source = Records.of_codes(DOMAIN, dict(zip(DOMAIN.names, codes.T, strict=True)), np.ones(ROWS, dtype=np.int64))
    table = Table(source, DOMAIN, neighbours="add-remove")
    pairs = list(combinations(range(COLUMNS), 2))
    asked = Workload([rt.marginal(f"c{i}", f"c{j}") for i, j in pairs], domain=DOMAIN)
    small = rt.Adaptive(dense_cells=1, model_cells=270, support=4096, audit_share=0)
    made = rt.release(table, asked, rt.Budget(rho=0.02), algorithm=small, progress=False)
    assert made.notes["tree"] < len(pairs) / 2
    found = [np.abs(made.hypothesis.marginal((f"c{i}", f"c{j}")) - shares(codes, (i, j))).sum() / 2 for i, j in pairs]
    return float(np.mean(found))


def test_a_release_whose_tree_holds_few_pairs_reaches_the_others(monkeypatch):
    """Means of six releases were .038 with these records and .072 without, with a standard deviation of .01 each.

    Records are not moved here: that reaches the others too.
    """
    codes = hub()
    monkeypatch.setattr(moving, "MOVES", 0)
    found = [mean_variation(codes) for _ in range(RELEASES)]
    monkeypatch.setattr(adaptive, "with_missing_cells", lambda domain, codes, measurements, most: codes)
    assert sum(found) < sum(mean_variation(codes) for _ in range(RELEASES))
