"""The mixing ratios token by token as their formulas read, what the normalisation makes of each part, and the expansion rate."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from architectures import SHAPES, padded, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.draws import DRAWN, drawn_keys, drawn_weights
from conoscope.capture.head_weights import head_weights_of
from conoscope.capture.loading import LoadedModel
from conoscope.capture.normalization import Norm
from conoscope.capture.recorder import Capture, traces_of
from conoscope.capture.trace import Trace
from conoscope.capture.wiring import Projection
from conoscope.corpora import Corpus, Example
from conoscope.measures import request
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import measure
from conoscope.quantities.mixing import MIXING
from conoscope.results.from_sums import tables_of
from quantities import computed
from textbook import LENGTHS, NAMES, Text, cells, length, of_kinds, read, texts

TINY = ("bert", "gpt2", "llama", "albert", "distilbert", "modernbert", "deberta")


def ratio(mix: np.ndarray, preserve: np.ndarray) -> float:
    return length(mix) / (length(mix) + length(preserve))


def gain_of(module: nn.Module | None, width: int) -> tuple[np.ndarray, bool]:
    """γ of a module, and whether it takes the mean away, by its class: RMSNorm does not."""
    weight = getattr(module, "weight", None)
    gain = np.ones(width) if weight is None else weight.detach().double().numpy()
    return gain, "RMS" not in type(module).__name__


def naive_ratios(text: Text, i: int, gain: tuple[np.ndarray, bool]) -> dict[str, float]:
    """One token of one text in one layer, as published."""
    weight, centred = gain
    own = sum(text.a[h, i, i] for h in range(len(text.a))) / len(text.a)
    itself = text.pairs[i, i]
    others = sum((text.pairs[i, j] for j in range(len(text.kind)) if j != i), np.zeros_like(itself))
    kept = itself + text.residual[i]

    def g(y: np.ndarray) -> np.ndarray:
        return (y - y.mean() if centred else y) * weight

    return {
        "attn_w": 1 - own,
        "attn_n": ratio(others, itself),
        "attnres_w": (1 - own) / 2,
        "attnres_n": ratio(others, kept),
        "attnresln_n": ratio(g(others), g(kept)),
    }


NORMS = {
    "bert": r"attention.output.LayerNorm",
    "gpt2": r"ln_2",
    "llama": r"post_attention_layernorm",
    "albert": r"attention.LayerNorm",
    "distilbert": r"sa_layer_norm",
    "modernbert": r"mlp_norm",
    "deberta": r"attention.output.LayerNorm",
    "pure": r"norm",
}


def norms_of(name: str, model: nn.Module) -> list[nn.Module]:
    """The module that reads each layer's attention and residual, by its name; ALBERT's layers share one."""
    found = [module for path, module in model.named_modules() if path.endswith(f".{NORMS[name]}")]
    return found * 3 if name == "albert" else found


@pytest.fixture(params=[*TINY, "pure"])
def model(request: pytest.FixtureRequest, pure: LoadedModel) -> tuple[str, nn.Module]:
    name = request.param
    return name, pure.module if name == "pure" else tiny(name, torch.float64)


@pytest.mark.parametrize("tokens", ["drawn", "all"])
def test_every_ratio_equals_its_formula_token_by_token(model: tuple[str, nn.Module], tokens: str) -> None:
    name, module = model
    batch = of_kinds(extra=2)
    traces = traces_of(module, batch)
    found = cells(read(f"mixing:tokens={tokens}", traces)[f"mixing:tokens={tokens}"], "layer", "method", "kind")
    chosen = [set(at[weight > 0].tolist()) for at, weight in zip(drawn_keys(batch), drawn_weights(batch), strict=True)]
    norms, used = norms_of(name, module), set()
    assert len(norms) == 3
    for trace, norm in zip(traces[1:], norms, strict=True):
        told = [
            (text.kind[i], naive_ratios(text, i, gain_of(norm, text.f.shape[-1])))
            for row, text in enumerate(texts(trace))
            for i in range(len(text.kind))
            if tokens == "all" or i in chosen[row]
        ]
        assert len(told) == (sum(LENGTHS) if tokens == "all" else sum(map(len, chosen)))
        for method, kind in itertools.product(MIXING, NAMES):
            values = np.array([ratios[method] for of, ratios in told if of == kind])
            row = found[trace.layer, method, kind]
            used.add((trace.layer, method, kind))
            assert row["n"] == len(values)
            for column, expected in (
                ("value", values.mean()), ("sd", values.std(ddof=1)), ("low", values.min()), ("high", values.max()),
            ):  # fmt: skip
                assert row[column] == pytest.approx(expected, abs=1e-9), (method, kind, column)
        for method in MIXING:
            row = found[trace.layer, method, "all"]
            used.add((trace.layer, method, "all"))
            many = {kind: sum(text.kind.count(kind) for text in texts(trace)) for kind in NAMES}
            means = {kind: np.mean([ratios[method] for of, ratios in told if of == kind]) for kind in NAMES}
            assert row["value"] == pytest.approx(sum(means[k] * many[k] for k in NAMES) / sum(LENGTHS), abs=1e-9)
            assert row["n"] == len(told)
            if tokens == "all":
                assert row["value"] == pytest.approx(np.mean([ratios[method] for _, ratios in told]), abs=1e-9)
    assert used == found.keys()


def test_of_short_texts_all_tokens_are_drawn(pure: LoadedModel) -> None:
    short = traces_of(pure.module, of_kinds((17, 12, 9, 1)))
    drawn, every = (read(f"mixing:tokens={tokens}", short)[f"mixing:tokens={tokens}"] for tokens in ("drawn", "all"))
    assert (drawn["tokens"] == "drawn").all()
    for column in ("value", "sd", "n", "low", "high"):
        np.testing.assert_allclose(drawn[column].to_numpy(float), every[column].to_numpy(float), rtol=0, atol=1e-12)


def uniform(tokens: int, heads: int = 2, width: int = 4) -> Trace:
    generator = torch.Generator().manual_seed(0)
    batch = Batch.of_ids(torch.zeros(1, tokens, dtype=torch.long), torch.ones(1, tokens, dtype=torch.bool))
    weights = torch.full((1, heads, tokens, tokens), 1 / tokens, dtype=torch.float64)
    value = torch.randn(1, heads, tokens, 3, generator=generator, dtype=torch.float64)
    w_o = torch.randn(heads, 3, width, generator=generator, dtype=torch.float64)
    output = torch.einsum("bhij,bhje,hed->bid", weights, value, w_o)
    return Trace(1, batch, value=value, weights=weights, output=output, projection=Projection(w_o, None))


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_uniform_attention_mixes_all_but_one_of_n_tokens_and_half_of_that_with_the_residual(n: int) -> None:
    frame = read("mixing", [uniform(n)])["mixing"].set_index(["method", "kind"])["value"]
    assert frame["attn_w", "all"] == pytest.approx((n - 1) / n, abs=1e-12)
    assert frame["attnres_w", "all"] == pytest.approx((n - 1) / n / 2, abs=1e-12)


def test_what_cannot_be_found_of_a_layer_leaves_the_other_ratios() -> None:
    trace = uniform(5)
    found = {
        "w": read("mixing", [replace(trace, output=None, projection=None)]),
        "n": read("mixing", [trace]),
        "res": read("mixing", [replace(trace, before=trace.output, added="before")]),
        "ln": read("mixing", [replace(trace, before=trace.output, added="before", norm=Norm(None, True))]),
    }
    methods = {name: set(tables["mixing"]["method"]) for name, tables in found.items()}
    assert methods["w"] == {"attn_w", "attnres_w"}
    assert methods["n"] == {"attn_w", "attnres_w", "attn_n"}
    assert methods["res"] == {*MIXING} - {"attnresln_n"}
    assert methods["ln"] == {*MIXING}


@pytest.mark.parametrize("name", ["tp9-base", "tp9-residual", "tp9-positions"])
def test_a_model_without_w_o_or_norm_is_measured_as_far_as_it_goes(name: str, pure: LoadedModel) -> None:
    """What has neither is left out of every table, rather than breaking those of the rest."""
    from conoscope.capture.loading import load_model
    from conoscope.models.family import SelfAttentionForSequenceClassification, preset

    torch.manual_seed(0)
    config = preset(name, vocab_size=len(pure.tokenizer), hidden_size=24, num_hidden_layers=2, num_attention_heads=2)
    loaded = load_model(SelfAttentionForSequenceClassification(config), pure.tokenizer)
    result = measure(loaded, [Example("the soup was cold"), Example("we loved the bread and the soup")])
    methods = {*result["mixing"]["method"]}
    assert {"attn_w", "attnres_w"} <= methods
    assert "attnresln_n" not in methods
    assert ("frequency" in result.tables) == ("norms" in result.tables) == ("attn_n" in methods)
    assert len(result["heads"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SHAPES)
def test_residual_and_norm_are_found_in_every_architecture(name: str, dtype: torch.dtype) -> None:
    """Llama and DeBERTa normalise in float32 even where they are in float64."""
    model = tiny(name, dtype)
    with Capture(model) as capture:
        capture(padded(), lambda trace: None)
    assert capture.wiring.residuals == ("before",) * 3
    assert [norm.centred for norm in capture.wiring.norms] == [name != "llama"] * 3


def normalised(module: nn.Module, norms: list[nn.Module], batch: Batch) -> tuple[list[Trace], list[Tensor]]:
    """The traces, and what each layer's norm returned meanwhile: after those of calibration, one call a layer."""
    returned: list[Tensor] = []
    handles = [norm.register_forward_hook(lambda _, __, out: returned.append(out)) for norm in dict.fromkeys(norms)]
    traces = traces_of(module, batch)
    for handle in handles:
        handle.remove()
    return traces, returned[-3:]


