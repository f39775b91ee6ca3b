"""measure(): the whole pipe in one call, from a model and a corpus to tables."""

import platform
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from importlib.metadata import version
from itertools import islice
from operator import add
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from conoscope import __version__
from conoscope.batches import Batcher
from conoscope.capture import Capture
from conoscope.checkpoint import Checkpoint
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.errors import CorpusError, OutputError
from conoscope.loading import LoadedModel, load_model
from conoscope.measures import CATALOGUE, Request, request
from conoscope.progress import Progress
from conoscope.result import Result, claim
from conoscope.tally import Tally

WINDOW = 32
"""How many batches of examples are sorted by length together, so that little is padded."""


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
    """Measure a model on a corpus in one streaming pass.

    With `out`, the result is saved there too, and a run that was stopped goes on where it was.

    >>> measure("runs/pure", "bistro:test", ["sim"])["sim"]
    """
    chosen = options or Options()
    asked = [request(name) for name in measures or CATALOGUE]
    texts = _corpus(corpus, chosen)
    loaded = load_model(model, device=chosen.device, dtype=chosen.dtype)
    batcher = loaded.batcher(texts, chosen.max_length)
    provenance = _provenance(loaded, texts, asked, chosen)
    checkpoint = Checkpoint(None if out is None else claim(out, provenance), provenance)
    tally = Tally.for_needs(need for wanted in asked for block in wanted.parts() for need in block.needs.values())
    result = _run(loaded, texts.shard(*chosen.shard), batcher, tally, (chosen, checkpoint))
    if out is not None:
        result.save(out)
        checkpoint.clear()
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


def _run(loaded: LoadedModel, part: Corpus, batcher: Batcher, tally: Tally, how: tuple[Options, Checkpoint]) -> Result:
    (options, checkpoint), examples = how, iter(part)
    tally, seen = checkpoint.resume(examples, tally)
    batcher.truncated = seen.truncated
    stream = seen.watch(examples)
    with Capture(loaded.module, "full" if tally.weights else "kv") as capture, Progress(part.size, options.progress) as progress:
        progress.advance(seen.examples)
        while window := list(islice(stream, options.batch_size * WINDOW)):
            for batch in batcher.batches(window, options.batch_size):
                capture(batch.to(loaded.device), tally.add)
                progress.advance(len(batch.ids))
            seen.truncated = batcher.truncated
            checkpoint.keep(tally, seen)
    if not seen.examples:
        raise CorpusError(f"{part} has no examples to measure; look at --limit and --shard, or give another corpus")
    return Result(tally.on_cpu(), {**checkpoint.provenance, "seen": vars(seen)})


def _provenance(loaded: LoadedModel, corpus: Corpus, asked: Sequence[Request], options: Options) -> dict[str, Any]:
    config = loaded.module.config
    packages = ("torch", "transformers", "tokenizers", "numpy")
    return {
        "model": {
            "name": loaded.name,
            "class": type(loaded.module).__name__,
            "type": config.model_type,
            "hash": loaded.digest(),
            "labels": list(loaded.labels),
        },
        "corpus": {"name": corpus.name, "split": corpus.split, "labels": list(corpus.labels), "seed": corpus.seed},
        "measures": [wanted.name for wanted in asked],
        "options": {key: value for key, value in asdict(options).items() if key in ("dtype", "limit", "max_length")},
        "shards": ["{}/{}".format(*options.shard)],
        "versions": {"conoscope": __version__, **{name: version(name) for name in packages}, "python": platform.python_version()},
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "notes": [
            "keys are taken after rotary positions; with grouped queries there are fewer key and value heads than query heads"
        ],
    }
