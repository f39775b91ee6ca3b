"""Each statistic against a naive reference of its definition."""

import os

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError

from conoscope.sums.samples import ByKey, Sample, names_of
from conoscope.sums.statistics import Directions, Gram, Histogram, Moments

KEEP = torch.ones(6, dtype=torch.bool)


def vectors(count: int = 6, width: int = 4) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_directions_sum_unit_vectors_and_leave_zero_vectors_out_of_n() -> None:
    x = vectors()
    x[2] = 0
    found = Directions.of(x, KEEP)
    others = x[[0, 1, 3, 4, 5]]
    torch.testing.assert_close(found.units, (others / others.norm(dim=-1, keepdim=True)).sum(0))
    torch.testing.assert_close(found.vectors, others.sum(0))
    assert (int(found.count), int(found.zeros)) == (5, 1)


def test_sim_of_directions_equals_the_double_loop() -> None:
    x = vectors()
    cosines = [float(torch.cosine_similarity(x[i], x[j], dim=0)) for i in range(6) for j in range(6) if i != j]
    assert float(Directions.of(x, KEEP).sim) == pytest.approx(np.mean(cosines), abs=1e-12)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (torch.tensor([[1.0, 2.0, 3.0]]).repeat(6, 1).double(), 1.0),
        (torch.tensor([[1.0, 2.0], [-1.0, -2.0]]).double(), -1.0),
        (torch.eye(6).double(), 0.0),
    ],
    ids=["copies", "opposites", "orthonormal"],
)
def test_sim_in_closed_form(x: torch.Tensor, expected: float) -> None:
    assert float(Directions.of(x, KEEP[: len(x)]).sim) == pytest.approx(expected, abs=1e-12)


def test_sim_of_one_vector_is_not_defined() -> None:
    assert bool(Directions.of(vectors(1), KEEP[:1]).sim.isnan())


def test_gram_sums_outer_products_of_what_counts() -> None:
    x, keep = vectors(), torch.tensor([True, True, False, True, False, True])
    found = Gram.of(x, keep)
    torch.testing.assert_close(found.products, sum(torch.outer(v, v) for v in x[keep]))
    assert int(found.count) == 4


def test_moments_equal_numpy_and_count_what_is_not_defined() -> None:
    x = vectors()[:, 0]
    x[1] = torch.nan
    found = Moments.of(x)
    rest = x[~x.isnan()].numpy()
    assert float(found.mean) == pytest.approx(rest.mean(), abs=1e-12)
    assert float(found.sd) == pytest.approx(rest.std(ddof=1), abs=1e-12)
    assert (int(found.count), int(found.undefined)) == (5, 1)


def test_the_spread_of_one_number_is_not_defined() -> None:
    assert bool(Moments.of(torch.ones(1)).sd.isnan())


def test_histogram_counts_equal_numpy() -> None:
    x = vectors(200)[:, 0]
    edges = (-1.0, 0.0, 1.0)
    found = Histogram.of(x, torch.ones(200, dtype=torch.bool), edges[0], edges[1] - edges[0], len(edges))
    inside = np.histogram(x.numpy(), edges)[0]
    assert found.counts.tolist() == [int((x < -1).sum()), *inside, int((x >= 1).sum())]


def test_a_sample_is_complete_while_there_is_room_and_holds_the_smallest_after() -> None:
    values, ranks = vectors(), torch.tensor([5, 3, 9, 1, 7, 2])
    items = (torch.zeros(6).long(), ranks, values, names_of(list("abcdef")))
    assert len(Sample.of(*items, 10, 1).values) == 6
    three = Sample.of(*items, 3, 1)
    assert three.ranks.tolist() == [1, 2, 3]
    torch.testing.assert_close(three.values, values[[3, 5, 1]])
    assert three.texts() == ["d", "f", "b"]


def test_by_key_keeps_one_statistic_per_key() -> None:
    x = vectors()[:, 0]
    found = ByKey.of(["a", "b", "a", "b", "b", "a"], Moments, x)
    assert float(found.parts["a"].mean) == pytest.approx(float(x[[0, 2, 5]].mean()), abs=1e-12)
    assert int(found.parts["b"].count) == 3


@pytest.mark.skipif(not os.environ.get("CONOSCOPE_SHAPES"), reason="make test-all checks shapes")
def test_shapes_are_checked_at_every_boundary_under_pytest() -> None:
    with pytest.raises(TypeCheckError):
        Directions.of(vectors(), torch.ones(5, dtype=torch.bool))


def test_a_sample_of_groups_keeps_the_smallest_groups_and_of_each_the_smallest_ranks() -> None:
    groups, ranks = torch.tensor([7, 2, 7, 2, 9, 2]), torch.tensor([5, 3, 1, 2, 0, 1])
    found = Sample.of(groups, ranks, vectors(), names_of(list("abcdef")), 2, 2)
    assert found.groups.tolist() == [2, 2, 7, 7]
    assert found.ranks.tolist() == [1, 2, 1, 5]
    assert found.texts() == ["f", "d", "c", "a"]


def test_of_a_long_name_the_middle_is_left_out_between_characters() -> None:
    long = "é" * 20 + "a long way " * 9 + "è" * 5 + " 17"
    (found,) = Sample.of(KEEP[:1].long(), KEEP[:1].long(), vectors(1), names_of([long]), 1, 1).texts()
    assert found.startswith("é" * 16 + "…")
    assert found.endswith("è" * 5 + " 17")
    assert len(found.encode()) <= 64


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_singular_values_are_those_of_the_matrix(shift: float) -> None:
    x = vectors(30, 5) + shift
    keep = torch.arange(30) % 3 > 0
    found = Gram.of(x, keep)
    expected = np.linalg.svd(x[keep].numpy(), compute_uv=False)
    np.testing.assert_allclose(found.spectrum.numpy(), expected, rtol=1e-9)
    torch.testing.assert_close(found.vectors, x[keep].sum(0))


def test_fewer_vectors_than_coordinates_have_no_further_singular_values() -> None:
    found = Gram.of(vectors(3, 8), torch.ones(3, dtype=torch.bool)).spectrum
    assert int((found > 0).sum()) == 3


def test_copies_of_one_vector_have_rank_one_and_what_is_small_beside_a_huge_coordinate_is_kept_in_single_precision() -> None:
    x = vectors(1, 64).float()
    assert int((Gram.of(x.expand(779, 64)).spectrum > 0).sum()) == 1
    y = vectors(2000, 128).float()
    y[:, 5] += 3000
    expected = np.linalg.svd(y.double().numpy(), compute_uv=False)
    np.testing.assert_allclose(Gram.of(y).spectrum.numpy(), expected, rtol=1e-4)
