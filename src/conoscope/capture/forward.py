"""Passing: one pass of a model over a batch, padded as the batch is."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from conoscope.capture.batch import Batch
from conoscope.capture.class_token import padding_as
from conoscope.common.errors import ModelError


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
