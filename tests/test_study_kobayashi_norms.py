from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from conoscope.studies import STUDIES
from conoscope.studies.base import Published
from conoscope.studies.judging import averaged, compared, judged
from conoscope.studies.published.kobayashi_norms import BY_LAYER
from conoscope.studies.published.kobayashi_reading import FITS, RANKS, _ranks
from conoscope.studies.reproducing import Reproducing, reproduce

STUDY = STUDIES["kobayashi-norms"]
CLAIMS = {claim.name: claim for claim in STUDY.claims}
BERT = "bert-base-uncased"
LIKE_BERT = {
    "weight.cls": 0.1, "share.cls": 0.02, "weight.sep": 0.3, "share.sep": 0.05, "weight.stops": 0.15, "share.stops": 0.05,
    "weight.other": 0.45, "share.other": 0.88, "length.cls": 0.5, "length.sep": 0.5, "length.stops": 1.0, "length.other": 3.0,
    "cancel.cls": -0.34, "cancel.sep": -0.69, "cancel.stops": -0.25, "rho.norm": 0.75, "rho.norm.corpus": 0.6,
    "attn_w": 0.96, "attn_n": 0.85, "attnres_w": 0.48, "attnres_n": 0.22, "attnresln_n": 0.19,
}  # fmt: skip
"""Numbers for which every claim holds but those of layers."""


def rows(numbers: dict[str, float], layers: tuple[float, ...] = (), model: str = "m") -> pd.DataFrame:
    """Three seeds that differ a little."""
    whole = [(name, None, value) for name, value in numbers.items()]
    each = [("attnresln_n", layer, value) for layer, value in enumerate(layers, 1)]
    return pd.DataFrame(
        [
            {"model": model, "quantity": name, "layer": layer, "value": value + seed * 1e-4, "seed": seed}
            for name, layer, value in (*whole, *each)
            for seed in range(3)
        ]
    )


def answer(claim: str, found: pd.DataFrame) -> str:
    return judged(CLAIMS[claim], found).answer


@pytest.mark.parametrize("claim", ["discounted", "beside-words", "most", "short", "cancel-out", "frequency", "strong", "mixing"])
def test_a_claim_holds_for_a_model_like_bert_and_not_for_its_opposite(claim: str) -> None:
    assert answer(claim, rows(LIKE_BERT, (0.2,))) == "holds"
    opposite = {name: -value for name, value in LIKE_BERT.items()} | {"weight.other": 0.45, "share.other": 0.38}
    assert answer(claim, rows({**opposite, "length.other": -9.0}, (0.2,))) == "does not hold"


CLARK = {name: figures for name, figures in BY_LAYER.items() if name.startswith("weight.")}


