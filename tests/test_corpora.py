"""The corpora: what their readers make of the published layouts, and of what the world does to them."""

import gzip
import json
from pathlib import Path

import pytest

from conoscope.common.errors import CorpusError, DataError
from conoscope.corpora import CORPORA, Corpus, Example, Notes, every_split, load_corpus, splits_of
from conoscope.corpora.cutting import by_turns, side
from conoscope.corpora.rationales import marked_words
from conoscope.corpora.sarscov2 import kmers, spike_of
from layouts import (
    ARTICLE,
    DINER,
    ESNLI,
    LAYOUTS,
    MARKED,
    RAW,
    REVIEWS,
    annotated,
    esnli,
    hatexplain,
    newsgroups_files,
    posts,
    sarscov2,
    spans,
    spike,
    table,
    tar,
    write,
    yelp_hat,
)


def read(spec: str, folder: Path, seed: int = 0) -> tuple[list[Example], dict[str, int]]:
    """All examples of a split, and what the reader noted."""
    notes = Notes()
    examples = list(load_corpus(spec, seed=seed, data_dir=folder).read(notes))
    return examples, {what: count for what, count in notes.items() if count}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_read_lazily_and_twice_alike(layout: str, tmp_path: Path) -> None:
    spec, files = LAYOUTS[layout]
    corpus = load_corpus(spec, data_dir=write(tmp_path, files()))
    examples = list(corpus)
    assert examples
    assert examples == list(corpus)
    assert len({e.id for e in examples}) == len(examples)
    assert all(e.text.strip() for e in examples)
    assert {e.label for e in examples} <= ({*corpus.labels} or {None})
    assert all(e.rationale is None or len(e.rationale) == len(e.words) for e in examples)


@pytest.mark.parametrize("name", [name for name, entry in CORPORA.items() if entry.splits])
def test_an_unknown_split_or_option_is_told_with_the_known_ones(name: str) -> None:
    with pytest.raises(CorpusError, match=f"no split 'tset' in {name}: expected one of .*test.*; for example {name}:test"):
        load_corpus(f"{name}:tset")
    with pytest.raises(CorpusError, match=f"{name} has no option 'colour=red'; known: "):
        load_corpus(f"{name}:test:colour=red")


@pytest.mark.parametrize("name", ["imdb", "hatexplain", "yelp_hat", "esnli", "newsgroups", "sarscov2", "wikitext"])
def test_data_that_is_not_there_is_told_with_where_it_was_looked_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONOSCOPE_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(CorpusError, match=rf"no data of {name}: looked for the folder .*elsewhere.*conoscope fetch {name}"):
        load_corpus(f"{name}:test")
    folder = {"wikitext": "wikitext2"}.get(name, name)
    (tmp_path / folder).mkdir()
    with pytest.raises(CorpusError, match=rf"{folder} has n(o|either) .*"):
        load_corpus(f"{name}:test", data_dir=tmp_path)


def test_the_folder_that_is_named_comes_before_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, LAYOUTS["esnli"][1]())
    monkeypatch.setenv("CONOSCOPE_DATA", str(tmp_path))
    assert len(list(load_corpus("esnli:test"))) == 2
    with pytest.raises(CorpusError, match="no data of esnli"):
        load_corpus("esnli:test", data_dir=tmp_path / "empty")


def test_training_takes_the_splits_of_a_corpus(tmp_path: Path) -> None:
    write(tmp_path, LAYOUTS["imdb archive"][1]())
    splits = splits_of("imdb", data_dir=tmp_path)
    assert list(splits) == ["train", "validation", "test"]
    with pytest.raises(
        CorpusError, match="training takes all splits of a corpus, not 'imdb:test:breaks=spaces'; give 'imdb:breaks="
    ):
        splits_of("imdb:test:breaks=spaces", data_dir=tmp_path)


def test_the_advice_for_training_is_a_corpus_that_can_be_named() -> None:
    with pytest.raises(CorpusError, match="not 'hub:train/x:train'; give 'hub:train/x'"):
        splits_of("hub:train/x:train")


def test_a_text_is_always_on_the_same_side_of_a_cut_and_another_seed_cuts_elsewhere() -> None:
    shares = {"validation": 30, "train": 70}
    sides = [[side(f"text {n}", seed, shares) for n in range(2000)] for seed in (0, 0, 1)]
    assert sides[0] == sides[1] != sides[2]
    assert 0.27 < sides[0].count("validation") / 2000 < 0.33
    with pytest.raises(ValueError, match="do not come to a hundred"):
        [side(f"text {n}", 0, {"train": 50}) for n in range(50)]


def test_streams_are_taken_by_turns_until_all_have_ended() -> None:
    assert list(by_turns([iter("abc"), iter(""), iter("xy")])) == ["a", "x", "b", "y", "c"]


# IMDB


def test_imdb_is_the_same_from_the_archive_and_from_the_folder(tmp_path: Path) -> None:
    write(tmp_path / "tar", LAYOUTS["imdb archive"][1]())
    write(tmp_path / "folder", LAYOUTS["imdb folder"][1]())
    for split in ("train", "validation", "test"):
        one, other = (load_corpus(f"imdb:{split}", data_dir=tmp_path / layout) for layout in ("tar", "folder"))
        assert sorted(one, key=lambda e: e.id) == sorted(other, key=lambda e: e.id)
        assert one.labels == ("neg", "pos")


