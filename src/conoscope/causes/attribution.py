"""attribute(): a model's logit difference, split along the direct path over embeddings, heads, feed-forward parts and biases."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from conoscope.capture.batcher import Batcher
from conoscope.capture.device import dtype_name
from conoscope.capture.forward import within_memory
from conoscope.capture.loading import LoadedModel, ModelSource
from conoscope.capture.order import refuse_swapped
from conoscope.causes.attribution_merging import effects_from
from conoscope.causes.attribution_split import Splitter
from conoscope.causes.attribution_tables import Reference, Sums
from conoscope.causes.effects import Effects
from conoscope.causes.opening import classifier
from conoscope.common.bounds import COUNT, POSITIVE, SHARDS, check, ordered
from conoscope.common.claiming import claims
from conoscope.common.errors import CorpusError
from conoscope.common.keywords import options_from, refuse_unknown_fields, with_keywords
from conoscope.common.terminal import Progress, doing
from conoscope.corpora import Columns, Corpus, Texts, corpus_of
from conoscope.explaining.evaluation import provenance_of
from conoscope.results.store import claim


@refuse_unknown_fields
@dataclass(frozen=True)
class Attributing:
    """Options of `attribute()`.

    `texts`: of how many texts, from the first, there are rows of their own. `shard`: part 1 of 4 of the texts as (1, 4).
    """

    texts: int = 20
    device: str | None = None
    dtype: str | None = None
    batch_size: int | None = None
    limit: int | None = None
    shard: tuple[int, int] = (1, 1)
    max_length: int | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check(self, texts=COUNT, batch_size=POSITIVE, limit=POSITIVE, max_length=POSITIVE)
        object.__setattr__(self, "shard", ordered("shard", self.shard, SHARDS))


@claims()
def attribute(
    model: ModelSource,
    corpus: Texts,
    options: Attributing | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    **keywords: Any,
) -> Effects:
    """What embeddings, heads, feed-forward parts and biases add to the logit of the predicted class minus that of the next.

    With `out`, the tables are also saved there. Keywords are the fields of Attributing, and text, label, pair and rationale, the
    columns.

    >>> attribute("runs/pure", "bistro:test", limit=100)["attribution"]
    """
    chosen, columns = with_keywords("attribute", keywords, options_from(Attributing, options), Columns())
    refuse_swapped("attribute", model, corpus)
    texts = corpus_of(corpus, columns)
    loaded = classifier(model, chosen.device, chosen.dtype, "attribution")
    batcher = loaded.batcher(texts, chosen.max_length)
    texts = texts.packed(loaded.length, batcher.max_length).first(chosen.limit)
    provenance = provenance_of("attribution", loaded, texts, [], _described(loaded, batcher, chosen))
    provenance["shards"] = ["{}/{}".format(*chosen.shard)]
    if out is not None:
        claim(out, provenance)
    doing("finding the direct path")
    sums = _sums(loaded, batcher, texts, chosen)
    seen = {"examples": sums.count, "truncated": batcher.truncated}
    effects = effects_from(sums.tables(), {**provenance, "seen": seen})
    if out is not None:
        effects.save(out)
    return effects


def _described(loaded: LoadedModel, batcher: Batcher, options: Attributing) -> dict[str, Any]:
    """The settings that determine the numbers."""
    return {
        "texts": options.texts,
        "limit": options.limit,
        "max_length": batcher.max_length,
        "dtype": dtype_name(loaded.module),
    }


def _sums(loaded: LoadedModel, batcher: Batcher, corpus: Corpus, options: Attributing) -> Sums:
    """The sums over all texts of the shard; CorpusError if there is none."""
    shard, shards = options.shard
    part = corpus.shard(shard, shards)
    places = (place for place in count(shard, shards))
    examples = {place: each for place, each in zip(places, part, strict=False) if place <= options.texts} if options.texts else {}
    spell = loaded.tokenizer.convert_ids_to_tokens
    sums = Sums(Reference(loaded.labels, examples, lambda token: str(spell(token))))
    size = loaded.texts_a_batch(options.batch_size)
    with Splitter(loaded) as splitter, Progress(part.size, options.progress, "attributed") as progress:
        for batch in batcher.batches(iter(part), size, count(shard, shards)):
            with within_memory(batch):
                sums.add(splitter(batch), batch)
            progress.advance(len(batch.ids), int(batch.real.sum()))
    if not sums.count:
        raise CorpusError(f"{corpus} has no examples to attribute; give another corpus")
    return sums
