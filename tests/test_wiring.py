"""What the wiring finds, against the modules by their names: the feed-forward part, the layer before, the pooling."""

import itertools
import re

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from architectures import CAUSAL, FOLLOWED, SHAPES, VOCABULARY, padded, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.calls import Event
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Capture, Mode, Trace, traces_of
from conoscope.capture.trace import PooledOutput
from conoscope.capture.wiring import Wiring, _find_forward
from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.models.layers import standardize

FORWARDS = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "electra", *FOLLOWED), r"layer\.\d\.output\.dense"),
    "albert": r"albert_layers\.0\.ffn_output",
    "distilbert": r"layer\.\d\.ffn\.lin2",
    "modernbert": r"layers\.\d\.mlp\.Wo",
    "gpt2": r"h\.\d\.mlp\.c_proj",
    "llama": r"layers\.\d\.mlp\.down_proj",
}
NORMS = {
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "electra"),
        (r"layer\.\d\.attention\.output\.LayerNorm", r"layer\.\d\.output\.LayerNorm"),
    ),
    "albert": (r"attention\.LayerNorm", r"full_layer_layer_norm"),
    "distilbert": (r"sa_layer_norm", r"output_layer_norm"),
}
FINAL_NORMS = {"gpt2": r"ln_f", "llama": r"model\.norm", "modernbert": r"final_norm"}
ENCODERS = sorted(set(SHAPES) - set(CAUSAL))
every_architecture = pytest.mark.parametrize("name", SHAPES)
either_side = pytest.mark.parametrize("left", [False, True], ids=["right", "left"])


def other(name: str, **changes: object) -> PreTrainedModel:
    """A tiny model of an architecture that is not among SHAPES."""
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
    told = {"vocab_size": VOCABULARY, "initializer_range": 0.3, "pad_token_id": 0, "num_labels": 3}
    return AutoModelForSequenceClassification.from_config(AutoConfig.for_model(name, **{**shape, **told, **changes})).eval()


def member(name: str, **changes: object) -> SelfAttentionForSequenceClassification:
    """A small model of our own family."""
    torch.manual_seed(0)
    return SelfAttentionForSequenceClassification(preset(name, vocab_size=VOCABULARY, hidden_size=24, **changes)).double().eval()


def named(model: nn.Module, pattern: str) -> list[nn.Module]:
    return [module for name, module in model.named_modules() if re.search(f"(^|\\.){pattern}$", name)]


def wiring_of(model: PreTrainedModel, batch: Batch | None = None, mode: Mode = "kv") -> Wiring:
    with Capture(model, mode) as capture:
        capture(padded() if batch is None else batch, lambda trace: None)
        assert capture.wiring is not None
        return capture.wiring


def forward_names(model: PreTrainedModel) -> list[str | None]:
    names = {module: name for name, module in model.named_modules()}
    return [call and names[call[0]] for call in wiring_of(model).forwards]


@every_architecture
@pytest.mark.parametrize("mode", ["full", "kv"])
def test_what_the_feed_forward_part_adds_is_what_its_last_map_returns(name: str, mode: Mode) -> None:
    model, returned = tiny(name), []
    for module in named(model, FORWARDS[name]):
        module.register_forward_hook(lambda _, __, out: returned.append(out.clone()))
    traces = traces_of(model, padded(), mode)[1:]
    for trace, expected in zip(traces, returned[-3:], strict=True):
        assert torch.equal(trace.forward, expected)


@every_architecture
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_feed_forward_part_is_found_in_every_precision(name: str, dtype: torch.dtype) -> None:
    assert all(re.search(FORWARDS[name], found or "") for found in forward_names(tiny(name, dtype)))


@every_architecture
@either_side
def test_what_a_layer_is_given_is_what_the_layer_before_left(name: str, left: bool) -> None:
    traces = traces_of(tiny(name), padded(left=left))
    assert traces[0].before is None
    for before, trace in itertools.pairwise(traces):
        assert trace.before is before.hidden


@pytest.mark.parametrize("name", FINAL_NORMS)
@either_side
def test_on_pre_norm_models_the_parts_add_up_to_the_hidden_state(name: str, left: bool) -> None:
    """In the last layer the final norm comes in between."""
    model = tiny(name)
    *traces, last = traces_of(model, padded(left=left))[1:]
    for trace in traces:
        torch.testing.assert_close(summed(trace), trace.hidden)
    (norm,) = named(model, FINAL_NORMS[name])
    with torch.no_grad():
        torch.testing.assert_close(norm(summed(last)), last.hidden)


def summed(trace: Trace) -> Tensor:
    return trace.before + trace.output + trace.forward


@pytest.mark.parametrize("name", NORMS)
def test_on_post_norm_models_the_norms_of_the_sums_are_the_hidden_state(name: str) -> None:
    model = tiny(name)
    first, second = (named(model, pattern) for pattern in NORMS[name])
    for number, trace in enumerate(traces_of(model, padded())[1:]):
        inner, outer = first[number % len(first)], second[number % len(second)]
        with torch.no_grad():
            torch.testing.assert_close(outer(inner(trace.before + trace.output) + trace.forward), trace.hidden)


@pytest.mark.parametrize("name", ["phi", "gpt_neox"])
def test_a_feed_forward_part_beside_the_attention_is_found(name: str) -> None:
    for trace in traces_of(other(name), padded())[1:-1]:
        torch.testing.assert_close(summed(trace), trace.hidden)


def test_pure_attention_has_no_feed_forward_part(pure: LoadedModel) -> None:
    assert wiring_of(pure.module).forwards == (None, None, None)
    for trace in traces_of(pure.module, padded())[2:]:
        assert trace.forward is None
        torch.testing.assert_close(standardize(trace.before + trace.output), trace.hidden)


