"""The answer split along the direct path: sums on every architecture, against parts that are followed by hand."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import NewGELUActivation

from architectures import CAUSAL, SHAPES, padded, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.capture.recorder import traces_of
from conoscope.causes import attribution_split
from conoscope.causes.attribution_path import Part
from conoscope.causes.attribution_split import Split, Splitter
from conoscope.common.errors import CaptureError
from conoscope.models.tokenizer import build_tokenizer
from handmade import WORDS
from test_wiring import member, other

FAMILY = {
    **{name: {} for name in ("pure-attention", "tp9-base", "tp9-residual", "tp9-positions", "tp9-cls")},
    **{
        f"{residual} {feed}": {"residual": residual, "feed": feed}
        for residual in ("none", "course", "prenorm", "postnorm", "pure")
        for feed in ("none", "linear")
    },
    **{pool: {"pool": pool, "residual": "prenorm"} for pool in ("simple", "question", "question-value")},
}
OTHERS: dict[str, dict[str, Any]] = {
    "modernbert": {"classifier_pooling": "mean"},
    "phi": {},
    "gpt_neox": {},
    "opt": {},
    "bloom": {},
    "big_bird": {"attention_type": "original_full"},
    "roformer": {},
    "esm": {"position_embedding_type": "rotary"},
    "gemma2": {"head_dim": 8, "num_key_value_heads": 2},
    "olmo2": {"num_key_value_heads": 2},
}
"""Attention and feed-forward parts side by side, one axis of texts and tokens, a nonlinear function made in each pass, a
normalisation after the feed-forward part, and others."""


def loaded(module: PreTrainedModel) -> LoadedModel:
    module.config.id2label = {0: "a", 1: "b", 2: "c"}
    return load_model(module, build_tokenizer([" ".join(WORDS)]))


def split(module: PreTrainedModel, batch: Batch | None = None) -> Split:
    with Splitter(loaded(module)) as splitter:
        return splitter(padded() if batch is None else batch)


def alone(module: PreTrainedModel, batch: Batch) -> Tensor:
    """The logits of each text without padding, from the model as it is."""
    rows = [ids[real][None] for ids, real in zip(batch.inputs["input_ids"], batch.real, strict=True)]
    with torch.no_grad():
        return torch.cat([module(input_ids=row).logits for row in rows])


def difference(logits: Tensor) -> Tensor:
    largest = logits.double().topk(2, -1).values
    return largest[:, 0] - largest[:, 1]


def total(found: Split) -> Tensor:
    return torch.stack(list(found.parts.values())).sum(0)


@pytest.mark.parametrize("name", SHAPES)
def test_the_parts_add_up_to_the_models_own_logit_difference(name: str) -> None:
    module, batch = tiny(name, torch.float64), padded()
    found = split(module, batch)
    logits = alone(module, batch)
    assert ((total(found) - difference(logits)).abs() <= 1e-5 * found.size).all()
    assert torch.equal(found.predicted, logits.argmax(-1))
    assert {part.part for part in found.parts} >= {"words", "head", "forward"}
    heads = torch.stack([x for part, x in found.parts.items() if part.part == "head"])
    assert len(heads) == 12
    assert (heads.abs() > 1e-6).all()
    for part, x in found.tokens.items():
        torch.testing.assert_close(x.sum(-1), found.parts[part], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", FAMILY)
def test_the_parts_of_our_own_models_add_up(name: str) -> None:
    preset = name if "-" in name and name.startswith(("tp9", "pure-")) else "pure-attention"
    module, batch = member(preset, num_labels=3, **FAMILY[name]), padded()
    found = split(module, batch)
    assert ((total(found) - difference(alone(module, batch))).abs() <= 1e-12 * found.size).all()
    assert any(part.part == "head" and bool((x != 0).all()) for part, x in found.parts.items())


@pytest.mark.parametrize("name", OTHERS)
def test_other_designs_add_up(name: str) -> None:
    module, batch = other(name, **OTHERS[name]).double(), padded()
    found = split(module, batch)
    assert ((total(found) - difference(alone(module, batch))).abs() <= 1e-5 * found.size).all()
    assert sum(part.part == "head" for part in found.parts) == 12
    assert sum(part.part == "forward" for part in found.parts) == 3


class Followed:
    """Parts of a stream, each a tensor, followed by hand through what is linear."""

    def __init__(self) -> None:
        self.parts: dict[Part, Tensor] = {}

    def add(self, part: Part, x: Tensor) -> None:
        self.parts[part] = self.parts[part] + x if part in self.parts else x.clone()

    @property
    def whole(self) -> Tensor:
        return torch.stack(torch.broadcast_tensors(*self.parts.values())).sum(0)

    def normalise(self, norm: nn.LayerNorm, layer: int | None, site: str = "norm") -> None:
        """LayerNorm with the statistics that the sum of all parts has."""
        x = self.whole
        s = ((x - x.mean(-1, keepdim=True)).square().mean(-1, keepdim=True) + norm.eps).sqrt()
        self.parts = {part: (y - y.mean(-1, keepdim=True)) / s * norm.weight for part, y in self.parts.items()}
        self.add(Part("bias", site, layer), norm.bias.expand_as(x))

    def apply(self, linear: nn.Linear) -> None:
        self.parts = {part: y @ linear.weight.T for part, y in self.parts.items()}
        if linear.bias is not None:
            self.add(Part("bias", "classifier"), linear.bias)

    def differences(self, found: Split) -> dict[Part, Tensor]:
        rows = torch.arange(len(found.predicted))
        logits = {part: y.expand(len(rows), -1) for part, y in self.parts.items()}
        return {part: y[rows, found.predicted] - y[rows, found.second] for part, y in logits.items()}


def heads_of(module: PreTrainedModel, batch: Batch, weight: Any, extra: tuple[int, int, int] | None = None) -> Iterator[Any]:
    """For each layer what each head adds, W_O's bias left out, from traced weights and values; `extra`: a layer, head and token,
    of which the head takes that token's share only."""
    for trace in traces_of(module, batch)[1:]:
        layer = trace.layer
        w = weight(layer).unflatten(0, (4, -1))
        for head in range(1, 5):
            shares = trace.weights[:, head - 1]
            if extra is not None and extra[:2] == (layer, head):
                only = torch.zeros_like(shares)
                only[:, :, extra[2]] = shares[:, :, extra[2]]
                shares = only
            yield Part("head", "context", layer, head), shares @ trace.value[:, head - 1] @ w[head - 1]


