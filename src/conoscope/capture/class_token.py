"""The classifying token: at which token a model reads the class of a text, and how texts of different length are padded.

Neither is looked up by the model's name. Once per model, a few rows of random tokens are run alone and in a padded batch. Equal
outputs show which padding can be used; gradients of the output show which token the class is read at. The reference is always
the text alone, with the model's own configuration.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from conoscope.capture.implementation import attention_of
from conoscope.common.errors import CaptureError

Place = Literal["first", "last", "unpadded", "several"]
ONE_TOKEN: tuple[Place, ...] = ("first", "last", "unpadded")
Side = Literal["right", "left"]
SIDES: tuple[Side, ...] = ("right", "left")
POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len")
"""Names under which configurations give the maximum number of positions."""
NOWHERE = -1
LONGEST = 11
"""Length in tokens of the longest trial row."""


@dataclass(frozen=True)
class Reading:
    """Where a model reads the class, and how rows are padded.

    `place`: the `first` token, the `last` one, the last one that is not the padding token (`unpadded`: most decoders), or
    `several`; None if it was not found, as in a model that does not classify. `side`: the side of the padding; None if padding
    on either side changes the output, so that only texts of equal length can share a batch. `pad`: the padding id in the
    configuration, None if it names none or one outside the vocabulary. `fails`: why the model could not be run.
    """

    place: Place | None = None
    side: Side | None = "right"
    pad: int | None = None
    fails: str | None = None

    def at(self, ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"]) -> Int[Tensor, " b"]:
        """The position at which the class is read in each row; -1 if it is not a single token, or unknown."""
        if self.place == "first":
            return first_place(real)
        if self.place == "unpadded" and self.pad is not None:
            unpadded = real & (ids != self.pad)
            return torch.where(unpadded.any(-1), last_place(unpadded), first_place(real))
        return last_place(real) if self.place in ("last", "unpadded") else torch.full_like(ids[:, 0], NOWHERE)


def first_place(real: Bool[Tensor, "b t"]) -> Int[Tensor, " b"]:
    """The position of the first real token in each row."""
    return real.int().argmax(-1)


def last_place(real: Bool[Tensor, "b t"]) -> Int[Tensor, " b"]:
    """The position of the last real token in each row."""
    return real.shape[1] - 1 - real.flip(-1).int().argmax(-1)


def side_by_side(rows: Sequence[Sequence[int]], fill: int, side: Side = "right", multiple: int = 1) -> Int[Tensor, "b t"]:
    """The rows as one tensor, padded with `fill` to the longest, or to the next multiple."""
    longest = -(-max(map(len, rows), default=0) // multiple) * multiple
    fills = [[fill] * (longest - len(row)) for row in rows]
    return torch.tensor([[*row, *more] if side == "right" else [*more, *row] for row, more in zip(rows, fills, strict=True)])


@contextmanager
def padding_as(module: PreTrainedModel, pad: int | None) -> Iterator[None]:
    """Context in which the configuration names this padding id; None leaves it unchanged. The old id is restored on exit."""
    configs = {id(config): config for config in (module.config, module.config.get_text_config())}.values()
    before = [(config, config.pad_token_id) for config in configs if hasattr(config, "pad_token_id")]
    try:
        if pad is not None:
            for config, _ in before:
                config.pad_token_id = pad
        yield
    finally:
        for config, named in before:
            config.pad_token_id = named


@contextmanager
def graph_of(module: PreTrainedModel) -> Iterator[None]:
    """Context in which autograd records from the embeddings on, even if every parameter is frozen."""

    def begin(embeddings: nn.Module, given: tuple[Any, ...], returned: Any) -> Any:
        return returned.detach().requires_grad_().clone() if isinstance(returned, Tensor) else returned

    handle = module.get_input_embeddings().register_forward_hook(begin)
    try:
        with torch.enable_grad():
            yield
    finally:
        handle.remove()


def most_positions(module: PreTrainedModel) -> int | None:
    """The maximum number of positions of a model; None if its configuration sets no valid bound (XLNet: -1)."""
    config = module.config.get_text_config()
    values = [getattr(config, name, None) for name in POSITIONS]
    bounds = (int(x) for x in values if isinstance(x, (int, float)) and not isinstance(x, bool) and 1 <= x < float("inf"))
    return next(bounds, None)


def trial_length(module: PreTrainedModel) -> int:
    """Length of the longest trial row: a few tokens fewer than the model has positions, as some count positions from above 0."""
    return max(3, min(LONGEST, (most_positions(module) or LONGEST + 4) - 4))


def known_ids(module: PreTrainedModel) -> int:
    """The number of token ids of a model."""
    try:
        return len(module.get_input_embeddings().weight)
    except (RuntimeError, AttributeError):
        raise CaptureError(f"{type(module).__name__} has no one table of token embeddings, so no tokens to try it on") from None


def named_pad(module: PreTrainedModel) -> int | None:
    """The padding id in the configuration; None if it names none, or one outside the vocabulary."""
    pad = getattr(module.config.get_text_config(), "pad_token_id", None)
    return pad if isinstance(pad, int) and not isinstance(pad, bool) and 0 <= pad < known_ids(module) else None


def ambiguities(reading: Reading, module: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str) -> Iterator[str]:
    """Notes on what a model leaves ambiguous about how its texts are read, and how it was resolved."""
    if reading.side is None:
        yield f"padding changes what {name} answers, so that only texts of one length are read together"
    if reading.place != "unpadded":
        return
    if reading.pad is None:
        named = getattr(module.config.get_text_config(), "pad_token_id", None)
        which = "no padding token" if named is None else f"the padding token {named}, which it does not have"
        yield f"{name} names {which}; the class is read at the last token of a text, as transformers does for one text alone"
        return
    if tokenizer.pad_token_id not in (None, reading.pad):
        yield (
            f"{name} names the padding token {reading.pad} and its tokenizer {tokenizer.pad_token_id}; texts are padded with "
            f"{reading.pad}, and the class is read at the last other token, as transformers does for one text alone"
        )
    unknown = tokenizer.unk_token_id
    if unknown == reading.pad and unknown not in (tokenizer.eos_token_id, tokenizer.bos_token_id):
        yield (
            f"the padding token of {name} stands for unknown words too; in a text that ends in them the class is read at the "
            "token before, as transformers does for one text alone"
        )
    encoded = tokenizer("a")
    # A token that the tokenizer adds belongs to no sequence, unlike an unknown word.
    if encoded["input_ids"][-1:] == [reading.pad] and encoded.sequence_ids()[-1] is None:
        yield (
            f"the tokenizer of {name} ends every text with the padding token; the class is read at the token before it, as "
            "transformers does for one text alone"
        )


@torch.inference_mode(False)
def reading_of(module: PreTrainedModel) -> Reading:
    """Where a model reads the class of a text and how its texts are padded, found by trial runs."""
    try:
        pad = named_pad(module)
        trial = _Trial(module, pad)
    except CaptureError:
        return Reading(side=None)
    with attention_of(module, module.config._attn_implementation):
        side, fails = _first_of([lambda: trial.side(()), lambda: trial.side(trial.ending)])
        place, _ = _first_of([trial.place])
    return Reading(place, side, pad, fails)


def _first_of(attempts: Sequence[Any]) -> tuple[Any, str | None]:
    """The result of the first attempt that succeeds, and None; or None, and why all failed."""
    fails = None
    for attempt in attempts:
        try:
            return attempt(), None
        except Exception as error:  # a third-party model can fail in any way on random tokens
            fails = fails or next(iter(str(error).strip().splitlines()), type(error).__name__)
    return None, fails


class _Trial:
    """Trial runs of a model on random tokens, alone and padded with different tokens."""

    def __init__(self, module: PreTrainedModel, pad: int | None) -> None:
        self.module, self.pad = module, pad
        config = module.config.get_text_config()
        known = torch.randperm(known_ids(module), generator=torch.Generator().manual_seed(0)).tolist()
        spare = [token for token in known if token != pad]
        self.pads = (spare[0] if pad is None else pad, spare[min(1, len(spare) - 1)])
        """Two padding ids to try: both must give the same output."""
        self.tokens = [token for token in spare if token not in self.pads] or spare
        end = getattr(config, "eos_token_id", None)
        self.ending = (end,) if isinstance(end, int) else ()
        self.longest = trial_length(module)

    def row(self, length: int, seed: int) -> list[int]:
        """Random tokens, none of them a padding id."""
        indices = torch.randint(len(self.tokens), (length,), generator=torch.Generator().manual_seed(seed))
        return [self.tokens[index] for index in indices.tolist()]

    def side(self, ending: Sequence[int]) -> Side | None:
        """The first side on which padding does not change the outputs; None if there is none."""
        lengths = (self.longest, self.longest - 1, self.longest // 2 + 1, 2)
        rows = [[*self.row(length, seed), *ending] for seed, length in enumerate(lengths)]
        alone = [self.answers([row]) for row in rows]
        return next((side for side in SIDES if self._same(rows, alone, side)), None)

    def _same(self, rows: Sequence[Sequence[int]], alone: Sequence[Tensor], side: Side) -> bool:
        """Whether padded rows give the same outputs as alone, up to rounding, for both padding ids."""
        padded = [self.answers(rows, pad, side) for pad in self.pads]
        eps = torch.finfo(padded[0].dtype).eps
        ours = [[_of_row(answers[number], len(row), side) for number, row in enumerate(rows)] for answers in padded]
        return all(
            _close(one, other, 8 * eps) and _close(one, expected[0], max(1e-4, 16 * eps))
            for one, other, expected in zip(*ours, alone, strict=True)
        )

    @torch.no_grad()
    def answers(self, rows: Sequence[Sequence[int]], pad: int | None = None, side: Side = "right") -> Tensor:
        """The logits, or the last hidden states if there are no logits."""
        with padding_as(self.module, pad):
            outputs = self.module(**self._inputs(rows, pad or 0, side))
        answers: Tensor = outputs.logits if "logits" in outputs else outputs.last_hidden_state
        return answers

    def _inputs(self, rows: Sequence[Sequence[int]], pad: int, side: Side) -> dict[str, Tensor]:
        mask = side_by_side([[1] * len(row) for row in rows], 0, side)
        return {"input_ids": side_by_side(rows, pad, side).to(self.module.device), "attention_mask": mask.to(self.module.device)}

    def place(self) -> Place | None:
        """Where the class is read in a single text, also if it contains padding tokens."""
        pad = self.pads[0]
        rows = [self.row(6, seed) for seed in range(3)]
        rows[1][-1] = rows[2][2] = rows[2][4] = rows[2][5] = pad
        found = [self._read(row, pad) for row in rows]
        if any(len(read) > 1 for read in found):
            return "several"
        expected: dict[Place, list[set[int]]] = {"first": [{0}] * 3, "last": [{5}] * 3, "unpadded": [{5}, {4}, {3}]}
        return next((place for place, read in expected.items() if read == found), None)

    def _read(self, row: Sequence[int], pad: int) -> set[int]:
        """The positions whose last hidden state has a nonzero gradient from the logits."""
        kept: list[Tensor] = []

        def keep(body: nn.Module, given: tuple[Any, ...], returned: Any) -> None:
            kept.append(returned[0])

        with ExitStack() as stack:
            if self.module.base_model is not self.module:
                stack.callback(self.module.base_model.register_forward_hook(keep).remove)
            stack.enter_context(padding_as(self.module, pad))
            stack.enter_context(graph_of(self.module))
            outputs = self.module(**self._inputs([row], pad, "right"), output_hidden_states=True)
            logits = outputs.logits
            # Not the plain sum: if the logits sum to 1, its gradient is 0 everywhere.
            weighted = (logits * torch.arange(1, logits.shape[-1] + 1, device=logits.device)).sum()
            states = [x for x in (*kept, outputs.hidden_states[-1]) if isinstance(x, Tensor) and x.requires_grad]
            slopes = torch.autograd.grad(weighted, states, allow_unused=True)
        slope = next(x for x in slopes if x is not None and x.shape[:2] == (1, len(row)))
        if not bool(slope.isfinite().all()):
            raise ArithmeticError("the slope of the answer is not finite")
        return set((slope[0] != 0).any(-1).nonzero()[:, 0].tolist())


def _of_row(answer: Tensor, length: int, side: Side) -> Tensor:
    """A row's logits, or the vectors of its real tokens."""
    if answer.ndim < 2:
        return answer
    return answer[:length] if side == "right" else answer[-length:]


def _close(one: Tensor, other: Tensor, rounding: float) -> bool:
    """Whether two outputs differ by at most this share of the largest number; False if one is not finite."""
    return one.shape == other.shape and float((one - other).abs().max()) <= rounding * float(other.abs().max())
