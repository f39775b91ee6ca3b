"""Controls of SIM: the same model before training, and sinusoidal positions alone."""

from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.models.layers import sinusoids
from conoscope.studies.base import Row
from conoscope.studies.made import by_layer

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

UNTRAINED = ".untrained"
"""What the name of a quantity ends with if it is of the model before training."""
POSITIONS = "sim.positions"
"""SIM of the sinusoidal positions of each text, without words."""


def sim_rows(made: "Made", sim: "pd.DataFrame", sites: Sequence[str]) -> Iterator[Row]:
    """SIM of each site by layer, from the measured table; the same before training; and that of positions alone."""
    before = made.untrained().measure("sim")["sim"]
    for frame, ending in ((sim, ""), (before, UNTRAINED)):
        for site in sites:
            for layer, value in by_layer(frame, site).items():
                yield {"quantity": f"sim.{site}{ending}", "layer": layer, "value": value}
    if made.model.module.config.positions == "sinusoidal":
        longest = made.model.max_length
        lengths = (min(made.model.length(example.text, example.pair), longest) for example in made.texts)
        value = mean_sim_of_positions(lengths, made.model.module.config.hidden_size)
        yield from () if isnan(value) else ({"quantity": POSITIONS, "value": value},)


def mean_sim_of_positions(lengths: Iterable[int], width: int) -> float:
    """The mean of SIM over texts of these lengths that hold nothing but positions; texts of one token have none."""
    several = torch.tensor([length for length in lengths if length > 1], dtype=torch.long)
    return float(sims_of_positions(int(several.max()), width)[several].mean()) if len(several) else float("nan")


def sims_of_positions(longest: int, width: int) -> Float[Tensor, " n"]:
    """SIM of the first n sinusoidal positions, at place n up to the longest; NaN below 2.

    SIM = (‖Σu‖² - n) / (n (n - 1)), and Σu for every n is a running sum of the unit vectors.
    """
    table = sinusoids(longest, width, like=torch.zeros(0, dtype=torch.float64))
    sums = (table / torch.linalg.vector_norm(table, dim=-1, keepdim=True)).cumsum(0)
    n = torch.arange(1, longest + 1, dtype=torch.float64)
    found = (sums.square().sum(-1) - n) / (n * (n - 1))
    return torch.cat((found.new_tensor([torch.nan]), found.where(n > 1, torch.nan)))
