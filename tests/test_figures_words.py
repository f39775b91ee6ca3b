"""Figures of words: texts under maps, and maps that were judged."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from conoscope.cli import main
from conoscope.corpora import load_corpus
from conoscope.explaining import explain, write_explanations
from conoscope.figures import FIGURES, svg
from conoscope.figures.marks import columns_of, cut
from conoscope.figures.typesetting import LINE, WORD, laid_out
from conoscope.figures.words import CELLS, EXAMPLES, LONGEST
from conoscope.gathering import gather, together
from conoscope.loading import LoadedModel
from drawings import BUDGET, channels, of_runs, rows, size, spec_of

HOSTILE = ["</script>", "\u202eevil", "x" * 10_000, "", "漢字", "😀", "a\nb", "{{x}}", "\x00", "e" + "\u0301" * 500]
Scores = Sequence[float | None]


def explained(words: Sequence[str], maps: Mapping[str, Scores], example: str = "one") -> pd.DataFrame:
    each = [(place, word, name, scores[place]) for name, scores in maps.items() for place, word in enumerate(words)]
    frame = pd.DataFrame(each, columns=["place", "word", "map", "value"])
    return frame.assign(example=example, label="positive", predicted="negative")


def texts(count: int, words: int, maps: Sequence[str] = ("attention",)) -> pd.DataFrame:
    each = [f"word{number}" for number in range(words)]
    scores = [number / words for number in range(words)]
    return pd.concat([explained(each, dict.fromkeys(maps, scores), f"text {number}") for number in range(count)])


def parts(frame: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """What is drawn: the words with their cells, headings and notes."""
    found = list(spec_of("words", {"explanations": frame})["datasets"].values())
    cells = [row for table in found for row in table if "word" in row]
    notes = [row["text"] for table in found for row in table if "text" in row]
    return {"cells": cells, "notes": notes}


def test_a_score_is_coloured_as_a_part_of_the_largest_of_its_map_in_its_text() -> None:
    frame = explained(
        ["good", "soup", "not"], {"attention": [0.1, 0.4, 0.0], "gradient": [1.0, -4.0, 2.0], "flat": [0.0, 0.0, 0.0]}
    )
    found = {(cell["map"], cell["word"]): (cell["score"], cell["part"]) for cell in parts(frame)["cells"]}
    assert found["attention", "good"] == (0.1, 0.25)
    assert found["attention", "soup"] == (0.4, 1)
    assert found["gradient", "soup"] == (-4, -1)
    assert found["gradient", "not"] == (2, 0.5)
    assert found["flat", "soup"] == (0, 0)


@pytest.mark.parametrize(("scores", "domain"), [((0.1, 0.2), [0, 1]), ((0.1, -0.2), [-1, 1])])
def test_colours_go_below_zero_only_where_scores_do(scores: Scores, domain: list[int]) -> None:
    found = spec_of("words", {"explanations": explained(["a", "b"], {"map": scores})})
    assert [channel["scale"]["domain"] for channel in channels(found, "color") if "scale" in channel] == [domain]


def test_what_people_marked_has_a_colour_of_its_own() -> None:
    cells = parts(explained(["a", "b"], {"attention": [1, 2], "human": [0, 1]}))["cells"]
    assert [(cell["map"], cell["part"], cell["by"]) for cell in cells] == [
        ("attention", 0.5, ""), ("attention", 1, ""), ("marked by people", 0, "human"), ("marked by people", 1, "human")
    ]  # fmt: skip
    picture = svg(FIGURES["words"].draw({"explanations": explained(["a", "b"], {"human": [0, 1]})}))
    assert picture.count('fill="#8fd0bb"') == 1


@pytest.mark.parametrize(("marker", "note", "said"), [
    ("human", "people", "Green is what people marked."),
    ("grammar", "the grammar", "by the grammar that the corpus was made with"),
])  # fmt: skip
def test_who_marked_the_words_is_said_beside_them_and_in_the_caption(marker: str, note: str, said: str) -> None:
    frame = explained(["a", "b"], {"attention": [1, 2], marker: [0, 1]})
    assert note in parts(frame)["notes"]
    caption = FIGURES["words"].caption_of(spec_of("words", {"explanations": frame}))
    assert said in caption
    assert "Blue" not in caption
    assert "faint" not in caption
    alone = spec_of("words", {"explanations": explained(["a"], {"attention": [-1.0]})})
    assert "Green" not in FIGURES["words"].caption_of(alone)
    assert "Blue words" in FIGURES["words"].caption_of(alone)


def test_words_of_a_generated_corpus_are_marked_by_its_grammar(pure: LoadedModel, tmp_path: Path) -> None:
    write_explanations(explain(pure, load_corpus("bistro:test").first(2), ["random"]), tmp_path / "words.jsonl")
    found = together(gather([tmp_path / "words.jsonl"]))["explanations"]
    assert set(found["map"]) == {"random", "grammar"}


def test_words_without_a_score_are_there_and_grey() -> None:
    frame = explained(["a", "b", "c"], {"map": [0.5, None, float("inf")]})
    assert [(cell["word"], cell["score"], cell["part"]) for cell in parts(frame)["cells"]] == [
        ("a", 0.5, 1), ("b", None, 0), ("c", None, 0)
    ]  # fmt: skip
    assert svg(FIGURES["words"].draw({"explanations": frame})).count('opacity="0.5"') == 2


def test_the_text_stands_under_its_title_once_for_each_map() -> None:
    found = parts(texts(2, 3, ("attention", "norms")))
    assert [cell["word"] for cell in found["cells"]] == ["word0", "word1", "word2"] * 4
    assert set(found["notes"]) == {
        "text 0 · label positive · predicted negative", "text 1 · label positive · predicted negative", "attention", "norms"
    }  # fmt: skip
    lines = sorted({(cell["row"], cell["map"]) for cell in found["cells"]})
    assert [name for _, name in lines] == ["attention", "norms"] * 2


def test_no_two_words_share_a_place() -> None:
    cells = sorted((cell["row"], cell["x"], cell["end"]) for cell in parts(texts(2, 90, ("attention", "norms")))["cells"])
    for (row, _, end), (next_row, start, _) in pairwise(cells):
        assert row != next_row or end < start


@pytest.mark.parametrize("count", [1, 2, 100])
def test_lines_are_no_longer_than_they_may_be_and_no_word_is_lost(count: int) -> None:
    words = [cut("wörter 漢字 x" * (number % 5), WORD) for number in range(count)]
    places = list(laid_out(words))
    assert len(places) == count
    assert all(
        last <= LINE and last - first == max(1, columns_of(word)) for (_, first, last), word in zip(places, words, strict=True)
    )
    lines = [line for line, _, _ in places]
    assert lines == sorted(lines)
    assert {*lines} == set(range(lines[-1] + 1))


def test_wide_characters_take_two_columns_and_long_words_are_cut() -> None:
    assert (columns_of("soup"), columns_of("漢字"), columns_of("😀!")) == (4, 4, 3)
    for text in HOSTILE:
        assert columns_of(cut(text, WORD)) <= WORD
        assert cut(text, WORD).isprintable()
    assert cut("x" * 25, WORD) == "x" * 23 + "…"
    assert cut("x" * 24, WORD) == "x" * 24
    assert cut("漢" * 13, WORD) == "漢" * 11 + "…"


def test_a_long_text_is_cut_and_says_by_how_much() -> None:
    found = parts(texts(1, LONGEST + 7))
    assert len(found["cells"]) == LONGEST
    assert "… 7 more words" in found["notes"]
    assert "… 1 more word" in parts(texts(1, LONGEST + 1))["notes"]
    assert not any("more word" in note for note in parts(texts(1, LONGEST))["notes"])


@pytest.mark.parametrize(("count", "words", "maps", "runs"), [(20, 5, 2, 1), (20, 100, 4, 1), (3, 500, 12, 1), (20, 200, 4, 6)])
def test_however_many_texts_maps_and_runs_there_are_they_fit_on_a_page(count: int, words: int, maps: int, runs: int) -> None:
    frame = of_runs(texts(count, words, [f"map{number}" for number in range(maps)]), *(f"run {number}" for number in range(runs)))
    found = parts(frame)
    assert 0 < len(found["cells"]) <= CELLS
    assert len({cell["map"] for cell in found["cells"]}) == maps
    titles = [note for note in found["notes"] if note.startswith("text")]
    assert len(titles) <= EXAMPLES * runs
    assert len(titles) % runs == 0
    assert size("words", {"explanations": frame}) < BUDGET


def test_hostile_words_and_names_are_drawn() -> None:
    frame = explained(HOSTILE, {"</script>" * 50: [1.0] * len(HOSTILE), "human": [1.0] * len(HOSTILE)}, "\u202e" + "x" * 10_000)
    frame = of_runs(frame.assign(label=HOSTILE[2], predicted=None), "</script>", "\u202e")
    found = parts(frame)
    assert len(found["cells"]) == 4 * len(HOSTILE)
    assert all(text.isprintable() for text in (*found["notes"], *(cell["word"] for cell in found["cells"])))
    assert "</script>" not in svg(FIGURES["words"].draw({"explanations": frame}))


def test_no_explanations_are_no_figure() -> None:
    assert FIGURES["words"].draw({"explanations": texts(1, 1).iloc[:0]}) is None


def test_a_file_of_explanations_is_drawn_as_it_was_written(tmp_path: Path) -> None:
    record = {"id": "1", "words": ["good", "soup"], "label": None, "predicted": "positive", "rationale": [True, False]}
    (tmp_path / "scores.jsonl").write_text(json.dumps({**record, "maps": {"gradient": [2.0, None]}}), encoding="utf-8")
    found = spec_of("words", together(gather([tmp_path / "scores.jsonl"])))
    cells = next(table for table in found["datasets"].values() if "word" in table[0])
    assert [(cell["word"], cell["map"], cell["score"]) for cell in cells] == [
        ("good", "gradient", 2), ("soup", "gradient", None), ("good", "marked by people", 1), ("soup", "marked by people", 0)
    ]  # fmt: skip
    assert [row["text"] for table in found["datasets"].values() for row in table if row.get("text", "").startswith("1")] == [
        "1 · predicted positive"
    ]


def judged(metrics: Sequence[str], averages: Sequence[str], maps: Sequence[str] = ("random", "attention")) -> pd.DataFrame:
    each = [(name, metric, average) for name in maps for average in averages for metric in metrics]
    frame = pd.DataFrame(each, columns=["map", "metric", "average"])
    return frame.assign(value=0.5, low=0.25, high=0.625, n=10, undefined=0)


PLAUSIBLE = judged(("auroc", "auprc", "recall"), ("micro", "macro"))
FAITHFUL = judged(("comprehensiveness", "sufficiency"), ("macro",))
JUDGED = {"plausibility": PLAUSIBLE, "faithfulness": FAITHFUL}


@pytest.mark.parametrize("name", JUDGED)
def test_judged_maps_have_their_interval_and_the_random_map_is_the_last(name: str) -> None:
    found = rows(name, {name: JUDGED[name]})
    assert {(row["value"], row["low"], row["high"]) for row in found} == {(0.5, 0.25, 0.625)}
    assert [row["map"] for row in found if row["panel"] == found[0]["panel"]] == ["attention", "random"]
    assert {row["map"] for row in found if row["chance"]} == {"random"}
    bars = [layer for layer in spec_of(name, {name: JUDGED[name]})["spec"]["layer"] if "x2" in layer["encoding"]]
    assert [(bar["encoding"]["x"]["field"], bar["encoding"]["x2"]["field"]) for bar in bars] == [("low", "high")]


def test_panels_are_the_main_metrics_and_averages_are_named_where_there_are_two() -> None:
    assert list(dict.fromkeys(row["panel"] for row in rows("plausibility", {"plausibility": PLAUSIBLE}))) == [
        "AUROC, all words together", "AUPRC, all words together", "AUROC, mean over sentences", "AUPRC, mean over sentences"
    ]  # fmt: skip
    assert {row["panel"] for row in rows("faithfulness", {"faithfulness": FAITHFUL})} == {"comprehensiveness", "sufficiency"}


@pytest.mark.parametrize("name", JUDGED)
def test_judged_maps_of_several_runs_stand_under_each_other(name: str) -> None:
    found = spec_of(name, {name: of_runs(JUDGED[name], "one", "</script>")})
    assert {channel["field"] for channel in channels(found, "yOffset")} == {"run"}
    assert not list(channels(spec_of(name, {name: JUDGED[name]}), "yOffset"))
    assert size(name, {name: of_runs(JUDGED[name], *"abcdef")}) < BUDGET


@pytest.mark.parametrize("name", JUDGED)
def test_judged_maps_without_intervals_or_with_hostile_names_are_drawn_and_none_without_rows(name: str) -> None:
    frame = JUDGED[name].assign(low=None, high=None)
    frame = frame.assign(map=frame["map"].replace("attention", "</script>\u202e" + "x" * 10_000))
    assert "</script>" not in svg(FIGURES[name].draw({name: frame}))
    assert FIGURES[name].draw({name: frame.iloc[:0]}) is None
    assert FIGURES[name].draw({name: frame.assign(value=None)}) is None


def test_a_page_of_words_alone_holds_a_drawing_for_narrow_pages_as_the_report_does(tmp_path: Path) -> None:
    record = {"id": "one", "words": ["good", "soup"], "label": "positive", "rationale": None, "predicted": "positive"}
    source = tmp_path / "words.jsonl"
    source.write_text(json.dumps({**record, "maps": {"attention": [0.7, 0.3]}}) + "\n", encoding="utf-8")
    for name, expected in (("words.html", 1), ("words.json", 0)):
        assert main(["figure", "words", str(source), "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text(encoding="utf-8").count('data-narrow="figure-chart"') == expected
