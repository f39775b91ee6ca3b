"""The random map: the baseline that any other map must beat."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.corpora import Example, stable_hash
from conoscope.explaining.base import ForwardPass, explains
from conoscope.sums.numeric import mixed


@explains("the baseline")
def random_map(forward: ForwardPass) -> Float[Tensor, "b t"]:
    """A number in [0, 1) for each word, by a hash of the example's id and the word's place: the same for every model."""
    word, ranks = forward.batch.word, forward.batch.example_ranks
    begins = word != torch.cat([torch.full_like(word[:, :1], -1), word[:, :-1]], 1)
    # A word's first token gets the whole score, so that words of many tokens have no advantage.
    return uniform(ranks[:, None] + 1 + word).where(begins & (word >= 0), 0.0)


def uniform(numbers: Int[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """A pseudo-random number in [0, 1) for each integer, always the same for the same integer."""
    return (mixed(numbers) >> 10).double() / 2**53


def random_scores(example: Example) -> Float[Tensor, " w"]:
    """The random map of one example, without a model."""
    rank = mixed(torch.tensor(stable_hash(example.id)))
    return uniform(rank + 1 + torch.arange(len(example.words)))
