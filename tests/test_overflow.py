"""Overflow: a model that leaves NaN, infinity or numbers too large to be multiplied, at whatever place, is refused in one line.

Which of NaN and infinity an overflow becomes depends on the processor, so both are also put in by hand.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from transformers import TrainerState
from transformers.pytorch_utils import Conv1D

from architectures import padded, tiny
from commands import refusal
from conoscope.capture.calls import is_sum
from conoscope.capture.eager import _close
from conoscope.capture.head_weights import head_weights_of
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.capture.recorder import Capture
from conoscope.capture.trial_batches import random_batch
from conoscope.causes.ablation import ablate
from conoscope.causes.attribution import attribute
from conoscope.causes.steer import steer
from conoscope.common.errors import OverflowedError
from conoscope.corpora import Corpus, Example
from conoscope.explaining import Erasing, Judging, explain, faithfulness, plausibility
from conoscope.measures import CATALOGUE, request
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import measure
from conoscope.models.tokenizer import build_tokenizer
from conoscope.training.comparison import compare
from conoscope.training.geometry_callback import GeometryCallback, geometry

TEXTS = Corpus.of(
    [Example("the soup was cold", "bad"), Example("we loved the good bread", "good"), Example("cold bread", "bad")], "overflow"
)
NAMES = ("bert", "modernbert", "gpt2", "llama", "deberta")
EVERY = [name if name != "class_maps" else "class_maps:heads=1.1+2.2" for name in CATALOGUE]
BAD = (math.nan, math.inf, -math.inf)


def loaded(name: str, dtype: torch.dtype = torch.float32) -> LoadedModel:
    module = tiny(name, dtype)
    module.config.id2label = {0: "bad", 1: "good", 2: "neither"}
    tokenizer = build_tokenizer(example.text for example in TEXTS)
    module.config.pad_token_id = tokenizer.pad_token_id
    return load_model(module, tokenizer)


def linear_maps(module: nn.Module) -> dict[str, nn.Module]:
    """Those of the last layer, and the embeddings: what lies below is read by these."""
    named = {
        name: part for name, part in module.named_modules() if isinstance(part, (nn.Linear, Conv1D)) and ".2." in f".{name}."
    }
    assert len(named) >= 4
    return {"embeddings": module.get_input_embeddings(), **named}


@contextmanager
def huge(part: nn.Module) -> Iterator[None]:
    """Within it, every weight is the largest number that there is."""
    kept = part.weight.detach().clone()
    with torch.no_grad():
        part.weight.copy_(torch.finfo(kept.dtype).max * kept.sign())
    yield
    with torch.no_grad():
        part.weight.copy_(kept)


def overflows(model: LoadedModel) -> bool:
    """Whether any module returns NaN or infinity for any of the texts."""
    found = []

    def look(module: nn.Module, given: Any, returned: Any) -> None:
        if isinstance(returned, Tensor) and returned.is_floating_point():
            found.append(not bool(returned.isfinite().all()))

    handles = [part.register_forward_hook(look) for part in model.module.modules()]
    with torch.no_grad():
        for example in TEXTS:
            model.module(**model.tokenizer(example.text, return_tensors="pt"))
    for handle in handles:
        handle.remove()
    return any(found)


def refuses(model: LoadedModel, measures: list[str]) -> bool:
    """Whether it is refused, in one line; any other error is a fault of ours."""
    try:
        measure(model, TEXTS, measures)
    except OverflowedError as error:
        return "\n" not in str(error)
    return False


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "float32") for name in NAMES), *((name, "float16") for name in ("bert", "gpt2"))]
)
def test_weights_that_overflow_are_refused_wherever_they_are(name: str, dtype: str) -> None:
    model = loaded(name, getattr(torch, dtype))
    overflowing = 0
    for place, part in linear_maps(model.module).items():
        with huge(part):
            # Half precision has room for some: a norm in single precision takes its largest number.
            overflowing += overflows(model)
            assert refuses(model, EVERY) or not overflows(model), place
    assert overflowing >= 4


def spoiling(part: nn.Module, bad: float, passing: int, every: bool) -> Any:
    """A hook that puts `bad` into what a module returns after so many calls: everywhere, or at a text's second token alone."""
    calls = iter(range(10**6))

    def hook(module: nn.Module, given: Any, returned: Any) -> Any:
        if next(calls) < passing or not isinstance(returned, Tensor) or returned.ndim < 2:
            return None
        spoilt = returned.clone()
        where = slice(None) if every else slice(1, 2)
        spoilt[where if returned.ndim == 2 else (slice(None), where)] = bad
        return spoilt

    return part.register_forward_hook(hook)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("every", [True, False], ids=["everywhere", "at one token"])
