"""Controls of SIM: positions alone, and the summaries that stand on pages and in figures."""

from itertools import combinations

import numpy as np
import pytest
import torch

from conoscope.figures.positions import sinusoids
from conoscope.studies.controls import mean_sim_of_positions, sims_of_positions
from conoscope.studies.summaries import HEAD, cones, controls


def naive(count: int, width: int) -> float:
    """The mean cosine of all pairs of positions."""
    table = sinusoids(count, width)
    cosines = [a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for a, b in combinations(table, 2)]
    return float(np.mean(cosines))


@pytest.mark.parametrize("width", [8, 300, 7])
def test_sim_of_positions_alone_equals_a_double_loop_at_every_length(width: int) -> None:
    found = sims_of_positions(20, width)
    assert len(found) == 21
    assert torch.isnan(found[:2]).all()
    assert [float(found[count]) for count in (2, 3, 11, 20)] == pytest.approx([naive(count, width) for count in (2, 3, 11, 20)])


def test_positions_of_several_texts_are_a_mean_over_texts_and_texts_of_one_token_have_none() -> None:
    assert mean_sim_of_positions([5, 1, 9, 9], 100) == pytest.approx((naive(5, 100) + 2 * naive(9, 100)) / 3)
    assert np.isnan(mean_sim_of_positions([1], 100))


def mean(quantity: str, value: float, **keys: object) -> dict[str, object]:
    return {"corpus": "c", "condition": "wide", "layers": 2, "quantity": quantity, "mean": value, "sd": 0.1, "n": 2,
            "values": {"0": value, "1": value + 0.1}, **keys}  # fmt: skip


MEANS = [
    mean("accuracy", 0.6), mean("sim.value", 0.5, layer=1), mean("sim.value", 0.7, layer=2),
    mean("sim.value.untrained", 0.4, layer=1), mean("sim.value.untrained", 0.45, layer=2), mean("sim.positions", 0.75),
    mean("trace.sim.value", 0.1, layer=2, epoch=0),
]  # fmt: skip
KEYS = {"corpus": "c", "condition": "wide", "layers": 2}
RUNS = [{"keys": KEYS, "seed": seed, "accuracy": 0.6 + seed / 10, "majority": 0.4} for seed in (0, 1)]


def test_each_sim_stands_beside_its_accuracy_that_before_training_and_that_of_positions() -> None:
    (row,) = controls({"means": MEANS})
    assert row == ("c, wide, layers 2", "0.60", "values", "0.50 0.70", "0.40 0.45", "0.75")
    assert len(row) == len(HEAD)


def test_a_record_without_controls_has_no_such_rows() -> None:
    assert controls({"means": MEANS[:3]}) == []


def test_a_run_is_a_row_with_its_last_layer_and_the_accuracy_that_it_must_reach() -> None:
    frame = cones({"means": MEANS, "runs": RUNS, "gate": 0.05})
    assert frame.to_dict("records") == [
        {"condition": "wide", "layers": 2, "seed": 0, "accuracy": 0.6, "value": 0.7, "gate": pytest.approx(0.45)},
        {"condition": "wide", "layers": 2, "seed": 1, "accuracy": 0.7, "value": pytest.approx(0.8), "gate": pytest.approx(0.45)},
    ]


def test_studies_without_named_conditions_have_no_such_rows() -> None:
    without = [{name: value for name, value in row.items() if name != "condition"} for row in MEANS]
    unnamed = [{**run, "keys": {"corpus": "c", "layers": 2}} for run in RUNS]
    assert cones({"means": without, "runs": unnamed, "gate": 0.05}).empty


def test_runs_without_accuracy_or_gate_have_no_such_rows() -> None:
    assert cones({"means": MEANS, "runs": RUNS, "gate": None}).empty
    unknown = [{name: value for name, value in run.items() if name != "majority"} for run in RUNS]
    assert cones({"means": MEANS, "runs": unknown, "gate": 0.05}).empty
