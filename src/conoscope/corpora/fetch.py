"""fetch(): download a corpus or word vectors, with checksums; or say how to get them by hand."""

from dataclasses import dataclass
from pathlib import Path

from conoscope.common.errors import DataError, one_of
from conoscope.common.textfiles import is_there
from conoscope.corpora import CORPORA
from conoscope.corpora.entry import VARIABLE, data_folder


@dataclass(frozen=True)
class Download:
    """A file of a corpus: its URL, its path in the data folder, and its SHA-256."""

    url: str
    name: str
    sha256: str


_HATEXPLAIN = "https://raw.githubusercontent.com/hate-alert/HateXplain/master/Data"
_ESNLI = "https://raw.githubusercontent.com/OanaMariaCamburu/e-SNLI/master/dataset"
_GGML = "https://huggingface.co/datasets/ggml-org/ci/resolve/927b3642933080f1b0e811e2f916e14c292992f9"

DOWNLOADS: dict[str, tuple[Download, ...]] = {
    "imdb": (
        Download(
            "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            "imdb/aclImdb_v1.tar.gz",
            "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        ),
    ),
    "hatexplain": (
        Download(
            f"{_HATEXPLAIN}/dataset.json",
            "hatexplain/dataset.json",
            "63bb3340fee0ec469b09690d04cb68f7c187787dd8b83807f071892c084967fb",
        ),
        Download(
            f"{_HATEXPLAIN}/post_id_divisions.json",
            "hatexplain/post_id_divisions.json",
            "c2fb0d89862e7897b11ea3e9380753f15a793482b4b70ad0532dfb1212212835",
        ),
    ),
    "esnli": tuple(
        Download(f"{_ESNLI}/esnli_{part}.csv", f"esnli/esnli_{part}.csv", sha256)
        for part, sha256 in (
            ("train_1", "7311c7bc16ad9f6a9adcd116a62ef991e1803dc0d71e253ce66b975c2aba8ee5"),
            ("train_2", "c8827fa2ba1ef5891f077d6fafbfc2fdb6cab1271968b74257e08d3b2b3cbacc"),
            ("dev", "d7a656d196eea18fd827d6f5486b00f5d4cf469dbf13a252cc211495a186bcb4"),
            ("test", "9269aa8075dbfed0fa8a5012eb2ac9c18a92be139671f05df897f69092592927"),
        )
    ),
    "newsgroups": (
        Download(
            "https://ndownloader.figshare.com/files/5975967",
            "newsgroups/20news-bydate.tar.gz",
            "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
        ),
    ),
    "wikitext": (
        Download(
            f"{_GGML}/wikitext-2-raw-v1.zip",
            "wikitext2/wikitext-2-raw-v1.zip",
            "ef7edb566e3e2b2d31b29c1fdb0c89a4cc683597484c3dc2517919c615435a11",
        ),
    ),
    "glove": (
        Download(
            "https://nlp.stanford.edu/data/glove.6B.zip",
            "glove/glove.6B.zip",
            "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
        ),
    ),
}
BY_HAND = {
    "yelp_hat": "clone https://github.com/cansusen/Human-Attention-for-Text-Classification and copy raw_data/ and "
    "processed_data/ into {folder}",
    "sarscov2": "put pango_consensus_spike.fasta (spike genes, or genomes aligned to the reference; .gz or not) and "
    "pango_consensus_labels.tsv (name, clade_nextstrain, who) into {folder}; sequences: "
    "https://github.com/corneliusroemer/pango-sequences, or GISAID after registration",
    "hub": "nothing to fetch beforehand: name the data set, as in hub:stanfordnlp/imdb:test",
}


def fetch(name: str, data_dir: str | Path | None = None, progress: bool = False) -> list[Path]:
    """Download the files of a corpus (or `glove`), and return their paths; a correct file is not downloaded again."""
    target = data_folder(data_dir)
    if name in BY_HAND:
        raise DataError(f"{name} cannot be downloaded by conoscope: {BY_HAND[name].format(folder=target / name)}")
    if name in CORPORA and name not in DOWNLOADS:
        raise DataError(f"{name} is made by conoscope itself: nothing to fetch; conoscope corpus {name} shows it")
    if name not in DOWNLOADS:
        raise DataError(f"nothing called {name!r} can be fetched; known: {one_of([*DOWNLOADS, *BY_HAND])}")
    return [_retrieve(download, target, progress) for download in DOWNLOADS[name]]


def _retrieve(download: Download, target: Path, progress: bool) -> Path:
    import pooch
    import requests

    pooch.get_logger().setLevel("ERROR")
    path = target / download.name
    if is_there(path) and pooch.file_hash(str(path), alg="sha256") != download.sha256:
        raise DataError(
            f"{path} is there already and is not the file of {download.url}; move it away, or give another --data-dir"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(download.url, f"sha256:{download.sha256}", path.name, path.parent, progressbar=progress)
    except requests.exceptions.RequestException as error:
        raise DataError(
            f"{download.url} cannot be downloaded ({type(error).__name__}); check the network, or put the file at {path}"
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}; give another --data-dir or {VARIABLE}") from error
    except ValueError as error:
        raise DataError(
            f"{download.url} is not the file that was published (its SHA-256 differs); nothing was kept, try again later"
        ) from error
    return path