def test_nan_and_infinity_are_refused_whichever_module_returns_them(name: str, every: bool) -> None:
    model = loaded(name)
    measure(model, TEXTS, EVERY)
    # How the model reads is known by now; what is left is to find maps and wiring, and the texts, which are the last pass.
    last = passes(model, EVERY) - 1
    ways = cycle(((math.nan, last), (math.inf, last), (math.nan, 0), (-math.inf, last), (math.inf, 0)))
    for (place, part), (bad, passing) in zip(linear_maps(model.module).items(), ways, strict=False):
        handle = spoiling(part, bad, passing, every)
        try:
            assert refuses(model, EVERY), (place, bad, passing)
        finally:
            handle.remove()


MARKED = Corpus.of([replace(example, rationale=(True,) * len(example.words)) for example in TEXTS], "marked")
LABELS = ("bad", "good", "neither")
GIVEN = Corpus.of([Example(f"{word} soup we {label}", label) for word in ("cold", "bread") for label in LABELS], "given")
RUNNERS: dict[str, Callable[[LoadedModel], object]] = {
    "measure": lambda model: measure(model, TEXTS, ["sim"]),
    "compare": lambda model: compare([model], TEXTS),
    "attention": lambda model: list(explain(model, TEXTS, ["attention"])),
    "gradient": lambda model: list(explain(model, TEXTS, ["gradient"])),
    "plausibility": lambda model: plausibility(model, MARKED, ["gradient"], judging=Judging(resamples=2)),
    "steer": lambda model: steer(model, TEXTS, directions=GIVEN, resamples=0),
    "ablate": lambda model: ablate(model, TEXTS, resamples=2),
    "attribute": lambda model: attribute(model, TEXTS),
    "faithfulness": lambda model: faithfulness(model, TEXTS, ["random"], erasing=Erasing(resamples=2)),
}
"""All who run texts through a model; those without weights of attention run it as transformers does."""


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("every", [True, False], ids=["everywhere", "at one token"])
def test_all_who_run_a_model_refuse_the_same(runner: str, name: str, every: bool) -> None:
    """SDPA makes numbers out of queries that are NaN, and a token that is not read reaches no answer."""
    model = loaded(name)
    RUNNERS[runner](model)
    for (place, part), bad in zip(linear_maps(model.module).items(), cycle(BAD), strict=False):
        handle = spoiling(part, bad, 0, every)
        try:
            with pytest.raises(OverflowedError, match=r"with NaN or infinity in torch.float32; try --dtype float64") as refused:
                RUNNERS[runner](model)
            assert "\n" not in str(refused.value), place
        finally:
            handle.remove()


def test_a_text_is_told_by_its_own_name() -> None:
    model = loaded("bert")
    table = model.module.get_input_embeddings().weight
    with torch.no_grad():
        table[model.tokenizer.convert_tokens_to_ids("loved")] = torch.finfo(table.dtype).max
    named = [replace(example, id=f"letter {number}") for number, example in enumerate(TEXTS)]
    with pytest.raises(OverflowedError, match="answers letter 1 with NaN"):
        compare([model], Corpus.of(named, "letters"))


def test_slopes_that_overflow_are_refused_where_the_answer_does_not() -> None:
    model = loaded("bert")
    dense = model.module.bert.encoder.layer[0].output.dense
    handle = dense.register_full_backward_hook(lambda module, wanted, given: (wanted[0] * math.inf,))
    compare([model], TEXTS)
    with pytest.raises(OverflowedError, match="gradient of BertForSequenceClassification answers overflow:"):
        list(explain(model, TEXTS, ["attention", "gradient"]))
    handle.remove()


def passes(model: LoadedModel, measures: list[str]) -> int:
    """How often the model is run."""
    calls: list[None] = []
    handle = model.module.register_forward_hook(lambda *_: calls.append(None))
    measure(model, TEXTS, measures)
    handle.remove()
    return len(calls)


@pytest.mark.parametrize("bad", BAD)
def test_nan_is_refused_from_whichever_pass_on(bad: float) -> None:
    measures = ["sim", "directionality"]
    every = passes(loaded("bert"), measures)
    assert every > 5
    for passing in range(every + 1):
        model = loaded("bert")
        handle = spoiling(model.module.bert.encoder.layer[1].output.dense, bad, passing, every=True)
        assert refuses(model, measures) == (passing < every), passing
        handle.remove()


