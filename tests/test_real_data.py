"""The real corpora: counts and balance as their tables say. They are read through CONOSCOPE_DATA and never committed."""

import os
import re
import tracemalloc
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from conoscope.capture.loading import LoadedModel
from conoscope.corpora import Notes, load_corpus
from conoscope.corpora.sarscov2 import CONSENSUS, REAL, fasta, spike_of
from conoscope.corpora.word_splitting import count_words
from conoscope.corpora.word_vectors import load_vectors
from conoscope.measuring.pipeline import Options, measure

DATA = os.environ.get("CONOSCOPE_DATA", "")
needs = pytest.mark.skipif(not DATA, reason="CONOSCOPE_DATA is not set to a folder with the real corpora")


@lru_cache
def balance(spec: str) -> tuple[dict[str | None, int], dict[str, int]]:
    notes = Notes()
    labels = Counter(e.label for e in load_corpus(spec).read(notes))
    return dict(labels), {what: count for what, count in notes.items() if count}


def both(name: str) -> Counter[str | None]:
    """What there is to learn from, before any of it is held out."""
    return Counter(balance(f"{name}:train")[0]) + Counter(balance(f"{name}:validation")[0])


@needs
def test_imdb() -> None:
    assert both("imdb") == {"neg": 12500, "pos": 12500}
    assert balance("imdb:test") == ({"neg": 12500, "pos": 12500}, {})
    assert sum(balance("imdb:validation")[0].values()) == pytest.approx(2500, abs=150)


@needs
@pytest.mark.parametrize("split", ["train", "test"])
def test_memory_stays_flat_over_imdb(split: str) -> None:
    stream = iter(load_corpus(f"imdb:{split}"))
    next(stream)
    tracemalloc.start()
    for _, _ in zip(range(500), stream, strict=False):
        pass
    tracemalloc.reset_peak()
    early = tracemalloc.get_traced_memory()[0]
    for _, _ in zip(range(6000), stream, strict=False):
        pass
    grown = tracemalloc.get_traced_memory()[1] - early
    tracemalloc.stop()
    assert grown < 2_000_000


@needs
def test_hatexplain() -> None:
    unsplit = {"posts without a majority, left out": 919}
    train, notes = balance("hatexplain:train")
    assert train == {"normal": 6251, "hatespeech": 4748, "offensive": 4384}
    assert (sum(train.values()), train["hatespeech"] + train["offensive"]) == (15383, 9132)
    assert notes == {**unsplit, "toxic posts in which nothing is marked": 48}
    assert balance("hatexplain:validation") == ({"normal": 781, "hatespeech": 593, "offensive": 548}, unsplit)
    assert balance("hatexplain:test") == ({"normal": 782, "hatespeech": 594, "offensive": 548}, unsplit)
    explained = [e for e in load_corpus("hatexplain:train") if e.rationale is not None]
    assert len(explained) == 9086 - 2  # two of the 9,086 vectors mark nothing
    assert all(any(e.rationale) for e in explained)
    assert balance("hatexplain:train:unmarked=normal")[0]["normal"] == 6251 + 48


@needs
def test_yelp_hat() -> None:
    notes = Notes()
    parts: dict[int, Counter[str | None]] = defaultdict(Counter)
    for example in load_corpus("yelp_hat:test").read(notes):
        parts[len(example.words)][example.label] += 1
    assert parts[50] == {"negative": 155, "positive": 145}
    assert parts[100].total() == 438
    assert parts[200] == {"negative": 89, "positive": 92}
    assert +notes == {"reviews in two spellings, taken as one": 1}
    assert sum(both("yelp_hat").values()) == 980 + 982 + 983 + 495
    assert balance("yelp_hat:train")[1] == {"reviews with fewer than three maps, left out": 130}


@needs
def test_the_three_maps_of_yelp_lie_within_one_another() -> None:
    maps = [load_corpus(f"yelp_hat:test-50:map={which}") for which in ("all", "majority", "any")]
    for every, most, some in zip(*maps, strict=True):
        assert all(a <= b <= c for a, b, c in zip(every.rationale, most.rationale, some.rationale, strict=True))


@needs
def test_esnli() -> None:
    assert balance("esnli:train") == ({"contradiction": 6771, "entailment": 6667, "neutral": 6562}, {})
    assert balance("esnli:validation") == ({"entailment": 3329, "contradiction": 3278, "neutral": 3235}, {})
    assert balance("esnli:test") == ({"entailment": 3368, "contradiction": 3237, "neutral": 3219}, {})
    for split in ("train", "validation", "test"):
        glued = [e for e in load_corpus(f"esnli:{split}") if re.search(r"\w[.,!?]", f"{e.text} {e.pair}")]
        assert not glued


