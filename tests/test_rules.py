"""Rules that the pages state to the last digit, written anew from the pages and compared."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conoscope.capture.batch import Batch
from conoscope.capture.trace import PooledOutput
from conoscope.corpora import Corpus, Example
from conoscope.explaining import Judging, plausibility
from conoscope.explaining.metrics import PlausibilityMetrics
from conoscope.explaining.selecting import Selection
from conoscope.measures import request
from conoscope.measures.correlation import ranks, spearman
from conoscope.measures.tally import Tally
from conoscope.measures.words import _explained_of
from conoscope.quantities.gate_scores import _fewest, _first_share
from conoscope.results.from_sums import tables_of

QUANTILES = ["q05", "q25", "q50", "q75", "q95"]


def page_ranks(numbers: list[float]) -> list[float]:
    """The ranks of docs/measures/frequency.md: chains of numbers that differ by 2e-6 at most share the middle of their places."""
    order = sorted(range(len(numbers)), key=lambda at: numbers[at])
    found, group = [0.0] * len(numbers), [order[0]] if order else []
    begin = 1
    for place, at in enumerate(order[1:], 2):
        before = numbers[order[place - 2]]
        if numbers[at] - before <= 2e-6 * abs(numbers[at]):
            group.append(at)
            continue
        for member in group:
            found[member] = (begin + place - 1) / 2
        group, begin = [at], place
    for member in group:
        found[member] = (begin + len(numbers)) / 2
    return found


@pytest.mark.parametrize(
    "numbers",
    [
        [1.0, 1.0 + 1.9e-6, 1.0 + 2.1e-6, 2.0],
        [1.0, 1.0 + 2.1e-6, 5.0],
        [1.0, 1.0000015, 1.000003, 1.0000045, 0.5],
        [-3.0, -3.000005, -3.00001, 0.0, 0.0, 1e-300],
        [-500_001.0, -500_000.0, -499_998.0, -499_997.0, -3.0],
        [-499_999.0, -499_998.0, -7.0, -7.0],
    ],
)
def test_ties_go_on_from_one_number_to_the_next(numbers: list[float]) -> None:
    assert ranks(torch.tensor(numbers, dtype=torch.float64)).tolist() == page_ranks(numbers)


@given(st.lists(st.floats(-10, 10).map(lambda x: round(x, 1)), min_size=1, max_size=30), st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_ranks_are_those_of_the_page(numbers: list[float], seed: int) -> None:
    blurred = (np.array(numbers) * (1 + 1e-6 * np.random.default_rng(seed).uniform(-2, 2, len(numbers)))).tolist()
    assert ranks(torch.tensor(blurred, dtype=torch.float64)).tolist() == page_ranks(blurred)


def test_there_is_no_correlation_of_two_numbers_or_of_one_tie() -> None:
    assert math.isnan(spearman(torch.tensor([1.0, 2.0]).double(), torch.tensor([1.0, 2.0]).double()))
    tied = torch.tensor([1.0, 1.0 + 1e-6, 1.0 + 2e-6]).double()
    assert math.isnan(spearman(tied, torch.tensor([1.0, 2.0, 3.0]).double()))


def page_k90(row: np.ndarray) -> int:
    """The keys of docs/measures/gates.md that are left when those are out whose sum stays at or below .1 + 1e-5."""
    total, left_out = row.dtype.type(0), 0
    for weight in np.sort(row):
        total += weight
        if total > 0.1 + 1e-5:
            break
        left_out += 1
    return len(row) - left_out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_k90_is_that_of_the_page_at_its_very_border(dtype: type) -> None:
    rows = [np.full(n, 1 / n) for n in (1, 2, 9, 10, 20, 100, 128)]
    rows += [np.array([0.9 - share, 0.1 + share]) for share in (0.0, 0.9e-5, 1.1e-5)]
    for row in rows:
        x = torch.from_numpy(row.astype(dtype))
        assert int(_fewest(x[None, None, None].expand(1, 1, len(row), -1))[0, 0, 0]) == page_k90(row.astype(dtype)), row
    assert page_k90(np.full(10, 0.1)) == 9
    assert [page_k90(np.array([0.9 - share, 0.1 + share])) for share in (0.0, 0.9e-5, 1.1e-5)] == [1, 1, 2]


def page_first_share(a: np.ndarray) -> float:
    """The subspace iteration of docs/measures/gates.md."""
    n = len(a)
    x = a / np.sqrt((a**2).sum())
    basis = np.cos(0.7 * np.outer(np.arange(1, n + 1), np.arange(8)))
    for _ in range(4):
        basis = x @ (x.T @ basis)
    seen = x.T @ np.linalg.qr(basis)[0]
    return float(np.linalg.eigvalsh(seen.T @ seen)[-1])


@pytest.mark.parametrize("n", [3, 8, 30, 100])
def test_the_first_share_is_that_of_the_page_and_never_above_the_true_one(n: int) -> None:
    draw = np.random.default_rng(n)
    for sharp in (0.0, 1.0, 4.0):
        a = np.exp(sharp * draw.normal(size=(n, n))) + np.eye(n)
        a /= a.sum(-1, keepdims=True)
        found = float(_first_share(torch.from_numpy(a)[None, None]))
        squares = np.linalg.svd(a, compute_uv=False) ** 2
        assert found == pytest.approx(page_first_share(a), abs=1e-9)
        assert found <= squares[0] / squares.sum() + 1e-12


def test_a_word_whose_vectors_differ_by_rounding_alone_has_no_explained_variance_when_centred() -> None:
    x = torch.ones(6, 4, dtype=torch.float64)
    for apart, there in ((1e-8, False), (1e-5, True)):
        x[0, 0] = 1 + apart
        centred = x - x.mean(0)
        assert (float(centred.square().sum()) > 1e-12 * float(x.square().sum())) == there
        assert math.isnan(_explained_of(True)(x)) != there
        assert not math.isnan(_explained_of(False)(x))


def cones(x: np.ndarray, gold: np.ndarray, predicted: np.ndarray, classes: int) -> tuple[dict[str, pd.DataFrame], np.ndarray]:
    """The tables of class cones of these vectors, and which half each example is of."""
    size, asked = len(x), request("class_cones")
    batch = Batch.of_ids(torch.ones(size, 2, dtype=torch.long), torch.ones(size, 2, dtype=torch.bool))
    batch = replace(batch, ids=tuple(f"example {number}" for number in range(size)), label=torch.tensor(gold))
    tally = Tally.for_needs(asked.needs())
    vectors = torch.tensor(x)
    there = torch.ones(size, dtype=torch.bool)
    tally.add(PooledOutput(1, 1, batch, there, torch.tensor(predicted), classes, vectors, vectors, vectors))
    return tables_of(asked, tally, [str(number) for number in range(classes)]), (batch.example_ranks % 2).numpy()


def test_a_class_in_one_half_has_a_held_out_direction_for_the_other_half_alone() -> None:
    draw, size = np.random.default_rng(0), 30
    x, gold = draw.normal(size=(size, 5)), np.arange(size) % 2
    half = cones(x, gold, gold, 3)[1]
    gold[np.flatnonzero(half == 0)[:4]] = 2
    frame = cones(x, gold, gold, 3)[0]["class_cones"]
    frame = frame[(frame["site"] == "hidden") & (frame["representative"] == "held_out")].set_index(["class", "gold"])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    for made in range(3):
        for of in range(3):
            each = []
            for i in range(size):
                others = unit[(gold == made) & (half != half[i])].sum(0)
                if gold[i] == of and others.any():
                    each.append(unit[i] @ others / np.linalg.norm(others))
            row = frame.loc[str(made), str(of)]
            assert row["n"] == len(each)
            if each:
                assert row["value"] == pytest.approx(np.mean(each), abs=1e-9)
                assert row["q50"] == pytest.approx(np.median(each), abs=1e-9)
            else:
                assert row[["value", *QUANTILES]].isna().all()
    assert frame.loc["2", "2"]["n"] == 0
    assert 0 < frame.loc["2", "0"]["n"] < frame.loc["0", "0"]["n"]


@given(st.integers(0, 10_000), st.integers(4, 16))
@settings(max_examples=30, deadline=None)
def test_where_nothing_was_counted_there_are_no_quantiles(seed: int, size: int) -> None:
    draw = np.random.default_rng(seed)
    gold, predicted = draw.integers(0, 4, size), draw.integers(0, 4, size)
    frame = cones(draw.normal(size=(size, 3)), gold, predicted, 5)[0]["class_cones"]
    nothing = frame["n"] == 0
    assert nothing.any()
    assert frame.loc[nothing, ["value", *QUANTILES]].isna().all(axis=None)
    own = (frame["representative"] == "mean") & (frame["class"] == frame["gold"])
    assert frame.loc[~nothing & ~own, QUANTILES].notna().all(axis=None)


UNMARKED = (np.array([0.9, 0.1, 0.5]), np.zeros(3, dtype=bool))
MARKED = (np.array([0.9, 0.1, 0.5]), np.array([True, False, False]))


def test_what_metrics_are_where_nothing_is_marked() -> None:
    chosen = PlausibilityMetrics([UNMARKED], Judging(sentences="all")).alone
    assert {name: float(value[0]) for name, value in chosen.items()} == pytest.approx(
        {
            "precision": 0, "f1": 0, "iou": 0, "density": 0, "iou_both_classes": 1 / 6,
            **dict.fromkeys(("recall", "auroc", "auprc", "au_precision", "au_recall"), math.nan),
        },
        nan_ok=True,
    )  # fmt: skip
    none = PlausibilityMetrics([UNMARKED], Judging(sentences="all", binary="top")).alone
    assert {name for name, value in none.items() if not math.isnan(value[0])} == {"density"}


def test_all_sentences_count_those_without_a_mark_as_false_alarms() -> None:
    metrics = PlausibilityMetrics([MARKED, UNMARKED], Judging(sentences="all"))
    values = {key: float(value[0]) for key, value in metrics.values(np.ones((1, 2))).items()}
    counts = metrics.counts()
    assert values["precision", "macro"] == pytest.approx((1 / 2 + 0) / 2)
    assert counts["precision", "macro"] == (2, 0)
    assert values["precision", "micro"] == pytest.approx(1 / 4)
    assert values["recall", "macro"] == pytest.approx(1)
    assert counts["recall", "macro"] == (1, 1)


def test_the_command_of_all_sentences_is_that_too() -> None:
    texts = [
        Example("good soup today", "a", rationale=(True, False, False)),
        Example("no word here", "b", rationale=(False,) * 3),
    ]
    frame = plausibility(Corpus.of(texts, "two"), judging=Judging(sentences="all", resamples=10))["plausibility"]
    rows = frame[frame["average"] == "macro"].set_index("metric")
    assert (rows.loc["precision", "n"], rows.loc["precision", "undefined"]) == (2, 0)
    assert (rows.loc["recall", "n"], rows.loc["recall", "undefined"]) == (1, 1)


def page_mass(scores: list[float], share: float) -> list[int]:
    """The fewest words that hold a share of what is above 0, the highest first, the first of equals first; one at least."""
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
    total = sum(score for score in scores if score > 0)
    held, chosen = 0.0, []
    for at in order:
        if chosen and held >= share * total * (1 - 1e-12):
            break
        chosen.append(at)
        held += max(scores[at], 0.0)
    return [int(at in chosen) for at in range(len(scores))]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([-3.0, -1.0, -2.0], [0, 1, 0]), ([0.0, 0.0, 0.0], [1, 0, 0]), ([-1.0, 0.0, 0.0], [0, 1, 0]), ([-2.0], [1])],
)
def test_where_no_score_is_above_0_mass_chooses_the_word_with_the_highest(scores: list[float], expected: list[int]) -> None:
    for share in (0.0, 0.5, 0.8, 1.0):
        chosen = Selection.of(f"mass={share}").chosen(np.array(scores), np.zeros(len(scores), dtype=bool))
        assert chosen.astype(int).tolist() == expected == page_mass(scores, share)


@given(st.lists(st.integers(-4, 6).map(float), min_size=1, max_size=12), st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0]))
@settings(max_examples=100, deadline=None)
def test_mass_is_that_of_the_page(scores: list[float], share: float) -> None:
    chosen = Selection.of(f"mass={share}").chosen(np.array(scores), np.zeros(len(scores), dtype=bool))
    assert chosen.astype(int).tolist() == page_mass(scores, share)
