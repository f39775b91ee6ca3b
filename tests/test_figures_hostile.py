"""Every figure, of names that no chart expects."""

import json
import re
from typing import Any

import altair as alt
import pandas as pd
import pytest

from conoscope.capture.loading import LoadedModel
from conoscope.figures import FIGURES, spec, svg
from conoscope.figures.marks import AXIS, columns_of, cut, shown
from conoscope.figures.theme import PALETTE
from conoscope.figures.words import HUMAN
from drawings import WIDEST, channels, every_table, of_runs, spec_of, width_of

NAMES = {
    "long": "x" * 10_000,
    "emoji": "😀" * 60,
    "emoji at odd places": "x" + "😀" * 60,
    "families": "👨\u200d👩\u200d👧" * 20,
    "accents": "e" + "\u0301" * 500,
    "half an emoji": "\ud83d",
    "right to left": "\u202egnirts\u202c שלום </script><b>",
    "steering": "a\nb\x1b[31m\x00",
    "spaces": " " * 200,
    "empty": "",
}
TOLD = {"class": "class", "gold": "class", "predicted": "class", "other_class": "class", "kind": "kind", "example": "example"}
"""Columns whose texts are a user's, and those that share their names."""
STUDIED = ("study.published", "study.cones", "study.claims")
WRITTEN = ("plausibility", "faithfulness", "explanations", "attribution.words")
"""Tables whose maps and words are a user's too."""


@pytest.fixture(scope="module")
def tables(pure: LoadedModel) -> dict[str, pd.DataFrame]:
    """A table for every figure."""
    return every_table(pure)


def named(tables: dict[str, pd.DataFrame], text: str, runs: int, *others: str) -> dict[str, pd.DataFrame]:
    """The same tables of so many runs, every name a user's: that text and two others, or alike but for their ends."""
    names = [text, *others] if others else [text + ending for ending in ("", "2", "3")]
    said: dict[str, dict[Any, str]] = {}
    found = {}
    for name, frame in tables.items():
        more = ("map", "word", "label") if name in WRITTEN else ("what", "corpus", "case", "condition") if name in STUDIED else ()
        for column in [column for column in (*TOLD, *more) if column in frame]:
            taken = said.setdefault(TOLD.get(column, column), {"all": "all", "random": "random", HUMAN: HUMAN})
            for value in frame[column].unique():
                taken.setdefault(value, names[len(taken) % 3])
            frame = frame.assign(**{column: frame[column].map(taken)})
        found[name] = of_runs(frame, *names[:runs])
    trained = {"entropy_penalty": [0.0, 0.1, 0.1][:runs], "preset": names[:runs], "corpus": text}
    return {**found, "runs": pd.DataFrame({"run": names[:runs], **trained})}


# Half an emoji is in no table: pandas holds none. What else is left out differs from these for the cut alone.
@pytest.fixture(scope="module", params=["long", "emoji at odd places", "right to left", "empty"])
def hostile(request: pytest.FixtureRequest, tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Those tables of three runs, under names of one kind."""
    return named(tables, NAMES[request.param], 3)


def texts_in(picture: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_of_names_of_any_kind(name: str, hostile: dict[str, pd.DataFrame]) -> None:
    chart = FIGURES[name].draw(hostile)
    assert chart is not None
    picture = svg(chart)
    assert width_of(picture) <= WIDEST
    assert "</script>" not in picture
    assert all(columns_of(drawn) <= 140 and drawn.isprintable() for drawn in texts_in(picture))
    # Of a limit Vega makes a cut between the halves of an emoji.
    assert not re.search(r'imit": [1-9]', json.dumps(spec(chart)).replace('"symbolLimit"', ""))


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "penalty-sweep"])
def test_every_figure_is_drawn_of_one_run_with_any_name(name: str, tables: dict[str, pd.DataFrame]) -> None:
    assert width_of(svg(FIGURES[name].draw(named(tables, "x" + "😀" * 60, 1)))) <= WIDEST


@pytest.mark.parametrize("name", FIGURES)
def test_every_chart_is_valid_vega_lite_and_checking_it_changes_nothing(name: str, tables: dict[str, pd.DataFrame]) -> None:
    chart = FIGURES[name].draw(named(tables, "first", 2, "second", "third"))
    with alt.data_transformers.disable_max_rows():
        assert chart.to_dict(validate=True) == spec(chart)


BY_RUN = (
    "sim", "cone-index", "effective-rank", "word-cones", "capacity", "entropy", "weights-and-norms", "cancel-out", "mixing",
    "mixing-by-kind", "frequency", "layer-turns", "kurtosis", "plausibility", "faithfulness",
)  # fmt: skip
"""Figures whose colours tell runs apart."""


@pytest.mark.parametrize("name", BY_RUN)
def test_a_run_has_the_colour_of_its_place_among_all_runs(name: str, tables: dict[str, pd.DataFrame]) -> None:
    runs = ["first run", "second run", "third run"]
    every = {table: of_runs(frame, *runs[:0:-1]) for table, frame in tables.items()}
    found = list(channels(spec_of(name, {**every, "runs": pd.DataFrame({"run": runs})}), "color"))
    assert found
    for scale in (channel["scale"] for channel in found):
        assert dict(zip(scale["domain"], scale["range"], strict=True)) == dict(zip(runs[1:], PALETTE[1:3], strict=True))


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
