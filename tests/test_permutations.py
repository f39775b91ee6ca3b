"""The permutation control of the nearest cone: against a naive reference, valid under the null, powerful where classes differ."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binom

from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.trace import PooledOutput
from conoscope.corpora import Corpus, load_corpus
from conoscope.corpora.base import stable_hash
from conoscope.measures import request
from conoscope.measures.class_cones import permutations as module
from conoscope.measures.class_cones.directions import Examples
from conoscope.measures.class_cones.permutations import PERMUTATIONS, Permuted, permutations, permuted
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import measure
from conoscope.results.from_sums import tables_of
from conoscope.sums.numeric import mixed

SEEDS = 200
COLUMNS = ("value", "observed", "low", "high", "p", "permutations", "n")


def hashed(number: int) -> int:
    """The finalizer of splitmix64 on whole numbers, its upper bit left out: written apart from the library's."""
    whole = 2**64 - 1
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & whole
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & whole
    return (number ^ (number >> 31)) & (2**63 - 1)


def score_of(x: np.ndarray, labels: list[int], half: list[int], size: dict[int, int]) -> tuple[float, int]:
    """Loops over examples: those nearest to their own class, of those whose class has a direction in the other half."""
    u = x / np.linalg.norm(x, axis=-1, keepdims=True)
    right = scored = 0
    for i in range(len(u)):
        cosines = {}
        for c in sorted(size):
            members = [j for j in range(len(u)) if labels[j] == c and half[j] != half[i]]
            if members:
                mean = sum(u[j] for j in members) / len(members)
                if np.linalg.norm(mean) > 1e-9:
                    cosines[c] = float(u[i] @ mean / np.linalg.norm(mean))
        if labels[i] in cosines:
            near = [c for c, cosine in cosines.items() if cosine >= max(cosines.values()) - 1e-9]
            scored += 1
            right += max(near, key=lambda c: (size[c], -c)) == labels[i]
    return (right / scored if scored else np.nan), scored


def naive(x: np.ndarray, gold: np.ndarray, names: list[str]) -> dict[str, float]:
    """The control's row by its definition, from the vectors, labels and ids in any order."""
    ranks = [hashed(stable_hash(name)) for name in names]
    order = sorted(range(len(x)), key=lambda i: ranks[i])
    x, labels, ranks = x[order], [int(gold[i]) for i in order], [ranks[i] for i in order]
    size = {c: labels.count(c) for c in set(labels)}
    half = [rank % 2 for rank in ranks]
    observed, n = score_of(x, labels, half, size)
    scores = []
    for b in range(1, PERMUTATIONS + 1):
        dealt = sorted(range(len(x)), key=lambda i: hashed(ranks[i] ^ hashed(b)))
        scores.append(score_of(x, [labels[i] for i in dealt], half, size)[0])
    p = (1 + sum(not score < observed for score in scores)) / (1 + len(scores))
    found = (np.nanmedian(scores), observed, np.nanmin(scores), np.nanmax(scores), p, len(scores), n)
    return dict(zip(COLUMNS, found, strict=True))


def rows(x: np.ndarray, gold: np.ndarray, names: list[str], sizes: tuple[int, ...]) -> list[dict[str, float]]:
    """What the table says of shuffled labels, of examples in batches of these sizes."""
    asked = request("class_cones")
    tally, begin = Tally.for_needs(asked.needs()), 0
    for size in sizes:
        part = slice(begin, begin + size)
        batch = Batch.of_ids(torch.ones(size, 2, dtype=torch.long), torch.ones(size, 2, dtype=torch.bool))
        batch = replace(batch, ids=tuple(names[part]), label=torch.tensor(gold[part]))
        vectors = torch.tensor(x[part])
        there, answered = torch.ones(size, dtype=torch.bool), torch.full((size,), -1)
        tally.add(PooledOutput(1, 1, batch, there, answered, int(gold.max()) + 1, vectors, vectors, vectors))
        begin += size
    frame = tables_of(asked, tally).get("class_cones.nearest")
    if frame is None:
        return []
    return frame[(frame["site"] == "hidden") & (frame["control"] == "shuffled")].to_dict("records")


