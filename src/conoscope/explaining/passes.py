"""Passes: runs a model batch by batch and keeps the matrices that the maps need."""

from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Capture
from conoscope.capture.recording import read_at
from conoscope.capture.text_vector import text_vector
from conoscope.capture.trace import Trace
from conoscope.capture.wiring import Pooling
from conoscope.explaining.base import ForwardPass, Request
from conoscope.explaining.matrices import KINDS


class Passes:
    """Context manager: `passes(batch)` runs the model once and returns a ForwardPass with the matrices that the maps need."""

    def __init__(self, loaded: LoadedModel, requests: Iterable[Request], pool: str | None = None) -> None:
        """`pool`: which rows a map is read from, if not those of the vector that the model itself uses."""
        self.loaded = loaded
        self.kinds = sorted({kind for request in requests for kind in request.method.needs})
        self._capture = (
            Capture(loaded.module, "full", reductions=(), whole=True, vector=text_vector(loaded, pool).instead)
            if self.kinds
            else None
        )
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._capture is not None:
            self._stack.enter_context(self._capture)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def __call__(self, batch: Batch) -> ForwardPass:
        """One forward pass over a batch."""
        batch = batch.to(self.loaded.device)
        matrices: dict[str, list[Tensor]] = {kind: [] for kind in self.kinds}

        def keep(trace: Trace) -> None:
            if trace.weights is not None:
                for kind, kept in matrices.items():
                    kept.append(KINDS[kind](trace))

        capture = self._capture
        answer = self.loaded.answer(batch, None if capture is None else lambda moved: capture(moved, keep))
        logits = answer if self.loaded.labels and answer.ndim == 2 else None
        return ForwardPass(self.loaded.module, batch, logits, self._readers(batch), matrices)

    def _readers(self, batch: Batch) -> Float[Tensor, "b t"] | None:
        wiring = None if self._capture is None else self._capture.wiring
        return None if wiring is None else readers_of(batch, wiring.pooling, wiring.asked)


def readers_of(batch: Batch, pooling: Pooling | None, asked: bool = False) -> Float[Tensor, "b t"]:
    """Weights over tokens: 1 at the token whose vector represents the text (by the wiring, or else [CLS]); 1/n at each real token
    for mean pooling, or if there is no such token."""
    real, at = batch.real, read_at(batch, pooling, asked)
    one = torch.arange(real.shape[1], device=real.device) == at[:, None]
    share = real.float() / real.sum(-1, keepdim=True).clamp_min(1)
    return torch.where((at >= 0)[:, None], one.float(), share)
