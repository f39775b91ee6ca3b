"""Error messages: short, whatever they quote."""

from copy import copy
from pathlib import Path

import pytest

from commands import refusal
from conoscope.capture.frequencies import load_ranks
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.common.errors import MESSAGE, ConoscopeError, CorpusError, DataError, ModelError, shortened
from conoscope.corpora import Columns, Corpus, Example, load_corpus
from conoscope.corpora.word_vectors import load_vectors
from conoscope.explaining.scorefiles import read_scores
from conoscope.measures import request
from conoscope.measuring.gates import thresholds
from conoscope.measuring.pipeline import Options, measure
from conoscope.reporting.gathering import gather

LONG = "x" * 100_000
SPACED = "of many words " * 8_000


def every_error(kind: type[ConoscopeError] = ConoscopeError) -> list[type[ConoscopeError]]:
    return [kind, *(found for below in kind.__subclasses__() for found in every_error(below))]


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("text", [LONG, SPACED, f"{LONG} {SPACED} {LONG}"])
def test_every_error_cuts_long_text_and_keeps_what_happened_and_what_to_do(kind: type[ConoscopeError], text: str) -> None:
    error = kind(f"a.csv:3: the label {text!r} is not known; rename it")
    assert len(str(error)) <= MESSAGE
    assert str(error).startswith("a.csv:3: the label")
    assert str(error).endswith("is not known; rename it")
    assert str(copy(error)) == str(error)


def test_a_message_of_usual_length_is_left_alone() -> None:
    message = f"no folder {'long-name/' * 20}; give another"
    assert shortened(message) == message
    assert str(CorpusError(message)) == message


@pytest.mark.parametrize("text", [LONG, SPACED])
def test_no_message_is_long_however_long_labels_names_and_options_are(text: str, pure: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{text}\n1\n", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text(f'{{"text": "fine", "scores": "{text}"}}\n', encoding="utf-8")
    (tmp_path / "c.csv").write_text(f"token,rank\nthe,{text}\n", encoding="utf-8")
    (tmp_path / "d.jsonl").write_text(
        f'{{"text": "fine", "label": "a"}}\n{{"text": "", "label": "a", "{text}": "{text}"}}\n', encoding="utf-8"
    )
    examples = [Example("fine soup", text, id=text)]
    calls = [
        lambda: measure(pure, examples),
        lambda: list(load_corpus(tmp_path / "d.jsonl")),
        lambda: measure(pure, Corpus.of([Example("fine")], text), [text]),
        lambda: measure(pure, [Example("fine")], ["norms"], Options(kinds={text: text})),
        lambda: request(f"sim:mask={text}"),
        lambda: request(f"sim:{text}=real"),
        lambda: thresholds([f"{text}=1"]),
        lambda: thresholds([f"open.entropy={text}"]),
        lambda: load_corpus(text),
        lambda: load_corpus(f"bistro:{text}"),
        lambda: load_corpus(f"bistro:test:{text}=3"),
        lambda: load_corpus(tmp_path / "a.csv"),
        lambda: load_corpus(tmp_path / "a.csv", Columns(text=f"another {text}", label=text)),
        lambda: load_corpus(f"{text}.csv"),
        lambda: load_model(text),
        lambda: load_model(pure, dtype=text),
        lambda: load_model(pure, device=text),
        lambda: load_vectors(text),
        lambda: read_scores(tmp_path / "b.jsonl"),
        lambda: load_ranks(tmp_path / "c.csv", pure.tokenizer, 9),
        lambda: gather([text]),
        lambda: measure(pure, [Example("fine")], ["norms"], Options(kinds={"a": [text], "b": [text]})),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(ConoscopeError) as refused:
            call()
        assert 0 < len(str(refused.value)) <= MESSAGE, number


def test_a_long_label_gets_a_short_line_from_the_command(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text(f"text,label\nfine soup,{LONG}\n", encoding="utf-8")
    said = refusal(capsys, "measure", model, tmp_path / "a.csv")
    assert len(said) < 2000
    assert "rename the labels" in said


def test_the_tree_of_errors_is_that_of_the_module() -> None:
    assert issubclass(CorpusError, DataError)
    assert all(kind.__init__ is ConoscopeError.__init__ for kind in every_error())
    assert ModelError in every_error()
