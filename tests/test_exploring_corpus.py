"""What the explorer says of results and texts: numbers are those of tables, places those of points, and what lacks is told."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import conoscope as cs
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.common.errors import ConoscopeError
from conoscope.common.sealing import read_sealed, sealed
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.exploring.corpus_list import CorpusList
from conoscope.exploring.corpus_verbs import VERBS
from conoscope.exploring.opening import Opened, OpenResult, open_paths
from conoscope.exploring.replies import Reply
from conoscope.exploring.session import Session
from conoscope.exploring.yielding import Interrupted, Turns
from conoscope.measuring.pipeline import measure
from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.results.result import Result
from conoscope.results.store import write_tables

SITES = ("hidden", "key", "value")
MEASURES = ["class_cones:vectors=all", "sim", "attention_entropy", "gates"]
PLAIN = ["value", "second", "third"]
CENTRED = ["centred", "centred_second", "centred_third"]
SINGLE = 8 * torch.finfo(torch.float32).eps
HOSTILE = [".*", "(", "[a-z]+", "\\", "%", "a{9999}", "^", "$", "?", "\0", "<script>", "'; --", "𝕏", "  "]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus.of(list(load_corpus("bistro:test").first(60)), "some")


@pytest.fixture(scope="module")
def result(pure: LoadedModel, corpus: Corpus) -> Result:
    return measure(pure, corpus, MEASURES)


@pytest.fixture(scope="module")
def session(pure: LoadedModel, corpus: Corpus, result: Result) -> Iterator[Session]:
    opened = Session(Opened((pure,), (OpenResult("some", result, 0),), corpus))
    opened.shelf.start()
    opened.shelf.filling.wait()
    yield opened
    opened.close()


def refusal(session: Session, verb: str, **params: Any) -> str:
    """The one line of the error that a request gets."""
    with pytest.raises(ConoscopeError) as caught:
        session.ask(verb, params)
    line = str(caught.value)
    assert line.count("\n") == 0
    assert len(line) > 20
    return line


def table(result: Result, name: str, **where: Any) -> pd.DataFrame:
    frame = next(result[known] for known in result if known.partition(":")[0] == name)
    for column, value in where.items():
        frame = frame[frame[column.rstrip("_")] == value]
    return frame


@pytest.mark.parametrize("centred", [False, True])
def test_cones_are_the_tables(session: Session, result: Result, centred: bool) -> None:
    reply = session.ask("cones", {"centred": centred})
    columns, classes = CENTRED if centred else PLAIN, reply.data["classes"]
    assert reply.data["sites"] == list(SITES)
    assert reply.data["n"] == [
        int((table(result, "class_cones.points", site="hidden", layer=3)["gold"] == c).sum()) for c in classes
    ]
    for site in SITES:
        for row, layer in enumerate(reply.data["layers"][site]):
            here = {"site": site, "layer": layer}
            axes = table(result, "class_cones.axes", **here).set_index("class").loc[classes, columns].to_numpy(np.float32)
            np.testing.assert_array_equal(reply.arrays[f"axis:{site}"][row], axes)
            angles = table(result, "class_cones.angles", **here).set_index("class").loc[classes]
            expected = angles["centred_q90" if centred else "q90"].to_numpy(np.float32)
            np.testing.assert_array_equal(reply.arrays[f"angle:{site}"][row], expected)
            shares = table(result, "class_cones.explained", **here)[columns[0]].to_numpy(float, na_value=np.nan)
            if len(shares):
                np.testing.assert_array_equal(reply.data["explained"][site][row], shares)
            points = table(result, "class_cones.points", **here).set_index("example")
            names = [point["id"] for point in reply.data["points"]]
            where = [name in points.index for name in names]
            at = [name for name in names if name in points.index]
            np.testing.assert_array_equal(
                reply.arrays[f"point:{site}"][row][where], points.loc[at, columns].to_numpy(np.float32, na_value=np.nan)
            )
            np.testing.assert_array_equal(
                reply.arrays[f"length:{site}"][row][where], points.loc[at, "length"].to_numpy(np.float32)
            )
            assert np.isnan(reply.arrays[f"point:{site}"][row][~np.array(where)]).all()


def classifier(pure: LoadedModel, classes: int) -> LoadedModel:
    """An untrained model with so many classes."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2}
    config = preset("pure-attention", vocab_size=len(pure.tokenizer), **sizes)
    config.id2label = {number: str(number) for number in range(classes)}
    return load_model(SelfAttentionForSequenceClassification(config).double(), pure.tokenizer)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("centred", [False, True])
