"""Warm: one loaded model, with what is found about it once: its wiring, where it can be edited, how its answer splits."""

from functools import cached_property
from typing import Any

from torch import Tensor

from conoscope.capture.batcher import Batcher
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Capture
from conoscope.capture.text_vector import text_vector
from conoscope.capture.trace import Trace
from conoscope.capture.trial_batches import random_batch
from conoscope.causes.attribution_split import Splitter
from conoscope.causes.editor import Editor
from conoscope.causes.edits import SITES
from conoscope.common.errors import ConoscopeError, ModelError
from conoscope.common.pooling import Pool
from conoscope.corpora import Corpus
from conoscope.quantities.transformed import values_of

TOKENS = 512
"""The longest text in tokens; a longer one is cut."""
MAPS = ("weights", "norms", "residual")
"""The maps of a head or a layer: weights, norms of what is mixed in, and these with residual and normalisation."""


class Warm:
    """A model that stays open. Everything is found when it is first asked for, and between requests the model is as it was."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded, self.module = loaded, loaded.module

    @cached_property
    def batcher(self) -> Batcher:
        """Turns texts into batches."""
        return self.loaded.batcher(Corpus.of([]), TOKENS)

    @cached_property
    def pool(self) -> Pool:
        """The vector that stands for a text."""
        return text_vector(self.loaded)

    @cached_property
    def capture(self) -> Capture:
        """A capture that found the wiring; it is entered for a pass."""
        capture = Capture(self.module, "full", reductions=(), whole=True, vector=self.pool.instead)
        with capture:
            capture.find_wiring()
        return capture

    @cached_property
    def editor(self) -> Editor:
        """An editor that found where vectors can be edited; it is entered for a pass, before the capture."""
        editor = Editor(self.module, self.capture)
        with editor:
            return editor

    @cached_property
    def splitter(self) -> Splitter:
        """A splitter that found the direct path, with the same capture; a ConoscopeError of one line where there is none."""
        if (refused := self._unsplit) is not None:
            raise type(refused)(str(refused))
        return self._splitter

    @cached_property
    def _splitter(self) -> Splitter:
        return Splitter(self.loaded, self.capture)

    @cached_property
    def _unsplit(self) -> ConoscopeError | None:
        """Why the model's answer cannot be split; None if it can."""
        if not self.classifies:
            return ModelError(f"{self.loaded.name} is no classifier, and only an answer can be split; open one that is")
        try:
            with self._splitter:
                return None
        except ConoscopeError as error:
            return error

    @property
    def classifies(self) -> bool:
        """Whether it tells at least two classes apart."""
        return len(self.loaded.labels) > 1

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads of each layer."""
        return self.capture.find_wiring().heads

    @cached_property
    def maps(self) -> tuple[str, ...]:
        """Which of MAPS every layer has."""
        kept: list[dict[str, bool]] = []
        with self.capture:
            self.capture(random_batch(self.module), lambda trace: kept.append(_maps_of(trace)) if trace.layer else None)
        return tuple(name for name in MAPS if all(found[name] for found in kept))

    @cached_property
    def described(self) -> dict[str, Any]:
        """What `hello` says of the model."""
        editable = {site: len(self.editor.layers_of(site)) > 0 for site in SITES}
        added = self.loaded.tokenizer.num_special_tokens_to_add
        return {
            "name": self.loaded.name,
            "classifies": self.classifies,
            "labels": list(self.loaded.labels),
            "layers": len(self.heads),
            "heads": list(self.heads),
            "reads": self.pool.vector,
            "edits": editable,
            "maps": list(self.maps),
            "attributes": self._unsplit is None,
            "pairs": added(pair=True) > added(pair=False),
            "notes": list(self.notes),
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What the model leaves ambiguous, and what it lacks, in sentences."""
        lacks = [f"maps of {name} cannot be followed in every layer" for name in MAPS if name not in self.maps]
        pool = () if self.pool.note is None else (self.pool.note,)
        unsplit = (str(self._unsplit),) if self._unsplit is not None and self.classifies else ()
        return (*self.loaded.notes, *pool, *lacks, *unsplit)


def _maps_of(trace: Trace) -> dict[str, bool]:
    norms = trace.weights is not None and values_of(trace) is not None
    residual = (
        norms
        and trace.residual is not None
        and _width(trace.residual) == _width(None if trace.projection is None else trace.projection.weight)
    )
    return {"weights": trace.weights is not None, "norms": norms, "residual": residual}


def _width(x: Tensor | None) -> int | None:
    return None if x is None else x.shape[-1]
