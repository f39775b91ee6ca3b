"""CUDA graphs: operations that are captured once and replayed, and the GPU memory that they take."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, runtime_checkable
from weakref import WeakSet

import torch

MARGIN = 1.25
"""Batches of as many tokens as a captured one may need this much more memory than it."""


@runtime_checkable
class Graph(Protocol):
    """What runs within `capturing` is captured instead, and runs whenever `replay` is called."""

    def capturing(self) -> Any:
        """Context that captures."""

    def replay(self) -> None:
        """Run what was captured."""


class GraphMemory:
    """The stream on which graphs of one device are captured, the memory pool that they share, and how much that pool takes.

    Because graphs share memory, what one leaves there must be read before another one runs.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream: torch.cuda.Stream | None = None
        self.pool: Any = None
        self.taken = 0
        """How many bytes of the GPU belong to the pool; other operations cannot use them."""
        self._per_token = 0.0
        self._graphs = WeakSet[Any]()

    @property
    def is_on_gpu(self) -> bool:
        """Whether there is a pool at all; the tests run on a CPU."""
        return self.device.type == "cuda"

    def fits(self, tokens: int) -> bool:
        """Whether a batch of so many tokens fits into the memory that graphs leave free, as far as is known."""
        return not self.taken or tokens * self._per_token * MARGIN <= self.usable()

    def usable(self) -> int:
        """How many bytes operations outside the pool can have."""
        free, _ = torch.cuda.mem_get_info(self.device)
        idle = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device) - self.taken
        return free + max(0, idle)

    @contextmanager
    def growing(self, tokens: int) -> Iterator[None]:
        """Context in which a batch of so many tokens is captured: afterwards it is known what the pool takes.

        A pool whose last graph is gone cannot be used again, nor one in which the first capture failed: torch ends it.
        """
        if not self.is_on_gpu:
            yield
            return
        if not self._graphs:
            self.release()
        if self.pool is None:
            self.stream = self.stream or torch.cuda.Stream(self.device)
            self.pool = torch.cuda.graph_pool_handle()
            # What was freed lies idle in torch's cache, where the pool cannot use it.
            torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved(self.device)
        try:
            yield
        finally:
            grown = max(0, torch.cuda.memory_reserved(self.device) - before)
            self.taken += grown
            self._per_token = max(self._per_token, grown / tokens)

    def hold(self, graph: Any) -> None:
        """A graph was captured: its pool lasts as long as one of them."""
        self._graphs.add(graph)

    def release(self) -> None:
        """Give the pool's memory back, after the last graph is gone. The next graph begins a new pool."""
        if self.pool is not None:
            self.pool, self.taken = None, 0
            torch.cuda.empty_cache()


class CudaGraph:
    """A CUDA graph in the memory that it shares with others."""

    def __init__(self, memory: GraphMemory) -> None:
        self._graph, self._memory = torch.cuda.CUDAGraph(), memory

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Context that captures; other threads may go on using the GPU."""
        stream, now = self._memory.stream, torch.cuda.current_stream(self._memory.device)
        generator = torch.cuda.default_generators[now.device_index]
        before = generator.clone_state()
        assert stream is not None
        stream.wait_stream(now)
        with torch.cuda.stream(stream):
            self._graph.capture_begin(pool=self._memory.pool, capture_error_mode="thread_local")
            try:
                yield
            except BaseException:
                # After an operation that cannot be captured, ending the capture is an error, too: the first one is raised. Then
                # torch would refuse random numbers, such as those of dropout: its generator takes itself for captured.
                with suppress(RuntimeError):
                    self._graph.capture_end()
                generator.graphsafe_set_state(before)
                raise
            self._graph.capture_end()
        self._memory.hold(self)
        now.wait_stream(stream)

    def replay(self) -> None:
        """Run what was captured, on the current stream."""
        self._graph.replay()
