"""Attention that is followed from its softmax to its values, on every type of transformers that is off the interface."""

import logging
import runpy
from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers import PreTrainedModel

from architectures import FOLLOWED, padded, tiny
from conoscope.capture.head_weights import head_weights_of
from conoscope.capture.implementation import attention_of
from conoscope.capture.recorder import Capture, traces_of, verify
from conoscope.capture.trace import Trace
from conoscope.capture.traced_attention import AttentionTracer, TracedAttention, paused
from conoscope.common.errors import CaptureError

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "supported.md").read_text(encoding="utf-8")
ROWS = {
    cells[0]: cells for cells in ([c.strip() for c in line.split("|")[1:-1]] for line in PAGE.splitlines() if line[:1] == "|")
}
OFF = [name for name, cells in ROWS.items() if cells[1] == "followed"]
PLAIN = sorted({*OFF} - {"bloom", "deberta", "deberta-v2", "layoutlmv3", "mpnet", "mpt", "xlnet"})
"""Those that add nothing to their scores but a mask."""
SUPPORTED = runpy.run_path(str(ROOT / "benchmarks" / "supported.py"))
SHARED_ROWS, SHARED_TOKENS = 2, 5

every_followed = pytest.mark.parametrize("name", OFF)


def built(name: str) -> PreTrainedModel:
    module = SUPPORTED["built"](name)
    assert isinstance(module, PreTrainedModel)
    return module


@pytest.mark.parametrize("name", SUPPORTED["TYPES"])
def test_the_page_of_types_is_true(name: str) -> None:
    if transformers.__version__ not in PAGE:
        pytest.skip("the page was written with another version of transformers")
    # Whether sums in another order differ at all is up to the processor.
    found, told = (["0" if cell == "rounding" else cell for cell in cells] for cells in (SUPPORTED["row"](name), ROWS[name]))
    assert found == told


