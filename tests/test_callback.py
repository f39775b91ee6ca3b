"""Geometry while a model learns: it is what `measure` says, and the training does not notice."""

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

from conoscope.capture.loading import LoadedModel
from conoscope.corpora import Corpus, load_corpus
from conoscope.measuring.pipeline import Options, measure
from conoscope.models.tokenizer import build_tokenizer
from conoscope.training.building import build
from conoscope.training.encoding import Collator, Encoded
from conoscope.training.geometry_callback import GeometryCallback, geometry, separation
from conoscope.training.settings import Training

FEW = load_corpus("bistro:train").first(64)


def trained(folder: Path, watched: bool) -> tuple[dict[str, torch.Tensor], GeometryCallback, Trainer]:
    set_seed(0)
    model, tokenizer = build(FEW, Training(layers=2, width=16))
    rows = Encoded(FEW, {label: number for number, label in enumerate(FEW.labels)}, tokenizer, 64)
    quiet = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "logging_strategy": "no"}
    arguments = TrainingArguments(
        str(folder), num_train_epochs=2, per_device_train_batch_size=16, use_cpu=True, remove_unused_columns=False, **quiet
    )
    watch = GeometryCallback(tokenizer, load_corpus("bistro:validation"), every=4, size=24)
    trainer = Trainer(
        model, arguments, data_collator=Collator(tokenizer), train_dataset=rows, callbacks=[watch] if watched else []
    )
    trainer.train()
    return model.state_dict(), watch, trainer


def test_it_looks_every_so_many_steps_and_changes_nothing(tmp_path: Path) -> None:
    plain, _, _ = trained(tmp_path / "plain", watched=False)
    watched, watch, trainer = trained(tmp_path / "watched", watched=True)
    assert all(torch.equal(plain[name], watched[name]) for name in plain)
    assert [row["step"] for row in watch.rows] == [0, 4, 8]
    assert [row["epoch"] for row in watch.rows] == [0.0, 1.0, 2.0]
    assert {"sim_key_1", "sim_value_2", "entropy_1", "separation_2"} <= watch.rows[0].keys()
    assert any("sim_value_1" in entry for entry in trainer.state.log_history)
    assert trainer.model.training


def test_it_looks_into_a_model_with_dropout_and_other_names_of_labels_and_tells_loggers(tmp_path: Path) -> None:
    states = []
    for watched in (False, True):
        set_seed(0)
        tokenizer = build_tokenizer(e.text for e in FEW)
        model = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2,
                                                         num_attention_heads=2, intermediate_size=16))  # fmt: skip
        rows = Encoded(FEW, {label: number for number, label in enumerate(FEW.labels)}, tokenizer, 64)
        quiet = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "logging_strategy": "no"}
        arguments = TrainingArguments(
            str(tmp_path), max_steps=4, per_device_train_batch_size=8, use_cpu=True, remove_unused_columns=False, **quiet
        )
        trainer = Trainer(model, arguments, data_collator=Collator(tokenizer), train_dataset=rows)
        if watched:
            watch = GeometryCallback(tokenizer, load_corpus("bistro:validation"), every=2, size=8)
            told: list[dict[str, float]] = []
            watch.report = told.append
            trainer.add_callback(watch)
        trainer.train()
        states.append(model.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert len(told) == 3
    assert "separation_1" in told[0]


def test_it_says_what_measure_says(pure: LoadedModel) -> None:
    corpus = Corpus.of(load_corpus("bistro:test").first(40))
    ours = geometry(pure.module, pure.tokenizer, corpus)
    tables = measure(pure, corpus, ["sim", "attention_entropy"], Options(device="cpu"))
    sim, entropy = tables["sim"], tables["attention_entropy"]
    for layer in (1, 2, 3):
        keys = sim[(sim["site"] == "key") & (sim["layer"] == layer) & sim["head"].notna()]["value"]
        assert ours[f"sim_key_{layer}"] == pytest.approx(keys.mean(), rel=1e-9)
        rows = entropy[(entropy["row"] == "all") & (entropy["layer"] == layer)]["value"]
        assert ours[f"entropy_{layer}"] == pytest.approx(rows.mean(), rel=1e-9)


def test_separation_of_classes_in_closed_form() -> None:
    apart = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    assert separation(apart, torch.tensor([0, 0, 1])) == pytest.approx(1.0)
    assert separation(torch.cat((apart[:2], -apart[:2])), torch.tensor([0, 0, 1, 1])) == pytest.approx(2.0)
    assert separation(torch.ones(4, 3), torch.tensor([0, 1, 0, 1])) == pytest.approx(0.0)
