"""Trial batches: random tokens on which the wiring of a model is found."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedModel

from conoscope.capture.batch import Batch
from conoscope.capture.class_token import known_ids, named_pad, trial_length


def known_tokens(module: PreTrainedModel) -> Int[Tensor, " n"]:
    """The ids of all tokens except the padding token."""
    known = torch.arange(known_ids(module))
    return known[known != (named_pad(module) or 0)]


def bare_batch(module: PreTrainedModel, ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"]) -> Batch:
    """A batch of bare token ids, padded with the id in the model's configuration, or with 0 if it names none."""
    pad = named_pad(module)
    return replace(Batch.of_ids(ids.where(real, pad or 0), real), pad=0 if pad is None else None).to(module.device)


def random_batch(module: PreTrainedModel, seed: int = 0) -> Batch:
    """Three rows of random tokens, two of them padded; their lengths distinguish the first token, the last and the mean."""
    longest = trial_length(module)
    real = torch.arange(longest) < torch.tensor([[longest], [longest - 1], [2]])
    known = known_tokens(module)
    ids = known[torch.randint(len(known), real.shape, generator=torch.Generator().manual_seed(seed))]
    return bare_batch(module, ids, real)
