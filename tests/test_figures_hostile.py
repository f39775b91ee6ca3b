"""Every figure, of names that no chart expects."""

import json
import re
from typing import Any

import pandas as pd
import pytest

from conoscope.corpora import load_corpus
from conoscope.figures import FIGURES, spec, svg
from conoscope.figures.marks import AXIS, columns_of, cut, shown
from conoscope.figures.theme import PALETTE
from conoscope.figures.words import HUMAN
from conoscope.loading import LoadedModel
from conoscope.pipeline import measure
from drawings import WIDEST, of_runs, width_of

NAMES = {
    "long": "x" * 10_000,
    "wide": "W" * 200,
    "emoji": "😀" * 60,
    "emoji at odd places": "x" + "😀" * 60,
    "families": "👨\u200d👩\u200d👧" * 20,
    "accents": "e" + "\u0301" * 500,
    "half an emoji": "\ud83d",
    "an end of a script": "</script><b>",
    "right to left": "\u202egnirts\u202c שלום",
    "steering": "a\nb\x1b[31m\x00",
    "spaces": " " * 200,
    "empty": "",
}
TOLD = {"class": "class", "gold": "class", "predicted": "class", "other_class": "class", "kind": "kind", "example": "example"}
"""Columns whose texts are a user's, and those that share their names."""
MEASURES = [
    "attention_entropy", "capacity", "class_cones", "class_maps:heads=1.1", "cone_index", "directionality", "effective_rank",
    "frequency", "gates", "heads", "intra_sim", "mixing", "norms", "self_sim", "sim", "stream", "vector_norms",
]  # fmt: skip


@pytest.fixture(scope="module")
def tables(pure: LoadedModel) -> dict[str, pd.DataFrame]:
    """A table for every figure."""
    measured = measure(pure, load_corpus("bistro:test").first(24), MEASURES).tables
    judged = pd.DataFrame(
        {"map": ["attention", "norms", "random"], "average": "macro", "value": 0.5, "low": 0.4, "high": 0.6, "n": 9}
    )
    words = pd.DataFrame({"word": ["good", "soup"], "place": [0, 1], "value": [0.5, None], "example": "one", "label": "positive"})
    maps = pd.concat([words.assign(map=name, predicted="negative") for name in ("attention", "norms", HUMAN)])
    return {
        **measured,
        "plausibility": judged.assign(metric="auroc"),
        "faithfulness": judged.assign(metric="sufficiency"),
        "explanations": maps,
    }


def named(tables: dict[str, pd.DataFrame], text: str, runs: int) -> dict[str, pd.DataFrame]:
    """The same tables of so many runs, every name a user's, some of them alike but for their ends."""
    names = [text + ending for ending in ("", "2", "3")]
    said: dict[str, dict[Any, str]] = {}
    found = {}
    for name, frame in tables.items():
        texts = [column for column in (*TOLD, "word", "label") if column in frame]
        for column in [*texts, *(["map"] if "average" in frame or "word" in frame else [])]:
            taken = said.setdefault(TOLD.get(column, column), {"all": "all", "random": "random", HUMAN: HUMAN})
            for value in frame[column].unique():
                taken.setdefault(value, names[len(taken) % 3])
            frame = frame.assign(**{column: frame[column].map(taken)})
        found[name] = of_runs(frame, *names[:runs])
    trained = {"entropy_penalty": [0.0, 0.1, 0.1][:runs], "preset": names[:runs], "corpus": text}
    return {**found, "runs": pd.DataFrame({"run": names[:runs], **trained})}


def texts_in(picture: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture)


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_of_names_of_any_kind(name: str, text: str, tables: dict[str, pd.DataFrame]) -> None:
    chart = FIGURES[name].draw(named(tables, NAMES[text], 3))
    assert chart is not None
    picture = svg(chart)
    assert width_of(picture) <= (WIDEST if text != "wide" else 2 * WIDEST)
    assert "</script>" not in picture
    assert all(columns_of(drawn) <= 140 and drawn.isprintable() for drawn in texts_in(picture))
    # Of a limit Vega makes a cut between the halves of an emoji.
    assert not re.search(r'imit": [1-9]', json.dumps(spec(chart)).replace('"symbolLimit"', ""))


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "penalty-sweep"])
def test_every_figure_is_drawn_of_one_run_with_any_name(name: str, tables: dict[str, pd.DataFrame]) -> None:
    for text in ("x" * 10_000, "😀" * 60, ""):
        assert width_of(svg(FIGURES[name].draw(named(tables, text, 1)))) <= WIDEST


@pytest.mark.parametrize("name", FIGURES)
def test_a_run_has_the_colour_of_its_place_among_all_runs(name: str, tables: dict[str, pd.DataFrame]) -> None:
    runs = ["first run", "second run", "third run"]
    every = {table: of_runs(frame, *runs[1:]) for table, frame in tables.items()}
    every["runs"] = pd.DataFrame({"run": runs, "entropy_penalty": [0.0, 0.1, 0.2]})
    for scale in scales(spec(FIGURES[name].draw(every))):
        assert dict(zip(scale["domain"], scale["range"], strict=True)) == dict(zip(runs[1:], PALETTE[1:3], strict=True))


def scales(found: Any) -> list[dict[str, Any]]:
    """The scales of colours that tell runs apart, however deep."""
    inner = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    own = found.get("color", {}).get("scale", {}) if isinstance(found, dict) and "color" in found else {}
    mine = [own] if isinstance(own, dict) and "second run" in own.get("domain", ()) else []
    return [*mine, *(scale for child in inner for scale in scales(child))]


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("columns", [8, AXIS, 60])
def test_a_text_is_cut_to_its_columns_and_stays_whole(text: str, columns: int) -> None:
    short = cut(NAMES[text], columns)
    assert 0 < columns_of(short) <= columns
    assert short.isprintable()
    short.encode()


def test_no_letter_is_parted_from_its_accents() -> None:
    assert cut("cafe\u0301s", 5) == "caf…"
    assert cut("cafe\u0301s", 6) == "cafe\u0301s"
    assert cut("❤\ufe0f❤\ufe0f❤\ufe0f", 4) == "❤\ufe0f…"


def test_names_that_are_cut_alike_stay_different_within_their_columns() -> None:
    names = shown(["x" * 99 + str(number) for number in range(120)], AXIS)
    assert len(set(names.values())) == 120
    assert max(map(columns_of, names.values())) <= AXIS