def of_bert(module: Any, batch: Batch, found: Split, extra: tuple[int, int, int] | None = None) -> dict[Part, Tensor]:
    """BERT's parts, followed through every LayerNorm, the pooler's tanh and the classifier; with `extra` that head adds only what
    it takes from one token, and what it takes from others is a part of its own."""
    stream, body, ids = Followed(), module.bert, batch.inputs["input_ids"]
    stream.add(Part("words", "embeddings", 0), body.embeddings.word_embeddings.weight[ids])
    stream.add(
        Part("positions", "embeddings", 0), body.embeddings.position_embeddings.weight[: ids.shape[1]].expand(len(ids), -1, -1)
    )
    stream.add(Part("types", "embeddings", 0), body.embeddings.token_type_embeddings.weight[0].expand(*ids.shape, -1))
    stream.normalise(body.embeddings.LayerNorm, 0, "embeddings")
    outputs = [layer.attention.output for layer in body.encoder.layer]
    whole = dict(heads_of(module, batch, lambda layer: outputs[layer - 1].dense.weight.T))
    some = whole if extra is None else dict(heads_of(module, batch, lambda layer: outputs[layer - 1].dense.weight.T, extra))
    for number, layer in enumerate(body.encoder.layer, 1):
        for part, x in some.items():
            if part.layer == number:
                stream.add(part, x)
                if extra is not None and (part.layer, part.head) == extra[:2]:
                    stream.add(Part("rest", "context"), whole[part] - x)
        stream.add(Part("bias", "output", number), layer.attention.output.dense.bias.expand_as(stream.whole))
        stream.normalise(layer.attention.output.LayerNorm, number)
        inner = layer.intermediate(stream.whole)
        stream.add(Part("forward", "forward", number), inner @ layer.output.dense.weight.T)
        stream.add(Part("bias", "forward", number), layer.output.dense.bias.expand_as(stream.whole))
        stream.normalise(layer.output.LayerNorm, number)
    stream.parts = {part: y[:, 0] for part, y in stream.parts.items()}
    stream.apply(body.pooler.dense)
    z = stream.whole
    stream.parts = {part: y * (z.tanh() / z) for part, y in stream.parts.items()}
    stream.apply(module.classifier)
    return stream.differences(found)


