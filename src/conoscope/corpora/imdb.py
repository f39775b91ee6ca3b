"""Movie reviews, negative or positive (Maas et al. 2011), from the published archive or its unpacked folder."""

from collections.abc import Iterator
from pathlib import Path

from conoscope.common.errors import CorpusError
from conoscope.common.textfiles import decoded
from conoscope.corpora.archives import files_in
from conoscope.corpora.base import Corpus, Example, Notes
from conoscope.corpora.cutting import TENTH, by_turns, side
from conoscope.corpora.entry import CorpusRequest, Entry

LABELS = ("neg", "pos")
ARCHIVE, UNPACKED = "aclImdb_v1.tar.gz", "aclImdb"


def _load(request: CorpusRequest) -> Corpus:
    place = _place(request.folder())

    def read(notes: Notes) -> Iterator[Example]:
        """The archive stores one class after the other: two readers alternate, one negative and one positive review."""
        return by_turns([_reviews(place, label, request, notes) for label in LABELS])

    seed = None if request.split == "test" else request.seed
    return Corpus("imdb", request.split, LABELS, read, None, seed, request.fingerprint(place), request.given)


def _place(folder: Path) -> Path:
    for place in (folder / UNPACKED, folder / ARCHIVE, folder):
        if place.is_file() or (place / "train" / LABELS[0]).is_dir():
            return place
    raise CorpusError(f"{folder} has neither {ARCHIVE} nor {UNPACKED}/; conoscope fetch imdb")


def _reviews(place: Path, label: str, request: CorpusRequest, notes: Notes) -> Iterator[Example]:
    folder = f"{'test' if request.split == 'test' else 'train'}/{label}"
    for _, name, content in files_in(place, [folder], notes):
        text = decoded(content, notes)
        if not text.strip():
            notes["empty reviews, left out"] += 1
        elif request.split == "test" or side(text, request.seed, TENTH) == request.split:
            shown = text.replace("<br />", " ") if request["breaks"] == "spaces" else text
            yield Example(shown, label, id=f"{folder}/{name.removesuffix('.txt')}")


ENTRY = Entry(
    "movie reviews, negative or positive",
    _load,
    origin="Maas et al. 2011, Learning word vectors for sentiment analysis (citation asked for)",
    choices={"breaks": ("kept", "spaces")},
)
