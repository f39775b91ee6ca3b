"""Findings: the sentences say what the tables hold."""

from typing import Any

import pandas as pd
import pytest

from conoscope.findings import QUESTIONS, Finding, find


def table(*rows: dict[str, Any], **shared: Any) -> pd.DataFrame:
    frame = pd.DataFrame([{"layer": 1, "head": None, "sd": 0.1, "n": 100, **shared, **row} for row in rows])
    return frame.astype({"layer": "Int64", "head": "Int64"})


def sim(value: float, **more: Any) -> pd.DataFrame:
    return table(
        {"site": "hidden", "layer": 0, "value": 0.99},
        {"site": "output", "value": 0.98},
        {"site": "value", "layer": 2, "value": value},
        {"site": "key", "value": value - 0.2},
        **more,
    )


def nearest(value: float, **more: Any) -> pd.DataFrame:
    row = {"site": "hidden", "layer": 3, "representative": "held_out", "control": "none", "value": value, "chance": 0.5}
    answered = {"agreement": 0.986, "model": 0.9, **more}
    return table(
        {**row, "representative": "first", "value": 0.1, **answered},
        {**row, **answered},
        {**row, "control": "norm", "representative": "mean", "value": 0.52, **answered},
        {**row, "control": "shuffled", "representative": "mean", "value": 0.49, **answered},
        {**row, "layer": 2, "value": 1.0, **answered},
        {**row, "site": "key", "value": 1.0, **answered},
    )


def gates(*names: str) -> pd.DataFrame:
    return table(*({"head": head, "value": 1.0, "gates": name} for head, name in enumerate(names, 1)))


def said(**tables: pd.DataFrame) -> str:
    (found,) = find({name.replace("__", "."): frame for name, frame in tables.items()})
    return found.text


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (0.97, "Values of layer 2 point nearly one way: SIM 0.97, where 1 is one direction."),
        (0.5, "Values of layer 2 gather in a wide cone: SIM 0.50, where 1 is one direction."),
        (0.3, "Hidden states, keys and values lie in no narrow cone: their SIM is at most 0.30 (values of layer 2)."),
    ],
)
def test_the_narrowest_cone_is_that_of_hidden_states_keys_or_values_after_the_embedding(value: float, sentence: str) -> None:
    assert said(sim=sim(value)) == sentence


def test_whole_vectors_go_before_means_over_heads() -> None:
    heads = [{"site": "key", "head": head, "value": value} for head, value in ((1, 0.9), (2, 0.5))]
    assert "keys of layer 1 gather in a wide cone: SIM 0.70" in said(sim=table(*heads)).lower().replace("sim", "SIM")
    assert "SIM is at most 0.10" in said(sim=table(*heads, {"site": "key", "value": 0.1}))


def test_the_direction_tells_the_class_where_it_beats_chance_by_more_than_its_error() -> None:
    assert said(class_cones__nearest=nearest(0.981)) == (
        "The direction of what the classifier reads tells the class: the nearest class direction is right for 98.1 % of "
        "examples and agrees with the model on 98.6 % (chance 50.0 %, length alone 52.0 %)."
    )
    # 0.515 is within 1.96 × 0.1 / √100 of chance.
    assert "hardly tells the class" in said(class_cones__nearest=nearest(0.515))
    assert " tells the class" in said(class_cones__nearest=nearest(0.525))


def test_a_model_that_does_not_answer_agrees_with_nothing() -> None:
    silent = said(class_cones__nearest=nearest(0.9, agreement=float("nan"), model=float("nan")))
    assert "agrees" not in silent
    assert silent.startswith("The direction of the vector that stands for a text tells the class")


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("mixed",), "Among one head there is no gate of a known kind, 1 of no clear kind."),
        (("closed", "mixed"), "Among 2 heads there is 1 closed gate, 1 of no clear kind."),
        (("closed", "closed + instance", "open"), "Among 3 heads there are 2 closed, 1 instance and 1 open gates."),
        (("open", "cluster"), "Among 2 heads there are 1 open and 1 cluster gates."),
        (("open", "cluster", "closed", "instance"), "Among 4 heads there are 1 open, 1 cluster, 1 closed and 1 other gates."),
    ],
)
def test_gates_are_counted_by_kind(names: tuple[str, ...], sentence: str) -> None:
    assert said(gates__names=gates(*names)) == sentence