def of_gpt2(module: Any, batch: Batch, found: Split) -> dict[Part, Tensor]:
    """GPT-2's parts: nothing is normalised on their way but by the last LayerNorm."""
    stream, body, ids = Followed(), module.transformer, batch.inputs["input_ids"]
    stream.add(Part("words", "embeddings", 0), body.wte.weight[ids])
    stream.add(Part("positions", "embeddings", 0), body.wpe.weight[: ids.shape[1]].expand(len(ids), -1, -1))
    heads = dict(heads_of(module, batch, lambda layer: body.h[layer - 1].attn.c_proj.weight))
    for number, layer in enumerate(body.h, 1):
        for part, x in heads.items():
            if part.layer == number:
                stream.add(part, x)
        stream.add(Part("bias", "output", number), layer.attn.c_proj.bias.expand_as(stream.whole))
        read = layer.ln_2(stream.whole)
        stream.add(Part("forward", "forward", number), layer.mlp.act(layer.mlp.c_fc(read)) @ layer.mlp.c_proj.weight)
        stream.add(Part("bias", "forward", number), layer.mlp.c_proj.bias.expand_as(stream.whole))
    stream.normalise(body.ln_f, 3)
    last = batch.real.sum(-1) - 1
    stream.parts = {part: y[torch.arange(len(last)), last] for part, y in stream.parts.items()}
    stream.apply(module.score)
    return stream.differences(found)


def with_biases(module: PreTrainedModel) -> PreTrainedModel:
    """Biases that are not 0, as they are in a new model, and gains that are not 1."""
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.2)
            elif parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return module


@torch.no_grad()
def assert_as_followed(found: Split, expected: dict[Part, Tensor]) -> None:
    assert set(found.parts) == set(expected)
    for part, x in expected.items():
        torch.testing.assert_close(found.parts[part], x, rtol=0, atol=1e-10, msg=lambda text, part=part: f"{part}: {text}")
        assert bool((x != 0).any()), part


def test_after_every_normalisation_parts_are_those_followed_by_hand() -> None:
    module, batch = with_biases(tiny("bert", torch.float64)), padded()
    found = split(module, batch)
    assert_as_followed(found, of_bert(module, batch, found))


def test_before_them_too() -> None:
    module, batch = with_biases(tiny("gpt2", torch.float64)), padded()
    found = split(module, batch)
    assert_as_followed(found, of_gpt2(module, batch, found))


@pytest.mark.parametrize(("layer", "head", "token"), [(1, 2, 0), (2, 4, 3), (3, 1, 2)])
def test_what_a_head_takes_from_a_token_is_its_part_of_what_the_head_adds(layer: int, head: int, token: int) -> None:
    module, batch = with_biases(tiny("bert", torch.float64)), padded()
    found = split(module, batch)
    part = Part("head", "context", layer, head)
    with torch.no_grad():
        expected = of_bert(module, batch, found, (layer, head, token))[part]
    torch.testing.assert_close(found.tokens[part][:, token], expected, rtol=0, atol=1e-10)
    assert (expected.abs() > 1e-6).all()


def known() -> PreTrainedModel:
    """A Llama whose classifier reads eight coordinates that head 2.3 alone writes."""
    module = tiny("llama", torch.float64)
    with torch.no_grad():
        module.score.weight[:, 8:] = 0
        module.model.embed_tokens.weight[:, :8] = 0
        for number, layer in enumerate(module.model.layers, 1):
            layer.mlp.down_proj.weight[:8] = 0
            mine = layer.self_attn.o_proj.weight[:8, 16:24].clone()
            layer.self_attn.o_proj.weight[:8] = 0
            if number == 2:
                layer.self_attn.o_proj.weight[:8, 16:24] = mine
    return module


