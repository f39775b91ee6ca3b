"""Paired intervals by groups of texts: against runs on the other texts, against the paired t-test, and their coverage."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import t, ttest_rel

import conoscope as cs
from conoscope.corpora.base import stable_hash
from conoscope.measures import CATALOGUE, request
from conoscope.measures.tally import Tally
from conoscope.results.differences import OTHER_TEXTS
from conoscope.results.pairing import NO_MEAN, ONE_GROUP, half_width
from conoscope.sums.grouped import GROUPS, GroupedMoments, _by_group, _by_product
from conoscope.sums.numeric import mixed
from conoscope.sums.statistics import Moments

MEANS = ("attention_entropy", "sim", "intra_sim", "cone_index", "variance", "vector_norms", "norms", "heads", "mixing", "stream")


def group_of(name: str) -> int:
    return int(mixed(torch.tensor(stable_hash(name)))) % GROUPS


def ids_of(groups: int, each: int = 1) -> list[str]:
    """Ids of texts in so many groups, with the same number in each."""
    found: dict[int, list[str]] = {}
    for number in range(100_000):
        mine = found.setdefault(group_of(f"text {number}"), []) if len(found) < groups else found.get(group_of(f"text {number}"))
        if mine is not None and len(mine) < each:
            mine.append(f"text {number}")
        if len(found) == groups and all(len(names) == each for names in found.values()):
            return [name for names in found.values() for name in names]
    raise AssertionError


def texts(ids: list[str]) -> cs.Corpus:
    few = cs.load_corpus("bistro:test").first(len(ids))
    return cs.Corpus.of([replace(example, id=name) for example, name in zip(few, ids, strict=True)], "few")


@pytest.fixture(scope="module")
def changed(pure: cs.LoadedModel) -> cs.LoadedModel:
    """The same model with other weights."""
    module = type(pure.module)(pure.module.config).double()
    torch.manual_seed(5)
    with torch.no_grad():
        for own, theirs in zip(module.parameters(), pure.module.parameters(), strict=True):
            own.copy_(theirs + 0.3 * theirs.std(correction=0) * torch.randn_like(theirs))
    return cs.load_model(module, pure.tokenizer)


@pytest.fixture(scope="module")
def few() -> cs.Corpus:
    """Thirteen texts in eight groups of one or two."""
    return texts([*ids_of(5, 2), *ids_of(8)[5:]])


@pytest.fixture(scope="module")
def both(pure: cs.LoadedModel, changed: cs.LoadedModel, few: cs.Corpus) -> tuple[cs.Result, cs.Result]:
    return cs.measure(pure, few, MEANS), cs.measure(changed, few, MEANS)


def keyed(frame: pd.DataFrame) -> pd.DataFrame:
    """A table by its keys."""
    columns = list(frame.columns)
    return frame.set_index(columns[columns.index("site") : columns.index("value")])


@pytest.fixture(scope="module")
def others(pure: cs.LoadedModel, changed: cs.LoadedModel, few: cs.Corpus) -> list[tuple[cs.Result, cs.Result]]:
    """Both runs on the texts of all groups but one, for each group that has texts."""
    groups = sorted({group_of(example.id) for example in few})
    rest = [cs.Corpus.of([example for example in few if group_of(example.id) != group]) for group in groups]
    return [(cs.measure(pure, corpus, MEANS), cs.measure(changed, corpus, MEANS)) for corpus in rest]


def test_intervals_are_those_of_runs_on_the_texts_without_each_group(
    both: tuple[cs.Result, cs.Result], others: list[tuple[cs.Result, cs.Result]]
) -> None:
    differences, checked = both[0].compare(both[1]), set()
    for name in differences:
        found = keyed(differences[name])
        found = found[found["interval"].str.startswith("paired")]
        for keys, row in found.iterrows():
            without = []
            for one, other in others:
                first, second = (keyed(result[name]) for result in (one, other))
                there = keys in first.index and keys in second.index
                if there and (first.at[keys, "n"], second.at[keys, "n"]) != (row["n"], row["other_n"]):
                    without.append(second.at[keys, "value"] - first.at[keys, "value"])
            count = len(without)
            assert row["interval"] == f"paired, {count} groups of texts", (name, keys)
            half = t.ppf(0.975, count - 1) * np.sqrt((count - 1) * np.var(without))
            ends = row["difference"] - half, row["difference"] + half
            assert (row["low"], row["high"]) == pytest.approx(ends, rel=1e-6, abs=1e-9), (name, keys)
            checked.add(name)
    assert checked == {*MEANS, "norms.dispersion"}


def test_all_rows_of_means_are_paired_and_others_say_why_not(both: tuple[cs.Result, cs.Result]) -> None:
    differences = both[0].compare(both[1])
    for name in MEANS:
        frame = differences[name]
        frame = frame[frame["what"] != "cka"] if "what" in frame else frame
        odd = frame[~frame["interval"].str.startswith("paired")]
        assert set(odd["interval"]) <= {NO_MEAN, ONE_GROUP}, name
        assert len(odd) < 0.1 * len(frame), name
    assert set(differences["vector_norms.histogram"]["interval"]) == {NO_MEAN}
    assert {"from", "to", "low", "high"} <= set(differences["vector_norms.histogram"])
    cka = differences["stream"].query("what == 'cka'")
    assert set(cka["interval"]) == {NO_MEAN}
    (head,) = differences.findings  # the texts are in fewer than ten groups
    assert re.fullmatch(r"No number has an interval .*\. Not counted: [0-9,]+ of fewer than 10 texts or other items\.", head)


def test_with_one_text_a_group_it_is_the_paired_t_test(pure: cs.LoadedModel, changed: cs.LoadedModel) -> None:
    corpus = texts(ids_of(9))
    one, other = (cs.measure(model, corpus, ["attention_entropy"]) for model in (pure, changed))
    alone = [
        [
            keyed(cs.measure(model, cs.Corpus.of([example]), ["attention_entropy"])["attention_entropy"])["value"]
            for example in corpus
        ]
        for model in (pure, changed)
    ]
    found = keyed(one.compare(other)["attention_entropy"])
    for place, (_, row) in enumerate(found.iterrows()):
        values = [[float(each.iloc[place]) for each in of_model] for of_model in alone]
        expected = ttest_rel(values[1], values[0]).confidence_interval(0.95)
        assert row["interval"] == "paired, 9 groups of texts"
        assert (row["low"], row["high"]) == pytest.approx((expected.low, expected.high), abs=1e-12)


SOME = ("sim", "vector_norms", "mixing", "heads")


def assert_same(one: cs.Result, other: cs.Result, again: cs.Result) -> None:
    for name in SOME:
        left, right = (keyed(first.compare(again)[name]).sort_index() for first in (one, other))
        assert (left["interval"] == right["interval"]).all()
        for column in ("low", "high"):
            assert left[column].to_numpy(float) == pytest.approx(right[column].to_numpy(float), rel=1e-9, abs=1e-12, nan_ok=True)


def test_order_batches_shards_and_files_change_no_interval(
    pure: cs.LoadedModel, few: cs.Corpus, both: tuple[cs.Result, cs.Result], tmp_path: Any
) -> None:
    one, other = both
    turned = cs.Corpus.of([*few][::-1], "few")
    assert_same(one, cs.measure(pure, turned, SOME, batch_size=2), other)
    parts = [cs.measure(pure, few, SOME, shard=(number, 3)) for number in (2, 3, 1)]
    assert_same(one, parts[0] + parts[1] + parts[2], other)
    assert_same(one, cs.Result.load(one.save(tmp_path / "out")), other)


def test_texts_of_one_name_are_one_group_and_not_paired(pure: cs.LoadedModel, changed: cs.LoadedModel) -> None:
    corpus = cs.Corpus.of([replace(example, id="same") for example in cs.load_corpus("bistro:test").first(6)], "same")
    one, other = (cs.measure(model, corpus, ["sim", "norms"]) for model in (pure, changed))
    differences = one.compare(other)
    assert set(differences["sim"]["interval"]) == {ONE_GROUP}
    assert differences["sim"]["low"].notna().all()
    assert not differences["norms.dispersion"]["interval"].str.startswith("paired").any()


def test_what_is_no_mean_has_no_interval_of_other_texts(pure: cs.LoadedModel) -> None:
    one, other = (cs.measure(pure, f"bistro:{split}", ["norms", "capacity"], limit=20) for split in ("train", "test"))
    differences = one.compare(other)
    assert set(differences["norms"]["interval"]) <= {OTHER_TEXTS, NO_MEAN}
    for name in ("norms.dispersion", "capacity"):
        assert set(differences[name]["interval"]) == {NO_MEAN}
        assert differences[name]["low"].isna().all()


def test_mean_maps_are_paired_by_example(pure: cs.LoadedModel, changed: cs.LoadedModel) -> None:
    from conoscope.measures.by_example import by_example

    one, other = (cs.measure(model, "bistro:test", ["gates"], limit=12) for model in (pure, changed))
    found = one.compare(other)["gates.maps"]
    rows = [pd.DataFrame(by_example("gates.maps", ["gates"], result.tally)).set_index("example") for result in (one, other)]
    where = "layer == 2 and head == 1 and query == 3 and key == 4"
    first, second = (frame.query(where)["value"].sort_index() for frame in rows)
    expected = ttest_rel(second, first).confidence_interval(0.95)
    row = found.query(where).iloc[0]
    assert row["interval"] == f"paired, {len(first)} examples"
    assert (row["low"], row["high"]) == pytest.approx((expected.low, expected.high))


def test_every_sum_of_moments_by_layer_is_kept_by_group() -> None:
    """A new measure that is a mean over texts or tokens is paired too."""
    tally = Tally.for_needs(need for name in CATALOGUE for need in request(name).needs())
    assert not [need for need in tally.needs if need.kind is Moments]


@pytest.mark.parametrize("weighted", [False, True])
def test_moments_of_some_groups_are_those_of_their_numbers(weighted: bool) -> None:
    draw = torch.Generator().manual_seed(1)
    numbers = [
        torch.randn(int(k), 3, generator=draw, dtype=torch.float64) + 7 for k in torch.randint(1, 6, (40,), generator=draw)
    ]
    groups = torch.randint(0, GROUPS, (40,), generator=draw)
    if weighted:
        x, scatter = (
            torch.stack([f(each) for each in numbers]) for f in (lambda a: a.mean(0), lambda a: (a - a.mean(0)).square().sum(0))
        )
        count = torch.tensor([len(each) for each in numbers], dtype=torch.float64)[:, None].expand(-1, 3)
        found = GroupedMoments.of(groups, x, count, scatter)
    else:
        numbers = [each[:1] for each in numbers]
        found = GroupedMoments.of(groups, torch.cat(numbers))
    some = torch.rand(GROUPS, generator=draw) < 0.6
    for chosen, result in ((some, found.of_groups(some)), (torch.ones_like(some), found.total())):
        expected = Moments.of(torch.cat([each for each, group in zip(numbers, groups.tolist(), strict=True) if chosen[group]]))
        for name, value in result.state().items():
            torch.testing.assert_close(value, expected.state()[name], rtol=1e-12, atol=1e-12)


def test_sums_by_group_are_the_same_by_a_product_as_on_a_gpu() -> None:
    x, groups = torch.randn(50, 3, 2, dtype=torch.float64), torch.randint(0, GROUPS, (50,))
    torch.testing.assert_close(_by_product(x, groups), _by_group(x, groups), rtol=1e-12, atol=1e-12)


def simulated(texts: int, trials: int, kind: str) -> tuple[np.ndarray, ...]:
    """Differences whose truth is .3, with the half-widths of their intervals by groups and of Welch's."""
    draw = np.random.default_rng(texts)
    groups = torch.tensor([group_of(f"text {number}") for number in range(texts)])
    one = draw.standard_normal((texts, trials))
    two = one + 0.3 + 0.5 * draw.standard_normal((texts, trials))
    keep = np.ones_like(one)
    if kind == "tokens":  # whose number differs by text
        keep = np.ceil(20 * np.exp(0.5 * draw.standard_normal((texts, trials))))
    if kind == "few texts":  # as of a kind of tokens that few of them have
        keep = (draw.random((texts, trials)) < 0.15).astype(float)
    sums = [GroupedMoments.of(groups, torch.from_numpy(x), torch.from_numpy(keep)) for x in (one, two)]
    every = torch.ones(GROUPS, dtype=torch.bool)
    some = [every.index_fill(0, torch.tensor([group]), False) for group in range(GROUPS)]
    without = np.stack([(sums[1].of_groups(each).mean - sums[0].of_groups(each).mean).numpy() for each in some], axis=-1)
    totals = [each.total() for each in sums]
    spread = [(each.sd.square() / each.count.clamp_min(1)).numpy() for each in totals]
    half = half_width(without, sums[0].count.numpy() > 0)
    return (totals[1].mean - totals[0].mean).numpy(), half, 1.96 * np.sqrt(spread[0] + spread[1])


@pytest.mark.parametrize("kind", ["texts", "tokens", "few texts"])
@pytest.mark.parametrize("texts", [6, 25, 100, 400])
def test_intervals_cover_at_their_rate_where_those_of_tokens_do_not_and_those_of_texts_are_wide(texts: int, kind: str) -> None:
    difference, half, welch = simulated(texts, 2500, kind)
    known = np.isfinite(half)
    assert known.all() or (kind == "few texts" and known.sum() > 500)
    error = np.abs(difference - 0.3)
    assert 0.92 <= (error <= half)[known].mean() <= 0.98
    if kind == "texts":
        assert np.median(half / welch) < 0.5
        assert (error <= welch).mean() > 0.98
    if kind == "tokens" and texts > 6:
        assert (error <= welch).mean() < 0.8
