"""Words: how much the vectors of one word depend on its sentence."""

import math
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.measures.base import Part, Reading, also_reads, reads
from conoscope.measures.needs import Need
from conoscope.sums.samples import Sample
from conoscope.sums.statistics import Directions, Gram

LEAST = 5
"""Words with fewer occurrences are left out."""

OfWord = Callable[[Float[Tensor, "n d"]], float]
WordValues = list[tuple[str, float, int]]
"""Words, each with its value and its number of occurrences."""


def _needs(baseline: type[Gram] | type[Directions]) -> dict[str, Need]:
    return {
        "words": Need.of(Sample, "occurrences", site="hidden"),
        "random": Need.of(baseline, "random_vectors", site="hidden", width="whole", mask="content"),
    }


def _sim_parts() -> Iterator[Part]:
    yield Part({"site": "hidden"}, False, _needs(Directions))


CENTRED = ("no", "yes")


def _variance_parts(centred: str) -> Iterator[Part]:
    yield Part({"site": "hidden", "centred": centred}, False, _needs(Gram), {"centred": centred == "yes"})


def _by_word(words: Sample, of_word: OfWord) -> WordValues:
    """The value of `of_word` for each word that is frequent enough, with its occurrences; NaN values are left out."""
    counts = words.groups.unique_consecutive(return_counts=True)[1].tolist()
    names, by_word, begin = words.texts(), [], 0
    for count in counts:
        if count >= LEAST and not math.isnan(value := of_word(words.values[begin : begin + count].double())):
            by_word.append((names[begin], value, count))
        begin += count
    return by_word


def _mean(by_word: WordValues, baseline: Float[Tensor, ""]) -> Reading:
    values = torch.tensor([value for _, value, _ in by_word], dtype=torch.float64)
    value, sd = values.mean(), values.std() if len(values) > 1 else math.nan
    return Reading.of_one(value, sd, len(values), baseline=float(baseline), adjusted=float(value - baseline))


def _each(by_word: WordValues) -> Iterator[Reading]:
    for word, value, count in sorted(by_word):
        yield Reading.of_one(value, n=count).with_keys(word=word)


def _self_sim(x: Float[Tensor, "n d"]) -> float:
    return float(Directions.of(x, torch.ones(len(x), dtype=torch.bool)).sim)


def _first_share(products: Float[Tensor, "n n"], rounding: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """s_1² / Σ s², from the Gram matrix of the vectors or of their coordinates; NaN where Σ s² is only rounding."""
    energy: Tensor = torch.linalg.eigvalsh(products).clamp_min(0)
    return (energy[-1] / energy.sum()).where(energy.sum() > rounding, torch.nan)


def _explained_of(centred: bool) -> OfWord:
    def explained(x: Float[Tensor, "n d"]) -> float:
        apart = x - x.mean(0) if centred else x
        return float(_first_share(apart @ apart.T, x.square().sum() * 1e-12))

    return explained


def _explained(random: Gram, centred: bool) -> Float[Tensor, ""]:
    outer = torch.outer(random.vectors[0], random.vectors[0]) / random.count[0].clamp_min(1)
    return _first_share(random.products[0] - outer if centred else random.products[0], 10 * random.rounding[0])


@reads(_sim_parts, within=(-1, 1), source="Ethayarajh 2019")
def self_sim(words: Sample, random: Directions) -> Reading:
    """The mean over words of the mean cosine between the vectors of one word in different places.

    `n` is the number of words with at least five occurrences, of 64 chosen by hash; of each word at most a hundred
    occurrences count. `baseline` is the mean cosine of random words of different sentences, `adjusted` the value minus that.
    """
    return _mean(_by_word(words, _self_sim), random.sim[0])


@also_reads("self_sim.words", _sim_parts, within=(-1, 1))
def self_sim_words(words: Sample, random: Directions) -> Iterator[Reading]:
    """The same for each word; n is the number of its occurrences."""
    return _each(_by_word(words, _self_sim))


@reads(_variance_parts, within=(0, 1), source="Ethayarajh 2019", centred=CENTRED)
def max_explained_variance(words: Sample, random: Gram, centred: bool) -> Reading:
    """The mean over words of the share of one direction in the vectors of a word: s_1² / Σ s².

    How much of a word's contextual vectors would one static vector explain? `baseline` is the same for random words, one of
    each sentence, `adjusted` the value minus that. The vectors are taken as they are, or, with `centred=yes`, minus their mean.
    """
    return _mean(_by_word(words, _explained_of(centred)), _explained(random, centred))


@also_reads("max_explained_variance.words", _variance_parts, within=(0, 1))
def max_explained_variance_words(words: Sample, random: Gram, centred: bool) -> Iterator[Reading]:
    """The same for each word; n is the number of its occurrences."""
    return _each(_by_word(words, _explained_of(centred)))