def items(count: int, width: int, weights: tuple[float, ...], seed: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    draw = np.random.default_rng(seed)
    gold = draw.choice(len(weights), size=count, p=weights)
    return draw.normal(size=(count, width)) + 0.3 * gold[:, None], gold, [f"text {number} of {seed}" for number in range(count)]


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.8, 0.1, 0.1), (0.08,) * 12 + (0.04,)])
def test_the_control_is_that_of_loops_in_any_order_and_in_any_batches(weights: tuple[float, ...]) -> None:
    x, gold, names = items(40, 4, weights, 3)
    x[10:20] = x[:10]  # texts that are there twice
    expected = naive(x, gold, names)
    other = np.random.default_rng(0).permutation(40)
    for order, sizes in ((np.arange(40), (40,)), (other, (7, 13, 20))):
        (row,) = rows(x[order], gold[order], [names[i] for i in order], sizes)
        assert row["representative"] == "held_out"
        for column in COLUMNS:
            assert row[column] == pytest.approx(expected[column], abs=1e-12), column
        assert np.isnan(row["agreement"])
        assert np.isnan(row["sd"])


def test_the_observed_score_is_that_of_the_held_out_directions_while_the_sample_is_complete() -> None:
    x, gold, names = items(60, 5, (0.6, 0.3, 0.1), 1)
    asked = request("class_cones")
    (row,) = rows(x, gold, names, (60,))
    tally = Tally.for_needs(asked.needs())
    batch = replace(
        Batch.of_ids(torch.ones(60, 2, dtype=torch.long), torch.ones(60, 2, dtype=torch.bool)),
        ids=tuple(names),
        label=torch.tensor(gold),
    )
    vectors, there = torch.tensor(x), torch.ones(60, dtype=torch.bool)
    tally.add(PooledOutput(1, 1, batch, there, torch.tensor(gold), 3, vectors, vectors, vectors))
    frame = tables_of(asked, tally)["class_cones.nearest"]
    frame = frame[frame["site"] == "hidden"]
    fair = frame[(frame["representative"] == "held_out") & (frame["control"] == "none")].iloc[0]
    assert row["observed"] == pytest.approx(fair["value"], abs=1e-12)
    assert (row["n"], row["chance"]) == (fair["n"], fair["chance"])
    assert frame[frame["control"] != "shuffled"][["observed", "low", "high", "p", "permutations"]].isna().all(axis=None)


def test_permutations_are_permutations_and_differ() -> None:
    found = permutations(mixed(torch.arange(50)), 200)
    assert (found.sort(-1).values == torch.arange(50)).all()
    assert len(found.unique(dim=0)) == 200


Made = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


