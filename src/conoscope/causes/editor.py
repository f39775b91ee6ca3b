"""Editor: runs a model with edits, and does not compute again what an edit cannot change.

A run with edits in layer l begins with what a plain pass over the same batch left below them: the calls that compute lower
layers, and the attention of layer l, return what they returned then (`spans.py`). Whether the answer is exactly the same if
nothing is edited is tried when an editor is entered; where it is not, a call is made again. Several copies of a batch may run
side by side, each with its own edits.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from conoscope.capture.batch import Batch
from conoscope.capture.calls import Call, first_tensor
from conoscope.capture.class_token import graph_of
from conoscope.capture.forward import answer_of, outputs_of
from conoscope.capture.implementation import attention_of
from conoscope.capture.recorder import Capture
from conoscope.capture.trial_batches import random_batch
from conoscope.causes.edits import SITES, Edit, Site
from conoscope.causes.passes import Kept, Pass, Place, Start, computing, of_copy, start_of, with_first
from conoscope.causes.spans import SpanLog, find_spans, given_to, spanned
from conoscope.common.errors import CaptureError, MeasureError


class Editor:
    """Context manager: `editor.run(batch, edits)` is the model's answer with edits, and its plain answer without any.

    It can be entered again: what is edited where is found once, and between two times the model is as it was.

    >>> with Editor(model) as editor:
    ...     editor.run(batch, [Edit("context", 2, zeroed(), head=3)])
    """

    def __init__(self, module: PreTrainedModel, capture: Capture | None = None) -> None:
        """`capture`: one that found the model's wiring, if there is one already."""
        self.module, self._capture = module, capture
        self._stack = ExitStack()
        self._pass: Pass | None = None
        self._passable = set[tuple[str, int]]()
        self._found = False

    def __enter__(self) -> Self:
        if not self._found:
            self._wire()
        with ExitStack() as stack:
            stack.enter_context(attention_of(self.module, self.module.config._attn_implementation))
            if self._found:
                self._hook(stack)
            else:
                batch = random_batch(self.module)
                self._find(batch)
                self._hook(stack)
                self._try(batch)
            self._found, self._stack = True, stack.pop_all()
        return self

    def _wire(self) -> None:
        if self._capture is not None and self._capture.wiring is not None:
            self.wiring, self.classes = self._capture.wiring, self._capture.classes
            return
        with Capture(self.module, "kv") as capture:
            self.wiring, self.classes = capture.find_wiring(), capture.classes

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads of each layer."""
        return self.wiring.heads

    def layers_of(self, site: Site) -> list[int]:
        """The layers of which this site was found."""
        return sorted(layer for found, layer in self._places if found == site)

    def run(self, batch: Batch, edits: Sequence[Edit] = ()) -> Float[Tensor, "..."]:
        """The answer for a batch with these edits; the whole model runs."""
        self.check(edits)
        batch = batch.to(self.module.device)
        with torch.no_grad():
            return self._run(batch, Pass(batch.real.shape, _by_place(edits)))

    @contextmanager
    def editing(self, batch: Batch, edits: Sequence[Edit]) -> Iterator[None]:
        """Context in which a pass over this batch has these edits, whoever runs it: a capture, entered after this editor, sees
        what the edits left."""
        self.check(edits)
        made = Pass(batch.real.shape, _by_place(edits))
        with self._running(made):
            yield
        self._refuse_missed(made)

    def keep(self, batch: Batch, sites: Collection[Site] = ()) -> Kept:
        """A plain pass over a batch, with the vectors of these sites in every layer, and what runs with edits begin with."""
        batch = batch.to(self.module.device)
        made = Pass(batch.real.shape, keeps=self._of_sites(sites), keeps_spans=True)
        with torch.no_grad():
            answer = self._run(batch, made)
        return Kept(batch, answer, made.vectors, made.layers, made.attentions)

    def rerun(self, kept: Kept, copies: Sequence[Sequence[Edit]]) -> list[Float[Tensor, "..."]]:
        """The answers for copies of a batch, each with its own edits, from what a plain pass left below them."""
        batch, rows = kept.batch, len(kept.batch.real)
        for edits in copies:
            self.check(edits)
        every = [of_copy(edit, rows, number) for number, edits in enumerate(copies) for edit in edits]
        if len(copies) > 1:
            batch = batch.with_tensors({name: x.repeat(len(copies), *[1] * (x.ndim - 1)) for name, x in batch.tensors().items()})
        start = start_of(every) if all(copies) else min(map(start_of, copies))
        with torch.no_grad():
            answer = self._run(batch, Pass(batch.real.shape, _by_place(every), start, kept, len(copies)))
        return list(answer.split(rows))

    def slopes(
        self, batch: Batch, target: Int[Tensor, " b"], sites: Collection[Site]
    ) -> dict[Place, tuple[Float[Tensor, "b t d"], Float[Tensor, "b t d"]]]:
        """The vectors of these sites, and the gradients of each text's logit of its target class: one backward pass."""
        batch = batch.to(self.module.device)
        made = Pass(batch.real.shape, keeps=self._of_sites(sites))
        with graph_of(self.module):
            total = self._run(batch, made).gather(1, target[:, None]).sum()
            found = torch.autograd.grad(total, list(made.vectors.values()), allow_unused=True)
        both = zip(made.vectors.items(), found, strict=True)
        return {place: (x.detach(), torch.zeros_like(x) if slope is None else slope) for (place, x), slope in both}

    def check(self, edits: Sequence[Edit]) -> None:
        """MeasureError for what the model does not have, CaptureError for what is not found in it."""
        name, layers = type(self.module).__name__, len(self.heads)
        for edit in edits:
            if edit.site not in SITES:
                raise MeasureError(f"no site {edit.site!r} can be edited; known: {', '.join(SITES)}")
            least = 0 if edit.site == "hidden" else 1
            if not least <= edit.layer <= layers:
                raise MeasureError(f"{name} has no layer {edit.layer} to edit; give one from {least} to {layers}")
            if edit.head is not None and edit.site != "context":
                raise MeasureError(f"{SITES[edit.site]} has no heads to edit; give no head, or the site context")
            most = self.heads[max(edit.layer, 1) - 1]
            if edit.head is not None and not 1 <= edit.head <= most:
                raise MeasureError(
                    f"{name} has no head {edit.layer}.{edit.head}; name one from {edit.layer}.1 to {edit.layer}.{most}"
                )
            if (edit.site, edit.layer) not in self._places:
                raise CaptureError(f"{SITES[edit.site]} of layer {edit.layer} cannot be followed in {name}; edit another site")

    def _of_sites(self, sites: Collection[Site]) -> list[Place]:
        return [place for place in self._places if place[0] in sites]

    def _run(self, batch: Batch, made: Pass) -> Float[Tensor, "..."]:
        with self._running(made):
            answer = answer_of(self.module, batch)
        self._refuse_missed(made)
        return answer

    def _refuse_missed(self, made: Pass) -> None:
        if missed := [place for place in (*made.edits, *made.keeps) if place not in made.done]:
            site, layer = missed[0]
            raise CaptureError(
                f"{SITES[site]} of layer {layer} was not computed for these texts by {type(self.module).__name__}; edit another"
            )

    @contextmanager
    def _running(self, made: Pass) -> Iterator[None]:
        self._pass = made
        try:
            yield
        finally:
            self._pass = None

    def _find(self, batch: Batch) -> None:
        """Find spans and places: of each site the call, and whether it is what the call is given."""
        log = SpanLog()
        with spanned(self.module, log), torch.no_grad():
            states = outputs_of(self.module, batch, output_hidden_states=True).hidden_states
        self._spans = find_spans(log, self.wiring, states, batch.real, self.module.get_input_embeddings())
        self._places: dict[Place, tuple[Call, bool]] = {}
        for layer, (projection, forward) in enumerate(zip(self.wiring.projections, self.wiring.forwards, strict=True), 1):
            if projection is not None:
                self._places |= {("context", layer): (projection, True), ("output", layer): (projection, False)}
            if forward is not None:
                self._places["forward", layer] = forward, False
        self._places |= {("hidden", layer): (seen.call, seen.given) for layer, seen in self._spans.states.items()}

    def _hook(self, stack: ExitStack) -> None:
        """Hook every call that is edited, kept or passed over; undone with the stack."""
        self._given: dict[Call, list[Place]] = {}
        self._returned: dict[Call, list[Place]] = {}
        for place, (call, given) in self._places.items():
            (self._given if given else self._returned).setdefault(call, []).append(place)
        self._layers = {span.call: layer for layer, span in self._spans.layers.items()}
        self._attentions = {span.call: layer for layer, (span, _) in self._spans.attentions.items()}
        self._contexts: dict[int, Tensor] = {}
        passed = {call[0] for call in (*self._layers, *self._attentions)}
        for module in {call[0] for call, _ in self._places.values()} | passed:
            stack.callback(module.register_forward_pre_hook(self._begin, with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(self._end).remove)
        for module in passed:
            stack.enter_context(computing(module, self._compute))

    def _try(self, batch: Batch) -> None:
        """Find out which layers and attentions can be passed over: those without which the answer is exactly the same."""
        kept = self.keep(batch)
        starts: list[tuple[tuple[str, int], Start]] = [(("layer", layer), (layer, 0)) for layer in sorted(kept.layers)]
        starts += [(("attention", layer), (-1, layer)) for layer in sorted(kept.attentions)]
        for passable, start in starts:
            self._passable.add(passable)
            with torch.no_grad():
                answer = self._run(kept.batch, Pass(kept.batch.real.shape, {}, start, kept))
            if not torch.equal(answer, kept.answer):
                self._passable.remove(passable)

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._pass is None:
            return None
        self._pass.counts[module] += 1
        for place in self._given.get(self._pass.number(module), ()):
            name = given_to(args, kwargs)
            if isinstance(name, int):
                args = (*args[:name], self._take(place, args[name]), *args[name + 1 :])
            elif name is not None:
                kwargs = {**kwargs, name: self._take(place, kwargs[name])}
        return args, kwargs

    def _end(self, module: nn.Module, args: tuple[Any, ...], returned: Any) -> Any:
        made = self._pass
        if made is None:
            return None
        call, first = made.number(module), first_tensor(returned)
        if first is None:
            return None
        edited = first
        for place in self._returned.get(call, ()):
            edited = self._take(place, edited)
        returned = returned if edited is first else with_first(returned, edited)
        if made.keeps_spans and call in self._layers:
            made.layers[self._layers[call]] = returned
        if made.keeps_spans and (layer := self._attentions.get(call)) is not None:
            context = self._contexts.pop(layer, None)
            made.attentions[layer] = returned if context is None else (context, returned)
        return None if edited is first else returned

    def _take(self, place: Place, x: Tensor) -> Tensor:
        made, (site, layer) = self._pass, place
        assert made is not None
        if made.keeps_spans and site == "context" and self._end_of(layer) == "output":
            self._contexts[layer] = x
        return made.take(place, x, self.heads[max(layer, 1) - 1])

    def _end_of(self, layer: int) -> str:
        return self._spans.attentions[layer][1] if layer in self._spans.attentions else ""

    def _compute(self, module: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a module computes, or what it returned in the pass before."""
        made = self._pass
        if made is not None and made.before is not None:
            call, (known, attended) = made.number(module), made.start
            layer, attention = self._layers.get(call), self._attentions.get(call)
            if layer is not None and layer <= known and ("layer", layer) in self._passable:
                return self._known_state(made, made.before, layer)
            if attention is not None and attention == attended and ("attention", attention) in self._passable:
                return self._known_attention(made, made.before, attention)
        return forward(*args, **kwargs)

    def _known_state(self, made: Pass, before: Kept, layer: int) -> Any:
        span, place = self._spans.layers[layer], ("hidden", layer)
        made.counts.update(span.inner)
        returned = made.repeated(before.layers[layer])
        # The hook of the span's own call edits what it returns; a call within it was passed over.
        if place not in self._places or self._places[place] == (span.call, False):
            return returned
        first = first_tensor(returned)
        assert first is not None
        return with_first(returned, self._take(place, first))

    def _known_attention(self, made: Pass, before: Kept, layer: int) -> Any:
        span, end = self._spans.attentions[layer]
        if end == "context":
            made.counts.update(span.inner)
            return made.repeated(before.attentions[layer])
        projection = self.wiring.projections[layer - 1]
        assert projection is not None
        context, returned = before.attentions[layer]
        made.counts.update(span.inner - Counter({projection[0]: 1}))  # it is called, and counted, now
        return with_first(made.repeated(returned), projection[0](made.repeated(context)))


def _by_place(edits: Sequence[Edit]) -> Mapping[Place, list[Edit]]:
    found: dict[Place, list[Edit]] = {}
    for edit in edits:
        found.setdefault((edit.site, edit.layer), []).append(edit)
    return found
