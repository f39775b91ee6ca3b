"""Posts to twenty newsgroups: Orange's .tab files, or the folders and the archive that scikit-learn reads."""

from collections.abc import Iterator
from pathlib import Path

from conoscope.corpora.archives import files_in
from conoscope.corpora.base import Corpus, Example, Notes
from conoscope.corpora.cutting import TENTH, dealt, side
from conoscope.corpora.entry import Entry, Wanted
from conoscope.corpora.tables import require, rows
from conoscope.errors import CorpusError

LABELS = (
    *("alt.atheism", "comp.graphics", "comp.os.ms-windows.misc", "comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware"),
    *("comp.windows.x", "misc.forsale", "rec.autos", "rec.motorcycles", "rec.sport.baseball", "rec.sport.hockey"),
    *("sci.crypt", "sci.electronics", "sci.med", "sci.space", "soc.religion.christian", "talk.politics.guns"),
    *("talk.politics.mideast", "talk.politics.misc", "talk.religion.misc"),
)
ARCHIVE = "20news-bydate.tar.gz"
FLAGS = 3
"""Orange's header has three lines: names, types, roles."""


def _load(wanted: Wanted) -> Corpus:
    part = "test" if wanted.split == "test" else "train"
    place = _place(wanted.folder(), part)
    posts = _table if ".tab" in place.suffixes else _files

    def read(notes: Notes) -> Iterator[Example]:
        """The posts lie newsgroup by newsgroup: they are dealt by turns."""
        found = posts(place, part, wanted["headers"], notes)
        return dealt(e for e in found if part == "test" or side(e.text, wanted.seed, TENTH) == wanted.split)

    seed = None if part == "test" else wanted.seed
    return Corpus("newsgroups", wanted.split, LABELS, read, None, seed, wanted.fingerprint(place), wanted.given)


def _place(folder: Path, part: str) -> Path:
    for name in (f"20newsgroups-{part}.tab", f"20newsgroups-{part}.tab.gz", ARCHIVE):
        if (folder / name).is_file():
            return folder / name
    if (folder / f"20news-bydate-{part}").is_dir():
        return folder
    raise CorpusError(f"{folder} has no 20newsgroups-{part}.tab, 20news-bydate-{part}/ or {ARCHIVE}; conoscope fetch newsgroups")


def _table(path: Path, part: str, _: str, notes: Notes) -> Iterator[Example]:
    for line, row in rows(path, notes):
        require(path, row, "Category", "Text")
        if line > FLAGS:
            label = row["Category"].strip()
            if label not in LABELS:
                raise CorpusError(f"{path}:{line}: {label!r} is none of the twenty newsgroups; mend the row")
            yield from _example(row["Text"], label, f"{part}:{line}", notes)


def _files(place: Path, part: str, headers: str, notes: Notes) -> Iterator[Example]:
    """The posts as they were sent: Latin-1, and a blank line after the headers."""
    folders = {f"20news-bydate-{part}/{label}": label for label in LABELS}
    for folder, name, content in files_in(place, folders):
        text = content.decode("latin-1")
        if headers == "removed":
            text = text.replace("\r\n", "\n").partition("\n\n")[2]
        yield from _example(text, folders[folder], f"{part}/{folders[folder]}/{name}", notes)


def _example(text: str, label: str, name: str, notes: Notes) -> Iterator[Example]:
    if text.strip():
        yield Example(text, label, id=name)
    else:
        notes["posts without text, left out"] += 1


ENTRY = Entry(
    "posts to twenty newsgroups",
    _load,
    origin="20 Newsgroups (Lang 1995), by date; no licence given",
    choices={"headers": ("removed", "kept")},
)
