"""Entry: a named corpus and its loader; CorpusRequest: the split and options to load."""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conoscope.common.errors import CorpusError
from conoscope.common.options import no_option, takes
from conoscope.common.textfiles import as_data_error, is_there
from conoscope.corpora.base import Corpus, require_split
from conoscope.corpora.files import Columns

VARIABLE = "CONOSCOPE_DATA"
END = 1 << 20
"""How many bytes at each end of a file go into its fingerprint."""


@dataclass(frozen=True)
class CorpusRequest:
    """A request for a named corpus: split, seed, options, data folder, and the columns of a data set."""

    name: str
    split: str
    seed: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    data_dir: Path | None = None
    columns: Columns = Columns()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __getitem__(self, option: str) -> str:
        return self.options.get(option, self.choices[option][0])

    @property
    def given(self) -> str:
        """The options in the syntax of a spec, sorted, without defaults."""
        changed = {key: value for key, value in self.options.items() if value not in self.choices.get(key, ())[:1]}
        return ",".join(f"{key}={changed[key]}" for key in sorted(changed))

    def folder(self, name: str = "") -> Path:
        """The folder of the corpus's files, named like the corpus unless `name` is given."""
        place = data_folder(self.data_dir) / (name or self.name)
        if not is_there(place, folder=True):
            raise CorpusError(
                f"no data of {self.name}: looked for the folder {place}; "
                f"conoscope fetch {self.name}, or set {VARIABLE} or --data-dir to a folder that has it"
            )
        return place

    def fingerprint(self, *files: Path) -> str:
        """A hash of the options and of the files: their names, their sizes, and a mebibyte at each end.

        For a folder only its name counts: the digest of every run covers what was read from it.
        """
        hashed = hashlib.sha256(self.given.encode())
        for path in files:
            hashed.update(path.name.encode())
            if path.is_file():
                with as_data_error(path), path.open("rb") as file:
                    size = path.stat().st_size
                    hashed.update(str(size).encode())
                    hashed.update(file.read(END))
                    file.seek(max(0, size - END))
                    hashed.update(file.read(END))
        return hashed.hexdigest()


@dataclass(frozen=True)
class Entry:
    """A named corpus: a description, a function that loads one split, its origin and licence.

    `choices` are its options: the first value is the default, and some values are placeholders (see `options.py`).
    `offensive` texts are shown only on request.
    """

    what: str
    load: Callable[[CorpusRequest], Corpus]
    origin: str
    splits: tuple[str, ...] = ("train", "validation", "test")
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    offensive: bool = False

    def corpus(self, request: CorpusRequest) -> Corpus:
        """Load the corpus; CorpusError for an unknown split or option."""
        if self.splits:
            require_split(request.name, request.split, self.splits)
        for key, value in request.options.items():
            if not takes(self.choices.get(key, ()), value):
                raise CorpusError(no_option(request.name, f"{key}={value}", self.choices))
        return self.load(request)


def data_folder(data_dir: str | Path | None) -> Path:
    """The data folder: `data_dir`, else the environment variable CONOSCOPE_DATA, else the user's cache."""
    if data_dir is not None:
        return Path(data_dir)
    if named := os.environ.get(VARIABLE):
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("conoscope")
