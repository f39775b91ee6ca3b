"""Maps against what people marked: metrics against scikit-learn and their definitions, files of scores, the command."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, jaccard_score, precision_score, recall_score, roc_auc_score

from commands import refusal
from conoscope.capture.loading import LoadedModel
from conoscope.cli import main, parser
from conoscope.common.errors import ConoscopeError, CorpusError, DataError, MeasureError, ModelError
from conoscope.common.resampling import weightings
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.explaining import Erasing, Explaining, Judging, explain, plausibility, write_explanations
from conoscope.explaining.metrics import THRESHOLDS, PlausibilityMetrics
from conoscope.explaining.ranking import Ranking
from conoscope.explaining.scorefiles import read_scores
from conoscope.explaining.selecting import Selection, minmax, softmax_rescale
from conoscope.reporting.gathering import read_explanations

COLUMNS = ["map", "metric", "average", "value", "low", "high", "n", "undefined"]


def some_sentences(seed: int = 0, count: int = 12) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scores with ties, and marks; some sentences have none, or nothing else."""
    chance = np.random.default_rng(seed)
    lengths = chance.integers(1, 9, count)
    marks = [
        chance.random(n) < rate for n, rate in zip(lengths, chance.choice([0.0, 0.4, 1.0], count, p=[0.2, 0.7, 0.1]), strict=True)
    ]
    return [(chance.integers(0, 5, len(m)) / 4 + 0.0, m) for m in marks]


def one(frame: pd.DataFrame, name: str, metric: str, average: str) -> float:
    found = frame[(frame["map"] == name) & (frame["metric"] == metric) & (frame["average"] == average)]
    return float(found["value"].iloc[0])


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=30))
@settings(max_examples=60, deadline=None)
def test_areas_are_those_of_scikit_learn_ties_included(words: list[tuple[int, bool]]) -> None:
    scores, marked = np.array([s for s, _ in words], dtype=float), np.array([m for _, m in words])
    found = Ranking(scores, marked).metrics(np.ones((1, len(words))))
    if marked.any():
        assert found["auprc"][0] == pytest.approx(average_precision_score(marked, scores))
    else:
        assert np.isnan(found["auprc"][0])
    if marked.any() and not marked.all():
        assert found["auroc"][0] == pytest.approx(roc_auc_score(marked, scores))
    else:
        assert np.isnan(found["auroc"][0])


def test_a_weight_is_so_many_copies_of_a_word() -> None:
    chance = np.random.default_rng(0)
    scores, marked, weights = chance.integers(0, 6, 40) * 1.0, chance.random(40) < 0.3, chance.integers(0, 4, (3, 40))
    found = Ranking(scores, marked).metrics(weights * 1.0)
    for row, copies in enumerate(weights):
        assert found["auroc"][row] == pytest.approx(roc_auc_score(marked.repeat(copies), scores.repeat(copies)))
        assert found["auprc"][row] == pytest.approx(average_precision_score(marked.repeat(copies), scores.repeat(copies)))


@pytest.mark.parametrize("normalize", ["minmax", "softmax_rescale", "none"])
def test_both_averages_are_their_definitions(normalize: str) -> None:
    sentences = some_sentences()
    how = {"minmax": minmax, "softmax_rescale": softmax_rescale, "none": lambda x: x}[normalize]
    metrics = PlausibilityMetrics(sentences, Judging(normalize=normalize))
    values = {key: float(value[0]) for key, value in metrics.values(np.ones((1, len(sentences)))).items()}
    scores, marked = np.concatenate([how(s) for s, _ in sentences]), np.concatenate([m for _, m in sentences])
    chosen = np.concatenate([minmax(s) >= 0.5 for s, _ in sentences])
    expected = {
        "auroc": roc_auc_score(marked, scores),
        "auprc": average_precision_score(marked, scores),
        "precision": precision_score(marked, chosen),
        "recall": recall_score(marked, chosen),
        "f1": f1_score(marked, chosen),
        "iou": jaccard_score(marked, chosen),
        "iou_both_classes": jaccard_score(marked, chosen, average="macro"),
        "density": marked.mean(),
    }
    curves = [(marked & (scores >= t)).sum() / np.maximum([(scores >= t).sum(), marked.sum()], 1) for t in THRESHOLDS]
    expected |= dict(zip(("au_precision", "au_recall"), np.trapezoid(np.array(curves), THRESHOLDS, axis=0), strict=True))
    assert {metric: values[metric, "micro"] for metric in expected} == pytest.approx(expected)
    defined = [(how(s), m) for s, m in sentences if m.any() and not m.all()]
    assert values["auroc", "macro"] == pytest.approx(np.mean([roc_auc_score(m, s) for s, m in defined]))
    assert metrics.counts()["auroc", "macro"] == (len(defined), len(sentences) - len(defined))
    marked_some = [(minmax(s) >= 0.5, m) for s, m in sentences if m.any()]
    assert values["recall", "macro"] == pytest.approx(np.mean([recall_score(m, c) for c, m in marked_some]))
    curve = metrics.curve()
    assert curve["recall"][0] == pytest.approx((marked & (scores >= 0)).sum() / marked.sum())


