"""Any data set of the Hugging Face Hub, by its id, or a folder in the Hub's layout: streamed through `datasets`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from conoscope.common.errors import ConoscopeError, CorpusError
from conoscope.corpora.base import Corpus, Example, Notes
from conoscope.corpora.entry import CorpusRequest, Entry
from conoscope.corpora.files import example, scan
from conoscope.corpora.tables import Row

PREFIX = "hub:"
HELD_BACK = (None, -1)
"""What data sets write where a label is not told."""


def _load(wanted: CorpusRequest) -> Corpus:
    """One split of a data set; labels that are numbers with names are told by their names."""
    where = f"{_id(wanted)}:{wanted.split}"
    with _told(where):
        stream = _library().load_dataset(_id(wanted), wanted["config"] or None, split=wanted.split, streaming=True)
        features: Mapping[str, Any] = stream.features or next(iter(stream), {})
    columns = wanted.columns.within(features, where)
    names = getattr(features[columns.label], "names", None) if columns.label else None

    def rows() -> Iterator[Row]:
        with _told(where):
            for number, row in enumerate(stream, 1):
                yield number, row if names is None else {**row, str(columns.label): _name(row[columns.label], names)}

    def read(_: Notes) -> Iterator[Example]:
        for number, row in rows():
            held_back = columns.label is not None and row[columns.label] in HELD_BACK
            read_as = replace(columns, label=None) if held_back else columns
            yield example(row, read_as, f"{where}:{number}", f"{where}:{number}")

    labels = tuple(names or ())
    if names is None and columns.label is not None:
        labelled = ((number, row) for number, row in rows() if row[columns.label] not in HELD_BACK)
        labels, _ = scan(labelled, where, columns.label)
    return Corpus(wanted.name, wanted.split, labels, read, None, None, str(columns), wanted.given)


def split_names(wanted: CorpusRequest) -> tuple[str, ...]:
    """The splits that a data set has."""
    with _told(_id(wanted)):
        return tuple(_library().get_dataset_split_names(_id(wanted), wanted["config"] or None))


def _id(wanted: CorpusRequest) -> str:
    return wanted.name.removeprefix(PREFIX)


def _name(number: Any, names: list[str]) -> str | None:
    """The name of a label; none where it is held back."""
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
def _told(where: str) -> Iterator[None]:
    """Whatever `datasets` and the readers beneath it raise, told in one line."""
    try:
        yield
    except ConoscopeError:
        raise
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise CorpusError(
            f"{where} cannot be read from the Hub or a folder: {said}; look at the id, the split and the network"
        ) from error


ENTRY = Entry(
    "a data set of the Hugging Face Hub, or a folder in its layout: hub:stanfordnlp/imdb:test",
    _load,
    origin="that of the data set",
    splits=(),
    choices={"config": ("", "TEXT")},
)
