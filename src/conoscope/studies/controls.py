"""Rows that the studies of Fosse et al. share: SIM with its controls, and the entropies of [CLS]'s row.

The controls of SIM are the same model before training, and sinusoidal positions alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.models.layers import sinusoids
from conoscope.studies.base import Row
from conoscope.studies.made import by_layer
from conoscope.studies.summaries import POSITIONS, UNTRAINED

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.results.result import Result
    from conoscope.studies.made import Made


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


def entropy_rows(result: "Result") -> Iterator[Row]:
    """Entropy of [CLS]'s row by layer, mean over heads: of the row itself, and after a second softmax."""
    for name, quantity in (("attention_entropy", "entropy"), ("attention_entropy:softmax=twice", "entropy.softmax")):
        frame = result[name]
        rows = frame[frame["row"] == "cls"].dropna(subset="value")
        for layer in rows["layer"].unique():
            yield {"quantity": quantity, "layer": int(layer), "value": float(rows[rows["layer"] == layer]["value"].mean())}
