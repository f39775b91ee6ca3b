"""Context manager that sets a model's attention implementation for a while."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from transformers import PreTrainedModel


@contextmanager
def attention_of(module: PreTrainedModel, implementation: str) -> Iterator[None]:
    """Context in which the model is in evaluation mode, without cache, with this attention implementation; restored on exit."""
    before, cache = module.config._attn_implementation, getattr(module.config, "use_cache", None)
    training = {part: part.training for part in module.modules()}
    try:
        module.eval()
        _attend_as(module, implementation)
        if cache is not None:
            module.config.use_cache = False
        yield
    finally:
        _attend_as(module, before)
        for part, was in training.items():
            part.training = was
        if cache is not None:
            module.config.use_cache = cache


def _attend_as(module: PreTrainedModel, implementation: str) -> None:
    """Set a model's attention implementation, without transformers' warning for models off the attention interface: those are
    traced, or refused."""
    logger = logging.getLogger("transformers.modeling_utils")

    def is_other(record: logging.LogRecord) -> bool:
        return "does not support setting its attention implementation" not in record.getMessage()

    logger.addFilter(is_other)
    try:
        module.set_attn_implementation(implementation)
    finally:
        logger.removeFilter(is_other)
