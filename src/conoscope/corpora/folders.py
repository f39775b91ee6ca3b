"""A folder of splits: files called train, validation and test, such as reviews/train.csv."""

from dataclasses import replace
from pathlib import Path

from conoscope.common.errors import CorpusError, one_of
from conoscope.common.textfiles import is_there, readable
from conoscope.corpora.base import Corpus
from conoscope.corpora.tables import READERS, kind_of

NAMES = ("train", "validation", "valid", "val", "dev", "test")


def split_files(spec: str) -> dict[str, Path]:
    """The file of each split in a folder; empty if there is no such folder or no such file in it."""
    folder = Path(spec)
    if not is_there(folder, folder=True):
        return {}
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        split = path.name.partition(".")[0]
        if split in NAMES and kind_of(path) in READERS:
            if split in found:
                raise CorpusError(f"{folder} holds two files of the split {split}, {found[split].name} and {path.name}; keep one")
            found[split] = path
    return {split: found[split] for split in NAMES if split in found}


def file_of(spec: str) -> Path | None:
    """The file of one split, `reviews/:train` or `reviews/` for its test split; None if the spec names no folder of splits."""
    if files := split_files(spec):
        if "test" not in files:
            raise CorpusError(f"{spec} has the splits {one_of(files)}; name one, as in {spec}:{next(iter(files))}")
        return files["test"]
    folder, colon, split = spec.rpartition(":")
    files = split_files(folder) if colon else {}
    if files and split not in files:
        raise CorpusError(f"no split {split!r} in {folder}; it has {one_of(files)}")
    return files.get(split)


def in_folder(corpus: Corpus, path: Path) -> Corpus:
    """The corpus of one file of a folder, named after the folder and the split."""
    return replace(corpus, name=readable(path.absolute().parent.name), split=path.name.partition(".")[0])
