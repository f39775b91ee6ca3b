"""Downloads: from a server on this machine, with checksums; and what must be asked for by hand."""

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from conoscope.common.errors import DataError
from conoscope.corpora import CORPORA, load_corpus
from conoscope.corpora import fetch as module
from conoscope.corpora.fetch import BY_HAND, DOWNLOADS, Download, fetch
from layouts import LAYOUTS


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "published"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", folder
        running.shutdown()
        thread.join()


@pytest.fixture
def imdb(server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A small IMDB on the server, with its checksum."""
    url, folder = server
    ((_, content),) = LAYOUTS["imdb archive"][1]().items()
    (folder / "a.tar.gz").write_bytes(content)
    right = Download(f"{url}/a.tar.gz", "imdb/aclImdb_v1.tar.gz", hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(module, "DOWNLOADS", {"imdb": (right,)})
    return server


def test_what_was_fetched_can_be_loaded_and_is_not_fetched_again(imdb: tuple[str, Path], tmp_path: Path) -> None:
    (path,) = fetch("imdb", tmp_path / "data")
    assert path == tmp_path / "data" / "imdb" / "aclImdb_v1.tar.gz"
    assert len(list(load_corpus("imdb:test", data_dir=tmp_path / "data"))) == 24
    (imdb[1] / "a.tar.gz").unlink()
    assert fetch("imdb", tmp_path / "data") == [path]


def test_fetched_data_go_to_the_folder_of_the_environment(
    imdb: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONOSCOPE_DATA", str(tmp_path / "mine"))
    assert fetch("imdb") == [tmp_path / "mine" / "imdb" / "aclImdb_v1.tar.gz"]


def test_a_file_other_than_the_published_one_is_not_kept(imdb: tuple[str, Path], tmp_path: Path) -> None:
    (imdb[1] / "a.tar.gz").write_bytes(b"something else")
    with pytest.raises(DataError, match=r"a.tar.gz is not the file that was published \(its SHA-256 differs\); nothing was kept"):
        fetch("imdb", tmp_path / "data")
    assert not list((tmp_path / "data" / "imdb").iterdir())


def test_a_file_of_the_users_own_is_not_overwritten(imdb: tuple[str, Path], tmp_path: Path) -> None:
    mine = tmp_path / "data" / "imdb" / "aclImdb_v1.tar.gz"
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work", encoding="utf-8")
    with pytest.raises(DataError, match=r"aclImdb_v1.tar.gz is there already and is not the file of http.*; move it away"):
        fetch("imdb", tmp_path / "data")
    assert mine.read_text(encoding="utf-8") == "years of work"


def test_a_download_that_fails_says_where_to_put_the_file(imdb: tuple[str, Path], tmp_path: Path) -> None:
    (imdb[1] / "a.tar.gz").unlink()
    with pytest.raises(DataError, match=r"a.tar.gz cannot be downloaded \(HTTPError\); .* put the file at .*aclImdb_v1.tar.gz"):
        fetch("imdb", tmp_path / "data")


def test_a_folder_that_cannot_be_written_is_told(imdb: tuple[str, Path], tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file", encoding="utf-8")
    with pytest.raises(DataError, match=r"cannot be written: .*; give another --data-dir or CONOSCOPE_DATA"):
        fetch("imdb", tmp_path / "data")


@pytest.mark.parametrize("name", BY_HAND)
def test_what_must_be_asked_for_by_hand_is_told(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{name} cannot be downloaded by conoscope: "):
        fetch(name, tmp_path)


def test_what_is_made_here_and_what_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="bistro is made by conoscope itself: nothing to fetch"):
        fetch("bistro", tmp_path)
    with pytest.raises(DataError, match="nothing called 'soup' can be fetched; known: esnli, glove, hatexplain, hub, imdb"):
        fetch("soup", tmp_path)


def test_every_corpus_is_fetched_made_or_asked_for() -> None:
    assert {*DOWNLOADS, *BY_HAND, "bistro", "bistro-pairs", "bistro-stars", "bistro-topics"} == {*CORPORA, "glove"}
    for download in (d for found in DOWNLOADS.values() for d in found):
        assert download.url.startswith("https://")
        assert len(download.sha256) == 64
