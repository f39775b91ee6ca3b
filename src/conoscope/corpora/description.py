"""describe(): what is in a corpus, in one pass over it and in constant memory."""

import heapq
from collections import Counter
from dataclasses import dataclass, field

from conoscope.common.errors import CorpusError
from conoscope.common.terminal import Progress
from conoscope.corpora import Corpus, Example, Notes


@dataclass
class Description:
    """Counts of a corpus: examples by label, words by length of the text, marked words, what was mended or left out."""

    corpus: Corpus
    labels: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    unlabelled: int = 0
    pairs: int = 0
    rationales: int = 0
    marked: int = 0
    markable: int = 0
    notes: Notes = field(default_factory=Notes)
    samples: list[Example] = field(default_factory=list)

    @property
    def examples(self) -> int:
        """How many there are."""
        return self.lengths.total()

    @property
    def density(self) -> float | None:
        """The share of marked words, in the examples that have a rationale."""
        return self.marked / self.markable if self.markable else None

    def length(self, share: float) -> int:
        """The number of words that this share of the examples does not exceed."""
        seen = 0
        for length in sorted(self.lengths):
            seen += self.lengths[length]
            if seen >= share * self.examples:
                break
        return length

    def add(self, example: Example) -> None:
        """Count one more."""
        words = len(example.words)
        self.lengths[words] += 1
        self.pairs += example.pair is not None
        if example.label is None:
            self.unlabelled += 1
        else:
            self.labels[example.label] += 1
        if example.rationale is not None:
            self.rationales += 1
            self.marked += sum(example.rationale)
            self.markable += words


def describe(corpus: Corpus, samples: int = 3, progress: bool = False) -> Description:
    """Read the whole corpus once; the samples are the examples whose hash is smallest: drawn evenly, and always the same."""
    described = Description(corpus)
    drawn: list[tuple[int, int, Example]] = []
    with Progress(corpus.size, progress, "read") as bar:
        for number, example in enumerate(corpus.read(described.notes)):
            described.add(example)
            if samples:
                put = heapq.heappush if len(drawn) < samples else heapq.heappushpop
                put(drawn, (-example.digest, number, example))
            bar.advance(1)
    if not described.examples:
        raise CorpusError(f"{corpus} has no examples; give another corpus")
    described.samples = [example for *_, example in sorted(drawn, reverse=True)]
    return described
