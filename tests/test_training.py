"""Training: it learns, it stops, it keeps the best, it leaves no pickle, and the same seed gives the same weights."""

import json
import random
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import EarlyStoppingCallback, TrainerCallback, TrainerState, set_seed

from conoscope.capture.loading import LoadedModel, load_model
from conoscope.capture.recorder import traces_of
from conoscope.cli import main
from conoscope.common.errors import CorpusError, ModelError, OutputError
from conoscope.corpora import Corpus, Example, splits_of
from conoscope.measuring.pipeline import Options, measure
from conoscope.training.building import build
from conoscope.training.comparison import compare
from conoscope.training.encoding import Collator, Encoded
from conoscope.training.new_head import load_for_training
from conoscope.training.seeds import train_seeds
from conoscope.training.trainer import Training, train

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
    assert json.loads((tmp_path / "run" / "training.json").read_text(encoding="utf-8"))["settings"]["width"] == 16


def test_hidden_states_of_a_trained_pure_attention_have_one_norm_and_no_mean(splits: dict[str, Corpus], tmp_path: Path) -> None:
    loaded = load_model(train(splits, tmp_path / "run", replace(QUICK, layers=2)).folder, dtype="float64")
    batch = loaded.batcher(splits["test"]).batch(list(splits["test"]))
    for trace in traces_of(loaded.module, batch)[1:]:
        real = trace.hidden[batch.real]
        torch.testing.assert_close(real.norm(dim=-1), torch.full((len(real),), 15**0.5, dtype=torch.float64))
        assert real.mean(-1).abs().max().item() < 1e-12


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
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(OutputError, match="is there already and not empty; give -o a new folder"):
        train(splits, tmp_path, QUICK)


def test_a_corpus_without_labels_cannot_be_learned(tmp_path: Path) -> None:
    plain = Corpus.of([Example("soup")])
    with pytest.raises(CorpusError, match="has no labels to learn; name the column of a file with --label"):
        train({"train": plain, "validation": plain}, tmp_path / "run", QUICK)


