"""What becomes of the answer without a map's first words: against the definition written out, and the command."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from architectures import SHAPES
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.cli import main
from conoscope.common.errors import CorpusError, MeasureError, ModelError
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.explaining import Erasing, Explaining, Explanation, explain, faithfulness
from conoscope.explaining.erasing import BINS, Eraser, ordered, without
from conoscope.explaining.selecting import share_of
from conoscope.models.tokenizer import build_tokenizer


def probability(model: LoadedModel, text: str) -> torch.Tensor:
    inputs = model.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        return model.module(**inputs).logits[0].softmax(-1)


@pytest.mark.parametrize("erase", ["remove", "mask"])
def test_falls_are_their_definition(erase: str, pure: LoadedModel) -> None:
    corpus = load_corpus("bistro:test").first(9)
    found = faithfulness(pure, corpus, ["attention", "gradient"], erasing=Erasing(erase))
    token = [] if erase == "remove" else [pure.tokenizer.unk_token]
    for name in ("attention", "gradient"):
        expected = {"comprehensiveness": [], "sufficiency": []}
        for explanation in explain(pure, corpus, [name]):
            words = explanation.example.text.split()
            first = np.argsort(-explanation.maps[name], kind="stable")
            whole = probability(pure, explanation.example.text)
            for share in BINS:
                top = set(first[: max(1, int(np.ceil(share * len(words) - 1e-9)))].tolist())
                for metric, keeps in (("comprehensiveness", lambda i, top=top: i not in top), ("sufficiency", top.__contains__)):
                    text = " ".join(w for i, word in enumerate(words) for w in ([word] if keeps(i) else token))
                    expected[metric].append(float(whole.max() - probability(pure, text)[whole.argmax()]))
        frame, bins = found["faithfulness"], found["faithfulness.bins"]
        for metric, values in expected.items():
            (row,) = frame[(frame["map"] == name) & (frame["metric"] == metric)].to_dict("records")
            assert row["value"] == pytest.approx(np.mean(values), abs=1e-9)
            assert (row["average"], row["n"], row["undefined"]) == ("macro", 9, 0)
            by_share = bins[(bins["map"] == name) & (bins["metric"] == metric)].set_index("share")["value"]
            assert list(by_share.index) == list(BINS)
            np.testing.assert_allclose(by_share, np.array(values).reshape(9, len(BINS)).mean(0), atol=1e-9)


def test_words_are_removed_or_replaced_in_both_texts() -> None:
    example = Example("a b c", "x", "d e", None, "7")
    gone = np.array([True, False, False, False, True])
    assert without(example, gone, None) == Example("b c", "x", "d", None, "7")
    assert without(example, gone, "[MASK]") == Example("[MASK] b c", "x", "d [MASK]", None, "7")
    assert without(Example("a b"), np.array([True, True]), None).text == ""


def test_shares_are_rounded_up_and_at_least_one_word() -> None:
    assert [share_of(20, share) for share in BINS] == [1, 1, 2, 4, 10]
    assert [share_of(7, share) for share in BINS] == [1, 1, 1, 2, 4]
    assert share_of(1, 0.5) == 1


def test_equal_scores_go_by_place_and_missing_ones_last() -> None:
    assert ordered(np.array([0.5, np.nan, 0.9, 0.5, -np.inf])).tolist() == [2, 0, 3, 1, 4]


def test_a_text_that_was_cut_off_is_judged_by_what_the_model_saw(pure: LoadedModel) -> None:
    example = Example("the soup was very good indeed", id="1")
    short = Example("the soup was", id="2")
    found = [faithfulness(pure, [e], ["attention"], options=Explaining(max_length=4))["faithfulness"] for e in (example, short)]
    values = [frame[frame["map"] == "attention"]["value"].tolist() for frame in found]
    assert values[0] == pytest.approx(values[1], abs=1e-12)


def test_a_file_of_scores_is_judged_beside_the_maps(pure: LoadedModel, tmp_path: Path) -> None:
    corpus, path = load_corpus("bistro:test").first(6), tmp_path / "mine.jsonl"
    rows = [{"id": e.example.id, "scores": e.maps["attention"].tolist()} for e in explain(pure, corpus, ["attention"])]
    path.write_text("\n".join(map(json.dumps, rows[:4])), encoding="utf-8")
    frame = faithfulness(pure, corpus, ["attention"], [path])["faithfulness"].set_index(["map", "metric"])
    assert frame.index.get_level_values("map").unique().tolist() == ["attention", "random", "mine"]
    assert frame.loc[("mine", "sufficiency"), ["n", "undefined"]].tolist() == [4, 2]


def test_nothing_left_of_a_text_is_undefined_where_a_tokenizer_makes_no_token_of_it() -> None:
    torch.manual_seed(0)
    tokenizer = build_tokenizer((e.text for e in load_corpus("bistro:train").first(50)), classifying=False)
    shape = {**SHAPES["gpt2"], "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "num_labels": 2}
    module = AutoModelForSequenceClassification.from_config(AutoConfig.for_model("gpt2", **shape))
    model = load_model(module, tokenizer)
    eraser = Eraser(model, model.batcher(Corpus.of([])), 4, None)
    explanation = Explanation(Example("soup", id="1"), None, np.array([True]), {"x": np.array([1.0])})
    falls = eraser.falls([explanation], ["x", "y"])
    assert np.isnan(falls[0, 0, 0]).all()
    assert falls[0, 0, 1] == pytest.approx(np.zeros(len(BINS)))
    assert np.isnan(falls[0, 1]).all()


def test_refusals(pure: LoadedModel, minilm: LoadedModel, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is no classifier, and faithfulness is of one"):
        faithfulness(minilm, "bistro:test")
    with pytest.raises(MeasureError, match="no way 'blank' to erase words; known: mask, remove"):
        Erasing("blank")
    with pytest.raises(CorpusError, match="has no examples to explain"):
        faithfulness(pure, [])


def test_the_command_prints_and_writes_tables(pure: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pure.module.float().save_pretrained(tmp_path / "model")
    pure.module.double()
    pure.tokenizer.save_pretrained(tmp_path / "model")
    command = [
        "faithfulness",
        str(tmp_path / "model"),
        "bistro:test",
        "--limit",
        "5",
        "--map",
        "norms",
        "-o",
        str(tmp_path / "out"),
    ]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "comprehensiveness" in printed
    assert "5 examples; tables and provenance written to" in printed
    frame = pd.read_parquet(tmp_path / "out" / "faithfulness.parquet")
    assert list(frame.columns) == ["map", "metric", "average", "value", "low", "high", "n", "undefined"]
    assert frame["map"].unique().tolist() == ["norms", "random"]
    assert len(pd.read_csv(tmp_path / "out" / "faithfulness.bins.csv")) == 2 * 2 * len(BINS)
