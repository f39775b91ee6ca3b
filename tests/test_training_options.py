"""What training can be told beside its defaults: lifted vectors, positions, residual, batches, callbacks, a memo, no training."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

from conoscope.capture.loading import LoadedModel, load_model
from conoscope.cli import main
from conoscope.common.errors import DataError, MeasureError, ModelError, OutputError
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.corpora.word_vectors import lifted
from conoscope.measuring.pipeline import Options, measure
from conoscope.models.family import PRESETS
from conoscope.training import encoding
from conoscope.training.building import build, untrained
from conoscope.training.encoding import Collator, Encoded
from conoscope.training.geometry_callback import GeometryCallback, geometry
from conoscope.training.memo import Memo, in_order
from conoscope.training.seeds import train_seeds
from conoscope.training.trainer import Training, train

QUICK = Training(layers=1, width=16, epochs=2, patience=2, learning_rate=1e-2, batch_size=16, device="cpu")
MARKS = (False, False, False, False, False, True)


def reviews(count: int, offset: int = 0) -> Corpus:
    """Texts that one word decides, which is marked."""
    words = [("lovely", "good"), ("awful", "bad")]
    return Corpus.of(
        [
            Example(f"the soup number {n} was {words[n % 2][0]}", words[n % 2][1], None, MARKS)
            for n in range(offset, offset + count)
        ]
    )


@pytest.fixture
def splits() -> dict[str, Corpus]:
    return {"train": reviews(64), "validation": reviews(32, 64), "test": reviews(32, 96)}


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    (tmp_path / "v.txt").write_text("soup 1 2 3 4\nlovely 5 6 7 8\nawful -5 0 .5 1\n", encoding="utf-8")
    return str(tmp_path / "v.txt")


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


# Lifted vectors


def test_lifted_vectors_are_what_embeddings_begin_with(splits: dict[str, Corpus], vectors: str) -> None:
    settings = replace(QUICK, width=None, vectors=vectors)
    narrow, wide = (untrained(splits["train"], replace(settings, lift=lift)) for lift in (None, 24))
    assert wide.module.config.hidden_size == 24
    one, other = (model.module.get_input_embeddings().weight.detach() for model in (narrow, wide))
    assert torch.equal(torch.from_numpy(lifted(one.numpy(), 24)), other)
    torch.testing.assert_close(one.norm(dim=-1), other.norm(dim=-1), rtol=1e-6, atol=0)
    awful, missing = (wide.tokenizer.get_vocab()[word] for word in ("awful", "number"))
    assert other[awful].any()
    assert not other[missing].any()


def test_vectors_of_that_width_are_left_as_they_are(splits: dict[str, Corpus], vectors: str) -> None:
    plain, same = (
        untrained(splits["train"], replace(QUICK, width=None, vectors=vectors, lift=lift)).digest() for lift in (None, 4)
    )
    assert plain == same


def test_what_cannot_be_lifted_is_refused(splits: dict[str, Corpus], vectors: str) -> None:
    with pytest.raises(DataError, match="the word vectors have 4 numbers and cannot be lifted to 3; give 4 or more, or none"):
        untrained(splits["train"], replace(QUICK, width=None, vectors=vectors, lift=3))
    with pytest.raises(ModelError, match="lift=300 without word vectors to lift; give --vectors"):
        untrained(splits["train"], replace(QUICK, lift=300))
    with pytest.raises(ModelError, match=r"v.txt are lifted to 24 numbers, not 16; leave --width out"):
        untrained(splits["train"], replace(QUICK, vectors=vectors, lift=24))


# Positions and residual


@pytest.mark.parametrize("name", PRESETS)
def test_positions_and_residual_are_the_presets_unless_given(name: str, splits: dict[str, Corpus]) -> None:
    layers = None if PRESETS[name].get("num_hidden_layers") == 0 else 1
    plain = untrained(splits["train"], replace(QUICK, preset=name, layers=layers)).module.config
    for option in ("positions", "residual"):
        assert getattr(plain, option) == PRESETS[name].get(option, "pure")
    assert plain.position_scale == 1.0
    learned = untrained(splits["train"], replace(QUICK, preset=name, layers=layers, positions="learned", max_length=40)).module
    assert learned.config.positions == "learned"
    assert learned.position.num_embeddings == 40
    if layers:
        other = untrained(splits["train"], replace(QUICK, preset=name, residual="postnorm")).module.config
        assert other.residual == "postnorm"
        assert other.positions == plain.positions


def test_a_scale_of_positions_moves_no_weight(splits: dict[str, Corpus]) -> None:
    plain, scaled = (untrained(splits["train"], replace(QUICK, position_scale=scale)).module for scale in (1.0, math.sqrt(3)))
    assert scaled.config.position_scale == math.sqrt(3)
    assert all(torch.equal(one, other) for one, other in zip(plain.parameters(), scaled.parameters(), strict=True))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positions": "odd"}, "no positions 'odd'; known: learned, none, relative, sinusoidal"),
        ({"residual": "odd"}, "no residual 'odd'; known: course, none, postnorm, prenorm, pure"),
        ({"batches": "odd"}, "no batches 'odd'; known: grouped, shuffled"),
        ({"penalty_unit": "odd", "entropy_penalty": 1.0}, "no unit 'odd' of a penalty; known: sentence, summed"),
        ({"positions": "none", "position_scale": 2.0}, "position_scale=2 multiplies sinusoidal positions, and pure-attention has "
         "positions none; give --positions sinusoidal, or leave --position-scale out"),
        ({"preset": "tp9-base", "position_scale": 2.0}, "tp9-base has positions none"),
        ({"preset": "mean", "layers": None, "residual": "pure"}, "mean has no layers of attention; leave --residual out"),
        ({"preset": "mean", "layers": None, "positions": "relative"}, "mean has no layers of attention; leave --positions"),
        ({"checkpoint": "x", "layers": None, "width": None, "lift": 300}, "a checkpoint has its own lift; give --lift or --from"),
        ({"checkpoint": "x", "layers": None, "width": None, "position_scale": 2.0}, "give --position-scale or --from, not both"),
    ],
)  # fmt: skip
def test_an_odd_setting_names_the_known_ones_and_leaves_nothing(
    splits: dict[str, Corpus], tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message) as told:
        train(splits, tmp_path / "run", replace(QUICK, **settings))
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run").exists()


# Batches


class Recording(Collator):
    """A collator that notes the first words of the texts to learn, which are numbered: w0, w1, and so on."""

    seen: list[str]

    def __init__(self, tokenizer: Any, *others: Any) -> None:
        super().__init__(tokenizer, *others)
        self.words = {number: word for word, number in tokenizer.get_vocab().items()}

    def __call__(self, rows: Sequence[Any]) -> dict[str, torch.Tensor]:
        first = [self.words[row["input_ids"][1]] for row in rows]
        self.seen.extend(word for word in first if word.startswith("w"))
        return super().__call__(rows)


def order(folder: Path, monkeypatch: pytest.MonkeyPatch, lengths: Sequence[int], **settings: Any) -> list[int]:
    """The numbers of the texts in the order in which two epochs learn them."""
    texts = [Example(f"w{n} " + "very " * length, ("good", "bad")[n % 2]) for n, length in enumerate(lengths)]
    monkeypatch.setattr(Recording, "seen", [], raising=False)
    monkeypatch.setattr("conoscope.training.trainer.Collator", Recording)
    train({"train": Corpus.of(texts), "validation": reviews(32)}, folder, replace(QUICK, **settings))
    return [int(word[1:]) for word in Recording.seen]


def test_shuffled_batches_do_not_depend_on_lengths_and_grouped_ones_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 600
    equal, rising, falling = [3] * count, [1 + n % 40 for n in range(count)], [1 + (count - n) % 40 for n in range(count)]
    shuffled = [
        order(tmp_path / f"shuffled {run}", monkeypatch, lengths, batches="shuffled")
        for run, lengths in enumerate((equal, rising, falling))
    ]
    assert shuffled[0] == shuffled[1] == shuffled[2]
    first, second = shuffled[0][:count], shuffled[0][count:]
    assert sorted(first) == sorted(second) == list(range(count))
    assert first != second
    grouped = [order(tmp_path / f"grouped {run}", monkeypatch, lengths) for run, lengths in enumerate((rising, falling))]
    assert grouped[0] != grouped[1]

    def spread(numbers: list[int]) -> float:
        return float(np.mean([np.ptp([rising[n] for n in numbers[start : start + 16]]) for start in range(0, count, 16)]))

    assert spread(grouped[0]) < 0.5 * spread(first)


def test_the_seed_decides_the_order_of_shuffled_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = [
        order(tmp_path / str(run), monkeypatch, [3] * 100, batches="shuffled", seed=seed) for run, seed in enumerate((5, 5, 6))
    ]
    assert orders[0] == orders[1] != orders[2]


# Resuming, and what is written down


def test_a_run_with_other_settings_does_not_go_on(splits: dict[str, Corpus], tmp_path: Path, vectors: str) -> None:
    settings = replace(QUICK, width=None, vectors=vectors, entropy_penalty=0.1, resume=True)
    train_seeds(lambda seed: splits, tmp_path / "runs", settings, (0,))
    other = replace(settings, lift=8, positions="learned", residual="postnorm", batches="shuffled", penalty_unit="summed")
    with pytest.raises(OutputError, match="was trained with another batches, lift, penalty_unit, positions, residual; give"):
        train_seeds(lambda seed: splits, tmp_path / "runs", other, (0,))
    with pytest.raises(OutputError, match="was trained with another position_scale; give the same settings"):
        train_seeds(lambda seed: splits, tmp_path / "runs", replace(settings, position_scale=2.0), (0,))


def test_a_finished_run_of_a_version_without_these_settings_is_kept(splits: dict[str, Corpus], tmp_path: Path) -> None:
    settings = replace(QUICK, resume=True)
    before = train_seeds(lambda seed: splits, tmp_path, settings, (0,))
    record = tmp_path / "seed-0" / "training.json"
    facts = {name: said for name, said in json.loads(record.read_text(encoding="utf-8")).items() if name != "blake2b"}
    for name in ("lift", "positions", "residual", "position_scale", "batches", "penalty_unit"):
        del facts["settings"][name]
    record.write_text(json.dumps(facts), encoding="utf-8")
    assert train_seeds(lambda seed: splits, tmp_path, settings, (0,)).equals(before)
    with pytest.raises(OutputError, match="was trained with another batches; give"):
        train_seeds(lambda seed: splits, tmp_path, replace(settings, batches="shuffled"), (0,))


def test_the_command_has_an_option_for_each_and_the_card_names_them(
    splits: dict[str, Corpus], tmp_path: Path, vectors: str
) -> None:
    rows = "".join(f"{example.text},{example.label}\n" for example in (*splits["train"], *splits["test"]))
    (tmp_path / "reviews.csv").write_text("text,label\n" + rows, encoding="utf-8")
    given = ["--vectors", vectors, "--lift", "12", "--positions", "sinusoidal", "--position-scale", "1.5", "--residual",
             "prenorm", "--batches", "shuffled", "--entropy-penalty", "0.01", "--penalty-unit", "summed"]  # fmt: skip
    usual = ["--layers", "1", "--epochs", "1", "--device", "cpu"]
    assert main(["train", str(tmp_path / "reviews.csv"), "-o", str(tmp_path / "run"), *usual, *given]) == 0
    settings = json.loads((tmp_path / "run" / "training.json").read_text(encoding="utf-8"))["settings"]
    expected = {"lift": 12, "positions": "sinusoidal", "position_scale": 1.5, "residual": "prenorm", "batches": "shuffled",
                "penalty_unit": "summed"}  # fmt: skip
    assert {name: settings[name] for name in expected} == expected
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    for line in ("| lift | 12 |", "| position\\_scale | 1.5 |", "| batches | shuffled |"):
        assert line.replace("\\", "") in card.replace("\\", "")
    config = load_model(tmp_path / "run").module.config
    assert (config.hidden_size, config.position_scale, config.residual) == (12, 1.5, "prenorm")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--lift", "300"], "--lift does nothing without --vectors; leave it out"),
        (["--penalty-unit", "summed"], "--penalty-unit does nothing without a penalty; leave it out"),
        (["--rationale-penalty", "1", "--penalty-unit", "summed"], "--penalty-unit does nothing without --entropy-penalty"),
        (["--batches", "odd"], "no batches 'odd'; known: grouped, shuffled"),
    ],
)
def test_the_command_refuses_what_does_nothing(
    given: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "bistro", "-o", str(tmp_path / "run"), *given]) == 2
    assert message in capsys.readouterr().err


# Before training, and while it goes on


class Beginning(TrainerCallback):  # type: ignore[misc]
    """What the weights are when training begins."""

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self.weights = {name: weight.detach().clone() for name, weight in model.state_dict().items()}


@pytest.mark.parametrize(
    "settings",
    [
        {"seed": 3},
        {"preset": "tp9-cls", "special": "random", "seed": 1},
        {"entropy_penalty": 0.1, "positions": "learned", "seed": 2},
        {"lift": 20, "width": None, "freeze": True},
    ],
    ids=str,
)
def test_untrained_has_the_very_weights_that_training_begins_with(
    splits: dict[str, Corpus], tmp_path: Path, vectors: str, settings: dict[str, Any]
) -> None:
    given = replace(QUICK, epochs=1, vectors=vectors if "lift" in settings else None, **settings)
    beginning = Beginning()
    train(splits, tmp_path / "run", given, callbacks=[beginning])
    before = untrained(splits["train"], given)
    state = before.module.state_dict()
    assert state.keys() == beginning.weights.keys()
    assert all(torch.equal(state[name], weight) for name, weight in beginning.weights.items())
    assert not before.module.training
    assert before.labels == ("good", "bad")
    assert before.name == f"{given.preset} before training"
    assert untrained(splits["train"], replace(given, seed=9)).digest() != before.digest()
    table = measure(before, splits["test"], ["sim"], Options(device="cpu"))["sim"]
    assert np.isfinite(table["value"]).all()


def test_an_untrained_checkpoint_has_its_body_and_a_head_of_the_seed(splits: dict[str, Corpus], tmp_path: Path) -> None:
    ours = train(splits, tmp_path / "run", QUICK).folder
    renamed = Corpus.of([Example("good soup", "x"), Example("bad soup", "y")])
    one, same, other = (untrained(renamed, Training(checkpoint=ours, seed=seed, device="cpu")) for seed in (0, 0, 1))
    assert one.labels == ("x", "y")
    assert one.digest() == same.digest() != other.digest()
    assert torch.equal(one.module.embedding.weight, weights_of(ours)["embedding.weight"])


@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_geometry_of_every_epoch_changes_no_number(splits: dict[str, Corpus], tmp_path: Path, penalty: float) -> None:
    settings = replace(QUICK, epochs=3, entropy_penalty=penalty)
    plain = train(splits, tmp_path / "plain", settings)
    watch = GeometryCallback(None, splits["test"], every="epoch", size=16)
    watched = train(splits, tmp_path / "watched", settings, callbacks=[watch])
    one, other = weights_of(plain.folder), weights_of(watched.folder)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert [row["epoch"] for row in watch.rows] == [0, 1, 2, 3]
    assert [row["step"] for row in watch.rows] == [0, 4, 8, 12]
    before = untrained(splits["train"], settings)
    expected = geometry(before.module, before.tokenizer, splits["test"].first(16))
    assert {name: watch.rows[0][name] for name in expected} == pytest.approx(expected, rel=1e-12)
    assert not any(math.isnan(value) for row in watch.rows for value in row.values())


def test_the_last_row_is_the_geometry_of_the_model_that_is_kept(splits: dict[str, Corpus], tmp_path: Path) -> None:
    """Of one epoch, which is the best."""
    watch = GeometryCallback(None, splits["test"], every="epoch", size=16)
    loaded = load_model(train(splits, tmp_path / "run", replace(QUICK, epochs=1), callbacks=[watch]).folder)
    expected = geometry(loaded.module, loaded.tokenizer, splits["test"].first(16))
    assert {name: watch.rows[-1][name] for name in expected} == pytest.approx(expected, rel=1e-6)
    assert len(watch.rows) == 2


def test_how_often_to_measure_is_a_number_of_steps_or_an_epoch(pure: LoadedModel) -> None:
    with pytest.raises(MeasureError, match="every='epochs' is neither a number of steps nor 'epoch'; give one of them"):
        GeometryCallback(pure.tokenizer, load_corpus("bistro:test"), every="epochs")


# A memo


VARIANTS: list[dict[str, Any]] = [
    {},
    {"entropy_penalty": 0.1, "rationale_penalty": 0.5},
    {"preset": "tp9-base"},
    {"max_length": 4},
    {"lift": 12, "width": None},
]


def test_a_memo_changes_no_number(splits: dict[str, Corpus], tmp_path: Path, vectors: str) -> None:
    memo = Memo()
    for run, changes in enumerate((*VARIANTS, *VARIANTS)):
        settings = replace(QUICK, seed=run % 2, batches="shuffled", vectors=vectors if "lift" in changes else None, **changes)
        plain = train(splits, tmp_path / f"plain {run}", settings)
        shared = train(splits, tmp_path / f"shared {run}", settings, memo=memo)
        one, other = weights_of(plain.folder), weights_of(shared.folder)
        assert all(torch.equal(one[name], other[name]) for name in one)
        assert plain.scores == shared.scores
        assert load_model(plain.folder).digest() == load_model(shared.folder).digest()
        assert load_model(shared.folder).max_length == settings.max_length
        before = untrained(splits["train"], settings, memo)
        assert before.digest() == untrained(splits["train"], settings).digest()


def test_with_a_memo_equal_texts_are_encoded_once(
    splits: dict[str, Corpus], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded, plain = [], encoding._encoded
    monkeypatch.setattr(encoding, "_encoded", lambda example, *rest: encoded.append(example.text) or plain(example, *rest))
    memo = Memo()
    for seed in (0, 1, 2):
        equal = {name: Corpus.of(list(corpus), f"{name} {seed}") for name, corpus in splits.items()}
        train(equal, tmp_path / str(seed), replace(QUICK, epochs=1, seed=seed), memo=memo)
    assert len(encoded) == len(set(encoded)) == 128
    train(splits, tmp_path / "marks", replace(QUICK, epochs=1, entropy_penalty=0.1), memo=memo)
    assert len(encoded) == 256
    train(splits, tmp_path / "short", replace(QUICK, epochs=1, max_length=4), memo=memo)
    assert len(encoded) == 384
    train({**splits, "test": reviews(32, 128)}, tmp_path / "other", replace(QUICK, epochs=1), memo=memo)
    assert len(encoded) == 416


def test_several_seeds_encode_once(splits: dict[str, Corpus], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded, plain = [], encoding._encoded
    monkeypatch.setattr(encoding, "_encoded", lambda example, *rest: encoded.append(example.text) or plain(example, *rest))
    train_seeds(lambda seed: splits, tmp_path, replace(QUICK, epochs=1), (0, 1, 2))
    assert len(encoded) == 128


def test_the_same_texts_in_another_order_or_with_other_labels_are_other_rows(splits: dict[str, Corpus]) -> None:
    _, tokenizer = build(splits["train"], QUICK)
    memo, numbers = Memo(), {"good": 0, "bad": 1}
    texts = list(splits["train"])
    backwards = Corpus.of(texts[::-1])
    assert in_order(texts) != in_order(texts[::-1])
    assert in_order(texts) == in_order(list(splits["train"]))
    for corpus in (splits["train"], backwards):
        for labels in (numbers, {"bad": 0, "good": 1}):
            assert Encoded(corpus, labels, tokenizer, 64, memo=memo).rows == Encoded(corpus, labels, tokenizer, 64).rows
    assert memo.made == 4


def test_a_memo_gives_away_no_tokenizer_that_a_model_could_change(splits: dict[str, Corpus]) -> None:
    memo = Memo()
    one, other = (build(splits["train"], replace(QUICK, max_length=length), memo)[1] for length in (5, 9))
    assert (one.model_max_length, other.model_max_length) == (5, 9)
    assert one.get_vocab() == other.get_vocab()


def test_a_memo_keeps_what_was_used_last() -> None:
    memo = Memo(most=2)
    for key in ("a", "b", "a", "c"):
        assert memo.kept("rows", key, lambda key=key: key.upper()) == key.upper()
    assert memo.kept("vectors", "a", lambda: 5) == 5
    made = memo.made
    assert memo.kept("rows", "a", lambda: "new") == "A"
    assert memo.made == made
    assert memo.kept("rows", "b", lambda: "new") == "new"
