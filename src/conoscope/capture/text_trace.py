"""trace(): what one text left in every layer of a model, as arrays with plain names."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel, ModelSource, load_model
from conoscope.capture.order import refuse_swapped
from conoscope.capture.recorder import Capture
from conoscope.capture.trace import SITES, Trace
from conoscope.common.errors import CorpusError, MeasureError, NotMeasuredError, one_of
from conoscope.common.keywords import nearest
from conoscope.common.markup import cut
from conoscope.common.terminal import printable
from conoscope.corpora import Corpus, Texts, corpus_of

KINDS = ("numpy", "torch")
NAMES = {
    "hidden": "the layer's output, in layer 0 the embeddings",
    "input": "what W_Q, W_K and W_V read, where that is not the output of the layer before",
    "query": "queries",
    "key": "keys, after rotary positions where the model has such",
    "value": "values",
    "weights": "attention weights: row = the token that looks, column = the token it looks at",
    "context": "weights times values, before W_O",
    "output": "the output of attention, after W_O",
    "forward": "what the feed-forward part adds",
}
"""The names of the arrays of a layer, and what they hold."""


class Layers(dict[int, Any]):
    """The arrays of one name by layer; a KeyError of one line for a layer that has none."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def __missing__(self, layer: object) -> Any:
        raise NotMeasuredError(f"no layer {layer!r} of {self.name}: layers count from 1; there are {min(self)} to {max(self)}")


@dataclass(frozen=True)
class TextTrace(Mapping[str, Mapping[int, Any]]):
    """What one text left in every layer: `trace["weights"][3]` is an array (heads, tokens, tokens), of layer 3.

    Layers count from 1; `hidden` of layer 0 is the embeddings. Vectors by head are (heads, tokens, width), others
    (tokens, width).
    `tokens`: the tokens' texts. `words`: the number of each token's whitespace word, -1 for special tokens. `logits` and
    `probabilities`: the model's answer, None and empty if it does not classify.
    """

    text: str
    tokens: tuple[str, ...]
    words: tuple[int, ...]
    arrays: Mapping[str, Mapping[int, Any]]
    logits: Any
    probabilities: Mapping[str, float]
    model: str = ""

    def __getitem__(self, name: str) -> Mapping[int, Any]:
        if name not in self.arrays:
            why = "; the model has none, or it was not found" if name in NAMES else nearest(str(name), self.arrays)
            raise MeasureError(f"no {name!r} in this trace{why}; there is {one_of(self.arrays)}")
        return self.arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self.arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array, the same in all layers but for models whose layers differ; then that of the last one."""
        return {name: tuple(by_layer[max(by_layer)].shape) for name, by_layer in self.arrays.items()}

    def layer(self, number: int) -> dict[str, Any]:
        """The arrays of one layer by name; MeasureError if there is no such layer."""
        found = {name: by_layer[number] for name, by_layer in self.arrays.items() if number in by_layer}
        if not found:
            last = max(max(by_layer) for by_layer in self.arrays.values())
            raise MeasureError(f"no layer {number!r}; give a number from 0 (the embeddings) to {last}")
        return found

    def __repr__(self) -> str:
        """The text, and a line for each array: its name, its layers, its shape, what it holds."""
        lines = [
            f"  {name:8} layers {min(by_layer)} to {max(by_layer)}, {self.shapes[name]}: {NAMES[name]}"
            for name, by_layer in self.arrays.items()
        ]
        head = f"<trace of {cut(printable(self.text))!r} in {cut(printable(self.model))}, {len(self.tokens)} tokens"
        return "\n".join((head, *lines)) + ">"


def trace(model: ModelSource, text: Texts, kind: str = "numpy", max_length: int | None = None) -> TextTrace:
    """What one text left in every layer of a model, as arrays of numpy, or as tensors of torch on the model's device.

    >>> trace("runs/pure", "the soup was not good")["weights"][1].shape
    """
    if kind not in KINDS:
        raise MeasureError(f"no kind of array {kind!r}{nearest(str(kind), KINDS)}; known: {one_of(KINDS)}")
    refuse_swapped("trace", model, text)
    corpus, loaded = corpus_of(text).unlabelled(), load_model(model)
    examples = list(corpus.first(2))
    if len(examples) != 1:
        raise CorpusError(f"trace takes one text, and {corpus} has {'more' if examples else 'none'}; trace them one by one")
    batch = loaded.batcher(Corpus.of(examples), max_length).batch(examples)
    traces: list[Trace] = []
    with Capture(loaded.module, whole=True) as capture:
        answer = loaded.answer(batch, lambda moved: capture(moved, traces.append))
    return _of_traces(examples[0].text, loaded, batch, (traces, answer), kind)


def _of_traces(text: str, loaded: LoadedModel, batch: Batch, found: tuple[Sequence[Trace], Tensor], kind: str) -> TextTrace:
    (traces, answer), real = found, batch.real[0]
    arrays: dict[str, Layers] = {}
    for name in NAMES:
        for of_layer in traces:
            held = name in of_layer.sites if name in SITES else getattr(of_layer, name) is not None
            if held:
                kept = _without_padding(name, getattr(of_layer, name)[0], real)
                arrays.setdefault(name, Layers(name))[of_layer.layer] = _as(kind, kept)
    ids = batch.inputs["input_ids"][0][real.to(batch.inputs["input_ids"].device)].tolist()
    classifies = bool(loaded.labels) and answer.ndim == 2 and answer.shape[-1] > 1
    shares = answer[0].double().softmax(-1).tolist() if classifies else []
    return TextTrace(
        text=text,
        tokens=tuple(loaded.tokenizer.convert_ids_to_tokens(ids)),
        words=tuple(batch.word[0][real].tolist()),
        arrays=arrays,
        logits=_as(kind, answer[0]) if answer.ndim == 2 else None,
        probabilities=dict(zip(loaded.labels, shares, strict=True)) if classifies else {},
        model=loaded.name,
    )


def _without_padding(name: str, x: Tensor, real: Bool[Tensor, " t"]) -> Tensor:
    """The rows of real tokens, and in a matrix of weights the columns too."""
    if bool(real.all()):
        return x
    kept = real.to(x.device)
    rows = x[..., kept, :]
    return rows[..., kept] if name == "weights" else rows


def _as(kind: str, x: Tensor) -> Any:
    """The array in this kind; numpy has no bfloat16, which becomes float32."""
    held = x.detach().clone()
    if kind == "torch":
        return held
    return (held.float() if held.dtype == torch.bfloat16 else held).cpu().numpy()
