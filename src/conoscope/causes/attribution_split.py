"""Splitter: the logit difference of each text of a batch, split along the direct path."""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from transformers import activations

from conoscope.capture.batch import Batch
from conoscope.capture.calls import Call
from conoscope.capture.forward import answer_of
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Capture, recording
from conoscope.capture.trace import Trace
from conoscope.capture.trial_batches import random_batch
from conoscope.capture.wiring import Side
from conoscope.causes.attribution_path import DirectPath, Part, fixed
from conoscope.causes.attribution_places import Places
from conoscope.causes.two_classes import Classes, difference_of, two_largest
from conoscope.common.errors import CaptureError

BY_TOKEN = ("words", "positions", "types", "head")
"""The parts that are split by token."""
AT_ONCE = 2**24
"""How many attention weights are multiplied at once."""
LIMIT = 1e-5
"""How large a remainder may be, as a share of Σ |parts|."""
LIMITS = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.1}
"""The same where rounding alone may leave more; what is above LIMIT is told."""


@dataclass(frozen=True)
class Split:
    """What each part adds to the logit difference of each text, in double precision.

    `parts` sum to `difference` but for `remainder`. `tokens`: the same by token, of the parts that can be split so; what a head
    took from no token (an attention sink) is in none of them. `predicted` and `second`: the two classes.
    """

    parts: Mapping[Part, Float[Tensor, " b"]]
    tokens: Mapping[Part, Float[Tensor, "b t"]]
    difference: Float[Tensor, " b"]
    remainder: Float[Tensor, " b"]
    predicted: Int[Tensor, " b"]
    second: Int[Tensor, " b"]

    @property
    def size(self) -> Float[Tensor, " b"]:
        """Σ |parts| of each text."""
        return torch.stack(list(self.parts.values())).abs().sum(0)


