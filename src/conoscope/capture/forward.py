"""One forward pass of a model over a batch, with the batch's padding."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from conoscope.capture.batch import Batch
from conoscope.capture.calls import first_tensor
from conoscope.capture.class_token import padding_as
from conoscope.common.errors import ModelError


def outputs_of(module: PreTrainedModel, batch: Batch, **kwargs: Any) -> Any:
    """The model's outputs for a batch; during the pass the configuration names the batch's padding token."""
    with padding_as(module, batch.pad):
        return module(**batch.inputs, **kwargs)


def answer_of(module: PreTrainedModel, batch: Batch) -> Float[Tensor, "..."]:
    """The model's logits, or its last hidden state if it has no logits."""
    outputs = outputs_of(module, batch)
    answer: Tensor = outputs.logits if "logits" in outputs else outputs.last_hidden_state
    return answer


@contextmanager
def watched(module: PreTrainedModel, batch: Batch) -> Iterator[list[Bool[Tensor, " b"]]]:
    """Context in which every leaf module appends a mask of the examples whose output vectors all have finite norm.

    The logits alone do not show overflow: fused attention (SDPA) turns NaN queries into numbers, and NaN in a token that the
    classifier does not read never reaches the logits.
    """
    sound: list[Bool[Tensor, " b"]] = []

    def check(part: nn.Module, given: tuple[Any, ...], returned: Any) -> None:
        output = first_tensor(returned)
        if output is not None and output.is_floating_point() and output.ndim == 3 and output.shape[:2] == batch.real.shape:
            single = torch.promote_types(output.dtype, torch.float32)
            norms = torch.linalg.vector_norm(output, dim=-1, dtype=single)
            sound.append((norms.isfinite() | ~batch.real).all(-1))

    # Only leaf modules: a module with children returns what they compute.
    parts = [part for part in module.modules() if not list(part.children()) and not isinstance(part, (nn.Dropout, nn.Identity))]
    handles = [part.register_forward_hook(check) for part in parts]
    try:
        yield sound
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def within_memory(batch: Batch) -> Iterator[None]:
    """Re-raise out-of-memory errors as ModelError."""
    try:
        yield
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if not isinstance(error, torch.OutOfMemoryError) and "alloc" not in str(error):
            raise
        rows, tokens = batch.real.shape
        raise ModelError(
            f"{rows} x {tokens} tokens at once do not fit into memory; lower --batch-size or --max-length"
        ) from error
