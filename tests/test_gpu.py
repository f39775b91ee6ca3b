"""On a GPU: nothing waits within a batch, the numbers are those of a CPU, and memory is linear in the length of a text.

Skipped without one. What these need beside torch, transformers and pytest is what conoscope needs to measure, and no more.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import ModernBertConfig, ModernBertModel, TrainingArguments

from architectures import padded, tiny
from conoscope.capture import fused
from conoscope.capture.batch import Batch
from conoscope.capture.class_token import reading_of
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Capture, verify
from conoscope.capture.trace import Trace
from conoscope.measures import CATALOGUE, request
from conoscope.measures.base import QUANTILES
from conoscope.measures.tally import Tally
from conoscope.measuring.running import Runner
from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.models.tokenizer import build_tokenizer
from conoscope.results.from_sums import tables_of
from conoscope.training.attention_weights import BACKEND
from conoscope.training.building import _freeze_words
from conoscope.training.encoding import MARKED, UNANNOTATED, Collator
from conoscope.training.penalised_trainer import PenalisedTrainer
from conoscope.training.settings import Training
from textbook import NAMES, of_kinds

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
GPU, CPU = torch.device("cuda"), torch.device("cpu")
RANKED = ("norms.cancel_out", "frequency", "gates.names", "vector_norms.histogram")
"""Tables of ranks, names and bins, which move by steps."""
MEASURES = [name for name, measure in CATALOGUE.items() if not measure.on_request]


def batches(count: int = 10) -> Iterator[Batch]:
    for number in range(count):
        batch = of_kinds((24, 9, 17, 5), extra=2 * (number % 2))
        ids = tuple(f"{number} {row}" for row in range(4))
        yield replace(batch, ids=ids, label=torch.tensor([0, 1, 2, 0]), classes=3, place=batch.place + 4 * number)


def measured(loaded: LoadedModel, way: str) -> dict[str, pd.DataFrame]:
    tally = Tally.for_needs(need for name in MEASURES for need in request(name).needs())
    with Runner(loaded, tally) as runner:
        several = list(batches())
        runner.plan(several)
        for outcome in (*runner(several), *runner.rest()):
            assert bool(outcome.finite.all())
        runner.complete()
        assert runner.capture.choice.way == way
    return tables(tally)


def tables(tally: Tally) -> dict[str, pd.DataFrame]:
    return {name: frame for asked in MEASURES for name, frame in tables_of(request(asked), tally, ("a", "b", "c"), NAMES).items()}


@contextmanager
def no_waits() -> Iterator[None]:
    """Context in which whatever waits for the GPU raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says once that its check is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_what_waits_is_found() -> None:
    with pytest.raises(RuntimeError, match="synchronizing"), no_waits():
        float(torch.ones(1, device=GPU))


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "torch operations"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["bert", "gpt2", "modernbert"])
def test_nothing_waits_within_a_batch(name: str, dtype: torch.dtype, kernels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernels:
        monkeypatch.setattr(fused, "runs_on", lambda device, dtype: False)
    tally = Tally.for_needs(need for wanted in MEASURES for need in request(wanted).needs())
    with Runner(LoadedModel(tiny(name, dtype).to(GPU), None, name, ()), tally) as runner:
        several = list(batches())
        runner.plan(several)
        runner._run(several[0])
        assert runner.capture.choice.way == ("fused" if kernels else "softmax")
        for batch in several[1:]:
            torch.cuda.synchronize()
            with no_waits():
                runner._run(batch)
        assert runner._replays.reason is None
        assert all(shape.programs for shape in runner._replays._shapes.values())


def test_a_model_that_waits_is_not_recorded() -> None:
    """Its batches run operation by operation."""
    model, expected = tiny("bert"), measured(LoadedModel(tiny("bert"), None, "bert", ()), "softmax")
    model.to(GPU).bert.encoder.layer[1].register_forward_hook(lambda layer, given, returned: print(float(given[0].sum())))
    tally = Tally.for_needs(need for name in MEASURES for need in request(name).needs())
    with Runner(LoadedModel(model, None, "bert", ()), tally) as runner:
        several = list(batches())
        runner.plan(several)
        assert all(bool(outcome.finite.all()) for outcome in (*runner(several), *runner.rest()))
        runner.complete()
        assert runner._replays.reason is not None
        assert "the model waits for the GPU" in runner._replays.reason
    assert_close(tables(tally), expected, 2e-3)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "modernbert"])
