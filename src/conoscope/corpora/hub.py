"""Any data set of the Hugging Face Hub by id, or a folder in the Hub's layout; streamed with `datasets`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from conoscope.common.errors import ConoscopeError, CorpusError
from conoscope.corpora.base import Corpus, Example
from conoscope.corpora.entry import CorpusRequest, Entry
from conoscope.corpora.files import Columns, example, scan, with_label_names
from conoscope.corpora.tables import Row

PREFIX = "hub:"
HELD_BACK = (None, -1)
"""Values of withheld labels in data sets."""


def _load(request: CorpusRequest) -> Corpus:
    """One split of a data set; numeric labels that have names are replaced by their names."""
    where = f"{_id(request)}:{request.split}"
    with _as_corpus_error(where):
        stream = _library().load_dataset(_id(request), request["config"] or None, split=request.split, streaming=True)
        features: Mapping[str, Any] = stream.features or next(iter(stream), {})
    columns = request.columns.within(features, where)

    def rows() -> Iterator[Row]:
        with _as_corpus_error(where):
            yield from enumerate(stream, 1)

    names = getattr(features[columns.label], "names", None) if columns.label else None
    read, labels = of_rows(rows, columns, names, where)
    corpus = Corpus(request.name, request.split, labels, lambda _: read(), None, None, str(columns), request.given)
    return with_label_names(corpus, columns.label_names)


def of_rows(
    rows: Callable[[], Iterator[Row]], columns: Columns, names: list[str] | None, where: str
) -> tuple[Callable[[], Iterator[Example]], tuple[str, ...]]:
    """A function that reads the examples of a data set's rows, and the labels; numbers of labels become their names."""

    def named() -> Iterator[Row]:
        for number, row in rows():
            label = columns.label if names else None
            yield number, row if label is None else {**row, label: _name(row[label], names or [])}

    def read() -> Iterator[Example]:
        for number, row in named():
            held_back = columns.label is not None and row[columns.label] in HELD_BACK
            read_as = replace(columns, label=None) if held_back else columns
            yield example(row, read_as, f"{where}:{number}", f"{where}:{number}")

    labels = tuple(names or ())
    if names is None and columns.label is not None:
        labelled = ((number, row) for number, row in named() if row[columns.label] not in HELD_BACK)
        labels, _ = scan(labelled, where, columns.label)
    return read, labels


def split_names(request: CorpusRequest) -> tuple[str, ...]:
    """The names of a data set's splits."""
    with _as_corpus_error(_id(request)):
        return tuple(_library().get_dataset_split_names(_id(request), request["config"] or None))


def _id(request: CorpusRequest) -> str:
    return request.name.removeprefix(PREFIX)


def _name(number: Any, names: list[str]) -> str | None:
    """The name of a label; None if it is withheld."""
    return names[number] if isinstance(number, int) and 0 <= number < len(names) else None


def _library() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise CorpusError("data sets of the Hub are read with the package datasets; pip install 'conoscope[hub]'") from error
    from huggingface_hub.utils import logging

    logging.set_verbosity(50)
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    return datasets


@contextmanager
def _as_corpus_error(where: str) -> Iterator[None]:
    """Re-raise any error of `datasets` and its readers as a one-line CorpusError."""
    try:
        yield
    except ConoscopeError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CorpusError(
            f"{where} cannot be read from the Hub or a folder: {reason}; check the id, the split and the network"
        ) from error


ENTRY = Entry(
    "a data set of the Hugging Face Hub, or a folder in its layout: hub:stanfordnlp/imdb:test",
    _load,
    origin="that of the data set",
    splits=(),
    choices={"config": ("", "TEXT")},
)
