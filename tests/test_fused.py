"""The kernels against the torch operations that they replace, run by Triton's interpreter where there is no GPU."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from architectures import FOLLOWED, SHAPES, padded, tiny
from conoscope.capture import fused, fused_vectors
from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.reductions import REDUCTIONS
from conoscope.capture.site_sums import overflows, site_sums
from conoscope.capture.softmax import PlainAttention
from conoscope.measures import CATALOGUE, request
from conoscope.measures.base import QUANTILES
from conoscope.measures.tally import Tally
from conoscope.measuring.running import Runner
from conoscope.quantities import reductions as by_torch
from conoscope.quantities.transformed import summed_norms
from conoscope.results.result import Result
from test_measures import PROVENANCE
from textbook import of_kinds

pytest.importorskip("triton", reason="Triton, which compiles the kernels, is not installed")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HALF = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
"""Triton's interpreter multiplies the bits of bfloat16, not its numbers."""
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy, in the interpreter, of NaN and infinity
LENGTHS = (40, 23, 12, 1)
"""More than one block of queries and of keys in float32 (see the fixture), and less."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused.Blocks, "of", lambda width, dtype: fused.Blocks(32, 16))


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def a_batch() -> Batch:
    return of_kinds(LENGTHS, extra=3).to(DEVICE)


def window(batch: Batch, reach: int = 4) -> Tensor:
    """A sliding window, as ModernBERT's: keys within reach, and no padding."""
    places = torch.arange(batch.real.shape[1], device=DEVICE)
    near = (places[:, None] - places).abs() <= reach
    return near[None, None] & batch.real[:, None, None]


MASKS = {
    "nothing hidden": lambda batch: (None, False),
    "causal": lambda batch: (None, True),
    "padding": lambda batch: (batch.real[:, None, None].expand(-1, 1, batch.real.shape[1], -1), False),
    "a window": lambda batch: (window(batch), False),
    "the same for all texts": lambda batch: (window(batch)[:1], False),
    "by head": lambda batch: (torch.cat([window(batch, reach) for reach in (1, 2, 4, 8)], dim=1), False),
}