def test_the_tables_are_those_of_a_cpu(name: str) -> None:
    """In single precision, up to its rounding; a sum of other tokens, heads or layers would be far off."""
    found = measured(LoadedModel(tiny(name).to(GPU), None, name, ()), "fused")
    expected = measured(LoadedModel(tiny(name), None, name, ()), "softmax")
    assert_close(found, expected, 2e-3)


@pytest.mark.parametrize(("heads", "width"), [(1, 300), (2, 256)], ids=["one head of 300", "two heads of 128"])
def test_wide_heads_are_measured(heads: int, width: int) -> None:
    """As those of the family's models are: too wide for some kernels, for which torch operations run."""
    torch.manual_seed(0)
    config = preset("pure-attention", vocab_size=200, hidden_size=width, num_attention_heads=heads, num_labels=3)
    model = SelfAttentionForSequenceClassification(config).eval()
    way = "softmax" if width // heads > fused.WIDEST else "fused"
    found = measured(LoadedModel(deepcopy(model).to(GPU), None, "wide", ()), way)
    assert_close(found, measured(LoadedModel(model, None, "wide", ()), "softmax"), 2e-3)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_in_double_precision_the_tables_are_those_of_a_cpu(name: str) -> None:
    found = measured(LoadedModel(tiny(name, torch.float64).to(GPU), None, name, ()), "softmax")
    expected = measured(LoadedModel(tiny(name, torch.float64), None, name, ()), "softmax")
    assert_close(found, expected, 1e-7)


def assert_close(found: dict[str, pd.DataFrame], expected: dict[str, pd.DataFrame], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for table in expected.keys() - set(RANKED):
        assert len(expected[table]) == len(found[table]), table
        for column in expected[table].columns.difference([*QUANTILES]):
            one, other = found[table][column], expected[table][column]
            if other.dtype.kind == "f":
                numbers = (x.to_numpy(float) for x in (one, other))
                np.testing.assert_allclose(*numbers, rtol=tolerance, atol=tolerance, err_msg=f"{table} {column}")
            else:
                assert one.equals(other), f"{table} {column}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "modernbert"])
def test_logits_are_those_of_the_plain_model(name: str, dtype: torch.dtype) -> None:
    assert verify(tiny(name, dtype).to(GPU), padded((20, 13, 7, 1)).to(GPU)) == {"full": 0.0, "kv": 0.0}


def test_in_half_precision_entropies_are_nearer_to_the_exact_ones_than_those_of_the_models_own_weights() -> None:
    model, batch, found = tiny("bert", torch.bfloat16).to(GPU), padded((40, 33)).to(GPU), list[Trace]()
    with Capture(model) as capture:
        capture(batch, found.append)
    assert capture.choice.way == "fused"
    for trace in found[1:]:
        entropy, query, key = trace.reduction("entropy"), trace.query.double(), trace.key.double()
        scores = query @ key.mT / query.shape[-1] ** 0.5
        weights = scores.masked_fill(~batch.real[:, None, None], -torch.inf).softmax(-1)
        exact, rounded = (torch.special.entr(p).sum(-1) for p in (weights, weights.bfloat16().double()))
        real = batch.real[:, None].expand_as(exact)
        assert bool((entropy[real] >= 0).all())
        assert float((entropy - exact)[real].abs().max()) < min(1e-4, float((rounded - exact)[real].abs().max()))


def test_an_overflow_is_told_after_the_batch() -> None:
    model = tiny("bert").to(GPU)
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[7] = torch.inf
    with Runner(LoadedModel(model, None, "bert", ()), Tally.for_needs(request("sim").needs())) as runner:
        batch = next(batches())
        ids = batch.inputs["input_ids"].clone()
        ids[ids == 7] = 8
        ids[2, 1] = 7
        outcome = runner._run(replace(batch, inputs={**batch.inputs, "input_ids": ids}))
        outcome.wait()
        assert outcome.finite.tolist() == [True, True, False, True]


def test_memory_is_linear_in_the_length_of_a_text() -> None:
    """What measuring takes beside the plain pass, whose mask is quadratic."""
    tokens = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)
    sizes = {"num_hidden_layers": 3, "hidden_size": 128, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 99}
    config = ModernBertConfig(**sizes, **tokens)
    model = ModernBertModel(config).eval().to(GPU, torch.bfloat16)
    tally = Tally.for_needs(need for name in MEASURES for need in request(name).needs())
    batches = {}
    for tokens in (1024, 2048, 4096, 8192):
        ids = torch.randint(5, 99, (1, tokens))
        batches[tokens] = Batch.of_ids(ids, torch.ones_like(ids, dtype=torch.bool), at=torch.zeros(1, dtype=torch.long))
    with torch.no_grad():
        plain = {tokens: most_memory(lambda batch=batch: model(**batch.to(GPU).inputs)) for tokens, batch in batches.items()}
    with Runner(LoadedModel(model, None, "modernbert", ()), tally) as runner:
        most = {tokens: most_memory(lambda batch=batch: runner._run(batch).wait()) for tokens, batch in batches.items()}
    beside = {tokens: most[tokens] - plain[tokens] for tokens in batches}
    assert beside[8192] < 10 * max(beside[1024], 2**24), beside


