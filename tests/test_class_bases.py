"""The tables that the explorer draws cones from: naive bases and angles, planted directions, alignment, and what is not there."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch

from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.trace import PooledOutput
from conoscope.common.questions import EXPLORED
from conoscope.corpora import Corpus, load_corpus
from conoscope.measures import request
from conoscope.measures.class_cones import shown
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import Options, measure
from conoscope.quantities import classes as quantities
from conoscope.reporting.gathering import JoinedTables, gather
from conoscope.reporting.tables import sheets
from conoscope.results.from_sums import tables_of
from conoscope.results.result import Result

NAMES = ("class_cones.bases", "class_cones.explained", "class_cones.axes", "class_cones.angles", "class_cones.points")
PLAIN = ["value", "second", "third"]
CENTRED = ["centred", "centred_second", "centred_third"]
Tables = dict[str, pd.DataFrame]


def cloud(count: int = 60, width: int = 8, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around a direction of their class, far from the origin, and labels."""
    draw = np.random.default_rng(seed)
    gold = np.arange(count) % classes
    return 1 + 2 * draw.normal(size=(classes, width))[gold] + draw.normal(size=(count, width)), gold


def answers(layers: list[np.ndarray], gold: np.ndarray, sizes: tuple[int, ...], classes: int) -> Iterator[PooledOutput]:
    """The same examples in batches of these sizes, one layer after the other."""
    begin = 0
    for size in sizes:
        part = slice(begin, begin + size)
        batch = Batch.of_ids(torch.ones(size, 2, dtype=torch.long), torch.ones(size, 2, dtype=torch.bool))
        names = tuple(f"example {number}" for number in range(begin, begin + size))
        batch = replace(batch, ids=names, place=torch.arange(begin, begin + size) + 1, label=torch.tensor(gold[part]))
        there = torch.ones(size, dtype=torch.bool)
        for layer, x in enumerate(layers, 1):
            vectors = torch.tensor(x[part])
            guessed = torch.tensor(gold[part])
            yield PooledOutput(layer, len(layers), batch, there, guessed, classes, vectors, vectors, vectors)
        begin += size


def measured(
    layers: list[np.ndarray], gold: np.ndarray, sizes: tuple[int, ...] | None = None, classes: int = 3, options: str = ""
) -> Tables:
    """The tables of these vectors, hidden states alone."""
    asked = request(f"class_cones{options}")
    tally = Tally.for_needs(asked.needs())
    for answer in answers(layers, gold, sizes or (len(gold),), classes):
        tally.add(answer)
    found = tables_of(asked, tally, [str(number) for number in range(classes)])
    return {name.partition(":")[0]: hidden(frame) for name, frame in found.items() if name.partition(":")[0] in NAMES}


def hidden(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["site"] == "hidden"].reset_index(drop=True)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def directions(x: np.ndarray, gold: np.ndarray) -> np.ndarray:
    return np.stack([unit(unit(x)[gold == c].sum(0)) for c in np.unique(gold)])


def matrix(frame: pd.DataFrame, columns: list[str], layer: int = 1) -> np.ndarray:
    return frame[frame["layer"] == layer][columns].to_numpy(float)


def plane_of(x: np.ndarray, rank: int) -> np.ndarray:
    """The projector onto the first right singular vectors."""
    axes = np.linalg.svd(x)[2][:rank]
    return axes.T @ axes


def test_three_directions_are_seen_whole_and_their_angles_are_the_true_ones() -> None:
    x, gold = cloud()
    found, r = measured([x], gold), directions(*cloud())
    basis, axes = matrix(found["class_cones.bases"], PLAIN), matrix(found["class_cones.axes"], PLAIN)
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(basis @ basis.T, plane_of(r, 3), atol=1e-9)
    np.testing.assert_allclose(axes, r @ basis, atol=1e-9)
    np.testing.assert_allclose(axes @ axes.T, r @ r.T, atol=1e-9)


def test_the_first_axis_is_what_all_classes_share() -> None:
    x, gold = cloud()
    basis = matrix(measured([x], gold)["class_cones.bases"], PLAIN)
    np.testing.assert_allclose(basis[:, 0], unit(directions(x, gold).mean(0)), atol=1e-9)


