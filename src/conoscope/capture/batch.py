"""Batch: what a model reads of some examples, and what we know of every token."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture.token_kinds import OTHER, PAD, SPECIAL
from conoscope.common.vocabulary import KINDS
from conoscope.corpora.base import stable_hash
from conoscope.sums.numeric import mixed


class Memo:
    """Mixin that caches derived values."""

    @cached_property
    def cache(self) -> dict[Hashable, Any]:
        """The cached values by key."""
        return {}

    def memo(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """The value of `compute()`, cached under `key`."""
        if key not in self.cache:
            self.cache[key] = compute()
        return self.cache[key]


@dataclass(frozen=True)
class Batch(Memo):
    """The model's inputs and, for each token, what it is.

    `real`: not padding. `kind`: an index into KINDS, -1 on pads; `named`: the same into `kinds`, which has the user's own
    as well. `unknown`: out of the vocabulary. `word`: which
    whitespace word of the example the token ends in, -1 for none. `cls`: where the classifying token stands in each
    row, -1 where there is none. `label`: an index into the model's labels, -1 where there is none, of `classes` in all.
    `place`: the example's number in the corpus. `spelling`: the text of every token id. `frequency`: the rank of each token
    by a given list of frequencies, where there is one. `texts`: what each example says, the second text of a pair after " / ".
    `pad`: what the model's configuration must name as padding for the time of a pass; None where it names its own. `reads`:
    whether `cls` is where the model was found to read.
    """

    inputs: Mapping[str, Tensor]
    real: Bool[Tensor, "b t"]
    kind: Int[Tensor, "b t"]
    named: Int[Tensor, "b t"]
    unknown: Bool[Tensor, "b t"]
    word: Int[Tensor, "b t"]
    cls: Int[Tensor, " b"]
    label: Int[Tensor, " b"]
    place: Int[Tensor, " b"]
    ids: tuple[str, ...]
    classes: int = 0
    spelling: Mapping[int, str] = field(default_factory=dict, repr=False)
    kinds: tuple[str, ...] = KINDS
    frequency: Float[Tensor, "b t"] | None = None
    texts: tuple[str, ...] = field(default=(), repr=False)
    pad: int | None = None
    reads: bool = False

    @classmethod
    def of_ids(cls, input_ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"], at: Int[Tensor, " b"] | None = None) -> "Batch":
        """A batch from bare token ids, every token an ordinary one; `at` says where the classifying token stands."""
        rows = len(input_ids)
        none = torch.full((rows,), -1, device=input_ids.device)
        return cls(
            inputs={"input_ids": input_ids, "attention_mask": real.long()},
            real=real,
            kind=(kind := torch.where(real, OTHER, PAD)),
            named=kind,
            unknown=torch.zeros_like(real),
            word=torch.full_like(input_ids, -1),
            cls=none if at is None else at,
            label=none,
            place=torch.arange(1, rows + 1, device=input_ids.device),
            ids=tuple(str(row) for row in range(rows)),
        )

    @cached_property
    def content(self) -> Bool[Tensor, "b t"]:
        """Real tokens that are neither special nor out of the vocabulary."""
        return self.real & ~self.special & ~self.unknown

    @cached_property
    def special(self) -> Bool[Tensor, "b t"]:
        """[CLS], [SEP] and their like."""
        return self.real & (self.kind <= SPECIAL)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        moved = {f.name: getattr(self, f.name).to(device) for f in fields(self) if isinstance(getattr(self, f.name), Tensor)}
        return replace(self, inputs={name: tensor.to(device) for name, tensor in self.inputs.items()}, **moved)

    @cached_property
    def example_ranks(self) -> Int[Tensor, " b"]:
        """A hash of each example's id: what a sample of examples goes by."""
        return mixed(torch.tensor([stable_hash(name) for name in self.ids], device=self.real.device))

    @cached_property
    def token_ranks(self) -> Int[Tensor, "b t"]:
        """A hash of each token's example and place in it, wherever the padding is: what a sample of tokens goes by."""
        return mixed(self.example_ranks[:, None] + self.real.cumsum(-1))