def test_imdb_deals_negative_and_positive_by_turns_and_cuts_validation_from_train(tmp_path: Path) -> None:
    write(tmp_path, LAYOUTS["imdb archive"][1]())
    assert [e.label for e in load_corpus("imdb:test", data_dir=tmp_path)] == ["neg", "pos"] * 12
    train, validation = (load_corpus(f"imdb:{split}", data_dir=tmp_path, seed=1) for split in ("train", "validation"))
    ids = [{e.id for e in split} for split in (train, validation)]
    assert not ids[0] & ids[1]
    assert len(ids[0] | ids[1]) == 24
    assert train.seed == 1


def test_imdb_keeps_line_breaks_unless_asked(tmp_path: Path) -> None:
    write(tmp_path, LAYOUTS["imdb folder"][1]())
    assert all("<br />" in e.text for e in load_corpus("imdb:test", data_dir=tmp_path))
    spaced = load_corpus("imdb:test:breaks=spaces", data_dir=tmp_path)
    assert not any("<br />" in e.text for e in spaced)
    assert str(spaced) == "imdb:test:breaks=spaces"


def test_imdb_passes_over_what_is_no_review_and_counts_what_it_mends(tmp_path: Path) -> None:
    more = {
        "aclImdb/test/urls_neg.txt": "http://",
        "aclImdb/train/unsup/0_0.txt": "nobody knows",
        "aclImdb/test/neg/90_1.txt": b"caf\xe9 \xff\xfe noir",
        "aclImdb/test/neg/91_1.txt": "\ufeff \r\n",
    }
    write(tmp_path, {"imdb/aclImdb_v1.tar.gz": tar({**REVIEWS, **more})})
    examples, notes = read("imdb:test", tmp_path)
    assert len(examples) == 25
    assert "caf\ufffd \ufffd\ufffd noir" in {e.text for e in examples}
    assert notes == {"bytes that are not UTF-8, replaced": 3, "empty reviews, left out": 1}


def test_an_archive_that_lacks_a_class_is_not_whole(tmp_path: Path) -> None:
    some = {name: text for name, text in REVIEWS.items() if "test/pos" not in name}
    write(tmp_path, {"imdb/aclImdb_v1.tar.gz": tar(some)})
    with pytest.raises(DataError, match=r"aclImdb_v1.tar.gz has no files in test/pos; it is not whole, fetch it again"):
        read("imdb:test", tmp_path)


# HateXplain


def test_hatexplain_takes_the_majority_and_what_half_of_the_annotators_marked(tmp_path: Path) -> None:
    write(tmp_path, hatexplain())
    (train,), notes = read("hatexplain:train", tmp_path)
    assert (train.label, train.text, train.rationale) == ("hatespeech", "you are a <user> weed", (False,) * 4 + (True,))
    assert notes == {"posts without a majority, left out": 1}
    (validation,), _ = read("hatexplain:validation", tmp_path)
    assert (validation.label, validation.rationale) == ("normal", None)
    (test,), _ = read("hatexplain:test", tmp_path)
    assert (test.label, test.rationale) == ("offensive", (False, False, True, False))
    assert load_corpus("hatexplain", data_dir=tmp_path).labels == ("normal", "hatespeech", "offensive")


def with_rationales(*rationales: list[int], labels: str = "ooo") -> dict[str, str]:
    (_, post), *_ = posts().items()
    names = {"o": "offensive", "n": "normal", "h": "hatespeech"}
    changed = {**post, "rationales": list(rationales), "annotators": [{"label": names[letter]} for letter in labels]}
    return hatexplain(posts(e_test=changed), test=["e_test"])


@pytest.mark.parametrize(
    ("rationales", "expected"),
    [
        ([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]], (True, False, False, False, False)),
        ([[0] * 5, [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]], (False, True, False, False, False)),
        ([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]], (True, True, False, False, False)),
        ([[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1], [0] * 9], (False, False, False, False, True)),
        ([[0, 1]], (False, True, False, False, False)),
        ([[0] * 5], None),
        ([], None),
    ],
)
def test_hatexplain_falls_back_on_the_first_annotator_who_marked_anything_and_cuts_what_is_too_long(
    tmp_path: Path, rationales: list[list[int]], expected: tuple[bool, ...] | None
) -> None:
    write(tmp_path, with_rationales(*rationales))
    (_, example), notes = read("hatexplain:test", tmp_path)
    assert (example.label, example.rationale) == ("offensive", expected)
    unequal = sum(len(row) != 5 for row in rationales)
    assert notes.get("rationales of another length than their text, cut or filled", 0) == unequal
    assert notes.get("toxic posts in which nothing is marked", 0) == (expected is None)
    relabelled = list(load_corpus("hatexplain:test:unmarked=normal", data_dir=tmp_path))[1]
    assert relabelled.label == ("normal" if expected is None else "offensive")


def test_hatexplain_leaves_out_and_counts_what_has_no_majority_in_a_split_and_reads_an_id_once(tmp_path: Path) -> None:
    (_, post), *_ = posts().items()
    write(tmp_path, hatexplain(posts(e_nowhere=post), test=["d_none", "c_test", "c_test", "a_train"]))
    examples, notes = read("hatexplain:test", tmp_path)
    assert [e.id for e in examples] == ["c_test"]
    assert notes == {
        "posts without a majority, left out": 1,
        "posts in no split, left out": 1,
        "posts of an earlier split, left out": 1,
    }


