"""Examples that are run in batches of their own give the numbers that they give in the batches of the corpus."""

from dataclasses import replace

import pytest
import torch

from architectures import VOCABULARY, padded, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.forward import answer_of
from conoscope.capture.joining import joined, rows_of
from conoscope.capture.loading import LoadedModel
from conoscope.measures import request
from conoscope.measures.tally import Tally
from conoscope.measuring import postponed as module
from conoscope.measuring.postponed import Postponed
from conoscope.measuring.running import Runner
from conoscope.results.from_sums import tables_of
from test_replay import assert_equal
from textbook import NAMES, of_kinds

MEASURES = ("gates", "directionality")


def named(batch: Batch, number: int) -> Batch:
    ids = batch.inputs["input_ids"]
    ids = torch.where(batch.real, 5 + (ids - 5 + 17 * number) % (VOCABULARY - 5), ids)
    rows = len(batch.ids)
    names = tuple(f"{number} {row}" for row in range(rows))
    label = torch.arange(rows) % 2
    return replace(batch, ids=names, label=label, classes=2, inputs={**batch.inputs, "input_ids": ids})


def of_many_lengths() -> list[Batch]:
    return [
        named(of_kinds(lengths), number) for number, lengths in enumerate([(40, 23, 12, 6), (9, 8, 7, 30), (64, 5), (33,) * 6])
    ]


def tables(batches: list[Batch], later: bool, window: int = 2) -> tuple[dict, list[int]]:
    tally, sizes = Tally.for_needs(need for name in MEASURES for need in request(name).needs()), list[int]()
    with Runner(LoadedModel(tiny("bert", torch.float64), None, "bert", ()), tally) as runner:
        if later:
            runner._postponed = Postponed(tally)
            parts = runner._postponed.parts
            runner._postponed.parts = lambda: (sizes.append(part.batch.real.numel()) or part for part in parts())
        for begin in range(0, len(batches), window):
            some = batches[begin : begin + window]
            runner.plan(some)
            list(runner(some))
        runner.complete()
    found = {name: frame for asked in MEASURES for name, frame in tables_of(request(asked), tally, ("a", "b"), NAMES).items()}
    return found, sizes


@pytest.mark.parametrize("window", [1, 2, 4])
def test_postponed_examples_give_the_same_tables(window: int) -> None:
    found, sizes = tables(of_many_lengths(), True, window)
    expected, _ = tables(of_many_lengths(), False, window)
    assert sizes
    assert_equal(found, expected)


def test_postponed_batches_have_few_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless one text has more: the longest here has 24."""
    batches = [named(of_kinds((20, 21, 22, 24)), number) for number in range(4)]
    _, together = tables(batches, True)
    monkeypatch.setattr(module, "TOKENS", 70)
    found, sizes = tables(batches, True)
    assert max(sizes) <= 70 < max(together)
    assert len(sizes) > len(together)
    assert_equal(found, tables(batches, False)[0])


def test_examples_that_are_pushed_out_are_never_run() -> None:
    """Of 16 and 8 sampled examples no more than 24 are run, however many were held on the way."""
    tally = Tally.for_needs(need for name in MEASURES for need in request(name).needs())
    postponed, taken = Postponed(tally), 0
    for number in range(30):
        batch = named(of_kinds((20, 21, 22, 23)), number)
        tally.plan([batch], lambda host: torch.ones(len(host.ids), dtype=torch.bool))
        taken += sum(tally.planned(batch)[need].count for need in postponed.needs)
        postponed.postpone([batch])
        assert not any(tally.planned(batch)[need].count for need in postponed.needs)
    parts = list(postponed.parts())
    run = [name for part in parts for name in part.batch.ids]
    assert len(run) == len(set(run)) <= 24 < taken
    for need in postponed.needs:
        held = [part.chosen[need] for part in parts if need in part.chosen]
        assert sum(chosen.count for chosen in held) == held[0].limits[0]
    assert not list(postponed.parts())


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_joined_texts_are_those_of_their_batches(left: bool) -> None:
    model = tiny("llama" if left else "bert", torch.float64)
    one, other = padded((11, 7, 4), left=left), padded((20, 3), extra=2, left=left)
    both = joined([rows_of(one, torch.tensor([1])), rows_of(other, torch.tensor([0, 1]))])
    assert both is not None
    assert both.real.sum(-1).tolist() == [7, 20, 3]
    assert both.real.shape[1] == 20
    assert bool(both.real[:, -1 if left else 0].all())
    first = (one.inputs["input_ids"][1][one.real[1]], one.cls[1] - one.real[1].int().argmax())
    assert both.inputs["input_ids"][0][both.real[0]].equal(first[0])
    assert (both.cls - both.real.int().argmax(-1))[0] == first[1]
    with torch.no_grad():
        together, alone = answer_of(model, both), torch.cat([answer_of(model, one)[1:2], answer_of(model, other)])
    # Llama turns its positions in float32.
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_what_cannot_share_a_batch_is_not_joined() -> None:
    even, wide = padded((5, 5)), padded((8, 8))
    assert joined([even, wide]) is None, "no padding is known"
    assert joined([even, even]) is not None
    assert joined([padded((5, 3)), padded((8, 2), left=True)]) is None, "padded on two sides"
    assert joined([padded((5, 3)), replace(padded((8, 2)), pad=7)]) is None, "another padding token"
    known = [replace(batch, pad=3) for batch in (padded((5, 3)), padded((8, 2)))]
    assert joined(known) is None, "a token that is in neither batch may be in the other"


def test_examples_that_tie_are_all_run() -> None:
    """Which of several examples of one name is in a sample is settled by their values, whatever the order of the batches."""
    for order in ((0, 1), (1, 0)):
        tally = Tally.for_needs(request("directionality").needs())
        postponed = Postponed(tally)
        several = [replace(named(of_kinds((20, 21, 22, 23) * 3), number), ids=("same",) * 12) for number in order]
        tally.plan(several, lambda host: torch.ones(len(host.ids), dtype=torch.bool))
        asked = sum(chosen.count for batch in several for chosen in tally.planned(batch).values())
        postponed.postpone(several)
        assert asked
        assert sum(len(part.batch.ids) for part in postponed.parts()) > 8
