"""Entry: what a named corpus is, and where its files are."""

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
"""How much of each end of a file goes into its fingerprint."""


@dataclass(frozen=True)
class CorpusRequest:
    """What is asked of a named corpus: a split, a seed, options, the folder to look in, and the columns of a data set."""

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
        """The options as they are written after a split, sorted, those that say the default left out."""
        changed = {key: value for key, value in self.options.items() if value not in self.choices.get(key, ())[:1]}
        return ",".join(f"{key}={changed[key]}" for key in sorted(changed))

    def folder(self, name: str = "") -> Path:
        """The folder of the corpus's files, which is called `name` where that is not the corpus's own name."""
        place = data_folder(self.data_dir) / (name or self.name)
        if not is_there(place, folder=True):
            raise CorpusError(
                f"no data of {self.name}: looked for the folder {place}; "
                f"conoscope fetch {self.name}, or set {VARIABLE} or --data-dir to a folder that has it"
            )
        return place

    def fingerprint(self, *files: Path) -> str:
        """A hash of the options and of the files: their names, their sizes, and a mebibyte of either end.

        Of a folder it is the name alone: what was read of it is in the digest that every run keeps.
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
    """A named corpus: what it is, what loads one of its splits, whence it is and under which licence.

    `choices` are its options: the first value is the default, and some stand for many (see `options.py`).
    `offensive` texts are shown only to those who ask.
    """

    what: str
    load: Callable[[CorpusRequest], Corpus]
    origin: str
    splits: tuple[str, ...] = ("train", "validation", "test")
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    offensive: bool = False

    def corpus(self, wanted: CorpusRequest) -> Corpus:
        """The corpus, when split and options are ones that it has."""
        if self.splits:
            require_split(wanted.name, wanted.split, self.splits)
        for key, value in wanted.options.items():
            if not takes(self.choices.get(key, ()), value):
                raise CorpusError(no_option(wanted.name, f"{key}={value}", self.choices))
        return self.load(wanted)


def data_folder(data_dir: str | Path | None) -> Path:
    """Where data are: the folder that was named, else that of the environment, else the user's cache."""
    if data_dir is not None:
        return Path(data_dir)
    if named := os.environ.get(VARIABLE):
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("conoscope")
