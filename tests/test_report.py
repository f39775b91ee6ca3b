"""The report as text: whole, safe, small, and a function of what was measured."""

import base64
import hashlib
import io
import json
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pytest

from conoscope.capture.loading import LoadedModel
from conoscope.common.errors import OutputError
from conoscope.common.terminal import printable
from conoscope.corpora import Example
from conoscope.figures import FIGURES, svg
from conoscope.figures.embedding import slim
from conoscope.measures import CATALOGUE
from conoscope.measures.questions import MEASURES
from conoscope.measuring.pipeline import Options, measure
from conoscope.reporting import report
from conoscope.reporting.findings import Finding
from conoscope.reporting.gathering import JoinedTables, Run
from conoscope.reporting.page import page
from conoscope.reporting.sorting import SHOWN, held_rows, in_order
from conoscope.reporting.tables import ALTOGETHER, LARGEST, data_url, decimals, number
from reports import HOSTILE, Page, clipped, run, sim, words

TEXTS = [
    Example("the soup was cold", "negative"),
    Example("we loved it all", "positive"),
    Example("a dull and slow evening", "negative"),
    Example("great wine", "positive"),
]


def written(runs: Sequence[Run], findings: Sequence[Finding] = (), title: str | None = None) -> str:
    return page(runs, JoinedTables(runs), findings, title)


def table_of(address: str | None) -> pd.DataFrame:
    """The table that a link downloads."""
    head, _, body = (address or "").partition(",")
    assert head == "data:text/csv;charset=utf-8"
    return pd.read_csv(io.StringIO(unquote(body)), keep_default_na=False, na_values={"value": [""]}, engine="python")


@pytest.fixture(scope="module")
def whole() -> str:
    """The page of two runs with hostile texts and names, with every finding there can be."""
    runs = [run("one", sim=sim(), **{"self_sim.words": words()}), run(HOSTILE[0], sim=sim(4))]
    return written(runs, [Finding(f"Number {HOSTILE[1]} is 0.5.", "sim"), Finding("Nothing shows it.", "nowhere")])


def test_every_element_is_closed_and_every_id_is_there_once(whole: str) -> None:
    parsed = Page(whole)
    assert set(parsed.ids.values()) == {1}
    links = {found["href"] for found in parsed.all("a")} - {None}
    assert {link[1:] for link in links if link and link.startswith("#")} <= set(parsed.ids)


def test_only_scripts_whose_hash_the_policy_names_can_run(whole: str) -> None:
    parsed = Page(whole)
    policy = parsed.all("meta", http_equiv="Content-Security-Policy")[0]["content"] or ""
    assert "unsafe-eval" not in policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    kinds = [found.get("type") for found in parsed.all("script")]
    running = [text for text, kind in zip(parsed.texts["script"], kinds, strict=True) if kind is None]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in running]
    assert [f"'sha256-{digest}'" for digest in digests] == re.findall(r"'sha256-[^']+'", policy)
    assert len(running) == 2


def test_nothing_in_the_page_is_fetched(whole: str) -> None:
    parsed = Page(whole)
    places = [value for _, found in parsed.elements for name, value in found.items() if name in ("src", "href", "xlink:href")]
    assert all(place and place.startswith(("#", "data:")) for place in places)


def test_hostile_texts_are_shown_as_texts(whole: str) -> None:
    parsed = Page(whole)
    shown = [text for kind in ("td", "bdi") for text in parsed.texts[kind]]
    for text in HOSTILE:
        cut = text if len(text) <= 80 else f"{text[:79]}…"
        assert printable(cut) in shown or not text
    assert "(empty)" in parsed.texts["span"]
    assert not parsed.all("img")
    assert "x" * 100 not in whole.replace("x" * 10_000, "")