def test_angles_between_classes_are_those_of_their_directions(pure: LoadedModel, centred: bool, classes: int) -> None:
    examples = [replace(e, label=str(number % classes)) for number, e in enumerate(load_corpus("bistro:test").first(30))]
    found = measure(classifier(pure, classes), Corpus.of(examples), ["class_cones"])
    asked = Session(Opened((), (OpenResult("three", found),), None))
    reply, directions = asked.ask("cones", {"centred": centred}), asked.shelf.directions(0)
    assert reply.data["classes"] == [str(number) for number in range(classes)]
    for site in SITES:
        for row, layer in enumerate(reply.data["layers"][site]):
            r = directions[site][layer].numpy()
            r = r - r.mean(0) if centred else r
            if np.linalg.norm(r, axis=-1).min() > 1e-6:
                u = r / np.linalg.norm(r, axis=-1, keepdims=True)
                # Cosines are what tables keep: angles near 0 and 180 have half as many digits.
                np.testing.assert_allclose(np.cos(np.radians(reply.data["angles"][site][row])), u @ u.T, atol=1e-9)
            else:
                assert np.isnan(reply.data["angles"][site][row]).all()


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("site", SITES)
def test_the_place_of_a_text_of_the_corpus_is_its_point(session: Session, site: str, centred: bool) -> None:
    cones = session.ask("cones", {"centred": centred})
    layers = cones.data["layers"][site]
    for at in (0, 7, 31):
        text = session.ask("example", {"number": cones.data["points"][at]["number"]}).data["text"]
        place = session.ask("place", {"text": text, "site": site, "centred": centred})
        assert place.data["layers"] == layers
        point, length = cones.arrays[f"point:{site}"][:, at], cones.arrays[f"length:{site}"][:, at]
        known = ~np.isnan(point[:, 0])
        assert known.any()
        np.testing.assert_allclose(place.arrays["text"][known], point[known], atol=SINGLE)
        np.testing.assert_allclose(place.arrays["text_length"][known], length[known], rtol=SINGLE)


@pytest.mark.parametrize("centred", [False, True])
def test_angles_of_a_text_and_its_tokens_are_those_of_their_vectors(session: Session, pure: LoadedModel, centred: bool) -> None:
    text = "the soup was not good"
    place, traced = session.ask("place", {"text": text, "centred": centred}), cs.trace(pure, text)
    for row, layer in enumerate(place.data["layers"]):
        r = session.shelf.directions(0)["hidden"][layer].numpy()
        u = traced["hidden"][layer].astype(float)
        u = u / np.linalg.norm(u, axis=-1, keepdims=True)
        u, r = (u - r.mean(0), r - r.mean(0)) if centred else (u, r)
        if np.linalg.norm(r, axis=-1).min() < 1e-6:
            assert np.isnan(place.arrays["token_angles"][row]).all()
            continue
        u, r = u / np.linalg.norm(u, axis=-1, keepdims=True), r / np.linalg.norm(r, axis=-1, keepdims=True)
        np.testing.assert_allclose(np.cos(np.radians(place.arrays["token_angles"][row])), u @ r.T, atol=SINGLE)
        np.testing.assert_allclose(np.cos(np.radians(place.arrays["text_angles"][row])), u[0] @ r.T, atol=SINGLE)


def test_directions_of_a_model_are_those_of_the_first_result_that_knows_them(session: Session) -> None:
    found = session.directions(0)
    assert found is not None
    assert list(found) == [0, 1, 2, 3]
    assert found[3] is session.shelf.directions(0)["hidden"][3]
    assert session.shelf.directions_of_model(1) is None


