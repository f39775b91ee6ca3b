"""ablate(): what becomes of a model's answers without each head, and without each layer's outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.batcher import Batcher
from conoscope.capture.device import dtype_name
from conoscope.capture.forward import within_memory
from conoscope.capture.loading import LoadedModel, ModelSource
from conoscope.capture.order import refuse_swapped
from conoscope.causes.editor import Editor
from conoscope.causes.effects import Effects
from conoscope.causes.measured import elsewhere, measured_heads, run_of
from conoscope.causes.merging import Asked, effects_from, keep_outcomes, seen_of
from conoscope.causes.opening import classifier, plain_pass
from conoscope.causes.outcomes import Outcomes, correct_of, effects_of, empty
from conoscope.causes.parts import ABLATED, HOWS, MeanCounter, Part, References, edit_of, estimated, parts_of
from conoscope.causes.passes import Kept
from conoscope.causes.saved import Saved
from conoscope.common.bounds import COUNT, POSITIVE, SHARDS, check, ordered
from conoscope.common.claiming import claims
from conoscope.common.errors import CorpusError, MeasureError, one_of
from conoscope.common.keywords import names_in, nearest, options_from, refuse_unknown_fields, with_keywords
from conoscope.common.options import refuse_twice
from conoscope.common.terminal import Progress, doing
from conoscope.corpora import Columns, Corpus, Texts, corpus_of
from conoscope.explaining.evaluation import provenance_of
from conoscope.results.store import claim

AT_ONCE = {"cpu": 1, "cuda": 1 << 16}
"""How many tokens of copies run side by side: on a CPU one copy, whose answers are then exactly those of the plain pass."""


@refuse_unknown_fields
@dataclass(frozen=True)
class Ablating:
    """Options of `ablate()`.

    `how`: what vectors become: zero, or their mean over the texts; by default each in turn. `measured`: a folder that `measure`
    wrote of the same model, whose gates, norms and SIM stand beside the effects. `estimates`: whether effects are estimated to
    first order too. `shard`: part 1 of 4 of the texts as (1, 4); means are over all of them, so that the merged parts are the
    whole.
    """

    how: str | Sequence[str] = HOWS
    measured: str | Path | None = None
    estimates: bool = True
    resamples: int = 1000
    device: str | None = None
    dtype: str | None = None
    batch_size: int | None = None
    limit: int | None = None
    shard: tuple[int, int] = (1, 1)
    max_length: int | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check(self, names=("measured",), resamples=COUNT, batch_size=POSITIVE, limit=POSITIVE, max_length=POSITIVE)
        hows = tuple(names_in(self.how, "way"))
        for how in hows:
            if how not in HOWS:
                raise MeasureError(f"no way {how!r} to ablate{nearest(how, HOWS)}; known: {one_of(HOWS)}")
        refuse_twice("way", hows)
        object.__setattr__(self, "how", hows or HOWS)
        object.__setattr__(self, "shard", ordered("shard", self.shard, SHARDS))


@claims()
def ablate(
    model: ModelSource,
    corpus: Texts,
    options: Ablating | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    **keywords: Any,
) -> Effects:
    """How answers change without each head, attention output and feed-forward output: accuracy, logits, probabilities.

    With `out`, the tables are also saved there, and an interrupted run resumes. Keywords are the fields of Ablating, and text,
    label, pair and rationale, the columns.

    >>> ablate("runs/pure", "bistro:test", limit=100)["ablation.heads"]
    """
    chosen, columns = with_keywords("ablate", keywords, options_from(Ablating, options), Columns())
    refuse_swapped("ablate", model, corpus)
    texts = corpus_of(corpus, columns)
    loaded = classifier(model, chosen.device, chosen.dtype, "ablation")
    batcher = loaded.batcher(texts, chosen.max_length)
    texts = texts.packed(loaded.length, batcher.max_length).first(chosen.limit)
    provenance = provenance_of("ablation", loaded, texts, [], _described(loaded, batcher, chosen))
    provenance["shards"] = ["{}/{}".format(*chosen.shard)]
    provenance["notes"] += [] if chosen.measured is None else elsewhere(chosen.measured, provenance, texts.size)
    doing("beginning to ablate")
    with Editor(loaded.module) as editor:
        measured = None if chosen.measured is None else measured_heads(chosen.measured, provenance["model"], editor.heads)
        run = Run(loaded, editor, batcher, texts, chosen)
        saved = Saved(None if out is None else claim(out, provenance), provenance, run.size)
        outcomes = run.outcomes(saved)
    doing("reading the outcomes into tables")
    seen = seen_of(outcomes, batcher.truncated)
    effects = effects_from(outcomes, Asked(run.parts, run.hows, chosen.resamples), {**provenance, "seen": seen}, measured)
    if out is not None:
        keep_outcomes(effects.save(out), outcomes, run.parts)
        saved.clear()
    return effects


def _described(loaded: LoadedModel, batcher: Batcher, options: Ablating) -> dict[str, Any]:
    """The settings that determine the numbers."""
    measured = None if options.measured is None else run_of(options.measured)
    return {
        "how": list(options.how),
        "measured": measured,
        "estimates": options.estimates,
        "resamples": options.resamples,
        "limit": options.limit,
        "max_length": batcher.max_length,
        "dtype": dtype_name(loaded.module),
    }


@dataclass
class Run:
    """A run over a corpus: first the means, then every batch without each part."""

    loaded: LoadedModel
    editor: Editor
    batcher: Batcher
    corpus: Corpus
    options: Ablating

    def __post_init__(self) -> None:
        self.parts: list[Part] = parts_of(self.editor)
        self.size = self.loaded.texts_a_batch(self.options.batch_size)

    @property
    def hows(self) -> Sequence[str]:
        """The ways to ablate, in their order."""
        return tuple(self.options.how)

    def outcomes(self, saved: Saved) -> Outcomes:
        """The outcomes of every text; CorpusError if there is none."""
        references = self.means() if "mean" in self.hows else None
        shard, shards = self.options.shard
        batches = self.batcher.batches(iter(self.part), self.size, count(shard, shards))
        self.batcher.truncated = 0
        done = [saved.resume(batches, empty(len(self.hows), len(self.parts)))]
        with Progress(self.part.size, self.options.progress, "ablated") as progress:
            progress.advance(len(done[0].places))
            for batch in batches:
                done.append(self.of_batch(batch, references))
                saved.count(batch)
                progress.advance(len(batch.ids), int(batch.real.sum()))
                if saved.is_due():
                    done = [sum(done[1:], done[0])]
                    saved.keep(done[0])
        outcomes = sum(done[1:], done[0])
        if not len(outcomes.places) and self.options.shard == (1, 1):
            raise CorpusError(f"{self.corpus} has no examples to ablate; give another corpus")
        return outcomes

    def means(self) -> References:
        """The mean vectors over all texts, from a plain pass over each batch."""
        counter, sites = MeanCounter(), {part.site for part in self.parts}
        with Progress(self.corpus.size, self.options.progress, "averaged") as progress:
            for batch in self.batcher.batches(iter(self.corpus), self.size):
                moved = batch.to(self.loaded.device)
                with within_memory(moved):
                    counter.add(self.editor.keep(moved, sites).vectors, moved)
                progress.advance(len(batch.ids), int(batch.real.sum()))
        return counter.means()

    @property
    def part(self) -> Corpus:
        """The texts that are ablated: all, or those of the shard."""
        return self.corpus.shard(*self.options.shard)

    def of_batch(self, batch: Batch, references: References | None) -> Outcomes:
        """The outcomes of a batch."""
        moved = batch.to(self.loaded.device)
        kept = plain_pass(self.loaded, self.editor, moved)
        with within_memory(moved):
            effects = [effects_of(kept.answer, self._without(how, kept, references), moved.label) for how in self.hows]
            estimates = self._estimates(moved, kept.answer.argmax(-1), references)
        found = torch.stack(effects, 1).cpu()
        self.loaded.refuse_infinite(found[..., 0].flatten(1), batch)
        correct = correct_of(kept.answer, moved.label).cpu()
        effects_by_text, estimates_by_text, right = (x.numpy().astype(np.float32) for x in (found, estimates.cpu(), correct))
        return Outcomes(effects_by_text, estimates_by_text, batch.place.numpy(), right)

    def _without(self, how: str, kept: Kept, references: References | None) -> Tensor:
        """The answers without each part."""
        device, heads = self.loaded.device.type, self.editor.heads
        beside = max(1, AT_ONCE.get(device, AT_ONCE["cuda"]) // kept.batch.real.numel())
        answers: list[Tensor] = []
        for layer in sorted({part.layer for part in self.parts}):
            # Parts of one layer begin at the same place.
            of_layer = [part for part in self.parts if part.layer == layer]
            for begin in range(0, len(of_layer), beside):
                some = of_layer[begin : begin + beside]
                edits = [[edit_of(part, how, kept.batch, references, heads[layer - 1])] for part in some]
                answers += self.editor.rerun(kept, edits)
        return torch.stack(answers)

    def _estimates(self, batch: Batch, target: Tensor, references: References | None) -> Tensor:
        if not self.options.estimates:
            return torch.full((len(batch.real), len(self.hows), len(self.parts)), torch.nan)
        slopes = self.editor.slopes(batch, target, ABLATED)
        each = [estimated(self.parts, how, batch, slopes, references, self.editor.heads) for how in self.hows]
        return torch.stack(each, 1)