class Splitter:
    """Context manager: `splitter(batch)` is the Split of a batch.

    It can be entered again: the direct path is found once, and between two times the model is as it was.

    >>> with Splitter(load_model("runs/pure")) as splitter:
    ...     splitter(batch).parts
    """

    def __init__(self, loaded: LoadedModel, capture: Capture | None = None) -> None:
        """`capture`: one with whole weights, if there is one already."""
        self.loaded, self.module = loaded, loaded.module
        self._capture = capture or Capture(self.module, "full", reductions=(), whole=True)
        self._found = False
        self._stack = ExitStack()
        self._names: dict[int, str] = {}
        self._path: DirectPath | None = None
        self._counts: Counter[nn.Module] = Counter()
        self._offsets: dict[type[nn.Module], bool] = {}
        """Whether a nonlinear function of transformers is not 0 at 0; known after the first pass."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._capture)
            self.wiring = self._capture.find_wiring()
            if self._found:
                self._hook(stack)
            else:
                self._find(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads of each layer."""
        return self.wiring.heads

    def __call__(self, batch: Batch, classes: Classes | None = None) -> Split:
        """The split of a batch; CaptureError if the parts of a text do not add up to the model's own logit difference.

        `classes`: the class and the other of each text, if not the two with the largest logits.
        """
        batch = batch.to(self.loaded.device)
        found = self._slopes(batch, classes=classes)
        pulls: dict[int, Tensor] = {}
        by_token: dict[Part, Tensor] = {}
        parts: dict[Part, Tensor] = {}
        for (part, leaf), slope in zip(found.path.parts, found.slopes, strict=True):
            x = leaf.detach()
            if part.part == "head":
                assert part.layer is not None
                heads = self.heads[part.layer - 1]
                pulls[part.layer] = slope.unflatten(-1, (heads, -1))
                shares = (x.double() * slope.double()).unflatten(-1, (heads, -1)).sum((1, -1))
                parts |= {Part("head", "context", part.layer, n): shares[:, n - 1] for n in range(1, heads + 1)}
            elif part.part == "forward":
                parts |= self._forward(found.path, part, (x, slope))
            else:
                by_token[part] = by_token.get(part, 0) + (x.double() * slope.double()).sum(-1)
        for part, shares in found.path.constants.items():
            if part.part in BY_TOKEN:
                by_token[part] = by_token.get(part, 0) + shares
            else:
                parts[part] = parts.get(part, 0) + shares.sum(-1)
        parts |= {part: shares.sum(-1) for part, shares in by_token.items()}
        logits = self.loaded.answer(batch, lambda moved: self._capture(moved, lambda trace: self._took(trace, pulls, by_token)))
        difference = difference_of(logits, found.predicted, found.second)
        ordered = {part: parts[part] for part in sorted(parts, key=_order)}
        remainder = difference - torch.stack(list(ordered.values())).sum(0)
        split = Split(ordered, by_token, difference, remainder, found.predicted, found.second)
        self._refuse_remainder(split, batch)
        return split

    @torch.inference_mode(False)
    def _slopes(self, batch: Batch, closed: frozenset[int] = frozenset(), classes: Classes | None = None) -> "_Found":
        """One pass over a batch and one back."""
        words = self.module.get_input_embeddings().weight
        fed = frozenset(self._feeding.values())
        path = DirectPath(batch.real, words, self._names, fed, closed)
        self._path, self._counts = path, Counter()
        # A hook of all modules: some heads make the module of their nonlinear function anew in each pass (BigBird).
        handle = register_module_forward_hook(self._bent)
        try:
            with recording(None, batch), torch.enable_grad(), fixed(self.module):
                with path:
                    logits = answer_of(self.module, batch)
                predicted, second = classes or two_largest(logits.detach())
                slopes = path.slopes(difference_of(logits, predicted, second).sum())
        finally:
            handle.remove()
            self._path = None
        return _Found(path, slopes, predicted, second)

    def _forward(self, path: DirectPath, part: Part, found: tuple[Tensor, Tensor]) -> dict[Part, Tensor]:
        """What a feed-forward part adds without its bias, and what its bias adds, from its vectors and their slopes."""
        assert part.layer is not None
        x, slope = found
        bias = next(getattr(call[0], "bias", None) for call, layer in self._feeding.items() if layer == part.layer)
        shift = torch.zeros_like(x[..., :1]) if bias is None else bias.detach()
        # Some models have one axis for texts and tokens here (OPT).
        own = path.by_token((x.double() - shift.double()) * slope.double()).sum(-1)
        if bias is None:
            return {part: own}
        constant = path.by_token(shift.double() * slope.double()).sum(-1)
        return {part: own, Part("bias", "forward", part.layer): constant}

    def _took(self, trace: Trace, pulls: Mapping[int, Tensor], by_token: dict[Part, Tensor]) -> None:
        """Enter what each head of a layer took from each token: Σ_i α_ij v_j · slope_i."""
        if trace.layer not in pulls or trace.weights is None or trace.value is None:
            return
        pull = pulls[trace.layer].transpose(1, 2)
        value = trace.value.repeat_interleave(pull.shape[1] // trace.value.shape[1], 1)
        # Some texts at once: a product in double precision is twice or four times as large as the weights.
        some = max(1, AT_ONCE // (pull.shape[1] * pull.shape[2] ** 2))
        each = zip(*(x.split(some) for x in (trace.weights, pull, value)), strict=True)
        taken = torch.cat([(w.double() * (p.double() @ v.double().mT)).sum(2) for w, p, v in each])
        by_token |= {Part("head", "context", trace.layer, n): taken[:, n - 1] for n in range(1, pull.shape[1] + 1)}

    def _find(self, stack: ExitStack) -> None:
        """Find what reads the heads, and what ends the feed-forward parts; all of it is hooked."""
        batch = random_batch(self.module)
        places = Places(self.module, self._capture, batch)
        self._reading = {call: layer for layer, call in enumerate(places.reads(), 1)}
        self._feeding = {call: layer for layer, call in enumerate(self.wiring.forwards, 1) if call is not None}
        self._hook(stack)
        self._find_unfed(stack, places, batch)
        self._found = True

    def _hook(self, stack: ExitStack) -> None:
        """Hook what reads the heads, what ends the feed-forward parts, and the last layer's output."""
        self._last: tuple[Call, Side] | None = self.wiring.outputs[-1]
        calls = {*self._reading, *self._feeding, *([] if self._last is None else [self._last[0]])}
        for module in {call[0] for call in calls}:
            self._watch(stack, module)

    def _watch(self, stack: ExitStack, module: nn.Module) -> None:
        stack.callback(module.register_forward_pre_hook(self._begin).remove)
        stack.callback(module.register_forward_hook(self._end).remove)

    def _begin(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        path = self._path
        if path is None:
            return None
        call = module, self._counts[module]
        self._counts[module] += 1
        if self._last == (call, "given"):
            path.classifying = True
        if call not in self._reading:
            return None
        path.layer = self._reading[call]
        if (weight := getattr(module, "weight", None)) is not None:
            path.projections[id(weight)] = path.layer
        return path.begin(Part("head", "context", path.layer), args[0]), *args[1:]

    def _end(self, module: nn.Module, args: tuple[Any, ...], returned: Any) -> Any:
        path = self._path
        if path is None:
            return None
        call = module, self._counts[module] - 1
        if self._last == (call, "returned"):
            path.classifying = True
        return path.begin(Part("forward", "forward", self._feeding[call]), returned) if call in self._feeding else None

    def _bent(self, module: nn.Module, args: tuple[Any, ...], returned: Any) -> Any:
        """A nonlinear function that transformers writes in several operations, as one."""
        path = self._path
        if path is None or path.inside or type(module).__module__ != activations.__name__ or not args[0].requires_grad:
            return None
        kind = type(module)
        if kind not in self._offsets:
            with torch.no_grad():
                self._offsets[kind] = bool(module.forward(torch.zeros_like(args[0].detach()[:1])).any())
        return path.bend(args[0], module.forward, self._offsets[kind])

    def _find_unfed(self, stack: ExitStack, places: Places, batch: Batch) -> None:
        """Cut off feed-forward parts that the wiring left out: nonlinear functions with a way around them.

        A nonlinear function of the whole stream has none, and is on the path. CaptureError if a nonlinear function is on the
        path beside the stream all the same.
        """
        for layer in sorted(self._slopes(batch).path.bent - {0, *self._feeding.values()}):
            heads, shut = Part("head", "context", layer), self._slopes(batch, frozenset({layer}))
            if any(bool(x.any()) for (part, _), x in zip(shut.path.parts, shut.slopes, strict=True) if part == heads):
                call = places.last_linear(layer)
                if call is None or call in self._feeding:
                    self._refuse_unfed(layer)
                if call[0] not in {known[0] for known in (*self._feeding, *self._reading)}:
                    self._watch(stack, call[0])
                self._feeding[call] = layer
        fed = frozenset(self._feeding.values())
        opened = self._slopes(batch)
        if not opened.equals(self._slopes(batch, fed)):
            self._refuse_unfed(next(layer for layer in sorted(fed) if not opened.equals(self._slopes(batch, frozenset({layer})))))

    def _refuse_unfed(self, layer: int) -> NoReturn:
        raise CaptureError(
            f"layer {layer} of {type(self.module).__name__} has a feed-forward part, or one of several, that cannot be followed, "
            "so its answer cannot be split; docs/supported.md says where such parts are found"
        )

    def _refuse_remainder(self, split: Split, batch: Batch) -> None:
        share = (split.remainder.abs() / split.size).nan_to_num(torch.inf).cpu()
        worst = int(share.argmax())
        if float(share[worst]) > LIMITS.get(self.module.dtype, LIMIT):
            raise CaptureError(
                f"the parts of {type(self.module).__name__} do not add up to its answer to {batch.ids[worst]}: "
                f"{float(share[worst]):.1g} of Σ|parts| is left, by something on the direct path that is neither linear nor a "
                "known function of single numbers; give another model"
            )


@dataclass(frozen=True)
class _Found:
    """A pass on the direct path, the slope of each part, and the two classes with the largest logits."""

    path: DirectPath
    slopes: list[Tensor]
    predicted: Int[Tensor, " b"]
    second: Int[Tensor, " b"]

    def equals(self, other: "_Found") -> bool:
        """Whether all slopes are the same."""
        return all(torch.equal(one, two) for one, two in zip(self.slopes, other.slopes, strict=True))


SITES = ("embeddings", "context", "output", "forward", "norm", "layer", "classifier")
PARTS = ("words", "positions", "types", "head", "forward", "bias", "activation")


def _order(part: Part) -> tuple[float, int, int, int]:
    layer = torch.inf if part.layer is None else part.layer
    return layer, SITES.index(part.site), PARTS.index(part.part), part.head or 0