@every_followed
def test_the_weighted_sum_of_values_is_the_context(name: str) -> None:
    for trace in traces_of(built(name), padded()):
        if trace.layer:
            value = trace.value.repeat_interleave(trace.weights.shape[1] // trace.value.shape[1], dim=1)
            torch.testing.assert_close(trace.weights @ value, trace.context, rtol=1e-5, atol=1e-5)


@every_followed
def test_real_tokens_give_no_weight_to_padding_and_all_of_it_to_what_they_see(name: str) -> None:
    batch = padded()
    for trace in traces_of(built(name), batch):
        if trace.layer:
            given = trace.weights.transpose(1, 2)[batch.real]
            at_pads = given.where(~batch.real[batch.real.nonzero()[:, 0]][:, None], torch.zeros(()))
            assert float(at_pads.abs().max()) == 0.0
            torch.testing.assert_close(given.sum(-1), torch.ones(given.shape[:-1]))
            assert ((given > 0).any(1).sum(-1) <= trace.visible[batch.real]).all()
            assert (trace.visible <= batch.real.sum(-1, keepdim=True))[batch.real].all()


@pytest.mark.parametrize("name", PLAIN)
def test_queries_and_keys_explain_the_weights(name: str) -> None:
    assert all(is_explained(trace) for trace in traces_of(built(name), padded()) if trace.layer)


@pytest.mark.parametrize("name", FOLLOWED)
def test_without_relative_positions_queries_and_keys_explain_all_of_the_weights(name: str) -> None:
    config = tiny(name).config
    assert not all(map(is_explained, traces_of(tiny(name), padded())[1:]))
    config.relative_attention = False
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    if name == "mpnet":
        nn.init.zeros_(model.mpnet.encoder.relative_attention_bias.weight)
    assert all(map(is_explained, traces_of(model, padded())[1:]))


def is_explained(trace: Trace) -> bool:
    """Along the row of a real token, log α and q·k may differ only by a factor, the same everywhere, and a constant."""
    weights, products = ((m.transpose(1, 2)[trace.batch.real]).double() for m in (trace.weights, trace.query @ trace.key.mT))
    seen = weights > 1e-6
    x, y = (centred(m, seen) for m in (products, weights.clamp_min(1e-6).log()))
    factor = (x * y).sum() / x.square().sum()
    return float(factor) > 0 and float((y - factor * x).abs().max()) < 1e-3


def centred(x: Tensor, seen: Tensor) -> Tensor:
    return (x - (x * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)) * seen


def test_a_scale_folded_into_queries_or_keys_is_taken_out() -> None:
    first, second = tiny("deberta"), tiny("deberta-v2")
    one, other = traces_of(first, padded())[1], traces_of(second, padded())[1]
    attention = first.deberta.encoder.layer[0].attention.self
    with torch.no_grad():
        query, key, _ = attention.in_proj(one.input).unflatten(-1, (4, 24)).transpose(1, 2).chunk(3, -1)
        projected = second.deberta.encoder.layer[0].attention.self.key_proj(other.input)
    assert torch.equal(one.query, query + attention.q_bias.view(4, 1, 8))
    assert torch.equal(one.key, key)
    assert torch.equal(other.key, projected.unflatten(-1, (4, 8)).transpose(1, 2))


def test_in_kv_mode_the_weights_are_dropped_and_nothing_else() -> None:
    model, batch = tiny("deberta-v2"), padded()
    for full, kv in zip(traces_of(model, batch)[1:], traces_of(model, batch, "kv")[1:], strict=True):
        assert kv.weights is None
        assert kv.visible is None
        assert torch.equal(kv.key, full.key)
        assert torch.equal(kv.hidden, full.hidden)


def test_what_is_computed_of_a_trace_is_not_taken_for_attention() -> None:
    seen: list[int] = []

    def receive(trace: Trace) -> None:
        seen.append(trace.layer)
        if trace.layer:
            _ = (trace.query @ trace.key.mT).softmax(-1) @ trace.value
            _ = trace.weights @ trace.value

    with Capture(tiny("mpnet")) as capture:
        capture(padded(), receive)
        capture(padded(), receive)
    assert seen == [0, 1, 2, 3] * 2


def test_a_followed_model_is_left_as_it_was() -> None:
    model = tiny("mpnet").train()
    before = model.config._attn_implementation
    traces_of(model, padded())
    assert model.config._attn_implementation == before
    assert all(module.training for module in model.modules())


def test_transformers_does_not_warn_of_what_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("transformers.modeling_utils")
    logger.addHandler(caplog.handler)
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        traces_of(tiny("deberta"), padded())
        assert not caplog.records
        tiny("deberta").set_attn_implementation("sdpa")
        assert caplog.records
    finally:
        logger.removeHandler(caplog.handler)
        logger.setLevel(level)


def test_a_model_that_runs_sdpa_by_itself_is_followed_once_it_is_loaded_in_eager() -> None:
    assert verify(built("falcon"), padded()) == {"full": 0.0, "kv": 0.0}
    own = transformers.AutoModelForSequenceClassification.from_config(built("falcon").config, attn_implementation="sdpa").eval()
    with pytest.raises(CaptureError, match='must be loaded with attn_implementation="eager"'):
        traces_of(own, padded())


@pytest.mark.parametrize("name", ["fnet", "longformer", "yoso"])
def test_a_model_without_a_softmax_over_all_tokens_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(CaptureError, match=r"ForSequenceClassification .* never called .* supported are .*BERT"):
        traces_of(built(name), padded())


def test_heads_that_are_mixed_after_the_softmax_are_no_attention_that_can_be_shown() -> None:
    config = tiny("deberta").config
    config.talking_head = True
    with pytest.raises(CaptureError, match="never called"):
        traces_of(transformers.AutoModelForSequenceClassification.from_config(config).eval(), padded())


def test_blocks_of_attention_are_refused_since_a_short_text_would_change_the_model_for_good() -> None:
    config = built("big_bird").config
    config.attention_type = "block_sparse"
    with pytest.raises(CaptureError, match='load it with attention_type="original_full"'):
        Capture(transformers.AutoModelForSequenceClassification.from_config(config))


@pytest.mark.parametrize("name", ["canine", "perceiver"])
def test_a_model_without_a_table_of_tokens_is_refused(name: str) -> None:
    with pytest.raises(CaptureError, match="has no one table of token embeddings"):
        traces_of(built(name), padded())


def test_attention_that_changes_with_the_length_of_texts_is_refused() -> None:
    model = tiny("mpnet")
    with Capture(model) as capture:
        capture(padded(), lambda trace: None)
        del model.mpnet.encoder.layer[-1]
        with pytest.raises(CaptureError, match=r"showed 2 attentions in 12 tokens and 3 in fewer.*--max-length"):
            capture(padded((12, 3)), lambda trace: None)


def test_without_queries_and_keys_the_rest_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AttentionTracer, "_scored", lambda *_: None)
    model, batch = tiny("mpnet"), padded()
    trace = traces_of(model, batch)[1]
    assert trace.query is None
    assert trace.key is None
    assert trace.input is not None
    assert trace.projection is not None
    with attention_of(model, "eager"), torch.no_grad():
        assert torch.equal(trace.weights, model(**batch.inputs, output_attentions=True).attentions[0])
    for maps in head_weights_of(model):
        assert maps.query is None
        assert maps.key is None
        assert maps.value is not None
        assert maps.output is not None