def attention(batch: Batch, mask: str, groups: int = 4, width: int = 8, dtype: torch.dtype = torch.float32) -> PlainAttention:
    rows, tokens = batch.real.shape
    query = random(rows, tokens, 4, width).transpose(1, 2)  # heads of a token side by side, as models have them
    key, value = (random(rows, tokens, groups, width, seed=seed).transpose(1, 2) for seed in (1, 2))
    hidden, causal = MASKS[mask](batch)
    return PlainAttention(*(x.to(DEVICE, dtype) for x in (query, key, value)), hidden, causal, 2.0 / math.sqrt(width))


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("mask", MASKS)
def test_every_reduction_equals_that_of_whole_weights(mask: str, groups: int, dtype: torch.dtype) -> None:
    batch = a_batch()
    plain = attention(batch, mask, groups, dtype=dtype)
    found = fused.FusedAttention(plain, batch).reduced()
    exact = replace(plain, **{name: getattr(plain, name).double() for name in ("query", "key", "value")})
    _, expected = exact.attend(REDUCTIONS, batch)
    assert found.keys() == expected.keys()
    for name, one in found.items():
        other = expected[name]
        assert one.dtype == torch.float32
        if REDUCTIONS[name].of == "query":  # what padded queries do is nobody's
            one, other = (x.transpose(1, 2)[batch.real] for x in (one, other))
        torch.testing.assert_close(one.double(), other, rtol=2e-5, atol=2e-6, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("scale", [1e-4, 1.0, 40.0], ids=["even", "spread", "one key"])
def test_no_entropy_is_negative_and_none_is_above_the_largest(scale: float) -> None:
    """log Σ exp - q·Σpk cancels where attention is sharp; the sums of the kernel do not."""
    batch = a_batch()
    plain = replace(attention(batch, "padding", dtype=HALF), scale=scale)
    entropy = fused.FusedAttention(plain, batch).reduced()["entropy"].transpose(1, 2)[batch.real]
    assert bool((entropy >= 0).all())
    most = batch.length.expand_as(batch.real)[batch.real].log()[:, None]
    assert bool((entropy <= most * (1 + 1e-5) + 1e-6).all())
    exact = replace(plain, query=plain.query.double(), key=plain.key.double(), value=plain.value.double())
    _, expected = exact.attend(["entropy"], batch)
    torch.testing.assert_close(entropy.double(), expected["entropy"].transpose(1, 2)[batch.real], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("shift", [0.0, 300.0], ids=["small scores", "large scores"])
def test_weights_are_at_most_one_and_sharp_ones_are_one(shift: float) -> None:
    """Sums of exponentials are kept apart from the largest score: their logarithm would be rounded at its size."""
    batch = a_batch()
    plain = attention(batch, "padding")
    ones = torch.ones_like(plain.query[..., :1])
    plain = replace(plain, scale=1.0, query=torch.cat((plain.query * 9, shift * ones), -1), key=torch.cat((plain.key, ones), -1))
    found = fused.FusedAttention(plain, batch).reduced()
    exact = replace(plain, query=plain.query.double(), key=plain.key.double(), value=plain.value.double())
    _, expected = exact.attend(("band", "classifying", "paired", "entropy"), batch)
    for name, other in expected.items():
        one = found[name].double()
        if REDUCTIONS[name].of == "query":
            one, other = (x.transpose(1, 2)[batch.real] for x in (one, other))
        # The score itself is rounded at its size.
        error = 2e-5 if shift == 0 else 2e-4
        # A GPU rounds a product in the same way wherever it is in a block; NumPy, in the interpreter, does not.
        assert name == "entropy" or float(one.max()) <= (1.0 if DEVICE.type == "cuda" else 1.0 + error)
        torch.testing.assert_close(one, other, rtol=0, atol=error)


def test_queries_of_padding_give_no_weight() -> None:
    batch = a_batch()
    plain = attention(batch, "nothing hidden")
    received = fused.FusedAttention(plain, batch).reduced()["received"]
    torch.testing.assert_close(received[:, :, 0].sum(-1), batch.length.float().expand(-1, 4), rtol=1e-5, atol=1e-5)


def sites(batch: Batch, dtype: torch.dtype) -> dict[str, Tensor]:
    """Vectors by head and whole, in several layouts; one text all alike, one with a huge coordinate."""
    rows, tokens = batch.real.shape
    made = {
        "value": random(rows, tokens, 4, 6),
        "key": random(rows, 4, tokens, 6, seed=1).transpose(1, 2),
        "hidden": random(rows, tokens, 1, 24, seed=2) + 3,
        "output": random(rows, tokens, 1, 24, seed=3),
    }
    made["hidden"][0] = 0.25
    made["output"][1, :, :, 5] = 1000
    made["value"][2, 3] = 0
    return {name: x.to(DEVICE, dtype) for name, x in made.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_of_vectors_equal_those_by_torch(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "runs_on", lambda device, dtype: True)
    monkeypatch.setattr(fused_vectors, "SUMMED", 64)
    batch, masks = a_batch(), {"hidden": {"content"}, "value": {"real", "content"}, "key": {"real"}, "output": {"real"}}
    vectors = sites(batch, dtype)
    found = site_sums(vectors, batch, masks)
    assert found.keys() == vectors.keys()
    for site, x in vectors.items():
        exact = x.double()
        norms = torch.linalg.vector_norm(exact, dim=-1)
        torch.testing.assert_close(found[site].lengths.double(), norms, rtol=1e-6, atol=1e-7)
        assert found[site].totals.keys() == masks[site]
        for mask, totals in found[site].totals.items():
            keep = by_torch.kept(batch, mask, torch.float64)
            expected = by_torch._totals(exact.flatten(2), norms, keep)
            torch.testing.assert_close(totals.double(), expected, rtol=1e-5, atol=1e-4 if site == "output" else 1e-5)
            spread = by_torch.spread_of(exact.flatten(2), by_torch.mask_of(batch, mask), x.shape[2])
            got = found[site].spreads[mask]
            got = got if got.shape == spread.shape else got.sum(-1, keepdim=True)
            torch.testing.assert_close(got.double(), spread.nan_to_num(0.0), rtol=1e-4, atol=1e-6)
    assert found["hidden"].spreads["content"][0].sum() == 0
    assert overflows(batch).tolist() == [0] * len(LENGTHS)


@pytest.mark.parametrize("summed", [16, 256])
def test_a_spread_is_exact_wherever_the_first_vector_is_and_zero_only_where_all_are_the_same(
    summed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first token of many models is far from all others."""
    monkeypatch.setattr(fused, "runs_on", lambda device, dtype: True)
    monkeypatch.setattr(fused_vectors, "SUMMED", summed)
    batch = padded((40, 40, 40, 40)).to(DEVICE)
    x = random(4, 40, 2, 8).to(DEVICE)
    x[0, 0] += 3000
    x[1] = 0.1 + 1e-6 * x[1]
    x[2] = 1 / 3
    x[3, 20:] = x[3, 20] + 1e4
    spread = site_sums({"value": x}, batch, {"value": {"real"}})["value"].spreads["real"]
    expected = (x.double() - x.double().mean(1, keepdim=True)).square().sum((1, 3))
    torch.testing.assert_close(spread.double(), expected, rtol=3e-6, atol=0)
    assert bool((spread[2] == 0).all())


def test_sites_that_no_mask_sums_have_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "runs_on", lambda device, dtype: True)
    batch = a_batch()
    vectors = sites(batch, torch.float32)
    masks = {"key": {"real"}, "output": {"content", "real"}}
    found, alone = (
        site_sums(vectors, batch, masks),
        {site: site_sums({site: x}, batch, masks)[site] for site, x in vectors.items()},
    )
    for site, x in vectors.items():
        torch.testing.assert_close(found[site].lengths, torch.linalg.vector_norm(x, dim=-1), rtol=1e-6, atol=1e-6)
        assert found[site].totals.keys() == masks.get(site, set())
        for mask, totals in found[site].totals.items():
            torch.testing.assert_close(totals, alone[site].totals[mask], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
def test_a_vector_that_is_not_finite_flags_its_text_and_padding_does_not(bad: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "runs_on", lambda device, dtype: True)
    batch = padded((5, 4, 3)).to(DEVICE)
    x = random(3, 5, 2, 4).to(DEVICE)
    x[1, 3, 1, 2] = x[2, 4, 0, 0] = bad
    site_sums({"value": x}, batch, {"value": {"real"}})
    assert overflows(batch).tolist() == [0, 1, 0]


def test_norms_of_transformed_vectors_and_of_their_sums_equal_those_by_torch() -> None:
    batch = a_batch()
    (rows, tokens), drawn = batch.real.shape, 5
    value, weight = random(rows, 2, tokens, 6).to(DEVICE), random(4, 6, 10, seed=1).to(DEVICE)
    f = value.repeat_interleave(2, dim=1) @ weight
    found = fused_vectors.transformed_norms(value, weight @ weight.mT)
    torch.testing.assert_close(found, torch.linalg.vector_norm(f, dim=-1), rtol=1e-5, atol=1e-5)
    columns, by_key = torch.rand(rows, 4, tokens, drawn, device=DEVICE), f[:, :, :drawn].transpose(1, 2)
    gram = by_key @ by_key.mT
    norms = summed_norms(columns.permute(0, 3, 1, 2).flatten(0, 1), by_key.flatten(0, 1)).unflatten(0, (rows, drawn))
    expected = norms.where(batch.real[:, None], 0.0).sum(-1) / batch.length
    torch.testing.assert_close(fused_vectors.summed_norms(columns, gram, batch.real.float()), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [4, 2])
def test_no_vector_of_a_head_is_needed_for_products_of_heads_and_for_what_a_token_gives_itself(groups: int) -> None:
    batch, at = a_batch(), torch.tensor([[5, 0, 3], [1, 2, 3], [4, 0, 1], [2, 2, 0]], device=DEVICE)
    tokens = batch.real.shape[1]
    value, weight = random(4, tokens, groups, 6).to(DEVICE).transpose(1, 2), random(4, 6, 70, seed=1).to(DEVICE)
    f = (value.repeat_interleave(4 // groups, dim=1).double() @ weight.double()).transpose(1, 2)
    whole = weight.flatten(0, 1)
    by_key = f[torch.arange(4)[:, None], at]
    gram = fused_vectors.head_grams(value, at, whole @ whole.mT)
    torch.testing.assert_close(gram.double(), by_key @ by_key.mT, rtol=1e-5, atol=1e-4)
    own, places = (
        torch.rand(4, 4, tokens, 3, device=DEVICE)[..., 1],
        torch.tensor([0, 7, tokens + 3, 4 * tokens - 1], device=DEVICE),
    )
    expected = (f * own.transpose(1, 2)[..., None]).sum(2).flatten(0, 1)[places]
    found = fused_vectors.weighted_vectors(value, places, own, weight)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("size", "step"), [(4, 2), (16, 16), (64, 1)])
def test_a_block_of_queries_has_every_key_that_one_of_them_sees(size: int, step: int) -> None:
    seen = torch.rand(3, 23, 23, generator=torch.Generator().manual_seed(0)) < 0.1
    seen[1] = False
    first, last = fused.block_ranges(seen, size, step)
    for row in range(3):
        for block in range(first.shape[1]):
            columns = seen[row, block * size : (block + 1) * size].any(0).nonzero()[:, 0].tolist()
            expected = (min(columns) // step * step, max(columns) + 1) if columns else (0, 0)
            assert (int(first[row, block]), int(last[row, block])) == expected


RANKED = ("norms.cancel_out", "frequency", "gates.names", "vector_norms.histogram")
"""Tables of ranks, names and bins, which move by steps."""


def tables(name: str, monkeypatch: pytest.MonkeyPatch, kernels: bool) -> dict[str, pd.DataFrame]:
    """Every table of the catalogue, in single precision, and the way that was chosen."""
    tally = Tally.for_needs(need for wanted in CATALOGUE for need in request(wanted).needs())
    loaded = LoadedModel(tiny(name).to(DEVICE), None, name, ())
    with monkeypatch.context() as patched:
        patched.setattr(fused, "runs_on", lambda device, dtype: kernels and dtype in fused.DTYPES)
        with Runner(loaded, tally) as runner:
            for lengths in ((24, 9, 17, 5), (30, 1, 12, 26)):
                batch = replace(of_kinds(lengths, extra=2), ids=tuple(f"{lengths} {row}" for row in range(4)))
                batch = replace(batch, label=torch.tensor([0, 1, 2, 0]), classes=3, place=batch.place + sum(lengths))
                assert all(bool(outcome.finite.all()) for outcome in runner([batch]))
            assert runner.capture.choice.way == ("fused" if kernels else "softmax")
    return Result(tally, {**PROVENANCE, "options": {"kinds": {"negation": []}}}).tables


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in FOLLOWED])
def test_no_table_of_the_catalogue_changes_if_kernels_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the rounding of single precision; a sum of other tokens, heads or layers would be far off."""
    found, expected = (tables(name, monkeypatch, kernels) for kernels in (True, False))
    assert found.keys() == expected.keys()
    for table, frame in expected.items():
        if table in RANKED:
            continue
        assert len(frame) == len(found[table]), table
        for column in (column for column in frame if column not in QUANTILES):
            if frame[column].dtype.kind == "f":
                one, other = (x[column].to_numpy(float) for x in (found[table], frame))
                np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3, err_msg=f"{table} {column}")
            else:
                assert frame[column].equals(found[table][column]), f"{table} {column}"