def test_a_head_that_alone_decides_has_the_whole_difference() -> None:
    found = split(known())
    for part, x in found.parts.items():
        if part == Part("head", "context", 2, 3):
            torch.testing.assert_close(x, found.difference, rtol=1e-6, atol=0)
            assert (x > 1e-3).all()
        else:
            assert not x.any(), part


def test_permuted_heads_have_permuted_parts() -> None:
    module, order = tiny("bert", torch.float64), [2, 0, 3, 1]
    before = split(module).parts
    rows = torch.arange(32).view(4, 8)[order].flatten()
    with torch.no_grad():
        attention = module.bert.encoder.layer[1].attention
        for linear in (attention.self.query, attention.self.key, attention.self.value):
            linear.weight.copy_(linear.weight[rows])
            linear.bias.copy_(linear.bias[rows])
        attention.output.dense.weight.copy_(attention.output.dense.weight[:, rows])
    after = split(module).parts
    for new, old in enumerate(order, 1):
        torch.testing.assert_close(after[Part("head", "context", 2, new)], before[Part("head", "context", 2, old + 1)])
    for part in before:
        if (part.part, part.layer) != ("head", 2):
            torch.testing.assert_close(after[part], before[part])


@pytest.mark.parametrize("name", ["bert", "modernbert", "gpt2", "deberta-v2", "tp9-base", "pure-attention"])
def test_padding_and_the_size_of_a_batch_change_nothing(name: str) -> None:
    module = tiny(name, torch.float64) if name in SHAPES else member(name, num_labels=3)
    batch = padded(extra=0 if name in CAUSAL else 3)
    together = split(module, batch)
    for row, (ids, real) in enumerate(zip(batch.inputs["input_ids"], batch.real, strict=True)):
        one = Batch.of_ids(ids[real][None], real[real][None], at=torch.tensor([0]))
        single = split(module, one)
        assert list(single.parts) == list(together.parts)
        for part, x in together.parts.items():
            torch.testing.assert_close(single.parts[part][0], x[row], rtol=1e-9, atol=1e-10)
        for part, x in together.tokens.items():
            torch.testing.assert_close(single.tokens[part][0], x[row][real], rtol=1e-9, atol=1e-10)
            assert not x[row][~real].any()


def test_what_heads_take_is_the_same_some_texts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = tiny("bert", torch.float64)
    whole = split(module).tokens
    monkeypatch.setattr(attribution_split, "AT_ONCE", 4 * 11 * 11 * 2)
    for part, x in split(module).tokens.items():
        torch.testing.assert_close(x, whole[part], rtol=1e-12, atol=1e-14)


def test_a_text_of_one_token_is_split_too() -> None:
    module = tiny("bert", torch.float64)
    one = Batch.of_ids(torch.tensor([[7]]), torch.tensor([[True]]), at=torch.tensor([0]))
    found = split(module, one)
    assert ((total(found) - difference(alone(module, one))).abs() <= 1e-10).all()
    assert {part.part for part in found.parts} >= {"words", "positions", "types"}


@pytest.mark.parametrize("function", [nn.Tanh(), nn.ReLU(), nn.GELU(), nn.SiLU(), NewGELUActivation(), nn.ELU(), nn.Hardtanh()])
def test_a_nonlinear_function_that_is_0_at_0_is_split_by_its_secant(function: nn.Module) -> None:
    module, batch = tiny("bert", torch.float64), padded()
    module.bert.pooler.activation = function
    found = split(module, batch)
    assert ((total(found) - difference(alone(module, batch))).abs() <= 1e-12 * found.size).all()
    assert not any(part.part == "activation" for part in found.parts)


@pytest.mark.parametrize("function", [nn.Sigmoid(), nn.Softplus(), nn.LogSigmoid()])
def test_what_a_nonlinear_function_is_at_0_has_a_row_of_its_own(function: nn.Module) -> None:
    module, batch = tiny("bert", torch.float64), padded()
    module.bert.pooler.activation = function
    found = split(module, batch)
    assert ((total(found) - difference(alone(module, batch))).abs() <= 1e-12 * found.size).all()
    row = found.parts[Part("activation", "classifier")]
    weight = module.classifier.weight.detach()
    at_zero = float(function(torch.zeros(1, dtype=torch.float64)))
    torch.testing.assert_close(row, at_zero * (weight[found.predicted] - weight[found.second]).sum(-1))


