"""Single quantities of single layers, by the way that a run computes them."""

from typing import Any

from torch import Tensor

from conoscope.capture.trace import Trace
from conoscope.measures.needs import Need
from conoscope.measures.tally import Tally
from conoscope.quantities import QUANTITIES
from conoscope.sums.samples import Sample
from conoscope.sums.statistics import Moments


def computed(quantity: str, trace: Trace, **options: str) -> tuple[Any, ...] | None:
    """The arrays that a quantity returns for one layer, without the axis of layers; None if it is not computed."""
    found: list[tuple[Any, ...]] = []
    tally = Tally.for_needs([Need.of(Moments, quantity, **options)])
    tally.add_result = lambda slots, arrays, batch: found.append(arrays)  # type: ignore[method-assign]
    tally.add(trace)
    return tuple(array[0] if isinstance(array, Tensor) else array for array in found[0]) if found else None


def finished(quantity: str, trace: Trace, **options: str) -> tuple[Any, ...]:
    """The arguments of the statistic, of one layer, without the axis of layers."""
    arrays, finish = computed(quantity, trace, **options), QUANTITIES[quantity].finish
    assert arrays is not None
    assert finish is not None
    return tuple(array[0] for array in finish(*(array[None] for array in arrays)))


def sampled(quantity: str, *traces: Trace, **options: str) -> Sample | None:
    """The sample that a quantity feeds, of one layer of some batches; None if it is not computed."""
    need = Need.of(Sample, quantity, **options)
    tally = Tally.for_needs([need])
    for trace in traces:
        tally.add(trace)
    (found,) = [sample for _, sample in tally.of(need)] or [None]
    return found