@needs
def test_newsgroups() -> None:
    train, test = both("newsgroups"), balance("newsgroups:test")[0]
    assert (sum(train.values()), sum(test.values())) == (11293, 7528)
    assert len(train) == len(test) == 20
    assert (train["rec.sport.hockey"], train["talk.religion.misc"]) == (600, 377)
    first = load_corpus("newsgroups:test").first(20)
    assert len({e.label for e in first}) == 20


@needs
def test_sarscov2() -> None:
    splits = {split: list(load_corpus(f"sarscov2:{split}")) for split in ("train", "validation", "test")}
    clades = load_corpus("sarscov2:test").labels
    everything = [e for examples in splits.values() for e in examples]
    assert len(clades) == 28
    assert len(everything) == 3585 - balance("sarscov2:test")[1]["sequences without a class, or of one with too few, left out"]
    assert {len(e.words) for e in everything} == {425}
    by_spike: dict[str, Counter[str | None]] = defaultdict(Counter)
    for example in everything:
        by_spike[example.text][example.label] += 1
    best = sum(max(counts.values()) for counts in by_spike.values()) / len(everything)
    assert round(best, 3) == 0.942
    texts = [{e.text for e in examples} for examples in splits.values()]
    assert sum(map(len, texts)) == len(set.union(*texts))


@needs
def test_variants_by_the_name_of_the_who() -> None:
    names = load_corpus("sarscov2:test:by=who,minimum=1").labels
    assert len(names) == 12
    counts: Counter[str | None] = Counter()
    spikes: dict[str | None, set[str]] = defaultdict(set)
    for split in ("train", "validation", "test"):
        for example in load_corpus(f"sarscov2:{split}:by=who,minimum=1"):
            counts[example.label] += 1
            spikes[example.label].add(example.text)
    assert [counts[name] for name in ("Omicron", "Delta", "Gamma", "Alpha", "Beta", "Mu")] == [1613, 196, 19, 7, 4, 4]
    assert [len(spikes[name]) for name in ("Omicron", "Delta", "Gamma")] == [948, 91, 9]
    real, _ = balance("sarscov2:real:by=who,minimum=1")
    assert [real[name] for name in ("Omicron", "Delta", "Alpha", "Beta", "Lambda", "Mu", "Gamma")] == [64, 35, 15, 12, 8, 6, 6]


@needs
def test_genomes_and_the_reference() -> None:
    folder = Path(DATA) / "sarscov2"
    ((_, name, reference),) = fasta(folder / "reference.fasta", Notes())
    assert (name, len(reference)) == ("MN908947", 29903)
    assert spike_of(reference).startswith("atgtttgtttttcttgttttattgccactagtctctagtcagtgtgtt")
    assert sum(1 for _ in fasta(folder / f"{CONSENSUS[0]}.gz", Notes())) == 3585
    genomes = [spike_of(sequence) for _, _, sequence in fasta(folder / f"{REAL[0]}.gz", Notes())]
    assert len(genomes) == 406
    assert sum(2 * spike.count("n") > len(spike) for spike in genomes) == 79


@needs
def test_wikitext(minilm: LoadedModel) -> None:
    corpus = load_corpus("wikitext:test")
    assert sum(1 for _ in corpus) == 2183
    bare = [len(minilm.tokenizer(e.text, add_special_tokens=False, verbose=False)["input_ids"]) for e in corpus]
    assert sum(bare) == 267402
    pairs = list(corpus.packed(minilm.length, 512))
    lengths = [minilm.length(e.text, e.pair) for e in pairs]
    assert max(lengths) <= 128
    assert np.mean(lengths) > 110
    assert sum(length - (2 if e.pair is None else 3) for e, length in zip(pairs, lengths, strict=True)) == 267402


@needs
def test_wikitext_is_measured_in_packed_pairs(minilm: LoadedModel) -> None:
    result = measure(minilm, "wikitext:test", ["sim"], Options(limit=8))
    assert result.provenance["seen"]["examples"] == 8
    assert result.provenance["seen"]["truncated"] == 0
    assert result.provenance["corpus"]["labels"] == []


@needs
def test_word_vectors_cover_the_corpora_as_the_log_says() -> None:
    """docs/log.md has these figures."""
    words = count_words(e.text for e in load_corpus("hatexplain:train"))
    vectors = load_vectors(Path(DATA) / "glove" / "glove.6B.100d.cut.txt.gz", words)
    assert vectors.matrix.shape == (len(words), 100)
    log = (Path(__file__).parents[1] / "docs" / "log.md").read_text(encoding="utf-8")
    assert f"{len(words):,} words" in log
    assert f"{vectors.coverage():.2%}" in log
    assert f"{vectors.coverage(words):.2%}" in log


@needs
def test_the_cut_vectors_are_those_of_all_their_words() -> None:
    vectors = load_vectors(Path(DATA) / "glove" / "glove.6B.100d.cut.txt.gz")
    assert vectors.matrix.shape == (79905, 100)
    assert vectors.coverage() == 1
    assert vectors.matrix[vectors.words.index("the")][:3] == pytest.approx([-0.03819, -0.2449, 0.7281])