def test_a_token_that_the_texts_do_not_have_may_overflow() -> None:
    model = loaded("bert")
    table = model.module.get_input_embeddings().weight
    clean = measure(model, TEXTS)
    had = {token for example in TEXTS for token in model.tokenizer(example.text)["input_ids"]}
    tried = set(random_batch(model.module).inputs["input_ids"].flatten().tolist()) - had
    assert tried
    with torch.no_grad():
        table[max(tried)] = torch.finfo(table.dtype).max
    spoilt = measure(model, TEXTS)
    for name in clean.tables:
        pd.testing.assert_frame_equal(clean[name], spoilt[name])


def spoilt(subject: Any, bad: float, share: float) -> Any:
    generator = torch.Generator().manual_seed(0)

    def of(x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.is_floating_point():
            return x
        return torch.where(torch.rand(x.shape, generator=generator) < share, torch.tensor(bad, dtype=x.dtype), x)

    return replace(subject, **{field.name: of(getattr(subject, field.name)) for field in fields(subject)})


@pytest.fixture(scope="module", params=["bert", "llama", "deberta"])
def subjects(request: pytest.FixtureRequest) -> list[Any]:
    """What a model leaves of its weights, of its layers and of its answer."""
    module = tiny(request.param)
    found: list[Any] = list(head_weights_of(module))
    with Capture(module, whole=True, heads={1: [1], 2: [2]}) as capture:
        capture(padded(), found.append, found.append)
    return found


@pytest.mark.parametrize("share", [1.0, 0.3, 0.01])
@pytest.mark.parametrize("bad", [*BAD, 1e200])
def test_every_quantity_and_statistic_takes_nan_and_infinity(subjects: list[Any], share: float, bad: float) -> None:
    """They see a pass before it is refused: on a GPU nothing is asked in between."""
    tally = Tally.for_needs(need for name in EVERY for need in request(name).needs())
    for subject in subjects:
        tally.add(spoilt(subject, bad, share))
    tally.flush()
    assert tally.sums


@pytest.mark.parametrize("bad", BAD)
def test_comparisons_take_nan_and_infinity(bad: float) -> None:
    one, other = torch.ones(3, 4), torch.ones(3, 4)
    one[1, 2] = bad
    assert _close(one, one.clone(), 1e-6)
    assert not _close(one, other, 1e-6)
    assert not _close(other, one, 1e-6)
    assert not is_sum(other, one, other)
    assert not is_sum(one, other, other)


def test_what_is_said_fits_the_precision() -> None:
    assert "try --dtype float32, or" in str(OverflowedError.of("it", "a:1", torch.float16))
    assert "try --dtype float64, or" in str(OverflowedError.of("it", "a:1", torch.float32))
    assert "float64; give another checkpoint" in str(OverflowedError.of("it", "a:1", torch.float64))


def test_on_the_command_line_it_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = loaded("bert")
    with torch.no_grad():
        model.module.bert.encoder.layer[2].output.dense.weight.fill_(torch.finfo(torch.float32).max)
    model.module.save_pretrained(tmp_path / "model")
    model.tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "texts.csv").write_text("text\nthe soup was cold\n", encoding="utf-8")
    said = refusal(capsys, "measure", tmp_path / "model", tmp_path / "texts.csv", "-o", tmp_path / "out")
    assert "with NaN or infinity in torch.float32; try --dtype float64, or another checkpoint" in said


def test_a_callback_lets_the_training_go_on() -> None:
    model = loaded("bert")
    watch = GeometryCallback(model.tokenizer, TEXTS)
    state = TrainerState(epoch=0.0)
    watch._measure(model.module, state, None)
    with torch.no_grad():
        model.module.bert.encoder.layer[2].output.dense.weight.fill_(math.nan)
    with pytest.raises(OverflowedError):
        geometry(model.module, model.tokenizer, TEXTS)
    state.global_step = 4
    watch._measure(model.module, state, None)
    told: list[dict[str, float]] = []
    watch.report = told.append
    watch._measure(model.module, state, None)
    assert told[0].keys() == watch.rows[1].keys() - {"step", "epoch"}
    assert watch.rows[1].keys() == watch.rows[0].keys()
    assert watch.rows[1].pop("step") == 4
    assert watch.rows[1].pop("epoch") == 0
    assert all(map(math.isnan, watch.rows[1].values()))
