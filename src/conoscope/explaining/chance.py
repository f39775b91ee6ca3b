"""The map of chance: what any other map must do better than."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.corpora import Example, stable_hash
from conoscope.explaining.base import ForwardPass, explains
from conoscope.sums.numeric import mixed


@explains("the baseline")
def random_map(passed: ForwardPass) -> Float[Tensor, "b t"]:
    """A number in [0, 1) for each word, by a hash of the example's id and the word's place: the same for every model."""
    word, ranks = passed.batch.word, passed.batch.example_ranks
    begins = word != torch.cat([torch.full_like(word[:, :1], -1), word[:, :-1]], 1)
    # A word's first token has all of it, so that words of many tokens do not win.
    return uniform(ranks[:, None] + 1 + word).where(begins & (word >= 0), 0.0)


def uniform(numbers: Int[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """A number in [0, 1) that looks random, the same one for the same whole number."""
    return (mixed(numbers) >> 10).double() / 2**53


def random_scores(example: Example) -> Float[Tensor, " w"]:
    """The same map of one example, without any model."""
    rank = mixed(torch.tensor(stable_hash(example.id)))
    return uniform(rank + 1 + torch.arange(len(example.words)))