def test_data_of_charts_cannot_end_their_script(whole: str) -> None:
    parsed = Page(whole)
    kinds = [found.get("type") for found in parsed.all("script")]
    specs = [json.loads(text) for text, kind in zip(parsed.texts["script"], kinds, strict=True) if kind == "application/json"]
    rows = [row for spec in specs for data in spec["datasets"].values() for row in data]
    assert HOSTILE[0] in {value for row in rows for value in row.values()}


def test_a_download_is_the_whole_table_and_no_formula() -> None:
    parsed = Page(written([run(**{"self_sim.words": words(), "sim": sim()})]))
    address = {found["download"]: found["href"] for found in parsed.all("a") if "download" in found}
    assert set(address) == {"sim.csv", "self_sim.words.csv"}
    found = table_of(address["self_sim.words.csv"])
    guarded = [f"'{text}" if text[:1] in ("=", "-", "@") else text for text in HOSTILE]
    assert found["word"].tolist() == guarded
    assert found["value"].tolist() == words()["value"].tolist()
    assert table_of(address["sim.csv"])["value"].tolist() == sim()["value"].tolist()


def test_negative_numbers_stay_numbers_in_a_download() -> None:
    frame = pd.DataFrame({"value": [-0.123456789012345, 1e-300, float("nan")], "word": ["-1", "+a", "b"]})
    assert table_of(data_url(frame))["value"].tolist()[:2] == [-0.123456789012345, 1e-300]
    assert unquote(data_url(frame)).splitlines()[1] == "-0.123456789012345,'-1"


def test_a_large_table_is_cut_and_says_so_and_where_the_whole_is() -> None:
    large = pd.concat([sim(1000)] * 5, ignore_index=True)
    kept = Run("m", "out/m", {}, {"sim:mask=real": large, "sim": sim(60)})
    text = written([kept])
    parsed = Page(text)
    assert "sim, the first 100 of 120 rows; sorting sorts all of them" in parsed.texts["caption"]
    assert [found["download"] for found in parsed.all("a") if "download" in found] == ["sim.csv"]
    assert "This table is too large for the page; the whole of it is in <code>out/m/sim-mask-real.csv</code>." in text
    assert len(parsed.all("tr")) == 2 * (SHOWN + 1)


def test_a_cut_table_shows_rows_of_every_run() -> None:
    parsed = Page(written([run("one", sim=sim(60)), run("two", sim=sim(70))]))
    assert "sim, the first 50 rows of each run, of 260 in all; sorting sorts all of them" in parsed.texts["caption"]
    assert parsed.texts["td"].count("one") == parsed.texts["td"].count("two") == 50 + 1


def test_a_large_table_of_a_result_that_was_not_saved_says_so() -> None:
    assert "save the result to have it as a file" in written([run(sim=pd.concat([sim(1000)] * 5))])


def test_texts_are_sorted_as_people_read_them() -> None:
    texts = ["layer 10", "Zebra", "layer 9", "café", "cafe b", "", "²"]
    assert sorted(texts, key=in_order) == ["", "²", "café", "cafe b", "layer 9", "layer 10", "Zebra"]


def test_what_a_page_holds_for_sorting_is_bounded_and_has_the_first_rows_by_every_column() -> None:
    shuffled = [(place * 7919) % 50_000 for place in range(50_000)]
    frame = pd.DataFrame({"word": [f"word {number}" for number in shuffled], "value": [number / 7 for number in shuffled]})
    frame.loc[::3, "value"] = float("nan")
    packed = held_rows(dict(frame.items()), {"value": 3})
    assert len(packed) < 10_000
    found = json.loads(zlib.decompress(base64.b64decode(packed), -15))
    words, values = found["columns"]
    assert not found["whole"]
    rows = list(zip([words["words"][at] for at in words["at"]], values["values"], strict=True))
    assert len(rows) <= 2 * SHOWN * 2
    for ascending in (True, False):
        for column, place in (("value", 1), ("word", 0)):
            key = None if column == "value" else lambda texts: texts.str.removeprefix("word ").astype(int)
            wanted = frame.sort_values(column, ascending=ascending, kind="stable", key=key)[column][:SHOWN]
            there = {row[place] for row in rows}
            assert {round(value, 6) if column == "value" else value for value in wanted} <= there


