"""A Path does wherever a text names a file, a folder, a corpus or a model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conoscope.capture.loading import load_model
from conoscope.common.errors import ConoscopeError
from conoscope.corpora import Columns, load_corpus, splits_of
from conoscope.corpora.describe import Survey, survey
from conoscope.corpora.entry import data_folder
from conoscope.corpora.word_vectors import load_vectors
from conoscope.explaining import explain, faithfulness, plausibility, write_explanations
from conoscope.explaining.metrics import Judging
from conoscope.figures import save
from conoscope.measuring.pipeline import Options, measure, merge
from conoscope.reporting import report
from conoscope.reporting.gathering import figure_of
from conoscope.results.result import Result
from conoscope.training.comparison import compare
from conoscope.training.geometry_callback import GeometryCallback
from conoscope.training.trainer import Training, train

SMALL = {"layers": 1, "width": 4, "epochs": 1, "device": "cpu"}
WHY = Columns(rationale="why")
Named = Callable[[Path], Any]


@pytest.fixture(scope="module")
def here(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, texts, vectors, frequencies, scores and results."""
    folder = tmp_path_factory.mktemp("paths")
    rows = [("the soup was cold", "negative"), ("we loved the bread", "positive")] * 8
    lines = [f'{text} {number},{label},"{" ".join("1" * (len(text.split()) + 1))}"' for number, (text, label) in enumerate(rows)]
    (folder / "texts.csv").write_text("\n".join(["text,label,why", *lines]) + "\n", encoding="utf-8")
    (folder / "vectors.txt").write_text("soup 1 0 0 0\nbread 0 1 0 0\n", encoding="utf-8")
    (folder / "ranks.csv").write_text("token,rank\nsoup,1\nbread,2\n", encoding="utf-8")
    scores = [{"text": f"{text} {n}", "scores": [0.5] * (len(text.split()) + 1)} for n, (text, _) in enumerate(rows)]
    (folder / "scores.jsonl").write_text("".join(json.dumps(row) + "\n" for row in scores), encoding="utf-8")
    (folder / "model").symlink_to(model)
    measure(model, folder / "texts.csv", ["sim"], out=folder / "results")
    return folder


def refused(call: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(ConoscopeError, match="no rationales") as found:
        call(*arguments)
    return str(found.value)


def tuning(checkpoint: Any) -> Training:
    return Training(checkpoint=checkpoint, epochs=1, device="cpu")


def both_splits(here: Path, name: Named) -> dict[str, Any]:
    return {"train": name(here / "texts.csv"), "validation": name(here / "texts.csv")}


CALLS: dict[str, Callable[[Path, Named], Any]] = {
    "load_corpus": lambda here, name: list(load_corpus(name(here / "texts.csv"))),
    "splits_of": lambda here, name: len(list(splits_of(name(here / "texts.csv"))["train"])),
    "survey": lambda here, name: str(survey(name(here / "texts.csv"), options=Survey(vectors=name(here / "vectors.txt")))),
    "data_folder": lambda here, name: data_folder(name(here)),
    "load_model": lambda here, name: load_model(name(here / "model")).digest(),
    "load_vectors": lambda here, name: load_vectors(name(here / "vectors.txt")).matrix.tolist(),
    "measure": lambda here, name: (
        measure(
            name(here / "model"),
            name(here / "texts.csv"),
            ["frequency"],
            Options(frequencies=name(here / "ranks.csv")),
            name(here / "f"),
        ).provenance
    ),
    "merge": lambda here, name: merge([name(here / "results")]).provenance,
    "Result.load": lambda here, name: Result.load(name(here / "results")).provenance,
    "Result.save": lambda here, name: Result.load(name(here / "results")).save(name(here / "again")),
    "explain": lambda here, name: write_explanations(
        explain(name(here / "model"), name(here / "texts.csv"), ["attention"]), name(here / "words.jsonl")
    ),
    "plausibility": lambda here, name: (
        plausibility(
            load_corpus(name(here / "texts.csv"), WHY),
            None,
            None,
            [name(here / "scores.jsonl")],
            None,
            Judging(resamples=2),
            name(here / "judged"),
        ).provenance
    ),
    "plausibility of a spec": lambda here, name: refused(plausibility, name(here / "model"), name(here / "texts.csv")),
    "faithfulness": lambda here, name: (
        faithfulness(
            name(here / "model"), name(here / "texts.csv"), ["attention"], [name(here / "scores.jsonl")], out=name(here / "faith")
        ).provenance
    ),
    "compare": lambda here, name: str(compare([name(here / "model")], name(here / "texts.csv")).save(name(here / "scores.csv"))),
    "report": lambda here, name: report(name(here / "results"), name(here / "page.html")),
    "report of several": lambda here, name: report([name(here / "results")], name(here / "page.html")),
    "report of named": lambda here, name: report({"a": name(here / "results")}, name(here / "page.html")),
    "figure": lambda here, name: save(figure_of("sim", [name(here / "results")]), name(here / "sim.json")),
    "train": lambda here, name: (
        train(
            both_splits(here, name),
            name(here / f"trained-{name.__name__}"),
            Training(vectors=name(here / "vectors.txt"), **SMALL),
        ).epochs
    ),
    "train from": lambda here, name: (
        train(both_splits(here, name), name(here / f"tuned-{name.__name__}"), tuning(name(here / "model"))).epochs
    ),
    "GeometryCallback": lambda here, name: str(
        GeometryCallback(load_model(here / "model").tokenizer, name(here / "texts.csv")).corpus
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_path_does_what_its_text_does(call: str, here: Path) -> None:
    by_text, by_path = (CALLS[call](here, name) for name in (str, Path))
    assert by_text == by_path
