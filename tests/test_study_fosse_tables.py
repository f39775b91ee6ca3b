"""Tables 1 and 2 of Fosse et al.: their settings and figures, and how their claims judge made-up rows."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from conoscope.studies.judging import Verdict, judged
from conoscope.studies.published import fosse_table_1, fosse_table_2
from conoscope.studies.reproducing import Reproducing, reproduce

SEEDS = 4
Sim = Callable[[str, int, int, str], float]
"""SIM by corpus, number of layers, layer and quantity."""


def wobble(seed: int, *of: object) -> float:
    """A little that differs by seed, and otherwise for each number."""
    return 0.002 * ((3 * seed + len(str(of))) % 4)


def deepening(corpus: str, layers: int, layer: int, quantity: str) -> float:
    """SIM that grows with every layer from .3, before training .2."""
    return 0.2 if quantity.endswith("untrained") else (0.3, 0.6, 0.75, 0.85, 0.95)[layer - 1]


def rows_of_table_1(sim: Sim, seeds: int) -> list[dict[str, Any]]:
    rows = [
        {"corpus": corpus, "layers": layers, "layer": layer, "quantity": quantity, "seed": seed,
         "value": sim(corpus, layers, layer, quantity) + wobble(seed, layers, layer, quantity)}
        for corpus, depth in fosse_table_1.DEPTHS.items()
        for layers in range(1, depth + 1)
        for layer in range(1, layers + 1)
        for quantity in ("sim.key", "sim.value", "sim.hidden", "sim.key.untrained", "sim.value.untrained")
        for seed in range(seeds)
    ]  # fmt: skip
    more = [
        {"corpus": corpus, "layers": layers, "quantity": name, "seed": seed, "value": 0.5 + wobble(seed)}
        for corpus, depth in fosse_table_1.DEPTHS.items()
        for layers in range(1, depth + 1)
        for name in ("accuracy", "sim.positions")
        for seed in range(seeds)
    ]
    return rows + more


def table_1(sim: Sim = deepening, seeds: int = SEEDS) -> dict[str, Verdict]:
    rows = rows_of_table_1(sim, seeds)
    return {claim.name: judged(claim, pd.DataFrame(rows)) for claim in fosse_table_1.STUDY.claims}


def test_both_tables_are_of_models_300_wide_that_learn_from_shuffled_batches_with_ten_seeds_and_a_gate() -> None:
    for study in (fosse_table_1.STUDY, fosse_table_2.STUDY):
        assert (study.seeds, study.gate) == (10, 0.05)
        for condition in study.conditions:
            assert condition.training is not None
            training = condition.training
            assert (training.vectors, training.lift, training.batches, training.rate) == ("glove-50", 300, "shuffled", 1e-3)
        assert not any("spaCy" in sentence for sentence in study.differs)


def test_figures_of_keys_and_values_are_the_slides_and_all_else_is_from_notebooks() -> None:
    for figure in fosse_table_1.STUDY.published:
        on_slides = figure.keys["quantity"] in ("sim.key", "sim.value")
        assert figure.tag == ("S" if on_slides else "N"), figure
    tags = {(figure.keys["quantity"], figure.keys["penalty"] < 1): figure.tag for figure in fosse_table_2.STUDY.published}
    assert {tag for (_, in_table), tag in tags.items() if in_table} == {"S", "N"}
    assert {name for (name, in_table), tag in tags.items() if in_table and tag == "N"} == {"auprc"}


def test_a_footnote_names_the_cells_in_which_notebooks_have_other_digits_than_slides() -> None:
    (footnote,) = (sentence for sentence in fosse_table_1.STUDY.differs if "notebooks have others" in sentence)
    assert "in 8 cells" in footnote
    assert "hatexplain, values, layer 3 of 3: 0.880 and 0.8824" in footnote
    for (corpus, site, layers, layer), figure in fosse_table_1.NOTEBOOKS.items():
        assert round(figure, 3) != fosse_table_1.SLIDES[corpus, site][layers - 1][layer - 1]
        assert abs(figure - fosse_table_1.SLIDES[corpus, site][layers - 1][layer - 1]) < 0.003


def test_every_claim_of_table_1_holds_where_sim_grows_with_depth_and_with_training_but_that_keys_of_esnli_spread() -> None:
    found = table_1()
    answers = {name: verdict.answer for name, verdict in found.items()}
    assert answers == {**dict.fromkeys(found, "holds"), "keys-spread": "does not hold"}
    assert {name: len(verdict.cases) for name, verdict in found.items()} == {
        "deeper": 2 * (4 + 4 + 1), "hierarchical": 2 * (3 + 3), "shallow": 2 * 3, "learnt": 2 * (5 + 5 + 2),
        "weak": 2 * 3, "anisotropic": 2 * (4 + 4 + 1), "embeddings": 4 + 4 + 1, "beyond-positions": 2 * (4 + 4 + 1),
        "very-narrow": 2 * 2, "keys-spread": 1,
    }  # fmt: skip


def test_keys_of_esnli_spread_where_the_second_layer_has_wider_ones_and_values_may_do_as_they_like() -> None:
    def spread(corpus: str, layers: int, layer: int, of: str) -> float:
        return deepening(corpus, layers, layer, of) - 0.4 * ((corpus, of, layer) == ("esnli", "sim.key", 2))

    found = table_1(spread)
    assert found["keys-spread"].answer == "holds"
    assert found["deeper"].answer == "holds in 17 of 18 cases"


def test_one_layer_with_a_narrow_cone_is_not_weak_however_much_narrower_a_deep_model_is() -> None:
    found = table_1(lambda corpus, layers, layer, of: deepening(corpus, layers, layer, of) + 0.25 * (layers == 1))
    assert found["weak"].answer == "does not hold"
    assert found["shallow"].answer == "holds"


def test_cones_that_are_learnt_and_deeper_but_wide_are_not_anisotropic() -> None:
    found = table_1(lambda corpus, layers, layer, of: deepening(corpus, layers, layer, of) / 3)
    assert found["learnt"].answer == "holds"
    assert found["deeper"].answer == "holds"
    wide = {name for name in ("anisotropic", "embeddings", "beyond-positions") if found[name].answer == "does not hold"}
    assert wide == {"anisotropic", "embeddings", "beyond-positions"}


def test_a_sim_above_half_may_still_be_that_of_positions() -> None:
    rows = rows_of_table_1(lambda corpus, layers, layer, of: 0.6, SEEDS)
    rows = [{**row, "value": row["value"] + 0.2 * (row["quantity"] == "sim.positions")} for row in rows]
    found = {claim.name: judged(claim, pd.DataFrame(rows)) for claim in fosse_table_1.STUDY.claims}
    assert found["anisotropic"].answer == "holds"
    assert found["beyond-positions"].answer == "does not hold"


def test_cones_as_wide_as_those_of_narrow_models_are_not_very_narrow() -> None:
    found = table_1(lambda corpus, layers, layer, of: deepening(corpus, layers, layer, of) - 0.07 * (layer == 5))
    assert found["very-narrow"].answer == "does not hold"
    assert found["deeper"].answer == found["hierarchical"].answer == "holds"
    assert {case.case for case in found["very-narrow"].cases} == {
        f"{corpus}, layers 5, sim.{site}" for corpus in ("hatexplain", "yelp_hat") for site in ("key", "value")
    }


def test_a_dip_on_the_way_to_a_narrow_last_layer_is_deeper_and_not_hierarchical() -> None:
    found = table_1(lambda corpus, layers, layer, of: deepening(corpus, layers, layer, of) - 0.4 * (layer == 2 < layers))
    assert found["deeper"].answer == "holds"
    assert found["hierarchical"].answer == "does not hold"


def test_cones_that_are_there_before_training_are_not_learnt() -> None:
    found = table_1(lambda corpus, layers, layer, of: deepening(corpus, layers, layer, "") - (0 if "untrained" in of else 0.05))
    assert found["learnt"].answer == "does not hold"
    assert found["deeper"].answer == "holds"


def test_a_deep_model_may_be_deeper_than_its_first_layer_and_no_narrower_than_a_shallow_model() -> None:
    found = table_1(lambda corpus, layers, layer, of: deepening(corpus, layers, layer, of) + (0.68 if layers == 1 else 0.0))
    assert found["shallow"].answer == "does not hold"
    assert found["deeper"].answer == "holds"


def test_two_seeds_cannot_tell() -> None:
    assert {verdict.answer for verdict in table_1(seeds=2).values()} == {"cannot be told"}


SHARP = {0.0: 0.95, 1e-4: 0.8, 1e-3: 0.6, 1e-2: 0.3, 0.1: 0.05, 4.0: 0.05}
"""Entropy by weight of the penalty."""
Value = Callable[[str, float], float]


def published_way(quantity: str, penalty: float) -> float:
    """Values as the source has it: values gather, keys spread at 4, vectors grow, and the explanation is lost."""
    sharp = 1 - SHARP[penalty]
    return {
        "entropy": 1 - sharp,
        "sim.value": 0.4 + 0.3 * sharp,
        "sim.key": 0.7 - 0.3 * (penalty == 4.0),
        "auprc": 0.5 - 0.3 * sharp,
        "auroc": 0.7 - 0.2 * sharp,
    }.get(quantity, 5 + 10 * sharp)


def rows_of_table_2(value: Value, kept: Callable[[int, float], bool] = lambda seed, penalty: True) -> Iterator[dict[str, Any]]:
    for penalty in SHARP:
        for seed in range(SEEDS):
            for quantity in ("entropy", "sim.value", "sim.key", "norm.key", "norm.query", "norm.value", "auprc", "auroc"):
                for average in ("micro", "macro") if quantity.startswith("au") else (None,):
                    number = 0.1 if average == "micro" else value(quantity, penalty) + wobble(seed, quantity) / 4
                    if kept(seed, penalty):
                        yield {"corpus": "hatexplain", "penalty": penalty, "quantity": quantity, "average": average,
                               "seed": seed, "value": number}  # fmt: skip


def table_2(value: Value = published_way, **options: Any) -> dict[str, str]:
    rows = pd.DataFrame(list(rows_of_table_2(value, **options)))
    return {claim.name: judged(claim, rows).answer for claim in fosse_table_2.STUDY.claims}


def test_every_claim_of_table_2_holds_where_the_penalty_does_what_was_published() -> None:
    found = table_2()
    assert found == dict.fromkeys(found, "holds")


@pytest.mark.parametrize(
    ("claim", "quantity", "value"),
    [
        ("uniform", "entropy", lambda penalty: 0.6 * SHARP[penalty]),
        ("sharper", "entropy", lambda penalty: 0.93 + 0.04 * (penalty > 0)),
        ("values-follow", "sim.value", lambda penalty: 0.4 + 0.3 * SHARP[penalty]),
        ("values-narrower", "sim.value", lambda penalty: 0.4 + 0.3 * SHARP[penalty]),
        ("keys-reverse", "sim.key", lambda penalty: 0.5 + 0.1 * (penalty == 4.0)),
        ("explanation-destroyed", "auroc", lambda penalty: 0.7 - 0.05 * (1 - SHARP[penalty])),
    ],
)
def test_a_claim_of_table_2_does_not_hold_on_rows_that_say_otherwise(
    claim: str, quantity: str, value: Callable[[float], float]
) -> None:
    found = table_2(lambda name, penalty: value(penalty) if name == quantity else published_way(name, penalty))
    assert found[claim] == "does not hold"


def test_a_cone_that_hardly_widens_stays_though_it_does_not_grow_and_one_that_widens_clearly_does_not() -> None:
    for widening, answer in ((0.03, "holds"), (0.1, "holds in 1 of 2 cases")):
        found = table_2(lambda n, p, w=widening: 0.6 - w * (p == 0.1) if n == "sim.value" else published_way(n, p))
        assert (found["stays"], found["values-narrower"]) == (answer, "does not hold")


def test_an_explanation_that_gets_better_is_neither_falling_nor_worse() -> None:
    found = table_2(lambda name, penalty: 0.7 - 0.2 * SHARP[penalty] if name == "auroc" else published_way(name, penalty))
    assert found["explanation-falls"] == found["explanation-worse"] == "holds in 1 of 2 cases"


def test_longer_keys_alone_are_one_case_of_three() -> None:
    found = table_2(lambda name, penalty: 5.0 if name in ("norm.query", "norm.value") else published_way(name, penalty))
    assert found["longer"] == "holds in 1 of 3 cases"


def test_a_correlation_over_weights_takes_the_seeds_that_have_most_of_them() -> None:
    rows = pd.DataFrame(list(rows_of_table_2(published_way, lambda seed, penalty: seed > 0 or penalty in (0.0, 1e-2, 0.1))))
    claims = {claim.name: claim.contrast(rows) for claim in fosse_table_2.STUDY.claims}
    assert set(claims["values-follow"]["seed"]) == {1, 2, 3}
    assert claims["values-follow"]["value"].tolist() == pytest.approx([1.0] * 3)
    assert set(claims["explanation-falls"]["seed"]) == {1, 2, 3}
    assert set(claims["values-narrower"]["seed"]) == {0, 1, 2, 3}


def test_models_that_are_not_there_leave_a_claim_without_a_verdict() -> None:
    found = table_2(kept=lambda seed, penalty: penalty < 4 or seed < 2)
    assert found["keys-reverse"] == "cannot be told"
    assert found["values-narrower"] == "holds"


def test_a_claim_of_models_below_the_gate_is_not_judged_and_what_all_models_say_stands_beside_it() -> None:
    rows = pd.DataFrame(list(rows_of_table_2(published_way)))
    passing = rows[rows["penalty"] < 1]
    found = {claim.name: judged(claim, rows, passing) for claim in fosse_table_2.STUDY.claims}
    assert (found["keys-reverse"].answer, found["keys-reverse"].all_answer) == ("not judged", "holds")
    assert {verdict.answer for name, verdict in found.items() if name != "keys-reverse"} == {"holds"}


@pytest.mark.parametrize("penalty", SHARP)
def test_claims_of_table_2_have_no_case_where_one_weight_alone_was_run(penalty: float) -> None:
    rows = pd.DataFrame([row for row in rows_of_table_2(published_way) if row["penalty"] == penalty])
    found = {claim.name: judged(claim, rows).answer for claim in fosse_table_2.STUDY.claims}
    alone = {"uniform"} if penalty == 0 else {"explanation-destroyed"} if penalty == 0.1 else set()
    assert {name for name, answer in found.items() if answer != "cannot be told"} == alone


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_claims_of_table_1_are_judged_as_far_as_the_models_reach_that_were_run(layers: int) -> None:
    kept = [row for row in rows_of_table_1(deepening, SEEDS) if row["layers"] == layers]
    found = {claim.name: judged(claim, pd.DataFrame(kept)).answer for claim in fosse_table_1.STUDY.claims}
    holding = {name for name, answer in found.items() if answer == "holds"}
    several = {"learnt", "deeper", "anisotropic", "embeddings", "beyond-positions"}
    assert holding == {1: {"learnt", "weak"}, 2: several, 3: several | {"hierarchical"}}[layers]


def test_each_published_entropy_stands_beside_both_entropies() -> None:
    figures = {(f.keys["corpus"], f.keys["penalty"], f.keys["quantity"]): f.value for f in fosse_table_2.STUDY.published}
    for (corpus, penalty, quantity), value in figures.items():
        if quantity == "entropy":
            assert figures[corpus, penalty, "entropy.softmax"] == value
    assert figures["hatexplain", 0.0, "entropy.softmax"] == 0.988


def test_the_quick_forms_read_both_entropies_lengths_and_the_controls_of_sim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONOSCOPE_DATA", str(tmp_path))
    quick = Reproducing(device="cpu", jobs=1, quick=True, seeds=1)
    one = reproduce("fosse-table-1", tmp_path / "one", quick)
    assert not one["failed"]
    deepest = {(row["quantity"], row.get("layer")): row["mean"] for row in one["means"] if row["layers"] == 5}
    for site in ("key", "value", "hidden"):
        layers = {layer for quantity, layer in deepest if quantity == f"sim.{site}"}
        assert layers == {layer for quantity, layer in deepest if quantity == f"sim.{site}.untrained"}
        assert layers == set(range(0 if site == "hidden" else 1, 6))
    assert deepest["sim.key", 1] != deepest["sim.key.untrained", 1]
    assert 0.5 < deepest["sim.positions", None] < 1
    two = reproduce("fosse-table-2", tmp_path / "two", quick)
    assert not two["failed"]
    quantities = {row["quantity"] for row in two["means"]}
    assert {"entropy", "entropy.softmax", "norm.key", "norm.query", "norm.value", "sim.key.untrained"} <= quantities