def test_resampling_sentences_is_judging_the_sentences_that_were_drawn() -> None:
    sentences = some_sentences(1)
    weights = next(weightings(len(sentences), 5, 100))
    assert (weights.sum(1) == len(sentences)).all()
    found = PlausibilityMetrics(sentences, Judging()).values(weights)
    for row, copies in enumerate(weights.astype(int)):
        drawn = [sentence for sentence, times in zip(sentences, copies, strict=True) for _ in range(times)]
        again = PlausibilityMetrics(drawn, Judging()).values(np.ones((1, len(drawn))))
        for key, values in found.items():
            assert values[row] == pytest.approx(float(again[key][0]), nan_ok=True), key


def test_draws_are_always_the_same_however_many_are_made_at_once() -> None:
    few, many = (np.concatenate(list(weightings(7, 20, width))) for width in (1 << 21, 1))
    assert (few == many).all()


def test_normalisations_in_closed_form() -> None:
    assert minmax(np.array([2.0, 4.0, 3.0])).tolist() == [0, 1, 0.5]
    assert minmax(np.array([0.3, 0.3])).tolist() == [1, 1]
    assert minmax(np.zeros(2)).tolist() == [0, 0]
    shares = np.exp([0.1, 0.6, 0.3])
    np.testing.assert_allclose(softmax_rescale(np.array([0.1, 0.6, 0.3])), minmax(shares / shares.sum()))
    assert softmax_rescale(np.zeros(3)).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("threshold=0.5", [1, 0, 1, 0, 0]),
        ("threshold=0", [1, 1, 1, 1, 1]),
        ("top", [1, 0, 1, 0, 0]),
        ("share=0.2", [1, 0, 0, 0, 0]),
        ("share=0.21", [1, 0, 1, 0, 0]),
        ("share=0", [1, 0, 0, 0, 0]),
        ("mass=0.5", [1, 0, 0, 0, 0]),
        ("mass=0.8", [1, 0, 1, 0, 0]),
        ("mass=0.81", [1, 1, 1, 0, 0]),
        ("mass=1", [1, 1, 1, 1, 1]),
    ],
)
def test_ways_to_choose_words(how: str, expected: list[int]) -> None:
    scores, marked = np.array([0.5, 0.1, 0.3, 0.05, 0.05]), np.array([True, False, False, True, False])
    assert Selection.of(how).chosen(scores, marked).astype(int).tolist() == expected


@pytest.mark.parametrize("how", ["top=3", "share=2", "mass=x", "largest", "threshold=nan", ""])
def test_ways_that_make_no_sense_are_refused(how: str) -> None:
    with pytest.raises(MeasureError, match=r"no way .* to choose words; known: threshold=0\.5"):
        Judging(binary=how)


def test_a_map_that_is_the_truth_is_perfect_and_chance_is_chance(tmp_path: Path) -> None:
    corpus = load_corpus("bistro:test").first(300)
    path = tmp_path / "truth.jsonl"
    rows = [{"id": e.id, "scores": [float(flag) for flag in e.rationale or [False] * len(e.words)]} for e in corpus]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = plausibility(corpus, scores=[path])
    frame = found["plausibility"]
    assert list(frame.columns) == COLUMNS
    for metric in ("auroc", "auprc", "f1", "iou", "iou_both_classes"):
        assert one(frame, "truth", metric, "micro") == one(frame, "truth", metric, "macro") == 1
    assert one(frame, "random", "auroc", "micro") == pytest.approx(0.5, abs=0.05)
    density = one(frame, "random", "density", "micro")
    assert one(frame, "random", "auprc", "micro") == pytest.approx(density, abs=0.05)
    row = frame[(frame["map"] == "random") & (frame["metric"] == "auroc") & (frame["average"] == "micro")].iloc[0]
    assert row["low"] < row["value"] < row["high"]
    assert found.provenance["seen"]["examples"] == sum(any(e.rationale or ()) for e in corpus)


