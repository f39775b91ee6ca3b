"""Where parts end in a model: what reads the heads of each layer, and what may end a feed-forward part that is not known."""

from collections.abc import Iterator

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from conoscope.capture.batch import Batch
from conoscope.capture.calls import Call, Event, Log, logged
from conoscope.capture.forward import outputs_of
from conoscope.capture.recorder import Capture
from conoscope.common.errors import CaptureError


class Places:
    """The calls of one logged pass, layer by layer."""

    def __init__(self, module: PreTrainedModel, capture: Capture, batch: Batch) -> None:
        self.module, self.wiring = module, capture.find_wiring()
        self._log = Log()
        with capture.recording(self._log, batch), logged(module, self._log):
            outputs_of(module, batch)

    def reads(self) -> list[Call]:
        """The call that reads what the heads of each layer mixed: W_O, or whatever there is; CaptureError if there is none."""
        both = zip(self.wiring.projections, self._log.attentions, strict=True)
        found = [
            projection or self._first_given(layer, attended.context.flatten(2))
            for layer, (projection, attended) in enumerate(both, 1)
        ]
        if None in found:
            raise CaptureError(
                f"what reads the heads of layer {found.index(None) + 1} cannot be followed in {type(self.module).__name__}, so "
                "its answer cannot be split; docs/supported.md says where W_O is found"
            )
        return [call for call in found if call is not None]

    def last_linear(self, layer: int) -> Call | None:
        """The last linear layer before a layer's output that returns vectors of its width, as after it comes a normalisation in
        some models (Gemma 2); None if it is W_O."""
        output, projection = self.wiring.outputs[layer], self.wiring.projections[layer - 1]
        if output is None or projection is None:
            return None
        events = list(self._within(layer, output[0]))
        width = next((event.returned.numel() for event in events if event.call == projection and event.returned is not None), 0)
        linear = [
            event.call
            for event in events
            if event.call is not None and isinstance(event.call[0], nn.Linear | Conv1D) and _returns(event, width)
        ]
        return linear[-1] if linear and linear[-1] != projection else None

    def _within(self, layer: int, end: Call) -> Iterator[Event]:
        for event in self._log.segments()[layer]:
            yield event
            if event.call == end:
                return

    def _first_given(self, layer: int, flat: torch.Tensor) -> Call | None:
        after = (event for event in self._log.segments()[layer] if event.given is not None and event.given.shape == flat.shape)
        return next((event.call for event in after if event.given is not None and torch.equal(event.given, flat)), None)


def _returns(event: Event, count: int) -> bool:
    return event.returned is not None and event.returned.numel() == count
