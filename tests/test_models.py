"""The self-attention classifier, held to its formulas."""

import math
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from architectures import padded
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.capture.recorder import traces_of, verify
from conoscope.common.errors import ModelError
from conoscope.models.family import SelfAttentionConfig, SelfAttentionForSequenceClassification, preset
from conoscope.models.layers import sinusoids

POSITIONS = {
    50: {0: 25.0, 1: 24.0935024199, 10: 16.3030858, 50: 12.4435716},
    100: {0: 50.0, 1: 48.4553868, 10: 33.2857741, 50: 23.9906961},
    300: {0: 150.0, 1: 145.8602617, 10: 101.4675317, 50: 76.8650792},
}


@pytest.mark.parametrize("width", POSITIONS)
def test_products_of_positions_are_toeplitz_with_the_published_values(width: int) -> None:
    table = sinusoids(120, width, like=torch.zeros(0, dtype=torch.float64))
    products = table @ table.T
    for lag, expected in POSITIONS[width].items():
        torch.testing.assert_close(
            products.diagonal(lag), torch.full((120 - lag,), expected, dtype=torch.float64), rtol=0, atol=1e-7
        )


def test_positions_follow_their_formula_for_odd_widths_too() -> None:
    table = sinusoids(7, 5, like=torch.zeros(0, dtype=torch.float64))
    assert table.shape == (7, 5)
    assert float(table[3, 4]) == pytest.approx(math.sin(3 / 10000 ** (4 / 5)), abs=1e-12)
    assert float(table[3, 3]) == pytest.approx(math.cos(3 / 10000 ** (2 / 5)), abs=1e-12)


def test_every_hidden_state_of_pure_attention_has_norm_sqrt_d_minus_1_and_mean_zero(pure: LoadedModel) -> None:
    batch = padded()
    for trace in traces_of(pure.module, batch)[1:]:
        torch.testing.assert_close(trace.hidden.norm(dim=-1), torch.full(batch.real.shape, math.sqrt(23), dtype=torch.float64))
        torch.testing.assert_close(trace.hidden.mean(-1), torch.zeros(batch.real.shape, dtype=torch.float64))


def test_pure_attention_equals_torchs_multihead_attention(pure: LoadedModel) -> None:
    """The published model is built on nn.MultiheadAttention: the same weights give the same layer."""
    batch, traces = padded(), traces_of(pure.module, padded())
    ours = pure.module.layers[0].attention
    theirs = torch.nn.MultiheadAttention(24, 2, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
        x = traces[1].input
        mixed, weights = theirs(x, x, x, key_padding_mask=~batch.real, average_attn_weights=False)
        y = mixed + x
        expected = (y - y.mean(-1, keepdim=True)) / y.std(-1, keepdim=True)
    torch.testing.assert_close(traces[1].hidden[batch.real], expected[batch.real])
    torch.testing.assert_close(traces[1].weights.transpose(1, 2)[batch.real], weights.transpose(1, 2)[batch.real])


def test_layer_0_is_the_embeddings_without_positions_and_the_first_input_has_them(pure: LoadedModel) -> None:
    batch = padded()
    traces = traces_of(pure.module, batch)
    assert torch.equal(traces[0].hidden, pure.module.embedding(batch.inputs["input_ids"]))
    torch.testing.assert_close(traces[1].input[0] - traces[0].hidden[0], sinusoids(11, 24, like=traces[0].hidden))


def test_weights_start_as_those_of_multihead_attention() -> None:
    torch.manual_seed(0)
    model = SelfAttentionForSequenceClassification(preset("pure-attention", vocab_size=50, hidden_size=64))
    attention, bound = model.layers[0].attention, math.sqrt(6 / (64 + 3 * 64))
    for projection in (attention.query, attention.key, attention.value):
        assert 0.98 * bound < float(projection.weight.detach().abs().max()) <= bound
        assert not projection.bias.any()
    assert not model.embedding.weight[0].any()


def test_capture_of_pure_attention_equals_eager(pure: LoadedModel) -> None:
    assert verify(pure.module, padded()) == {"full": 0.0, "kv": 0.0}


def test_a_saved_model_loads_through_the_auto_classes(tmp_path: Path, pure: LoadedModel) -> None:
    pure.module.save_pretrained(tmp_path)
    pure.tokenizer.save_pretrained(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path, dtype=torch.float64).eval()
    batch = padded()
    with torch.no_grad():
        assert torch.equal(again(**batch.inputs).logits, pure.module(**batch.inputs).logits)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), SelfAttentionConfig)
    assert AutoTokenizer.from_pretrained(tmp_path).get_vocab() == pure.tokenizer.get_vocab()
    assert load_model(tmp_path).labels == ("negative", "positive")


def test_nothing_that_is_saved_is_pickled(tmp_path: Path, pure: LoadedModel) -> None:
    pure.module.save_pretrained(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}


def test_without_positions_the_order_of_words_is_lost_and_with_them_it_is_not() -> None:
    for positions, same in (("none", True), ("sinusoidal", False)):
        torch.manual_seed(0)
        model = SelfAttentionForSequenceClassification(
            preset("pure-attention", vocab_size=99, hidden_size=24, positions=positions)
        ).double()
        ids = torch.tensor([[2, 10, 20, 30], [2, 30, 10, 20]])
        with torch.no_grad():
            logits = model(input_ids=ids).logits
        assert torch.allclose(logits[0], logits[1], atol=1e-9) is same


def test_width_that_cannot_be_cut_into_heads_is_refused() -> None:
    with pytest.raises(ModelError, match="width 10 cannot be cut into 3 heads; give a multiple"):
        SelfAttentionForSequenceClassification(preset("pure-attention", hidden_size=10, num_attention_heads=3))


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(
        ModelError, match="no preset 'pure'; known presets: mean, pure-attention, question, question-value, simple, "
    ):
        preset("pure")
