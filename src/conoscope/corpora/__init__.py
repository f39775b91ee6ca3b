"""Corpora: `load_corpus("name:split")` or a file. One short module per corpus."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from conoscope.common.bounds import SEED, named, within
from conoscope.common.errors import CorpusError, one_of
from conoscope.common.keywords import nearest, with_keywords
from conoscope.common.textfiles import is_there
from conoscope.corpora import esnli, hatexplain, hub, imdb, newsgroups, sarscov2, wikitext, yelp_hat
from conoscope.corpora.base import Corpus, Example, Notes, stable_hash
from conoscope.corpora.bistro import bistro, bistro_stars, bistro_topics
from conoscope.corpora.bistro_pairs import bistro_pairs
from conoscope.corpora.cutting import in_two
from conoscope.corpora.entry import CorpusRequest, Entry
from conoscope.corpora.files import Columns, is_file, read_file, with_label_names
from conoscope.corpora.folders import file_of, in_folder, split_files
from conoscope.corpora.given import corpus_of_given

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
    "is_text",
    "load_corpus",
    "names_texts",
    "splits_of",
    "stable_hash",
    "train_beside",
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
    "bistro-pairs": Entry(
        "minimal pairs of restaurant reviews: every two texts in a row differ in one word, and in their label",
        lambda request: bistro_pairs(request.split, request.seed),
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


Texts = str | Path | Corpus | Example | Iterable[Any]
"""What `measure`, `explain` and the others accept as texts: a spec or a file, a text, a corpus, examples, strings, (text, label),
dictionaries, a DataFrame, a data set of `datasets` (see `corpus_of`)."""


def load_corpus(
    spec: Texts, columns: Columns | None = None, seed: int = 0, data_dir: str | Path | None = None, **keywords: Any
) -> Corpus:
    """Load a corpus by name, split and options, from a file of texts, or from a data set of the Hub; the default split is test.

    Columns are chosen with the keywords text, label, pair and rationale, or with Columns. Texts that a program holds become a
    corpus too; a string is always a name or a path here.

    >>> load_corpus("bistro:train")
    >>> load_corpus("yelp_hat:test-50:map=any", data_dir="data")
    >>> load_corpus("reviews.csv", text="review", label="stars")
    >>> load_corpus("stanfordnlp/sst2:validation", text="sentence")
    """
    if keywords:
        (columns,) = with_keywords("load_corpus", keywords, columns or Columns())
    if not isinstance(spec, str | os.PathLike):
        return corpus_of(spec, columns)
    spec = named("corpus", spec)
    if (path := file_of(spec)) is not None:
        return in_folder(read_file(path, columns or Columns()), path)
    if is_file(spec):
        return read_file(Path(spec), columns or Columns())
    entry, request = parse_spec(spec, columns, seed, data_dir)
    return _split(entry, request, request.split or "test")


def corpus_of(texts: Texts, columns: Columns | None = None) -> Corpus:
    """A corpus of texts in any form.

    A string that names a file or a known corpus is that; any other string with white space is one text. A single word that
    names neither is a CorpusError. `columns` are those of a file, of dictionaries, of a DataFrame or of a data set.
    """
    if isinstance(texts, Corpus):
        if columns is not None and replace(columns, label_names=()) != Columns():
            raise CorpusError(f"{texts} is read already; give its columns to load_corpus, or leave them out")
        return texts if columns is None else with_label_names(texts, columns.label_names)
    if isinstance(texts, str) and is_text(texts):
        return corpus_of_given([texts], columns or Columns())
    if isinstance(texts, str):
        _refuse_unknown_word(texts)
    return load_corpus(texts, columns) if isinstance(texts, str | os.PathLike) else corpus_of_given(texts, columns or Columns())


def is_text(given: str) -> bool:
    """Whether a string is a text: it has white space, and names no file, folder or known corpus."""
    return any(map(str.isspace, given.strip())) and not (_is_there(given) or _is_spec(given))


def names_texts(given: str) -> bool:
    """Whether a string is a text, or names a file of texts or a known corpus, and no folder."""
    if is_there(Path(given), folder=True):
        return _names_splits(given)
    return is_file(given) or _names_splits(given) or _is_spec(given, hub=False) or is_text(given)


def _is_there(given: str) -> bool:
    return is_file(given) or is_there(Path(given), folder=True) or _names_splits(given)


def _names_splits(given: str) -> bool:
    """Whether a string names a folder of splits, or one of its splits."""
    folder, colon, _ = given.rpartition(":")
    return bool(split_files(given) or (colon and split_files(folder)))


def _is_spec(given: str, hub: bool = True) -> bool:
    """Whether a string is written as the name of a known corpus, or of a data set of the Hub: name and split without spaces."""
    name, *rest = given.removeprefix("hub:").split(":")
    named = [name, *(part for part in rest[:1] if "=" not in part)]
    if not name or any(character.isspace() for part in named for character in part):
        return False
    of_hub = given.startswith("hub:") or (hub and "/" in name)
    return of_hub or name in CORPORA or name.startswith("bistro-topics-")


def _refuse_unknown_word(given: str) -> None:
    """CorpusError for a string that is neither a text nor the name of anything: nobody can tell which of them was meant."""
    if not given.strip():
        raise CorpusError("the text is empty; give a text, a list of texts, a file or the name of a corpus")
    if any(map(str.isspace, given)) and not is_there(Path(given)) and is_file(given):
        raise CorpusError(f"no file {given!r}; if it is a text, give it in a list")
    if not (_is_there(given) or _is_spec(given)):
        raise CorpusError(
            f"{given!r} is neither a file nor a known corpus{nearest(given, CORPORA)}; a text of one word is given in a list, "
            f"as in [{given!r}]; known corpora: {one_of(CORPORA)}"
        )


def parse_spec(
    spec: str, columns: Columns | None = None, seed: int = 0, data_dir: str | Path | None = None
) -> tuple[Entry, CorpusRequest]:
    """Parse a spec, `name:split:option=value,option=value`, into a corpus entry and a request."""
    seed = within("seed", seed, SEED)
    known, name, rest = _named(spec)
    if columns is not None and replace(columns, label_names=()) != Columns() and known != "hub":
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


def _split(entry: Entry, request: CorpusRequest, split: str) -> Corpus:
    """One split of a corpus, its labels called as asked; a data set of the Hub has named its own already."""
    corpus = entry.corpus(replace(request, split=split))
    return corpus if entry is CORPORA["hub"] else with_label_names(corpus, request.columns.label_names)


def _named(spec: str) -> tuple[str, str, list[str]]:
    """The key of the entry that a spec names, the corpus's name, and the rest of the spec."""
    name, *rest = spec.removeprefix(hub.PREFIX).split(":")
    stem, _, number = name.rpartition("-")
    known = "bistro-topics" if stem == "bistro-topics" and number.isdecimal() else name
    if name and (spec.startswith(hub.PREFIX) or "/" in name):
        return "hub", f"{hub.PREFIX}{name}", rest
    if known not in CORPORA or known == "hub":
        raise CorpusError(
            f"no corpus {name or spec!r}, and no such file{nearest(name, CORPORA)}; known corpora: {one_of(CORPORA)}; "
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
            found[split] = _split(entry, request, split)
        except CorpusError as error:
            failed[split] = error
    if not found:
        raise next(iter(failed.values()))
    return found, failed


def train_beside(
    spec: str | Path, columns: Columns | None = None, seed: int = 0, data_dir: str | Path | None = None
) -> Corpus | None:
    """The train split of the corpus of which a spec names another split; None where there is none, or it is that split."""
    spec = named("corpus", spec)
    if (path := file_of(spec)) is not None:
        train = split_files(str(path.parent)).get("train")
        return None if train in (None, path) else in_folder(read_file(train, columns or Columns()), train)
    if is_file(spec) or is_text(spec):
        return None
    entry, request = parse_spec(spec, columns, seed, data_dir)
    has_train = "train" in (entry.splits or hub.split_names(request))
    return _split(entry, request, "train") if has_train and request.split != "train" else None


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
        learned = {"train": found["train"], "validation": found[held_out[0]]} if held_out else in_two(found["train"], seed)
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
    found = {name: _split(entry, request, name) for name in names if name in ("train", "test", *VALIDATION)}
    if "test" in found and not entry.splits and next((e.label for e in found["test"]), None) is None:
        del found["test"]  # data sets of the Hub may withhold the labels of their test split
    return found
