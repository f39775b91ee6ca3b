"""Class cones, the nearest-cone classifier and capacity: against naive references, planted directions, and controls."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.capture.recorder import Capture
from conoscope.capture.trace import PooledOutput
from conoscope.common.errors import MeasureError
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.measures import CATALOGUE, request
from conoscope.measures.capacity import random_largest, simplex
from conoscope.measures.class_cones.directions import medoid
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import Options, measure
from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.quantities import classes as quantities
from conoscope.results.from_sums import tables_of
from conoscope.results.result import Result

CLASSES = 3


def cloud(count: int = 40, width: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors around a direction of their class, labels, and answers that are often right."""
    draw = np.random.default_rng(seed)
    gold = draw.integers(0, CLASSES, count)
    x = draw.normal(size=(CLASSES, width))[gold] + 0.7 * draw.normal(size=(count, width))
    predicted = np.where(draw.random(count) < 0.7, gold, draw.integers(0, CLASSES, count))
    return x, gold, predicted


def answers(x: np.ndarray, gold: np.ndarray, predicted: np.ndarray, sizes: tuple[int, ...]) -> Iterator[PooledOutput]:
    """The same examples in batches of these sizes, one layer of one."""
    begin = 0
    for size in sizes:
        part = slice(begin, begin + size)
        batch = Batch.of_ids(torch.ones(size, 2, dtype=torch.long), torch.ones(size, 2, dtype=torch.bool))
        names = tuple(f"example {number}" for number in range(begin, begin + size))
        batch = replace(batch, ids=names, place=torch.arange(begin, begin + size) + 1, label=torch.tensor(gold[part]))
        there = torch.ones(size, dtype=torch.bool)
        vectors = torch.tensor(x[part])
        yield PooledOutput(1, 1, batch, there, torch.tensor(predicted[part]), CLASSES, vectors, vectors, vectors)
        begin += size


def tables(items: tuple[np.ndarray, np.ndarray, np.ndarray], sizes: tuple[int, ...] = (11, 29), name: str = "class_cones"):  # type: ignore[no-untyped-def]
    asked = request(name)
    tally = Tally.for_needs(asked.needs())
    for answer in answers(*items, sizes):
        tally.add(answer)
    return tables_of(asked, tally, [str(number) for number in range(CLASSES)])


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def select(frame, **where):  # type: ignore[no-untyped-def]
    frame = frame[frame["site"] == "hidden"]
    for key, wanted in where.items():
        frame = frame[frame[key.rstrip("_")] == wanted]
    assert len(frame) == 1, f"{where} names {len(frame)} rows"
    return frame.iloc[0]


def firsts(gold: np.ndarray, predicted: np.ndarray) -> list[int]:
    """Of each class the first example that is right."""
    return [next(i for i in range(len(gold)) if gold[i] == predicted[i] == c) for c in range(CLASSES)]


def test_cosines_with_the_first_correct_example_and_with_the_mean_direction_equal_loops() -> None:
    x, gold, predicted = items = cloud()
    u, first = unit(x), firsts(gold, predicted)
    frame = tables(items)["class_cones"]
    for c in range(CLASSES):
        mean = unit(u[gold == c].sum(0))
        for g in range(CLASSES):
            expected = {
                "first": [u[i] @ u[first[c]] for i in range(len(x)) if gold[i] == g and i != first[c]],
                "mean": [u[i] @ mean for i in range(len(x)) if gold[i] == g],
            }
            for kind, each in expected.items():
                row = select(frame, representative=kind, class_=str(c), gold=str(g))
                assert row["value"] == pytest.approx(np.mean(each), abs=1e-9)
                assert row["sd"] == pytest.approx(np.std(each, ddof=1), abs=1e-9)
                assert row["n"] == len(each)
            row = select(frame, representative="first", class_=str(c), gold=str(g))
            assert row["q50"] == pytest.approx(np.median(expected["first"]), abs=1e-9)
            assert row["q05"] == pytest.approx(np.quantile(expected["first"], 0.05), abs=1e-9)