def test_a_majority_is_more_than_half(tmp_path: Path) -> None:
    write(tmp_path, with_rationales(labels="oonn"))
    assert len(read("hatexplain:test", tmp_path)[0]) == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dataset.json", '{\n "a": [1,\n}', r"dataset.json:3: not JSON"),
        ("dataset.json", "[]", r"dataset.json:1: a list where an object is expected"),
        ("dataset.json", '{"c_test": {"annotators": []}}', r"dataset.json: post 'c_test' lacks annotators, rationales"),
        ("dataset.json", "{}", r"dataset.json: post 'c_test' lacks"),
        ("dataset.json", "[" * 100_000, r"dataset.json: not JSON"),
        ("post_id_divisions.json", '{"test": 3}', r"post_id_divisions.json: expected a list of post ids"),
        ("post_id_divisions.json", "{}", r"post_id_divisions.json: expected a list of post ids"),
    ],
)  # fmt: skip
def test_hatexplain_names_the_file_and_the_post_that_is_broken(tmp_path: Path, name: str, content: str, message: str) -> None:
    write(tmp_path, {**hatexplain(), f"hatexplain/{name}": content})
    with pytest.raises(CorpusError, match=message):
        read("hatexplain:test", tmp_path)


def test_a_token_with_spaces_counts_as_its_words(tmp_path: Path) -> None:
    (_, post), *_ = posts().items()
    write(tmp_path, hatexplain(posts(c_test={**post, "post_tokens": ["so", "very much", ""], "rationales": [[0, 1, 1]]})))
    (example,), _ = read("hatexplain:test", tmp_path)
    assert example.rationale == (False, True, True)


# Yelp-HAT


@pytest.mark.parametrize(
    ("votes", "expected"),
    [("majority", "000101"), ("all", "000000"), ("any", "000101")],
)
def test_the_three_human_maps_of_yelp_leave_punctuation_unmarked(tmp_path: Path, votes: str, expected: str) -> None:
    """The dash was marked by one, `lovely` and `really!` by two."""
    write(tmp_path, yelp_hat())
    examples, _ = read(f"yelp_hat:test-50:map={votes}", tmp_path)
    assert [(e.label, e.text, e.rationale) for e in examples] == [("positive", DINER, tuple(flag == "1" for flag in expected))]


def test_processed_rows_of_yelp_hold_votes(tmp_path: Path) -> None:
    write(tmp_path, yelp_hat())
    examples = [e for split in ("train", "validation") for e in load_corpus(f"yelp_hat:{split}", data_dir=tmp_path)]
    assert len(examples) == 61
    assert {(e.label, e.rationale) for e in examples if e.text.startswith("Bad")} == {("negative", (True, True, False))}
    every = [e for split in ("train", "validation") for e in load_corpus(f"yelp_hat:{split}:map=all", data_dir=tmp_path)]
    assert {e.rationale for e in every if e.text.startswith("Bad")} == {(True, False, False)}


def test_the_pooled_test_of_yelp_is_the_three_of_them(tmp_path: Path) -> None:
    write(tmp_path, yelp_hat())
    parts = [e.id for length in (50, 100, 200) for e in load_corpus(f"yelp_hat:test-{length}", data_dir=tmp_path)]
    assert [e.id for e in load_corpus("yelp_hat:test", data_dir=tmp_path)] == parts


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (spans("a b c", "010"), "010"),
        ('<span class="">a</span><span class="x active">b</span>', "01"),
        ('<span class="active"><i class="chrome-extension">a</i></span> <span >b</span>', "10"),
        ('<span>a<i>b</i>c</span> <span><b class="active">d</b></span>', "00"),
        ('<span class="active">very <span>good</span> </span> <span>soup</span>', "110"),
        ('<span>half<span class="active">way</span></span>', "1"),
        ('<span><span class="active">half</span>way</span>', "1"),
        ("<span>S&amp;W</span> <span class='active'>&lt;3</span>", "01"),
        ("<span>a</span> <span class=active>b", "01"),
        ("</span></span>", ""),
        ("<", "0"),
    ],
)
def test_words_are_read_from_spans_whatever_else_is_in_them(html: str, expected: str) -> None:
    assert marked_words(html) == [flag == "1" for flag in expected]


def part_one(*rows: list[str]) -> dict[str, str]:
    return {**yelp_hat(), "yelp_hat/raw_data/ham_part1(50words).csv": table(RAW, *rows)}


def test_two_spellings_of_one_review_are_one_review_in_the_better_spelling(tmp_path: Path) -> None:
    right, wrong = "J'ai adoré la soirée", "J'ai ador√© la soir√©e"
    rows = [*annotated(wrong, ("0100", "0100")), *annotated(right, ("0101",))]
    write(tmp_path, part_one(*rows))
    examples, notes = read("yelp_hat:test-50", tmp_path)
    assert [(e.text, e.rationale) for e in examples] == [(right, (False, True, False, False))]
    assert notes == {"reviews in two spellings, taken as one": 1}