def test_two_classes_lie_left_and_right_and_the_examples_vary_most_along_the_third_axis() -> None:
    x, gold = cloud(classes=2)
    found, r, u = measured([x], gold, classes=2), directions(x, gold), unit(x)
    basis = matrix(found["class_cones.bases"], PLAIN)
    np.testing.assert_allclose(basis[:, 1], unit(r[1] - r[0]), atol=1e-9)
    across = (u - u.mean(0)) @ (np.eye(x.shape[1]) - plane_of(r, 2))
    third = np.linalg.eigh(across.T @ across)[1][:, -1]
    assert abs(third @ basis[:, 2]) == pytest.approx(1, abs=1e-9)
    assert basis[np.abs(basis[:, 2]).argmax(), 2] > 0


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_centred_directions_are_those_around_their_mean(classes: int) -> None:
    x, gold = cloud(classes=classes)
    found, r = measured([x], gold, classes=classes), directions(x, gold)
    around = unit(r - r.mean(0))
    basis = matrix(found["class_cones.bases"], CENTRED)
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(matrix(found["class_cones.axes"], CENTRED), around @ basis, atol=1e-9)
    if classes == 5:
        np.testing.assert_allclose(basis @ basis.T, plane_of(around, 3), atol=1e-9)
    else:
        np.testing.assert_allclose(around @ basis @ basis.T, around, atol=1e-9)


def test_of_many_classes_the_axes_hold_as_much_as_three_can() -> None:
    x, gold = cloud(120, 12, classes=9)
    basis = matrix(measured([x], gold, classes=9)["class_cones.bases"], PLAIN)
    np.testing.assert_allclose(basis @ basis.T, plane_of(directions(x, gold), 3), atol=1e-9)


def test_shares_are_of_the_variance_of_unit_vectors() -> None:
    x, gold = cloud()
    found, u = measured([x], gold), unit(x)
    centred = u - u.mean(0)
    for columns, column in ((PLAIN, "value"), (CENTRED, "centred")):
        basis = matrix(found["class_cones.bases"], columns)
        expected = ((centred @ basis) ** 2).sum(0) / (centred**2).sum()
        np.testing.assert_allclose(found["class_cones.explained"][column].to_numpy(float), expected, atol=1e-9)


def test_points_are_unit_vectors_in_the_basis_with_their_lengths() -> None:
    x, gold = cloud()
    found, r, u = measured([x], gold), directions(*cloud()), unit(x)
    points = found["class_cones.points"]
    order = [int(name.removeprefix("example ")) for name in points["example"]]
    assert sorted(order) == list(range(len(x)))
    np.testing.assert_allclose(points[PLAIN], u[order] @ matrix(found["class_cones.bases"], PLAIN), atol=1e-9)
    around = unit(u - r.mean(0)) @ matrix(found["class_cones.bases"], CENTRED)
    np.testing.assert_allclose(points[CENTRED], around[order], atol=1e-9)
    np.testing.assert_allclose(points["length"], np.linalg.norm(x, axis=-1)[order], atol=1e-9)
    assert points["gold"].tolist() == [str(gold[at]) for at in order]


def test_angles_leave_each_example_out_of_its_class_and_equal_loops() -> None:
    x, gold = cloud(seed=3)
    u, r = unit(x), directions(x, gold)
    found = measured([x], gold)
    frame = found["class_cones.angles"]
    for c in range(3):
        plain, centred = [], []
        for i in np.flatnonzero(gold == c):
            others = r.copy()
            others[c] = unit(u[(gold == c) & (np.arange(len(x)) != i)].sum(0))
            m = others.mean(0)
            plain.append(np.degrees(np.arccos(u[i] @ others[c])))
            centred.append(np.degrees(np.arccos(unit(u[i] - m) @ unit(others[c] - m))))
        row = frame[frame["class"] == str(c)].iloc[0]
        assert row["value"] == pytest.approx(np.mean(plain), abs=1e-9)
        assert row["sd"] == pytest.approx(np.std(plain, ddof=1), abs=1e-9)
        assert row["n"] == len(plain)
        points = found["class_cones.points"].query(f"gold == '{c}'")
        np.testing.assert_allclose(np.sort(points["angle"]), np.sort(plain), atol=1e-9)
        np.testing.assert_allclose(np.sort(points["centred_angle"]), np.sort(centred), atol=1e-9)
        for name, level in (("q50", 0.5), ("q90", 0.9), ("q95", 0.95)):
            assert row[name] == pytest.approx(np.quantile(plain, level), abs=1e-9)
            assert row[f"centred_{name}"] == pytest.approx(np.quantile(centred, level), abs=1e-9)


def test_small_angles_are_exact() -> None:
    turns = np.array([0.0, 1e-5, 3e-5, 7e-5])
    one = torch.tensor(np.stack((np.cos(turns), np.sin(turns)), axis=1))
    np.testing.assert_allclose(shown.angle_between(one, one[:1]).numpy(), np.degrees(turns), rtol=1e-9)
    assert shown.angle_between(one[:1], -one[:1]).tolist() == [180.0]