def test_which_sentences_are_judged() -> None:
    marked = Example("a b", "toxic", None, (True, False), "1")
    nothing, normal = Example("c d", "toxic", None, None, "2"), Example("e f", "normal", None, None, "3")
    corpus = Corpus.of([normal, marked, nothing])
    for which, count in (("rationale", 1), ("label", 2), ("all", 3)):
        found = plausibility(corpus, judging=Judging(sentences=which, resamples=10))
        assert found.provenance["seen"]["examples"] == count
    with pytest.raises(MeasureError, match="no sentences 'some'; known: all, label, rationale"):
        Judging(sentences="some")
    with pytest.raises(CorpusError, match="no labels to choose sentences by"):
        plausibility([Example("a b", None, None, (True, False))], judging=Judging(sentences="label"))
    with pytest.raises(CorpusError, match="has no rationales to compare maps with"):
        plausibility([Example("a b")])


def test_scores_of_a_file_are_those_of_the_maps_that_it_was_written_from(pure: LoadedModel, tmp_path: Path) -> None:
    corpus, path = load_corpus("bistro:test").first(40), tmp_path / "scores.jsonl"
    assert write_explanations(explain(pure, corpus, ["attention", "gradient"]), path) == 40
    direct = plausibility(pure, corpus, ["attention", "gradient"])["plausibility"]
    filed = plausibility(corpus, scores=[path])["plausibility"]
    order = ["map", "metric", "average"]
    pd.testing.assert_frame_equal(
        direct.sort_values(order, ignore_index=True), filed.sort_values(order, ignore_index=True), rtol=1e-6
    )


