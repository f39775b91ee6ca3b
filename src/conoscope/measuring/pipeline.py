"""measure(): the whole pipeline in one call, from a model and a corpus to tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import count
from operator import add
from pathlib import Path
from typing import Any

from conoscope.capture.batcher import Batcher, TokenAnnotations
from conoscope.capture.class_token import known_ids
from conoscope.capture.device import dtype_name
from conoscope.capture.frequencies import load_ranks
from conoscope.capture.head_weights import head_weights_of
from conoscope.capture.loading import LoadedModel, ModelSource, load_and_tell
from conoscope.capture.order import refuse_swapped
from conoscope.capture.text_vector import text_vector
from conoscope.capture.trace import HeadWeights
from conoscope.common.bounds import POSITIVE, SHARDS, check, ordered
from conoscope.common.claiming import claims
from conoscope.common.errors import CaptureError, CorpusError, LabelsDifferError, MeasureError, OutputError, one_of
from conoscope.common.keywords import names_in, nearest, options_from, refuse_unknown_fields, with_keywords
from conoscope.common.options import refuse_twice
from conoscope.common.pooling import chosen_pool, is_classifiers
from conoscope.common.terminal import Progress, complain, doing, say
from conoscope.common.textfiles import REPLACED
from conoscope.common.versions import versions
from conoscope.common.vocabulary import KINDS
from conoscope.corpora import Columns, Corpus, Texts, corpus_of
from conoscope.corpora.base import Notes, stable_hash
from conoscope.measures import CATALOGUE, Request, request
from conoscope.measures.tally import Tally
from conoscope.measuring.checkpoint import Checkpoint
from conoscope.measuring.provenance import command, notes_of, of_corpus, of_model
from conoscope.measuring.running import Outcome, Runner
from conoscope.measuring.windows import Windows, batches_of, width_step_of
from conoscope.results.result import Result
from conoscope.results.store import claim


@refuse_unknown_fields
@dataclass(frozen=True)
class Options:
    """Options of `measure()`. Only `limit`, `max_length`, `dtype`, `kinds`, `frequencies` and `pool` change numbers.

    `batch_size`: by default 32 texts, and 128 on a GPU, which small batches leave idle. `kinds`: further kinds of tokens, as
    lists of words by name. `frequencies`: a file of the tokens' ranks or counts. `pool`: which vector stands for a text, first,
    last or mean; by default what the classifier reads, or what the model's files say. Without `device` and `dtype`, a model in
    memory is measured as it is, and a folder is loaded in float32, on a GPU if there is one. `verbose`: say on standard error on
    which device, and how attention is computed there.
    """

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
    verbose: bool = False

    def __post_init__(self) -> None:
        check(self, names=("frequencies",), batch_size=POSITIVE, limit=POSITIVE, max_length=POSITIVE)
        object.__setattr__(self, "shard", ordered("shard", self.shard, SHARDS))


@claims()
def measure(
    model: ModelSource,
    corpus: Texts | None = None,
    measures: str | Sequence[str] | None = None,
    options: Options | Mapping[str, Any] | None = None,
    out: str | Path | Callable[[Mapping[str, Any]], Path] | None = None,
    **keywords: Any,
) -> Result:
    """Measure a model on texts in one streaming pass.

    Without `measures`, every applicable measure is run; without texts, those of the weights only. With `out`, the result is
    also saved there, and an interrupted run resumes; `out` is a folder, or a function from the provenance to one. Keywords are
    the fields of Options, and text, label, pair and rationale, the columns of a file, of dictionaries, of a DataFrame or of a
    data set.

    >>> measure("runs/pure", "bistro:test", "sim", limit=100)["sim"]
    """
    chosen, columns = with_keywords("measure", keywords, options_from(Options, options), Columns())
    refuse_swapped("measure", model, corpus)
    names = [] if measures is None else _names(measures, corpus)
    requests = [request(name) for name in names] or None
    if corpus is None and columns != Columns():
        raise CorpusError("text, label, pair and rationale are of texts, and there are none; give a corpus, or leave them out")
    texts = Corpus.of((), "no texts") if corpus is None else _corpus(corpus, columns, chosen.labels)
    requests = _applicable(texts, corpus is not None) if requests is None else requests
    refuse_twice("measure", (requested.name for requested in requests))
    _refuse_without_texts(requests, corpus is not None)
    _refuse_unread(requests, chosen, corpus is not None)
    chosen_pool(chosen.pool)
    loaded = load_and_tell(model, chosen.device, chosen.dtype)
    doing("beginning to measure")
    batcher = _batcher(loaded, texts, chosen)
    texts = texts.packed(loaded.length, batcher.max_length).first(chosen.limit)
    provenance = {**_provenance(loaded, texts, batcher, requests, chosen), "every": not names}
    if corpus is not None:
        pool = text_vector(loaded, chosen.pool)
        provenance["pool"] = pool.provenance()
        provenance["notes"] += [] if pool.note is None else [pool.note]
    folder = None if out is None else claim(out(provenance) if callable(out) else out, provenance)
    checkpoint = Checkpoint(folder, provenance)
    tally = Tally.for_needs(need for requested in requests for need in requested.needs())
    result = _run(loaded, texts.shard(*chosen.shard), batcher, tally, (chosen, checkpoint))
    if corpus is not None and not result.provenance["seen"]["examples"] and chosen.shard == (1, 1):
        raise CorpusError(f"{texts} has no examples to measure; give another corpus")
    if folder is not None:
        doing("reading the sums into tables")
        result.save(folder)
        checkpoint.clear()
    return result


def merge(folders: Iterable[str | Path]) -> Result:
    """The sum of results measured in shards, added in the order of shard numbers, whatever the order of the folders."""
    results = sorted((Result.load(folder) for folder in folders), key=lambda part: part.first_shard)
    if not results:
        raise OutputError("nothing to merge; give the folders that conoscope measure --shard wrote")
    return reduce(add, results)


def _batcher(loaded: LoadedModel, texts: Corpus, options: Options) -> Batcher:
    """A Batcher of these texts; an error about labels says how to do without them."""
    try:
        return loaded.batcher(texts, options.max_length, _annotations(loaded, options))
    except LabelsDifferError as error:
        raise LabelsDifferError(f"{error}, or measure with --no-labels (in Python labels=False)") from error


def _annotations(loaded: LoadedModel, options: Options) -> TokenAnnotations:
    _refuse_unclear(options.kinds)
    size = known_ids(loaded.module)
    ranks = None if options.frequencies is None else load_ranks(options.frequencies, loaded.tokenizer, size)
    return TokenAnnotations(options.kinds, ranks)


def _refuse_unclear(kinds: Mapping[str, Sequence[str]]) -> None:
    if clash := [name for name in kinds if name in (*KINDS, "all")]:
        raise MeasureError(f"{clash[0]!r} is a kind of token already; give yours another name")
    if texts := [name for name, words in kinds.items() if isinstance(words, str)]:
        raise MeasureError(f"the words of the kind {texts[0]!r} are one text; give a list of words")
    words = [word for of_kind in kinds.values() for word in {word.casefold() for word in of_kind}]
    if twice := sorted(word for word in words if words.count(word) > 1):
        raise MeasureError(f"{twice[0]!r} is of two kinds of token; leave it in one")


def _corpus(corpus: Texts, columns: Columns, labels: bool) -> Corpus:
    texts = corpus_of(corpus, columns)
    return texts if labels else texts.unlabelled()


def _applicable(texts: Corpus, given: bool) -> list[Request]:
    """Every measure that can be computed on these texts, or on the weights if no texts are given."""
    requests = [request(name) for name, measure in CATALOGUE.items() if not measure.on_request]
    return [each for each in requests if (texts.labels or not each.measure.labels) and (given or _of_weights(each))]


def _of_weights(requested: Request) -> bool:
    """Whether a measure reads the weights of heads."""
    return any(need.described.of is HeadWeights for need in requested.needs())


def _names(measures: str | Sequence[str], corpus: Texts | None) -> list[str]:
    """The names of measures; CorpusError if they are the labels of the texts."""
    listed = measures if isinstance(measures, str) or not isinstance(measures, Iterable) else list(measures)
    if isinstance(listed, list) and listed and isinstance(corpus, Sized) and not isinstance(corpus, str | Mapping):
        words = [name.partition(":")[0] for name in listed if isinstance(name, str)]
        if len(listed) == len(corpus) and not any(word in CATALOGUE or nearest(word, CATALOGUE) for word in words):
            raise CorpusError(
                f"{listed[0]!r} is no measure; labels are given with their texts: measure(model, list(zip(texts, labels)))"
            )
    return names_in(listed) if listed != "" else []


def _refuse_without_texts(requests: Sequence[Request], given: bool) -> None:
    if not given and (need_texts := [each.name for each in requests if not _of_weights(each)]):
        raise CorpusError(
            f"{one_of(need_texts)} cannot be measured without texts; give a corpus, as in conoscope measure MODEL bistro:test"
        )


def _refuse_unread(requests: Sequence[Request], options: Options, given: bool) -> None:
    """Refuse an option that no requested measure reads: a user who sets it expects an effect."""
    run_options = {name for requested in requests for need in requested.needs() for name in need.described.run_options}
    readers = {
        name: [known.name for known in CATALOGUE.values() if name in _run_options(known.name)]
        for name in ("kinds", "frequencies")
    }
    for name, by in readers.items():
        if getattr(options, name) and name not in run_options:
            raise MeasureError(f"no measure that is asked for reads {name}; leave it out, or ask for {one_of(by)}")
    for name in ("limit", "max_length", "pool"):
        if getattr(options, name) is not None and not given:
            raise CorpusError(f"{name} is of texts, and there are none; give a corpus, or leave it out")


def _run_options(name: str) -> set[str]:
    """The options of a run that a measure reads."""
    return {option for need in request(name).needs() for option in need.described.run_options}


def _run(loaded: LoadedModel, part: Corpus, batcher: Batcher, tally: Tally, run: tuple[Options, Checkpoint]) -> Result:
    (options, checkpoint), noted = run, Notes()
    examples = part.read(noted)
    tally, seen = checkpoint.resume(examples, tally)
    if tally.wants(HeadWeights) and not seen.examples:
        for maps in head_weights_of(loaded.module):
            tally.add(maps)
    batcher.truncated, (shard, shards) = seen.truncated, options.shard
    batcher.step = width_step_of(loaded.device)
    size = loaded.texts_a_batch(options.batch_size)
    places = count(shard + shards * seen.examples, shards)
    windows = Windows(examples, batcher, size, replace(seen), places, batches_of(loaded.device))
    vector = None if is_classifiers(checkpoint.provenance) else checkpoint.provenance.get("pool", {}).get("vector")
    with ExitStack() as stack:
        runner = stack.enter_context(Runner(loaded, tally, vector))
        if part.size != 0:
            checkpoint.capture = sorted({*checkpoint.capture, runner.described})
        if part.size != 0 and options.verbose:
            say(f"{runner.described}; {size} texts a batch", error=True)
        progress = stack.enter_context(Progress(part.size, options.progress))
        progress.advance(seen.examples)

        def count_in(outcomes: Iterable[Outcome]) -> None:
            for outcome in outcomes:
                seen.count_correct(outcome.batch.label, outcome.predicted, outcome.classes)
                progress.advance(len(outcome.batch.ids), int(outcome.batch.real.sum()))
                if loaded.device.type != "cpu":
                    windows.advance()

        for window in windows:
            runner.plan(window.batches)
            count_in(runner(window.batches))
            seen = replace(window.read, labelled=seen.labelled, correct=seen.correct)
            if checkpoint.is_due():
                count_in(runner.rest())
                runner.complete()
                checkpoint.keep(tally, seen)
        count_in(runner.rest())
        runner.complete()
        if runner.unrecorded is not None:
            checkpoint.capture = sorted({*checkpoint.capture, runner.unrecorded})
        for line in filter(None, (runner.unrecorded, runner.replayed)) if options.verbose else ():
            say(line, error=True)
    if options.progress and (replaced := noted[REPLACED]):
        complain(f"{part} has {replaced} {REPLACED}; save it as UTF-8, or its words are others")
    tally.flush()
    gaps = [f"{gap} cannot be followed in {loaded.name}" for gap in _gaps(tally)]
    if gaps and not checkpoint.provenance["every"]:
        raise CaptureError(f"{gaps[0]}; choose measures without it")
    return Result(tally, {**checkpoint.provenance, "seen": vars(seen), "gaps": gaps, "capture": checkpoint.capture})


def _gaps(tally: Tally) -> list[str]:
    """The sites and layers that some need lacks, so that no layer is missing from a table without notice.

    A site that the model has in no layer is not listed: its tables have no rows at all.
    """
    layers = set(range(max((layer for _, layer in tally.sums), default=-1) + 1))
    gaps: dict[str, None] = {}
    for need in tally.needs:
        if need.described.sparse:
            continue
        site = dict(need.options).get("site", "weights")
        present = {layer for layer, _ in tally.of(need)}
        missing = layers - present - (set() if site == "hidden" else {0}) if present else set()
        gaps |= {f"the site {site} of layer {layer}": None for layer in sorted(missing)}
    return list(gaps)


def _provenance(
    loaded: LoadedModel, corpus: Corpus, batcher: Batcher, requests: Sequence[Request], options: Options
) -> dict[str, Any]:
    return {
        "model": of_model(loaded),
        "corpus": of_corpus(corpus),
        "measures": [requested.name for requested in requests],
        "options": {
            "limit": options.limit,
            "max_length": batcher.max_length,
            "dtype": dtype_name(loaded.module),
            "kinds": {name: list(words) for name, words in options.kinds.items()},
            "frequencies": None if batcher.annotations.ranks is None else stable_hash(str(batcher.annotations.ranks.tolist())),
        },
        "shards": ["{}/{}".format(*options.shard)],
        "versions": versions(),
        "command": command(),
        "notes": [*notes_of(loaded), *loaded.notes],
    }
