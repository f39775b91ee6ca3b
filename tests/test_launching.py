"""A kernel that was launched before is found again, if nothing that it was compiled for has changed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from conoscope.capture import launching
from conoscope.capture.launching import launch


class Compiled:
    """A compiled kernel, which keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, int, int]) -> Callable[..., None]:
        return lambda *given: self.given.append((grid, *given))


class Kernel:
    """A kernel with two tensors, a number and two constants, which counts how often it is compiled."""

    arg_names = ("X", "Y", "N", "BLOCK", "MASKED")

    def __init__(self) -> None:
        self.compiled: list[Compiled] = []

    def __getitem__(self, grid: tuple[int, int, int]) -> Callable[..., Compiled]:
        def compiled(*given: Any, **constants: Any) -> Compiled:
            self.compiled.append(Compiled())
            return self.compiled[-1]

        return compiled


@pytest.fixture(autouse=True)
def nothing_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_COMPILED", {})


def run(kernel: Kernel, x: Tensor, y: Tensor, n: int = 3, masked: bool = True, warps: int = 4) -> None:
    launch(kernel, (2, 1, 1), (x, y), (n,), MASKED=masked, BLOCK=16, num_warps=warps)


def test_a_kernel_is_looked_up_once_for_each_kind_of_arguments() -> None:
    kernel, x, y = Kernel(), torch.zeros(8), torch.zeros(8)
    run(kernel, x, y)
    other = torch.ones(8)
    run(kernel, other, y)
    assert len(kernel.compiled) == 1
    (grid, first, second, *rest) = kernel.compiled[0].given[0]
    assert (grid, rest) == ((2, 1, 1), [3, 16, True])
    assert first is other
    assert second is y


@pytest.mark.parametrize("change", [
    {"x": torch.zeros(8, dtype=torch.bfloat16)}, {"y": torch.zeros(9)[1:]}, {"n": 4}, {"masked": False}, {"warps": 8},
], ids=["precision", "alignment", "number", "constant", "warps"])  # fmt: skip
def test_whatever_a_kernel_is_compiled_for_is_looked_up_again(change: dict[str, Any]) -> None:
    kernel, given = Kernel(), {"x": torch.zeros(8), "y": torch.zeros(8)}
    run(kernel, **given)
    run(kernel, **{**given, **change})
    assert len(kernel.compiled) == 2


def test_no_more_launches_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "MOST", 3)
    kernel, x = Kernel(), torch.zeros(8)
    for n in range(10):
        run(kernel, x, x, n)
    assert len(launching._COMPILED) <= 3