def test_the_command_trains_on_a_file_and_says_how_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"the soup number {n} was {('lovely', 'awful')[n % 2]},{('good', 'bad')[n % 2]}\n" for n in range(150))
    (tmp_path / "reviews.csv").write_text("text,label\n" + rows, encoding="utf-8")
    settings = ["--layers", "1", "--width", "16", "--epochs", "2", "--lr", "0.01", "--device", "cpu"]
    assert main(["train", str(tmp_path / "reviews.csv"), "-o", str(tmp_path / "run"), *settings]) == 0
    captured = capsys.readouterr()
    assert "validation: accuracy" in captured.out
    assert captured.err.count("epoch ") == 2
    weights = (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns
    assert main(["train", str(tmp_path / "reviews.csv"), "-o", str(tmp_path / "run"), *settings]) == 0
    again = capsys.readouterr()
    assert again.out == captured.out
    assert "holds this very run, finished before" in again.err
    assert "epoch 1" not in again.err
    assert (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns == weights
    assert main(["train", str(tmp_path / "reviews.csv"), "-o", str(tmp_path / "run"), *settings, "--seed", "1"]) == 2
    assert "was trained with another seed" in capsys.readouterr().err


def before(count: int, seed: int) -> Corpus:
    """Texts in which "one" stands before "two", or after it."""
    draw = random.Random(seed)
    texts = [draw.sample(["one", "two", "red", "green", "blue"], 5) for _ in range(count)]
    labels = ["before" if words.index("one") < words.index("two") else "after" for words in texts]
    return Corpus.of([Example(" ".join(words), label) for words, label in zip(texts, labels, strict=True)], f"order {seed}")


@pytest.mark.parametrize(
    ("preset", "learns"), [("pure-attention", True), ("tp9-positions", True), ("mean", False), ("tp9-base", False)]
)
def test_order_can_be_learnt_only_with_positions(preset: str, learns: bool, tmp_path: Path) -> None:
    splits = {"train": before(400, 0), "validation": before(100, 1), "test": before(200, 2)}
    settings = Training(preset=preset, width=32, epochs=25, patience=25, batch_size=32, learning_rate=3e-3, device="cpu")
    accuracy = train(splits, tmp_path / "run", settings).scores["test"]["accuracy"]
    assert accuracy > 0.95 if learns else 0.35 < accuracy < 0.65


def on_bistro(folder: Path, seed: int = 0, **settings: object) -> float:
    trained = train(splits_of("bistro"), folder / str(seed), Training(seed=seed, device="cpu", **settings))
    return trained.scores["test"]["accuracy"]


def test_self_attention_with_positions_learns_the_order_of_words(tmp_path: Path) -> None:
    assert on_bistro(tmp_path, epochs=8) > 0.97


@pytest.mark.parametrize("preset", ["tp9-positions", "tp9-cls"])
def test_positions_let_the_courses_model_learn_the_order_of_words(preset: str, tmp_path: Path) -> None:
    """In the median of seeds 0, 1 and 2; without a residual, one in five or so does not get there."""
    assert median(on_bistro(tmp_path, seed, preset=preset, epochs=31) for seed in (0, 1, 2)) > 0.97


@pytest.mark.parametrize("preset", ["mean", "tp9-base"])
def test_without_positions_no_model_can_learn_the_order_of_words(preset: str, tmp_path: Path) -> None:
    """bistro caps any function of the bag of words well under 0.85."""
    assert 0.55 < on_bistro(tmp_path, preset=preset, epochs=8) < 0.85


# What to begin with


def begun(tmp_path: Path, splits: dict[str, Corpus], **settings: object) -> tuple[torch.Tensor, dict[str, int]]:
    """The embeddings that a run begins with, and the vocabulary."""
    set_seed(0)
    model, tokenizer = build(splits["train"], replace(QUICK, **settings))
    return model.get_input_embeddings().weight.detach(), tokenizer.get_vocab()


def test_special_tokens_begin_as_zeros_or_random(splits: dict[str, Corpus], tmp_path: Path) -> None:
    zeros, words = begun(tmp_path, splits)
    assert not zeros[[words["<cls>"], words["<unk>"], words["<sep>"], words["<pad>"]]].any()
    assert zeros[words["soup"]].any()
    random, words = begun(tmp_path, splits, special="random")
    assert random[words["<cls>"]].any()
    assert not random[words["<pad>"]].any()
    with pytest.raises(ModelError, match="no beginning 'ones' of special tokens; known: random, zeros"):
        begun(tmp_path, splits, special="ones")


def test_word_vectors_are_what_embeddings_begin_with_and_frozen_ones_stay(splits: dict[str, Corpus], tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("soup 1 2 3 4\nlovely 5 6 7 8\n", encoding="utf-8")
    given = {"vectors": str(tmp_path / "v.txt"), "width": None}
    weights, words = begun(tmp_path, splits, **given)
    assert weights[words["lovely"]].tolist() == [5, 6, 7, 8]
    assert not weights[words["awful"]].any()
    settings = replace(QUICK, freeze=True, epochs=1, **given)
    frozen = load_model(train(splits, tmp_path / "frozen", settings).folder).module.get_input_embeddings().weight
    common = [number for word, number in words.items() if not word.startswith("<")]
    assert torch.equal(frozen[common], weights[common])
    assert frozen[words["<cls>"]].any()
    free = load_model(train(splits, tmp_path / "free", replace(QUICK, epochs=1, **given)).folder).module
    assert not torch.equal(free.get_input_embeddings().weight, weights)
    with pytest.raises(ModelError, match=r"v.txt have 4 numbers, not 16; leave --width out"):
        begun(tmp_path, splits, vectors=given["vectors"])


def test_a_baseline_has_no_layers_and_a_mean_no_cls(splits: dict[str, Corpus], tmp_path: Path) -> None:
    trained = train(splits, tmp_path / "mean", replace(QUICK, preset="mean", layers=None))
    assert trained.scores["test"]["accuracy"] == 1.0
    loaded = load_model(trained.folder)
    assert loaded.tokenizer.cls_token is None
    assert loaded.batcher(splits["test"]).batch(list(splits["test"])[:2]).cls.tolist() == [-1, -1]
    with pytest.raises(ModelError, match="mean has no layers of attention; leave --layers out"):
        train(splits, tmp_path / "odd", replace(QUICK, preset="mean"))
    with pytest.raises(ModelError, match=r"no \[CLS\] whose attention could be penalised; give --penalty-rows all"):
        train(splits, tmp_path / "tp9", replace(QUICK, preset="tp9-base", entropy_penalty=1.0))
    assert not (tmp_path / "tp9").exists()


# Penalties


def test_the_entropy_penalty_makes_attention_sharper(splits: dict[str, Corpus], tmp_path: Path) -> None:
    entropies = []
    for weight in (0.0, 1.0):
        folder = train(splits, tmp_path / str(weight), replace(QUICK, entropy_penalty=weight, epochs=6)).folder
        table = measure(folder, splits["test"], ["attention_entropy"], Options(device="cpu"))["attention_entropy"]
        entropies.append(float(table[table["row"] == "cls"]["value"].iloc[0]))
    assert entropies[1] < 0.5 * entropies[0]


def test_the_rationale_penalty_draws_attention_to_what_people_marked(tmp_path: Path) -> None:
    """The sixth of the words decides, but people marked the second."""

    def marked(corpus: Corpus) -> Corpus:
        flags = (False, True, False, False, False, False)
        return Corpus.of([Example(e.text, e.label, None, flags, e.id) for e in corpus])

    splits = {"train": marked(reviews(96)), "validation": marked(reviews(32, 96))}
    shares = []
    for weight in (0.0, 5.0):
        settings = replace(QUICK, rationale_penalty=weight, epochs=8, patience=8)
        loaded = load_model(train(splits, tmp_path / str(weight), settings).folder)
        trace = traces_of(loaded.module, loaded.batcher(splits["validation"]).batch(list(splits["validation"])))[1]
        shares.append(trace.weights[:, 0, 0, 2].mean().item())
    assert shares[1] > 2 * shares[0]


def test_penalties_of_a_checkpoint_and_its_own_settings(minilm_folder: Path, splits: dict[str, Corpus], tmp_path: Path) -> None:
    """The real MiniLM weights, a few steps under two penalties, on the CPU."""
    few = {name: corpus.first(16) for name, corpus in splits.items()}
    settings = Training(checkpoint=str(minilm_folder), epochs=1, batch_size=8, device="cpu", max_length=32,
                        entropy_penalty=0.1, penalty_rows="columns", penalty_layers=(2, 5))  # fmt: skip
    loaded = load_model(train(few, tmp_path / "run", settings).folder)
    assert loaded.labels == ("good", "bad")
    assert loaded.module.config._attn_implementation != "conoscope_weights"
    before = load_model(minilm_folder).module.state_dict()["encoder.layer.0.attention.self.query.weight"]
    after = loaded.module.state_dict()["bert.encoder.layer.0.attention.self.query.weight"]
    assert 0 < (before - after).abs().max().item() < 0.01
    with pytest.raises(ModelError, match="a checkpoint has its own layers; give --layers or --from, not both"):
        train(few, tmp_path / "odd", replace(settings, layers=3))
    with pytest.raises(ModelError, match="cannot load the model 'nowhere'"):
        train(few, tmp_path / "odd", replace(settings, checkpoint="nowhere"))


# Stopped, resumed, several seeds, and what is written down


class Stop(TrainerCallback):
    """As if the user had pressed Ctrl-C in the middle of an epoch."""

    def __init__(self, step: int = 15) -> None:
        self.step = step

    def on_step_begin(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        if state.global_step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("penalty", "batches"), [(0.0, "grouped"), (0.1, "grouped"), (0.0, "shuffled")])
def test_a_run_that_was_stopped_goes_on_to_the_same_weights(
    splits: dict[str, Corpus], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, penalty: float, batches: str
) -> None:
    settings = replace(QUICK, epochs=5, patience=5, entropy_penalty=penalty, batches=batches)
    whole = load_model(train(splits, tmp_path / "whole", settings).folder).digest()
    with monkeypatch.context() as patched:
        patched.setattr("conoscope.training.trainer._callbacks", lambda chosen: [EarlyStoppingCallback(chosen.patience), Stop()])
        with pytest.raises(KeyboardInterrupt):
            train(splits, tmp_path / "run", settings)
    with pytest.raises(OutputError, match="was trained with another epochs, learning_rate; give the same settings and data"):
        train(splits, tmp_path / "run", replace(settings, epochs=9, learning_rate=1.0))
    with pytest.raises(OutputError, match="was trained with another test data; give the same settings and data to go on"):
        train({**splits, "test": reviews(30, 128)}, tmp_path / "run", settings)
    with pytest.raises(CorpusError, match="has the label odd"):
        train({**splits, "test": Corpus.of([Example("soup", "odd")])}, tmp_path / "run", settings)
    torn = tmp_path / "run" / "checkpoints" / "checkpoint-9999"
    torn.mkdir()
    (torn / "model.safetensors").write_bytes(b"half")
    resumed = train(splits, tmp_path / "run", settings)
    assert load_model(resumed.folder).digest() == whole
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_the_card_says_what_was_learned_how_and_how_well(splits: dict[str, Corpus], tmp_path: Path) -> None:
    hostile = {name: replace(corpus, name="<script>|x|\n# evil") for name, corpus in splits.items()}
    trained = train(hostile, tmp_path / "run", QUICK)
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    facts = json.loads((tmp_path / "run" / "training.json").read_text(encoding="utf-8"))
    assert facts["scores"]["test"]["by_class"] == {"good": 1.0, "bad": 1.0}
    assert facts["model"]["hash"] == load_model(trained.folder).digest()
    assert facts["corpora"]["train"]["examples"] == 96
    for said in ("accuracy 1.0000", "good 1.0000", facts["model"]["hash"], facts["corpora"]["train"]["digest"], "| seed | 0 |"):
        assert said in card
    assert "<script>" not in card
    assert "\n# evil" not in card


def test_several_seeds_make_a_table_and_finished_ones_are_kept(splits: dict[str, Corpus], tmp_path: Path) -> None:
    table = train_seeds(lambda seed: splits, tmp_path, replace(QUICK, epochs=1), (0, 3))
    assert list(table["seed"]) == ["0", "0", "3", "3", "mean", "mean", "sd", "sd"]
    mean = table[(table["seed"] == "mean") & (table["split"] == "test")]["accuracy"].item()
    of_test = table[(table["split"] == "test") & table["seed"].isin(["0", "3"])]["accuracy"]
    assert mean == pytest.approx(of_test.mean())
    before = (tmp_path / "seed-0" / "model.safetensors").stat().st_mtime_ns
    again = train_seeds(lambda seed: splits, tmp_path, replace(QUICK, epochs=1), (0, 3, 0))
    assert (tmp_path / "seed-0" / "model.safetensors").stat().st_mtime_ns == before
    assert again.equals(table)
    settings = replace(QUICK, epochs=1, preset="tp9-cls", entropy_penalty=9.0)
    with pytest.raises(OutputError, match="seed-0 was trained with another entropy_penalty, preset"):
        train_seeds(lambda seed: splits, tmp_path, settings, (0, 3))
    other = {**splits, "train": reviews(90)}
    with pytest.raises(OutputError, match="seed-0 was trained with another train data"):
        train_seeds(lambda seed: other, tmp_path, replace(QUICK, epochs=1), (0,))


def test_a_checkpoint_under_dropout_and_penalty_goes_on_to_the_same_weights(
    minilm_folder: Path, splits: dict[str, Corpus], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real MiniLM weights, stopped in the second epoch."""
    few = {name: corpus.first(32) for name, corpus in splits.items()}
    settings = Training(checkpoint=str(minilm_folder), epochs=2, batch_size=8, device="cpu", max_length=16, entropy_penalty=0.1)
    whole = load_model(train(few, tmp_path / "whole", settings).folder).digest()
    with monkeypatch.context() as patched:
        patched.setattr("conoscope.training.trainer._callbacks", lambda chosen: [EarlyStoppingCallback(chosen.patience), Stop(6)])
        with pytest.raises(KeyboardInterrupt):
            train(few, tmp_path / "run", settings)
    assert load_model(train(few, tmp_path / "run", settings).folder).digest() == whole


def test_a_model_remembers_where_texts_were_cut(splits: dict[str, Corpus], tmp_path: Path) -> None:
    trained = train(splits, tmp_path / "run", replace(QUICK, max_length=4))
    found = compare([trained.folder], splits["test"], device="cpu").scores["accuracy"].item()
    assert found == pytest.approx(trained.scores["test"]["accuracy"])
    assert load_model(trained.folder).max_length == 4


def test_the_head_of_a_classifier_goes_with_the_names_of_its_labels(splits: dict[str, Corpus], tmp_path: Path) -> None:
    ours = train(splits, tmp_path / "ours", QUICK).folder
    head = load_model(ours).module.classifier.weight
    swapped, _ = load_for_training(str(ours), ("bad", "good"))
    assert torch.equal(swapped.classifier.weight, head.flip(0))
    assert swapped.config.id2label == {0: "bad", 1: "good"}
    other, _ = load_for_training(str(ours), ("x", "y"))
    assert not torch.equal(other.classifier.weight, head)


@pytest.mark.parametrize("fault", ["missing", "mismatched"])
def test_a_checkpoint_whose_body_is_not_whole_is_refused(splits: dict[str, Corpus], tmp_path: Path, fault: str) -> None:
    ours = train(splits, tmp_path / "ours", replace(QUICK, epochs=1)).folder
    weights = load_file(ours / "model.safetensors")
    name = "layers.0.attention.query.weight"
    weights = (
        {**weights, name: weights[name][:8].clone()} if fault == "mismatched" else {k: v for k, v in weights.items() if k != name}
    )
    save_file(weights, ours / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=rf"lacks the weights '{name}' and would get random ones"):
        load_for_training(str(ours), ("good", "bad"))


def test_a_penalty_by_rationales_needs_some(splits: dict[str, Corpus], tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="examples has no rationales to penalise by; name their column with --rationale"):
        train(splits, tmp_path / "run", replace(QUICK, rationale_penalty=1.0))
    with pytest.raises(ModelError, match="mean has no layers of attention to penalise; leave the penalties out"):
        train(splits, tmp_path / "run", replace(QUICK, preset="mean", layers=None, entropy_penalty=1.0, penalty_rows="all"))


def test_gradient_checkpointing_trains_to_the_same_weights(splits: dict[str, Corpus], tmp_path: Path) -> None:
    settings = replace(QUICK, epochs=1, entropy_penalty=0.1)
    runs = [train(splits, tmp_path / str(saving), replace(settings, gradient_checkpointing=saving)) for saving in (False, True)]
    one, other = (load_model(run.folder).module.state_dict() for run in runs)
    for name in one:
        torch.testing.assert_close(one[name], other[name])


def test_loggers_that_are_not_there_are_told(splits: dict[str, Corpus], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot report to 'bogus': .*; see --report-to"):
        train(splits, tmp_path / "run", replace(QUICK, report_to="bogus"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "3..1"], "'3..1' is not A..B with A up to B"),
        (["--seeds", "-1"], "is not a whole number from 0"),
        (["--penalty-layers", "0..2"], "is not a whole number from 1"),
        (["--entropy-penalty", "-1"], "is not a number from 0"),
    ],
)
def test_odd_numbers_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as told:
        main(["train", "bistro", "-o", "x", *arguments])
    assert told.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"precision": "float8"}, "no precision 'float8'; known: auto, bfloat16, float32"),
        ({"penalty_rows": "some", "entropy_penalty": 1.0}, "no rows 'some' of a penalty"),
        ({"entropy_penalty": 1.0, "penalty_layers": (1, 4)}, "no layers 1..4 to penalise in a model of 1"),
        ({"preset": "pure"}, "no preset 'pure'"),
    ],
)
def test_what_cannot_be_trained_is_told_and_leaves_nothing(
    splits: dict[str, Corpus], tmp_path: Path, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        train(splits, tmp_path / "run", replace(QUICK, **settings))
    assert not (tmp_path / "run").exists()


def test_a_batch_is_padded_as_its_tokenizer_pads(minilm: LoadedModel) -> None:
    corpus = Corpus.of([Example("it was good", "a"), Example("no", "b", "not at all, it was cold")])
    rows = Encoded(corpus, {"a": 0, "b": 1}, minilm.tokenizer, 64)
    expected = minilm.tokenizer.pad(rows.rows, padding_side="right", return_tensors="pt")
    found = Collator(minilm.tokenizer)(rows.rows)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
