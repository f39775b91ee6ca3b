"""Texts that a program holds, as a Corpus: strings, dictionaries, (text, label), a DataFrame, a data set of `datasets`.

Rows are read as rows of a file are: the same columns, the same order of labels, the same errors.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conoscope.common.errors import CorpusError, one_of
from conoscope.corpora.base import Corpus, Example, Notes, digest_of
from conoscope.corpora.files import Columns, example, scan, with_label_names
from conoscope.corpora.hub import of_rows

NAME = "texts"
HOW = "choose with text=, label=, pair=, rationale="
FORMS = "give texts as ['a good film', 'a bad one'], (text, label) pairs, dictionaries with text and label, a DataFrame or a file"


def corpus_of_given(texts: Any, columns: Columns) -> Corpus:
    """A corpus of texts in any form but a string, a path or a Corpus; CorpusError if they have no such form."""
    if isinstance(texts, Example):
        return _of_items([texts], columns)
    if isinstance(texts, Mapping):
        return _of_rows(_rows_of_mapping(texts, columns), columns)
    if hasattr(texts, "columns") and hasattr(texts, "to_dict"):  # a DataFrame of pandas
        texts = texts.rename(columns=str)
        return _of_rows(texts.astype(object).where(texts.notna(), None).to_dict("records"), columns, list(texts.columns))
    if hasattr(texts, "iter_rows") and hasattr(texts, "columns"):  # a DataFrame of polars
        return _of_rows(list(texts.iter_rows(named=True)), columns, list(texts.columns))
    if hasattr(texts, "column_names") and hasattr(texts, "__iter__"):
        return _of_dataset(texts, columns)
    if isinstance(texts, bytes | bytearray) or not isinstance(texts, Iterable):
        order = "; models come first, texts last" if hasattr(texts, "tokenizer") or hasattr(texts, "config") else ""
        raise CorpusError(f"{_kind(texts)} is no text and holds none{order}; {FORMS}")
    if isinstance(texts, tuple) and len(texts) == 2 and all(isinstance(part, str) for part in texts):
        raise CorpusError("a pair of strings may be two texts or a text and its label; give [(text, label)], or a list of texts")
    return _of_items(list(texts), columns)


def _of_items(items: Sequence[Any], columns: Columns) -> Corpus:
    """A corpus of items of one kind: examples, texts, (text, label) or dictionaries."""
    first = items[0] if items else Example("")
    for kind in (Example, str, Mapping, tuple | list):
        if isinstance(first, kind):
            break
    else:
        raise CorpusError(f"{NAME}:1: {_kind(first)} is no text; {FORMS}")
    for number, item in enumerate(items, 1):
        if not isinstance(item, kind):
            raise CorpusError(f"{NAME}:{number}: {_kind(item)} after {_kind(first)}; give texts of one form")
    if kind is Mapping:
        return _of_rows(items, columns)
    if replace(columns, label_names=()) != Columns():
        raise CorpusError(f"{_kind(first)} has no columns; leave text=, label=, pair= and rationale= out")
    if kind is Example:
        return with_label_names(Corpus.of(items), columns.label_names)
    if kind is str:
        return _of_rows([{"text": str(item)} for item in items], columns)
    return _of_rows([_labelled(number, item) for number, item in enumerate(items, 1)], columns)


def _labelled(number: int, item: Sequence[Any]) -> dict[str, Any]:
    if len(item) != 2:
        raise CorpusError(f"{NAME}:{number}: {len(item)} parts where (text, label) has two; give both, or texts alone")
    return {"text": item[0], "label": item[1]}


def _rows_of_mapping(texts: Mapping[str, Any], columns: Columns) -> list[Mapping[str, Any]]:
    """One dictionary as rows: of one text, or of a list for each column."""
    held = texts.get(columns.text)
    if isinstance(held, str):
        return [texts]
    if isinstance(held, Sequence):
        lengths = {len(values) for values in texts.values()}
        if len(lengths) > 1:
            raise CorpusError(f"the columns {one_of(texts)} have {one_of(lengths)} rows; give each as many")
        return [dict(zip(texts, row, strict=True)) for row in zip(*texts.values(), strict=True)]
    if held is None and all(hasattr(values, "column_names") for values in texts.values()):
        raise CorpusError(f"these are the splits {one_of(texts)}; give one, as in texts[{next(iter(texts), 'test')!r}]")
    raise CorpusError(f"the dictionary has no texts under {columns.text!r}; it has {one_of(texts)}; {HOW}")


def _of_rows(rows: Sequence[Mapping[str, Any]], columns: Columns, names: Sequence[str] | None = None) -> Corpus:
    if not rows:
        return Corpus.of((), NAME)
    there = list(dict.fromkeys(str(name) for row in rows for name in row)) if names is None else list(names)
    chosen = columns.within(there, NAME, HOW)
    numbered = list(enumerate(rows, 1))
    labels, size = scan(numbered, NAME, chosen.label)
    examples = tuple(example(row, chosen, at, at) for number, row in numbered for at in [f"{NAME}:{number}"])
    corpus = Corpus(NAME, "", labels, lambda _: iter(examples), size, fingerprint=digest_of(examples))
    return with_label_names(corpus, columns.label_names)


def _of_dataset(texts: Any, columns: Columns) -> Corpus:
    """A corpus of a data set of the library `datasets`, read row by row each time."""
    features = getattr(texts, "features", None) or {}
    names = texts.column_names or list(features) or list(next(iter(texts), {}))
    chosen = columns.within(names, "the data set", HOW)
    where = ":".join(filter(None, ("dataset", str(getattr(texts, "split", None) or ""))))

    def rows() -> Iterator[tuple[int, Mapping[str, Any]]]:
        return enumerate(texts, 1)

    read, labels = of_rows(rows, chosen, getattr(features.get(chosen.label), "names", None), where)

    def counted(_: Notes) -> Iterator[Example]:
        return read()

    size = len(texts) if hasattr(texts, "__len__") else None
    name, _, split = where.partition(":")
    corpus = Corpus(name, split, labels, counted, size, fingerprint=f"{getattr(texts, '_fingerprint', '')} {chosen}")
    return with_label_names(corpus, columns.label_names)


def _kind(item: Any) -> str:
    """`a float`, for messages."""
    name = type(item).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