def test_different_reviews_are_never_taken_for_one(tmp_path: Path) -> None:
    """All letters of these are foreign: nothing of them is left to be told apart by."""
    rows = [*annotated("料理 最高", ("10", "10", "10"), "1"), *annotated("店員 最悪", ("01", "01", "01"), "0")]
    rows += [*annotated("味 良い", ("10", "10"), "1"), *annotated("味 悪い", ("10",), "1")]
    write(tmp_path, part_one(*rows))
    examples, notes = read("yelp_hat:test-50", tmp_path)
    assert [(e.text, e.label, e.rationale) for e in examples] == [
        ("料理 最高", "positive", (True, False)),
        ("店員 最悪", "negative", (False, True)),
    ]
    assert notes == {"reviews with fewer than three maps, left out": 2}


def test_raw_rows_come_before_processed_ones(tmp_path: Path) -> None:
    counted = table(["label", "text", "human_attention"], ["0", "counted", "3"])
    write(tmp_path, {**yelp_hat(), "yelp_hat/processed_data/ham_part1.csv": counted})
    assert [e.text for e in load_corpus("yelp_hat:test-50", data_dir=tmp_path)] == [DINER]


def test_a_review_needs_three_maps_of_its_length_and_more_are_not_used(tmp_path: Path) -> None:
    text = "good soup here"
    rows = [
        *annotated("too few maps", ("100", "100")),
        *annotated("one short map", ("100", "100")),
        ["1", "one short map", "", spans("one short", "11")],
        *annotated(text, ("100", "010", "001", "111", "111")),
        ["0", "  ", "yes", ""],
    ]
    write(tmp_path, part_one(*rows))
    examples, notes = read("yelp_hat:test-50:map=majority", tmp_path)
    assert [(e.text, e.rationale) for e in examples] == [(text, (False, False, False))]
    assert notes == {
        "reviews with fewer than three maps, left out": 1,
        "reviews whose maps differ in length, left out": 1,
        "rows without text, left out": 1,
    }


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (part_one(*annotated(label="2")), r"ham_part1\(50words\).csv:2: the label '2' is neither 0 \(negative\) nor 1"),
        (part_one(), r"ham_part1\(50words\).csv is empty: no row after the header"),
        ({**yelp_hat(), "yelp_hat/raw_data/ham_part1(50words).csv": "a,b\n1,2\n"}, "ham_part1.* has no column 'Input.label'"),
        ({**yelp_hat(), "yelp_hat/raw_data/ham_part1(50words).csv": "label,text,human_attention\n1,a b,1 x\n"},
         r"csv:2: human_attention is not a count for each word"),
    ],
)  # fmt: skip
def test_a_broken_file_of_yelp_is_named(tmp_path: Path, files: dict[str, str], message: str) -> None:
    write(tmp_path, files)
    with pytest.raises(CorpusError, match=message):
        read("yelp_hat:test-50", tmp_path)


# e-SNLI


def test_esnli_splits_punctuation_off_and_leaves_out_what_lacks_a_sentence(tmp_path: Path) -> None:
    write(tmp_path, esnli())
    (example,), notes = read("esnli:train", tmp_path)
    assert (example.text, example.pair, example.label, example.rationale) == (
        "A dog runs .", "An animal moves .", "entailment", None,
    )  # fmt: skip
    assert notes == {"pairs without a sentence or a label, left out": 1}
    assert load_corpus("esnli", data_dir=tmp_path).labels == ("neutral", "entailment", "contradiction")


def test_esnli_reads_highlights_where_there_are_any(tmp_path: Path) -> None:
    write(tmp_path, esnli())
    (marked, unequal), notes = read("esnli:test", tmp_path)
    assert marked.words == ("A", "dog", "runs", ".", "A", "dog", "sleeps", ".")
    assert marked.rationale == (False, False, True, False, False, False, True, False)
    assert unequal.rationale is None
    assert notes == {"pairs whose highlights are of another text, read without them": 1}


def test_esnli_reads_both_files_of_the_full_train_split_and_names_an_odd_label(tmp_path: Path) -> None:
    row = ["1", "neutral", "a", "b"]
    write(tmp_path, {**esnli(), "esnli/esnli_train_1.csv": table(ESNLI, row), "esnli/esnli_train_2.csv": table(ESNLI, row)})
    assert [e.id for e in load_corpus("esnli:train", data_dir=tmp_path)] == ["esnli_train_1:2", "esnli_train_2:2"]
    write(tmp_path, {"esnli/esnli_dev.csv": table(MARKED, ["1", "maybe", "a", "b", "", "a", "b"])})
    with pytest.raises(CorpusError, match=r"esnli_dev.csv:2: the label 'maybe' is none of neutral, entailment, contradiction"):
        read("esnli:validation", tmp_path)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("A *dog* runs.", "It *barks.*", (False, True, False, False, False, True, False)),
        ("A dog runs.", "It barks.", (False,) * 7),
        ("*A dog runs.", "It barks.", None),
        ("A cat runs.", "It meows.", None),
    ],
)
def test_highlights_that_are_of_another_text_or_never_end_are_none(
    tmp_path: Path, first: str, second: str, expected: tuple[bool, ...] | None
) -> None:
    row = ["1", "neutral", "A dog runs.", "It barks.", "why", first, second]
    write(tmp_path, {"esnli/esnli_test.csv": table(MARKED, row)})
    (example,), notes = read("esnli:test", tmp_path)
    assert example.rationale == expected
    assert sum(notes.values()) == (expected is None)