def rotated(x: np.ndarray, seed: int) -> np.ndarray:
    return x @ np.linalg.qr(np.random.default_rng(seed).normal(size=(x.shape[1], x.shape[1])))[0]


@pytest.mark.parametrize("classes", [3, 5])
def test_a_layer_that_is_another_one_rotated_looks_the_same(classes: int) -> None:
    x, gold = cloud(classes=classes)
    found = measured([rotated(x, 1), rotated(x, 2), x], gold, classes=classes, options=":vectors=all")
    for name in ("class_cones.axes", "class_cones.points"):
        for columns in (PLAIN, CENTRED) if classes == 5 else (PLAIN,):
            for layer in (1, 2):
                np.testing.assert_allclose(matrix(found[name], columns, layer), matrix(found[name], columns, 3), atol=1e-6)


def test_of_all_turns_of_a_layer_the_one_is_chosen_that_leaves_classes_where_they_are_above() -> None:
    x, gold = cloud()
    axes = measured([cloud(seed=5)[0], x], gold)["class_cones.axes"]
    here, above = matrix(axes, PLAIN, 1), matrix(axes, PLAIN, 2)
    chosen = ((here - above) ** 2).sum()
    draw = np.random.default_rng(0)
    for _ in range(200):
        turn = np.linalg.qr(np.eye(3) + draw.normal(size=(3, 3)) * draw.choice([0.01, 1]))[0]
        assert ((here @ turn - above) ** 2).sum() >= chosen - 1e-12


def test_no_axis_flips_where_layers_change_slowly() -> None:
    x, gold = cloud(classes=2)
    step = np.random.default_rng(7).normal(size=x.shape) * 0.02
    found = measured([x + 3 * step, x + 2 * step, x + step, x], gold, classes=2)
    for columns in (PLAIN, CENTRED):
        bases = [matrix(found["class_cones.bases"], columns, layer) for layer in (1, 2, 3, 4)]
        assert all((one * other).sum(0).min() > 0.9 for one, other in pairwise(bases))


def test_one_class_has_axes_and_nothing_centred() -> None:
    x, gold = cloud(classes=1)
    found = measured([x], gold, classes=1)
    assert matrix(found["class_cones.axes"], PLAIN) == pytest.approx(np.array([[1.0, 0.0, 0.0]]), abs=1e-9)
    assert np.isfinite(matrix(found["class_cones.points"], PLAIN)).all()
    for frame in found.values():
        held = [column for column in frame if column.startswith("centred")]
        assert frame[held].isna().all(axis=None)


def test_classes_on_a_line_have_one_axis_of_their_own() -> None:
    line = np.outer([1.0, -1.0] * 6, np.eye(5)[2])
    found = measured([line], np.array([0, 1] * 6), classes=2)
    assert matrix(found["class_cones.axes"], ["value"])[:, 0] == pytest.approx([-1.0, 1.0], abs=1e-12)
    assert found["class_cones.bases"][["second", "third"]].isna().all(axis=None)
    assert found["class_cones.explained"]["value"].tolist()[0] == pytest.approx(1.0, abs=1e-12)
    assert found["class_cones.explained"]["n"].tolist() == [12, 0, 0]


def test_vectors_of_two_dimensions_have_two_axes() -> None:
    x, gold = cloud(width=2)
    found = measured([x, x[:, ::-1].copy()], gold)
    for columns in (PLAIN, CENTRED):
        for layer in (1, 2):
            basis = matrix(found["class_cones.bases"], columns, layer)
            np.testing.assert_allclose(basis[:, :2].T @ basis[:, :2], np.eye(2), atol=1e-12)
            assert np.isnan(basis[:, 2]).all()


def test_vectors_that_are_all_the_same_have_one_axis_no_shares_no_angles_and_no_points() -> None:
    found = measured([np.ones((6, 4))], np.array([0, 1] * 3), classes=2)
    assert matrix(found["class_cones.bases"], PLAIN)[:, 0] == pytest.approx(np.full(4, 0.5), abs=1e-12)
    assert found["class_cones.bases"][["second", "third", *CENTRED]].isna().all(axis=None)
    assert not {"class_cones.explained", "class_cones.angles", "class_cones.points"} & found.keys()


def test_zero_vectors_and_classes_without_examples_are_nowhere() -> None:
    x, gold = cloud(classes=2)
    x[0] = 0
    found = measured([x], gold, classes=3)
    assert set(found["class_cones.axes"]["class"]) == {"0", "1"}
    assert set(found["class_cones.angles"]["class"]) == {"0", "1"}
    assert "example 0" not in set(found["class_cones.points"]["example"])
    assert found["class_cones.axes"]["n"].tolist() == [29, 30]


