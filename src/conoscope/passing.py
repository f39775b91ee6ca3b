"""Passing: one pass of a model over a batch, padded as the batch is."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from conoscope.batches import Batch
from conoscope.calls import first_tensor
from conoscope.errors import ModelError
from conoscope.reading import padding_as


def outputs_of(module: PreTrainedModel, batch: Batch, **asked: Any) -> Any:
    """What transformers gives for a batch; the configuration names the batch's padding token meanwhile."""
    with padding_as(module, batch.pad):
        return module(**batch.inputs, **asked)


def answer_of(module: PreTrainedModel, batch: Batch) -> Float[Tensor, "..."]:
    """The model's logits, or its last hidden state where it has none."""
    outputs = outputs_of(module, batch)
    found: Tensor = outputs.logits if "logits" in outputs else outputs.last_hidden_state
    return found


@contextmanager
def watched(module: PreTrainedModel, batch: Batch) -> Iterator[list[Bool[Tensor, " b"]]]:
    """Within it, every part of the model adds to the list which examples it left vectors of finite length in.

    An answer alone does not tell: attention in one piece (SDPA) makes numbers out of queries that are NaN, and what is wrong with
    a token that the classifier does not read never reaches it.
    """
    sound: list[Bool[Tensor, " b"]] = []

    def look(part: nn.Module, given: tuple[Any, ...], returned: Any) -> None:
        found = first_tensor(returned)
        if found is not None and found.is_floating_point() and found.ndim == 3 and found.shape[:2] == batch.real.shape:
            single = torch.promote_types(found.dtype, torch.float32)
            lengths = torch.linalg.vector_norm(found, dim=-1, dtype=single)
            sound.append((lengths.isfinite() | ~batch.real).all(-1))

    # What has parts returns what they do.
    parts = [part for part in module.modules() if not list(part.children()) and not isinstance(part, (nn.Dropout, nn.Identity))]
    handles = [part.register_forward_hook(look) for part in parts]
    try:
        yield sound
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def within_memory(batch: Batch) -> Iterator[None]:
    """Within it, a batch that is too large is told as ours."""
    try:
        yield
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if not isinstance(error, torch.OutOfMemoryError) and "alloc" not in str(error):
            raise
        rows, tokens = batch.real.shape
        raise ModelError(
            f"{rows} x {tokens} tokens at once do not fit into memory; lower --batch-size or --max-length"
        ) from error
