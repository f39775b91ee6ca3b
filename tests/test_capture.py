"""Capture against eager, on tiny random models of every architecture, and the traps that await it."""

import itertools

import pytest
import torch
from transformers import AttentionMaskInterface, BartConfig, BartForSequenceClassification
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from architectures import CAUSAL, FOLLOWED, SHAPES, padded, tiny
from conoscope.capture.implementation import attention_of
from conoscope.capture.recorder import BACKENDS, Capture, Trace, _watch, traces_of, verify
from conoscope.common.errors import CaptureError

every_architecture = pytest.mark.parametrize("name", SHAPES)


def eager_outputs(model, batch):  # type: ignore[no-untyped-def]
    with attention_of(model, "eager"), torch.no_grad():
        return model(**batch.inputs, output_attentions=True, output_hidden_states=True)


@every_architecture
def test_logits_under_capture_equal_those_of_the_plain_model(name: str) -> None:
    assert verify(tiny(name), padded()) == {"full": 0.0, "kv": 0.0}


@every_architecture
def test_weights_and_hidden_states_equal_eager(name: str) -> None:
    model, batch = tiny(name), padded()
    expected = eager_outputs(model, batch)
    traces = traces_of(model, batch)
    assert [trace.layer for trace in traces] == [0, 1, 2, 3]
    for trace in traces:
        assert torch.equal(trace.hidden, expected.hidden_states[trace.layer])
        if trace.layer:
            assert torch.equal(trace.weights, expected.attentions[trace.layer - 1])


@every_architecture
def test_the_sum_of_weighted_values_through_w_o_rebuilds_the_attention_output(name: str) -> None:
    for trace in traces_of(tiny(name), padded())[1:]:
        value = trace.value.repeat_interleave(trace.query.shape[1] // trace.value.shape[1], dim=1)
        transformed = torch.einsum("bhje,hed->bhjd", value, trace.projection.weight)
        rebuilt = torch.einsum("bhij,bhjd->bid", trace.weights, transformed)
        rebuilt = rebuilt if trace.projection.bias is None else rebuilt + trace.projection.bias
        torch.testing.assert_close(rebuilt, trace.output, rtol=1e-5, atol=1e-5)


@every_architecture
def test_real_tokens_give_no_weight_to_padding(name: str) -> None:
    batch = padded()
    for trace in traces_of(tiny(name), batch)[1:]:
        given = trace.weights.transpose(1, 2)[batch.real]
        at_pads = given.where(~batch.real[batch.real.nonzero()[:, 0]][:, None], torch.zeros(()))
        assert float(at_pads.abs().max()) == 0.0
        torch.testing.assert_close(given.sum(-1), torch.ones(given.shape[:-1]))


@pytest.mark.parametrize("name", sorted({*SHAPES} - {"deberta"}))
def test_the_layer_input_is_what_the_projections_read(name: str) -> None:
    """A second look at each layer: the module that was found, given the captured input, returns the captured values."""
    model, batch = tiny(name), padded()
    with Capture(model, "full") as capture:
        traces: list[Trace] = []
        capture(batch, traces.append)
        for trace, call in zip(traces[1:], capture.wiring.inputs, strict=True):
            with torch.no_grad():
                projected = call[0](trace.input)
            value = trace.value.transpose(1, 2).flatten(2)
            assert any(torch.equal(value, part) for part in projected.split(value.shape[-1], -1)) or torch.equal(value, projected)


@pytest.mark.parametrize("name", ["bert", "roberta", "albert", "distilbert", "electra", "xlm-roberta", *FOLLOWED])
def test_on_post_norm_models_the_layer_input_is_the_hidden_state_before(name: str) -> None:
    traces = traces_of(tiny(name), padded())
    for before, trace in itertools.pairwise(traces):
        if not (name in ("albert", "electra") and trace.layer == 1):
            torch.testing.assert_close(trace.input, before.hidden, rtol=0, atol=0)


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_models_see_as_many_keys_as_tokens_so_far(name: str) -> None:
    batch = padded()
    for trace in traces_of(tiny(name), batch)[1:]:
        expected = torch.arange(1, 12).expand_as(batch.real).minimum(batch.real.sum(-1, keepdim=True))
        assert torch.equal(trace.visible[batch.real], expected[batch.real])


def test_local_attention_sees_only_its_window() -> None:
    traces = traces_of(tiny("modernbert"), padded((30,)))
    assert [int(trace.visible.max()) for trace in traces[1:]] == [30, 9, 30]


def test_an_unregistered_mask_would_let_padding_through() -> None:
    """The trap that `initializer_range` 0.3 is there for: without its mask the backend is silently wrong."""
    model, batch = tiny("bert"), padded()
    kept = AttentionMaskInterface._global_mapping.pop(BACKENDS["full"])
    try:
        assert verify(model, batch)["full"] > 0.1
    finally:
        AttentionMaskInterface.register(BACKENDS["full"], kept)
    assert verify(model, batch)["full"] == 0.0


def test_layers_that_share_one_module_are_told_apart() -> None:
    traces = traces_of(tiny("albert"), padded())
    assert [trace.layer for trace in traces] == [0, 1, 2, 3]
    assert not torch.equal(traces[1].key, traces[2].key)


def test_grouped_queries_keep_their_own_number_of_key_heads() -> None:
    trace = traces_of(tiny("llama"), padded())[1]
    assert (trace.query.shape[1], trace.key.shape[1], trace.value.shape[1], trace.context.shape[1]) == (4, 2, 2, 4)


def test_keys_are_those_after_rotary_positions() -> None:
    """Position 0 turns nothing, later positions do: the key of a repeated token changes along the sentence."""
    batch = padded((5,))
    batch.inputs["input_ids"][:] = 7
    key = traces_of(tiny("llama"), batch)[1].key
    assert not torch.allclose(key[:, :, 0], key[:, :, 4])


def test_on_pre_norm_models_the_last_hidden_state_is_after_the_final_norm() -> None:
    model, batch = tiny("gpt2"), padded()
    last = traces_of(model, batch)[-1].hidden
    torch.testing.assert_close(last.mean(-1)[batch.real], torch.zeros(int(batch.real.sum())), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["modernbert", "llama"])
def test_left_padding_gives_real_tokens_the_same_vectors(name: str) -> None:
    """With relative positions nothing but where a token stands in the row may change."""
    model = tiny(name, torch.float64)
    right, left = padded(), padded(left=True)
    for one, other in zip(traces_of(model, right, "kv")[1:], traces_of(model, left, "kv")[1:], strict=True):
        for row in range(3):
            assert torch.allclose(one.value[row, :, right.real[row]], other.value[row, :, left.real[row]], atol=1e-5)


def test_the_model_is_left_as_it_was() -> None:
    model = tiny("bert").train()
    model.bert.encoder.layer[1].eval()
    before = [module.training for module in model.modules()]
    traces_of(model, padded())
    assert model.config._attn_implementation == "sdpa"
    assert [module.training for module in model.modules()] == before
    with pytest.raises(RuntimeError, match="stop here"), Capture(model) as capture:
        capture(padded(), lambda trace: (_ for _ in ()).throw(RuntimeError("stop here")))
    assert model.config._attn_implementation == "sdpa"
    assert not any(hook is _watch for module in model.modules() for hook in module._forward_hooks.values())


def test_weights_are_those_before_dropout_even_of_a_model_in_training() -> None:
    model = tiny("bert").train()
    weights = traces_of(model, padded())[1].weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))


