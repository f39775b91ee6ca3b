"""Attention flow: how much could flow from the classifying token down to each word, were weights the widths of pipes.

The graph has a node for each token of each layer; its edges lead from a query to its keys one layer below.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

from conoscope.common.errors import MeasureError
from conoscope.explaining.base import ForwardPass, explains
from conoscope.explaining.rollouts import with_residual

LONGEST = 32
"""How many tokens a text may have: the cost grows with their fourth power."""
UNITS = 2**29
"""How many units the whole flow is counted in: twice as many still fit a 32-bit integer, which is all that SciPy takes."""


@explains("Abnar and Zuidema 2020", "weights")
def flow_map(passed: ForwardPass) -> Float[Tensor, "b t"]:
    """Maximum flow from the classifying token to each token through ½ α + ½ I; for texts of at most 32 tokens."""
    batch, readers = passed.batch, passed.readers
    assert readers is not None
    layers = [with_residual(matrix).double().cpu().numpy() for matrix in passed.layers("weights")]
    found = torch.zeros_like(readers, dtype=torch.float64)
    for row, real in enumerate(batch.real.cpu().numpy()):
        if real.sum() > LONGEST:
            raise MeasureError(
                f"the map flow is for texts of at most {LONGEST} tokens, and {batch.ids[row]} has {real.sum()}; "
                f"leave flow out, or cut the texts with --max-length {LONGEST}"
            )
        among = np.ix_(real, real)
        top = readers[row].double().cpu().numpy()[real]
        flows = flows_to_inputs(top, [matrix[row][among] for matrix in layers])
        found[row, batch.real[row]] = torch.from_numpy(flows).to(found)
    return found


def flows_to_inputs(top: Float[np.ndarray, " t"], layers: Sequence[Float[np.ndarray, "t t"]]) -> Float[np.ndarray, " t"]:
    """The maximum flow from a source, joined to the top tokens by pipes of these widths, to each input token."""
    tokens = len(top)
    source = tokens * (len(layers) + 1)
    widths = np.zeros((source + 1, source + 1))
    widths[source, source - tokens : source] = top
    for below, matrix in enumerate(layers):
        begin = tokens * below
        widths[begin + tokens : begin + 2 * tokens, begin : begin + tokens] = matrix
    return np.array([_flow(widths, source, sink) for sink in range(tokens)])


def _flow(room: Float[np.ndarray, "n n"], source: int, sink: int) -> float:
    """The maximum flow between two nodes, in double precision.

    SciPy's algorithm takes integers. A first round counts in units of the whole flow / 2²⁹ and misses at most one unit for
    each pipe; a second round finds what it missed, in units that are as much smaller.
    """
    total, most, pipes = 0.0, room[source].sum(), np.count_nonzero(room)
    for _ in range(2 if most else 0):
        unit = most / UNITS
        found = maximum_flow(csr_array((room.clip(0, most) / unit).astype(np.int32)), source, sink)
        total += float(found.flow_value * unit)
        room, most = room - found.flow.toarray() * unit, pipes * unit
    return total
