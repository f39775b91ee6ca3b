"""Maps of gradients: how the predicted class's logit changes with the words' vectors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from conoscope.capture.class_token import named_pad, padding_as
from conoscope.capture.forward import within_memory
from conoscope.capture.token_kinds import SPECIAL
from conoscope.common.errors import MeasureError, ModelError
from conoscope.explaining.base import ForwardPass, explains

MOST_STEPS = 10**6


@explains("Denil et al. 2014; Shrikumar et al. 2017")
def gradient(passed: ForwardPass) -> Float[Tensor, "b t"]:
    """Gradient × input: the sum over coordinates of word vector × slope of the predicted class's logit."""
    target, vectors = target_of(passed), embeddings_of(passed)
    with torch.enable_grad(), within_memory(passed.batch):
        given = vectors.clone().requires_grad_()
        logits = _logits(passed, given, passed.batch.inputs)
        (slope,) = torch.autograd.grad(logits.gather(1, target[:, None]).sum(), given)
    return (slope * vectors).sum(-1)


@explains("Sundararajan et al. 2017, with Captum", steps=("50", "N"), baseline=("zeros", "pad"))
def integrated_gradients(passed: ForwardPass, steps: str, baseline: str) -> Float[Tensor, "b t"]:
    """Gradient × input, averaged on the way from no words to the text; special tokens stay as they are."""
    if int(steps) > MOST_STEPS:
        raise MeasureError(f"integrated_gradients takes at most {MOST_STEPS} steps; give fewer than {steps}")
    attribute, target = _captum(), target_of(passed)
    vectors, names = embeddings_of(passed), list(passed.batch.inputs)
    nothing = torch.zeros_like(vectors) if baseline == "zeros" else _pads(passed.module).expand_as(vectors)
    stays = (passed.batch.kind <= SPECIAL)[..., None]  # pads too

    def logits(given: Tensor, *inputs: Tensor) -> Tensor:
        return _logits(passed, given, dict(zip(names, inputs, strict=True)))

    with within_memory(passed.batch):
        found: Tensor = attribute(
            logits,
            vectors,
            baselines=torch.where(stays, vectors, nothing),
            target=target,
            additional_forward_args=tuple(passed.batch.inputs.values()),
            n_steps=int(steps),
            internal_batch_size=max(len(vectors), 64),
        )
    return found.sum(-1).to(vectors.dtype)


def _captum() -> Callable[..., Any]:
    try:
        from captum.attr import IntegratedGradients
    except ImportError as error:
        raise ModelError(
            f"the map integrated_gradients needs Captum, which cannot be imported ({error}); "
            "pip install 'conoscope[explain]', or leave it out"
        ) from error
    return lambda forward, *given, **options: IntegratedGradients(forward).attribute(*given, **options)


def target_of(passed: ForwardPass) -> Int[Tensor, " b"]:
    """The class that the model predicts of each text; its only number where it has but one."""
    if passed.logits is None:
        raise ModelError(f"{type(passed.module).__name__} is no classifier, and gradients need one; leave those maps out")
    return passed.logits.argmax(-1)


@torch.no_grad()
def embeddings_of(passed: ForwardPass) -> Float[Tensor, "b t d"]:
    """The word vectors that the model looks up."""
    table = passed.module.get_input_embeddings()
    found: Tensor = table(passed.batch.inputs["input_ids"])
    return found


def _pads(module: PreTrainedModel) -> Float[Tensor, " d"]:
    """The vector of the padding token."""
    pad = named_pad(module)
    if pad is None:
        raise ModelError(f"{type(module).__name__} names no padding token; use integrated_gradients:baseline=zeros")
    found: Tensor = module.get_input_embeddings().weight[pad].detach()
    return found


def _logits(passed: ForwardPass, vectors: Float[Tensor, "b t d"], inputs: Any) -> Float[Tensor, "b c"]:
    with _looked_up(passed.module, vectors), padding_as(passed.module, passed.batch.pad):
        found: Tensor = passed.module(**inputs).logits
    return found


@contextmanager
def _looked_up(module: PreTrainedModel, vectors: Float[Tensor, "b t d"]) -> Iterator[None]:
    """Within it the model finds these word vectors, whatever it looks up."""

    def instead(embeddings: nn.Module, given: tuple[Any, ...], returned: Tensor) -> Tensor:
        return vectors

    handle = module.get_input_embeddings().register_forward_hook(instead)
    try:
        yield
    finally:
        handle.remove()
