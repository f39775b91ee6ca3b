"""Recorded steps: on a GPU, forward and backward of a small model are recorded once for each shape of batch, and replayed.

A step of such a model is some hundred short operations, which a CPU takes longer to queue than a GPU to run. Batches are padded
to few lengths, so that shapes come again.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from conoscope.measuring.graphs import CudaGraph, Graph, GraphMemory
from conoscope.models.family import SelfAttentionForSequenceClassification
from conoscope.training.settings import Training

MULTIPLE = 16
"""Batches are padded to multiples of so many tokens."""
MOST = 32
"""The largest number of recorded shapes."""
Inputs = Mapping[str, Tensor]
Loss = Callable[[Inputs], Tensor]


@dataclass
class RecordedStep:
    """Forward and backward of one shape of batch: its inputs, and what a replay leaves, always in the same memory."""

    inputs: dict[str, Tensor]
    graph: Graph
    loss: Tensor
    gradients: list[Tensor | None]


def can_be_recorded(module: nn.Module, chosen: Training, device: torch.device, mixed: bool = False) -> bool:
    """Whether steps of a model never wait for the GPU and draw no random numbers, and whether one process makes them all.

    `mixed`: steps compute in bfloat16, which the Trainer sets up around each.
    """
    own = isinstance(module, SelfAttentionForSequenceClassification) and not chosen.gradient_checkpointing
    penalties = chosen.penalties
    asks = penalties.supervised or (penalties.any and penalties.rows == "all")
    alone = not torch.distributed.is_available() or not torch.distributed.is_initialized()
    return device.type == "cuda" and own and not mixed and not asks and alone


class RecordedSteps:
    """Runs forward and backward, and records a shape that comes for the second time.

    `loss_of`: the loss of a batch; it must not wait for the GPU, nor draw random numbers. `reason`: why nothing is recorded any
    more, None as long as it is.
    """

    def __init__(
        self, module: nn.Module, loss_of: Loss, device: torch.device, graph: Callable[[GraphMemory], Graph] = CudaGraph
    ) -> None:
        self.parameters, self._loss_of, self._graph = list(module.parameters()), loss_of, graph
        self.reason: str | None = None
        self.replayed = 0
        """How many steps were replayed."""
        self._memory = GraphMemory(device)
        self._ran: set[Hashable] = set()
        self._steps: dict[Hashable, RecordedStep] = {}

    def __call__(self, inputs: Inputs) -> Tensor:
        """The loss of a batch, whose gradients are then those of the parameters."""
        learning = tuple(parameter.requires_grad for parameter in self.parameters)
        shape = (learning, *((name, x.shape, x.dtype) for name, x in inputs.items()))
        if shape in self._ran and shape not in self._steps and self.reason is None and len(self._steps) < MOST:
            self._record(shape, inputs)
        step = self._steps.get(shape)
        if step is None:
            self._ran.add(shape)
            return self._run(inputs)
        for name, x in inputs.items():
            step.inputs[name].copy_(x, non_blocking=True)
        step.graph.replay()
        for parameter, gradient in zip(self.parameters, step.gradients, strict=True):
            parameter.grad = gradient
        self.replayed += 1
        # Another graph may use this memory.
        return step.loss.clone()

    def _run(self, inputs: Inputs) -> Tensor:
        loss = self._loss_of(inputs)
        loss.backward()
        return loss.detach()

    def _record(self, shape: Hashable, inputs: Inputs) -> None:
        # Gradients that are made while recording lie in the graph's memory; those that exist would be added to.
        self._forget_gradients()
        own = {name: x.clone() for name, x in inputs.items()}
        try:
            with self._memory.growing(next(iter(inputs.values())).numel()):
                graph = self._graph(self._memory)
                with graph.capturing():
                    loss = self._run(own)
        except Exception as error:  # whatever a model or a driver objects to: steps then run operation by operation
            self.reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        else:
            self._steps[shape] = RecordedStep(own, graph, loss, [parameter.grad for parameter in self.parameters])
        self._forget_gradients()

    def _forget_gradients(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