STEPS = {
    "as it is": ({}, {}),
    "penalised by text": ({}, {"entropy_penalty": 0.1}),
    "penalised by batch": ({}, {"entropy_penalty": 0.1, "penalty_unit": "summed"}),
    "frozen words": ({}, {"freeze": True}),
    "course": ({"name": "tp9-residual", "num_attention_heads": 2}, {}),
    "learned": ({"name": "tp9-cls", "positions": "learned"}, {}),
    "relative": ({"name": "tp9-cls", "positions": "relative"}, {}),
}


def plain_step(trainer: PenalisedTrainer, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The loss; its graph does not outlive the step, as in training: nothing can be recorded beside it."""
    loss = trainer._loss_of(batch)
    loss.backward()
    return loss.detach()


@pytest.mark.parametrize("case", STEPS)
def test_recorded_steps_of_training_leave_the_gradients_of_plain_ones(case: str, tmp_path: Path) -> None:
    """Also of later batches of a shape, and with whatever torch computes in no fixed order. Nothing else is tried on a CPU."""
    options, settings = STEPS[case]
    torch.manual_seed(0)
    config = preset(**{"name": "pure-attention", "num_hidden_layers": 3, "hidden_size": 48, "vocab_size": 90, **options})
    module = SelfAttentionForSequenceClassification(config)
    if settings.get("freeze"):
        _freeze_words(module.embedding.weight, [2])
    tokenizer = build_tokenizer([f"w{number}" for number in range(80)])
    trainer = PenalisedTrainer(
        module,
        TrainingArguments(output_dir=str(tmp_path), report_to="none"),
        penalties=Training(**settings).penalties,
        tokenizer=tokenizer,
        reading=reading_of(module),
        records=True,
    )
    if Training(**settings).penalties.any:
        module.set_attn_implementation(BACKEND)
    assert trainer.recorded is not None
    draw = torch.Generator().manual_seed(0)
    for number in range(9):
        texts = [" ".join(f"w{int(word)}" for word in torch.randint(80, (length,), generator=draw)) for length in (5, 12, 27)]
        rows = [{**tokenizer(text, return_special_tokens_mask=True), "labels": at % 2} for at, text in enumerate(texts)]
        rows = [{**row, MARKED: [UNANNOTATED] * len(row["input_ids"])} for row in rows]
        batch = trainer._prepare_inputs(Collator(tokenizer, multiple=32 * (1 + number % 2))(rows))
        module.zero_grad()
        loss = trainer.recorded(batch)
        found = [None if p.grad is None else p.grad.clone() for p in module.parameters()]
        module.zero_grad()
        expected = plain_step(trainer, batch)
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
        for p, gradient in zip(module.parameters(), found, strict=True):
            torch.testing.assert_close(gradient, p.grad, rtol=1e-3, atol=1e-6)
    assert trainer.recorded.reason is None
    assert trainer.recorded.replayed == 7


def most_memory(run: Callable[[], object]) -> int:
    """The most bytes that a function takes on the GPU."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