def test_rows_are_found_by_id_or_else_by_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [
        {"id": "7", "scores": [1, None]},
        {"text": "c d", "scores": [3, 4]},
        {"id": "x", "text": "e f", "maps": {"ig": [5, 6]}},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = read_scores(path)
    assert list(found.names) == ["mine", "ig"]
    np.testing.assert_array_equal(found.of(Example("a b", id="7"))["mine"], [1, np.nan])
    assert found.of(Example("c d", id="8"))["mine"].tolist() == [3, 4]
    assert found.of(Example("e f", id="9"))["ig"].tolist() == [5, 6]
    assert found.of(Example("e f", pair="g", id="9")) == {}


def test_words_without_a_score_are_left_out_and_counted(pure: LoadedModel) -> None:
    corpus = load_corpus("bistro:test").first(20)
    found = plausibility(pure, corpus, ["attention"], options=Explaining(max_length=6), judging=Judging(resamples=10))
    missing = found.provenance["seen"]["words_without_score"]
    assert missing["attention"] == missing["random"] > 0
    assert found.remarks == [f"{count} words have no score by the map {name} and are left out" for name, count in missing.items()]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"id": "1", "scores": [1]}', "'bad' has 1 scores where the example 1 has 2 words; give one for each whitespace word"),
        ('{"id": "1", "scores": [1, "x"]}', "'bad' holds 'x'; give a number for each word, or null"),
        ('{"id": "1", "scores": [1, true]}', "'bad' holds 'True'"),
        ('{"id": "1", "scores": [1, 1e999]}', "'bad' holds 'inf'"),
        ('{"id": "1", "scores": 3}', "'bad' is a int where a list of numbers is expected"),
        ('{"id": "1", "maps": {}}', 'no "scores" (a list) and no "maps"'),
        ('{"id": "1"}', 'no "scores" (a list) and no "maps"'),
        ('{"scores": [1, 2]}', 'neither "id" nor "text" says of which example'),
        ('{"id": "1", "scores": [1, 2]}\n{"id": "1", "scores": [1, 2]}', "stand on line 1 already"),
        ("nonsense", "not JSON"),
        ('{"id": "other", "scores": [1, 2]}', "the map bad has no score for any evaluated sentence of examples"),
        ('{"id": "1", "maps": {"random": [1, 2]}}', "random of .* is the name of another map too"),
        ("", "has no scores; give JSON lines"),
    ],
)
def test_broken_files_of_scores_are_refused_in_one_line(row: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(row, encoding="utf-8")
    with pytest.raises((DataError, MeasureError)) as refused:
        plausibility([Example("a b", "x", None, (True, False), "1")], scores=[path])
    assert "\n" not in str(refused.value)
    assert said.split(".*")[0] in str(refused.value)
    assert "bad" in str(refused.value)


def test_a_map_without_a_model_is_refused() -> None:
    with pytest.raises(ModelError, match="the map attention is made with a model, and none is given; give one before the corpus"):
        plausibility("bistro:test", maps=["attention"])


def test_the_command_prints_and_writes_tables(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["plausibility", str(model), "bistro:test", "--map", "attention", "--map", "rollout", "--limit", "30"]
    assert main([*command, "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "auprc" in printed
    assert f"tables and provenance written to {out}" in printed
    frame = pd.read_parquet(out / "plausibility.parquet")
    assert list(frame.columns) == COLUMNS
    assert frame["map"].unique().tolist() == ["attention", "rollout", "random"]
    pd.testing.assert_frame_equal(frame, pd.read_csv(out / "plausibility.csv"), check_dtype=False)
    assert len(pd.read_csv(out / "plausibility.curve.csv")) == 3 * len(THRESHOLDS)
    provenance = json.loads((out / "provenance.json").read_text(encoding="utf-8"))
    assert provenance["measures"] == ["plausibility", "attention", "rollout", "random"]
    assert main([*command, "-o", str(out)]) == 0
    capsys.readouterr()
    assert "holds other results (options normalize" in refusal(capsys, *command, "--normalize", "none", "-o", out)


def test_bad_input_gets_one_line(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plain.csv").write_text("text,label\nfine soup,positive\n", encoding="utf-8")
    base = ("plausibility", model, "bistro:test")
    assert "no map 'saliency'" in refusal(capsys, *base, "--map", "saliency")
    assert "no file" in refusal(capsys, *base, "--scores", tmp_path / "none.jsonl")
    assert "of no known kind" in refusal(capsys, *base, "--scores", model / "config.json")
    assert "no normalize 'x'" in refusal(capsys, *base, "--normalize", "x")
    assert "has no rationales" in refusal(capsys, "plausibility", model, tmp_path / "plain.csv")
    assert "has no column 'why'" in refusal(capsys, "plausibility", tmp_path / "plain.csv", "--rationale", "why")


def test_explain_prints_a_table_of_one_text(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["explain", str(model), "--words", "the soup was not\x1b[31m good", "--map", "attention", "--map", "gradient"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["attention", "gradient"]
    assert [line.split()[0] for line in lines[1:6]] == ["the", "soup", "was", "not\\x1b[31m", "good"]
    assert len({len(line) for line in lines[:6]}) == 1
    assert lines[6].startswith("predicted: ")


def test_explain_writes_a_line_for_each_example(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "scores.jsonl"
    assert main(["explain", str(model), "bistro:test", "--limit", "9", "--map", "norms", "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"9 examples explained; written to {out}\n"
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in rows] == [e.id for e in load_corpus("bistro:test").first(9)]
    assert list(rows[0]) == ["id", "text", "pair", "words", "label", "rationale", "marked_by", "model", "predicted", "maps"]
    assert all(len(row["maps"]["norms"]) == len(row["words"]) == len(row["text"].split()) for row in rows)
    assert [path.name for path in tmp_path.iterdir()] == ["scores.jsonl"]


def test_what_people_marked_stands_in_the_file_and_comes_back_as_a_map_of_its_own(pure: LoadedModel, tmp_path: Path) -> None:
    marked = Example("the soup was cold", "negative", "or was it?", (False, False, False, True, False, True, False), "marked")
    texts = Corpus.of([marked, Example("we loved it", "positive", id="unmarked")])
    out = tmp_path / "scores.jsonl"
    write_explanations(explain(pure, texts, ["attention"]), out)
    records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [record["rationale"] for record in records] == [[0, 0, 0, 1, 0, 1, 0], None]
    frame = read_explanations(out)
    human = frame[frame["map"] == "human"]
    assert set(human["example"]) == {"marked"}
    assert human["value"].tolist() == [0, 0, 0, 1, 0, 1, 0]
    scores = read_scores(out)
    assert list(scores.names) == ["attention"]
    assert [len(scores.of(example)["attention"]) for example in texts] == [7, 3]


def test_explain_refuses_what_it_cannot_do(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "give a corpus, or --words" in refusal(capsys, "explain", model)
    two = refusal(capsys, "explain", model, "bistro:test", "--words", "fine")
    assert "two things to explain, 'fine' and 'bistro:test'; repeat --words for each text, or give the corpus alone" in two
    assert "written, not printed; give -o scores.jsonl" in refusal(capsys, "explain", model, "bistro:test")
    assert "--words has no words" in refusal(capsys, "explain", model, "--words", " ")
    for out in (tmp_path / "no" / "folder.jsonl", tmp_path / ("x" * 300)):
        assert "cannot write" in refusal(capsys, "explain", model, "bistro:test", "--limit", "2", "-o", out)


def test_the_commands_and_the_library_have_the_same_defaults() -> None:
    given = vars(parser().parse_args(["plausibility", "c"])) | vars(parser().parse_args(["faithfulness", "m", "c"]))
    for kind in (Explaining(), Judging(), Erasing()):
        shared = {name for name in given if hasattr(kind, name)}
        assert {name: getattr(kind, name) for name in shared} == {name: given[name] for name in shared}


def test_maps_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "maps"]) == 0
    assert "rollout_legacy\n  Product of the layers" in capsys.readouterr().out


def test_every_refusal_is_one_that_the_command_line_prints() -> None:
    assert all(issubclass(kind, ConoscopeError) for kind in (CorpusError, DataError, MeasureError, ModelError))
