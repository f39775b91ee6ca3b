"""Windows of a corpus: what is read ahead changes neither the batches nor what a checkpoint says was read."""

from dataclasses import replace
from itertools import count

import pytest
import torch

from conoscope.capture.loading import LoadedModel
from conoscope.corpora import Corpus
from conoscope.measuring.checkpoint import StreamDigest
from conoscope.measuring.windows import Window, Windows


def windows(pure: LoadedModel, corpus: Corpus, ahead: int) -> list[Window]:
    """All windows of three batches of four texts; `ahead`: batches of the next one that are tokenized beforehand."""
    found, reading = [], Windows(corpus, pure.batcher(corpus), 4, StreamDigest(), count(1), 3)
    for window in reading:
        found.append(window)
        for _ in range(ahead):
            reading.advance()
    return found


@pytest.mark.parametrize("ahead", [1, 3, 9])
def test_reading_ahead_changes_nothing(pure: LoadedModel, sentences: Corpus, ahead: int) -> None:
    few = Corpus.of(list(sentences)[:31], "a few")
    expected, found = windows(pure, few, 0), windows(pure, few, ahead)
    assert [len(window.batches) for window in found] == [3, 3, 2]
    for one, other in zip(found, expected, strict=True):
        assert one.read == other.read
        assert [batch.ids for batch in one.batches] == [batch.ids for batch in other.batches]
        for left, right in zip(one.batches, other.batches, strict=True):
            assert torch.equal(left.place, right.place)
            assert torch.equal(left.inputs["input_ids"], right.inputs["input_ids"])


def test_what_was_read_is_counted_up_to_the_end_of_each_window(pure: LoadedModel, sentences: Corpus) -> None:
    few = list(sentences)[:31]
    for window, size in zip(windows(pure, Corpus.of(few, "a few"), 9), (12, 24, 31), strict=True):
        digest = StreamDigest()
        assert len(list(digest.watch(few[:size]))) == size
        assert replace(window.read, truncated=0) == digest


def test_no_examples_give_no_window(pure: LoadedModel) -> None:
    assert windows(pure, Corpus.of([], "none"), 1) == []