def halves(count: int) -> np.ndarray:
    """Which half of the corpus each example belongs to."""
    batch = replace(next(answers(*cloud(count), (count,))).batch)
    return (batch.example_ranks % 2).numpy()


def test_held_out_directions_are_made_of_the_other_half() -> None:
    x, gold, _ = items = cloud()
    u, half = unit(x), halves(len(x))
    frame = tables(items)["class_cones"]
    for c in range(CLASSES):
        made = [unit(u[(gold == c) & (half == h)].sum(0)) for h in (0, 1)]
        for g in range(CLASSES):
            expected = np.mean([u[i] @ made[1 - half[i]] for i in range(len(x)) if gold[i] == g])
            assert select(frame, representative="held_out", class_=str(c), gold=str(g))["value"] == pytest.approx(
                expected, abs=1e-9
            )


def test_centred_quantiles_are_of_cosines_around_the_mean_of_the_representatives() -> None:
    x, gold, predicted = items = cloud()
    x[:] += 20
    u, half, first = unit(x), halves(len(x)), firsts(gold, predicted)
    frame = tables(items)["class_cones"]
    made = {
        "held_out": [np.stack([unit(u[(gold == c) & (half == h)].sum(0)) for c in range(CLASSES)]) for h in (1, 0)],
        "first": [u[first], u[first]],
    }
    for kind, of_halves in made.items():
        for c in range(CLASSES):
            for g in range(CLASSES):
                each = []
                for i in range(len(x)):
                    if gold[i] == g and not (kind == "first" and i == first[c]):
                        directions = of_halves[half[i]]
                        m = directions.mean(0)
                        each.append(unit(u[i] - m) @ unit(directions[c] - m))
                row = select(frame, representative=kind, class_=str(c), gold=str(g))
                assert row["q05"] > 0.9
                for name, level in (("centred_q05", 0.05), ("centred_q50", 0.5), ("centred_q95", 0.95)):
                    assert row[name] == pytest.approx(np.quantile(each, level), abs=1e-9)
    assert frame[frame["representative"].isin(["mean", "medoid"])]["centred_q50"].isna().all()


def test_one_class_has_nothing_to_be_centred_on() -> None:
    x, gold, predicted = cloud()
    frame = tables((x, np.zeros_like(gold), np.zeros_like(predicted)))["class_cones"]
    assert frame["q50"].notna().any()
    assert frame["centred_q50"].isna().all()


def test_with_a_class_in_one_half_alone_held_out_cosines_are_those_of_the_other_half() -> None:
    x, gold, predicted = cloud()
    half, u = halves(len(x)), unit(x)
    gold = np.where(half == 0, gold % 2, gold)
    assert (gold == 2).any()
    frame = tables((x, gold, predicted))["class_cones"]
    for c in range(CLASSES):
        for g in range(CLASSES):
            each = []
            for i in (i for i in range(len(x)) if gold[i] == g):
                members = u[(gold == c) & (half != half[i])]
                each += [u[i] @ unit(members.sum(0))] if len(members) else []
            row = select(frame, representative="held_out", class_=str(c), gold=str(g))
            assert row["n"] == len(each)
            if each:
                assert row["value"] == pytest.approx(np.mean(each), abs=1e-9)
                assert row["q50"] == pytest.approx(np.median(each), abs=1e-9)
            else:
                assert np.isnan(row["q50"])


def test_the_medoid_is_the_member_with_the_largest_median_cosine() -> None:
    x, gold, _ = items = cloud()
    u = unit(x)
    frame = tables(items)["class_cones"]
    for c in range(CLASSES):
        members = [i for i in range(len(x)) if gold[i] == c]
        best = max(members, key=lambda i: np.median([u[i] @ u[j] for j in members if j != i]))
        assert members[medoid(torch.tensor(u[members]), [f"example {i}" for i in members])] == best
        for g in range(CLASSES):
            each = [u[i] @ u[best] for i in range(len(x)) if gold[i] == g and i != best]
            row = select(frame, representative="medoid", class_=str(c), gold=str(g))
            assert row["value"] == pytest.approx(np.mean(each), abs=1e-9)
            assert row["n"] == len(each)