@pytest.mark.parametrize(("function", "rows"), [(nn.Tanh(), 0.0), (nn.Sigmoid(), 0.5)])
def test_where_the_function_reads_0_nothing_passes_but_what_it_is_there(function: nn.Module, rows: float) -> None:
    module = tiny("bert", torch.float64)
    module.bert.pooler.activation = function
    with torch.no_grad():
        nn.init.zeros_(module.bert.pooler.dense.weight)
        nn.init.zeros_(module.bert.pooler.dense.bias)
        module.classifier.bias.copy_(torch.tensor([0.5, 0.1, -3.0]))
    found = split(module)
    assert ((total(found) - difference(alone(module, padded()))).abs() <= 1e-12).all()
    assert all(not x.any() for part, x in found.parts.items() if part.site != "classifier")
    assert sum(part.part == "activation" for part in found.parts) == (rows > 0)


class Squared(nn.Module):
    """Nothing that a secant of one number is taken of: two tensors of the path are multiplied."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x


def test_what_is_left_over_is_an_error() -> None:
    module = tiny("bert", torch.float64)
    module.bert.pooler.activation = Squared()
    with pytest.raises(
        CaptureError, match=r"^the parts of BertForSequenceClassification do not add up to its answer to \S+: 0?\.\d"
    ):
        split(module)


def test_a_second_feed_forward_part_is_not_taken_for_the_path() -> None:
    """Parts that pass through a ReLU add up too: the sum alone would not tell."""
    module = other("mobilebert", embedding_size=32, intra_bottleneck_size=32, num_feedforward_networks=2)
    with pytest.raises(CaptureError, match=r"^layer 1 of MobileBertForSequenceClassification has a feed-forward part, or one"):
        split(module)


EXPERTS = {"num_local_experts": 4, "num_key_value_heads": 2, "num_experts_per_tok": 2}


@pytest.mark.parametrize("name", ["mixtral", "gpt_oss"])
def test_a_feed_forward_part_that_is_not_found_is_refused(name: str) -> None:
    module = other(name, **EXPERTS, **({"head_dim": 8} if name == "gpt_oss" else {}))
    with pytest.raises(
        CaptureError, match=r"^layer 1 of \w+ has a feed-forward part, or one of several, that cannot be followed"
    ):
        split(module)


def test_a_model_whose_heads_cannot_be_followed_is_refused() -> None:
    module = other("xlnet", d_model=32, n_layer=3, n_head=4, d_inner=37)
    with pytest.raises(
        CaptureError, match=r"^what reads the heads of layer 1 cannot be followed in XLNetForSequenceClassification"
    ):
        split(module)


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_stays_as_it_was(fails: bool) -> None:
    module = tiny("bert", torch.float64)
    if fails:
        module.bert.pooler.activation = Squared()
    module.classifier.bias.requires_grad_(False)
    state = {name: x.clone() for name, x in module.state_dict().items()}
    needs = {name: parameter.requires_grad for name, parameter in module.named_parameters()}
    before = alone(module, padded())
    if fails:
        with pytest.raises(CaptureError):
            split(module)
    else:
        split(module)
    assert all(torch.equal(state[name], x) for name, x in module.state_dict().items())
    assert needs == {name: parameter.requires_grad for name, parameter in module.named_parameters()}
    assert all(parameter.grad is None for parameter in module.parameters())
    # transformers leaves hooks of its own.
    hooks = [hook for part in module.modules() for hook in (*part._forward_hooks.values(), *part._forward_pre_hooks.values())]
    assert not [hook for hook in hooks if hook.__module__.startswith("conoscope")]
    assert not nn.modules.module._global_forward_hooks
    assert torch.equal(alone(module, padded()), before)


def test_single_precision_leaves_little() -> None:
    for name in SHAPES:
        found = split(tiny(name))
        assert (found.remainder.abs() <= 1e-5 * found.size).all()
