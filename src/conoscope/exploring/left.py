"""Left: what one text left in a model, with or without edits, kept for all that is asked of it."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.recording import pooled, read_at
from conoscope.capture.trace import Trace
from conoscope.causes.edits import Edit
from conoscope.explaining.answers import shares
from conoscope.exploring.edited import Directions, edited_text, vector_edits
from conoscope.exploring.inputs import Input
from conoscope.exploring.stopping import Check, stoppable
from conoscope.exploring.warm import Warm


@dataclass(frozen=True)
class Left:
    """What one pass over one text left: `traces` of all layers from 0, the embeddings, with whole weights; padding has none.

    `words`: for each token the number that its word had before edits, -1 for a special token. `answer`: logits, or last hidden
    states. `ablated`: the heads of each layer whose context an edit took away.
    """

    given: Input
    warm: Warm
    batch: Batch
    words: tuple[int, ...]
    answer: Float[Tensor, "b *c"]
    traces: tuple[Trace, ...]
    ablated: Mapping[int, tuple[int, ...]]
    truncated: bool
    seconds: float

    @property
    def layers(self) -> tuple[Trace, ...]:
        """The traces of the layers that attend, from 1."""
        return self.traces[1:]

    @property
    def tokens(self) -> list[str]:
        """The tokens as the tokenizer writes them."""
        return [
            str(token) for token in self.warm.loaded.tokenizer.convert_ids_to_tokens(self.batch.inputs["input_ids"][0].tolist())
        ]

    @property
    def kinds(self) -> list[str]:
        """The kind of each token."""
        return [self.batch.kinds[number] for number in self.batch.named[0].tolist()]

    @property
    def logits(self) -> Float[Tensor, "1 c"] | None:
        """The logits; None for a model without a classifier."""
        return self.answer if self.warm.loaded.labels and self.answer.ndim == 2 else None

    @property
    def probabilities(self) -> list[float]:
        """The probability of each class; none without at least two."""
        return [] if self.logits is None else probabilities_of(self.warm, self.logits)[0]

    @property
    def predicted(self) -> int | None:
        """The class with the largest logit; None without at least two."""
        return int(self.logits[0].argmax()) if self.logits is not None and self.warm.classifies else None

    @property
    def place(self) -> int | None:
        """The token whose vector stands for the text; None for a mean, or if there is none."""
        wiring = self.warm.capture.find_wiring()
        at = int(read_at(self.batch, wiring.pooling, wiring.asked)[0])
        return at if at >= 0 else None

    def pooled(self, x: Float[Tensor, "1 t d"]) -> Float[Tensor, " d"]:
        """The vector that stands for the text, of the vectors of a site."""
        wiring = self.warm.capture.find_wiring()
        return pooled(x, self.batch, wiring.pooling, wiring.asked)[0]

    def mixing(self, layer: int) -> Trace:
        """The trace of a layer, with weights of 0 in ablated heads: what they mixed is not passed on."""
        trace, heads = self.traces[layer], self.ablated.get(layer, ())
        if not heads or trace.weights is None:
            return trace
        weights = trace.weights.clone()
        weights[:, [head - 1 for head in heads]] = 0
        return replace(trace, weights=weights)

    @cached_property
    def nbytes(self) -> int:
        """The size of what is kept, and of norms and residuals that may be computed of it."""
        storages = {
            x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for trace in self.traces for x in _tensors(trace)
        }
        again = sum(4 * x.shape[-1] ** 2 for trace in self.layers if (x := trace.weights) is not None)
        return sum(storages.values()) + again


def probabilities_of(warm: Warm, logits: Float[Tensor, "b c"]) -> list[list[float]]:
    """The probability of each class for each text; none without at least two classes."""
    if not warm.classifies:
        return [[] for _ in range(len(logits))]
    found: list[list[float]] = shares(warm.module, logits).cpu().tolist()
    return found


def passed(warm: Warm, given: Input, directions: Directions | None, check: Check) -> Left:
    """What a text leaves in one pass, with its edits."""
    start = time.perf_counter()
    example, numbers = edited_text(given)
    (row,) = warm.batcher.rows([(example, 1)])
    (batch,) = warm.batcher.batches_of([row], 1)
    batch = batch.to(warm.loaded.device)
    traces: list[Trace] = []
    capture = warm.capture

    def run(moved: Batch) -> Tensor:
        return capture(moved, lambda trace: traces.append(replace(trace, query=None, forward=None)))

    with ExitStack() as stack:
        edits: list[Edit] = []
        if given.edits.of_vectors:
            editor = stack.enter_context(warm.editor)
            edits = vector_edits(editor, batch, given, directions)
            stack.enter_context(editor.editing(batch, edits))
        stack.enter_context(capture)  # after the editor, so that it sees what the edits left
        stack.enter_context(stoppable(warm.module, check))
        answer = warm.loaded.answer(batch, run)
    words = tuple(numbers[word] if word >= 0 else -1 for word in batch.word[0].tolist())
    ablated = {
        layer: tuple(edit.head for edit in edits if edit.layer == layer and edit.head is not None)
        for layer in {edit.layer for edit in edits}
    }
    # Of some models the embeddings are not seen, and layer 0 leaves nothing.
    whole = traces if traces[0].layer == 0 else [Trace(0, batch), *traces]
    found = [_edited_context(trace, edits, batch) for trace in whole]
    return Left(given, warm, batch, words, answer, tuple(found), ablated, row.truncated, time.perf_counter() - start)


def _edited_context(trace: Trace, edits: list[Edit], batch: Batch) -> Trace:
    """The trace with the context that went on: it is edited after attention returned it."""
    whole, mine = trace.whole("context"), [edit for edit in edits if (edit.site, edit.layer) == ("context", trace.layer)]
    if whole is None or trace.context is None:
        return trace
    heads = trace.context.shape[1]
    for edit in mine:
        whole = edit.applied(whole, heads)
    return replace(trace, context=whole.unflatten(-1, (heads, -1)).transpose(1, 2)) if mine else trace


def _tensors(trace: Trace) -> list[Tensor]:
    return [x for name in vars(trace) if isinstance(x := getattr(trace, name), Tensor)]