@pytest.mark.parametrize(
    ("what", "name", "where"),
    [
        ("entropy", "attention_entropy", {"row": "all"}),
        ("sim_key", "sim", {"site": "key"}),
        ("sim_value", "sim", {"site": "value"}),
        ("gate", "gates.names", {}),
    ],
)
def test_a_grid_is_its_table(session: Session, result: Result, what: str, name: str, where: dict[str, str]) -> None:
    reply = session.ask("grid", {"what": what})
    frame = table(result, name, **where).dropna(subset="head")
    for row in frame.itertuples():
        at = row.layer - 1, row.head - 1
        assert reply.arrays["value"][at] == np.float32(row.value)
        if what != "gate":
            margin = 2 * row.sd / row.n**0.5
            np.testing.assert_allclose(reply.arrays["low"][at], row.value - margin, rtol=1e-6)
            np.testing.assert_allclose(reply.arrays["high"][at], row.value + margin, rtol=1e-6)
        else:
            assert reply.data["gates"][at[0]][at[1]] == row.gates
    assert reply.data["n"] == frame["n"].max()


def test_heads_that_share_keys_have_the_same_number(pure: LoadedModel) -> None:
    frame = pd.DataFrame({"site": "key", "layer": 1, "head": [1, 2], "value": [0.1, 0.2], "sd": 0.0, "n": 4})
    entropy = pd.DataFrame({"row": "all", "site": "weights", "layer": 1, "head": [1, 2, 3, 4], "value": 0.5, "sd": 0.0, "n": 4})
    asked = Session(Opened((), (_made({"sim": frame, "attention_entropy": entropy}),), None))
    np.testing.assert_array_equal(asked.ask("grid", {"what": "sim_key"}).arrays["value"], np.float32([[0.1, 0.1, 0.2, 0.2]]))


def _made(tables: dict[str, pd.DataFrame]) -> OpenResult:
    """An open result with these tables."""
    provenance = {
        "model": {"name": "m", "labels": []},
        "corpus": {"name": "c", "labels": ["a", "b"]},
        "seen": {"examples": 4},
        "shards": ["1/1"],
        "measures": [],
    }
    made = Result(Path("nowhere"), provenance)
    vars(made)["tables"], vars(made)["index"] = tables, {}
    return OpenResult("made", made, 0)


def test_effects_of_ablation_come_from_another_result_of_the_same_model(session: Session) -> None:
    keys = {"site": "context", "layer": 1, "head": 1, "how": "zero", "what": "logit_predicted"}
    effects = pd.DataFrame([{**keys, "value": -1.5, "sd": 1.0, "n": 9, "low": -2.0, "high": -1.0}])
    both = (*session.opened.results, _made({"ablation": effects}))
    reply = Session(replace(session.opened, results=both)).ask("grid", {"what": "ablation", "result": 0})
    assert [float(reply.arrays[name][0, 0]) for name in ("low", "value", "high")] == [-2.0, -1.5, -1.0]
    assert "conoscope ablate" in refusal(session, "grid", what="ablation")


def test_scores_and_mean_maps_are_their_tables(session: Session, result: Result) -> None:
    scores, maps = session.ask("scores", {}), session.ask("mean_map", {"layer": 2, "head": 1})
    for row in table(result, "gates").itertuples():
        value = np.nan if row.n == 0 else np.float32(row.value)
        np.testing.assert_array_equal(scores.arrays[row.score][row.layer - 1, row.head - 1], value)
    for row in table(result, "gates.maps", layer=2, head=1).itertuples():
        assert maps.arrays["map"][row.query - 1, row.key - 1] == np.float32(row.value)


def test_a_table_has_its_first_rows_where_columns_have_a_value(session: Session, result: Result) -> None:
    reply = session.ask("table", {"name": "sim", "where": {"site": "key", "layer": 2}, "limit": 1})
    frame = table(result, "sim", site="key", layer=2)
    assert reply.data["columns"] == list(frame.columns)
    assert reply.data["total"] == len(frame)
    (row,) = reply.data["rows"]
    assert row[reply.data["columns"].index("value")] == frame["value"].iloc[0]
    assert session.ask("table", {"name": "sim", "where": {"site": "' or 1=1"}}).data["total"] == 0
    assert "site" in refusal(session, "table", name="sim", where={"sites": "key"})


@pytest.mark.parametrize("value", [[], ["key"], {}, {"a": 1}, [[1]], 10**30, -(10**400)])
@pytest.mark.parametrize("column", ["site", "layer", "value", "n"])
def test_columns_are_compared_with_texts_and_numbers_alone(session: Session, column: str, value: Any) -> None:
    assert column in refusal(session, "table", name="sim", where={column: value})
    assert "norms" in refusal(session, "table", name="norms")


