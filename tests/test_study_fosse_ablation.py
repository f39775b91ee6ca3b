"""The ablation: its conditions, and how its claims judge made-up rows."""

from math import sqrt
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from conoscope.studies.judging import judged
from conoscope.studies.pages import write_page
from conoscope.studies.published import fosse_ablation as ablation
from conoscope.studies.published.fosse_ablation import SETTINGS, STUDY
from conoscope.studies.reproducing import Reproducing, reproduce
from conoscope.training.settings import Training

SEEDS, EPOCHS = 4, 5
SIM = {
    ablation.NARROW: 0.6, ablation.WIDE: 0.8, ablation.SLOW: 0.62, ablation.FAST: 0.82, ablation.FAR: 0.7, ablation.NEAR: 0.7,
    ablation.ALONE: 0.7, ablation.BARE: 0.95, ablation.GROUPED: 0.81, ablation.SENTENCE: 0.85, ablation.SUMMED: 0.9,
}  # fmt: skip
"""SIM of the last layer on which every claim holds."""


def verdicts(
    seeds: int = SEEDS, accuracy: float = 0.62, rising: bool = True, only: str | None = None, **changed: float
) -> dict[str, str]:
    """What the claims come to, where conditions have these SIMs, or changed ones by the name of their constant."""
    sims = {**SIM, **{getattr(ablation, name): value for name, value in changed.items()}}
    rows = [row for row in rows_of(sims, seeds, accuracy, rising) if only in (None, row["condition"])]
    return {claim.name: judged(claim, pd.DataFrame(rows)).answer for claim in STUDY.claims}