def test_a_class_of_one_example_has_a_direction_and_no_angle() -> None:
    x, gold = cloud(13, classes=2)
    gold[:], gold[4] = 0, 1
    frame = measured([x], gold, classes=2)["class_cones.angles"].set_index("class")
    assert frame.loc["1", "n"] == 0
    assert frame.loc["1", ["value", "q50", "centred_q90"]].isna().all()
    assert frame.loc["0", "n"] == 12


@pytest.mark.parametrize("count", [30, 400])
def test_wide_vectors_have_the_axes_along_which_they_vary_most(count: int) -> None:
    draw = np.random.default_rng(2)
    x = 3 + draw.normal(size=(count, 300)) * np.concatenate(([6.0, 4.0, 2.5], np.linspace(1, 0.1, 297)))
    gold = np.arange(count) % 2
    basis, r, u = matrix(measured([x], gold, classes=2)["class_cones.bases"], PLAIN), directions(x, gold), unit(x)
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-12)
    across = (u - u.mean(0)) @ (np.eye(300) - plane_of(r, 2))
    values, vectors = np.linalg.eigh(across.T @ across)
    assert abs(vectors[:, -1] @ basis[:, 2]) == pytest.approx(1, abs=1e-9)
    assert ((across @ basis[:, 2]) ** 2).sum() == pytest.approx(values[-1], rel=1e-9)


def test_without_sums_of_products_principal_axes_are_of_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    x, gold = cloud(classes=2)
    found = measured([x], gold, classes=2)
    monkeypatch.setattr(quantities, "BUDGET", 0)
    sampled = measured([x], gold, classes=2)
    for name in NAMES:
        pd.testing.assert_frame_equal(found[name], sampled[name], rtol=0, atol=1e-9)


@pytest.mark.parametrize("sizes", [(60,), (1, 2, 3, 54), (59, 1)])
@pytest.mark.parametrize("classes", [1, 2, 3, 5])
def test_batches_change_no_axis_and_no_sign(sizes: tuple[int, ...], classes: int) -> None:
    x, gold = cloud(classes=classes)
    layers = [cloud(classes=classes, seed=9)[0], x]
    found, whole = measured(layers, gold, sizes, classes), measured(layers, gold, (30, 30), classes)
    for name in NAMES:
        pd.testing.assert_frame_equal(found[name], whole[name], rtol=0, atol=1e-9)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus.of(list(load_corpus("bistro:test").first(120)), "some")


@pytest.fixture(scope="module")
def whole(pure: LoadedModel, corpus: Corpus) -> Result:
    return measure(pure, corpus, ["class_cones"])


def test_shards_add_up_to_the_same_bases(pure: LoadedModel, corpus: Corpus, whole: Result) -> None:
    parts = [measure(pure, corpus, ["class_cones"], Options(batch_size=7, shard=(number, 3))) for number in (2, 3, 1)]
    merged = parts[0] + parts[1] + parts[2]
    for name in NAMES:
        # Vectors of other batches differ by rounding of float32, 1e-7 of their length; angles are in degrees.
        pd.testing.assert_frame_equal(merged[name], whole[name], rtol=0, atol=1e-4)


def test_hidden_states_have_points_in_every_layer_and_keys_where_they_are_sampled(pure: LoadedModel, whole: Result) -> None:
    points = whole["class_cones.points"]
    assert {*zip(points["site"], points["layer"], strict=True)} == {
        *(("hidden", layer) for layer in (1, 2, 3)),
        ("key", 3),
        ("value", 3),
    }
    angles = whole["class_cones.angles"]
    known = angles[angles["n"] > 0]
    assert {*zip(known["site"], known["layer"], strict=True)} == {*zip(points["site"], points["layer"], strict=True)}
    assert angles[angles["n"] == 0][["value", "q50", "q90", "q95"]].isna().all(axis=None)


def test_every_site_and_layer_has_a_basis_of_unit_axes(whole: Result) -> None:
    bases = whole["class_cones.bases"]
    for (site, layer), rows in bases.groupby(["site", "layer"]):
        axes = rows[PLAIN].to_numpy(float)
        axes = axes[:, ~np.isnan(axes).any(0)]
        np.testing.assert_allclose(axes.T @ axes, np.eye(axes.shape[1]), atol=1e-9, err_msg=f"{site} {layer}")


def test_reports_and_differences_leave_these_tables_out(whole: Result) -> None:
    assert all(whole.index[name].question == EXPLORED for name in NAMES)
    named = [sheet.name for sheet in sheets(JoinedTables(gather([whole])), gather([whole]))]
    assert "class_cones" in named
    assert not set(NAMES) & set(named)
    differences = whole.compare(whole)
    assert "class_cones" in differences.tables
    assert set(NAMES) <= set(differences.left_out)
