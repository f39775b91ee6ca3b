"""Attending: how a model attends for a time, whatever it does before and after."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from transformers import PreTrainedModel


@contextmanager
def attention_of(module: PreTrainedModel, implementation: str) -> Iterator[None]:
    """Within it the model is in evaluation mode, keeps no cache, and attends as told; then all is as before."""
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
    """Set how a model attends, without transformers' warning for models off the interface: those are followed, or refused."""
    logger = logging.getLogger("transformers.modeling_utils")

    def wanted(record: logging.LogRecord) -> bool:
        return "does not support setting its attention implementation" not in record.getMessage()

    logger.addFilter(wanted)
    try:
        module.set_attn_implementation(implementation)
    finally:
        logger.removeFilter(wanted)
