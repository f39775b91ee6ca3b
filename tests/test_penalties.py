"""Penalties on attention: their formulas, their gradients, and that they see weights before dropout."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from architectures import tiny
from conoscope.common.errors import CaptureError, ModelError
from conoscope.corpora import Corpus, Example
from conoscope.training.attention_weights import BACKEND, collected
from conoscope.training.building import untrained
from conoscope.training.encoding import Collator, Encoded
from conoscope.training.penalised_trainer import PenalisedTrainer
from conoscope.training.penalties import Marks, Penalties, normalized_entropy, penalty
from conoscope.training.settings import Training

LENGTHS = (6, 4, 1)


def marks(lengths: tuple[int, ...] = LENGTHS) -> Marks:
    """[CLS] first, a separator last where there is room; the second text was shown to nobody."""
    longest = max(lengths)
    real = torch.arange(longest) < torch.tensor(lengths)[:, None]
    places = torch.arange(longest).expand_as(real)
    special = (places == 0) | (places == torch.tensor(lengths)[:, None] - 1) & (torch.tensor(lengths)[:, None] > 2)
    marked = torch.where(real, (places % 2).long(), -1)
    marked[1] = -1
    return Marks(real, real & ~special, torch.zeros(len(lengths), dtype=torch.long), marked)


def random_maps(layers: int = 2, heads: int = 3, given: Marks | None = None, seed: int = 0) -> tuple[Tensor, list[Tensor]]:
    """Scores, and the weights of each layer that follow from them."""
    real = (given or marks()).real
    scores = torch.randn(layers, len(real), heads, *real.shape[1:], real.shape[1], dtype=torch.float64,
                         generator=torch.Generator().manual_seed(seed), requires_grad=True)  # fmt: skip
    return scores, [weights.detach() for weights in weights_of(scores, real)]


def weights_of(scores: Tensor, real: Tensor) -> list[Tensor]:
    return list(scores.masked_fill(~real[:, None, None, :], -torch.inf).softmax(-1))


def naive_entropy(row: Tensor, n: int) -> float:
    return -sum(p * math.log(p) for p in row.tolist() if p > 0) / math.log(max(n, 2))


def test_the_entropy_penalty_is_the_mean_entropy_of_the_first_layers_row_of_cls() -> None:
    _, maps = random_maps()
    expected = [naive_entropy(maps[0][b].mean(0)[0], n) for b, n in enumerate(LENGTHS)]
    ours = penalty(maps, marks(), Penalties(entropy=0.25))
    assert ours.item() == pytest.approx(0.25 * sum(expected) / 3, rel=1e-12)


def test_all_rows_of_some_layers() -> None:
    _, maps = random_maps(layers=4)
    expected = [naive_entropy(maps[layer][b].mean(0)[i], n) for layer in (1, 2) for b, n in enumerate(LENGTHS) for i in range(n)]
    ours = penalty(maps, marks(), Penalties(entropy=1.0, rows="all", layers=(2, 3)))
    assert ours.item() == pytest.approx(sum(expected) / len(expected), rel=1e-12)


def test_the_summed_penalty_is_the_sum_in_nats_over_a_padded_batch() -> None:
    _, maps = random_maps()
    nats = [naive_entropy(maps[0][b].mean(0)[0], n) * math.log(max(n, 2)) for b, n in enumerate(LENGTHS)]
    chosen = Penalties(entropy=0.25, unit="summed")
    assert penalty(maps, marks(), chosen).item() == pytest.approx(0.25 * sum(nats), rel=1e-12)
    parts = []
    for b, n in enumerate(LENGTHS):
        known = marks()
        alone = Marks(known.real[b : b + 1, :n], known.content[b : b + 1, :n], known.cls[b : b + 1], known.marked[b : b + 1, :n])
        parts.append(penalty([m[b : b + 1, :, :n, :n] for m in maps], alone, chosen).item())
    assert penalty(maps, marks(), chosen).item() == pytest.approx(sum(parts), rel=1e-12)


def test_the_summed_penalty_of_all_rows_is_the_sum_over_real_rows_of_layers() -> None:
    _, maps = random_maps(layers=3)
    nats = [
        naive_entropy(maps[layer][b].mean(0)[i], n) * math.log(max(n, 2))
        for layer in (1, 2)
        for b, n in enumerate(LENGTHS)
        for i in range(n)
    ]
    ours = penalty(maps, marks(), Penalties(entropy=1.0, rows="all", layers=(2, 3), unit="summed"))
    assert ours.item() == pytest.approx(sum(nats), rel=1e-12)


@pytest.mark.parametrize("rows", ["cls", "all", "columns"])
def test_on_texts_of_one_length_the_two_units_differ_by_their_number_and_its_logarithm(rows: str) -> None:
    known = marks((6, 6))
    _, maps = random_maps(given=known)
    mean, summed = (penalty(maps, known, Penalties(entropy=1.0, rows=rows, unit=unit)).item() for unit in ("sentence", "summed"))
    shares = int(known.content[0].sum()) if rows == "columns" else 6
    assert summed == pytest.approx(2 * mean * math.log(shares) * (6 if rows == "all" else 1), rel=1e-12)


def test_the_unit_is_of_the_entropy_alone() -> None:
    _, maps = random_maps()
    for kind in ("rationale", "lagrange"):
        one, other = (penalty(maps, marks(), Penalties(unit=unit, **{kind: 1.0})).item() for unit in ("sentence", "summed"))
        assert one == other


@pytest.mark.parametrize("unit", ["sentence", "summed"])
def test_a_batch_run_in_groups_of_equal_length_has_the_loss_of_the_padded_batch(unit: str, tmp_path: Path) -> None:
    texts = [Example("soup " * (1 + n % 5), ("good", "bad")[n % 2]) for n in range(13)]
    corpus = Corpus.of(texts)
    loaded = untrained(corpus, Training(layers=2, width=16, positions="learned", special="random", device="cpu"))
    rows = Encoded(corpus, {"good": 0, "bad": 1}, loaded.tokenizer, 64, marks=True)
    batch = Collator(loaded.tokenizer)([rows[n] for n in range(13)])
    loaded.module.set_attn_implementation(BACKEND)
    losses = []
    for side in ("right", None):
        trainer = PenalisedTrainer(
            loaded.module, TrainingArguments(str(tmp_path), use_cpu=True, report_to="none"), penalties=Penalties(2.0, unit=unit),
            tokenizer=loaded.tokenizer, reading=replace(loaded.reading, side=side),
        )  # fmt: skip
        losses.append(trainer.compute_loss(loaded.module, dict(batch)).item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_the_aggregate_of_bert_is_a_softmax_of_sums_of_columns_among_content_tokens() -> None:
    _, maps = random_maps(layers=3)
    found, known = [], marks()
    for b, n in enumerate(LENGTHS):
        sums = sum(maps[layer][b].mean(0)[:n].sum(0) for layer in (1, 2))
        content = known.content[b] if known.content[b].any() else known.real[b]
        found.append(naive_entropy(sums[content].softmax(-1), int(content.sum())))
    ours = penalty(maps, known, Penalties(entropy=1.0, rows="columns", layers=(2, 3)))
    assert ours.item() == pytest.approx(sum(found) / 3, rel=1e-9)


@pytest.mark.parametrize("scale", ["minmax", "raw", "sigmoid"])
def test_the_rationale_penalty_is_one_less_the_iou_over_content_tokens(scale: str) -> None:
    _, maps = random_maps()
    known = marks()
    shared = given = wanted = 0.0
    for b in (0,):
        row, content = maps[0][b].mean(0)[0], known.content[b]
        chosen = row[content]
        if scale == "minmax" and len(chosen):
            chosen = (chosen - chosen.min()) / max(float(chosen.max() - chosen.min()), 1e-7)
        chosen = chosen.sigmoid() if scale == "sigmoid" else chosen
        truth = known.marked[b][content] > 0
        shared, given, wanted = shared + float(chosen[truth].sum()), given + float(chosen.sum()), wanted + int(truth.sum())
    expected = 1 - (shared + 1e-7) / (given + wanted - shared + 1e-7)
    assert penalty(maps, known, Penalties(rationale=2.0, scale=scale)).item() == pytest.approx(2 * expected, rel=1e-9)


def test_the_lagrange_penalty_is_the_distance_of_entropies() -> None:
    _, maps = random_maps()
    known = marks()
    found = []
    for b, n in ((0, 6), (2, 1)):
        count = int(((known.marked[b] > 0) & known.real[b]).sum())
        human = math.log(count) / math.log(max(n, 2)) if count else 0.0
        found.append(abs(naive_entropy(maps[0][b].mean(0)[0], n) - human))
    assert penalty(maps, known, Penalties(lagrange=1.0)).item() == pytest.approx(sum(found) / 2, rel=1e-9)


def naive_row(maps: list[Tensor], b: int, n: int, rows: str, known: Marks) -> tuple[Tensor, Tensor]:
    """The attention that each token gets, and among which tokens."""
    heads = [m[b].mean(0) for m in maps]
    if rows == "cls":
        return sum(h[0] for h in heads) / len(heads), known.real[b]
    if rows == "all":
        return sum(h[i] for h in heads for i in range(n)) / (n * len(heads)), known.real[b]
    content = known.content[b] if known.content[b].any() else known.real[b]
    shares = torch.zeros_like(heads[0][0])
    shares[content] = sum(h[i] for h in heads for i in range(n))[content].softmax(-1)
    return shares, content


@pytest.mark.parametrize("rows", ["cls", "all", "columns"])
def test_supervised_penalties_of_several_layers_are_their_formulas(rows: str) -> None:
    _, maps = random_maps(layers=3)
    known = marks()
    shared = given = wanted = 0.0
    distances = []
    for b, n in ((0, 6), (2, 1)):
        row, among = naive_row(maps[1:], b, n, rows, known)
        truth = known.marked[b] > 0
        count = int((truth & among).sum())
        human = math.log(count) / math.log(max(int(among.sum()), 2)) if count else 0.0
        distances.append(abs(naive_entropy(row[among], int(among.sum())) - human))
        if truth.any():
            content = known.content[b]
            shared, given = shared + float(row[content & truth].sum()), given + float(row[content].sum())
            wanted += int((content & truth).sum())
    chosen = Penalties(rows=rows, layers=(2, 3), scale="raw")
    miss = 1 - (shared + 1e-7) / (given + wanted - shared + 1e-7)
    assert penalty(maps, known, replace(chosen, rationale=1.0)).item() == pytest.approx(miss, rel=1e-9)
    assert penalty(maps, known, replace(chosen, lagrange=1.0)).item() == pytest.approx(sum(distances) / 2, rel=1e-9)


def test_a_text_in_which_people_marked_nothing_is_no_part_of_the_rationale_penalty() -> None:
    _, maps = random_maps()
    known = marks()
    nothing = known.marked.clone()
    nothing[1] = torch.where(known.real[1], 0, -1)
    chosen = Penalties(rationale=1.0)
    assert penalty(maps, replace(known, marked=nothing), chosen).item() == penalty(maps, known, chosen).item()


def test_texts_that_nobody_marked_are_no_part_of_it() -> None:
    _, maps = random_maps()
    nobody = replace(marks(), marked=torch.full_like(marks().marked, -1))
    assert penalty(maps, nobody, Penalties(rationale=1.0, lagrange=1.0)).item() == 0


def test_closed_forms() -> None:
    uniform = torch.full((2, 5), 0.2, dtype=torch.float64)
    assert normalized_entropy(uniform, torch.tensor([5, 5])).tolist() == pytest.approx([1, 1])
    one_hot = torch.eye(3, dtype=torch.float64)
    assert normalized_entropy(one_hot, torch.tensor([3, 3, 1])).tolist() == pytest.approx([0, 0, 0], abs=1e-12)


@pytest.mark.parametrize("rows", ["cls", "all", "columns"])
@pytest.mark.parametrize("kind", ["entropy", "rationale", "lagrange"])
def test_the_gradient_is_that_of_finite_differences(kind: str, rows: str) -> None:
    known = marks()
    chosen = replace(Penalties(rows=rows, layers=(1, 2)), **{kind: 0.7})
    scores, _ = random_maps(given=known)

    def loss(given: Tensor) -> Tensor:
        return penalty(weights_of(given, known.real), known, chosen)

    assert torch.autograd.gradcheck(loss, (scores,), eps=1e-6, atol=1e-6)


def test_the_gradient_is_finite_where_a_weight_is_zero() -> None:
    scores = torch.tensor([[[[[0.0, -2000.0], [0.0, 0.0]]]]], dtype=torch.float32, requires_grad=True)
    known = Marks(torch.ones(1, 2).bool(), torch.tensor([[False, True]]), torch.tensor([0]), torch.tensor([[0, 1]]))
    penalty(list(scores.softmax(-1)), known, Penalties(entropy=1.0, rationale=1.0, lagrange=1.0)).backward()
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"layers": (1, 3)}, "no layers 1..3 to penalise in a model of 2; count from 1"),
        ({"layers": (0, 1)}, "no layers 0..1 to penalise"),
        ({"rows": "some"}, "no rows 'some' of a penalty; known: all, cls, columns"),
        ({"unit": "bits"}, "no unit 'bits' of a penalty; known: sentence, summed"),
        ({"scale": "big"}, "no scale 'big' of a penalty; known: minmax, raw, sigmoid"),
    ],
)
def test_what_cannot_be_penalised_is_told(chosen: dict[str, object], message: str) -> None:
    _, maps = random_maps()
    with pytest.raises(ModelError, match=message):
        penalty(maps, marks(), Penalties(entropy=1.0, **chosen))


def test_without_a_cls_its_row_cannot_be_penalised() -> None:
    _, maps = random_maps()
    with pytest.raises(ModelError, match=r"no \[CLS\] whose attention could be penalised; give --penalty-rows all"):
        penalty(maps, replace(marks(), cls=torch.tensor([0, -1, 0])), Penalties(entropy=1.0))


# Weights of a real architecture, in training


def bert(dropout: float = 0.0) -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, initializer_range=0.4,
        attention_probs_dropout_prob=dropout, hidden_dropout_prob=0.0, pad_token_id=0,
    )  # fmt: skip
    return BertForSequenceClassification(config).train()


def inputs() -> dict[str, Tensor]:
    real = torch.arange(7) < torch.tensor([[7], [4]])
    return {
        "input_ids": torch.randint(1, 50, (2, 7), generator=torch.Generator().manual_seed(1)) * real,
        "attention_mask": real.long(),
        "labels": torch.tensor([0, 1]),
    }


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "electra", "albert", "modernbert", "gpt2", "llama"])
def test_the_backend_changes_nothing_but_shows_the_weights(name: str) -> None:
    model = tiny(name).eval()
    batch = {key: value for key, value in inputs().items() if key != "labels"}
    batch["input_ids"] = batch["input_ids"] % 30
    model.set_attn_implementation("eager")
    expected = model(**batch)
    model.set_attn_implementation(BACKEND)
    with collected(model) as maps:
        found = model(**batch)
    one, other = (out.logits if "logits" in out else out.last_hidden_state for out in (expected, found))
    real = batch["attention_mask"].bool()
    assert torch.equal(one, other) if one.ndim == 2 else torch.equal(one[real], other[real])
    assert len(maps) == model.config.num_hidden_layers
    assert all(m.transpose(-1, -2)[1, :, 4:].abs().max().item() < 1e-6 for m in maps)


def test_weights_are_those_before_dropout_and_what_is_mixed_those_after() -> None:
    model = bert(dropout=0.5)
    model.set_attn_implementation(BACKEND)
    torch.manual_seed(1)
    with collected(model) as maps:
        one = model(**inputs()).logits
    with collected(model) as again:
        other = model(**inputs()).logits
    real = inputs()["attention_mask"].bool()
    torch.testing.assert_close(maps[0].sum(-1).transpose(1, 2)[real], torch.ones_like(maps[0].sum(-1)).transpose(1, 2)[real])
    torch.testing.assert_close(maps[0], again[0])
    assert not torch.allclose(one, other)


def test_grouped_queries_are_dropped_out_as_each_group_has_them() -> None:
    """Four queries to two values: the first two belong to the first value."""
    model = tiny("llama").train()
    attention = next(part for part in model.modules() if type(part).__name__ == "LlamaAttention")
    heads, groups = attention.config.num_attention_heads, attention.config.num_key_value_heads
    assert heads > groups
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, h, 5, 4) for h in (heads, groups, groups))
    context, weights = ALL_ATTENTION_FUNCTIONS[BACKEND](attention, query, key, value, None, scaling=0.5, dropout=1e-12)
    expected = torch.stack([weights[0, h] @ value[0, h // (heads // groups)] for h in range(heads)], dim=1)
    torch.testing.assert_close(context[0], expected)


def gradients(model: BertForSequenceClassification) -> dict[str, Tensor]:
    known = marks((7, 4))
    with collected(model) as maps:
        outputs = model(**inputs())
    (outputs.loss + penalty(maps, known, Penalties(entropy=1.0, rationale=1.0, layers=(1, 2)))).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_checkpointing_that_is_not_reentrant_gives_the_same_gradients() -> None:
    plain, saving = bert(), bert()
    saving.gradient_checkpointing_enable({"use_reentrant": False})
    for model in (plain, saving):
        model.set_attn_implementation(BACKEND)
    one, other = gradients(plain), gradients(saving)
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name])
    assert one["bert.encoder.layer.0.attention.self.query.weight"].abs().max().item() > 0


def test_reentrant_checkpointing_is_refused() -> None:
    model = bert()
    model.gradient_checkpointing_enable({"use_reentrant": True})
    model.set_attn_implementation(BACKEND)
    with pytest.raises(ModelError, match="reentrant gradient checkpointing hides it from a penalty"):
        gradients(model)


def test_a_model_without_attention_cannot_be_penalised() -> None:
    with pytest.raises(CaptureError, match="never called transformers' attention interface"), collected(bert()):
        pass