def naive_medoid(u: np.ndarray, names: list[str]) -> int:
    """Loops: the largest median, then the largest mean, each up to 1e-6, then the first name."""
    left = list(range(len(u)))
    for score in (np.median, np.mean):
        of = {i: score([u[i] @ u[j] for j in range(len(u)) if j != i]) for i in left}
        left = [i for i in left if of[i] >= max(of.values()) - 1e-6]
    return min(left, key=lambda i: names[i])


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9])
def test_the_medoid_is_the_same_in_any_order_of_examples_and_coordinates_and_under_rounding(count: int) -> None:
    for seed in range(20):
        draw = np.random.default_rng(seed)
        # Of two vectors each has the same cosine with the other; those that are there twice are alike with all others.
        u = unit(draw.normal(size=(count, 4))[draw.integers(count, size=count)] + 2)
        names = [f"text {number}" for number in draw.permutation(count)]
        expected = names[naive_medoid(u, names)]
        for _ in range(5):
            order, heads = draw.permutation(count), draw.permutation(4)
            noisy = unit(u[order][:, heads] + 1e-8 * draw.normal(size=u.shape))
            assert [names[i] for i in order][medoid(torch.tensor(noisy), [names[i] for i in order])] == expected


def test_examples_like_the_medoid_are_scored_with_it_and_it_alone_is_left_out() -> None:
    x, gold, predicted = cloud(12)
    x[gold == 0] = x[gold == 0][0]
    frame = tables((x, gold, predicted), (12,))["class_cones"]
    for kind in ("medoid", "first"):
        assert select(frame, representative=kind, class_="0", gold="0")["n"] == (gold == 0).sum() - 1


def test_cosines_between_representatives_equal_theirs() -> None:
    x, gold, predicted = items = cloud()
    u, first = unit(x), firsts(gold, predicted)
    frame = tables(items)["class_cones.between"]
    means = [unit(u[gold == c].sum(0)) for c in range(CLASSES)]
    for c, other in ((0, 1), (0, 2), (1, 2)):
        keys = {"class_": str(c), "other_class": str(other)}
        assert select(frame, representative="mean", **keys)["value"] == pytest.approx(means[c] @ means[other], abs=1e-9)
        assert select(frame, representative="first", **keys)["value"] == pytest.approx(u[first[c]] @ u[first[other]], abs=1e-9)


def test_true_and_wrong_means_have_margins_and_the_accuracy_of_the_class_beside_them() -> None:
    x, gold, predicted = items = cloud()
    u, first = unit(x), firsts(gold, predicted)
    found = tables(items)
    true, right = [], []
    for c in range(CLASSES):
        own, other = (
            [u[i] @ u[first[c]] for i in range(len(x)) if i != first[c] and (gold[i] == c) == same] for same in (True, False)
        )
        row = select(found["class_cones.classes"], representative="first", class_=str(c))
        assert row["value"] == pytest.approx(np.mean(own), abs=1e-9)
        assert row["margin"] == pytest.approx(2 * np.std(own, ddof=1) / len(own) ** 0.5, abs=1e-9)
        assert row["wrong"] == pytest.approx(np.mean(other), abs=1e-9)
        assert row["wrong_margin"] == pytest.approx(2 * np.std(other, ddof=1) / len(other) ** 0.5, abs=1e-9)
        assert row["accuracy"] == pytest.approx(np.mean(predicted[gold == c] == c), abs=1e-12)
        true.append(np.mean(own))
        right.append(np.mean(predicted[gold == c] == c))
    row = select(found["class_cones.correlation"], representative="first")
    assert row["value"] == pytest.approx(np.corrcoef(true, right)[0, 1], abs=1e-9)
    ranks = (pd.Series(values).rank() for values in (true, right))
    assert row["spearman"] == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-9)


