"""Training: it learns, it stops, it keeps the best, it leaves no pickle, and the same seed gives the same weights."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from conoscope.cli import main
from conoscope.corpora import Corpus, Example, splits_of
from conoscope.errors import CorpusError, ModelError, OutputError
from conoscope.loading import load_model
from conoscope.train import Training, train

QUICK = Training(layers=1, width=16, epochs=4, patience=2, learning_rate=1e-2, batch_size=16, device="cpu")


def reviews(count: int, offset: int = 0) -> Corpus:
    """Texts that one word decides."""
    words = [("lovely", "good"), ("awful", "bad")]
    return Corpus.of(
        [Example(f"the soup number {n} was {words[n % 2][0]}", words[n % 2][1]) for n in range(offset, offset + count)]
    )


@pytest.fixture
def splits() -> dict[str, Corpus]:
    return {"train": reviews(96), "validation": reviews(32, 96), "test": reviews(32, 128)}


def test_it_learns_and_writes_a_model_that_loads(splits: dict[str, Corpus], tmp_path: Path) -> None:
    trained = train(splits, tmp_path / "run", QUICK)
    assert trained.scores["test"]["accuracy"] == 1.0
    assert load_model(trained.folder).labels == ("good", "bad")
    assert json.loads((tmp_path / "run" / "training.json").read_text())["settings"]["width"] == 16


def test_only_safetensors_and_json_outlive_the_run(splits: dict[str, Corpus], tmp_path: Path) -> None:
    train(splits, tmp_path / "run", QUICK)
    assert {path.suffix for path in (tmp_path / "run").rglob("*") if path.is_file()} == {".json", ".md", ".safetensors"}


def test_the_same_seed_gives_the_same_weights_and_another_does_not(splits: dict[str, Corpus], tmp_path: Path) -> None:
    digests = [
        load_model(train(splits, tmp_path / str(run), replace(QUICK, epochs=1, seed=seed)).folder).digest()
        for run, seed in enumerate((0, 0, 1))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_it_stops_when_the_validation_loss_no_longer_falls_and_keeps_the_best_weights(tmp_path: Path) -> None:
    """Validation labels are the wrong way round: every epoch is worse than the first."""
    upside_down = Corpus.of([Example(e.text, {"good": "bad", "bad": "good"}[e.label]) for e in reviews(32, 96)])
    upside_down = Corpus(upside_down.name, "", ("good", "bad"), upside_down.read, 32)
    long = train({"train": reviews(96), "validation": upside_down}, tmp_path / "long", replace(QUICK, epochs=20))
    short = train({"train": reviews(96), "validation": upside_down}, tmp_path / "short", replace(QUICK, epochs=1))
    assert long.epochs == 1 + QUICK.patience
    assert long.scores["validation"]["loss"] == pytest.approx(short.scores["validation"]["loss"], rel=1e-5)
    one, other = (load_model(run.folder).module.state_dict() for run in (long, short))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_labels_mean_the_same_in_every_split_whatever_their_order(tmp_path: Path) -> None:
    """The validation texts begin with the other class."""
    splits = {"train": reviews(96), "validation": reviews(32, 97)}
    assert splits["train"].labels != splits["validation"].labels
    assert train(splits, tmp_path / "run", QUICK).scores["validation"]["accuracy"] == 1.0


def test_a_label_that_is_not_learned_is_refused(tmp_path: Path) -> None:
    odd = Corpus.of([Example("soup", "odd")])
    with pytest.raises(CorpusError, match="has the label odd, which is not among those to learn: bad, good"):
        train({"train": reviews(96), "validation": odd}, tmp_path / "run", QUICK)


def test_a_run_that_ran_off_or_was_stopped_leaves_nothing_behind(splits: dict[str, Corpus], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="training ran off to infinity at a learning rate of 1e\\+30; lower --lr"):
        train(splits, tmp_path / "run", replace(QUICK, learning_rate=1e30))
    assert not (tmp_path / "run").exists()
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert train(splits, tmp_path / "run", QUICK).epochs


def test_a_folder_with_something_in_it_is_refused(splits: dict[str, Corpus], tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="is there already and not empty; give -o a new folder"):
        train(splits, tmp_path, QUICK)


def test_a_corpus_without_labels_cannot_be_learned(tmp_path: Path) -> None:
    plain = Corpus.of([Example("soup")])
    with pytest.raises(CorpusError, match="has no labels to learn; name the column of a file with --label"):
        train({"train": plain, "validation": plain}, tmp_path / "run", QUICK)


def test_the_command_trains_on_a_file_and_says_how_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"the soup number {n} was {('lovely', 'awful')[n % 2]},{('good', 'bad')[n % 2]}\n" for n in range(150))
    (tmp_path / "reviews.csv").write_text("text,label\n" + rows)
    settings = ["--layers", "1", "--width", "16", "--epochs", "2", "--lr", "0.01", "--device", "cpu"]
    assert main(["train", str(tmp_path / "reviews.csv"), "-o", str(tmp_path / "run"), *settings]) == 0
    captured = capsys.readouterr()
    assert "validation: accuracy" in captured.out
    assert captured.err.count("epoch ") == 2
    assert main(["train", str(tmp_path / "reviews.csv"), "-o", str(tmp_path / "run"), *settings]) == 2


def test_self_attention_with_positions_learns_the_order_of_words(tmp_path: Path) -> None:
    """bistro caps any function of the bag of words well under 0.85; with positions the small model passes 0.97."""
    trained = train(splits_of("bistro"), tmp_path / "run", Training(epochs=20, device="cpu"))
    assert trained.scores["test"]["accuracy"] > 0.97
