"""A run that was stopped goes on where it was, and never counts anything twice."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from conoscope.capture.loading import LoadedModel
from conoscope.common.errors import OutputError
from conoscope.corpora import Corpus, Example, Notes, load_corpus
from conoscope.measuring import checkpoint
from conoscope.measuring.pipeline import Options, measure
from conoscope.results.store import NumberedFolder

OPTIONS = Options(batch_size=1)
TEXTS = list(load_corpus("bistro:test").first(80))


def corpus(texts: list[Example], stop_at: int | None = None) -> Corpus:
    def read(_: Notes) -> Iterator[Example]:
        for number, example in enumerate(texts):
            if number == stop_at:
                raise KeyboardInterrupt
            yield example

    return Corpus("some", "", ("negative", "positive"), read, len(texts))


@pytest.fixture(autouse=True)
def save_after_every_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)


@pytest.fixture
def stopped(pure: LoadedModel, tmp_path: Path) -> Path:
    with pytest.raises(KeyboardInterrupt):
        measure(pure, corpus(TEXTS, stop_at=70), options=OPTIONS, out=tmp_path / "out")
    return tmp_path / "out"


def test_a_stopped_run_goes_on_to_the_same_tables(pure: LoadedModel, stopped: Path) -> None:
    assert (stopped / "partial" / "tally.safetensors").is_file()
    resumed = measure(pure, corpus(TEXTS), options=OPTIONS, out=stopped)
    whole = measure(pure, corpus(TEXTS), options=OPTIONS)
    for name, frame in whole.tables.items():
        pd.testing.assert_frame_equal(resumed[name], frame, rtol=0, atol=1e-12)
    assert resumed.provenance["seen"] == whole.provenance["seen"]
    assert not (stopped / "partial").exists()


def test_a_numbered_folder_goes_on_with_its_own_run_and_leaves_another_s(pure: LoadedModel, stopped: Path) -> None:
    other, own = NumberedFolder(stopped), NumberedFolder(stopped)
    measure(pure, corpus(TEXTS), ["sim"], options=OPTIONS, out=other)
    assert other.path == stopped.with_name("out-2")
    assert (stopped / "partial" / "tally.safetensors").is_file()
    resumed = measure(pure, corpus(TEXTS), options=OPTIONS, out=own)
    assert own.path == stopped
    assert resumed.provenance["seen"]["examples"] == 80
    assert not (stopped / "partial").exists()


def test_what_was_done_is_not_run_again(pure: LoadedModel, stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    handle = pure.module.register_forward_pre_hook(lambda _, __, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True)
    measure(pure, corpus(TEXTS), options=OPTIONS, out=stopped)
    handle.remove()
    assert sum(rows) < 80 - 64 + 12


def test_a_corpus_that_changed_in_the_meantime_is_refused(pure: LoadedModel, stopped: Path) -> None:
    with pytest.raises(OutputError, match="the corpus has changed since; remove it to begin anew"):
        measure(pure, corpus(TEXTS[1:]), options=OPTIONS, out=stopped)


def test_another_command_does_not_go_on_from_it(pure: LoadedModel, stopped: Path) -> None:
    with pytest.raises(OutputError, match="was left by another run"):
        measure(pure, corpus(TEXTS), ["sim"], options=OPTIONS, out=stopped)


@pytest.mark.parametrize(
    "spoil",
    [lambda text: json.dumps({**json.loads(text), "format": 3}), lambda text: text[: len(text) // 2]],
    ids=["old", "torn"],
)
def test_sums_of_another_version_and_torn_ones_are_told_with_what_to_do(
    pure: LoadedModel, stopped: Path, spoil: Callable[[str], str]
) -> None:
    tally = stopped / "partial" / "tally.json"
    tally.write_text(spoil(tally.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(OutputError, match=r"partial cannot be read, so the run cannot go on; remove it to begin anew"):
        measure(pure, corpus(TEXTS), options=OPTIONS, out=stopped)


def test_both_parts_of_a_run_say_how_attention_was_computed(
    pure: LoadedModel, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conoscope.capture.backends.beyond_plain", lambda eager: "a test")
    told = measure(pure, corpus(TEXTS), options=OPTIONS, out=stopped).provenance["capture"]
    assert [line.partition(": ")[2].partition(" (")[0] for line in told] == [
        "attention is computed and reduced in chunks",
        "the model's own attention runs",
    ]