def test_the_nearest_cone_classifier_scores_no_example_with_what_it_made() -> None:
    x, gold, predicted = items = cloud(60, 3)
    u, norms, first, half = unit(x), np.linalg.norm(x, axis=-1), firsts(gold, predicted), halves(60)
    everyone = range(len(x))

    def mean_without(c: int, i: int) -> np.ndarray:
        return unit(u[[j for j in everyone if gold[j] == c and j != i]].sum(0))

    chosen = {
        ("none", "mean"): [max(range(CLASSES), key=lambda c: u[i] @ mean_without(c, i)) for i in everyone],
        ("none", "first"): [max(range(CLASSES), key=lambda c: u[i] @ u[first[c]]) for i in everyone],
        ("none", "held_out"): [
            max(range(CLASSES), key=lambda c: u[i] @ unit(u[(gold == c) & (half != half[i])].sum(0))) for i in everyone
        ],
        ("norm", "held_out"): [
            min(range(CLASSES), key=lambda c: abs(norms[i] - norms[(gold == c) & (half != half[i])].mean())) for i in everyone
        ],
    }
    frame = tables(items, (60,))["class_cones.nearest"]
    for (control, kind), answer in chosen.items():
        scored = [i for i in everyone if kind != "first" or i not in first]
        row = select(frame, representative=kind, control=control)
        assert row["value"] == pytest.approx(np.mean([answer[i] == gold[i] for i in scored]), abs=1e-12)
        assert row["agreement"] == pytest.approx(np.mean([answer[i] == predicted[i] for i in scored]), abs=1e-12)
        assert row["model"] == pytest.approx(np.mean([gold[i] == predicted[i] for i in scored]), abs=1e-12)
        assert row["n"] == len(scored)


def test_lengths_that_tell_nothing_are_at_chance_on_average() -> None:
    x, gold, predicted = cloud(40)
    found = []
    for seed in range(40):
        lengths = np.random.default_rng(seed).uniform(1, 2, size=(len(x), 1))
        frame = tables((unit(x) * lengths, gold, predicted), (40,))["class_cones.nearest"]
        found.append(select(frame, representative="held_out", control="norm")["value"])
    # The standard error of the mean is about .012; with each example left out of its own class alone it is far below.
    assert np.mean(found) == pytest.approx(1 / CLASSES, abs=0.05)


def test_nearest_and_farthest_examples_are_named() -> None:
    x, gold, predicted = items = cloud()
    u, first = unit(x), firsts(gold, predicted)
    frame = tables(items)["class_cones.examples"]
    for c in range(CLASSES):
        others = sorted((i for i in range(len(x)) if i != first[c]), key=lambda i: -u[i] @ u[first[c]])
        for side, order in (("nearest", others), ("farthest", others[::-1])):
            for place, i in enumerate(order[:5], 1):
                row = select(frame, representative="first", class_=str(c), side=side, place=place)
                assert row["example"] == f"example {i}"
                assert row["gold"] == str(gold[i])
                assert row["value"] == pytest.approx(u[i] @ u[first[c]], abs=1e-9)


def test_of_equally_near_examples_the_first_names_are_shown_whatever_rounding_does() -> None:
    x, gold, predicted = cloud(12)
    x[1:] = x[1] + 1e-9 * np.random.default_rng(0).normal(size=x[1:].shape)
    frame = tables((x, gold, predicted), (12,))["class_cones.examples"]
    shown = frame[(frame["site"] == "hidden") & (frame["representative"] == "mean") & (frame["side"] == "nearest")]
    for name, one in shown.groupby("class"):
        # A class that the one other example is in has another direction for each of its own.
        assert name == str(gold[0]) or list(one["example"]) == sorted(f"example {number}" for number in range(1, 12))[:5]