@pytest.mark.parametrize("sentences", [("", "b"), ("a", "n/a"), ("a", "  ")])
def test_a_pair_that_lacks_either_sentence_is_left_out(tmp_path: Path, sentences: tuple[str, str]) -> None:
    write(tmp_path, {"esnli/esnli_test.csv": table(ESNLI, ["1", "neutral", *sentences], ["2", "neutral", "a", "b"])})
    assert len(read("esnli:test", tmp_path)[0]) == 1


# Newsgroups


def test_newsgroups_are_dealt_by_turns_from_every_layout(tmp_path: Path) -> None:
    for layout in ("newsgroups table", "newsgroups archive", "newsgroups folder"):
        write(tmp_path / layout, LAYOUTS[layout][1]())
        corpus = load_corpus("newsgroups:test", data_dir=tmp_path / layout)
        assert len(corpus.labels) == 20
        assert [e.label for e in corpus] == [*corpus.labels] * 3


def test_headers_of_posts_are_removed_unless_asked_and_bytes_are_latin_1(tmp_path: Path) -> None:
    write(tmp_path, LAYOUTS["newsgroups archive"][1]())
    first = next(iter(load_corpus("newsgroups:test", data_dir=tmp_path)))
    assert first.text == "A café in alt.atheism, number 0\n"
    assert next(iter(load_corpus("newsgroups:test:headers=kept", data_dir=tmp_path))).text.startswith("From: x@y\nSubject: ")
    files = {**newsgroups_files(), "20news-bydate-test/sci.space/9": b"From: nobody\r\n\r\n \r\n"}
    write(tmp_path, {"newsgroups/20news-bydate.tar.gz": tar(files)})
    assert read("newsgroups:test", tmp_path)[1] == {"posts without text, left out": 1}


def test_a_newsgroup_that_is_none_of_the_twenty_is_named(tmp_path: Path) -> None:
    content = "Category\tText\nd\tstring\nclass\t\n\nalt.soup\tre soup\n"
    write(tmp_path, {"newsgroups/20newsgroups-test.tab": content})
    with pytest.raises(CorpusError, match=r"20newsgroups-test.tab:5: 'alt.soup' is none of the twenty newsgroups"):
        read("newsgroups:test", tmp_path)


# SARS-CoV-2


