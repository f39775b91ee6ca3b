"""patch(): which layer and place, moved from one text to another, moves the answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from conoscope.capture.device import dtype_name
from conoscope.capture.forward import within_memory
from conoscope.capture.loading import LoadedModel, ModelSource
from conoscope.capture.order import refuse_swapped
from conoscope.causes.editor import Editor
from conoscope.causes.edits import SITES
from conoscope.causes.effects import Effects
from conoscope.causes.inference import paired
from conoscope.causes.opening import classifier
from conoscope.causes.pairs import KINDS, Answered, answered, pairs_of, usable
from conoscope.causes.patching import Moved, Patcher
from conoscope.causes.telling import told_patch
from conoscope.common.bounds import COUNT, POSITIVE, check
from conoscope.common.claiming import claims
from conoscope.common.errors import CaptureError, CorpusError, MeasureError, one_of
from conoscope.common.keywords import nearest, options_from, refuse_unknown_fields, with_keywords
from conoscope.common.terminal import Progress, doing
from conoscope.corpora import Columns, Corpus, Example, Texts, corpus_of
from conoscope.explaining.evaluation import provenance_of
from conoscope.results.store import TableInfo, claim

INDEX = {
    "patch": TableInfo("How often the answer moves with what one text left, by layer and kind of place.", "causes", 4),
    "patch.tokens": TableInfo("How far the answer moves with each place's vector, of the first pairs.", "causes", 5),
}
PAIRS = 20
"""Of how many pairs each place has rows of its own."""


@refuse_unknown_fields
@dataclass(frozen=True)
class Patching:
    """Options of `patch()`. `site`: what is moved: hidden (states), output (of attention), forward or context (head by head)."""

    site: str = "hidden"
    resamples: int = 1000
    device: str | None = None
    dtype: str | None = None
    batch_size: int = 16
    limit: int | None = None
    max_length: int | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check(self, resamples=COUNT, batch_size=POSITIVE, limit=POSITIVE, max_length=POSITIVE)
        if self.site not in SITES:
            raise MeasureError(f"no site {self.site!r} to patch{nearest(self.site, SITES)}; known: {one_of(SITES)}")


@claims()
def patch(
    model: ModelSource,
    source: Texts,
    target: str | Example | None = None,
    options: Patching | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    **keywords: Any,
) -> Effects:
    """Run the target with vectors that the source left: of which layer and place does the answer follow?

    Two texts of as many tokens with different answers; or a corpus, in which every two texts in a row are a pair. Keywords are
    the fields of Patching, and text, label, pair and rationale, the columns.

    >>> patch("runs/pure", "the soup was good", "the soup was bad")["patch.tokens"]
    >>> patch("runs/pure", "bistro-pairs:test", limit=100)["patch"]
    """
    chosen, columns = with_keywords("patch", keywords, options_from(Patching, options), Columns())
    refuse_swapped("patch", model, source)
    texts = corpus_of(source, columns) if target is None else _two(source, target)
    loaded = classifier(model, chosen.device, chosen.dtype, "patching")
    batcher = loaded.batcher(texts, chosen.max_length)
    texts = texts.first(None if chosen.limit is None else 2 * chosen.limit)
    settings = {
        "site": chosen.site,
        "resamples": chosen.resamples,
        "limit": chosen.limit,
        "max_length": batcher.max_length,
        "dtype": dtype_name(loaded.module),
    }
    provenance = provenance_of("patch", loaded, texts, [], settings)
    if out is not None:
        claim(out, provenance)
    doing("patching")
    pairs = list(pairs_of(texts, batcher))
    if not pairs:
        raise CorpusError(f"{texts} has no texts to patch; give another corpus")
    site = next(known for known in SITES if known == chosen.site)
    with Editor(loaded.module) as editor:
        patcher = Patcher(editor, site)
        if not patcher.layers:
            raise CaptureError(f"{SITES[site]} cannot be followed in {loaded.name}; patch another site")
        found = _run(loaded, list(answered(loaded, pairs, batcher, chosen.batch_size)), patcher, chosen)
    effects = _effects(found, loaded, provenance, chosen)
    if out is not None:
        effects.save(out)
    return effects


def _two(source: Texts, target: str | Example) -> Corpus:
    """A corpus of two texts."""
    named = ((source, "the first text"), (target, "the second"))
    given = [Example(text, id=name) if isinstance(text, str) else text for text, name in named]
    examples = [example for example in given if isinstance(example, Example) and example.text.split()]
    if len(examples) < len(given):
        raise CorpusError(
            "patching is from one text to another, and these are not two texts; give two, or a corpus of pairs alone"
        )
    return Corpus.of(examples, "two texts")


@dataclass(frozen=True)
class Found:
    """Some pairs, which of them count, and their answers."""

    answers: Answered
    counts: np.ndarray
    moved: list[Moved]


def _run(loaded: LoadedModel, batches: list[Answered], patcher: Patcher, options: Patching) -> list[Found]:
    labelled = any(bool((batch.source.label >= 0).any()) for batch in batches)
    found = []
    with Progress(sum(len(batch.pairs) for batch in batches), options.progress, "patched", "pair") as progress:
        for batch in batches:
            counts = usable(batch, labelled)[1]
            with within_memory(batch.target):
                moved = patcher(batch) if bool(counts.any()) else []
            found.append(Found(batch, counts.cpu().numpy(), moved))
            progress.advance(len(batch.pairs))
    if not any(one.counts.any() for one in found):
        _refuse(loaded, batches, labelled)
    return found


def _refuse(loaded: LoadedModel, batches: list[Answered], labelled: bool) -> None:
    """CorpusError where no pair can be patched."""
    first = batches[0]
    if len(batches) == len(first.pairs) == 1 and not bool(usable(first, False)[0]):
        label = loaded.labels[int(first.classes[0][0])]
        raise CorpusError(
            f"{loaded.name} answers both texts with {label!r}, so no answer can move; give texts with different answers"
        )
    right = "right" if labelled else "with two different classes"
    raise CorpusError(f"{loaded.name} answers no pair {right}, so no answer can move; give other texts, or another model")


def _effects(found: list[Found], loaded: LoadedModel, provenance: Mapping[str, Any], options: Patching) -> Effects:
    tables = {"patch": _by_kind(found, options), "patch.tokens": _by_token(found, loaded, options.site)}
    pairs, counted = sum(len(one.answers.pairs) for one in found), sum(int(one.counts.sum()) for one in found)
    left = [f"{pairs - counted} of {pairs} pairs are left out: not both answers are right, or both are the same"]
    said = {
        **provenance,
        "seen": {"examples": 2 * pairs, "pairs": counted},
        "notes": [*provenance["notes"], *left[: pairs > counted]],
    }
    first = next(one for one in found if one.counts.any())
    row = int(np.flatnonzero(first.counts)[0])
    answers = tuple(loaded.labels[int(classes[row])] for classes in first.answers.classes)
    return Effects(tables, said, INDEX, told_patch(tables, pairs, counted, answers))


def _by_kind(found: list[Found], options: Patching) -> pd.DataFrame:
    """A row for each layer, kind of place and what is watched; of several places of one kind in a pair their mean, but of
    differing ones all together."""
    rows = []
    parts = dict.fromkeys((moved.layer, moved.head) for one in found for moved in one.moved)
    for (layer, head), kind, what in product(parts, KINDS, ("flipped", "moved")):
        values = np.concatenate([_of_kind(one, (layer, head), kind, what)[one.counts] for one in found if one.moved])
        if np.isnan(values).all():
            continue
        number = paired(values[:, None], options.resamples)
        columns = {name: float(getattr(number, name)[0]) for name in ("value", "sd", "low", "high")}
        row = {"measure": "patch", "site": options.site, "layer": layer, "head": head, "tokens": kind, "what": what}
        rows.append({**row, **columns, "n": int(number.n[0])})
    frame = pd.DataFrame(rows).astype({"layer": "Int64", "head": "Int64", "n": "Int64"})
    return frame[[*frame.columns[:8], "n", "low", "high"]]


def _of_kind(found: Found, part: tuple[int, int | None], kind: str, what: str) -> Float[np.ndarray, " n"]:
    """A number for each pair; NaN without such a place."""
    of_layer = [moved for moved in found.moved if (moved.layer, moved.head) == part]
    if kind == "differing":
        together: np.ndarray = next(getattr(moved, what).numpy() for moved in of_layer if moved.place is None)
        return together
    each = np.stack([getattr(moved, what).numpy() for moved in of_layer if moved.place is not None], -1)
    chosen = found.answers.kinds().cpu().numpy() == KINDS.index(kind)
    with np.errstate(invalid="ignore"):
        mean: np.ndarray = np.where(chosen, each, 0.0).sum(-1) / chosen.sum(-1)
    return mean


def _by_token(found: list[Found], loaded: LoadedModel, site: str) -> pd.DataFrame:
    """A row for each layer and place of the first pairs: the share of the margin that moves, whether the answer follows, and the
    probability of the source's answer."""
    rows = []
    ordered = sorted((pair.number, one, row) for one in found for row, pair in enumerate(one.answers.pairs) if one.counts[row])
    for number, one, row in sorted(ordered, key=lambda each: each[0])[:PAIRS]:
        kinds = one.answers.kinds()[row].tolist()
        source, target = (
            loaded.tokenizer.convert_ids_to_tokens(batch.inputs["input_ids"][row].tolist())
            for batch in (one.answers.source, one.answers.target)
        )
        for moved in (moved for moved in one.moved if moved.place is not None):
            assert moved.place is not None
            rows.append(
                {
                    "measure": "patch",
                    "site": site,
                    "layer": moved.layer,
                    "head": moved.head,
                    "pair": number,
                    "place": moved.place + 1,
                    "tokens": KINDS[kinds[moved.place]],
                    "source": source[moved.place],
                    "target": target[moved.place],
                    "value": float(moved.moved[row]),
                    "sd": float("nan"),
                    "n": 1,
                    "flipped": bool(moved.flipped[row]),
                    "probability": float(moved.probability[row]),
                }
            )
    return pd.DataFrame(rows).astype({"layer": "Int64", "head": "Int64", "n": "Int64"})
