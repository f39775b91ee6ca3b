"""Posts to twenty newsgroups: Orange's .tab files, or the folders or archive that scikit-learn reads."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from conoscope.common.errors import CorpusError
from conoscope.corpora.archives import files_in
from conoscope.corpora.base import Corpus, Example, Notes
from conoscope.corpora.cutting import TENTH, dealt, side
from conoscope.corpora.entry import CorpusRequest, Entry
from conoscope.corpora.tables import require, rows

LABELS = (
    *("alt.atheism", "comp.graphics", "comp.os.ms-windows.misc", "comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware"),
    *("comp.windows.x", "misc.forsale", "rec.autos", "rec.motorcycles", "rec.sport.baseball", "rec.sport.hockey"),
    *("sci.crypt", "sci.electronics", "sci.med", "sci.space", "soc.religion.christian", "talk.politics.guns"),
    *("talk.politics.mideast", "talk.politics.misc", "talk.religion.misc"),
)
ARCHIVE = "20news-bydate.tar.gz"
EMPTY = "posts without text, left out"
FLAGS = 2
"""Orange's header has two more rows after the names: types and roles."""


def _load(request: CorpusRequest) -> Corpus:
    part = "test" if request.split == "test" else "train"
    place = _place(request.folder(), part)
    tabular = ".tab" in place.suffixes
    if tabular and "headers" in request.options:
        raise CorpusError(f"{place} has no headers to keep or remove; leave headers={request['headers']} out")

    def read(notes: Notes) -> Iterator[Example]:
        """The posts are stored by newsgroup, so the newsgroups are interleaved. The split is by hash of the text as sent."""
        posts = _table(place, part, notes) if tabular else _files(place, part, notes)
        mine = (e for e in posts if part == "test" or side(e.text, request.seed, TENTH) == request.split)
        return dealt(mine if tabular or request["headers"] == "kept" else _bodies(mine, notes))

    seed = None if part == "test" else request.seed
    return Corpus("newsgroups", request.split, LABELS, read, None, seed, request.fingerprint(place), request.given)


def _place(folder: Path, part: str) -> Path:
    for name in (f"20newsgroups-{part}.tab", f"20newsgroups-{part}.tab.gz", ARCHIVE):
        if (folder / name).is_file():
            return folder / name
    if (folder / f"20news-bydate-{part}").is_dir():
        return folder
    raise CorpusError(f"{folder} has no 20newsgroups-{part}.tab, 20news-bydate-{part}/ or {ARCHIVE}; conoscope fetch newsgroups")


def _table(path: Path, part: str, notes: Notes) -> Iterator[Example]:
    for number, (line, row) in enumerate(rows(path, notes)):
        require(path, row, "Category", "Text")
        label = row["Category"].strip()
        if number < FLAGS:
            continue
        if label not in LABELS:
            raise CorpusError(f"{path}:{line}: {label!r} is none of the twenty newsgroups; correct the row")
        if row["Text"].strip():
            yield Example(row["Text"], label, id=f"{part}:{line}")
        else:
            notes[EMPTY] += 1


def _files(place: Path, part: str, notes: Notes) -> Iterator[Example]:
    """The posts as sent, in Latin-1."""
    folders = {f"20news-bydate-{part}/{label}": label for label in LABELS}
    for folder, name, content in files_in(place, folders, notes):
        text = content.decode("latin-1")
        if text.strip():
            yield Example(text, folders[folder], id=f"{part}/{folders[folder]}/{name}")
        else:
            notes[EMPTY] += 1


def _bodies(posts: Iterable[Example], notes: Notes) -> Iterator[Example]:
    """The posts without their headers: the text after the first blank line."""
    for post in posts:
        body = post.text.replace("\r\n", "\n").partition("\n\n")[2]
        if body.strip():
            yield replace(post, text=body)
        else:
            notes[EMPTY] += 1


ENTRY = Entry(
    "posts to twenty newsgroups",
    _load,
    origin="20 Newsgroups (Lang 1995), by date; no licence given",
    choices={"headers": ("removed", "kept")},
)