@pytest.mark.parametrize("residual", ["none", "course", "prenorm", "postnorm", "pure"])
@pytest.mark.parametrize("feed", ["none", "linear"])
@pytest.mark.parametrize("projected", [True, False])
def test_a_map_with_an_activation_after_it_is_no_feed_forward_part(residual: str, feed: str, projected: bool) -> None:
    model = member("pure-attention", residual=residual, feed=feed, output_projection=projected, num_hidden_layers=2)
    assert wiring_of(model).forwards == (None, None)


@pytest.mark.parametrize(
    ("name", "experts"),
    [
        ("mixtral", {"num_local_experts": 4}),
        ("qwen2_moe", {"num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}),
    ],
)
def test_a_mixture_of_experts_has_no_one_map_that_ends_it(name: str, experts: dict[str, int]) -> None:
    model = other(name, num_key_value_heads=2, num_experts_per_tok=2, **experts)
    assert wiring_of(model).forwards == (None, None, None)
    assert all(trace.forward is None and trace.output is not None for trace in traces_of(model, padded())[1:])


def test_a_shared_expert_is_not_taken_for_the_whole_mixture() -> None:
    draw = torch.Generator().manual_seed(0)
    before, stream, routed, shared = torch.randn(4, 2, 5, 8, generator=draw).unbind()
    norm, experts, expert, dropout = nn.LayerNorm(8), nn.Identity(), nn.Linear(8, 8), nn.Dropout()
    state = stream + (routed + shared)
    events = [
        Event((norm, 0), stream, norm(stream).detach()),
        Event((experts, 0), norm(stream).detach(), routed),
        Event((expert, 0), norm(stream).detach(), shared),
        Event((dropout, 0), routed + shared, routed + shared),
    ]
    assert _find_forward(events, before, state, None, None) is None
    assert _find_forward(events, before, stream + shared, None, None) == (expert, 0)


def test_a_map_too_small_to_be_seen_in_the_stream_is_not_taken_for_the_feed_forward_part() -> None:
    """One coordinate far larger than all others, as in trained models: the next layer's values are nothing beside it."""
    model = other("llama", num_key_value_heads=4)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 1e3
        for layer in model.model.layers:
            layer.self_attn.v_proj.weight.mul_(1e-2)
    assert forward_names(model) == [f"model.layers.{number}.mlp.down_proj" for number in range(3)]


def test_a_feed_forward_part_that_adds_nothing_is_still_found() -> None:
    model = tiny("gpt2")
    for module in named(model, FORWARDS["gpt2"]):
        nn.init.zeros_(module.weight)
    assert forward_names(model) == [f"transformer.h.{number}.mlp.c_proj" for number in range(3)]


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_classify_from_the_first_token(name: str) -> None:
    assert wiring_of(tiny(name)).pooling == "first"


@pytest.mark.parametrize("name", ENCODERS)
def test_the_pooling_does_not_depend_on_the_batch_that_comes_first(name: str) -> None:
    assert wiring_of(tiny(name), padded((1, 1))).pooling == "first"


@either_side
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_modernbert_may_classify_from_the_mean(left: bool, dtype: torch.dtype) -> None:
    model = other("modernbert", classifier_pooling="mean").to(dtype)
    assert wiring_of(model, padded(left=left)).pooling == "mean"


@pytest.mark.parametrize("name", CAUSAL)
@either_side
def test_a_model_that_scores_every_token_has_no_pooling_and_is_read_at_its_last_token(name: str, left: bool) -> None:
    batch, answers, model = padded(left=left), [], tiny(name)
    last = batch.real.shape[1] - 1 - batch.real.flip(-1).int().argmax(-1)
    batch = Batch.of_ids(batch.inputs["input_ids"], batch.real, at=last)
    traces: list[Trace] = []
    with Capture(model, "kv") as capture:
        logits = capture(batch, traces.append, answers.append)
        assert capture.wiring.pooling is None
    answer: PooledOutput = answers[-1]
    assert torch.equal(answer.hidden, traces[-1].hidden[torch.arange(3), last])
    with torch.no_grad():
        torch.testing.assert_close(model.score(answer.hidden), logits)


@pytest.mark.parametrize(
    ("name", "pooling"),
    [
        ("pure-attention", "first"),
        ("tp9-cls", "first"),
        ("tp9-base", "mean"),
        ("tp9-residual", "mean"),
        ("tp9-positions", "mean"),
    ],
)
@either_side
def test_our_own_models_classify_from_what_their_presets_say(name: str, pooling: str, left: bool) -> None:
    assert wiring_of(member(name), padded(left=left)).pooling == pooling


@pytest.mark.parametrize("pool", ["simple", "question", "question-value"])
def test_a_sum_weighed_by_a_question_is_none_of_the_poolings(pool: str) -> None:
    model = member("tp9-base", pool=pool, residual="prenorm")
    if model.pooling.question is not None:
        nn.init.normal_(model.pooling.question)
    assert wiring_of(model).pooling is None


@pytest.mark.parametrize(("pool", "expected"), [("cls", "first"), ("mean", "mean")])
def test_poolings_are_told_apart_even_where_all_tokens_nearly_agree(pool: str, expected: str) -> None:
    model = member("tp9-base", pool=pool, residual="prenorm")
    with torch.no_grad():
        model.embedding.weight.mul_(1e-6).add_(model.embedding.weight[5] * 1e6)
    assert wiring_of(model).pooling == expected


@pytest.mark.parametrize(("pool", "expected"), [("cls", "first"), ("mean", "mean")])
def test_the_pooling_is_told_even_where_the_texts_have_one_token(pool: str, expected: str) -> None:
    assert wiring_of(member("tp9-base", pool=pool), padded((1, 1))).pooling == expected