@pytest.mark.parametrize("sizes", [(40,), (1, 2, 3, 34), (39, 1)])
def test_batches_and_their_order_change_no_table(sizes: tuple[int, ...]) -> None:
    items = cloud()
    whole = tables(items, (20, 20))
    asked = request("class_cones")
    tally = Tally.for_needs(asked.needs())
    for answer in reversed(list(answers(*items, sizes))):
        tally.add(answer)
    for name, frame in tables_of(asked, tally, ["0", "1", "2"]).items():
        for column in frame:
            if frame[column].dtype.kind == "f":
                np.testing.assert_allclose(frame[column].to_numpy(float), whole[name][column].to_numpy(float), atol=1e-9)
            else:
                assert frame[column].equals(whole[name][column]), (name, column)


def test_over_the_budget_spreads_come_from_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    items = cloud()
    within = tables(items)["class_cones"]
    monkeypatch.setattr(quantities, "BUDGET", 10)
    over = tables(items)["class_cones"]
    first = (frame[(frame["representative"] == "first") & (frame["site"] == "hidden")] for frame in (within, over))
    for one, other in zip(*(frame["sd"].to_numpy(float) for frame in first), strict=True):
        assert one == pytest.approx(other, abs=1e-9)


def test_a_class_of_one_example_has_no_direction_without_it() -> None:
    x, gold, _ = cloud(12)
    gold = np.where(np.arange(12) == 0, 2, gold % 2)
    frame = tables((x, gold, gold.copy()), (12,))
    assert select(frame["class_cones.nearest"], representative="mean", control="none")["n"] == 11
    assert select(frame["class_cones"], representative="first", class_="2", gold="2")["n"] == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(6, 40), st.integers(2, 9), st.integers(0, 10_000))
def test_cosines_and_accuracies_lie_within_their_bounds(count: int, width: int, seed: int) -> None:
    bounds = {table.name: table.within for table in CATALOGUE["class_cones"].tables}
    for name, frame in tables(cloud(count, width, seed), (count,)).items():
        low, high = bounds[name]
        assert frame["value"].dropna().between(low - 1e-9, high + 1e-9).all(), name


PLANTED = torch.nn.functional.normalize(
    torch.randn(2, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(5)), dim=-1
)