def test_the_page_of_many_large_tables_is_small() -> None:
    rows = pd.DataFrame({f"column_{place}": [0.123456789012345 * row for row in range(600)] for place in range(12)})
    text = written([run(**{f"table_{place}": rows for place in range(40)})])
    held = [len(found["href"] or "") for found in Page(text).all("a") if "download" in found]
    assert sum(held) <= ALTOGETHER < sum(held) + LARGEST
    assert len(text.encode()) < 3_000_000


def test_a_page_of_one_run_says_what_was_measured(pure: LoadedModel, tmp_path: Path) -> None:
    result = measure(pure, TEXTS, ["sim", "capacity", "directionality"], out=tmp_path / "out")
    text = report(tmp_path / "out", tmp_path / "report.html").read_text(encoding="utf-8")
    parsed = Page(text)
    assert "3 × 2" in parsed.texts["bdi"]
    assert "negative, positive" in parsed.texts["dd"]
    assert "Corpus" in parsed.texts["dt"]
    drawn = {(found["id"] or "").removeprefix("figure-") for found in parsed.all("figure")}
    assert "sim" in drawn
    assert {need for name in drawn for need in FIGURES[name].needs} <= {"sim", "capacity", "directionality"}
    assert report([result], tmp_path / "again.html").stat().st_size > 0
    assert sorted(path.name for path in tmp_path.glob("*.html*")) == ["again.html", "report.html"]


def test_the_page_is_a_function_of_what_was_measured() -> None:
    runs = [run(sim=sim())]
    assert written(runs) == written(runs)


def test_a_page_of_several_runs_has_a_table_of_them(whole: str) -> None:
    parsed = Page(whole)
    assert parsed.texts["title"] == ["Self-attention, 2 runs side by side"]
    assert "What was measured" in parsed.texts["caption"]
    assert {"one", HOSTILE[0]} <= set(parsed.texts["td"])


def test_findings_link_to_figures_that_are_there(whole: str) -> None:
    parsed = Page(whole)
    assert "Two things worth knowing" in parsed.texts["h2"]
    assert [found["href"] for found in parsed.all("a", href="#figure-sim")] == ["#figure-sim"]
    assert "Number <img src=x onerror=alert(1)> is 0.5. " in parsed.texts["p"]
    assert "Nothing shows it." in parsed.texts["p"]


def test_without_findings_there_is_no_word_of_them() -> None:
    assert "worth knowing" not in written([run(sim=sim())])


def test_a_page_without_any_figure_has_its_tables() -> None:
    parsed = Page(written([run(unheard_of=words())]))
    assert parsed.all("figure") == []
    assert parsed.texts["h3"] == ["a model", "This page", "Other tables"]
    assert len(parsed.texts["script"]) == 1


def test_a_page_of_texts_without_labels_and_of_weights_alone(pure: LoadedModel, tmp_path: Path) -> None:
    unlabelled = measure(pure, TEXTS, ["sim"], Options(labels=False))
    weights = measure(pure, None, ["directionality"])
    parsed = Page(report(unlabelled, tmp_path / "unlabelled.html").read_text(encoding="utf-8"))
    assert {FIGURES[(found["id"] or "").removeprefix("figure-")].needs for found in parsed.all("figure")} == {("sim",)}
    parsed = Page(report(weights, tmp_path / "weights.html").read_text(encoding="utf-8"))
    assert "none, the weights alone" in parsed.texts["dd"]
    assert "Texts" not in parsed.texts["dt"][:5]


