"""Attention flow: the maximum flow from the classifying token down to each word, with weights as edge capacities.

The graph has a node for each token of each layer; its edges lead from a query to its keys in the layer below.
"""

from collections.abc import Callable, Sequence

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
"""The most tokens that a text may have: the cost grows with their fourth power."""
UNITS = 2**29
"""The number of integer units of the whole flow: twice as many still fit a 32-bit integer, the only type that SciPy takes."""


@explains("Abnar and Zuidema 2020", "weights")
def flow_map(forward: ForwardPass) -> Float[Tensor, "b t"]:
    """Maximum flow from the classifying token to each token through ½ α + ½ I; for texts of at most 32 tokens."""
    batch, readers = forward.batch, forward.readers
    assert readers is not None
    layers = [with_residual(matrix).double().cpu().numpy() for matrix in forward.layers("weights")]
    scores = torch.zeros_like(readers, dtype=torch.float64)
    for row, real in enumerate(batch.real.cpu().numpy()):
        if real.sum() > LONGEST:
            raise MeasureError(
                f"the map flow is for texts of at most {LONGEST} tokens, and {batch.ids[row]} has {real.sum()}; "
                f"leave flow out, or cut the texts with --max-length {LONGEST}"
            )
        among = np.ix_(real, real)
        top = readers[row].double().cpu().numpy()[real]
        flows = flows_to_inputs(top, [matrix[row][among] for matrix in layers], forward.check)
        scores[row, batch.real[row]] = torch.from_numpy(flows).to(scores)
    return scores


def flows_to_inputs(
    top: Float[np.ndarray, " t"], layers: Sequence[Float[np.ndarray, "t t"]], check: Callable[[], None] = lambda: None
) -> Float[np.ndarray, " t"]:
    """The maximum flow to each input token, from a source joined to the top layer's tokens by edges of capacity `top`.

    `check` is called before each.
    """
    tokens = len(top)
    source = tokens * (len(layers) + 1)
    capacities = np.zeros((source + 1, source + 1))
    capacities[source, source - tokens : source] = top
    for below, matrix in enumerate(layers):
        begin = tokens * below
        capacities[begin + tokens : begin + 2 * tokens, begin : begin + tokens] = matrix
    found = []
    for sink in range(tokens):
        check()
        found.append(_flow(capacities, source, sink))
    return np.array(found)


def _flow(residual: Float[np.ndarray, "n n"], source: int, sink: int) -> float:
    """The maximum flow between two nodes, in double precision.

    SciPy's algorithm takes integers. A first round counts in units of the whole flow / 2²⁹ and misses at most one unit per
    edge; a second round finds what the first missed, in proportionally smaller units.
    """
    total, most, edges = 0.0, residual[source].sum(), np.count_nonzero(residual)
    for _ in range(2 if most else 0):
        unit = most / UNITS
        result = maximum_flow(csr_array((residual.clip(0, most) / unit).astype(np.int32)), source, sink)
        total += float(result.flow_value * unit)
        residual, most = residual - result.flow.toarray() * unit, edges * unit
    return total