def test_outside_of_a_capture_the_backends_only_delegate() -> None:
    model, batch = tiny("bert"), padded()
    expected = eager_outputs(model, batch).logits
    model.set_attn_implementation(BACKENDS["full"])
    with torch.no_grad():
        assert torch.equal(model(**batch.inputs).logits, expected)


def test_kv_mode_captures_no_weights() -> None:
    trace = traces_of(tiny("bert"), padded(), "kv")[1]
    assert trace.weights is None
    assert trace.visible is None
    assert trace.key is not None


def test_the_names_are_registered_once_and_fixed() -> None:
    assert set(BACKENDS.values()) <= set(ALL_ATTENTION_FUNCTIONS.keys())


def test_an_encoder_decoder_is_refused() -> None:
    shape = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    model = BartForSequenceClassification(BartConfig(d_model=16, encoder_ffn_dim=8, decoder_ffn_dim=8, vocab_size=99, **shape))
    with pytest.raises(CaptureError, match="is an encoder-decoder"):
        Capture(model)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", ["bert", "llama", "modernbert", *FOLLOWED])
def test_a_capture_can_be_entered_again_and_leaves_the_model_as_it_was_in_between(name: str, whole: bool) -> None:
    module, batch = tiny(name), padded()
    before = dict(vars(module.config))
    capture, found = Capture(module, whole=whole), []
    for _ in range(3):
        traces: list[Trace] = []
        with capture:
            logits = capture(batch, traces.append)
            wiring = capture.find_wiring()
        found.append((logits, traces, wiring))
        assert dict(vars(module.config)) == before
        assert not any(_watch in part._forward_hooks.values() for part in module.modules())
    (logits, traces, wiring), *others = found
    for again, same, known in others:
        assert known is wiring
        assert torch.equal(again, logits)
        assert len(same) == len(traces) == 4
        for one, other in zip(traces[1:], same[1:], strict=True):
            assert one.reduction("entropy") is not None
            assert torch.equal(one.reduction("entropy"), other.reduction("entropy"))  # type: ignore[arg-type]