def test_a_part_of_a_corpus_is_told_first(pure: LoadedModel, tmp_path: Path) -> None:
    part = measure(pure, TEXTS, ["sim"], Options(shard=(1, 2)))
    text = report(part, tmp_path / "part.html", title="A <part>").read_text(encoding="utf-8")
    assert "was measured on a part of its corpus; shards 2/2 are missing." in text
    assert "(missing: 2/2)" in text
    assert Page(text).texts["h1"] == ["A <part>"]


def test_how_it_was_made_tells_cut_texts_gaps_and_notes() -> None:
    made = run(sim=sim())
    made = Run(made.name, "", {**made.provenance, "gaps": ["the site key of layer 2"], "notes": ["keys <turn>"]}, made.tables)
    parsed = Page(written([made]))
    assert "1,200 texts were read. 7 of them were longer than 16 tokens and were cut. " in parsed.texts["dd"]
    assert {"the site key of layer 2", "keys <turn>"} <= set(parsed.texts["p"])


def test_every_measure_has_a_question() -> None:
    assert set(CATALOGUE) <= {measure for measures in MEASURES.values() for measure in measures}


def test_drawings_of_a_page_share_no_name_and_find_their_own() -> None:
    plain = svg(clipped(1).draw(JoinedTables([run(sim=sim())])))
    assert re.search(r'id="', plain)
    names = []
    for prefix in ("one-", "two-"):
        slimmed = slim(plain, prefix)
        ids = re.findall(r' id="([^"]+)"', slimmed)
        assert set(re.findall(r"url\(#([^)]+)\)", slimmed)) == set(ids)
        names += ids
        assert len(slimmed) < 0.8 * len(plain)
    assert len(names) == len(set(names))


def test_texts_in_a_drawing_are_left_as_they_are() -> None:
    hostile = 'a > b id="clip1" url(#clip1) 0.123456 aria-label="x" </text>'
    tables = JoinedTables([run(hostile, sim=sim()), run("b", sim=sim())])
    texts = Page(slim(svg(FIGURES["sim"].draw(tables)), "sim-")).texts["text"]
    assert any(text.startswith(hostile[:20]) for text in texts)


def test_numbers_have_the_digits_that_a_reader_needs() -> None:
    assert [decimals([size], "f") for size in (0.5, 5.5, 555.5, 5555.5, 5.0)] == [4, 3, 2, 1, 0]
    assert decimals([5.0], "i") == decimals([], "f") == decimals([float("inf")], "f") == 0
    assert [number(value, 4) for value in (0.98123, -0.5, 1e-17, 0.0, float("inf"))] == [
        "0.9812",
        "-0.5000",
        "1e-17",
        "0.0000",
        "Infinity",
    ]


def test_a_page_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    result = tmp_path / "words.jsonl"
    result.write_text(
        '{"id": "1", "label": null, "predicted": "yes", "words": ["a"], "maps": {"attention": [1.0]}}\n', encoding="utf-8"
    )
    with pytest.raises(OutputError, match=r"no report can be written as 'page\.pdf'; give an ending of \.htm, \.html"):
        report(result, tmp_path / "page.pdf")
    with pytest.raises(OutputError, match=r"cannot write .*nowhere.page\.html: No such file or directory; give -o another file"):
        report(result, tmp_path / "nowhere" / "page.html")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(OutputError, match=r"cannot write .*folder\.html"):
        report(result, tmp_path / "folder.html")
    with pytest.raises(OutputError, match="a report needs something to report on"):
        report([], tmp_path / "page.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.html", "words.jsonl"]


def test_a_page_that_was_there_stays_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "words.jsonl", tmp_path / "page.html"
    source.write_text(
        '{"id": "1", "label": null, "predicted": "yes", "words": ["a"], "maps": {"attention": [1.0]}}\n', encoding="utf-8"
    )
    report(source, target)
    before = target.read_text(encoding="utf-8")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        report(source, target)
    assert target.read_text(encoding="utf-8") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "words.jsonl"]