def rows_of(sims: dict[str, float], seeds: int, accuracy: float, rising: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for place, (condition, sim) in enumerate(sims.items()):
        for layers in (1, 5):
            for seed in range(seeds):
                off = 0.002 * ((3 * seed + place) % 4)
                here = {"condition": condition, "layers": layers, "seed": seed}
                for site in ("key", "value"):
                    rows.append({**here, "quantity": f"sim.{site}", "layer": layers, "value": sim + off})
                    rows.append({**here, "quantity": f"sim.{site}.untrained", "layer": layers, "value": 0.5 + off})
                entropy = 0.2 if condition == ablation.SUMMED else 0.7
                rows.append({**here, "quantity": "entropy", "layer": 1, "value": entropy + off})
                right = accuracy if condition in (ablation.WIDE, ablation.FAST) else 0.62
                rows.append({**here, "quantity": "accuracy", "value": right + off})
                rows += [
                    {**here, "quantity": "trace.sim.value", "layer": layers, "epoch": epoch,
                     "value": 0.5 + 0.05 * (epoch if rising else -epoch)}
                    for epoch in range(EPOCHS)
                ]  # fmt: skip
    return rows


def test_each_condition_changes_one_thing_of_the_published_settings_or_of_the_narrow_ones() -> None:
    plain = Training()
    assert len(SETTINGS) == 11
    assert len(STUDY.conditions) == 22
    for name, settings in SETTINGS.items():
        base = ablation.LIFTED if name.startswith("300") else ablation.HUNDRED
        changed = {key for key, value in settings.items() if value != base.get(key, getattr(plain, key))}
        allowed = 2 if name == ablation.SUMMED else 0 if name in (ablation.WIDE, ablation.NARROW) else 1
        assert len(changed) == allowed, name
        assert settings["vectors"] == "glove"
    rates = {name: settings["learning_rate"] for name, settings in SETTINGS.items() if settings["learning_rate"] != 1e-3}
    assert rates == {ablation.SLOW: 3.3e-4, ablation.FAST: 3e-3}
    assert SETTINGS[ablation.FAR]["position_scale"] == pytest.approx(sqrt(3))
    assert SETTINGS[ablation.NEAR]["position_scale"] == pytest.approx(1 / sqrt(3))


def test_every_condition_is_traced_with_ten_seeds_at_one_and_five_layers() -> None:
    assert all(condition.trace for condition in STUDY.conditions)
    assert {condition.keys["layers"] for condition in STUDY.conditions} == {1, 5}
    assert STUDY.seeds == 10


def test_every_claim_holds_on_rows_that_say_so() -> None:
    found = verdicts()
    assert found == dict.fromkeys(found, "holds")


@pytest.mark.parametrize(
    ("claim", "changed"),
    [
        ("wider", {"NARROW": 0.9}),
        ("larger-step", {"NARROW": 0.9, "SLOW": 0.9}),
        ("positions-length", {"FAR": 0.5, "NEAR": 0.9}),
        ("positions", {"ALONE": 0.9}),
        ("residual", {"BARE": 0.7}),
        ("penalty", {"SENTENCE": 0.75, "SUMMED": 0.7}),
    ],
)
def test_a_claim_does_not_hold_on_rows_that_say_otherwise(claim: str, changed: dict[str, float]) -> None:
    assert verdicts(**changed)[claim] == "does not hold"


def test_batches_that_move_sim_either_way_are_not_alike() -> None:
    for value in (0.7, 0.9):
        assert verdicts(GROUPED=value)["batches"] == "holds in 4 of 8 cases"


@pytest.mark.parametrize(("name", "value"), [("FAST", 0.99), ("FAST", 0.6), ("SLOW", 0.8), ("SLOW", 0.4)])
def test_a_step_that_goes_beyond_the_other_width_does_not_stand_for_it_and_neither_does_one_that_falls_short(
    name: str, value: float
) -> None:
    assert verdicts(**{name: value})["step-for-width"] == "holds in 12 of 16 cases"


def test_cones_below_those_before_training_are_not_learnt() -> None:
    assert verdicts(**{name: 0.4 for name in vars(ablation) if getattr(ablation, name) in list(SIM)})["learnt"] == "does not hold"


def test_what_falls_by_epoch_does_not_rise_and_what_costs_accuracy_is_not_free() -> None:
    found = verdicts(rising=False, accuracy=0.55)
    assert found["by-epoch"] == found["free"] == "does not hold"
    assert verdicts(accuracy=0.61)["free"] == "holds"


@pytest.mark.parametrize("condition", SETTINGS)
def test_one_condition_alone_is_judged_against_its_own_beginning_and_nothing_else(condition: str) -> None:
    found = verdicts(only=condition)
    assert {name for name, answer in found.items() if answer != "cannot be told"} == {"learnt", "by-epoch"}


def test_two_seeds_cannot_tell() -> None:
    assert set(verdicts(seeds=2).values()) == {"cannot be told"}


def test_accuracy_itself_is_judged_on_all_models() -> None:
    assert {claim.name for claim in STUDY.claims if not claim.gated} == {"free"}


def test_conditions_of_the_same_seed_are_compared() -> None:
    keys = {"layers": 5, "layer": 5, "quantity": "sim.value"}
    rows = [{**keys, "condition": ablation.WIDE, "seed": seed, "value": 0.8 + seed / 100} for seed in range(3)]
    rows += [{**keys, "condition": ablation.NARROW, "seed": seed, "value": 0.5} for seed in (1, 2, 3)]
    (claim,) = (claim for claim in STUDY.claims if claim.name == "wider")
    found = claim.contrast(pd.DataFrame(rows))
    assert found["seed"].tolist() == [1, 2]
    assert found["value"].tolist() == pytest.approx([0.31, 0.32])
    assert set(found["case"]) == {"300 wide less 100 wide: layers 5, sim.value"}


def test_the_quick_form_has_traces_by_epoch_and_no_positions_alone_for_a_model_without_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONOSCOPE_DATA", str(tmp_path))
    record = reproduce("fosse-ablation", tmp_path / "out", Reproducing(device="cpu", jobs=1, quick=True, seeds=1))
    assert not record["failed"]
    traced = [row for row in record["means"] if row["quantity"] == "trace.sim.value"]
    assert {(row["layers"], row["layer"], row["epoch"]) for row in traced} == {(1, 1, 0), (1, 1, 1), (5, 5, 0), (5, 5, 1)}
    page = write_page(record, tmp_path / "page.md").read_text(encoding="utf-8")
    assert "](page-narrow-cones.svg)" in page
    assert page.index("narrow-cones.svg") < page.index("page-claims.svg")
    assert "## SIM beside its controls" in page
    assert "| 300 wide, layers 1 |" in page.replace("| bistro, ", "| ").replace("| hatexplain, ", "| ")
    assert (tmp_path / "page-narrow-cones.svg").is_file()
    alone = {row["condition"] for row in record["means"] if row["quantity"] == "sim.positions"}
    assert alone == {name for name, _ in ablation.QUICK} - {ablation.ALONE}
