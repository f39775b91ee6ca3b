"""Every reader on files with a few bytes changed: examples, or one clear line that names the file; never a traceback."""

import gzip
import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conoscope.common.errors import ConoscopeError, CorpusError
from conoscope.corpora import Notes, load_corpus
from conoscope.corpora.base import Corpus
from layouts import LAYOUTS, write

NASTY = [b"", b"\x00", b'"', b"\n", b"\r", b",", b"\t", b"\xff\xfe", b"\xef\xbb\xbf", b"<span", b"</span>", b"*", b"{", b"]",
         b">", b"null", b"1e999", b"\\ud800", b"= ", b"-1", "\u202e\u2028".encode()]  # fmt: skip


@st.composite
def damages(draw: st.DrawFn) -> list[tuple[float, int, bytes]]:
    """Where (as a share of the file), how many bytes go, and what comes in their place."""
    one = st.tuples(st.floats(0, 1), st.integers(0, 40), st.one_of(st.sampled_from(NASTY), st.binary(max_size=8)))
    return draw(st.lists(one, min_size=1, max_size=4))


def damaged(content: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    for where, gone, new in changes:
        at = int(where * len(content))
        content = content[:at] + new + content[at + gone :]
    return content


def within(content: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    """Damage beneath the compression, where there is one."""
    if content.startswith(b"\x1f\x8b"):
        return gzip.compress(damaged(gzip.decompress(content), changes), 1)
    if not content.startswith(b"PK"):
        return damaged(content, changes)
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(buffer, "w") as after:
        for member in before.namelist():
            after.writestr(member, damaged(before.read(member), changes))
    return buffer.getvalue()


def length(text: str, pair: str | None = None) -> int:
    return len(text.split()) + len((pair or "").split()) + 3


def sound(corpus: Corpus) -> None:
    for example in corpus.read(Notes()):
        assert example.text.strip()
        example.text.encode()
        assert example.label is None or example.label in corpus.labels
        assert example.rationale is None or len(example.rationale) == len(example.words)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_damaged_files_give_examples_or_one_clear_line(layout: str, tmp_path: Path, data: st.DataObject) -> None:
    spec, make = LAYOUTS[layout]
    files = {name: content.encode() if isinstance(content, str) else content for name, content in make().items()}
    name = data.draw(st.sampled_from(sorted(files)))
    changes = data.draw(damages())
    write(tmp_path, {**files, name: within(files[name], changes) if data.draw(st.booleans()) else damaged(files[name], changes)})
    try:
        corpus = load_corpus(spec, data_dir=tmp_path)
        sound(corpus)
        sound(corpus.packed(length, 64))
    except ConoscopeError as error:
        message = str(error)
        assert "\n" not in message
        place = Path(name).parts[0] if "not whole" in message else Path(name).name
        assert place in message
    write(tmp_path, files)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=60))
def test_any_spec_gives_a_corpus_or_one_clear_line(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for spec in (text, f"bistro:{text}", f"yelp_hat:test:{text}", f"bistro-topics-{text}"):
        told = ""
        try:
            assert load_corpus(spec, data_dir=tmp_path).labels
        except CorpusError as error:
            told = str(error)
        assert len(told.splitlines()) <= 1 or spec in told