def numbers(reply: Reply) -> list[int]:
    return [row["number"] for row in reply.data["rows"]]


def test_pages_follow_each_other_in_the_order_of_the_corpus(session: Session, corpus: Corpus) -> None:
    pages = [session.ask("corpus", {"offset": begin, "limit": 25}) for begin in (0, 25, 50, 75)]
    assert [len(page.data["rows"]) for page in pages] == [25, 25, 10, 0]
    assert [number for page in pages for number in numbers(page)] == list(range(60))
    rows = [row for page in pages for row in page.data["rows"]]
    for row, example in zip(rows, corpus, strict=True):
        assert (row["id"], row["text"]) == (example.id, example.text)
        assert page_labels(pages[0])[row["label"]] == example.label


def page_labels(reply: Reply) -> list[str]:
    labels: list[str] = reply.data["labels"]
    return labels


def test_predictions_are_the_models_answers_and_angles_those_of_the_table(session: Session, result: Result) -> None:
    points = table(result, "class_cones.points", site="hidden", layer=3).set_index("example")
    for row in session.ask("corpus", {"limit": 20}).data["rows"]:
        answer = session.ask("answer", {"text": row["text"]}).data
        assert row["predicted"] == answer["predicted"]
        assert row["probability"] == pytest.approx(max(answer["probabilities"]), rel=1e-5)
        assert row["angle"] == points.loc[row["id"], "angle"]


def test_filters_and_sorts_are_of_what_is_known(session: Session) -> None:
    rows = session.ask("corpus", {"limit": 200}).data["rows"]
    for name in ("label", "predicted"):
        found = session.ask("corpus", {"filter": {name: 1}})
        assert numbers(found) == [row["number"] for row in rows if row[name] == 1]
        assert found.data["total"] == len(found.data["rows"])
    wrong = session.ask("corpus", {"filter": {"errors": True}})
    assert numbers(wrong) == [row["number"] for row in rows if row["label"] != row["predicted"]]
    far = session.ask("corpus", {"sort": "farthest", "limit": 200}).data["rows"]
    assert [row["number"] for row in far] == [row["number"] for row in sorted(rows, key=lambda row: -row["angle"])]
    close = session.ask("corpus", {"sort": "margin", "limit": 200}).data["rows"]
    assert [row["number"] for row in close] == [row["number"] for row in sorted(rows, key=lambda row: row["probability"])]


@pytest.mark.parametrize("query", HOSTILE)
def test_a_search_takes_every_character_as_it_is(query: str) -> None:
    texts = ["plain words", f"before {query} after", f"BEFORE{query.upper()}AFTER", "a^b$c", "ÄÖÜ ß"]
    listed = CorpusList(Corpus.of([Example(text, id=str(number)) for number, text in enumerate(texts)]))
    assert listed.wait(seconds=10)
    plain = query.replace("\0", " ").casefold()
    assert listed.found(query).tolist() == [n for n, text in enumerate(texts) if plain in text.replace("\0", " ").casefold()]


def test_a_search_finds_upper_and_lower_case_and_the_second_text_of_a_pair_and_never_two_texts_together() -> None:
    listed = CorpusList(Corpus.of([Example("Straße", id="a"), Example("one", pair="TWO", id="b"), Example("three", id="c")]))
    assert listed.wait(seconds=10)
    assert listed.found("STRASSE").tolist() == [0]
    assert listed.found("two").tolist() == [1]
    assert listed.found("two\0three").tolist() == []
    assert listed.found("").tolist() == [0, 1, 2]


def test_a_page_of_fifty_thousand_texts_takes_less_than_50_ms() -> None:
    words = ["the", "soup", "was", "not", "good", "and", "waiter", "kind", "to", "all", "of", "us", "that", "night"]
    draw = np.random.default_rng(0)
    many = [Example(" ".join(draw.choice(words, 40)), str(number % 2), id=f"e{number}") for number in range(50_000)]
    asked = Session(Opened((), (), Corpus.of(many)))
    assert asked.shelf.texts is not None
    assert asked.shelf.texts.wait(seconds=60)
    requests = (
        {"offset": 49_800},
        {"query": "kind kind kind kind", "sort": "farthest"},
        {"query": "z", "filter": {"label": 1}},
        {"filter": {"errors": True}, "sort": "margin"},
    )
    for params in requests:
        taken = []
        for _ in range(5):
            begin = time.perf_counter()
            asked.ask("corpus", params)
            taken.append(time.perf_counter() - begin)
        assert min(taken) < 0.05, params


