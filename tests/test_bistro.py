"""The bistro corpora: reproducible, split cleanly, and not to be read from a bag of words."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

from conoscope.common.errors import CorpusError
from conoscope.corpora import bistro_words as words
from conoscope.corpora.base import Corpus, Example
from conoscope.corpora.bistro import bistro, bistro_stars, bistro_topics

SPLITS = ("train", "validation", "test")
MAKERS: dict[str, Callable[..., Corpus]] = {
    "bistro": bistro,
    "bistro-stars": bistro_stars,
    "bistro-topics-2": lambda split, **options: bistro_topics(split, 2, **options),
    "bistro-topics-20": bistro_topics,
    "bistro-topics-200": lambda split, **options: bistro_topics(split, 200, **options),
}
every_corpus = pytest.mark.parametrize("name", MAKERS)
every_split = pytest.mark.parametrize("split", SPLITS)


@cache
def examples(name: str, split: str) -> tuple[Example, ...]:
    """The whole split of bistro itself; the first 3000 where its siblings have more."""
    return tuple(MAKERS[name](split).first(None if name == "bistro" else 3000))


def bag(text: str) -> tuple[str, ...]:
    return tuple(sorted(word.strip(".,!").lower() for word in text.split()))


def shares(name: str, split: str) -> dict[str | None, float]:
    counts = Counter(example.label for example in examples(name, split))
    return {label: count / counts.total() for label, count in counts.items()}


def twin_share(name: str, split: str) -> float:
    labels = defaultdict(set)
    for example in examples(name, split):
        labels[bag(example.text)].add(example.label)
    return sum(len(labels[bag(example.text)]) > 1 for example in examples(name, split)) / len(examples(name, split))


def deciding_words(example: Example) -> set[str]:
    flags = example.rationale or ()
    return {word.strip(".,!") for word, decides in zip(example.words, flags, strict=True) if decides}


@every_corpus
@every_split
def test_iterating_twice_gives_the_same_examples(name: str, split: str) -> None:
    corpus = MAKERS[name](split, size=100)
    assert list(corpus) == list(corpus)


@given(seed=st.integers(), size=st.integers(1, 60), more=st.integers(0, 60), name=st.sampled_from(sorted(MAKERS)))
@settings(max_examples=20, deadline=None)
def test_a_smaller_corpus_is_the_beginning_of_a_larger_one(seed: int, size: int, more: int, name: str) -> None:
    make = MAKERS[name]
    assert list(make("test", seed=seed, size=size)) == list(make("test", seed=seed, size=size + more))[:size]


def test_another_seed_gives_other_examples() -> None:
    assert [e.text for e in bistro("test", seed=0, size=50)] != [e.text for e in bistro("test", seed=1, size=50)]


def test_the_first_review_never_changes() -> None:
    first = next(iter(bistro("test")))
    assert (first.id, first.text, first.label) == ("bistro:test:1", "the dessert was awful! we sat by the door.", "negative")


def test_nothing_is_drawn_before_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a corpus drew something before it was read")

    monkeypatch.setattr(random.Random, "random", refuse)
    corpora = [make("train") for make in MAKERS.values()]
    assert [len(corpus) for corpus in corpora] == [10000] * len(MAKERS)
    with pytest.raises(AssertionError):
        next(iter(corpora[0]))


@every_corpus
@every_split
def test_a_corpus_is_as_long_as_it_says_and_numbers_its_examples(name: str, split: str) -> None:
    corpus = MAKERS[name](split, size=77)
    assert (corpus.name, corpus.split, len(corpus)) == (name, split, 77)
    assert [example.id for example in corpus] == [f"{name}:{split}:{number}" for number in range(1, 78)]


@every_corpus
def test_no_text_comes_twice_in_a_split(name: str) -> None:
    for split in SPLITS:
        assert len({example.text for example in examples(name, split)}) == len(examples(name, split))


@every_corpus
def test_no_two_splits_share_a_bag_of_words_whatever_the_seed(name: str) -> None:
    make = MAKERS[name]
    bags = [{bag(e.text) for seed in (0, 1) for e in make(split, seed=seed, size=300)} for split in SPLITS]
    assert bags[0].isdisjoint(bags[1])
    assert bags[0].isdisjoint(bags[2])
    assert bags[1].isdisjoint(bags[2])


@every_corpus
@every_split
def test_nearly_half_of_the_reviews_or_more_have_a_twin_of_another_label(name: str, split: str) -> None:
    assert 0.45 <= twin_share(name, split) <= 0.65


@pytest.mark.parametrize("name", ["bistro", "bistro-stars", "bistro-topics-2", "bistro-topics-20"])
def test_a_linear_model_of_the_bag_of_words_stays_under_85_percent(name: str) -> None:
    train, test = examples(name, "train"), examples(name, "test")
    counts = CountVectorizer()
    model = LogisticRegression(max_iter=1000, tol=0.01).fit(counts.fit_transform(e.text for e in train), [e.label for e in train])
    assert model.score(counts.transform(e.text for e in test), [e.label for e in test]) < 0.85


@every_split
def test_positive_and_negative_reviews_are_balanced(split: str) -> None:
    assert 0.45 <= shares("bistro", split)["positive"] <= 0.55
    assert bistro(split).labels == ("negative", "positive")


@every_split
def test_every_number_of_stars_has_at_least_8_percent(split: str) -> None:
    assert set(shares("bistro-stars", split)) == set(bistro_stars(split).labels) == set("12345")
    assert min(shares("bistro-stars", split).values()) >= 0.08


@pytest.mark.parametrize("classes", [2, 20, 200])
def test_topics_are_roughly_balanced_and_all_there(classes: int) -> None:
    found = shares(f"bistro-topics-{classes}", "train")
    assert set(found) == set(bistro_topics("train", classes).labels)
    assert len(found) == classes
    assert 0.3 / classes <= min(found.values())
    assert max(found.values()) <= 2 / classes


def test_more_topics_keep_the_names_of_fewer() -> None:
    labels = bistro_topics("test", 200).labels
    assert labels[:3] == ("lamb curry", "chicken pie", "beef stew")
    assert all(bistro_topics("test", classes).labels == labels[:classes] for classes in range(2, 201))


def test_no_remark_is_about_a_topic() -> None:
    assert {subject for aspect in words.ASPECTS for subject in aspect.subjects}.isdisjoint((*words.DISHES, *words.STYLES))


@every_corpus
@every_split
def test_a_rationale_has_a_flag_for_each_word_and_marks_some_but_not_all(name: str, split: str) -> None:
    for example in examples(name, split):
        assert example.rationale is not None
        assert len(example.rationale) == len(example.text.split())
        assert 0 < sum(example.rationale) < len(example.rationale)


@every_corpus
def test_reviews_have_4_to_40_words_and_no_marks_left(name: str) -> None:
    for example in examples(name, "train"):
        assert 4 <= len(example.words) <= 40
        assert not set(example.text) & set("*^{}")
        assert example.text == " ".join(example.words)


def test_a_few_hundred_words_make_up_the_vocabulary() -> None:
    assert 150 <= len({word for example in examples("bistro", "train") for word in bag(example.text)}) <= 400


def test_the_marked_words_alone_tell_the_verdict() -> None:
    praise = {w for a in words.ASPECTS for w in (*a.praise, *a.high_praise)} | {v.split()[0][1:] for v in words.VERDICTS[4]}
    blame = {w for a in words.ASPECTS for w in (*a.blame, *a.harsh_blame)} | {v.split()[0][1:] for v in words.VERDICTS[2]}
    for example in examples("bistro", "test"):
        marked = deciding_words(example)
        if not marked & {"not", "far"}:
            assert bool(marked & praise) == (example.label == "positive")
            assert bool(marked & blame) == (example.label == "negative")


def test_what_decides_a_topic_is_its_name() -> None:
    for example in examples("bistro-topics-20", "test"):
        assert set((example.label or "").split()) <= deciding_words(example)


def test_the_connective_and_the_negation_are_marked() -> None:
    for example in examples("bistro", "test"):
        operators = {"but", "yet", "however", "although", "though", "while", "even", "instead", "now"} & set(bag(example.text))
        assert operators <= deciding_words(example)
    assert any({"not", "far"} & deciding_words(example) for example in examples("bistro", "test"))


def test_an_intensifier_is_marked_for_stars_alone() -> None:
    marked = {word for example in examples("bistro-stars", "test") for word in deciding_words(example)}
    assert set(words.INTENSIFIERS) <= marked
    assert marked.isdisjoint({"quite", "rather"})
    assert {word for e in examples("bistro", "test") for word in deciding_words(e)}.isdisjoint(words.INTENSIFIERS)


@every_corpus
def test_an_unknown_split_is_refused(name: str) -> None:
    message = f"^no split 'dev' in {name}: expected one of test, train, validation; for example {name}:test$"
    with pytest.raises(CorpusError, match=message):
        MAKERS[name]("dev")


@pytest.mark.parametrize("classes", [-1, 0, 1, 201])
def test_too_few_or_too_many_topics_are_refused(classes: int) -> None:
    message = f"^cannot make bistro-topics of {classes} classes: expected 2 to 200; for example classes=20$"
    with pytest.raises(CorpusError, match=message):
        bistro_topics("test", classes)


@pytest.mark.parametrize("size", [-5, 0, 50_001])
def test_a_size_that_cannot_be_had_is_refused(size: int) -> None:
    message = f"^cannot make {size} examples of bistro: expected 1 to 50000; for example size=1000$"
    with pytest.raises(CorpusError, match=message):
        bistro("test", size=size)