def test_the_kind_of_token_is_told_whose_weight_and_norm_differ_most() -> None:
    kinds = [
        {"kind": "cls", "weight": 0.3, "share": 0.02, "value": 1.0},
        {"kind": "cls", "weight": 0.4, "share": 0.02, "value": 1.0, "layer": 2},
        {"kind": "other", "weight": 0.65, "share": 0.8, "value": 1.0},
        {"kind": "other", "weight": 0.65, "share": 0.8, "value": 1.0, "head": 1},
    ]
    assert said(norms=table(*kinds)) == (
        "Weight is not what is mixed in: 35 % of the weight and 2 % of the norm go to the classifying token."
    )
    alike = [{"kind": kind, "weight": 0.5, "share": share, "value": 1.0} for kind, share in (("cls", 0.47), ("negation", 0.54))]
    assert said(norms=table(*alike)) == (
        "Weights and norms agree on what is mixed in: 50 % of the weight and 54 % of the norm go to tokens of kind negation, "
        "and no kind of token differs more."
    )


def test_entropy_is_a_mean_over_heads_of_all_rows() -> None:
    rows = [
        {"row": "all", "head": head, "layer": layer, "value": value}
        for layer, values in ((1, (0.9, 0.7)), (2, (0.2, 0.4)))
        for head, value in enumerate(values, 1)
    ]
    other = [{"row": "cls", "head": 1, "value": 0.01}]
    assert said(attention_entropy=table(*rows, *other)) == (
        "Attention is most even in layer 1 (entropy 0.80, where 1 is even) and sharpest in layer 2 (0.30)."
    )
    assert said(attention_entropy=table(*rows[:1])) == "Attention has an entropy of 0.90, where 1 is even."


def test_the_other_sentences() -> None:
    rank = [{"site": "hidden", "layer": layer, "value": value, "width": 384} for layer, value in ((0, 300.0), (6, 23.4))]
    assert find({"effective_rank": table(*rank, n=3000)}) == []
    assert (
        said(effective_rank=table(*rank, n=4000)) == "Hidden states of the last layer use 23 of 384 directions (effective rank)."
    )
    mixing = [{"kind": "all", "method": method, "value": value} for method, value in (("attn_w", 0.9), ("attnresln_n", 0.2))]
    assert said(mixing=table(*mixing)) == (
        "Of what leaves an attention block 20 % comes from other tokens, the rest is the token itself."
    )
    frequent = {"what": "norm", "by": "corpus", "tokens": "all"}
    assert said(frequency=table({**frequent, "layer": None, "value": 0.7}, {**frequent, "value": -0.1})) == (
        "More is taken from rare tokens: frequency rank and norm, means over layers, have a correlation of 0.70."
    )
    assert "hardly depends" in said(frequency=table({**frequent, "layer": None, "value": 0.05}))
    marks = {"metric": "auroc", "average": "micro", "low": 0.6, "high": 0.7}
    judged = table(*({**marks, "map": name, "value": value} for name, value in (("a", 0.65), ("b", 0.6), ("random", 0.9))))
    assert said(plausibility=judged) == (
        "The best of 2 maps, a, agrees with what people marked: AUROC 0.65 (0.60 to 0.70; 0.5 is chance)."
    )
    for ends, how in (((0.3, 0.4), "runs against"), ((0.4, 0.6), "cannot be told from chance by")):
        one = {**marks, "map": "a", "value": sum(ends) / 2, "low": ends[0], "high": ends[1]}
        assert said(plausibility=table(one)).startswith(f"A {how} what people marked: ")


def test_several_runs_stand_side_by_side() -> None:
    both = pd.concat((sim(0.3).assign(run="before"), sim(0.97).assign(run="after")))
    assert find({"sim": both}) == [
        Finding("The narrowest cone (SIM): before 0.30 (values of layer 2); after 0.97 (values of layer 2).", "sim")
    ]


def test_where_there_are_several_runs_a_sentence_says_of_which_it_is() -> None:
    tables = {"sim": sim(0.97).assign(run="one"), "gates.names": gates("open").assign(run="other")}
    assert [found.text for found in find(tables)] == [
        "The narrowest cone (SIM): one 0.97 (values of layer 2).",
        "Gates: other 1 open gate, of one head.",
    ]


def test_no_more_than_five_are_told_and_nothing_of_nothing() -> None:
    assert find({}) == []
    assert find({"sim": sim(0.3).assign(site="query")}) == []
    everything = {question.table for question in QUESTIONS}
    assert len(everything) > 5
    tables = {"sim": sim(0.3), "sim:mask=real": sim(0.9), "gates.names": gates("open")}
    assert [found.figure for found in find(tables)] == ["sim", "gates"]
