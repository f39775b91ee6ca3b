"""What [CLS] takes in by its weights, and by others: laws of the mixtures and of the rows on them."""

import pytest
import torch

from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import traces_of
from conoscope.corpora import Corpus, load_corpus
from conoscope.studies.published.mixed_values import MIXTURES, Mixed, mixed_rows, mixed_values, reversed_weights, rows_of


def test_the_models_own_mixture_is_what_its_last_layer_adds_to_cls(pure: LoadedModel) -> None:
    for example in load_corpus("bistro:test").first(3):
        one = Corpus.of([example], "one")
        last = traces_of(pure.module, next(pure.batcher(one).batches(one, 1)))[-1]
        assert last.output is not None
        # W_O of an untrained model has a bias of zeros, which would belong to no token.
        torch.testing.assert_close(mixed_values(pure, one).taken["weights"][0], last.output[0, 0].double())


def test_equal_weights_take_in_the_mean_of_what_every_token_gives(pure: LoadedModel) -> None:
    example = next(iter(load_corpus("bistro:test").first(1)))
    one = Corpus.of([example], "one")
    last = traces_of(pure.module, next(pure.batcher(one).batches(one, 1)))[-1]
    assert last.value is not None
    assert last.projection is not None
    given = torch.einsum("hte,hed->td", last.value[0].double(), last.projection.weight.double())
    mixed = mixed_values(pure, one)
    torch.testing.assert_close(mixed.taken["equal"][0], given.mean(0))
    weights = last.maps(torch.tensor([0]))
    assert weights is not None
    dealt = weights[0, :, 0].clone()
    dealt[:, 1:] = dealt[:, 1:].flip(-1)
    by_head = torch.einsum("ht,hte->he", dealt.double(), last.value[0].double())
    expected = torch.einsum("he,hed->d", by_head, last.projection.weight.double())
    torch.testing.assert_close(mixed.taken["reversed"][0], expected)


def test_mixtures_do_not_depend_on_padding_or_on_the_rest_of_the_batch(pure: LoadedModel) -> None:
    corpus = load_corpus("bistro:test").first(8)
    together = mixed_values(pure, corpus)
    alone = [mixed_values(pure, Corpus.of([example], "one")) for example in corpus]
    for name in MIXTURES:
        one, other = together.taken[name], torch.cat([mixed.taken[name] for mixed in alone])
        # Batches are sorted by length: the same rows in another order.
        torch.testing.assert_close(one[one[:, 0].argsort()], other[other[:, 0].argsort()])


def test_reversed_weights_keep_that_of_the_token_that_is_read_and_all_sums() -> None:
    weights = torch.tensor([[[0.4, 0.1, 0.2, 0.3, 0.0]], [[0.4, 0.3, 0.1, 0.1, 0.1]]])
    real = torch.tensor([[True, True, True, True, False], [True] * 5])
    read = torch.tensor([[True, False, False, False, False], [False, False, True, False, False]])
    dealt = reversed_weights(weights, real, read)
    torch.testing.assert_close(dealt, torch.tensor([[[0.4, 0.3, 0.2, 0.1, 0.0]], [[0.1, 0.1, 0.1, 0.3, 0.4]]]))
    assert weights[0, 0, 1] == pytest.approx(0.1)


def invented(towards: float) -> Mixed:
    """Four texts of two classes in two halves, with orthogonal directions; the own weights turn the mixture to its class."""
    half, gold = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    vector = torch.eye(2, dtype=torch.float64)[gold]
    equal = torch.ones(4, 2, dtype=torch.float64)
    return Mixed(half, gold, vector, {"weights": equal + towards * vector, "equal": equal, "reversed": 2 * equal})


def test_rows_say_how_near_a_mixture_is_to_its_class_and_how_often_its_class_is_nearest() -> None:
    found = {(row["quantity"], row["mixture"]): row["value"] for row in rows_of(invented(2.0), 2)}
    assert found["cosine.own.mixed", "weights"] == pytest.approx(3 / 10**0.5)
    assert found["cosine.other.mixed", "weights"] == pytest.approx(1 / 10**0.5)
    assert found["cosine.own.mixed", "equal"] == found["cosine.other.mixed", "equal"] == pytest.approx(0.5**0.5)
    assert found["nearest.mixed", "weights"] == 1
    assert found["cosine.to own mixture", "equal"] == pytest.approx(4 / 20**0.5)
    # Lengths count nowhere.
    assert found["cosine.own.mixed", "reversed"] == found["cosine.own.mixed", "equal"]
    away = {(row["quantity"], row["mixture"]): row["value"] for row in rows_of(invented(-0.5), 2)}
    assert away["nearest.mixed", "weights"] == 0


def test_no_text_is_compared_with_a_direction_that_it_contributed_to() -> None:
    mixed = invented(2.0)
    turned = mixed.vector.clone()
    turned[0] = torch.tensor([0.0, 1.0])  # the only text of its class in its half
    changed = Mixed(mixed.half, mixed.gold, turned, mixed.taken)
    one_half = Mixed(torch.zeros(4, dtype=torch.long), mixed.gold, mixed.vector, mixed.taken)
    own = {row["mixture"]: row["value"] for row in rows_of(changed, 2) if row["quantity"] == "cosine.own.mixed"}
    # Only the other half's text of that class sees the direction that was turned.
    assert own["weights"] == pytest.approx((3 * 3 + 1) / 4 / 10**0.5)
    assert not [row for row in rows_of(one_half, 2) if row["quantity"].startswith("cosine.own")]


def test_a_model_is_read_batch_by_batch(pure: LoadedModel) -> None:
    rows = list(mixed_rows(pure, load_corpus("bistro:test").first(40)))
    assert {row["mixture"] for row in rows} == set(MIXTURES)
    assert all(-1 <= row["value"] <= 1 for row in rows)
