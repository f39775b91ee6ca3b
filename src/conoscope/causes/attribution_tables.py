"""Sums over the splits of many texts, and the tables that are read from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.causes.attribution_path import Part
from conoscope.causes.attribution_split import Split
from conoscope.causes.attribution_texts import texts_table, words_table
from conoscope.corpora import Example
from conoscope.results.store import TableInfo
from conoscope.sums.statistics import Moments

INDEX = {
    "attribution": TableInfo("What each part adds to the difference between the two largest logits.", "causes", 10),
    "attribution.kinds": TableInfo("The same by kind of token, of embeddings and heads.", "causes", 11),
    "attribution.texts": TableInfo("The same of single texts, the parts of all layers together.", "causes", 12),
    "attribution.words": TableInfo("What each word of single texts adds, by its embedding and by the heads.", "causes", 13),
}
NO_TOKEN = "none"
"""The kind of what heads add that they took from no token."""
UNTAKEN = 1e-5
"""What heads add without a token is rounding below this share of Σ |parts|."""
MEASURE = {"measure": "attribution"}


@dataclass(frozen=True)
class Reference:
    """What tables need beside numbers: the model's labels, the first examples by their numbers, their tokens' texts."""

    labels: Sequence[str]
    examples: Mapping[int, Example]
    spell: Any
    """A function from a token's id to its text."""


@dataclass
class Sums:
    """Moments over texts of what each part adds, of its size, and by kind of token; rows of the first texts."""

    reference: Reference
    parts: list[Part] = field(default_factory=list)
    split_by_token: list[Part] = field(default_factory=list)
    kinds: tuple[str, ...] = ()
    values: Moments = field(default_factory=Moments)
    sizes: Moments = field(default_factory=Moments)
    by_kind: Moments = field(default_factory=Moments)
    counts: Moments = field(default_factory=Moments)
    largest: Tensor = field(default_factory=lambda: torch.zeros(1, dtype=torch.float64))
    texts: list[pd.DataFrame] = field(default_factory=list)
    words: list[pd.DataFrame] = field(default_factory=list)

    def add(self, split: Split, batch: Batch) -> None:
        """Add the splits of a batch."""
        if not self.parts:
            self.parts, self.split_by_token, self.kinds = list(split.parts), list(split.tokens), batch.kinds
        every = torch.stack([*(split.parts[part] for part in self.parts), split.remainder, split.difference], 1).cpu()
        share = (every.abs() / split.size.cpu()[:, None]).nan_to_num(0.0)
        kinds, counts = _by_kind(split, self.split_by_token, batch)
        self.values, self.sizes = self.values + Moments.of(every), self.sizes + Moments.of(every.abs())
        self.by_kind, self.counts = self.by_kind + Moments.of(kinds), self.counts + Moments.of(counts)
        self.largest = torch.maximum(self.largest, share.amax(0))
        if any(place in self.reference.examples for place in batch.place.tolist()):
            labels, examples = self.reference.labels, self.reference.examples
            self.texts.append(texts_table(split, batch, labels, examples))
            self.words.append(words_table(split, batch, (labels, examples), self.reference.spell))

    @property
    def count(self) -> int:
        """The number of texts."""
        return int(self.values.count[0]) if self.parts else 0

    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table by name."""
        found = {"attribution": self._main(), "attribution.kinds": self._kinds()}
        for name, rows in (("attribution.texts", self.texts), ("attribution.words", self.words)):
            if rows:
                found[name] = first_texts(rows)
        return found

    def _main(self) -> pd.DataFrame:
        numbers = zip(self.values.mean, self.values.sd, self.sizes.mean, self.largest, strict=True)
        named = [*self.parts, Part("remainder", "all"), Part("difference", "all")]
        rows = [
            {**MEASURE, **vars(part), "value": mean, "sd": sd, "n": self.count, "size": size, "largest": largest}
            for part, (mean, sd, size, largest) in zip(named, (map(float, each) for each in numbers), strict=True)
        ]
        return with_share(typed(pd.DataFrame(rows)))

    def _kinds(self) -> pd.DataFrame:
        rows = []
        names = (*self.kinds, NO_TOKEN)
        known = self.by_kind.mean[:, -1].abs().max() > UNTAKEN * self.sizes.mean[:-2].sum()
        for number, part in enumerate(self.split_by_token):
            for place, kind in enumerate(names if known and part.part == "head" else self.kinds):
                row = {**MEASURE, "part": part.part, "layer": part.layer, "head": part.head, "kind": kind}
                tokens = float(self.counts.mean[place]) if kind != NO_TOKEN else 0.0
                mean, sd = float(self.by_kind.mean[number, place]), float(self.by_kind.sd[number, place])
                rows.append({**row, "tokens": tokens, "value": mean, "sd": sd, "n": self.count})
        return typed(pd.DataFrame(rows))


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with whole numbers as such, also where some are missing."""
    return frame.astype({name: "Int64" for name in ("layer", "head", "n") if name in frame})


def with_share(frame: pd.DataFrame) -> pd.DataFrame:
    """The main table with the share of the mean difference that each part has."""
    whole = float(frame["value"][frame["part"] == "difference"].iloc[0])
    return frame.assign(share=frame["value"] / whole if whole else float("nan"))


def first_texts(rows: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of single texts, ordered by the texts' numbers."""
    return pd.concat(rows, ignore_index=True).sort_values("text", kind="stable", ignore_index=True)


def _by_kind(split: Split, parts: Sequence[Part], batch: Batch) -> tuple[Float[Tensor, "b p kinds"], Float[Tensor, "b k"]]:
    """Sums over the tokens of each kind, last what no token has; and the number of tokens of each kind."""
    tokens = torch.stack([split.tokens[part] for part in parts], 1).cpu()
    which = torch.stack([batch.named == number for number in range(len(batch.kinds))], -1).cpu().double()
    sums = tokens @ which
    rest = torch.stack([split.parts[part] for part in parts], 1).cpu() - sums.sum(-1)
    return torch.cat((sums, rest[..., None]), -1), which.sum(1)