def test_a_spike_of_3822_bases_has_425_words() -> None:
    words = kmers("acgtca" * 637)
    assert len(words) == 425
    assert {len(word) for word in words} == {12}
    assert words[0] == "acgtcaacgtca"
    assert words[1] == ("acgtca" * 4)[9:21]
    assert words[-1] == "acgtca" + "n" * 6
    for length in (1, 12, 13, 100, 3822):
        assert len(kmers("a" * length)) == (-(-length // 12) * 12 - 12) // 9 + 1


def test_the_spike_is_cut_by_coordinates_and_what_is_no_base_is_n() -> None:
    genome = "A" * 21562 + "ACGU-RNYacgt" + "T" * 3810 + "G" * (29903 - 25384)
    assert spike_of(genome) == "acgtnnnnacgt" + "t" * 3810
    with pytest.raises(CorpusError, match=r"x.fasta:1: 3821 bases are neither a spike gene \(3822\) nor a genome"):
        spike_of("A" * 3821, "x.fasta:1")


def test_identical_spikes_are_on_one_side_and_classes_need_enough_of_them(tmp_path: Path) -> None:
    write(tmp_path, sarscov2())
    splits = {
        split: list(load_corpus(f"sarscov2:{split}:minimum=15", data_dir=tmp_path)) for split in ("train", "validation", "test")
    }
    texts = [{e.text for e in examples} for examples in splits.values()]
    assert sum(map(len, splits.values())) == 30
    assert sum(map(len, texts)) == len(set.union(*texts)) == 16
    with pytest.raises(CorpusError, match=r"a spike has 3822 bases; give a smaller k and stride than k=999999999"):
        load_corpus("sarscov2:test:k=999999999", data_dir=tmp_path)
    with pytest.raises(CorpusError, match=r"no class of .*labels.tsv has 16 sequences; give another minimum than 16"):
        load_corpus("sarscov2:test:minimum=16", data_dir=tmp_path)


def test_variants_go_by_clade_or_by_the_name_of_the_who(tmp_path: Path) -> None:
    write(tmp_path, sarscov2())
    clades, who = (load_corpus(f"sarscov2:real:minimum=2,by={by}", data_dir=tmp_path) for by in ("clade", "who"))
    assert (clades.labels, [e.label for e in clades]) == (("20A", "21J"), ["21J"])
    assert (who.labels, [e.label for e in who]) == (("Delta",), ["Delta"])
    assert next(iter(who)).words == tuple(kmers(spike_of(spike(3))))
    assert read("sarscov2:real:minimum=2", tmp_path)[1] == {"sequences without a class, or of one with too few, left out": 1}


def test_a_name_that_comes_twice_is_read_once(tmp_path: Path) -> None:
    files = sarscov2()
    fasta = gzip.decompress(files["sarscov2/pango_consensus_spike.fasta.gz"]).decode()
    labels = files["sarscov2/pango_consensus_labels.tsv"] + "L.0\t21J\tDelta\r\n"
    write(tmp_path, {**files, "sarscov2/pango_consensus_spike.fasta.gz": gzip.compress((fasta * 2).encode()),
                     "sarscov2/pango_consensus_labels.tsv": labels})  # fmt: skip
    read_ = [read(f"sarscov2:{split}:minimum=2", tmp_path) for split in ("train", "validation", "test")]
    assert sum(len(examples) for examples, _ in read_) == 30
    assert read_[0][1] == {
        "names with several labels, the first one taken": 1,
        "sequences of a name that was there before, left out": 30,
    }


def test_bases_before_the_first_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {**sarscov2(), "sarscov2/real_genomes_aligned.fasta": "\nACGT\n>G1\nACGT\n"})
    with pytest.raises(CorpusError, match=r"real_genomes_aligned.fasta:2: bases before the first '>'"):
        read("sarscov2:real:minimum=2", tmp_path)


# WikiText


def words_and_marks(text: str, pair: str | None = None) -> int:
    """A tokenizer of one token a word, and [CLS] A [SEP] B [SEP]."""
    return len(text.split()) + len((pair or "").split()) + (2 if pair is None else 3)


def packed(article: str, folder: Path) -> list[Example]:
    write(folder, {"wikitext2/wiki.test.raw": article})
    return list(load_corpus("wikitext:test", data_dir=folder).packed(words_and_marks, 512))


def test_paragraphs_are_what_is_no_heading(tmp_path: Path) -> None:
    write(tmp_path, {"wikitext2/wiki.test.raw": ARTICLE})
    corpus = load_corpus("wikitext:test", data_dir=tmp_path)
    assert [e.text for e in corpus] == ["The soup was hot . It was red too .", "Nobody knows who made it first ."]
    assert corpus.labels == ()


def test_packed_pairs_hold_at_most_128_tokens_and_every_word_in_its_order(tmp_path: Path) -> None:
    sentences = " ".join(" ".join(f"w{n}.{k}" for k in range(1 + n * 7 % 40)) + " ." for n in range(60))
    article = f" = One = \n {sentences} \n {'long ' * 300}\n = Two = \n short . \n"
    examples = packed(article, tmp_path)
    assert all(words_and_marks(e.text, e.pair) <= 128 for e in examples)
    assert " ".join(f"{e.text} {e.pair or ''}".strip() for e in examples).split() == (
        sentences.split() + ["long"] * 300 + ["short", "."]
    )
    assert sum(words_and_marks(e.text, e.pair) for e in examples) / len(examples) > 90
    assert 45 < max(len(e.text.split()) for e in examples) <= 62
    short = list(load_corpus("wikitext:test", data_dir=tmp_path).packed(words_and_marks, 20))
    assert all(words_and_marks(e.text, e.pair) <= 20 for e in short)
    assert (examples[-1].text, examples[-1].pair) == ("short", ".")
    assert all(e.label is None for e in examples)


@pytest.mark.parametrize(("text", "pair"), [("x", None), ("xyz", "z"), ("a b c", "c")])
def test_what_is_left_of_an_article_is_halved_where_it_can_be(tmp_path: Path, text: str, pair: str | None) -> None:
    (example,) = packed(f" {text} ", tmp_path)
    assert (example.text, example.pair) == (text.removesuffix(pair or "").strip(), pair)


def test_a_word_longer_than_half_a_pair_is_cut(tmp_path: Path) -> None:
    def letters(text: str, pair: str | None = None) -> int:
        return len(text) + len(pair or "") + 3

    write(tmp_path, {"wikitext2/wiki.test.raw": f" = A = \n {'x' * 1000} \n"})
    examples = list(load_corpus("wikitext:test", data_dir=tmp_path).packed(letters, 512))
    assert all(letters(e.text, e.pair) <= 128 for e in examples)
    assert sum(len(f"{e.text}{e.pair or ''}".replace(" ", "")) for e in examples) == 1000


def test_what_is_cut_before_it_is_packed_stays_cut(tmp_path: Path) -> None:
    write(tmp_path, {"wikitext2/wiki.test.raw": "".join(f" = T{n} = \n word number {n} . \n" for n in range(9))})
    corpus = load_corpus("wikitext:test", data_dir=tmp_path)
    whole = list(corpus.packed(words_and_marks, 512))
    assert len(whole) == 9
    assert list(corpus.first(4).packed(words_and_marks, 512)) == whole[:4]
    assert list(corpus.shard(2, 3).first(2).unlabelled().packed(words_and_marks, 512)) == whole[1::3][:2]


def test_other_corpora_are_not_packed() -> None:
    corpus = load_corpus("bistro:test")
    assert corpus.packed(words_and_marks, 512) is corpus


# The Hub


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    datasets = pytest.importorskip("datasets", reason="the extra `hub` is not installed")
    features = datasets.Features(
        {
            "sentence": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["bad", "good"]),
            "stars": datasets.Value("int64"),
        }
    )
    for split, count in (("train", 40), ("test", 6)):
        rows = {"sentence": [f"soup {n}" for n in range(count)], "label": [n % 2 for n in range(count)], "stars": [5] * count}
        path = tmp_path / "reviews" / "data" / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_dict(rows, features=features).to_parquet(path)
    return tmp_path / "reviews"