def test_texts_beyond_the_room_for_them_are_left_out_and_that_is_said() -> None:
    listed = CorpusList(Corpus.of([Example("x" * 1000, id=str(number)) for number in range(100)]), room=30_000)
    assert listed.wait(seconds=10)
    assert listed.cut
    assert 0 < len(listed.examples) <= 10


def test_an_example_is_whole_and_has_its_rationale(session: Session, corpus: Corpus) -> None:
    for number, expected in enumerate(corpus.first(5)):
        by_number, by_name = session.ask("example", {"number": number}), session.ask("example", {"id": expected.id})
        assert by_number.data == by_name.data
        assert by_number.data["text"] == expected.text
        assert by_number.data["rationale"] == list(expected.rationale or ())
    assert "nowhere" in refusal(session, "example", id="nowhere")
    refusal(session, "example", number=60)
    refusal(session, "example", number=-1)


def test_what_is_missing_is_told_in_one_line_with_what_to_do(pure: LoadedModel, corpus: Corpus, session: Session) -> None:
    bare = Session(Opened((pure,), (), None))
    for verb in VERBS:
        line = refusal(bare, verb, text="the soup")
        assert "conoscope explore MODEL" in line, verb
    for params in ({"offset": -1}, {"limit": 201}, {"sort": "x"}, {"query": 5}, {"filter": []}, {"filter": {"label": 9}}):
        if params != {"filter": []}:
            refusal(session, "corpus", **params)
    refusal(session, "cones", result=3)
    refusal(session, "cones", result=True)
    refusal(session, "mean_map", layer=9, head=1)
    refusal(session, "place", text="the soup", site="query")


def test_folders_of_earlier_versions_say_to_measure_again(pure: LoadedModel, result: Result, tmp_path: Path) -> None:
    where = result.save(tmp_path / "out")
    kept = {name: frame for name, frame in result.tables.items() if "." not in name or "between" in name}
    write_tables(where, kept, result.provenance, result.index)
    old = Session(Opened((pure,), (OpenResult("old", Result.load(where), 0),), None))
    for verb in ("cones", "place"):
        assert "measure again" in refusal(old, verb, text="the soup")
    assert "measure again" in refusal(old, "grid", what="gate")
    assert old.directions(0) is not None


def test_a_text_has_no_place_among_another_models_vectors(pure: LoadedModel, session: Session, corpus: Corpus) -> None:
    two = Session(replace(session.opened, models=(pure, pure)))
    assert "another model" in refusal(two, "place", text="the soup", model=1)


def test_a_model_with_texts_is_measured_in_the_background_with_the_numbers_of_measure(pure: LoadedModel, corpus: Corpus) -> None:
    asked = Session(Opened((pure,), (), corpus))
    hello = asked.ask("hello", {}).data
    assert hello["filling"] is not None
    assert [one["model"] for one in hello["results"]] == [0]
    asked.shelf.filling.wait(120)
    assert asked.shelf.filling.errors == []
    assert asked.ask("hello", {}).data["filling"] is None
    (found,), whole = asked.shelf.results, measure(pure, corpus, MEASURES)
    for name in ("sim", "attention_entropy", "gates", "class_cones.angles:vectors=all"):
        pd.testing.assert_frame_equal(found.result[name], whole[name], rtol=1e-4, atol=1e-6)
    assert asked.ask("cones", {}).data["filling"] is None
    asked.close()


def test_a_request_goes_before_what_is_measured_and_changes_none_of_it(pure: LoadedModel, corpus: Corpus) -> None:
    asked = Session(Opened((pure,), (), corpus), room=0)
    asked.turns.pause = 0.0
    expected = asked.ask("answer", {"text": "the soup was good"}).data
    asked.shelf.start()
    for number in range(20):
        assert asked.ask("answer", {"text": "the soup was good"}).data == expected
        time.sleep(0.01 * number)
    asked.shelf.filling.wait(120)
    assert asked.shelf.filling.errors == []
    found = asked.shelf.results[0].result
    pd.testing.assert_frame_equal(found["sim"], measure(pure, corpus, ["sim"])["sim"], rtol=1e-4, atol=1e-6)
    asked.close()


