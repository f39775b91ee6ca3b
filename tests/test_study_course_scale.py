"""The study of the scale 1/√d: closed forms of entropy and gradients, and how its claims judge made-up rows."""

from math import e, log, sqrt
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch.func import jacrev, vmap

from conoscope.studies import STUDIES
from conoscope.studies.judging import judged
from conoscope.studies.published.course_scale import KEYS, STUDY, WIDTHS
from conoscope.studies.published.course_scale_reading import entropy, read, slope, slope_by_query
from conoscope.studies.reproducing import Reproducing, reproduce

CLAIMS = {claim.name: claim for claim in STUDY.claims}


def rows(**values: tuple[float, ...]) -> pd.DataFrame:
    """Three seeds that differ a little; `scaled_gradient` has one value for each of the widths."""
    made = []
    for name, by_width in values.items():
        scale, _, quantity = name.partition("_")
        for width, value in zip(WIDTHS, by_width, strict=True):
            keys = {"quantity": quantity.replace("_", "."), "scale": scale, "width": width}
            made += [{**keys, "seed": seed, "value": value * (1 + (seed + width % 3) * 1e-3)} for seed in range(3)]
    return pd.DataFrame(made)


def test_the_closed_form_of_the_gradient_is_that_of_automatic_differentiation() -> None:
    draws = torch.Generator().manual_seed(0)
    queries, keys = (torch.randn(count, 5, generator=draws, dtype=torch.float64) for count in (4, 7))
    for scale in (1.0, 5**-0.5):
        scores = scale * queries @ keys.T
        by_scores = vmap(jacrev(lambda s: s.softmax(-1)))(scores).flatten(1).norm(dim=1)
        assert torch.allclose(slope(scores.softmax(-1)), by_scores, atol=1e-12)
        by_query = vmap(jacrev(lambda q, scale=scale: (scale * q @ keys.T).softmax(-1)))(queries).flatten(1).norm(dim=1)
        assert torch.allclose(slope_by_query(scores.softmax(-1), keys, scale), by_query, atol=1e-12)


def test_even_weights_have_entropy_1_and_one_weight_alone_has_neither_entropy_nor_gradient() -> None:
    even, one = torch.full((8,), 1 / 8, dtype=torch.float64), torch.eye(8, dtype=torch.float64)[0]
    assert float(entropy(even)) == pytest.approx(1)
    assert float(slope(even)) == pytest.approx(sqrt(7) / 8)
    assert float(entropy(one)) == float(slope(one)) == 0


def test_with_the_scale_numbers_are_those_of_normal_scores_at_every_width_and_without_it_the_variance_is_the_width() -> None:
    found = {(row["quantity"], row["scale"], row["width"]): row["value"] for row in read(0)}
    for width in WIDTHS:
        assert found["variance", "unscaled", width] == pytest.approx(width, rel=0.6 if width < 16 else 0.3)
        assert found["variance", "scaled", width] == pytest.approx(found["variance", "unscaled", width] / width)
    wide = WIDTHS[-1]
    # For scores of variance 1 and many keys, H = log n - 1/2, Σp² = e / n, and Σp³ = e³ / n².
    assert found["entropy", "scaled", wide] == pytest.approx(1 - 0.5 / log(KEYS), abs=0.02)
    assert found["gradient", "scaled", wide] == pytest.approx(sqrt(e / KEYS + (e**2 - 2 * e**3) / KEYS**2), rel=0.05)


def test_a_seed_draws_vectors_of_its_own() -> None:
    assert list(read(1)) == list(read(1))
    assert list(read(1)) != list(read(2))


@pytest.mark.parametrize(
    ("claim", "holding", "failing"),
    [
        ("alike", {"scaled_gradient": (1, 1, 0.95, 1.05, 1)}, {"scaled_gradient": (1, 0.7, 0.5, 1.5, 2)}),
        ("alike", {"scaled_gradient_query": (1, 1, 0.95, 1.05, 1)}, {"scaled_gradient_query": (1, 0.7, 0.5, 1.5, 2)}),
        ("vanishing", {"unscaled_gradient": (1, 0.8, 0.5, 0.2, 0.1)}, {"unscaled_gradient": (1, 1.1, 1.3, 1.5, 1.7)}),
        ("sharpening", {"unscaled_entropy": (0.9, 0.8, 0.5, 0.2, 0.1)}, {"unscaled_entropy": (0.1, 0.2, 0.3, 0.4, 0.5)}),
    ],
)
def test_a_claim_holds_or_not(claim: str, holding: dict[str, tuple[float, ...]], failing: dict[str, tuple[float, ...]]) -> None:
    assert judged(CLAIMS[claim], rows(**holding)).answer == "holds"
    assert judged(CLAIMS[claim], rows(**failing)).answer == "does not hold"


def test_each_width_is_compared_with_the_next_narrower_one_of_the_same_seed() -> None:
    cases = {
        case.case: case.passing.mean
        for case in judged(CLAIMS["sharpening"], rows(unscaled_entropy=(0.9, 0.8, 0.5, 0.4, 0.1))).cases
    }
    assert list(cases) == [f"width {width}" for width in WIDTHS[1:]]
    assert cases["width 64"] == pytest.approx(0.3, abs=2e-3)


def test_the_quick_form_computes_every_width_with_and_without_the_scale(tmp_path: Path) -> None:
    options = Reproducing(quick=True, seeds=1, jobs=1, device="cpu", data_dir=str(tmp_path))
    record = reproduce("course-scale", tmp_path / "out", options)
    assert not record["failed"]
    assert len(record["means"]) == 4 * 2 * len(WIDTHS)
    assert STUDIES["course-scale"] is STUDY
