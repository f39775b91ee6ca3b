"""Attention as the textbook has it: α f(x) of every pair of tokens, materialised, one text at a time; and batches whose
tokens are of several kinds."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr

from architectures import padded
from conoscope.capture.batch import Batch
from conoscope.capture.token_kinds import CLS, OTHER, PAD, PUNCTUATION, SEP, SPECIAL
from conoscope.capture.trace import Trace
from conoscope.common.vocabulary import KINDS
from conoscope.measures import request
from conoscope.measures.correlation import ROUNDING
from conoscope.measures.tally import Tally
from conoscope.results.from_sums import tables_of

NAMES = (*KINDS, "negation")
NEGATION = NAMES.index("negation")
LENGTHS = (40, 23, 12, 5, 1)


def of_kinds(lengths: Sequence[int] = LENGTHS, extra: int = 0) -> Batch:
    """Texts that begin with [CLS] and end with [SEP], save the third, with tokens of every kind between them."""
    batch = padded(tuple(lengths), extra)
    ids = batch.inputs["input_ids"]
    kind = torch.where(ids % 5 == 0, PUNCTUATION, OTHER).where(ids % 13 != 0, SPECIAL)
    rows, last = torch.arange(len(ids)), batch.real.sum(-1) - 1
    ends = torch.where(rows == 2, OTHER, SEP)
    kind[rows, last] = ends
    kind[:, 0] = CLS
    kind = kind.where(batch.real, PAD)
    named = torch.where((kind > SPECIAL) & (ids % 7 == 0), NEGATION, kind)
    return replace(batch, kind=kind, named=named, kinds=NAMES)


@dataclass(frozen=True)
class Text:
    """One text in one layer, without its padding: α, f and what is added, in float64."""

    a: np.ndarray
    f: np.ndarray
    kind: list[str]
    output: np.ndarray | None
    bias: np.ndarray
    residual: np.ndarray | None
    place: np.ndarray

    @cached_property
    def mixed(self) -> np.ndarray:
        """α f of every head, query and key: (h, i, j, d)."""
        return self.a[..., None] * self.f[:, None]

    @cached_property
    def pairs(self) -> np.ndarray:
        """S_ij = Σ_h α f: (i, j, d)."""
        return self.mixed.sum(0)

    def of(self, kind: str) -> list[int]:
        return [at for at, name in enumerate(self.kind) if name == kind]


def texts(trace: Trace) -> Iterator[Text]:
    batch, projection = trace.batch, trace.projection
    assert trace.weights is not None
    assert trace.value is not None
    assert projection is not None
    value = trace.value.double().repeat_interleave(trace.weights.shape[1] // trace.value.shape[1], dim=1)
    f = torch.einsum("bhje,hed->bhjd", value, projection.weight.double())
    bias = torch.zeros(f.shape[-1]) if projection.bias is None else projection.bias
    for row, real in enumerate(batch.real):
        yield Text(
            trace.weights[row].double()[:, real][:, :, real].numpy(),
            f[row][:, real].numpy(),
            [batch.kinds[kind] for kind in batch.named[row, real].tolist()],
            None if trace.output is None else trace.output[row, real].double().numpy(),
            bias.double().numpy(),
            None if trace.residual is None else trace.residual[row, real].double().numpy(),
            real.nonzero()[:, 0].numpy(),
        )


def read(name: str, traces: Sequence[Trace]) -> dict[str, pd.DataFrame]:
    """A measure's tables of some traces."""
    asked = request(name)
    tally = Tally.for_needs(asked.needs())
    for trace in traces:
        tally.add(trace)
    return tables_of(asked, tally, kinds=traces[0].batch.kinds)


def cells(frame: pd.DataFrame, *keys: str) -> dict[tuple[object, ...], pd.Series]:
    """The rows by these keys; none for a missing head or layer."""
    found = {tuple(None if pd.isna(row[key]) else row[key] for key in keys): row for _, row in frame.iterrows()}
    assert len(found) == len(frame)
    return found


def length(x: np.ndarray) -> float:
    return math.sqrt(sum(c * c for c in x.tolist()))


def levelled(x: np.ndarray) -> np.ndarray:
    """Numbers that differ by rounding alone made equal, one by one: weights near 1, the norms of a token in two texts."""
    order, found = np.argsort(x), x.copy()
    for before, at in itertools.pairwise(order):
        if x[at] - x[before] <= ROUNDING * abs(x[at]):
            found[at] = found[before]
    return found


def naive_spearman(x: np.ndarray, y: np.ndarray) -> float:
    x, y = levelled(x), levelled(y)
    return math.nan if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0 else float(spearmanr(x, y).statistic)
