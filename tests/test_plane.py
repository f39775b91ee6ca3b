"""The plane of class cones: planted planes, naive principal axes, signs, and what has no plane."""

import numpy as np
import pandas as pd
import pytest
import torch

from conoscope.capture.loading import LoadedModel
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.corpora.base import stable_hash
from conoscope.measures import request
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import Options, measure
from conoscope.results.from_sums import tables_of
from conoscope.sums.numeric import mixed
from conoscope.sums.samples import Sample, beginnings_of, names_of

WIDTH = 50
BOTH = ("pca", "means")


def cloud(count: int = 60, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around the middle of their class, none of them around zero, and labels."""
    draw = np.random.default_rng(seed)
    gold = np.arange(count) % classes
    return 5 + 2 * draw.normal(size=(classes, WIDTH))[gold] + draw.normal(size=(count, WIDTH)) * np.linspace(2, 0.1, WIDTH), gold


def planes(x: np.ndarray, gold: np.ndarray) -> dict[str, pd.DataFrame]:
    """The rows of each projection, of examples that are numbered by rank."""
    asked = request("class_cones")
    (need,) = {need for need in asked.needs() if need.quantity == "few_class_vectors"}
    ranks = torch.arange(len(x))
    values = torch.tensor(np.column_stack((x, gold, gold)))
    sample = Sample.of(torch.zeros_like(ranks), ranks, values, names_of([str(n) for n in range(len(x))]), 256, 1)
    found = tables_of(asked, Tally((need,), {(need, 1): sample}), ["a", "b", "c", "d", "e"]).get("class_cones.plane")
    return {} if found is None else {str(name): frame.reset_index() for name, frame in found.groupby("projection")}


def points(frame: pd.DataFrame) -> np.ndarray:
    return frame[["value", "second"]].to_numpy(float)


def turned(seed: int = 1) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(WIDTH, WIDTH)))[0]


def naive(x: np.ndarray, scatter: np.ndarray) -> tuple[np.ndarray, float]:
    """Coordinates along the two directions of the largest eigenvalues, signs aside, and the share of the variance."""
    centred = x - x.mean(0)
    seen = centred @ np.linalg.eigh(scatter)[1][:, [-1, -2]]
    return np.abs(seen), (seen**2).sum() / (centred**2).sum()


def between(x: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Σ (m - mean)(m - mean)ᵀ, a class's mean counted once for each of its examples."""
    found = np.zeros((WIDTH, WIDTH))
    for label in gold:
        away = x[gold == label].mean(0) - x.mean(0)
        found += np.outer(away, away)
    return found


@pytest.mark.parametrize("classes", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [20, 60, 200])
def test_pca_is_that_of_the_covariance(count: int, classes: int) -> None:
    x, gold = cloud(count, classes)
    found = planes(x, gold)["pca"]
    expected, share = naive(x, np.cov(x.T))
    np.testing.assert_allclose(np.abs(points(found)), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["share"], share, rtol=0, atol=1e-9)


@pytest.mark.parametrize("classes", [3, 4, 5])
def test_the_plane_of_means_is_that_of_what_lies_between_classes(classes: int) -> None:
    x, gold = cloud(70, classes)
    found = planes(x, gold)["means"]
    expected, share = naive(x, between(x, gold))
    np.testing.assert_allclose(np.abs(points(found)), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["share"], share, rtol=0, atol=1e-9)


def test_of_two_classes_the_first_axis_leads_from_mean_to_mean_and_the_second_holds_the_most_of_the_rest() -> None:
    x, gold = cloud(60, 2)
    away = x[gold == 1].mean(0) - x[gold == 0].mean(0)
    axis = away / np.linalg.norm(away)
    centred = x - x.mean(0)
    rest = centred - np.outer(centred @ axis, axis)
    found = planes(x, gold)["means"]
    np.testing.assert_allclose(found["value"], centred @ axis, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        np.abs(found["second"]), np.abs(centred @ np.linalg.eigh(rest.T @ rest)[1][:, -1]), rtol=0, atol=1e-9
    )
    assert found.groupby("gold")["second"].mean().abs().max() < 1e-9


def test_a_planted_plane_comes_out_as_planted() -> None:
    """Three classes around the corners of a triangle, four examples each, in a plane that lies anywhere."""
    corners = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.75]])
    spots = np.repeat(corners - corners.mean(0), 4, axis=0) + np.tile(
        [[0.1, 0.1], [0.1, -0.1], [-0.1, 0.1], [-0.1, -0.1]], (3, 1)
    )
    found = planes(3 + spots @ turned()[:2], np.repeat([0, 1, 2], 4))
    assert set(found) == {*BOTH}
    for frame in found.values():
        np.testing.assert_allclose(points(frame), spots, rtol=0, atol=1e-9)
        np.testing.assert_allclose(frame["share"], 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_a_turn_a_mirror_or_a_shift_of_all_vectors_leaves_the_plane_as_it_is(classes: int) -> None:
    x, gold = cloud(classes=classes)
    before = planes(x, gold)
    for moved in (x @ turned(), -x, x + 100):
        for name, frame in planes(moved, gold).items():
            # Across the line of two means no class lies on either side: there the sign goes by the coordinates.
            sides = np.abs if (name, classes) == ("means", 2) else np.asarray
            np.testing.assert_allclose(frame["value"], before[name]["value"], rtol=0, atol=1e-9)
            np.testing.assert_allclose(sides(frame["second"]), sides(before[name]["second"]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_rounding_turns_no_axis_round(classes: int) -> None:
    x, gold = cloud(classes=classes)
    before = planes(x, gold)
    for seed in range(10):
        noise = 1e-13 * np.random.default_rng(seed).normal(size=x.shape)
        for name, frame in planes(x + noise, gold).items():
            np.testing.assert_allclose(points(frame), points(before[name]), rtol=0, atol=1e-9)


def test_classes_of_higher_numbers_lie_further_along_both_axes() -> None:
    for seed in range(10):
        x, gold = cloud(classes=3, seed=seed)
        for frame in planes(x, gold).values():
            assert (np.array([np.corrcoef(gold, column)[0, 1] for column in points(frame).T]) > 0).all()


def test_of_coordinates_that_are_equally_large_the_first_is_positive() -> None:
    """One class, and an axis with the coordinates ±a: neither the class nor the largest coordinate tells its sign."""
    for sign in (1, -1):
        steps = sign * np.linspace(-1, 1, 9)
        found = planes(np.outer(steps, [1.0, -1.0, *np.zeros(WIDTH - 2)]), np.zeros(9))["pca"]["value"]
        np.testing.assert_allclose(found, 2**0.5 * steps, rtol=0, atol=1e-12)


def test_vectors_that_are_the_same_but_for_rounding_have_no_plane() -> None:
    x, gold = cloud()
    assert not planes(np.repeat(x[:1], 60, axis=0), gold)
    assert not planes(x[:1] * (1 + 1e-7 * np.random.default_rng(0).normal(size=x.shape)), gold)
    assert not planes(np.zeros_like(x), gold)


def test_one_class_has_no_plane_of_means() -> None:
    x, _ = cloud()
    assert set(planes(x, np.ones(60))) == {"pca"}


def test_vectors_on_a_line_have_a_second_coordinate_of_zero() -> None:
    line = np.outer(np.linspace(-2, 3, 12), turned()[0])
    for rows in (2, 12):
        for frame in planes(7 + line[:rows], np.arange(rows) % 2).values():
            expected = np.linspace(-2, 3, 12)[:rows]
            np.testing.assert_allclose(np.abs(frame["value"]), np.abs(expected - expected.mean()), rtol=0, atol=1e-9)
            assert (frame["second"] == 0).all()
            np.testing.assert_allclose(frame["share"], 1.0, rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    unlabelled = [Example("nobody said what this is")]
    return Corpus.of([*load_corpus("bistro:test").first(300), *unlabelled], "some")


def test_every_layer_but_the_embedding_shows_the_same_256_examples(pure: LoadedModel, corpus: Corpus) -> None:
    for name in ("class_cones", "class_cones:vectors=all"):
        frame = measure(pure, corpus, [name])[name.replace("class_cones", "class_cones.plane", 1)]
        own = ["projection", "value", "sd", "n", "second", "share", "gold", "predicted", "example", "text"]
        assert list(frame.columns) == ["measure", "site", "layer", "head", *own]
        assert set(frame["site"]) == {"hidden"}
        assert {*zip(frame["layer"], frame["projection"], strict=True)} == {(layer, kind) for layer in (1, 2, 3) for kind in BOTH}
        named = {example.id: example.label for example in corpus if example.label}
        ranks = dict(zip(named, mixed(torch.tensor([stable_hash(name) for name in named])).tolist(), strict=True))
        smallest = sorted(named, key=ranks.__getitem__)[:256]
        for _, rows in frame.groupby(["layer", "projection"]):
            assert rows["example"].tolist() == smallest
            assert rows["gold"].tolist() == [named[name] for name in smallest]
            assert set(rows["predicted"]) <= {"negative", "positive"}


def test_shards_and_batch_sizes_change_no_point(pure: LoadedModel, corpus: Corpus) -> None:
    whole = measure(pure, corpus, ["class_cones"])["class_cones.plane"]
    parts = [measure(pure, corpus, ["class_cones"], Options(batch_size=7, shard=(number, 3))) for number in (2, 3, 1)]
    merged = (parts[0] + parts[1] + parts[2])["class_cones.plane"]
    pd.testing.assert_frame_equal(merged, whole, rtol=0, atol=1e-9)


def test_each_point_has_the_beginning_of_its_text(pure: LoadedModel) -> None:
    long = "😀 the soup\n was   cold, " * 20
    corpus = Corpus.of([Example("we loved it", "positive", id="a"), Example(long, "negative", id="b")], "two")
    found = measure(pure, corpus, ["class_cones"])["class_cones.plane"]
    assert set(found[found["example"] == "a"]["text"]) == {"we loved it"}
    (text,) = set(found[found["example"] == "b"]["text"])
    assert text.startswith("😀 the soup was cold, 😀 the soup")
    assert text.endswith("…")
    assert len(text.encode()) <= 128


def test_a_sample_with_names_alone_adds_up_with_one_that_has_beginnings() -> None:
    ranks, values = torch.arange(2), torch.zeros(2, 1, dtype=torch.float64)
    old = Sample.of(torch.zeros_like(ranks), ranks, values, names_of(["a", "b"]), 8, 1)
    both = torch.cat((names_of(["c", "d"]), beginnings_of(["one", "two"])), dim=-1)
    new = Sample.of(torch.zeros_like(ranks), ranks + 2, values, both, 8, 1)
    for total in (old + new, new + old):
        assert total.texts() == ["a", "b", "c", "d"]
        assert total.beginnings() == ["", "", "one", "two"]
