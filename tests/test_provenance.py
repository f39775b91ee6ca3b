"""Provenance: how a model was trained is told where that is known, and never stands in the way of measuring or merging."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel

from conoscope.capture.loading import LoadedModel, load_model
from conoscope.corpora import Example
from conoscope.measuring.pipeline import Options, measure, merge
from conoscope.measuring.provenance import notes_of, of_model
from conoscope.results.merging import differences
from conoscope.results.store import read_provenance
from conoscope.training.model_card import described
from conoscope.training.settings import Training

TEXTS = [Example("the soup was cold", "negative"), Example("we loved the bread", "positive"), Example("no soup", "negative")]
SCORES = {"validation": {"accuracy": 0.5}, "test": {"accuracy": 0.75}}


def facts(scores: dict[str, dict[str, float]] | None = None, **settings: object) -> str:
    """training.json as conoscope train writes it."""
    return json.dumps(described(Training(**settings), {}, {"epochs": 7}, SCORES if scores is None else scores))  # type: ignore[arg-type]


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """A copy of a model, for a file to be laid beside it."""
    return Path(shutil.copytree(model, tmp_path / "model"))


def test_what_training_json_says_is_told_flat(folder: Path) -> None:
    (folder / "training.json").write_text(facts(seed=3, entropy_penalty=0.5, vectors="some.vec", epochs=50), encoding="utf-8")
    assert of_model(load_model(folder))["training"] == {
        "preset": "pure-attention",
        "layers": 3,
        "width": 24,
        "heads": 2,
        "checkpoint": None,
        "vectors": "some.vec",
        "seed": 3,
        "entropy_penalty": 0.5,
        "rationale_penalty": 0.0,
        "lagrange_penalty": 0.0,
        "epochs": 7,
        "accuracy": 0.75,
    }


def test_a_checkpoint_has_no_preset_and_no_test_no_accuracy(folder: Path) -> None:
    (folder / "training.json").write_text(facts({"validation": {"accuracy": 0.5}}, checkpoint="some/bert"), encoding="utf-8")
    found = of_model(load_model(folder))["training"]
    assert (found["preset"], found["checkpoint"], found["accuracy"]) == (None, "some/bert", None)


def test_a_model_that_nobody_trained_here_has_no_training(pure: LoadedModel, model: Path) -> None:
    assert of_model(load_model(model))["training"] is None
    assert of_model(pure)["training"] is None


BROKEN = {
    "no JSON": b"{",
    "not UTF-8": b"\xff\xfe{}",
    "a list": b"[1, 2]",
    "a number": b"3",
    "of another tool": b'{"settings": {"seed": 3}}',
    "settings that are none": b'{"settings": "preset checkpoint", "model": {}, "scores": {}}',
    "a list for a seed": facts().replace('"seed": 0', '"seed": [0]').encode(),
    "a preset that is no text": facts(preset="\ud800").encode(),
    "too deep": b"[" * 100_000,
    "scores that are none": facts().replace('"scores"', '"marks"').encode(),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_training_json_that_is_not_ours_counts_as_none_and_measuring_goes_on(
    folder: Path, tmp_path: Path, content: bytes
) -> None:
    (folder / "training.json").write_bytes(content)
    measure(folder, TEXTS, ["sim"], out=tmp_path / "out")
    assert read_provenance(tmp_path / "out")["model"]["training"] is None


def test_shards_merge_where_the_model_was_moved_and_its_training_json_lost(folder: Path, tmp_path: Path) -> None:
    (folder / "training.json").write_text(facts(), encoding="utf-8")
    measure(folder, TEXTS, ["sim"], Options(shard=(1, 3)), tmp_path / "one")
    measure(folder, TEXTS, ["sim"], Options(shard=(2, 3)), tmp_path / "two")
    elsewhere = folder.rename(tmp_path / "elsewhere")
    (elsewhere / "training.json").unlink()
    measure(elsewhere, TEXTS, ["sim"], Options(shard=(3, 3)), tmp_path / "three")
    merged = merge([tmp_path / name for name in ("one", "two", "three")])
    assert not merged.missing
    assert merged.provenance["model"]["training"]["epochs"] == 7


def test_results_of_before_and_other_weights_are_told_apart_as_ever(folder: Path, tmp_path: Path) -> None:
    found = measure(folder, TEXTS, ["sim"]).provenance
    before = {**found, "model": {name: value for name, value in found["model"].items() if name != "training"}}
    assert differences(before, found) is None
    other = {**found, "model": {**found["model"], "hash": "other"}}
    assert differences(found, other, ("model",)) == f"model hash {found['model']['hash']}, not other"


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("bert", {}, []),
        ("gpt2", {}, []),
        ("llama", {"num_key_value_heads": 4}, ["keys are taken after rotary positions"]),
        (
            "llama",
            {"num_key_value_heads": 2},
            ["keys are taken after rotary positions", "2 key and value heads serve 4 query heads"],
        ),
        ("modernbert", {}, ["keys are taken after rotary positions"]),
        ("roformer", {}, ["keys are taken after rotary positions"]),
        ("gptj", {"rotary_dim": 4}, ["keys are taken after rotary positions"]),
    ],
)
def test_notes_are_of_what_the_model_has(name: str, more: dict[str, int], expected: list[str], pure: LoadedModel) -> None:
    shape = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 32, "vocab_size": 40}
    config = AutoConfig.for_model(name, **{**shape, **more}, num_labels=2, pad_token_id=0)
    with torch.device("meta"):
        module = AutoModel.from_config(config)
    assert notes_of(LoadedModel(module, pure.tokenizer, name)) == expected
