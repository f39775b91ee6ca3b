"""Two classes of each text, and the difference of their logits."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

Classes = tuple[Int[Tensor, " b"], Int[Tensor, " b"]]
"""A class of each text, and another."""


def two_largest(logits: Float[Tensor, "b c"]) -> Classes:
    """The class with the largest logit, and the one with the next."""
    predicted = logits.argmax(-1)
    rest = logits.scatter(1, predicted[:, None], -torch.inf)
    return predicted, rest.argmax(-1)


def difference_of(logits: Float[Tensor, "b c"], one: Int[Tensor, " b"], other: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
    """The logit of one class minus that of another, in double precision."""
    wide = logits.double()
    return (wide.gather(1, one[:, None]) - wide.gather(1, other[:, None]))[:, 0]
