"""Corpora: `load_corpus("name:split")` or a file. One short module per corpus."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from conoscope.common.bounds import SEED, named, within
from conoscope.common.errors import CorpusError, one_of
from conoscope.corpora import esnli, hatexplain, hub, imdb, newsgroups, sarscov2, wikitext, yelp_hat
from conoscope.corpora.base import Corpus, Example, Notes, stable_hash
from conoscope.corpora.bistro import bistro, bistro_stars, bistro_topics
from conoscope.corpora.cutting import TENTH, side
from conoscope.corpora.entry import CorpusRequest, Entry
from conoscope.corpora.files import Columns, is_file, read_file
from conoscope.corpora.folders import file_of, in_folder, split_files

__all__ = [
    "CORPORA",
    "Columns",
    "Corpus",
    "Entry",
    "Example",
    "Notes",
    "Texts",
    "corpus_of",
    "every_split",
    "load_corpus",
    "splits_of",
    "stable_hash",
]

OWN = "a grammar of our own; Apache-2.0"
CORPORA: dict[str, Entry] = {
    "bistro": Entry(
        "restaurant reviews, negative or positive; half of them have a twin of the same words",
        lambda request: bistro(request.split, request.seed),
        OWN,
    ),
    "bistro-stars": Entry("restaurant reviews with 1 to 5 stars", lambda request: bistro_stars(request.split, request.seed), OWN),
    "bistro-topics": Entry(
        "which dish was eaten; bistro-topics-50 for 50 of up to 200 dishes",
        lambda request: bistro_topics(request.split, int(request.name[len("bistro-topics-") :] or 20), request.seed),
        OWN,
    ),
    "imdb": imdb.ENTRY,
    "hatexplain": hatexplain.ENTRY,
    "yelp_hat": yelp_hat.ENTRY,
    "esnli": esnli.ENTRY,
    "newsgroups": newsgroups.ENTRY,
    "sarscov2": sarscov2.ENTRY,
    "wikitext": wikitext.ENTRY,
    "hub": hub.ENTRY,
}
VALIDATION = ("validation", "valid", "val", "dev")


Texts = str | Path | Corpus | Iterable[Example]
"""What `measure`, `explain` and the others accept as a corpus: a spec or a file, a corpus, or examples."""


def load_corpus(spec: str | Path, columns: Columns | None = None, seed: int = 0, data_dir: str | Path | None = None) -> Corpus:
    """Load a corpus by name, split and options, from a file of texts, or from a data set of the Hub; the default split is test.

    >>> load_corpus("bistro:train")
    >>> load_corpus("yelp_hat:test-50:map=any", data_dir="data")
    >>> load_corpus("reviews.csv", Columns(text="review", label="stars"))
    >>> load_corpus("stanfordnlp/sst2:validation", Columns(text="sentence"))
    """
    spec = named("corpus", spec)
    if (path := file_of(spec)) is not None:
        return in_folder(read_file(path, columns or Columns()), path)
    if is_file(spec):
        return read_file(Path(spec), columns or Columns())
    entry, request = parse_spec(spec, columns, seed, data_dir)
    return entry.corpus(request if request.split else replace(request, split="test"))


def corpus_of(texts: Texts) -> Corpus:
    """A corpus from a spec or a file, a corpus, or examples."""
    if isinstance(texts, str | os.PathLike):
        return load_corpus(texts)
    return texts if isinstance(texts, Corpus) else Corpus.of(texts)


def parse_spec(
    spec: str, columns: Columns | None = None, seed: int = 0, data_dir: str | Path | None = None
) -> tuple[Entry, CorpusRequest]:
    """Parse a spec, `name:split:option=value,option=value`, into a corpus entry and a request."""
    seed = within("seed", seed, SEED)
    known, name, rest = _named(spec)
    if columns not in (None, Columns()) and known != "hub":
        raise CorpusError(f"{name} has columns of its own; leave --text, --pair, --label and --rationale out")
    split = rest.pop(0) if rest and "=" not in rest[0] else ""
    options: dict[str, str] = {}
    for assignment in (pair for given in rest if given for pair in given.split(",")):
        key, _, value = assignment.partition("=")
        if key in options:
            raise CorpusError(f"{name} is given the option {key!r} twice; give it once")
        options[key] = value
    folder = None if data_dir is None else Path(data_dir)
    return CORPORA[known], CorpusRequest(name, split, seed, options, folder, columns or Columns(), CORPORA[known].choices)


def _named(spec: str) -> tuple[str, str, list[str]]:
    """The key of the entry that a spec names, the corpus's name, and the rest of the spec."""
    name, *rest = spec.removeprefix(hub.PREFIX).split(":")
    stem, _, number = name.rpartition("-")
    known = "bistro-topics" if stem == "bistro-topics" and number.isdecimal() else name
    if name and (spec.startswith(hub.PREFIX) or "/" in name):
        return "hub", f"{hub.PREFIX}{name}", rest
    if known not in CORPORA or known == "hub":
        raise CorpusError(
            f"no corpus {name or spec!r}, and no such file; known corpora: {one_of(CORPORA)}; "
            "or give a .csv, .tsv, .jsonl or .parquet file, or hub: and the id of a data set"
        )
    return known, name, rest


