"""measure(): the whole pipe in one call, from a model and a corpus to tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import count, islice
from operator import add
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from conoscope.batches import WINDOW, Batcher, Known
from conoscope.bounds import POSITIVE, SHARDS, check, ordered
from conoscope.capture import Capture, Mode
from conoscope.checkpoint import Checkpoint
from conoscope.corpora import Corpus, Texts, corpus_of
from conoscope.corpora.base import stable_hash
from conoscope.errors import CaptureError, CorpusError, MeasureError, OutputError, one_of
from conoscope.frequencies import load_ranks
from conoscope.kinds import KINDS
from conoscope.loading import LoadedModel, load_model
from conoscope.maps import maps_of
from conoscope.measures import CATALOGUE, Request, request
from conoscope.options import refuse_twice
from conoscope.placing import dtype_name
from conoscope.pooling import chosen_pool, is_classifiers
from conoscope.provenance import command, notes_of, of_corpus, of_model
from conoscope.reading import known_ids
from conoscope.result import Result, claim, versions
from conoscope.tally import Tally
from conoscope.terminal import Progress
from conoscope.text_vector import text_vector
from conoscope.traces import Answer, Maps


@dataclass(frozen=True)
class Options:
    """How to run. Without a `batch_size`, 32 texts, and 128 on a GPU, which small batches leave idle. None of it changes a
    number, save `limit`, `max_length`, `dtype`, `kinds` (further kinds of tokens, as words by name) and `frequencies` (a file of
    the tokens' ranks or counts) and `pool` (which vector stands for a text: first, last or mean; without it what the classifier
    reads, or what the model's files say). Without a `device` and a `dtype`, a model is measured as it is, and a folder is loaded
    in float32, on a GPU where there is one."""

    device: str | None = None
    dtype: str | None = None
    batch_size: int | None = None
    limit: int | None = None
    shard: tuple[int, int] = (1, 1)
    max_length: int | None = None
    labels: bool = True
    kinds: Mapping[str, Sequence[str]] = field(default_factory=dict)
    frequencies: str | Path | None = None
    pool: str | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check(self, names=("frequencies",), batch_size=POSITIVE, limit=POSITIVE, max_length=POSITIVE)
        object.__setattr__(self, "shard", ordered("shard", self.shard, SHARDS))


def measure(
    model: str | Path | PreTrainedModel | LoadedModel,
    corpus: Texts | None = None,
    measures: Sequence[str] | None = None,
    options: Options | None = None,
    out: str | Path | None = None,
) -> Result:
    """Measure a model on a corpus in one streaming pass.

    Without `measures`, every one that fits; without a corpus, those of the weights alone. With `out`, the result is saved
    there too, and a run that was stopped goes on where it was.

    >>> measure("runs/pure", "bistro:test", ["sim"])["sim"]
    """
    chosen = options or Options()
    texts = Corpus.of((), "no texts") if corpus is None else _corpus(corpus, chosen.labels)
    asked = [request(name) for name in measures] if measures else _fitting(texts, corpus is not None)
    refuse_twice("measure", (wanted.name for wanted in asked))
    _refuse_without_texts(asked, corpus is not None)
    _refuse_unread(asked, chosen, corpus is not None)
    chosen_pool(chosen.pool)
    loaded = load_model(model, device=chosen.device, dtype=chosen.dtype)
    batcher = loaded.batcher(texts, chosen.max_length, _known(loaded, chosen))
    texts = texts.packed(loaded.length, batcher.max_length).first(chosen.limit)
    provenance = {**_provenance(loaded, texts, batcher, asked, chosen), "every": not measures}
    if corpus is not None:
        pool = text_vector(loaded, chosen.pool)
        provenance["pool"] = pool.provenance()
        provenance["notes"] += [] if pool.note is None else [pool.note]
    checkpoint = Checkpoint(None if out is None else claim(out, provenance), provenance)
    tally = Tally.for_needs(need for wanted in asked for need in wanted.needs())
    result = _run(loaded, texts.shard(*chosen.shard), batcher, tally, (chosen, checkpoint))
    if corpus is not None and not result.provenance["seen"]["examples"] and chosen.shard == (1, 1):
        raise CorpusError(f"{texts} has no examples to measure; give another corpus")
    if out is not None:
        result.save(out)
        checkpoint.clear()
    return result


def merge(folders: Iterable[str | Path]) -> Result:
    """Add up results that were measured in shards, in the order of their numbers, whatever the order of the folders."""
    results = sorted((Result.load(folder) for folder in folders), key=lambda part: part.first_shard)
    if not results:
        raise OutputError("nothing to merge; give the folders that conoscope measure --shard wrote")
    return reduce(add, results)


def _known(loaded: LoadedModel, options: Options) -> Known:
    _refuse_unclear(options.kinds)
    size = known_ids(loaded.module)
    ranks = None if options.frequencies is None else load_ranks(options.frequencies, loaded.tokenizer, size)
    return Known(options.kinds, ranks)


def _refuse_unclear(kinds: Mapping[str, Sequence[str]]) -> None:
    if clash := [name for name in kinds if name in (*KINDS, "all")]:
        raise MeasureError(f"{clash[0]!r} is a kind of token already; give yours another name")
    if texts := [name for name, words in kinds.items() if isinstance(words, str)]:
        raise MeasureError(f"the words of the kind {texts[0]!r} are one text; give a list of words")
    words = [word for of_kind in kinds.values() for word in {word.casefold() for word in of_kind}]
    if twice := sorted(word for word in words if words.count(word) > 1):
        raise MeasureError(f"{twice[0]!r} is of two kinds of token; leave it in one")


def _corpus(corpus: Texts, labels: bool) -> Corpus:
    texts = corpus_of(corpus)
    return texts if labels else texts.unlabelled()


def _fitting(texts: Corpus, given: bool) -> list[Request]:
    """Every measure that such texts, or the weights alone, can answer."""
    asked = [request(name) for name, known in CATALOGUE.items() if not known.on_request]
    return [wanted for wanted in asked if (texts.labels or not wanted.measure.labels) and (given or _of_weights(wanted))]


def _of_weights(wanted: Request) -> bool:
    """Whether a measure has something to say of the weights alone."""
    return any(need.described.of is Maps for need in wanted.needs())


def _refuse_without_texts(asked: Sequence[Request], given: bool) -> None:
    if not given and (wanting := [wanted.name for wanted in asked if not _of_weights(wanted)]):
        raise CorpusError(
            f"{one_of(wanting)} cannot be measured without texts; give a corpus, as in conoscope measure MODEL bistro:test"
        )


def _refuse_unread(asked: Sequence[Request], options: Options, given: bool) -> None:
    """Refuse an option that nothing would read: whoever gives it expects it to change something."""
    told = {name for wanted in asked for need in wanted.needs() for name in need.described.told}
    readers = {
        name: [known.name for known in CATALOGUE.values() if name in _told(known.name)] for name in ("kinds", "frequencies")
    }
    for name, by in readers.items():
        if getattr(options, name) and name not in told:
            raise MeasureError(f"no measure that is asked for reads {name}; leave it out, or ask for {one_of(by)}")
    for name in ("limit", "max_length", "pool"):
        if getattr(options, name) is not None and not given:
            raise CorpusError(f"{name} is of texts, and there are none; give a corpus, or leave it out")


def _told(name: str) -> set[str]:
    """The options that a measure reads."""
    return {option for need in request(name).needs() for option in need.described.told}


def _run(loaded: LoadedModel, part: Corpus, batcher: Batcher, tally: Tally, how: tuple[Options, Checkpoint]) -> Result:
    (options, checkpoint), examples = how, iter(part)
    tally, seen = checkpoint.resume(examples, tally)
    if tally.wants(Maps) and not seen.examples:
        for maps in maps_of(loaded.module):
            tally.add(maps)
    tally = tally.to(loaded.device)
    batcher.truncated = seen.truncated
    stream, (shard, shards) = seen.watch(examples), options.shard
    size = options.batch_size or (32 if loaded.device.type == "cpu" else 128)
    places = count(shard + shards * seen.examples, shards)
    mode: Mode = "full" if tally.looks else "kv"
    vector = None if is_classifiers(checkpoint.provenance) else checkpoint.provenance.get("pool", {}).get("vector")
    with (
        Capture(loaded.module, mode, tally.looks, heads=tally.heads, vector=vector) as capture,
        Progress(part.size, options.progress) as progress,
    ):
        progress.advance(seen.examples)
        look = partial(capture, receive=tally.add, answer=tally.add if tally.wants(Answer) else None)
        while window := list(islice(stream, size * WINDOW)):
            for batch in batcher.batches(window, size, places):
                seen.judge(batch, loaded.answer(batch, look))
                progress.advance(len(batch.ids))
            seen.truncated = batcher.truncated
            checkpoint.keep(tally, seen)
    tally = tally.to(torch.device("cpu"))
    gaps = [f"{gap} cannot be followed in {loaded.name}" for gap in _gaps(tally)]
    if gaps and not checkpoint.provenance["every"]:
        raise CaptureError(f"{gaps[0]}; choose measures without it")
    return Result(tally, {**checkpoint.provenance, "seen": vars(seen), "gaps": gaps})


def _gaps(tally: Tally) -> list[str]:
    """The sites and layers that a need lacks: a table must not lack a layer without a word.

    A site that a model has in no layer is not told here: it has no rows at all.
    """
    layers = set(range(max((layer for _, layer in tally.sums), default=-1) + 1))
    gaps: dict[str, None] = {}
    for need in tally.needs:
        if need.described.sparse:
            continue
        site = dict(need.options).get("site", "weights")
        there = {layer for layer, _ in tally.of(need)}
        missing = layers - there - (set() if site == "hidden" else {0}) if there else set()
        gaps |= {f"the site {site} of layer {layer}": None for layer in sorted(missing)}
    return list(gaps)


def _provenance(
    loaded: LoadedModel, corpus: Corpus, batcher: Batcher, asked: Sequence[Request], options: Options
) -> dict[str, Any]:
    return {
        "model": of_model(loaded),
        "corpus": of_corpus(corpus),
        "measures": [wanted.name for wanted in asked],
        "options": {
            "limit": options.limit,
            "max_length": batcher.max_length,
            "dtype": dtype_name(loaded.module),
            "kinds": {name: list(words) for name, words in options.kinds.items()},
            "frequencies": None if batcher.known.ranks is None else stable_hash(str(batcher.known.ranks.tolist())),
        },
        "shards": ["{}/{}".format(*options.shard)],
        "versions": versions(),
        "command": command(),
        "notes": [*notes_of(loaded), *loaded.notes],
    }
