"""Batch: a model's inputs for some examples, and annotations of every token."""

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


def sent(x: Tensor, device: torch.device) -> Tensor:
    """A tensor on another device; to a GPU by a queued copy, for which nothing waits."""
    if x.device == device or (x.device.type == device.type and device.index is None):
        return x
    if x.device.type == "cpu" and device.type == "cuda":
        return x.contiguous().pin_memory().to(device, non_blocking=True)
    return x.to(device)


PLAN = "plan"
"""The key, with its owner, of what was decided for a batch and cannot be derived again."""


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

    def forget(self) -> None:
        """Drop the cached values, but for plans."""
        for key in [key for key in self.cache if not (isinstance(key, tuple) and key[0] == PLAN)]:
            del self.cache[key]


@dataclass(frozen=True)
class Batch(Memo):
    """The model's inputs, and annotations of each token.

    `real`: not padding. `kind`: an index into KINDS, -1 for padding; `named`: an index into `kinds`, which also has the user's
    own kinds. `unknown`: out of vocabulary. `word`: the whitespace word of the example in which the token ends, -1 for none.
    `cls`: the position of the classifying token in each row, -1 for none. `label`: an index into the model's labels, -1 for
    none; there are `classes` labels. `place`: the example's number in the corpus. `spelling`: the text of every token id.
    `frequency`: the frequency rank of each token, if the user gave a list. `texts`: the text of each example, the second text of
    a pair after " / ". `pad`: the padding id that the model's configuration must name during the forward pass; None if it names
    its own. `reads`: whether `cls` is the position at which the model was found to read the class. `host`: the same batch in
    the CPU's memory, if this one is on a GPU: what depends on ids and positions alone is computed there, so that nothing waits.
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
    host: "Batch | None" = field(default=None, repr=False, compare=False)

    @classmethod
    def of_ids(cls, input_ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"], at: Int[Tensor, " b"] | None = None) -> "Batch":
        """A batch from bare token ids, all of kind "other"; `at` is the position of the classifying token."""
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
        """Mask of real tokens that are neither special nor out of vocabulary."""
        return self.real & ~self.special & ~self.unknown

    @cached_property
    def numbers(self) -> Int[Tensor, " b"]:
        """The numbers of the rows: 0, 1, …"""
        return torch.arange(len(self.real), device=self.real.device)

    @cached_property
    def length(self) -> Int[Tensor, "b 1"]:
        """The number of real tokens of each text."""
        return self.real.sum(-1, keepdim=True)

    @cached_property
    def special(self) -> Bool[Tensor, "b t"]:
        """Mask of special tokens: [CLS], [SEP] and similar."""
        return self.real & (self.kind <= SPECIAL)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device; copies to a GPU are queued, and nothing waits for them."""
        if self.real.device == device or (self.real.device.type == device.type and device.index is None):
            return self
        host = None if device.type == "cpu" else self.on_host
        return self.with_tensors({name: sent(tensor, device) for name, tensor in self.tensors().items()}, host)

    def tensors(self) -> dict[Hashable, Tensor]:
        """All tensors: those of the model's inputs as `("input", name)`, the others by the name of their field."""
        inputs: dict[Hashable, Tensor] = {("input", name): tensor for name, tensor in self.inputs.items()}
        return inputs | {f.name: x for f in fields(self) if isinstance(x := getattr(self, f.name), Tensor)}

    def with_tensors(self, tensors: Mapping[Hashable, Tensor], host: "Batch | None" = None) -> "Batch":
        """The same batch with other tensors in place of its own, by the names that `tensors` gives them."""
        own: dict[str, Any] = {name: tensor for name, tensor in tensors.items() if isinstance(name, str)}
        return replace(self, inputs={name: tensors["input", name] for name in self.inputs}, host=host, **own)

    @cached_property
    def on_host(self) -> "Batch":
        """The same batch in the CPU's memory."""
        return self.host or self.to(torch.device("cpu"))

    def drawn(self, key: Hashable, compute: Callable[["Batch"], Tensor]) -> Tensor:
        """`compute` of this batch in the CPU's memory, sent to this batch's device; cached under `key` on both sides."""

        def send() -> Tensor:
            self.asked[key] = compute
            host = self.on_host
            return sent(host.memo(key, lambda: compute(host)), self.real.device)

        tensor: Tensor = self.memo(("drawn", key), send) if self.on_host is not self else self.memo(key, lambda: compute(self))
        return tensor

    @cached_property
    def asked(self) -> dict[Hashable, Callable[["Batch"], Tensor]]:
        """What was sent one by one so far, by key, because `drawn` was asked for it and it had not been sent with the batch."""
        return {}

    @cached_property
    def example_ranks(self) -> Int[Tensor, " b"]:
        """A hash of each example's id; samples of examples are ordered by it."""
        return mixed(torch.tensor([stable_hash(name) for name in self.ids], device=self.real.device))

    @cached_property
    def token_ranks(self) -> Int[Tensor, "b t"]:
        """A hash of each token's example and position, padding not counted; samples of tokens are ordered by it."""
        return mixed(self.example_ranks[:, None] + self.real.cumsum(-1))
