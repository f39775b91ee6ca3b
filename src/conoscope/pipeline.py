"""measure(): the whole pipe in one call, from a model and a corpus to tables."""

import platform
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from importlib.metadata import version
from operator import add
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from conoscope.batches import Batcher
from conoscope.capture import Capture
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.errors import CorpusError, OutputError
from conoscope.loading import LoadedModel, load_model
from conoscope.measures import CATALOGUE, Request, request
from conoscope.progress import Progress
from conoscope.result import Result, claim
from conoscope.tally import Tally


@dataclass(frozen=True)
class Options:
    """How to run: none of it changes a number, save `limit`, `max_length` and `dtype`."""

    device: str = "auto"
    dtype: str = "float32"
    batch_size: int = 32
    limit: int | None = None
    shard: tuple[int, int] = (1, 1)
    max_length: int | None = None
    labels: bool = True
    progress: bool = False


def measure(
    model: str | Path | PreTrainedModel | LoadedModel,
    corpus: str | Corpus | Iterable[Example],
    measures: Sequence[str] | None = None,
    options: Options | None = None,
    out: str | Path | None = None,
) -> Result:
    """Measure a model on a corpus in one streaming pass; with `out`, the result is saved there too.

    >>> measure("runs/pure", "bistro:test", ["sim"])["sim"]
    """
    chosen = options or Options()
    asked = [request(name) for name in measures or CATALOGUE]
    texts = _corpus(corpus, chosen)
    loaded = load_model(model, device=chosen.device, dtype=chosen.dtype)
    batcher = loaded.batcher(texts, chosen.max_length)
    provenance = _provenance(loaded, texts, asked, chosen)
    if out is not None:
        claim(out, provenance)
    part = texts.shard(*chosen.shard)
    result = _run(loaded, part, batcher, asked, (provenance, chosen))
    if out is not None:
        result.save(out)
    return result


def merge(folders: Iterable[str | Path]) -> Result:
    """Add up results that were measured in shards."""
    results = [Result.load(folder) for folder in folders]
    if not results:
        raise OutputError("nothing to merge; give the folders that conoscope measure --shard wrote")
    return reduce(add, results)


def _corpus(corpus: str | Corpus | Iterable[Example], options: Options) -> Corpus:
    texts = load_corpus(corpus) if isinstance(corpus, str) else corpus if isinstance(corpus, Corpus) else Corpus.of(corpus)
    return (texts if options.labels else texts.unlabelled()).first(options.limit)


def _run(loaded: LoadedModel, part: Corpus, batcher: Batcher, asked: Sequence[Request], how: tuple[dict[str, Any], Options]) -> Result:
    provenance, options = how
    tally = Tally.for_needs(need for wanted in asked for block in wanted.parts() for need in block.needs.values())
    seen = _Seen()
    with Capture(loaded.module, "full" if tally.weights else "kv") as capture, Progress(part.size, options.progress) as progress:
        for batch in batcher.batches(seen.watch(part), options.batch_size):
            capture(batch.to(loaded.device), tally.add)
            progress.advance(len(batch.ids))
    if not seen.examples:
        raise CorpusError(f"{part} has no examples to measure; look at --limit and --shard, or give another corpus")
    found = {"examples": seen.examples, "digest": seen.digest, "truncated": batcher.truncated}
    return Result(tally.on_cpu(), {**provenance, "seen": found})


@dataclass
class _Seen:
    """Counts the examples that pass, and adds up their hashes: a digest that merges as the sums do."""

    examples: int = 0
    digest: int = 0

    def watch(self, examples: Iterable[Example]) -> Iterator[Example]:
        for example in examples:
            self.examples += 1
            self.digest = (self.digest + example.digest) % 2**63
            yield example


def _provenance(loaded: LoadedModel, corpus: Corpus, asked: Sequence[Request], options: Options) -> dict[str, Any]:
    config = loaded.module.config
    packages = ("conoscope", "torch", "transformers", "tokenizers", "numpy")
    return {
        "model": {
            "name": loaded.name,
            "class": type(loaded.module).__name__,
            "type": config.model_type,
            "hash": loaded.digest(),
            "labels": list(loaded.labels),
        },
        "corpus": {"name": corpus.name, "split": corpus.split, "labels": list(corpus.labels)},
        "measures": [wanted.name for wanted in asked],
        "options": {key: value for key, value in asdict(options).items() if key in ("dtype", "limit", "max_length")},
        "shards": ["{}/{}".format(*options.shard)],
        "versions": {**{name: version(name) for name in packages}, "python": platform.python_version()},
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "notes": ["keys are taken after rotary positions; with grouped queries there are fewer key and value heads than query heads"],
    }
