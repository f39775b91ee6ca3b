"""Gradient maps: how the predicted class's logit changes with the word embeddings."""

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
TOGETHER = {"cpu": 1 << 10, "cuda": 1 << 14}
"""How many tokens of steps run at once."""


@explains("Denil et al. 2014; Shrikumar et al. 2017")
def gradient(forward: ForwardPass) -> Float[Tensor, "b t"]:
    """Gradient × input: the sum over coordinates of embedding × gradient of the predicted class's logit."""
    target, vectors = target_of(forward), embeddings_of(forward)
    with torch.enable_grad(), within_memory(forward.batch):
        given = vectors.clone().requires_grad_()
        logits = _logits(forward, given, forward.batch.inputs)
        (slopes,) = torch.autograd.grad(logits.gather(1, target[:, None]).sum(), given)
    return (slopes * vectors).sum(-1)


@explains("Sundararajan et al. 2017, with Captum", steps=("50", "N"), baseline=("zeros", "pad"))
def integrated_gradients(forward: ForwardPass, steps: str, baseline: str) -> Float[Tensor, "b t"]:
    """Gradient × input, averaged on the path from a baseline without words to the text; special tokens stay as they are."""
    if int(steps) > MOST_STEPS:
        raise MeasureError(f"integrated_gradients takes at most {MOST_STEPS} steps; give fewer than {steps}")
    attribute, target = _captum(), target_of(forward)
    vectors, names = embeddings_of(forward), list(forward.batch.inputs)
    empty = torch.zeros_like(vectors) if baseline == "zeros" else _pads(forward.module).expand_as(vectors)
    fixed = (forward.batch.kind <= SPECIAL)[..., None]  # pads too

    def logits(given: Tensor, *inputs: Tensor) -> Tensor:
        forward.check()
        return _logits(forward, given, dict(zip(names, inputs, strict=True)))

    with within_memory(forward.batch):
        attributions: Tensor = attribute(
            logits,
            vectors,
            baselines=torch.where(fixed, vectors, empty),
            target=target,
            additional_forward_args=tuple(forward.batch.inputs.values()),
            n_steps=int(steps),
            internal_batch_size=max(len(vectors), TOGETHER.get(vectors.device.type, TOGETHER["cuda"]) // vectors.shape[1]),
        )
    return attributions.sum(-1).to(vectors.dtype)


def _captum() -> Callable[..., Any]:
    try:
        from captum.attr import IntegratedGradients
    except ImportError as error:
        raise ModelError(
            f"the map integrated_gradients needs Captum, which cannot be imported ({error}); "
            "pip install 'conoscope[explain]', or leave it out"
        ) from error
    return lambda forward, *given, **options: IntegratedGradients(forward).attribute(*given, **options)


def target_of(forward: ForwardPass) -> Int[Tensor, " b"]:
    """The class that the model predicts for each text; 0 where the model has one output."""
    if forward.logits is None:
        raise ModelError(f"{type(forward.module).__name__} is no classifier, and gradients need one; leave those maps out")
    return forward.logits.argmax(-1)


@torch.no_grad()
def embeddings_of(forward: ForwardPass) -> Float[Tensor, "b t d"]:
    """The input embeddings of the batch."""
    table = forward.module.get_input_embeddings()
    vectors = table(forward.batch.inputs["input_ids"])
    if not isinstance(vectors, Tensor):
        raise _unknown_embeddings(forward.module)
    return vectors


def _unknown_embeddings(module: PreTrainedModel) -> ModelError:
    return ModelError(f"the embeddings of {type(module).__name__} cannot be replaced, which gradients need; leave those maps out")


def _pads(module: PreTrainedModel) -> Float[Tensor, " d"]:
    """The embedding of the padding token."""
    pad = named_pad(module)
    if pad is None:
        raise ModelError(f"{type(module).__name__} names no padding token; use integrated_gradients:baseline=zeros")
    vector: Tensor = module.get_input_embeddings().weight[pad].detach()
    return vector


def _logits(forward: ForwardPass, vectors: Float[Tensor, "b t d"], inputs: Any) -> Float[Tensor, "b c"]:
    with _replaced_embeddings(forward.module, vectors, inputs["input_ids"]), padding_as(forward.module, forward.batch.pad):
        logits: Tensor = forward.module(**inputs).logits
    return logits


@contextmanager
def _replaced_embeddings(module: PreTrainedModel, vectors: Float[Tensor, "b t d"], ids: Int[Tensor, "b t"]) -> Iterator[None]:
    """Context manager in which the model's embedding layer returns these vectors for these ids: a copy, as some models (CTRL)
    multiply them in place; with tokens first where the model reads them so (XLNet)."""

    def instead(embeddings: nn.Module, given: tuple[Any, ...], returned: Tensor) -> Tensor:
        if torch.equal(given[0], ids):
            return vectors.clone()
        if torch.equal(given[0], ids.T):
            return vectors.transpose(0, 1).clone()
        raise _unknown_embeddings(module)

    handle = module.get_input_embeddings().register_forward_hook(instead)
    try:
        yield
    finally:
        handle.remove()