def columns(**given: str):
    from conoscope.corpora import Columns

    return Columns(text="sentence", **given)


def test_a_folder_in_the_hubs_layout_streams_with_the_names_of_its_labels(dataset: Path) -> None:
    for spec in (f"hub:{dataset}:test", f"{dataset}:test"):
        corpus = load_corpus(spec, columns())
        assert corpus.labels == ("bad", "good")
        assert [(e.text, e.label) for e in corpus][:2] == [("soup 0", "bad"), ("soup 1", "good")]
        assert len({e.id for e in corpus}) == 6
    assert load_corpus(f"hub:{dataset}:test", columns(label="stars")).labels == ("5",)


def test_a_data_set_without_a_split_to_stop_by_is_cut(dataset: Path) -> None:
    splits = splits_of(f"hub:{dataset}", columns())
    assert list(splits) == ["train", "validation", "test"]
    assert sum(1 for name in ("train", "validation") for _ in splits[name]) == 40


def test_labels_that_are_held_back_are_no_labels(dataset: Path) -> None:
    import datasets

    held = {"sentence": ["a", "b"], "label": [-1, -1], "stars": [1, 2]}
    features = datasets.Features({"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"]),
                                  "stars": datasets.Value("int64")})  # fmt: skip
    datasets.Dataset.from_dict(held, features=features).to_parquet(dataset / "data" / "test-00000-of-00001.parquet")
    assert [e.label for e in load_corpus(f"hub:{dataset}:test", columns())] == [None, None]
    (dataset.parent / "numbered").mkdir()
    rows = '{"sentence": "a", "label": -1}\n{"sentence": "b", "label": 3}\n'
    (dataset.parent / "numbered" / "test.jsonl").write_text(rows, encoding="utf-8")
    numbered = load_corpus(f"hub:{dataset.parent / 'numbered'}:test", columns())
    assert (numbered.labels, [e.label for e in numbered]) == (("3",), [None, "3"])
    assert list(splits_of(f"hub:{dataset}", columns())) == ["train", "validation"]


@pytest.mark.parametrize(
    ("split", "names", "message"),
    [
        (":nope", {}, "nope cannot be read from the Hub or a folder: Bad split: nope. Available splits"),
        (":test", {"label": "colour"}, "reviews:test has no column 'colour'; it has sentence, label, stars"),
        (":test:config=x", {}, "reviews:test cannot be read from the Hub or a folder: BuilderConfig 'x' not found"),
        (":test:colour=red", {}, "reviews has no option 'colour=red'; known: config=|TEXT"),
    ],
)
def test_what_is_wrong_with_a_data_set_is_told_in_one_line(
    dataset: Path, split: str, names: dict[str, str], message: str
) -> None:
    with pytest.raises(CorpusError) as told:
        load_corpus(f"hub:{dataset}{split}", columns(**names))
    assert message in str(told.value)
    assert "\n" not in str(told.value)


def test_a_data_set_that_is_nowhere_and_one_without_files(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="nobody/nothing:test cannot be read from the Hub or a folder"):
        load_corpus("nobody/nothing:test")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="empty cannot be read from the Hub or a folder"):
        every_split(f"hub:{tmp_path / 'empty'}")


def test_a_broken_file_of_a_data_set_is_told_in_one_line(tmp_path: Path) -> None:
    write(tmp_path, {"broken/train.csv": "sentence,label\na,b\nc,d,e,f\n"})
    with pytest.raises(CorpusError, match=r"broken:train cannot be read"):
        list(load_corpus(f"hub:{tmp_path / 'broken'}:train", columns()))


# What the world contains


def of_splits(layout: str, options: str, folder: Path, seed: int) -> dict[str, set[str]]:
    name = LAYOUTS[layout][0].partition(":")[0]
    return {
        split: {e.id for e in load_corpus(f"{name}:{split}{options}", data_dir=folder, seed=seed)}
        for split in ("train", "validation")
    }


@pytest.mark.parametrize(
    ("layout", "options"),
    [("imdb archive", ""), ("newsgroups archive", ""), ("newsgroups table", ""), ("yelp_hat", ""), ("sarscov2", ":minimum=2")],
)
def test_another_seed_cuts_elsewhere(layout: str, options: str, tmp_path: Path) -> None:
    write(tmp_path, LAYOUTS[layout][1]())
    cuts = [of_splits(layout, options, tmp_path, seed) for seed in (0, 0, 1, 2)]
    assert cuts[0] == cuts[1]
    assert cuts[0] != cuts[2] != cuts[3]


@pytest.mark.parametrize(
    ("layout", "options"), [("imdb archive", ":breaks=spaces"), ("newsgroups archive", ":headers=kept"), ("yelp_hat", ":map=any")]
)
def test_an_option_moves_nothing_across_the_cut(layout: str, options: str, tmp_path: Path) -> None:
    write(tmp_path, LAYOUTS[layout][1]())
    for seed in range(3):
        assert of_splits(layout, "", tmp_path, seed) == of_splits(layout, options, tmp_path, seed)


