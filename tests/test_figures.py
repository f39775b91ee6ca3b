"""Figures: what is in them, and every form that they are written in."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from architectures import tiny
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.cli import main
from conoscope.common.questions import QUESTIONS
from conoscope.corpora import Example
from conoscope.figures import FIGURES, ORDER
from conoscope.figures.positions import positions, sinusoids
from conoscope.measuring.pipeline import measure
from conoscope.models import layers
from conoscope.models.tokenizer import build_tokenizer

HEADS = {".svg": b"<svg", ".pdf": b"%PDF", ".png": b"\x89PNG", ".html": b"<!DOCTYPE html>", ".json": b"{"}


@pytest.mark.parametrize("ending", HEADS)
def test_the_command_writes_every_form(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"positions{ending}"
    assert main(["figure", "positions", "-o", str(path), "--count", "20"]) == 0
    assert path.read_bytes().lstrip().startswith(HEADS[ending])
    assert str(path) in capsys.readouterr().out


@pytest.mark.parametrize(("count", "width"), [(30, 50), (7, 5), (1, 1)])
def test_positions_are_those_of_the_models(count: int, width: int) -> None:
    expected = layers.sinusoids(count, width, like=torch.zeros(0, dtype=torch.float64))
    np.testing.assert_allclose(sinusoids(count, width), expected.numpy(), atol=1e-13)


def test_the_map_of_positions_has_half_the_width_on_its_diagonal_and_depends_on_the_distance_alone() -> None:
    frame = positions(30, 50).data
    assert len(frame) == 900
    diagonal = frame[frame["i"] == frame["j"]]["product"]
    assert diagonal.tolist() == pytest.approx([25.0] * 30)
    by_distance = frame.assign(apart=(frame["i"] - frame["j"]).abs()).groupby("apart")["product"]
    assert (by_distance.max() - by_distance.min()).max() < 1e-9
    assert by_distance.mean()[1] == pytest.approx(24.0935024199)


def test_an_html_page_needs_no_network(tmp_path: Path) -> None:
    assert main(["figure", "positions", "-o", str(tmp_path / "p.html"), "--count", "5"]) == 0
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert 'src="http' not in page


def test_a_form_that_is_not_known_and_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "positions", "-o", str(tmp_path / "p.docx")]) == 2
    assert "no figure can be written as 'p.docx'; give an ending of .html, .json, .pdf, .png, .svg" in capsys.readouterr().err
    assert main(["figure", "positions", "-o", str(tmp_path / "nowhere" / "p.json"), "--count", "5"]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_the_spec_is_vega_lite() -> None:
    assert "vega-lite" in json.loads(positions(5, 4).to_json())["$schema"]


def test_the_figure_of_capacity_is_of_three_classes_or_more_and_shows_the_last_layer_with_both_bounds(
    pure: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [Example("the soup was cold", "negative"), Example("we loved it", "positive")]
    measure(pure, texts, ["capacity"], out=tmp_path / "two")
    assert main(["figure", "capacity", str(tmp_path / "two"), "-o", str(tmp_path / "capacity.json")]) == 2
    assert "there is nothing to draw capacity from" in capsys.readouterr().err
    texts = [*texts, Example("the bill was high", "dear")]
    module = tiny("bert")
    module.config.id2label = {0: "negative", 1: "positive", 2: "dear"}
    measure(load_model(module, build_tokenizer(example.text for example in texts)), texts, ["capacity"], out=tmp_path / "out")
    assert main(["figure", "capacity", str(tmp_path / "out"), "-o", str(tmp_path / "capacity.json")]) == 0
    spec = json.loads((tmp_path / "capacity.json").read_text(encoding="utf-8"))
    assert [layer["encoding"]["y"]["field"] for layer in spec["layer"]] == ["value", "simplex", "random", "value"]
    (rows,) = spec["datasets"].values()
    assert {row["layer"] for row in rows} == {3}
    assert {row["classes"]: row["simplex"] for row in rows} == {2: -1.0, 3: -0.5}
    assert "bound" in json.dumps(spec["layer"][1]["encoding"]["strokeDash"])


def test_a_figure_of_capacity_without_a_folder_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "capacity", "-o", str(tmp_path / "c.svg")]) == 2
    assert "a figure of capacity needs a folder; give one written by conoscope measure -o" in capsys.readouterr().err


def test_figures_stand_in_the_order_of_reading_question_by_question() -> None:
    assert list(FIGURES) == list(ORDER)
    questions = list(dict.fromkeys(figure.question for figure in FIGURES.values()))
    assert questions == list(QUESTIONS)
    asked = [list(QUESTIONS).index(figure.question) for figure in FIGURES.values()]
    assert asked == sorted(asked)


def test_the_list_of_figures_is_in_that_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "figures"]) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert listed == [*ORDER, "positions"]
