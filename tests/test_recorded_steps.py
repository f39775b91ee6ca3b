"""Recorded steps: replayed ones leave the losses and gradients of steps that run operation by operation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.training.building import _freeze_words
from conoscope.training.recorded_steps import MOST, RecordedSteps, can_be_recorded
from conoscope.training.settings import Training

CPU = torch.device("cpu")


class Again:
    """A graph on a CPU: it computes again, into the same memory, from what lies in the recorded inputs."""

    steps: RecordedSteps

    def __init__(self, memory: Any) -> None:
        self.fails = False

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Nothing is captured."""
        yield

    def replay(self) -> None:
        """Loss and gradients of the recorded inputs, where those of the recording lie."""
        step = next(step for step in self.steps._steps.values() if step.graph is self)
        loss = self.steps._loss_of(step.inputs)
        held = [(p, g) for p, g in zip(self.steps.parameters, step.gradients, strict=True) if g is not None]
        for (_, kept), gradient in zip(held, torch.autograd.grad(loss, [p for p, _ in held]), strict=True):
            kept.copy_(gradient)
        step.loss.copy_(loss.detach())


class Refuses(Again):
    """A graph that cannot be captured."""

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Fail as a GPU does that was waited for."""
        yield
        raise RuntimeError("operation not permitted\nwhen stream is capturing")


def model() -> SelfAttentionForSequenceClassification:
    torch.manual_seed(0)
    return SelfAttentionForSequenceClassification(
        preset("pure-attention", num_hidden_layers=2, hidden_size=8, vocab_size=20)
    ).double()


def batch(number: int, tokens: int) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(number)
    ids = torch.randint(1, 20, (3, tokens), generator=draw)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.randint(2, (3,), generator=draw)}


def trained(steps: Any, module: SelfAttentionForSequenceClassification) -> list[float]:
    """The losses of some training, in which two shapes come in turn."""
    optimizer, losses = torch.optim.AdamW(module.parameters(), lr=0.05), []
    for number in range(12):
        losses.append(float(steps(batch(number, 5 if number % 3 else 7))))
        optimizer.step()
        module.zero_grad()
    return losses


def recording(module: SelfAttentionForSequenceClassification, graph: type[Again] = Again) -> RecordedSteps:
    steps = RecordedSteps(module, lambda inputs: module(**inputs).loss, CPU, graph)
    graph.steps = steps
    return steps


def test_replayed_steps_train_the_same_model() -> None:
    def plain(inputs: dict[str, Tensor]) -> Tensor:
        loss: Tensor = one(**inputs).loss
        loss.backward()
        return loss.detach()

    one, other = model(), model()
    steps = recording(other)
    assert trained(plain, one) == trained(steps, other)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    # The first of each shape runs as it is, the second is recorded, and replayed at once.
    assert steps.replayed == 12 - 2
    assert steps.reason is None


def test_losses_and_gradients_of_different_batches_do_not_share_memory() -> None:
    module = model()
    steps = recording(module)
    first, second, third = (steps(batch(number, 5)) for number in range(3))
    assert len({float(first), float(second), float(third)}) == 3


def test_what_cannot_be_recorded_runs_operation_by_operation() -> None:
    one, other = model(), model()
    steps = recording(one, Refuses)
    assert trained(steps, one) == trained(recording(other), other)
    assert steps.replayed == 0
    assert steps.reason == "RuntimeError: operation not permitted when stream is capturing"


def test_only_so_many_shapes_are_recorded() -> None:
    module = model()
    steps = recording(module)
    for _ in range(2):
        for tokens in range(1, MOST + 3):
            steps(batch(0, tokens))
    assert steps.replayed == MOST


def test_a_parameter_that_is_frozen_or_freed_on_the_way_is_followed() -> None:
    module = model()
    steps, head = recording(module), module.classifier.weight
    for learns in (True, True, False, False, True):
        head.requires_grad_(learns)
        module.zero_grad()
        steps(batch(0, 5))
        assert (head.grad is not None) is learns
    assert steps.replayed == 3


def test_frozen_words_copy_nothing_at_later_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy to a GPU waits for it, and cannot be recorded."""
    weight = torch.nn.Parameter(torch.ones(4, 2))
    _freeze_words(weight, [1])
    (2 * weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[0, 0], [2, 2], [0, 0], [0, 0]]
    monkeypatch.setattr(Tensor, "to", None)
    weight.grad = None
    (3 * weight).sum().backward()
    assert weight.grad.tolist() == [[0, 0], [3, 3], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("settings", "can"),
    [
        ({}, True),
        ({"entropy_penalty": 0.1}, True),
        ({"entropy_penalty": 0.1, "penalty_rows": "all"}, False),
        ({"rationale_penalty": 0.1}, False),
        ({"lagrange_penalty": 0.1}, False),
        ({"gradient_checkpointing": True}, False),
    ],
)
def test_which_trainings_are_recorded(settings: dict[str, Any], can: bool) -> None:
    assert can_be_recorded(model(), Training(**settings), torch.device("cuda")) is can
    assert not can_be_recorded(model(), Training(**settings), CPU)
    assert not can_be_recorded(model(), Training(**settings), torch.device("cuda"), mixed=True)
    assert not can_be_recorded(torch.nn.Linear(2, 2), Training(**settings), torch.device("cuda"))
