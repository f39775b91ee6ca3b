"""Ranks of sums and products: the bounds of theorem 4.2.1 on a model, and ranks that are known."""

import pytest
import torch

from conoscope.capture.loading import LoadedModel
from conoscope.corpora import Corpus, load_corpus
from conoscope.studies.published.bonino_ranks import _cone, _entropy, largest, rank, ranks
from conoscope.training.building import untrained
from conoscope.training.settings import Training

WIDTH, HEADS = 32, 8
LAYERS = (1, 2)


@pytest.fixture(scope="module")
def texts() -> Corpus:
    return load_corpus("bistro:test").first(2)


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    """An untrained model whose heads are narrower than texts are long."""
    return untrained(load_corpus("bistro:train").first(200), Training(layers=2, heads=HEADS, width=WIDTH, device="cpu"))


@pytest.fixture(scope="module")
def found(model: LoadedModel, texts: Corpus) -> dict[tuple[str, int | None], float]:
    return {(row["quantity"], row.get("layer")): row["value"] for row in ranks(model, texts)}


@pytest.mark.parametrize("layer", LAYERS)
def test_the_rank_of_a_sum_is_at_most_the_sum_of_ranks_and_that_of_a_product_at_most_that_of_each_factor(
    found: dict[tuple[str, int | None], float], layer: int
) -> None:
    r = {name.removeprefix("ranks."): value for (name, at), value in found.items() if at == layer and name.startswith("ranks.")}
    assert r["sum"] <= 2 * r["scores"]
    assert r["scores"] <= min(r["query"], r["key"]) <= WIDTH / HEADS
    assert r["context"] <= min(r["softmax"], r["value"])
    assert r["context"] <= r["concatenated"] <= HEADS * r["context"]


def test_softmax_has_a_rank_beyond_a_heads_width_and_the_sum_with_the_transpose_twice_that_of_the_scores(
    found: dict[tuple[str, int | None], float],
) -> None:
    assert found["ranks.scores", 1] == WIDTH / HEADS
    assert found["ranks.sum", 1] == 2 * WIDTH / HEADS
    assert found["ranks.softmax", 1] > WIDTH / HEADS
    assert all(0 < value <= 1 for (name, _), value in found.items() if name.startswith(("share.", "cone.", "entropy.")))


def test_ranks_and_their_entropies_are_those_of_known_matrices() -> None:
    one = torch.ones(5, 4, dtype=torch.float64)
    assert rank(one) == 1
    assert rank(torch.stack((torch.eye(4), torch.diag(torch.tensor([1.0, 1.0, 0.0, 0.0])))).double()) == 3
    values = torch.tensor([[1.0, 1.0, 1.0], [2.0, 0.0, 0.0]], dtype=torch.float64)
    assert _entropy(values).tolist() == pytest.approx([1, 0])
    assert _cone(one) == pytest.approx(1)
    assert _cone(torch.eye(4, dtype=torch.float64)) == pytest.approx(0.5)


def test_the_largest_singular_value_is_of_the_rows_of_the_weight_that_belong_to_the_head(model: LoadedModel) -> None:
    given = {row["quantity"]: row["value"] for row in largest(model, 1, 4)}
    size = WIDTH // HEADS
    weight = model.module.layers[0].attention.key.weight[3 * size : 4 * size]
    assert given["largest.key"] == pytest.approx(float(torch.linalg.matrix_norm(weight.detach(), 2)), rel=1e-5)
    assert set(given) == {"largest.query", "largest.key", "largest.value"}
    assert list(largest(model, 1, HEADS + 1)) == []
