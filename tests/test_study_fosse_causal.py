"""Turning towards a class: its conditions, its rows, and how its claims judge made-up rows."""

from typing import Any

import pandas as pd
import pytest

from conoscope.studies import STUDIES
from conoscope.studies.judging import judged
from conoscope.studies.published.fosse_causal import MODELS, STUDY, _read

SHARES = {"class": 0.6, "random": 0.2, "shuffled": 0.2, "length": 0.0}


def rows_of(
    shares: dict[str, float], slope: float = 0.1, layers: tuple[int, ...] = (1, 2), whole: float | None = None
) -> pd.DataFrame:
    """`slope`: by how much more answers follow the class in each layer; `whole`: with a random direction all the way."""
    rows: list[dict[str, Any]] = []
    for model in MODELS:
        for seed in range(4):
            here = {"corpus": "bistro", "model": model, "seed": seed}
            rows.append({**here, "quantity": "accuracy", "value": 0.9})
            for layer in layers:
                for way, share in shares.items():
                    value = share + (0.002 * (seed % 3) + slope * (layer - 1) if way == "class" else 0)
                    name = "share.length.known" if way == "length" else f"share.{way}"
                    of = {**here, "quantity": name, "layer": layer}
                    far = whole if way == "random" and whole is not None else value
                    rows += [{**of, "far": 0.5, "value": value}, {**of, "far": 1.0, "value": far}]
            known = {**here, "quantity": "share.class.known", "layer": 3, "value": 1.0}
            rows += [{**known, "far": far} for far in (0.5, 1.0)]
    return pd.DataFrame(rows)


def verdicts(slope: float = 0.1, whole: float | None = None, **changed: float) -> dict[str, str]:
    rows = rows_of({**SHARES, **changed}, slope, whole=whole)
    return {claim.name: judged(claim, rows).answer for claim in STUDY.claims}


def test_every_claim_holds_on_rows_that_say_so() -> None:
    found = verdicts()
    assert found == dict.fromkeys(found, "holds")


@pytest.mark.parametrize(
    ("claims", "changed"),
    [
        (["follows"], {"random": 0.8, "whole": 0.1}),
        (["labels"], {"shuffled": 0.8}),
        (["arrives"], {"whole": 0.9}),
        (["deeper"], {"slope": -0.05}),
    ],
)
def test_a_claim_does_not_hold_on_rows_that_say_otherwise(claims: list[str], changed: dict[str, float]) -> None:
    found = verdicts(**changed)
    assert [name for name, answer in found.items() if answer == "does not hold"] == claims


def test_layers_whose_outcome_is_known_are_not_judged_and_one_layer_has_no_depth() -> None:
    for claim in STUDY.claims:
        assert not any("layer 3" in case for case in claim.contrast(rows_of(SHARES))["case"].astype(str))
    (deeper,) = (claim for claim in STUDY.claims if claim.name == "deeper")
    assert len(deeper.contrast(rows_of(SHARES))) == 3 * 4
    assert deeper.contrast(rows_of(SHARES, layers=(2,))).empty


def test_rows_are_those_of_all_classes_and_say_what_is_known() -> None:
    table = pd.DataFrame(
        [
            {"layer": layer, "from": source, "to": source and "b", "by": by, "direction": way, "share": share,
             "flipped": 0.1 * layer, "judged": layer < 3 and way != "length"}
            for layer in (1, 3) for source in (None, "a") for by in ("angle", "share") for way in SHARES for share in (0, 0.5, 1)
        ]
    )  # fmt: skip

    class Run:
        def accuracy(self) -> float:
            return 0.8

        def steered(self) -> pd.DataFrame:
            return table

    rows = list(_read(Run()))  # type: ignore[arg-type]
    assert rows[0] == {"quantity": "accuracy", "value": 0.8}
    assert {"quantity": "share.class", "layer": 1, "far": 0.5, "value": 0.1} in rows
    assert len(rows) == 1 + 2 * 4 * 2
    assert {row["quantity"] for row in rows if row.get("layer") == 3} == {f"share.{way}.known" for way in SHARES}


def test_the_study_is_listed_with_three_models_and_ten_seeds() -> None:
    assert STUDIES["fosse-causal"] is STUDY
    assert {condition.keys["model"] for condition in STUDY.conditions} == set(MODELS)
    assert STUDY.seeds == 10
