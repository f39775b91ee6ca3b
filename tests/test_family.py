"""The family of self-attention classifiers: each member by its formula, and the faults that students make."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers.utils import logging

from conoscope.capture.batch import Batch
from conoscope.capture.recorder import traces_of, verify
from conoscope.common.errors import ModelError
from conoscope.models.family import CHOICES, PRESETS, SelfAttentionForSequenceClassification, preset
from conoscope.models.layers import SelfAttentionLayer, sinusoids

logging.set_verbosity_error()
WIDTH = 12


def model(name: str = "pure-attention", **changes: object) -> SelfAttentionForSequenceClassification:
    torch.manual_seed(0)
    built = SelfAttentionForSequenceClassification(preset(name, **{"vocab_size": 40, "hidden_size": WIDTH, **changes})).double()
    for parameter in built.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, std=0.3)
    return built.eval()


def batch(lengths: tuple[int, ...] = (7, 4, 1), pads: int = 0) -> Batch:
    real = torch.arange(max(lengths) + pads) < torch.tensor(lengths)[:, None]
    ids = torch.randint(1, 40, (len(lengths), 20), generator=torch.Generator().manual_seed(3))[:, : real.shape[1]]
    return Batch.of_ids(ids * real, real, torch.zeros(len(lengths), dtype=torch.long))


def logits(of: SelfAttentionForSequenceClassification, given: Batch) -> Tensor:
    with torch.no_grad():
        return of(**given.inputs).logits


def naive_attention(layer: SelfAttentionLayer, x: Tensor, heads: int) -> Tensor:
    """Of one text without pads, token by token: softmax over the keys of q.k / sqrt(e)."""
    attention, width = layer.attention, x.shape[-1] // heads
    q, k, v = (each(x) for each in (attention.query, attention.key, attention.value))
    rows = []
    for i in range(len(x)):
        mixed = []
        for h in range(heads):
            at = slice(h * width, (h + 1) * width)
            scores = []
            for j in range(len(x)):
                key = k[j, at]
                if attention.distance is not None:
                    window = attention.config.window
                    key = key + attention.distance.weight[max(-window, min(window, j - i)) + window]
                scores.append(float(q[i, at] @ key) / math.sqrt(width))
            weights = [math.exp(s - max(scores)) for s in scores]
            mixed.append(sum(w / sum(weights) * v[j, at] for j, w in enumerate(weights)))
        rows.append(torch.cat(mixed))
    return attention.output(torch.stack(rows))


def naive_layer(layer: SelfAttentionLayer, x: Tensor, heads: int) -> Tensor:
    def normed(y: Tensor) -> Tensor:
        centred = y - y.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * layer.norm.weight + layer.norm.bias

    def g(y: Tensor) -> Tensor:
        return (y @ layer.feed[0].weight.T + layer.feed[0].bias).clamp_min(0) if isinstance(layer.feed, nn.Sequential) else y

    match layer.residual:
        case "none":
            return g(naive_attention(layer, x, heads))
        case "course":
            return g(x + naive_attention(layer, normed(x), heads))
        case "prenorm":
            return x + g(naive_attention(layer, normed(x), heads))
        case "postnorm":
            return normed(x + g(naive_attention(layer, x, heads)))
    y = x + g(naive_attention(layer, x, heads))
    return (y - y.mean(-1, keepdim=True)) / y.std(-1, keepdim=True)


def naive_logits(of: SelfAttentionForSequenceClassification, ids: Tensor) -> Tensor:
    """One text, without a pad, as the sheet has it."""
    config, x = of.config, of.embedding.weight[ids]
    if config.positions == "sinusoidal":
        table = [[math.sin(i / 10000 ** (h / WIDTH)) if h % 2 == 0 else math.cos(i / 10000 ** ((h - 1) / WIDTH))
                  for h in range(WIDTH)] for i in range(len(ids))]  # fmt: skip
        x = x + config.position_scale * torch.tensor(table, dtype=x.dtype)
    elif config.positions == "learned":
        x = x + of.position.weight[: len(ids)]
    for layer in of.layers:
        x = naive_layer(layer, x, config.num_attention_heads)
    mean = sum(x) / len(x)
    if config.pool == "cls":
        pooled = x[0]
    elif config.pool == "mean":
        pooled = mean
    else:
        question = of.pooling.question if config.pool == "simple" else of.pooling.asked(mean)
        weights = torch.tensor([float(question @ row) for row in x], dtype=x.dtype).softmax(0)
        pooled = sum(w * of.pooling.value(row) for w, row in zip(weights, x, strict=True))
    return of.classifier(pooled)


VARIANTS = [
    *({"name": name} for name in PRESETS),
    *({"residual": residual, "feed": feed} for residual in CHOICES["residual"] for feed in CHOICES["feed"]),
    *({"positions": positions, "num_attention_heads": 2} for positions in CHOICES["positions"]),
    {"position_scale": 3**0.5, "num_hidden_layers": 2},
    {"positions": "relative", "window": 2, "num_hidden_layers": 2},
    {"output_projection": False, "num_attention_heads": 3, "pool": "mean"},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_every_member_is_its_formula_text_by_text(changes: dict[str, object]) -> None:
    of, given = model(**changes), batch()
    with torch.no_grad():
        expected = torch.stack(
            [naive_logits(of, ids[real]) for ids, real in zip(given.inputs["input_ids"], given.real, strict=True)]
        )
    torch.testing.assert_close(logits(of, given), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_padding_changes_nothing(changes: dict[str, object]) -> None:
    of = model(**changes)
    torch.testing.assert_close(logits(of, batch()), logits(of, batch(pads=5)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("changes", [v for v in VARIANTS if preset(v.get("name", "pure-attention")).num_hidden_layers], ids=str)
def test_capture_sees_every_member_that_attends(changes: dict[str, object]) -> None:
    of, given = model(**changes), batch()
    assert verify(of, given) == {"full": 0.0, "kv": 0.0}
    weights = traces_of(of, given)[1].weights
    torch.testing.assert_close(
        weights.sum(-1).transpose(1, 2)[given.real], torch.ones_like(weights.sum(-1)).transpose(1, 2)[given.real]
    )
    assert float(weights.masked_fill(given.real[:, None, None, :], 0).abs().max()) == 0


def test_the_faults_that_students_make_would_each_be_seen() -> None:
    """The formula above tells every one of them apart."""
    of, given = model("tp9-base", num_hidden_layers=1), batch((6, 6))
    x = of.embedding(given.inputs["input_ids"])
    attention = of.layers[0].attention
    q, k, v = (each(x) for each in (attention.query, attention.key, attention.value))
    scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH)

    def answer(mixed: Tensor) -> Tensor:
        return of.classifier(of.layers[0].feed(mixed).mean(1))

    right = logits(of, given)
    torch.testing.assert_close(answer(scores.softmax(-1) @ v), right)
    faults = {
        "softmax over the wrong axis": scores.softmax(-2) @ v,
        "softmax twice": scores.softmax(-1).softmax(-1) @ v,
        "keys and values swapped": (q @ v.transpose(-1, -2) / math.sqrt(WIDTH)).softmax(-1) @ k,
        "divided by the root of the length": (scores * math.sqrt(WIDTH / 6)).softmax(-1) @ v,
        "not divided": (scores * math.sqrt(WIDTH)).softmax(-1) @ v,
    }
    for fault, mixed in faults.items():
        assert not torch.allclose(answer(mixed), right, atol=1e-4), fault


def test_a_mean_over_padded_length_would_be_seen() -> None:
    of, given = model("mean"), batch((6, 2))
    x = of.embedding(given.inputs["input_ids"])
    wrong = of.classifier(x.mul(given.real[..., None]).mean(1))
    assert not torch.allclose(wrong, logits(of, given), atol=1e-4)


def test_batch_normalisation_in_place_of_layer_normalisation_would_be_seen() -> None:
    of = model("tp9-residual", num_hidden_layers=1)
    alone, together = logits(of, batch((5,))), logits(of, batch((5, 3)))
    torch.testing.assert_close(alone[0], together[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_relative_positions_work_in_sixteen_bits(dtype: torch.dtype) -> None:
    of = model(positions="relative").to(dtype)
    assert torch.isfinite(logits(of, batch())).all()


def test_learned_positions_end_somewhere_and_a_model_says_where() -> None:
    assert model(positions="learned").config.max_position_embeddings == 512
    assert model(positions="learned", max_position_embeddings=30).position.num_embeddings == 30
    assert model(positions="sinusoidal").config.max_position_embeddings is None


def test_the_scale_multiplies_the_sinusoids_and_nothing_else() -> None:
    ids = batch((7,)).inputs["input_ids"]
    states = {scale: traces_of(model(position_scale=scale), batch((7,)))[1].input[0] for scale in (1.0, 3**0.5)}
    embedded = model().embedding(ids)[0].detach()
    table = sinusoids(7, WIDTH, like=embedded)
    for scale, state in states.items():
        torch.testing.assert_close(state - embedded, scale * table, rtol=1e-12, atol=1e-12)
    plain, none = model(position_scale=3**0.5, positions="learned"), model(positions="learned")
    assert torch.equal(logits(plain, batch()), logits(none, batch()))


def test_configurations_saved_before_there_was_a_scale_load_and_are_still_saved_so(tmp_path: Path) -> None:
    model().save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert "position_scale" not in saved
    assert SelfAttentionForSequenceClassification.from_pretrained(tmp_path).config.position_scale == 1.0
    model(position_scale=0.5).save_pretrained(tmp_path)
    assert SelfAttentionForSequenceClassification.from_pretrained(tmp_path).config.position_scale == 0.5


@pytest.mark.parametrize("option", CHOICES)
def test_an_unknown_choice_names_the_known_ones(option: str) -> None:
    with pytest.raises(ModelError, match=f"no {option} 'odd'; known: "):
        model(**{option: "odd"})


def test_gradient_checkpointing_gives_the_same_gradients() -> None:
    plain, saving = model("tp9-residual").train(), model("tp9-residual").train()
    saving.gradient_checkpointing_enable({"use_reentrant": False})
    for of in (plain, saving):
        of(**batch().inputs, labels=torch.tensor([0, 1, 0])).loss.backward()
    for one, other in zip(plain.parameters(), saving.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