def test_what_a_mac_leaves_and_names_that_come_twice_are_no_examples(tmp_path: Path) -> None:
    beside = {name.replace("/0_", "/._0_"): b"\x00\x05\x16\x07" for name in REVIEWS if "/0_" in name}
    write(tmp_path / "folder", {f"imdb/{name}": text for name, text in {**REVIEWS, **beside}.items()})
    assert len(read("imdb:test", tmp_path / "folder")[0]) == 24
    twice = tar({**REVIEWS, **beside, **{f"./{name}": text for name, text in REVIEWS.items()}})
    write(tmp_path / "tar", {"imdb/aclImdb_v1.tar.gz": twice})
    examples, notes = read("imdb:test", tmp_path / "tar")
    assert len(examples) == len({e.id for e in examples}) == 24
    assert notes == {"files of a name that was there before, left out": 24}


def test_a_member_that_claims_to_be_huge_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conoscope.corpora.archives.LARGEST", 10)
    write(tmp_path, LAYOUTS["imdb archive"][1]())
    with pytest.raises(DataError, match=r"aclImdb_v1.tar.gz cannot be read: aclImdb/test/neg/0_2.txt has \d+ bytes"):
        read("imdb:test", tmp_path)


def test_a_corpus_is_the_same_however_its_options_are_written(tmp_path: Path) -> None:
    write(tmp_path, {**yelp_hat(), **sarscov2()})
    plain, spelled = (load_corpus(f"yelp_hat:test{options}", data_dir=tmp_path) for options in ("", ":map=majority"))
    assert (str(plain), plain.fingerprint) == (str(spelled), spelled.fingerprint)
    one, other = (load_corpus(f"sarscov2:real:{given}", data_dir=tmp_path) for given in ("minimum=2,k=6", "k=6,minimum=2"))
    assert (str(one), one.fingerprint) == (str(other), other.fingerprint)
    with pytest.raises(CorpusError, match="yelp_hat is given the option 'map' twice; give it once"):
        load_corpus("yelp_hat:test:map=any,map=all", data_dir=tmp_path)


@pytest.mark.parametrize("place", [0, -1])
def test_a_file_with_another_beginning_or_end_has_another_fingerprint(tmp_path: Path, place: int) -> None:
    files = esnli()
    write(tmp_path, files)
    before = load_corpus("esnli:test", data_dir=tmp_path).fingerprint
    changed = bytearray((tmp_path / "esnli/esnli_test.csv").read_bytes() * 1)
    changed[place] ^= 1
    (tmp_path / "esnli/esnli_test.csv").write_bytes(bytes(changed))
    assert load_corpus("esnli:test", data_dir=tmp_path).fingerprint != before


def test_columns_are_for_files_and_the_hub(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="bistro has columns of its own; leave --text, --pair, --label and --rationale out"):
        load_corpus("bistro:test", columns())


@pytest.mark.parametrize("spec", ["hub:", "hub::test", "hub", ":", ""])
def test_a_spec_without_a_name_is_told(spec: str) -> None:
    with pytest.raises(CorpusError, match=r"no corpus '.*', and no such file; known corpora"):
        load_corpus(spec)


def test_a_file_or_folder_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, esnli())

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"esnli_test.csv cannot be read: Permission denied"):
        load_corpus("esnli:test", data_dir=tmp_path)
    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(CorpusError, match="no data of esnli"):
        load_corpus("esnli:test", data_dir=tmp_path)


@pytest.mark.parametrize("ending", ["\r\n", "\n", "\r"])
def test_line_ends_a_byte_order_mark_and_blank_lines_change_nothing(tmp_path: Path, ending: str) -> None:
    plain = {name: content for name, content in esnli().items() if "test" in name}
    changed = {name: "\ufeff" + content.replace("\r\n", ending + ending).removesuffix(ending) for name, content in plain.items()}
    write(tmp_path / "plain", plain)
    write(tmp_path / "changed", changed)
    one, other = (list(load_corpus("esnli:test", data_dir=tmp_path / kind)) for kind in ("plain", "changed"))
    assert [(e.text, e.pair, e.rationale) for e in one] == [(e.text, e.pair, e.rationale) for e in other]


def test_a_gz_that_ends_too_soon_is_told(tmp_path: Path) -> None:
    files = LAYOUTS["newsgroups table"][1]()
    write(tmp_path, {name: content[:-20] for name, content in files.items()})
    with pytest.raises(DataError, match=r"20newsgroups-test.tab.gz cannot be read: .*; check the file"):
        read("newsgroups:test", tmp_path)


def test_a_corpus_with_options_says_so_and_has_another_fingerprint(tmp_path: Path) -> None:
    write(tmp_path, yelp_hat())
    one, other = (load_corpus(f"yelp_hat:test{options}", data_dir=tmp_path) for options in ("", ":map=any"))
    assert (str(one), str(other)) == ("yelp_hat:test", "yelp_hat:test:map=any")
    assert one.fingerprint != other.fingerprint


def test_pairs_are_joined_first_and_padded_at_the_end(tmp_path: Path, pure) -> None:
    pairs = Corpus.of([Example("the soup", pair="was cold"), Example("a very long soup it was", pair="cold")])
    batch = pure.batcher(pairs).batch(list(pairs))
    assert all(row.tolist() == sorted(row.tolist(), reverse=True) for row in batch.real)
    ids = batch.inputs["input_ids"][0][batch.real[0]].tolist()
    separator = pure.tokenizer.sep_token_id
    assert ids.index(separator) == 3
    assert json.dumps(ids[:1]) == f"[{pure.tokenizer.cls_token_id}]"
