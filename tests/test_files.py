"""Files of texts: the formats, the columns, and rows that are broken in every way."""

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conoscope.common.errors import CorpusError, DataError
from conoscope.corpora import Columns, Corpus, Example, load_corpus, splits_of

ROWS = [
    {"review": "The soup was cold.", "stars": "2", "why": "0 0 0 1"},
    {"review": 'A "fine", long\nevening', "stars": "10", "why": "0 1 0 1"},
]
COLUMNS = Columns(text="review", label="stars", rationale="why")
EXPECTED = [
    ("The soup was cold.", "2", (False, False, False, True)),
    ('A "fine", long\nevening', "10", (False, True, False, True)),
]


def write(path: Path) -> Path:
    frame = pd.DataFrame(ROWS)
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in ROWS), encoding="utf-8")
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_every_format_gives_the_same_examples(tmp_path: Path, suffix: str) -> None:
    corpus = load_corpus(str(write(tmp_path / f"reviews{suffix}")), COLUMNS)
    assert [(e.text, e.label, e.rationale) for e in corpus] == EXPECTED
    assert [e.text for e in corpus] == [e.text for e in corpus]
    assert corpus.labels == ("2", "10")
    assert len(corpus) == 2


def test_a_byte_order_mark_carriage_returns_and_blank_lines_are_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbftext,label\r\n\r\ngood soup,yes\r\n\r\nbad soup,no")
    assert [(e.text, e.label, e.id) for e in load_corpus(str(path))] == [
        ("good soup", "yes", "a.csv:3"),
        ("bad soup", "no", "a.csv:5"),
    ]


def test_bytes_that_are_not_utf8_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text\ncaf\xe9 noir\n")
    assert [e.text for e in load_corpus(str(path))] == ["caf\ufffd noir"]


def test_a_file_without_a_label_column_is_unlabelled(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "soup"}\n', encoding="utf-8")
    assert load_corpus(str(path)).labels == ()


BROKEN = [
    ("a.csv", "text,label\ngood,yes,more\n", "a.csv:2: 3 fields where the header has 2; correct the row"),
    ("a.csv", "text;label\ngood, yes;a\n", "a.csv:2: 2 fields.*its columns seem to be separated by ';': separate them by ','"),
    ("a.csv", "text;label\ngood;a\n", "has no column 'text'.*its columns seem to be separated by ';': separate them by ','"),
    ("a.tsv", "text,label\ngood,a\n", "has no column 'text'.*its columns seem to be separated by ',': separate them by '\\\\t'"),
    ("a.csv", "text,label\ngood\n", "a.csv:2: 1 fields where the header has 2; correct the row"),
    ("a.csv", 'text,label\n"a\nb",yes\n"open,no\n', r"a.csv:\d: unexpected end of data; correct the row"),
    ("a.csv", 'text,label\n"a\nb",yes\n  ,no\n', r"a.csv:4: the column 'text' has no text \(got '  '\)"),
    ("a.csv", "text,label\ngood,\n", "a.csv:2: the column 'label' has no label; fill it or take the row out"),
    ("a.csv", "", "a.csv is empty: no row after the header"),
    ("a.csv", "text,label\n", "a.csv is empty: no row after the header"),
    ("a.csv", "words,label\ngood,yes\n", "a.csv has no column 'text'; it has words, label; choose with --text"),
    ("a.jsonl", '{"text": "good"}\n{"text": \n', r"a.jsonl:2: not JSON \(.*give one object per line"),
    ("a.jsonl", '{"text": "good"}\n[1]\n', "a.jsonl:2: a list where an object is expected"),
    ("a.jsonl", '{"text": "good"}\n{"text": 3}\n', r"a.jsonl:2: the column 'text' has no text \(got 3\)"),
    ("a.csv", "text,text\ngood,bad\n", "a.csv:1: two columns have the same name; rename one"),
    ("a.jsonl", '{"text": "good", "label": NaN}\n', "a.jsonl:1: the column 'label' has no label"),
    ("a.jsonl", '{"text": "good"}\n{"text": "bad", "label": "no"}\n', "a.jsonl:1: the column 'label' has no label; fill it"),
    ("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b"}\n', "a.jsonl:2: the column 'label' has no label"),
    ("a.jsonl", '{"text": "a", "label": null}\n{"text": "b", "label": "x"}\n', "a.jsonl:1: the column 'label' has no label"),
    ("a.csv", "text,label\ngood,  \nbad,no\n", "a.csv:2: the column 'label' has no label"),
    ("a.jsonl", '{"text": "a", "label": "x", "label": "y"}\n', "a.jsonl:1: not JSON .a name stands twice in one object"),
    ("a.parquet", "not parquet", "a.parquet: not a parquet file that can be read"),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN, ids=[message[:40] for _, _, message in BROKEN])
def test_a_broken_row_is_named_by_file_and_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(CorpusError, match=message):
        list(load_corpus(str(tmp_path / name)))


