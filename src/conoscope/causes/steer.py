"""steer(): the vector that is classified from is turned towards another class, and the answer watched."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conoscope.capture.batch import Batch
from conoscope.capture.device import dtype_name
from conoscope.capture.forward import within_memory
from conoscope.capture.loading import LoadedModel, ModelSource
from conoscope.capture.order import refuse_swapped
from conoscope.causes.directions import Directions, directions_of
from conoscope.causes.editor import Editor
from conoscope.causes.edits import HIDDEN
from conoscope.causes.effects import Effects
from conoscope.causes.held_out import HeldOut, held_out
from conoscope.causes.judging import Rule, rule_of
from conoscope.causes.opening import classifier, plain_pass
from conoscope.causes.passes import Kept
from conoscope.causes.steering import Outcomes, Steerer, Steps
from conoscope.causes.steering_tables import INDEX, Asked, tables_of, told
from conoscope.common.bounds import ANGLE, COUNT, POSITIVE, check, within
from conoscope.common.claiming import claims
from conoscope.common.errors import CaptureError, CorpusError, MeasureError, ModelError
from conoscope.common.keywords import options_from, refuse_unknown_fields, with_keywords
from conoscope.common.options import refuse_twice
from conoscope.common.terminal import Progress, doing
from conoscope.corpora import Columns, Corpus, Texts
from conoscope.explaining.evaluation import provenance_of
from conoscope.measuring.provenance import of_corpus
from conoscope.results.store import claim

ANGLES = (10.0, 20.0, 30.0, 45.0, 60.0, 90.0)
SHARES = (0.25, 0.5, 0.75, 1.0)


@refuse_unknown_fields
@dataclass(frozen=True)
class Steering:
    """Options of `steer()`.

    `layer`: the layers, 0 for the embeddings; by default all in which the vectors of texts differ. `directions`: labelled texts
    that give the directions of classes; by default the train split beside the corpus, or else the half of its texts that is
    not counted. `most`: how many of them at most. `angles`: how far vectors are turned, in degrees, beside quarters of the way.
    """

    layer: int | Sequence[int] | None = None
    directions: Texts | None = None
    most: int = 2000
    angles: Sequence[float] = ANGLES
    resamples: int = 1000
    device: str | None = None
    dtype: str | None = None
    batch_size: int = 32
    limit: int | None = None
    max_length: int | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check(self, most=POSITIVE, resamples=COUNT, batch_size=POSITIVE, limit=POSITIVE, max_length=POSITIVE)
        angles = tuple(within("angles", angle, ANGLE) for angle in _several(self.angles, "angles"))
        refuse_twice("angle", (f"{float(angle):g}" for angle in angles))
        object.__setattr__(self, "angles", tuple(sorted(angles)) or ANGLES)
        if self.layer is not None:
            layers = tuple(within("layer", layer, COUNT) for layer in _several(self.layer, "layer"))
            refuse_twice("layer", map(str, layers))
            object.__setattr__(self, "layer", tuple(sorted(layers)) or None)


def _several(given: Any, name: str) -> list[Any]:
    """One number or several as a list."""
    if isinstance(given, str | bytes | Mapping):
        raise MeasureError(f"{name}={given!r} is no number; give one, or several")
    return list(given) if isinstance(given, Sequence | np.ndarray | range) else [given]


@claims()
def steer(
    model: ModelSource,
    corpus: Texts,
    options: Steering | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    **keywords: Any,
) -> Effects:
    """Turn the vector that is classified from towards another class's direction: does the answer become that class?

    Beside it the same with random directions, with those of shuffled labels, and lengthened by as much. Keywords are the
    fields of Steering, and text, label, pair and rationale, the columns.

    >>> steer("runs/pure", "bistro:test", layer=2, limit=100)["steering"]
    """
    chosen, columns = with_keywords("steer", keywords, options_from(Steering, options), Columns())
    refuse_swapped("steer", model, corpus)
    texts = held_out(corpus, chosen.directions, columns, chosen.most)
    loaded = classifier(model, chosen.device, chosen.dtype, "steering")
    _refuse_several(loaded)
    provenance = provenance_of("steer", loaded, texts.counted, [], _described(loaded, texts, chosen))
    if out is not None:
        claim(out, provenance)
    doing("steering")
    with Editor(loaded.module) as editor:
        run = Run(loaded, editor, texts, chosen)
        outcomes, asked, notes = run()
    tables = tables_of(outcomes, asked)
    right = outcomes.correct[~np.isnan(outcomes.correct)]
    seen = {"examples": run.examples, "counted": len(outcomes.place), "labelled": len(right), "correct": int(right.sum())}
    seen["truncated"] = run.truncated
    said = {**provenance, "seen": seen, "notes": [*provenance["notes"], *notes]}
    effects = Effects(tables, said, INDEX, told(tables, texts.which))
    if out is not None:
        effects.save(out)
    return effects


def _refuse_several(loaded: LoadedModel) -> None:
    """ModelError for a model that does not read the class at one token."""
    if loaded.reading.place == "several":
        raise ModelError(
            f"{loaded.name} classifies from several tokens, and steering turns one vector; give a model that reads one, as [CLS]"
        )
    if loaded.reading.place is None:
        raise ModelError(f"where {loaded.name} reads the class was not found, so there is no vector to turn; give another model")


def _described(loaded: LoadedModel, texts: HeldOut, options: Steering) -> dict[str, Any]:
    """The settings that determine the numbers."""
    return {
        "layer": None if options.layer is None else list(_several(options.layer, "layer")),
        "directions": {"of": texts.which, **of_corpus(texts.directions)},
        "most": options.most,
        "angles": list(options.angles),
        "resamples": options.resamples,
        "limit": options.limit,
        "max_length": loaded.batcher(texts.counted, options.max_length).max_length,
        "dtype": dtype_name(loaded.module),
    }


@dataclass
class Run:
    """A run: first the directions, then every batch of the texts that are counted."""

    loaded: LoadedModel
    editor: Editor
    texts: HeldOut
    options: Steering
    examples: int = 0
    truncated: int = 0

    def __call__(self) -> tuple[Outcomes, Asked, list[str]]:
        """The outcomes, what was asked for, and notes."""
        layers, notes = self._layers(), []
        directions = directions_of(map(self._kept, self._batches(self.texts.directions)), layers, self.texts.which)
        there = self._there(layers, directions)
        if self.options.layer is None and (same := sorted(set(layers) - set(there))):
            notes.append(f"layer {', '.join(map(str, same))} is left out: the vectors of all texts are the same there")
        steps = Steps(tuple(self.options.angles), SHARES)
        steerer = Steerer(self.editor, directions, there, steps)
        outcomes, rules = self._outcomes(steerer)
        if self.texts.left:
            notes.append(f"{self.texts.left['texts']} texts give directions too, and are not counted")
        counted = outcomes.of(outcomes.target >= 0)
        if left := len(outcomes.target) - len(counted.target):
            notes.append(f"{left} texts are left out: the model predicts a class for them that gives no direction")
        if not len(counted.target):
            raise CorpusError(
                f"the model predicts a class for each text of {self.texts.counted} that gives no direction; give --directions "
                "texts of all classes"
            )
        return counted, Asked(there, steps, self.loaded.labels, rules, self.options.resamples), notes

    def _layers(self) -> list[int]:
        """The layers that are asked for, or all whose hidden state is found."""
        found = self.editor.layers_of("hidden")
        if not found:
            raise CaptureError(f"no hidden state can be followed in {self.loaded.name}, so there is no vector to turn")
        asked = _several(self.options.layer, "layer") if self.options.layer is not None else found
        for layer in asked:
            if layer > len(self.editor.heads):
                raise MeasureError(
                    f"{self.loaded.name} has no layer {layer} to steer; give one from 0 to {len(self.editor.heads)}"
                )
            if layer not in found:
                raise CaptureError(f"the hidden state of layer {layer} cannot be followed in {self.loaded.name}; give another")
        return list(asked)

    def _there(self, layers: Sequence[int], directions: Directions) -> list[int]:
        """The layers in which there is something to turn towards."""
        there = directions.layers
        wrong = layers if not there else [layer for layer in layers if self.options.layer is not None and layer not in there]
        if wrong:
            raise MeasureError(
                f"the vectors of all texts are the same in layer {wrong[0]} of {self.loaded.name}, so classes have no direction "
                "there; give a higher layer"
            )
        return there

    def _batches(self, corpus: Corpus) -> Iterator[Batch]:
        """The texts in batches; counts how many of them are cut."""
        batcher = self.loaded.batcher(corpus, self.options.max_length)
        for batch in batcher.batches(iter(corpus), self.options.batch_size):
            yield batch.to(self.loaded.device)
        self.truncated = batcher.truncated

    def _outcomes(self, steerer: Steerer) -> tuple[Outcomes, dict[int, Rule]]:
        corpus = self.texts.counted.first(self.options.limit)
        found: list[Outcomes] = []
        rules: dict[int, Rule] = {}
        with Progress(corpus.size, self.options.progress, "steered") as progress:
            for batch in self._batches(corpus):
                kept = self._kept(batch)
                if not rules:
                    rules = {layer: self._rule(steerer, kept, layer) for layer in steerer.layers}
                with within_memory(kept.batch):
                    found.append(steerer(kept))
                self._refuse_overflow(found[-1], batch)
                progress.advance(len(batch.ids), int(batch.real.sum()))
        if not found:
            raise CorpusError(f"{corpus} has no texts to steer; give another corpus")
        self.examples = sum(len(one.place) for one in found)
        return Outcomes.together(found), rules

    def _rule(self, steerer: Steerer, kept: Kept, layer: int) -> Rule:
        one, other = steerer.directions.known[:2]
        classes = steerer.directions.classes[layer]
        step = classes[other] - classes[one]
        return rule_of(self.editor, kept, layer, step / step.norm().clamp_min(1e-300))

    def _kept(self, batch: Batch) -> Kept:
        """The plain pass over a batch, with its hidden states."""
        return plain_pass(self.loaded, self.editor, batch, HIDDEN)

    def _refuse_overflow(self, found: Outcomes, batch: Batch) -> None:
        """OverflowedError if an answer with an edit was not finite."""
        chance = torch.from_numpy(found.probability)
        # What cannot be turned has no number in any step.
        sound = chance.isfinite() | torch.from_numpy(np.isnan(found.flipped))
        self.loaded.refuse_infinite(torch.where(sound, 0.0, torch.nan).flatten(1), batch)
