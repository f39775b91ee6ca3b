"""Attention flow: how much could flow from the classifying token down to each word, were weights the widths of pipes.

The graph has a node for each token of each layer; its edges lead from a query to its keys one layer below. Maximum flows
are found with Dinic's algorithm: paths of the shortest kind are filled until none is left, then those of the next kind.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.common.errors import MeasureError
from conoscope.explaining.base import Passed, explains
from conoscope.explaining.rollouts import with_residual

LONGEST = 32
"""How many tokens a text may have: the cost grows with their fourth power."""
DUST = 1e-12
"""What is left of a pipe by rounding."""


@explains("Abnar and Zuidema 2020", "weights")
def flow_map(passed: Passed) -> Float[Tensor, "b t"]:
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
    edges = [(source, tokens * len(layers) + i, top[i]) for i in range(tokens)]
    for below, matrix in enumerate(layers):
        edges += [(tokens * (below + 1) + i, tokens * below + j, matrix[i, j]) for i, j in np.ndindex(matrix.shape)]
    graph = Graph(source + 1, [edge for edge in edges if edge[2] > 0])
    return np.array([graph.flow(source, sink) for sink in range(tokens)])


class Graph:
    """Nodes and pipes; pipe e leads to `to[e]` and is paired with pipe e ^ 1, which leads back."""

    def __init__(self, nodes: int, edges: Sequence[tuple[int, int, float]]) -> None:
        self.pipes: list[list[int]] = [[] for _ in range(nodes)]
        self.to: list[int] = []
        self.widths: list[float] = []
        for start, end, width in edges:
            for node, other, room in ((start, end, float(width)), (end, start, 0.0)):
                self.pipes[node].append(len(self.to))
                self.to.append(other)
                self.widths.append(room)

    def flow(self, source: int, sink: int) -> float:
        """The most that can flow from one node to another."""
        room, total = list(self.widths), 0.0
        while (depth := self._depths(room, source, sink))[sink] >= 0:
            untried = [iter(pipes) for pipes in self.pipes]
            at = [next(pipes, -1) for pipes in untried]
            while path := self._path(room, depth, (at, untried), (source, sink)):
                pushed = min(room[pipe] for pipe in path)
                total += pushed
                for pipe in path:
                    room[pipe] -= pushed
                    room[pipe ^ 1] += pushed
        return total

    def _depths(self, room: list[float], source: int, sink: int) -> list[int]:
        """How many pipes with room lie between the source and each node; -1 where there is no way."""
        depth = [-1] * len(self.pipes)
        depth[source], queue = 0, deque([source])
        while queue and depth[sink] < 0:
            node = queue.popleft()
            for pipe in self.pipes[node]:
                if room[pipe] > DUST and depth[self.to[pipe]] < 0:
                    depth[self.to[pipe]] = depth[node] + 1
                    queue.append(self.to[pipe])
        return depth

    def _path(
        self, room: list[float], depth: list[int], tried: tuple[list[int], list[Iterator[int]]], ends: tuple[int, int]
    ) -> list[int]:
        """The pipes of one shortest way with room; what led nowhere is not tried again. Nothing where there is none."""
        (at, untried), (source, sink) = tried, ends
        path: list[int] = []
        node = source
        while node != sink:
            pipe = at[node]
            if pipe >= 0 and room[pipe] > DUST and depth[self.to[pipe]] == depth[node] + 1:
                path.append(pipe)
                node = self.to[pipe]
            elif pipe >= 0:
                at[node] = next(untried[node], -1)
            elif path:
                node = self.to[path.pop() ^ 1]
                at[node] = next(untried[node], -1)
            else:
                return []
        return path
