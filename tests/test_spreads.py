"""Every `sd` of every table divides by n - 1."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.trace import PooledOutput
from conoscope.corpora import Corpus, load_corpus
from conoscope.measures import CATALOGUE, request
from conoscope.measures.capacity import _choices
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import Options, measure
from conoscope.results.from_sums import tables_of
from conoscope.results.result import Result

NUMBERS = {"measure", "value", "sd", "n", "low", "high", "share", "mean", "undefined", "baseline", "adjusted"}
MEANS = {
    "sim", "intra_sim", "cone_index", "vector_norms", "variance", "attention_entropy", "norms", "norms.dispersion", "heads",
    "mixing", "stream", "gates", "gates.maps", "directionality", "class_maps",
}  # fmt: skip
"""Tables of means over sentences, tokens or examples: those of two parts give that of the whole."""
WORDS = {"self_sim": "self_sim.words", "max_explained_variance": "max_explained_variance.words"}
"""Tables of means over words, whose words have a table of their own."""
ELSEWHERE = {"class_cones", "class_cones.angles", "class_cones.classes", "class_cones.nearest"}
"""Tables whose items are of the whole corpus alone: compared with loops below and in the tests of classes."""
KEYS = ["site", "layer", "head", "kind", "what", "row", "score", "query", "key", "method", "map", "class", "centred", "gold"]


@pytest.fixture(scope="module")
def results(pure: LoadedModel) -> tuple[Result, Result, Result]:
    """All measures on a corpus, and on both parts of it, each small enough to be in every sample."""
    texts = list(load_corpus("bistro:test").first(8))
    names = [name for name in CATALOGUE if name != "class_maps"]
    asked = [*names, "class_maps:heads=1.1+2.2"]
    whole = Options(dtype="float64", batch_size=4)
    return tuple(  # type: ignore[return-value]
        measure(pure, Corpus.of(part, "part"), asked, whole) for part in (texts, texts[:3], texts[3:])
    )


def spread_tables(result: Result) -> dict[str, pd.DataFrame]:
    return {name.partition(":")[0]: frame for name, frame in result.tables.items() if frame["sd"].notna().any()}


def test_every_table_with_a_spread_is_looked_at(results: tuple[Result, Result, Result]) -> None:
    assert set(spread_tables(results[0])) == MEANS | set(WORDS) | ELSEWHERE


@pytest.mark.parametrize("name", sorted(MEANS))
def test_the_spread_of_two_parts_is_that_of_the_whole_with_n_less_one(name: str, results: tuple[Result, Result, Result]) -> None:
    """Σ (x - mean)² = (n - 1) sd² adds up: that of both parts, and n₁ n₂ / n times the squared distance of their means."""
    whole, one, other = (spread_tables(result)[name] for result in results)
    keys = [key for key in KEYS if key in whole.columns]
    value = "mean" if name == "norms.dispersion" else "value"
    parts = one.merge(other, on=keys, suffixes=("_1", "_2")).merge(whole, on=keys)
    assert not parts.duplicated(keys).any()
    # `shared` compares examples with each other, so that those of a part have another value.
    there = (parts[["n_1", "n_2"]] > 0).all(axis=1) & parts["sd"].notna() & (parts.get("score") != "shared")
    parts = parts[there & (parts["n_1"] + parts["n_2"] == parts["n"])]
    assert len(parts) > 0
    n1, n2, n = (parts[column].to_numpy(float) for column in ("n_1", "n_2", "n"))
    first, second = parts[f"{value}_1"].to_numpy(float), parts[f"{value}_2"].to_numpy(float)
    within = (n1 - 1) * parts["sd_1"].fillna(0) ** 2 + (n2 - 1) * parts["sd_2"].fillna(0) ** 2
    scatter = within + n1 * n2 / n * (first - second) ** 2
    np.testing.assert_allclose((n - 1) * parts["sd"].to_numpy(float) ** 2, scatter, rtol=1e-6, atol=1e-12)
    by_n = n * parts["sd"].to_numpy(float) ** 2
    assert not np.allclose(by_n, scatter, rtol=1e-6, atol=1e-12), "the parts must tell n from n - 1"


@pytest.mark.parametrize("name", sorted(WORDS))
def test_the_spread_over_words_is_that_of_their_table(name: str, results: tuple[Result, Result, Result]) -> None:
    frame, words = results[0][name], results[0][WORDS[name]]
    for _, row in frame[frame["sd"].notna()].iterrows():
        each = words[words["layer"] == row["layer"]]["value"].dropna()
        assert (len(each), each.mean(), np.std(each, ddof=1)) == pytest.approx((row["n"], row["value"], row["sd"]), abs=1e-9)


def test_the_spread_over_choices_of_classes_is_that_of_a_loop() -> None:
    asked = request("capacity")
    draw = np.random.default_rng(0)
    labels, vectors = np.arange(12) % 4, draw.normal(size=(12, 5))
    tally = Tally.for_needs(asked.needs())
    batch = Batch.of_ids(torch.ones(12, 2, dtype=torch.long), torch.ones(12, 2, dtype=torch.bool))
    batch, none = replace(batch, label=torch.tensor(labels)), torch.full((12,), -1)
    tally.add(PooledOutput(1, 1, batch, none < 0, none, 4, *[torch.tensor(vectors)] * 3))
    frame = tables_of(asked, tally)["capacity"]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    means = np.stack([unit[labels == label].mean(0) for label in range(4)])
    cosines = (means @ means.T) / np.outer(*[np.linalg.norm(means, axis=1)] * 2)
    for size in (2, 3):
        largest = [
            max(cosines[a, b] for a in chosen for b in chosen if a != b) for chosen in np.stack(_choices(4, size)).tolist()
        ]
        row = frame[(frame["classes"] == size) & (frame["site"] == "hidden")].iloc[0]
        assert (row["value"], row["sd"], row["n"]) == pytest.approx((np.mean(largest), np.std(largest, ddof=1), len(largest)))


def test_the_spread_of_right_and_wrong_is_that_of_ones_and_zeros(results: tuple[Result, Result, Result]) -> None:
    frame = results[0]["class_cones.nearest"].dropna(subset=["sd", "value"])
    frame = frame[frame["control"] != "shuffled"]
    assert len(frame) > 0
    for _, row in frame.iterrows():
        right = round(row["value"] * row["n"])
        assert row["sd"] == pytest.approx(np.std([1.0] * right + [0.0] * (row["n"] - right), ddof=1), abs=1e-9)