def balanced(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return draw.normal(size=(24, 5)), draw.permutation(np.arange(24) % 2)


def unbalanced(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return draw.normal(size=(24, 5)), draw.permutation(np.repeat([0, 1, 2], [17, 5, 2]))


def duplicated(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return draw.normal(size=(3, 4))[draw.integers(3, size=24)], draw.permutation(np.arange(24) % 3)


def in_a_cone(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return 30 + draw.normal(size=(16, 3)), draw.permutation(np.arange(16) % 2)


def few(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return draw.normal(size=(6, 8)), draw.permutation(np.arange(6) % 2)


def examples_of(x: np.ndarray, gold: np.ndarray, seed: int) -> Examples:
    ranks = mixed(torch.tensor([stable_hash(f"{seed}:{number}") for number in range(len(x))])).sort().values
    norms = torch.tensor(np.linalg.norm(x, axis=-1))
    there = torch.tensor(gold)
    return Examples(torch.tensor(x) / norms[:, None], norms, there, there, ranks, [str(i) for i in range(len(x))])


def p_values(make: Made) -> np.ndarray:
    found = (permuted(examples_of(*make(np.random.default_rng(seed)), seed)) for seed in range(SEEDS))
    return np.array([1.0 if one is None else one.p for one in found])


@pytest.mark.parametrize("make", [balanced, unbalanced, duplicated, in_a_cone, few])
def test_where_labels_say_nothing_p_is_small_no_more_often_than_it_says(make: Made) -> None:
    p = p_values(make)
    assert p.min() >= 1 / (1 + PERMUTATIONS)
    for level in (0.01, 0.05, 0.1, 0.25, 0.5):
        assert (p <= level).sum() <= binom.ppf(0.999, SEEDS, level), level
    assert make is few or np.median(p) < 0.8, "nor is it always large"


def test_the_test_of_p_values_finds_a_score_that_knows_the_labels() -> None:
    """The same check on scores that are not of held-out examples: it must fail, or it could not."""

    def cheating(make: Made) -> np.ndarray:
        found = []
        for seed in range(SEEDS):
            examples = examples_of(*make(np.random.default_rng(seed)), seed)
            one = permuted(examples)
            assert one is not None
            sums = torch.stack([examples.units[examples.gold == c].sum(0) for c in (0, 1)])
            seen = float(((examples.units @ sums.T).argmax(-1) == examples.gold).double().mean())
            found.append(Permuted(seen, one.scored, one.scores).p)
        return np.array(found)

    assert (cheating(balanced) <= 0.05).sum() > binom.ppf(0.999, SEEDS, 0.05)


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.8, 0.1, 0.1)])
def test_where_classes_differ_p_is_below_one_in_a_hundred(weights: tuple[float, ...]) -> None:
    for seed in range(20):
        draw = np.random.default_rng(seed)
        gold = draw.choice(len(weights), size=60, p=weights)
        x = 3 * np.eye(6)[gold] + draw.normal(size=(60, 6))
        found = permuted(examples_of(x, gold, seed))
        assert found is not None
        assert found.p < 0.01
        assert found.observed > found.scores.max()


@pytest.mark.parametrize(
    ("gold", "same"),
    [([0, 1], False), ([0, 0], False), ([1, 1, 1, 1, 1, 1], False), ([0, 1, 2, 3, 4], False), ([0, 1, 0, 1, 0, 1], True)],
    ids=["two", "two of one class", "one class", "classes of one example", "one vector"],
)
def test_where_nothing_can_be_told_there_is_no_row(gold: list[int], same: bool) -> None:
    x = np.ones((len(gold), 3)) if same else np.random.default_rng(0).normal(size=(len(gold), 3))
    for seed in range(3):
        assert rows(x, np.array(gold), [f"{seed} {number}" for number in range(len(gold))], (len(gold),)) == []


def test_a_class_of_one_example_and_a_half_without_a_class_are_scored_by_the_others() -> None:
    x, gold, names = items(12, 3, (0.5, 0.5), 5)
    half = np.array([hashed(stable_hash(name)) % 2 for name in names])
    gold[:] = np.where(half == 0, 0, np.arange(12) % 2)  # class 1 in one half alone
    gold[np.flatnonzero(half == 0)[0]] = 2
    (row,) = rows(x, gold, names, (12,))
    expected = naive(x, gold, names)
    assert row["n"] == (gold == 0).sum()
    for column in COLUMNS:
        assert row[column] == pytest.approx(expected[column], abs=1e-12), column


@pytest.mark.parametrize("classes", [2, 30])
def test_sums_by_class_are_the_same_either_way(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    examples = examples_of(draw.normal(size=(200, 7)), draw.integers(classes, size=200), 0)
    found = []
    for dense, at_once in ((0, 1 << 21), (10**9, 1 << 21), (8, 1000)):
        monkeypatch.setattr(module, "DENSE", dense)
        monkeypatch.setattr(module, "AT_ONCE", at_once)
        found.append(permuted(examples))
    assert found[0] is not None
    for other in found[1:]:
        assert other is not None
        assert other.observed == found[0].observed
        torch.testing.assert_close(other.scores, found[0].scores, rtol=0, atol=0)


def test_with_many_classes_fewer_examples_are_taken_those_with_the_smallest_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    x, gold = draw.normal(size=(90, 7)), draw.integers(3, size=90)
    examples = examples_of(x, gold, 0)
    monkeypatch.setattr(module, "MANY", 20)
    monkeypatch.setattr(module, "FEWER", 50)
    found = permuted(examples)
    assert found is not None
    assert found.scored.shape == (90,)
    assert not found.scored[50:].any()
    monkeypatch.setattr(module, "MANY", 21)
    whole = permuted(examples)
    assert whole is not None
    assert whole.scored.all()


def test_the_control_of_an_untrained_model_and_of_permuted_labels_is_no_claim(pure: LoadedModel) -> None:
    corpus = Corpus.of(load_corpus("bistro:test").first(100), "some")
    found = []
    for seed in range(5):
        labels = np.random.default_rng(seed).permutation([example.label for example in corpus])
        dealt = Corpus.of([replace(e, label=label) for e, label in zip(corpus, labels, strict=True)], "dealt")
        frame = measure(pure, dealt, ["class_cones"])["class_cones.nearest"]
        found.append(frame[(frame["site"] == "hidden") & (frame["control"] == "shuffled")].iloc[0])
    assert all(row["low"] <= row["value"] <= row["high"] for row in found)
    assert all(abs(row["value"] - 0.5) < 0.05 for row in found), "the median of permutations is near chance"
    assert sum(row["p"] <= 0.05 for row in found) <= 1