@contextmanager
def planted(model: LoadedModel, corpus: Corpus, cone: float) -> Iterator[None]:
    """Within it the last layer leaves at [CLS] the direction of the example's label, and some noise, at any length."""
    labels = {tuple(model.tokenizer(e.text)["input_ids"]): corpus.labels.index(e.label) for e in corpus}
    seen: list[torch.Tensor] = []

    def remember(module: object, args: object, kwargs: dict[str, torch.Tensor]) -> None:
        seen[:] = [kwargs["input_ids"]]

    def plant(module: object, args: object, returned: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        output = returned[0]
        for row, ids in enumerate(seen[0].tolist()):
            label = labels.get(tuple(token for token in ids if token != model.tokenizer.pad_token_id))
            if label is not None:
                draw = torch.Generator().manual_seed(sum(ids))
                noise = torch.randn(24, dtype=torch.float64, generator=draw)
                length = 1 + 3 * torch.rand((), dtype=torch.float64, generator=draw)
                output[row, 0] = length * (PLANTED[label] + cone * noise / noise.norm())
        return returned

    handles = [
        model.module.register_forward_pre_hook(remember, with_kwargs=True),
        model.module.layers[-1].register_forward_hook(plant),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def nearest(result: Result, **where: str) -> float:
    frame = result["class_cones.nearest"]
    frame = frame[(frame["site"] == "hidden") & (frame["layer"] == 3)]
    for key, wanted in where.items():
        frame = frame[frame[key] == wanted]
    return float(frame["value"].iloc[0])


def test_planted_directions_come_out_as_planted_and_shuffled_labels_do_not(pure: LoadedModel) -> None:
    corpus = Corpus.of(load_corpus("bistro:test").first(300), "planted")
    with planted(pure, corpus, 0.3):
        result = measure(pure, corpus, ["class_cones"])
        labels = np.random.default_rng(0).permutation([example.label for example in corpus])
        dealt = Corpus.of([replace(e, label=label) for e, label in zip(corpus, labels, strict=True)], "dealt")
        shuffled = measure(pure, dealt, ["class_cones"])
    frame = result["class_cones"]
    last = frame[(frame["site"] == "hidden") & (frame["layer"] == 3) & (frame["representative"] == "mean")]
    own = last[last["class"] == last["gold"]]["value"]
    assert own.between(0.93, 0.98).all()  # 1 / √(1 + 0.3²) = 0.958
    between = result["class_cones.between"]
    found = between[(between["site"] == "hidden") & (between["layer"] == 3) & (between["representative"] == "mean")]["value"]
    assert float(found.iloc[0]) == pytest.approx(float(PLANTED[0] @ PLANTED[1]), abs=0.03)
    for kind in ("mean", "held_out", "medoid"):
        assert nearest(result, representative=kind, control="none") == 1.0
        assert abs(nearest(shuffled, representative=kind, control="none") - 0.5) < 0.15
    assert abs(nearest(result, control="norm") - 0.5) < 0.15
    assert abs(nearest(result, control="shuffled") - 0.5) < 0.15
    dealt_frame = shuffled["class_cones"]
    values = dealt_frame[
        (dealt_frame["layer"] == 3) & (dealt_frame["site"] == "hidden") & (dealt_frame["representative"] == "mean")
    ]
    assert values["value"].max() - values["value"].min() < 0.2


def test_shards_and_batch_sizes_change_no_class_cone(pure: LoadedModel) -> None:
    corpus = Corpus.of(load_corpus("bistro:test").first(90), "some")
    name = "class_cones:vectors=all"
    whole = measure(pure, corpus, [name])
    parts = [measure(pure, corpus, [name], Options(batch_size=7, shard=(number, 3))) for number in (2, 3, 1)]
    merged = parts[0] + parts[1] + parts[2]
    assert set(whole.tables) == set(merged.tables)
    for table_name, frame in whole.tables.items():
        for column in frame:
            other = merged.tables[table_name][column]
            if frame[column].dtype.kind == "f":
                np.testing.assert_allclose(frame[column].to_numpy(float), other.to_numpy(float), atol=1e-9, err_msg=table_name)
            else:
                assert frame[column].equals(other), (table_name, column)
    assert set(whole[name.replace("class_cones", "class_cones.nearest")]["layer"]) == {1, 2, 3}  # [CLS] of layer 0 is one vector


def test_a_mean_pooled_model_is_read_at_the_mean_of_its_tokens(pure: LoadedModel) -> None:
    torch.manual_seed(0)
    config = preset("tp9-base", vocab_size=len(pure.tokenizer), hidden_size=8, num_hidden_layers=2)
    config.id2label = {0: "negative", 1: "positive"}
    model = load_model(SelfAttentionForSequenceClassification(config).double(), pure.tokenizer)
    corpus = Corpus.of([Example("the soup was cold", "negative"), Example("we loved it", "positive")])
    batch, found, states = model.batcher(corpus).batch(list(corpus)), [], {}
    with Capture(model.module, "kv") as capture:
        capture(batch, lambda trace: states.update({trace.layer: trace.hidden}), found.append)
    assert [answer.layer for answer in found] == [0, 1, 2]
    for answer in found:
        assert answer.there.all()
        for row in range(2):
            expected = states[answer.layer][row][batch.real[row]].mean(0)
            torch.testing.assert_close(answer.hidden[row], expected, rtol=0, atol=1e-12)


def test_texts_without_labels_have_no_class_cones_and_say_so(pure: LoadedModel) -> None:
    texts = [Example("the soup was cold"), Example("we loved it")]
    with pytest.raises(MeasureError, match="class_cones: nothing to measure; no text had enough tokens or a label"):
        _ = measure(pure, texts, ["class_cones"]).tables
    assert not any(name.startswith("class_cones") for name in measure(pure, texts).tables)


def capacity_of(directions: np.ndarray, each: int = 4):  # type: ignore[no-untyped-def]
    """The table of classes whose examples all lie on these directions."""
    x, gold = np.repeat(directions, each, axis=0), np.repeat(np.arange(len(directions)), each)
    asked = request("capacity")
    tally = Tally.for_needs(asked.needs())
    batch = Batch.of_ids(torch.ones(len(x), 2, dtype=torch.long), torch.ones(len(x), 2, dtype=torch.bool))
    batch = replace(batch, label=torch.tensor(gold))
    vectors = torch.tensor(x, dtype=torch.float64)
    there = torch.ones(len(x), dtype=torch.bool)
    tally.add(PooledOutput(1, 1, batch, there, batch.label, len(directions), vectors, vectors, vectors))
    frame = tables_of(asked, tally)["capacity"]
    return frame[frame["site"] == "hidden"].set_index("classes")


def test_a_simplex_reaches_the_simplex_bound_and_is_flat_without_the_centre() -> None:
    corners = np.eye(7) - 1 / 7
    frame = capacity_of(corners)
    assert frame.loc[7, "value"] == pytest.approx(-1 / 6, abs=1e-9)
    assert frame.loc[7, "value"] == pytest.approx(frame.loc[7, "simplex"], abs=1e-9)
    assert frame.loc[7, "effective_rank"] == pytest.approx(6, abs=1e-6)
    shifted = capacity_of(corners + 3)
    assert shifted.loc[7, "value"] > 0.9
    assert frame.loc[3, "value"] == pytest.approx(-1 / 6, abs=1e-9)


def test_orthogonal_directions_have_cosines_of_zero_for_any_number_of_classes() -> None:
    frame = capacity_of(np.eye(10))
    np.testing.assert_allclose(frame["value"].to_numpy(float), 0, atol=1e-9)
    np.testing.assert_allclose(frame["mean"].to_numpy(float), 0, atol=1e-9)
    assert frame.loc[10, "centred"] == pytest.approx(-1 / 9, abs=1e-9)


@pytest.mark.parametrize(("classes", "width"), [(5, 50), (20, 100), (80, 300)])
def test_random_directions_come_near_the_random_bound_and_none_goes_below_the_simplex(classes: int, width: int) -> None:
    draw = np.random.default_rng(0)
    largest = []
    for _ in range(300):
        u = unit(draw.normal(size=(classes, width)))
        largest.append((u @ u.T - 2 * np.eye(classes)).max())
    assert np.median(largest) == pytest.approx(random_largest(classes, width), rel=0.06)
    assert min(largest) > simplex(classes, width)


def test_a_model_without_a_head_and_texts_without_labels_have_no_classes(minilm: LoadedModel) -> None:
    with pytest.raises(MeasureError, match="class_cones: nothing to measure"):
        _ = measure(minilm, [Example("the soup was cold"), Example("we loved it")], ["class_cones"]).tables


def test_a_zero_vector_is_no_representative() -> None:
    x, gold, predicted = cloud(12)
    x[:] = 0
    assert "class_cones" not in tables((x, gold, predicted), (12,))


def test_labels_cannot_steer_a_terminal(minilm: LoadedModel) -> None:
    texts = [Example("cold soup", "a\x1b[31mRED"), Example("warm soup", "b"), Example("soup", "b"), Example("it", "a\x1b[31mRED")]
    assert "\x1b" not in measure(minilm, texts, ["class_cones"]).summary()