def by_layer(figures: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Three seeds that differ a little, with a value for each layer."""
    return pd.DataFrame(
        [
            {"model": "m", "quantity": name, "layer": float(layer), "value": value + seed * 1e-4 * (layer % 2), "seed": seed}
            for name, values in figures.items()
            for layer, value in enumerate(values, 1)
            for seed in range(3)
        ]
    )


def test_the_published_weights_peak_where_the_slides_say() -> None:
    verdict = judged(CLAIMS["peaks"], by_layer(CLARK))
    assert verdict.answer == "holds"
    assert [case.case for case in verdict.cases] == ["m, cls, early", "m, sep, middle", "m, stops, late"]
    early = sum(CLARK["weight.cls"][:4]) / 4 - sum(CLARK["weight.cls"][4:8]) / 4
    assert verdict.cases[0].passing.mean == pytest.approx(early, abs=1e-3)


def test_weights_do_not_peak_where_layers_are_the_other_way_round() -> None:
    backward = by_layer({name: figures[::-1] for name, figures in CLARK.items()})
    assert {case.case: case.passing.answer for case in judged(CLAIMS["peaks"], backward).cases} == {
        "m, cls, early": "no",
        "m, sep, middle": "yes",
        "m, stops, late": "no",
    }


def test_six_layers_have_thirds_of_two_and_two_layers_have_none() -> None:
    six = by_layer({"weight.cls": (0.3, 0.5, 0.1, 0.1, 0.2, 0.0)})
    (case,) = judged(CLAIMS["peaks"], six).cases
    assert case.passing.mean == pytest.approx(0.3, abs=1e-3)
    assert judged(CLAIMS["peaks"], by_layer({"weight.cls": (0.3, 0.5)})).cases == []


def test_a_discount_on_one_kind_alone_is_told_kind_by_kind() -> None:
    found = rows({**LIKE_BERT, "share.sep": 0.31, "share.stops": 0.16}, (0.2,))
    assert answer("discounted", found) == "holds in 1 of 3 cases"
    assert answer("beside-words", found) == "holds"


def test_a_weak_correlation_with_frequency_is_one_and_is_not_strong() -> None:
    found = rows({**LIKE_BERT, "rho.norm": 0.3, "rho.norm.corpus": 0.2}, (0.2,))
    assert answer("frequency", found) == "holds"
    assert answer("strong", found) == "does not hold"


def test_the_ratio_must_fall_clearly_with_depth() -> None:
    assert answer("depth", rows(LIKE_BERT, (0.25, 0.2, 0.15, 0.1))) == "holds"
    assert answer("depth", rows(LIKE_BERT, (0.24, 0.23, 0.21, 0.28))) == "does not hold"


def test_published_figures_are_those_of_the_sources() -> None:
    figures = {tuple(one.keys.values()): (one.value, one.tag) for one in STUDY.published}
    assert figures["rho.norm",] == (0.75, "S")
    assert figures["attnresln_n",] == (0.1875, "N")
    assert figures["attnresln_n", 12] == (0.11, "P")
    assert figures["expansion", 3] == (0.632, "N")
    assert figures["cancel.sep",] == (-0.69, "R")
    assert figures["weight.sep", 9] == (0.575, "F")
    assert figures["weight.cls",][0] == pytest.approx(0.06625)
    assert {one.model for one in STUDY.published} == {BERT}


def test_a_figure_of_another_model_stands_beside_ours_unjudged_and_one_of_a_layer_does_not() -> None:
    published = (Published({"quantity": "attnresln_n"}, 0.19, "N", model=BERT),
                 Published({"quantity": "attnresln_n", "layer": 1}, 0.24, "P", model=BERT))  # fmt: skip
    both = pd.concat((rows({"attnresln_n": 0.24}, (0.3,), "MiniLM"), rows({"attnresln_n": 0.19}, (0.5,), BERT)))
    found = compared(averaged(both), published)
    assert list(zip(found["model"], found["holds"], strict=True)) == [
        ("MiniLM", f"of {BERT}"),
        (BERT, "not excluded"),
        (BERT, "excluded"),
    ]
    assert found["layer"].tolist()[2] == 1


def test_the_authors_ranks_are_taken_where_the_vocabulary_is_theirs(tmp_path: Path) -> None:
    listed = tmp_path / RANKS
    listed.parent.mkdir()
    listed.write_text("1 154924078 1996\n2 142669805 1012\n", encoding="utf-8")

    def ranks(vocabulary: dict[str, int]) -> Path | None:
        tokenizer = SimpleNamespace(get_vocab=lambda: vocabulary)
        made = SimpleNamespace(place=SimpleNamespace(data_dir=str(tmp_path)), model=SimpleNamespace(tokenizer=tokenizer))
        return _ranks(made, tmp_path / "ranks.tsv")  # type: ignore[arg-type]

    assert ranks({**FITS, "the": 7}) is None
    assert ranks({**FITS}).read_text(encoding="utf-8") == "rank\tid\n1\t1996\n2\t1012\n"
    listed.unlink()
    assert ranks({**FITS}) is None


def test_the_quick_form_reads_weights_norms_and_ratios_of_a_small_bert(tmp_path: Path) -> None:
    options = Reproducing(quick=True, seeds=1, jobs=1, device="cpu", data_dir=str(tmp_path))
    means = {(row["quantity"], row.get("layer")): row for row in reproduce("kobayashi-norms", tmp_path / "out", options)["means"]}
    assert {row["model"] for row in means.values()} == {"small BERT"}
    for layer in (1, 2, None):
        kinds = [row["mean"] for (name, at), row in means.items() if at == layer and name.startswith("share.")]
        assert sum(kinds) == pytest.approx(1, abs=1e-4)
    of_layers = [means["attn_n", layer]["mean"] for layer in (1, 2)]
    assert means["attn_n", None]["mean"] == pytest.approx(sum(of_layers) / 2, rel=1e-4)
    assert ("rho.norm.corpus", None) in means
    assert ("rho.norm", None) not in means