def every_split(
    spec: str | Path, columns: Columns | None = None, seed: int = 0, data_dir: str | Path | None = None
) -> tuple[dict[str, Corpus], dict[str, CorpusError]]:
    """All splits of a spec (one, if it names one), and the errors of the splits that could not be loaded."""
    spec = named("corpus", spec)
    if files := split_files(spec):
        return {split: in_folder(read_file(path, columns or Columns()), path) for split, path in files.items()}, {}
    if is_file(spec) or file_of(spec) is not None:
        return {"": load_corpus(spec, columns)}, {}
    entry, request = parse_spec(spec, columns, seed, data_dir)
    found: dict[str, Corpus] = {}
    failed: dict[str, CorpusError] = {}
    for split in [request.split] if request.split else entry.splits or hub.split_names(request):
        try:
            found[split] = entry.corpus(replace(request, split=split))
        except CorpusError as error:
            failed[split] = error
    if not found:
        raise next(iter(failed.values()))
    return found, failed


def splits_of(
    spec: str | Path,
    columns: Columns | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    validation: str | Path | None = None,
) -> dict[str, Corpus]:
    """The splits train, validation and test; `validation` may be a file or corpus of its own.

    Without a validation split, a tenth of train is set aside by hash.
    """
    spec, seed = named("corpus", spec), within("seed", seed, SEED)
    found = _splits(spec, columns, seed, data_dir)
    held_out = [name for name in VALIDATION if name in found]
    if validation is not None:
        learned = {"train": found["train"], "validation": load_corpus(validation, columns, seed, data_dir)}
    else:
        learned = {"train": found["train"], "validation": found[held_out[0]]} if held_out else _cut(found["train"], seed)
    return {**learned, **({"test": found["test"]} if "test" in found else {})}


def _splits(spec: str, columns: Columns | None, seed: int, data_dir: str | Path | None) -> dict[str, Corpus]:
    """The splits of a spec, of which one is train, and others VALIDATION and test."""
    if files := split_files(spec):
        if "train" not in files:
            raise CorpusError(f"{spec} has no split to train on; it has {one_of(files)}")
        return {split: in_folder(read_file(path, columns or Columns()), path) for split, path in files.items()}
    if is_file(spec) or file_of(spec) is not None:
        return {"train": load_corpus(spec, columns, seed)}
    entry, request = parse_spec(spec, columns, seed, data_dir)
    if request.split:
        whole = ":".join(filter(None, (request.name, request.given)))
        raise CorpusError(f"training takes all splits of a corpus, not {spec!r}; give {whole!r}")
    names = entry.splits or hub.split_names(request)
    if "train" not in names:
        raise CorpusError(f"{spec} has no split to train on; it has {one_of(names)}")
    found = {name: entry.corpus(replace(request, split=name)) for name in names if name in ("train", "test", *VALIDATION)}
    if "test" in found and not entry.splits and next((e.label for e in found["test"]), None) is None:
        del found["test"]  # data sets of the Hub may withhold the labels of their test split
    return found


def _cut(whole: Corpus, seed: int) -> dict[str, Corpus]:
    """Split a corpus by hash: nine tenths for training and one for validation."""

    def part(split: str) -> Corpus:
        def read(notes: Notes) -> Iterator[Example]:
            return (e for e in whole.read(notes) if side(f"{e.text} {e.pair}", seed, TENTH) == split)

        return replace(whole, split=split, read=read, size=None, seed=seed)

    return {split: part(split) for split in ("train", "validation")}