def test_steps_begin_when_nobody_has_asked_for_a_while_and_end_when_somebody_asks() -> None:
    turns = Turns(pause=0.2)
    with turns.request(), turns.request():
        asked = time.monotonic()
    done: list[str] = []

    def work() -> None:
        with suppress(Interrupted), turns.step() as check:
            done.append("begun" if time.monotonic() - asked >= 0.2 else "too early")
            while True:
                check()
        done.append("ended")

    thread = threading.Thread(target=work)
    thread.start()
    while not done:
        time.sleep(0.01)
    with turns.request():
        done.append("asked")
    thread.join(10)
    assert done[0] == "begun"
    assert sorted(done[1:]) == ["asked", "ended"]
    turns.close()
    with pytest.raises(Interrupted), turns.step():
        raise AssertionError("a step began after the end")


def test_two_sessions_use_models_in_turn_and_a_step_of_one_ends_for_a_request_of_the_other() -> None:
    one, other = Turns(pause=0), Turns(pause=0)
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        with suppress(Interrupted), one.step() as check:
            begun.set()
            while True:
                check()
        ended.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert begun.wait(10)
    with other.request():
        assert ended.wait(10)
    one.close()
    with other.step() as check:
        check()


@pytest.fixture
def folders(pure: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, texts and what was measured of them by a command."""
    pure.module.save_pretrained(tmp_path / "model")
    pure.tokenizer.save_pretrained(tmp_path / "model")
    rows = [(e.text, e.label) for e in load_corpus("bistro:test").first(12)]
    pd.DataFrame(rows, columns=["review", "stars"]).to_csv(tmp_path / "reviews.csv", index=False)
    monkeypatch.chdir(tmp_path)
    line = ["conoscope", "measure", "model", "reviews.csv", "--text", "review", "--label", "stars", "-m", "sim", "-o", "out"]
    monkeypatch.setattr("sys.argv", line)
    measure("model", "reviews.csv", ["sim"], out="out", text="review", label="stars")
    return tmp_path


def test_results_open_with_their_model_and_their_texts(folders: Path) -> None:
    opened = open_paths(["out"])
    assert opened.notes == ()
    assert [one.model for one in opened.results] == [0]
    assert opened.models[0].name == "model"
    assert opened.corpus is not None
    assert [e.text for e in opened.corpus] == [e.text for e in load_corpus("bistro:test").first(12)]
    both = open_paths(["model", "out"], "reviews.csv", cs.Columns(text="review", label="stars"))
    assert (len(both.models), both.results[0].model) == (1, 0)
    assert both.paths == ("model", "out", "--corpus", "reviews.csv", "--text", "review", "--label", "stars")


def test_results_open_from_elsewhere_and_after_they_moved_with_their_model(
    folders: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    moved = tmp_path_factory.mktemp("elsewhere") / "all"
    shutil.copytree(folders, moved)
    monkeypatch.chdir(moved.parent)
    opened = open_paths([moved / "out"])
    assert opened.notes == ()
    assert len(opened.models) == 1
    assert opened.corpus is not None


def test_what_results_were_of_and_is_gone_or_another_is_noted(folders: Path, pure: LoadedModel) -> None:
    with (folders / "reviews.csv").open("a", encoding="utf-8") as file:
        file.write("one more,positive\n")
    opened = open_paths(["out"])
    assert opened.corpus is None
    assert "has changed" in opened.notes[0]
    (folders / "reviews.csv").unlink()
    shutil.rmtree(folders / "model")
    opened = open_paths(["out"])
    assert opened.models == ()
    assert [one.model for one in opened.results] == [None]
    assert len(opened.notes) == 2
    assert all("\n" not in note for note in opened.notes)


def test_a_model_at_the_same_place_with_other_weights_is_not_opened(folders: Path, pure: LoadedModel) -> None:
    other = type(pure.module)(pure.module.config)
    other.save_pretrained(folders / "model")
    opened = open_paths(["out"])
    assert opened.models == ()
    assert "another one" in opened.notes[0]


def changed(path: Path, **parts: dict[str, Any]) -> None:
    """Put other values into parts of a file of JSON, with the digest that belongs to them: whoever wrote it can do that too."""
    said = read_sealed(path)
    said |= {name: {**said[name], **values} for name, values in parts.items()}
    path.write_text(sealed(said), encoding="utf-8")


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("model", "name", ["model"]),
        ("model", "labels", 5),
        ("model", "labels", [{}]),
        ("corpus", "name", {}),
        ("corpus", "split", [1]),
        ("seen", "examples", "many"),
    ],
)
def test_a_provenance_in_which_names_are_no_names_is_refused_in_one_line(folders: Path, part: str, name: str, value: Any) -> None:
    changed(folders / "out" / "provenance.json", **{part: {name: value}})
    with pytest.raises(ConoscopeError, match="does not say") as caught:
        open_paths(["out"])
    assert "\n" not in str(caught.value)


def test_a_provenance_that_is_nested_too_deeply_is_refused_in_one_line(folders: Path) -> None:
    (folders / "out" / "provenance.json").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(ConoscopeError, match="no provenance can be read"):
        open_paths(["out"])


def test_results_do_not_open_a_file_that_they_do_not_know(folders: Path) -> None:
    (folders / "letter.csv").write_text("text,label\nnobody reads this,positive\n", encoding="utf-8")
    corpus = {"name": str(folders / "letter.csv"), "split": None}
    for known in ({"fingerprint": ""}, {"fingerprint": None}, {"fingerprint": "guessed"}):
        changed(folders / "out" / "provenance.json", corpus={**corpus, **known})
        opened = open_paths(["out"])
        assert opened.corpus is None
        assert "has changed" in opened.notes[0]


@pytest.mark.parametrize("name", ["../secret", "{}/secret"])
def test_a_table_is_a_file_of_its_folder(folders: Path, name: str) -> None:
    (folders / "out" / "sim.parquet").rename(folders / "secret.parquet")
    index = folders / "out" / "tables.json"
    listed = read_sealed(index)
    listed["tables"][name.format(folders)] = listed["tables"].pop("sim")
    listed["files"] = {}
    index.write_text(sealed(listed), encoding="utf-8")
    assert not any("secret" in table for table in Result.load(folders / "out").tables)


@pytest.mark.parametrize("column", ["layer", "head"])
@pytest.mark.parametrize("value", [10**9, -1, 0])
def test_tables_of_more_heads_than_a_model_has_are_refused_before_there_is_room_for_them(
    session: Session, result: Result, column: str, value: int
) -> None:
    names = ("sim", "attention_entropy", "gates", "gates.maps", "gates.names")
    tables = {name: result[name].assign(**{column: value}) for name in names}
    damaged = Result(Path("nowhere"), result.provenance)
    damaged.__dict__.update(tables=tables, index=result.index)
    asked = Session(replace(session.opened, results=(OpenResult("damaged", damaged, 0),)))
    for verb, params in (
        ("grid", {"what": "sim_key"}),
        ("grid", {"what": "gate"}),
        ("scores", {}),
        ("mean_map", {"layer": 1, "head": 1}),
    ):
        assert "measure again" in refusal(asked, verb, **params)


def test_tables_that_name_other_classes_than_the_model_are_refused(session: Session, result: Result) -> None:
    axes = result["class_cones.axes:vectors=all"]
    damaged = Result(Path("nowhere"), result.provenance)
    damaged.__dict__.update(tables={"class_cones.axes:vectors=all": axes.assign(**{"class": "another"})}, index=result.index)
    asked = Session(replace(session.opened, results=(OpenResult("damaged", damaged, 0),)))
    assert "measure again" in refusal(asked, "cones")


def test_a_text_has_no_place_among_vectors_of_a_model_that_is_not_open(session: Session) -> None:
    gone = replace(session.opened.results[0], model=None)
    assert "another model" in refusal(Session(replace(session.opened, results=(gone,))), "place", text="the soup")


def test_paths_that_are_nothing_are_refused_in_one_line(folders: Path) -> None:
    (folders / "empty").mkdir()
    (folders / "seeds").mkdir()
    shutil.copytree(folders / "model", folders / "seeds" / "seed-0")
    for path, said in (("reviews.csv", "--corpus"), ("empty", "neither"), ("seeds", "seed-0"), ("nowhere", "nowhere")):
        with pytest.raises(ConoscopeError, match=said) as caught:
            open_paths([path])
        assert "\n" not in str(caught.value)