@pytest.mark.parametrize(
    ("why", "message"),
    [
        ("0 1", "a.csv:2: the rationale has 2 flags for 3 words"),
        ("0 x 1", "a.csv:2: the rationale '0 x 1' is not a list of 0 and 1"),
    ],
)
def test_a_rationale_that_does_not_fit_is_named_by_file_and_line(tmp_path: Path, why: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(f"text,why\na good soup,{why}\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=message):
        list(load_corpus(str(tmp_path / "a.csv"), Columns(rationale="why")))


def test_a_file_that_is_not_there_and_one_of_no_known_kind(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no file nowhere.csv; give the path of a .csv, .jsonl, .parquet, .tab, .tsv file"):
        load_corpus("nowhere.csv")
    (tmp_path / "a.docx").write_text("x", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"a.docx is of no known kind"):
        load_corpus(str(tmp_path / "a.docx"))


def test_odd_labels_and_broken_letters_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a \\ud800 b", "label": "--5"}\n{"text": "c", "label": "' + "9" * 5000 + '"}\n', encoding="utf-8")
    corpus = load_corpus(str(path))
    assert [e.text for e in corpus] == ["a ? b", "c"]
    assert len(corpus.labels) == 2


def test_a_rationale_that_is_a_number_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "soup", "why": 3}\n', encoding="utf-8")
    with pytest.raises(CorpusError, match=r"a.jsonl:1: the rationale 3 is not a list of 0 and 1"):
        list(load_corpus(str(path), Columns(rationale="why")))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    link = tmp_path / "a.csv"
    link.symlink_to("/proc/self/mem")
    with pytest.raises(DataError, match=r"a.csv cannot be read: .*; check the file and its permissions"):
        list(load_corpus(str(link)))


def test_training_takes_a_corpus_and_no_split() -> None:
    with pytest.raises(CorpusError, match="training takes all splits of a corpus, not 'bistro:test'; give 'bistro'"):
        splits_of("bistro:test")


def test_an_unknown_corpus_names_the_known_ones() -> None:
    with pytest.raises(
        CorpusError,
        match=r"no such file \(did you mean 'bistro'\?\); known corpora: bistro, bistro-pairs, bistro-stars",
    ):
        load_corpus("bistrot:test")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), suffix=st.sampled_from([".csv", ".tsv", ".jsonl", ".parquet"]), header=st.booleans())
def test_any_bytes_give_examples_or_one_clear_error(tmp_path: Path, content: bytes, suffix: str, header: bool) -> None:
    path = tmp_path / f"fuzz{suffix}"
    path.write_bytes((b"text\n" if header else b"") + content)
    message = ""
    try:
        assert all(example.text.strip() for example in load_corpus(str(path)))
    except DataError as error:
        message = str(error)
    assert not message or path.name in message


def test_a_file_is_cut_into_train_and_validation_by_hash(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"soup {n},{n % 2}\n" for n in range(300)), encoding="utf-8")
    splits = splits_of(str(path))
    train, validation = ({e.text for e in splits[name]} for name in ("train", "validation"))
    assert not train & validation
    assert len(train | validation) == 300
    assert 10 < len(validation) < 60


def test_a_corpus_of_examples_numbers_them_and_keeps_the_order_of_labels() -> None:
    corpus = Corpus.of([Example("b", "late"), Example("a", "early"), Example("c", "late", id="mine")])
    assert [e.id for e in corpus] == ["examples:1", "examples:2", "mine"]
    assert corpus.labels == ("late", "early")


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shards_part_the_corpus(count: int) -> None:
    corpus = Corpus.of([Example(str(n)) for n in range(5)])
    parts = [corpus.shard(index, count) for index in range(1, count + 1)]
    assert sorted(e.text for part in parts for e in part) == [str(n) for n in range(5)]
    assert [len(list(part)) for part in parts] == [len(part) for part in parts]


def test_a_shard_out_of_range_is_refused() -> None:
    with pytest.raises(CorpusError, match="no shard 5/4: the first number goes from 1 to 4"):
        Corpus.of([Example("x")]).shard(5, 4)


def test_an_example_has_the_same_digest_everywhere() -> None:
    assert Example("soup", "good", id="a:1").digest == 3953994822776487389
    assert Example("soup", "bad", id="a:1").digest != Example("soup", "good", id="a:1").digest


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
def test_a_label_that_a_parquet_file_lacks_is_named_by_its_row(tmp_path: Path, missing: object) -> None:
    pd.DataFrame({"text": ["a", "b"], "label": [missing, "yes"]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(CorpusError, match=r"a\.parquet:1: the column 'label' has no label"):
        load_corpus(str(tmp_path / "a.parquet"))
    pd.DataFrame({"text": ["a", "b"], "label": [1.0, None]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(CorpusError, match=r"b\.parquet:2: the column 'label' has no label"):
        load_corpus(str(tmp_path / "b.parquet"))


def test_the_columns_of_json_lines_are_those_of_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"review": "good", "mood": "yes"}\n{"review": "bad", "mood": "no", "why": [1]}\n', encoding="utf-8")
    found = list(load_corpus(str(path), Columns(text="review", label="mood", rationale="why")))
    assert [(e.label, e.rationale) for e in found] == [("yes", None), ("no", (True,))]
    with pytest.raises(CorpusError, match="it has review, mood, why"):
        load_corpus(str(path))