def followed(compute: object) -> list[TracedAttention]:
    found: list[TracedAttention] = []
    with AttentionTracer((SHARED_ROWS, SHARED_TOKENS), found.append):
        compute()  # type: ignore[operator]
    return found


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_scores_that_are_no_product_have_no_queries_and_keys() -> None:
    scores, value = random(2, 3, 5, 5), random(2, 3, 5, 4)
    (found,) = followed(lambda: torch.softmax(scores, -1) @ value)
    assert found.attended.query is None
    assert torch.equal(found.attended.value, value)
    assert torch.equal(found.weights, scores.softmax(-1))


def test_a_softmax_over_anything_but_all_tokens_is_not_followed() -> None:
    """ConvBERT's kernels, a pooling by question, and the labels of three classes."""
    assert not followed(lambda: torch.softmax(random(2, 3, 5, 4), -1) @ random(2, 3, 4, 6))
    assert not followed(lambda: torch.softmax(random(2, 1, 5), -1) @ random(2, 5, 6))
    assert not followed(lambda: torch.softmax(random(2, 3), -1) @ random(3, 3))


def test_products_are_followed_however_they_are_written() -> None:
    query, key, value = random(2, 3, 5, 4), random(2, 3, 5, 4) + 1, random(2, 3, 5, 6)

    def flat(x: Tensor) -> Tensor:
        return x.flatten(0, 1)

    def scaled() -> Tensor:
        return torch.bmm((flat(query) / 2).view(6, 5, 4), (flat(key) * 0.5).transpose(1, 2))

    written = {
        "matmul": lambda: torch.softmax(query @ key.mT / 4, -1) @ value,
        "einsum": lambda: torch.einsum(
            "bhij, jbhd -> ibhd", torch.softmax(torch.einsum("bhie,bhje->bhij", query, key) / 4, 3), value.permute(2, 0, 1, 3)
        ),
        "bmm": lambda: torch.bmm(torch.softmax(scaled(), -1), flat(value)),
        "baddbmm": lambda: torch.bmm(
            torch.softmax(torch.zeros(6, 5, 5).baddbmm(batch1=flat(query), batch2=flat(key).mT, alpha=0.25), -1), flat(value)
        ),
    }
    expected = torch.softmax(query @ key.mT / 4, -1)
    for compute in written.values():
        (found,) = followed(compute)
        attended = found.attended
        assert all(torch.equal(a, b) for a, b in ((attended.query, query), (attended.key, key), (attended.value, value)))
        torch.testing.assert_close(found.weights, expected)
        torch.testing.assert_close(attended.context, (expected @ value).transpose(1, 2))


def test_weights_meet_their_values_once() -> None:
    def twice() -> None:
        weights = torch.softmax(random(2, 3, 5, 5), -1)
        _ = (weights @ random(2, 3, 5, 4), weights @ random(2, 3, 5, 6))

    assert [found.attended.value.shape[-1] for found in followed(twice)] == [4]


def test_nothing_is_followed_while_paused() -> None:
    def hidden() -> None:
        with paused():
            _ = torch.softmax(random(2, 3, 5, 5), -1) @ random(2, 3, 5, 4)

    assert not followed(hidden)


def test_keys_that_are_masked_in_every_head_are_not_visible() -> None:
    scores = random(2, 3, 5, 5).masked_fill(torch.arange(5) >= 3, torch.finfo(torch.float32).min)
    scores[:, 0, :, 1] = -2000.0
    scores[1, :, 4] = torch.finfo(torch.float32).min
    (found,) = followed(lambda: torch.softmax(scores, -1) @ random(2, 3, 5, 4))
    assert found.visible().tolist() == [[3, 3, 3, 3, 3], [3, 3, 3, 3, 5]]