def test_the_parts_of_the_norm_add_up_to_what_it_returns(model: tuple[str, nn.Module]) -> None:
    """g(Σ_{j≠i} S_ij) / s_i + g(S_ii + x_i) / s_i + g(b_O) / s_i + β, with the true s_i; 1e-10 where the norm is in float64."""
    name, module = model
    batch = of_kinds()
    norms = norms_of(name, module)
    traces, returned = normalised(module, norms, batch)
    for trace, norm, expected in zip(traces[1:], norms, returned, strict=True):
        epsilon = next((getattr(norm, key) for key in ("eps", "variance_epsilon") if hasattr(norm, key)), 0.0)
        beta = getattr(norm, "bias", None)
        for row, text in enumerate(texts(trace)):
            parts = text.pairs.copy()
            itself = np.array([parts[i, i] for i in range(len(text.kind))])
            others = parts.sum(1) - itself
            p = torch.tensor(others + itself + text.residual + text.bias)
            spread = p - p.mean(-1, keepdim=True) if trace.norm.centred else p
            # That of pure-attention is unbiased.
            s = (spread.square().sum(-1, keepdim=True) / (p.shape[-1] - (name == "pure")) + epsilon).sqrt()
            told = sum(trace.norm.linear(torch.tensor(part)) / s for part in (others, itself + text.residual, text.bias))
            told = told if beta is None else told + beta.detach()
            at = torch.tensor(text.place)
            tolerance = {"llama": 1e-5, "deberta": 1e-5}.get(name, 1e-10)
            torch.testing.assert_close(told, expected[row, at].double(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", [*SHAPES, "pure"])
def test_the_expansion_rate_is_that_of_the_affine_maps_written_out(name: str, pure: LoadedModel) -> None:
    """√(Σ s²) / √(d + 1) of (W_V b_V)(W_O b_O) as matrices of vectors with a 1 at their end, by their singular values."""
    module = pure.module if name == "pure" else tiny(name, torch.float64)
    torch.manual_seed(1)
    for parameter in module.parameters():
        if parameter.ndim == 1 and name != "pure":
            parameter.data += 0.1 * torch.randn_like(parameter)
    tally = Tally.for_needs(request("mixing").needs())
    maps = list(head_weights_of(module))
    for each in maps:
        tally.add(each)
    frame = tables_of(request("mixing"), tally)["mixing.expansion"].set_index("layer")
    assert list(frame.index) == [1, 2, 3]
    for each in maps:
        shared = len(each.output) // len(each.value)
        w_v = torch.cat([each.value[head // shared] for head in range(len(each.output))], dim=1).numpy()
        b_v = torch.cat([each.value_bias[head // shared] for head in range(len(each.output))]).numpy()
        w_o = torch.cat(list(each.output)).numpy()
        b_o = np.zeros(w_o.shape[1]) if each.output_bias is None else each.output_bias.numpy()
        value = np.block([[w_v, np.zeros((len(w_v), 1))], [b_v[None], np.ones((1, 1))]])
        right = np.block([[w_o, np.zeros((len(w_o), 1))], [b_o[None], np.ones((1, 1))]])
        published = np.block([[w_o, b_o[:, None]], [np.zeros((1, w_o.shape[1])), np.ones((1, 1))]])
        for column, output in (("value", right), ("published", published)):
            s = np.linalg.svd(value @ output, compute_uv=False)
            expected = math.sqrt((s**2).sum()) / math.sqrt(len(w_v) + 1)
            assert frame[column][each.layer] == pytest.approx(expected, abs=1e-9)


def test_without_texts_the_expansion_rate_is_measured_and_printed_alone(pure: LoadedModel) -> None:
    result = measure(pure, measures=["mixing"])
    assert [*result.tables] == ["mixing.expansion"]
    assert result.summary().startswith("mixing.expansion, by layer\n")


def test_w_v_and_b_v_are_those_of_the_modules() -> None:
    model = tiny("bert", torch.float64)
    for layer in model.bert.encoder.layer:
        layer.attention.self.value.bias.data.normal_(generator=torch.Generator().manual_seed(3))
    for each, layer in zip(head_weights_of(model), model.bert.encoder.layer, strict=True):
        value = layer.attention.self.value
        torch.testing.assert_close(each.value.transpose(0, 1).flatten(1), value.weight.T, rtol=0, atol=1e-12)
        torch.testing.assert_close(each.value_bias.flatten(), value.bias, rtol=0, atol=1e-12)
        torch.testing.assert_close(each.output_bias, layer.attention.output.dense.bias, rtol=0, atol=1e-12)


def test_ratios_on_minilm_equal_one_text_at_a_time_without_padding(minilm64: LoadedModel, sentences: Corpus) -> None:
    few = Corpus.of(list(sentences)[:12], "a few")
    found = cells(measure(minilm64, few, ["mixing:tokens=all"])["mixing:tokens=all"], "layer", "method", "kind")
    told: dict[tuple[int, str], list[dict[str, float]]] = {}
    batcher = minilm64.batcher(few)
    for example in few:
        for trace in traces_of(minilm64.module, batcher.batch([example]))[1:]:
            norm = minilm64.module.encoder.layer[trace.layer - 1].attention.output.LayerNorm
            (text,) = texts(trace)
            for i, kind in enumerate(text.kind):
                told.setdefault((trace.layer, kind), []).append(naive_ratios(text, i, gain_of(norm, 384)))
    for (layer, kind), ratios in told.items():
        for method in MIXING:
            expected = np.mean([each[method] for each in ratios])
            assert found[layer, method, kind]["value"] == pytest.approx(expected, abs=1e-9)
            assert found[layer, method, kind]["n"] == len(ratios)


@given(
    st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 2 * DRAWN), st.booleans(), st.booleans(),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_ratios_lie_between_0_and_1_and_with_the_residual_at_most_half_of_the_weights(
    seed: int, rows: int, tokens: int, centred: bool, gain: bool, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(seed)
    real = torch.arange(tokens) < torch.randint(1, tokens + 1, (rows, 1), generator=generator)
    batch = Batch.of_ids(torch.zeros(rows, tokens, dtype=torch.long), real)
    weights = torch.randn(rows, 2, tokens, tokens, generator=generator).masked_fill(~real[:, None, None], -torch.inf).softmax(-1)
    value, w_o = torch.randn(rows, 2, tokens, 3, generator=generator), torch.randn(2, 3, 5, generator=generator)
    output = torch.einsum("bhij,bhje,hed->bid", weights, value, w_o)
    norm = Norm(torch.randn(5, generator=generator) if gain else None, centred)
    sites = {"value": value, "weights": weights, "output": output, "before": torch.randn(output.shape, generator=generator)}
    trace = Trace(
        1, batch, projection=Projection(w_o.to(dtype), None), added="before", norm=norm,
        **{name: x.to(dtype) for name, x in sites.items()},
    )  # fmt: skip
    found, keep = computed("mixing", trace, tokens="drawn")
    inside = found[keep]
    assert ((inside >= -1e-2) & (inside <= 1 + 1e-2)).all() if dtype == torch.bfloat16 else ((inside >= 0) & (inside <= 1)).all()
    torch.testing.assert_close(found[..., MIXING.index("attnres_w")], found[..., MIXING.index("attn_w")] / 2)
    assert (keep.any(1).sum(0) == int(real.sum(-1).clamp_max(DRAWN).sum())).all()
