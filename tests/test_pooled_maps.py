"""Maps pooled onto a grid: against cells counted out piece by piece, closed forms, and the maps of a model."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor

from architectures import padded, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import traces_of
from conoscope.capture.trace import Trace
from conoscope.corpora import Corpus
from conoscope.measures import request
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import Options, measure
from conoscope.quantities.gates import GRID, LONGEST, overlaps, pooled_map
from conoscope.results.from_sums import tables_of
from quantities import sampled

INNER = GRID - 2


def pieces(n: int) -> Counter[tuple[int, int]]:
    """How many of the 14 pieces of each token lie in each cell; the inner ones are dealt n - 2 to a cell, in their order."""
    inner = Counter((1 + piece // (n - 2), 1 + piece // INNER) for piece in range(INNER * (n - 2)))
    return inner + Counter({(0, 0): INNER, (GRID - 1, n - 1): INNER})


def naive(weights: np.ndarray) -> np.ndarray:
    """Every piece of a query asks, every piece of a key has its part of the key's weight."""
    dealt, found = pieces(len(weights)), np.zeros((GRID, GRID))
    sizes = Counter[int]()
    for (cell, _), count in dealt.items():
        sizes[cell] += count
    for ((row, i), asking), ((column, j), given) in itertools.product(dealt.items(), dealt.items()):
        found[row, column] += asking / sizes[row] * weights[i, j] * given / INNER
    return found


def random_map(n: int, seed: int = 0) -> Tensor:
    x = torch.rand(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x / x.sum(-1, keepdim=True)


def pooled(weights: Tensor) -> Tensor:
    return pooled_map(weights[None, None], torch.ones(1, len(weights), dtype=torch.bool))[0, 0]


@pytest.mark.parametrize("n", [3, 4, 5, 15, 16, 17, 30, 47])
def test_a_pooled_map_equals_cells_counted_out_piece_by_piece(n: int) -> None:
    weights = random_map(n)
    np.testing.assert_allclose(pooled(weights).numpy(), naive(weights.numpy()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 16, 100, LONGEST])
def test_rows_add_up_to_one_and_every_token_lies_in_the_cells_once(n: int) -> None:
    torch.testing.assert_close(pooled(random_map(n)).sum(-1), torch.ones(GRID).double(), rtol=0, atol=1e-12)
    inside = overlaps(torch.ones(1, n, dtype=torch.bool))[0]
    torch.testing.assert_close(inside.sum(0), torch.ones(n).double(), rtol=0, atol=1e-12)
    assert (inside.sum(-1) > 0).all()


def test_a_map_of_as_many_tokens_as_the_grid_has_cells_stays_as_it_is() -> None:
    torch.testing.assert_close(pooled(random_map(GRID)), random_map(GRID), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [3, 9, 16, 60, 300])
def test_a_uniform_map_gives_each_cell_its_size_in_every_row(n: int) -> None:
    expected = torch.full((GRID,), (n - 2) / INNER, dtype=torch.float64)
    expected[[0, -1]] = 1
    found = pooled(torch.full((n, n), 1 / n, dtype=torch.float64))
    torch.testing.assert_close(found, (expected / n).expand(GRID, -1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_diagonal_map_stays_diagonal_where_cells_hold_whole_tokens(times: int) -> None:
    torch.testing.assert_close(pooled(torch.eye(INNER * times + 2).double()), torch.eye(GRID).double(), rtol=0, atol=1e-12)


def test_the_diagonal_of_three_tokens_shares_the_middle_one_among_all_inner_cells() -> None:
    expected = torch.full((GRID, GRID), 1 / INNER, dtype=torch.float64)
    expected[[0, -1]], expected[:, [0, -1]] = 0.0, 0.0
    expected[0, 0] = expected[-1, -1] = 1.0
    torch.testing.assert_close(pooled(torch.eye(3).double()), expected, rtol=0, atol=1e-12)


def test_what_all_give_to_the_first_and_to_the_last_token_is_in_the_first_and_last_column() -> None:
    n = 37
    weights = torch.zeros(n, n, dtype=torch.float64)
    weights[:, 0], weights[:, -1] = 0.7, 0.3
    found = pooled(weights)
    torch.testing.assert_close(
        found[:, [0, -1]], torch.tensor([0.7, 0.3], dtype=torch.float64).expand(GRID, 2), rtol=0, atol=1e-12
    )
    assert float(found[:, 1:-1].abs().max()) == 0


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_tokens_alone_are_spread_over_all_cells(n: int) -> None:
    expected = torch.block_diag(*[torch.full((GRID // n, GRID // n), n / GRID)] * n).double()
    torch.testing.assert_close(pooled(torch.eye(n).double()), expected, rtol=0, atol=1e-12)


def test_pads_at_either_end_change_nothing_even_where_their_weights_are_not_numbers() -> None:
    weights = torch.full((2, 1, 24, 24), torch.nan, dtype=torch.float64)
    real = torch.zeros(2, 24, dtype=torch.bool)
    for row, begin in enumerate((0, 5)):
        real[row, begin : begin + 19] = True
        weights[row, 0, begin : begin + 19, begin : begin + 19] = random_map(19)
    found = pooled_map(weights, real)[:, 0]
    torch.testing.assert_close(found, pooled(random_map(19)).expand(2, -1, -1), rtol=0, atol=1e-12)


def test_the_table_has_the_mean_and_spread_over_examples_of_each_cell() -> None:
    batch = padded((30, 11, 6), extra=2)
    (trace,) = traces_of(tiny("bert", torch.float64), batch)[1:2]
    asked = request("gates")
    tally = Tally.for_needs(asked.needs())
    tally.add(trace)
    frame = tables_of(asked, tally)["gates.maps"]
    assert list(frame.columns) == ["measure", "site", "layer", "head", "query", "key", "value", "sd", "n"]
    heads = trace.weights.shape[1]
    assert len(frame) == heads * GRID**2
    each = np.array(
        [
            [naive(weights[real][:, real].numpy()) for weights in maps]
            for maps, real in zip(trace.weights, batch.real, strict=True)
        ]
    )
    for column, expected in (("value", each.mean(0)), ("sd", each.std(0, ddof=1))):
        found = frame.sort_values(["head", "query", "key"])[column].to_numpy(float).reshape(heads, GRID, GRID)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert set(frame["n"]) == {3}


def test_the_examples_are_those_that_are_scored(pure: LoadedModel, sentences: Corpus) -> None:
    for name, size in (("gates", 16), ("gates:examples=64", 63)):
        result = measure(pure, sentences, [name], Options(batch_size=9))
        assert set(result[name.replace("gates", "gates.maps", 1)]["n"]) == {size}
        kept = {need.quantity: dict(result.tally.of(need))[1].texts() for need in request(name).needs()}
        assert kept["pooled_maps"] == kept["gate_maps"]


def test_a_text_of_as_many_tokens_as_may_enter_is_pooled_whole() -> None:
    weights = torch.eye(LONGEST).roll(-200, dims=1)[None, None]
    real = torch.ones(1, LONGEST, dtype=torch.bool)
    trace = Trace(1, Batch.of_ids(real.long(), real), weights=weights, visible=torch.tensor([[LONGEST]]))
    values = sampled("pooled_maps", trace, examples="16").values
    np.testing.assert_allclose(values.reshape(GRID, GRID).numpy(), naive(weights[0, 0].numpy()), rtol=0, atol=1e-5)
