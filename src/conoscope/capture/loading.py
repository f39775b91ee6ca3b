"""load_model: a model from a folder, a Hub id, a module, a pair with its tokenizer or a pipeline, ready for capture."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from conoscope.capture.batch import Batch
from conoscope.capture.batcher import Batcher, TokenAnnotations
from conoscope.capture.class_token import Reading, ambiguities, known_ids, most_positions, reading_of
from conoscope.capture.device import device_of, dtype_of, refuse_elsewhere
from conoscope.capture.forward import answer_of, watched, within_memory
from conoscope.capture.labels import distinct, matched
from conoscope.capture.pretrained import classifies, from_pretrained, load_tokenizer, refuse_missing
from conoscope.common.errors import ModelError, OverflowedError, one_of
from conoscope.common.terminal import doing, printable
from conoscope.corpora.base import Corpus

SHOWN = 4
"""How many labels the one-line form of a model shows."""
LONGEST = 1 << 20
"""Upper bound on input length: a tokenizer without a limit reports a huge number."""


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode, its tokenizer, and the name it was loaded from."""

    module: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    labels: tuple[str, ...] = ()

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return torch.device(self.module.device)

    @property
    def max_length(self) -> int:
        """The maximum input length in tokens: the smaller limit of the tokenizer and the positions."""
        positions = most_positions(self.module) or LONGEST
        taken = [
            table.padding_idx + 1
            for name, table in self.module.named_modules()
            if isinstance(table, nn.Embedding) and "position" in name and table.padding_idx is not None
        ]
        # RoBERTa's positions begin after its padding index.
        return int(min(self.tokenizer.model_max_length, positions - max(taken, default=0), LONGEST))

    def __repr__(self) -> str:
        """The model's name, class, size, labels, precision and device, in one line."""
        config, labels = self.module.config.get_text_config(), ", ".join(self.labels[:SHOWN])
        more = f" and {len(self.labels) - SHOWN} more" if len(self.labels) > SHOWN else ""
        counts = (getattr(config, name, None) for name in ("num_hidden_layers", "num_attention_heads"))
        size = " of ".join(f"{n} {what}" for n, what in zip(counts, ("layers", "heads"), strict=True) if isinstance(n, int))
        place = f"{str(self.module.dtype).removeprefix('torch.')} on {self.device}"
        kind = type(self.module).__name__
        facts = (kind if kind != self.name else "", size, f"labels {labels}{more}" if labels else "no labels", place)
        return printable(f"<LoadedModel {self.name}: {', '.join(filter(None, facts))}>")

    def length(self, text: str, pair: str | None = None) -> int:
        """The number of tokens of a text or a pair, special tokens included."""
        return len(self.tokenizer(text, pair, verbose=False)["input_ids"])

    def texts_a_batch(self, asked: int | None) -> int:
        """The number of texts in a batch: as asked for, or 32, on a GPU 128."""
        return asked or (32 if self.device.type == "cpu" else 128)

    def batcher(self, corpus: Corpus, max_length: int | None = None, annotations: TokenAnnotations | None = None) -> Batcher:
        """A Batcher of this corpus for this model; ModelError if the corpus has labels that the model does not have."""
        limit = self.max_length if max_length is None else min(max_length, self.max_length)
        self._refuse_failing()
        vocabulary = known_ids(self.module)
        return Batcher(self.tokenizer, self.label_numbers(corpus), (limit, vocabulary), self.reading, annotations)

    @cached_property
    def reading(self) -> Reading:
        """Where the model reads the class of a text, and how its texts are padded; found once, by trial runs."""
        return reading_of(self.module)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on what the model leaves ambiguous about how texts are read, and how it was resolved."""
        return tuple(ambiguities(self.reading, self.module, self.tokenizer, self.name))

    def answer(self, batch: Batch, run: Callable[[Batch], Tensor] | None = None, watch: bool = False) -> Float[Tensor, "..."]:
        """The logits of a batch, or the last hidden states of a model without logits.

        The pass is a plain one, or `run`: one under capture, which refuses overflow in a layer itself, or with `watch` any other.
        ModelError if memory is too small; OverflowedError if NaN or infinity appears, in the output or in a layer.
        """
        moved = batch.to(self.device)
        with torch.no_grad(), within_memory(moved):
            result = self._plain(moved, run) if run is None or watch else run(moved)
        self.refuse_infinite(result, moved)
        return result

    def _plain(self, batch: Batch, run: Callable[[Batch], Tensor] | None) -> Float[Tensor, "..."]:
        with watched(self.module, batch) as sound:
            found = answer_of(self.module, batch) if run is None else run(batch)
        self._refuse_unsound(torch.stack(sound).all(0) if sound else torch.ones_like(batch.place, dtype=torch.bool), batch)
        return found

    def _refuse_unsound(self, sound: Bool[Tensor, " b"], batch: Batch) -> None:
        if not bool(sound.all()):
            raise OverflowedError.of(self.name, batch.ids[int((~sound).nonzero()[0])], self.module.dtype)

    def _refuse_failing(self) -> None:
        fails, name = self.reading.fails, str(self.module.dtype).removeprefix("torch.")
        # Encoder-decoders need more inputs than tokens; code that does not support them refuses them itself.
        if fails is not None and not self.module.config.is_encoder_decoder:
            other = f" in {name} ({fails}); try --dtype float32" if name != "float32" else f" alone ({fails}); give another model"
            raise ModelError(f"{self.name} does not run on tokens{other}")

    def label_numbers(self, corpus: Corpus) -> Mapping[str, int]:
        """The model's class index of each label of the corpus: by name, or by number if the model has no names."""
        if not self.labels:
            return {label: number for number, label in enumerate(corpus.labels)}
        return matched(corpus.labels, self.labels, str(corpus), self.name)

    def refuse_infinite(self, answer: Tensor, batch: Batch) -> None:
        """OverflowedError if the output is not finite: any measure of such a pass would be meaningless."""
        finite = answer.isfinite().flatten(1) if answer.ndim == 2 else answer.isfinite().all(-1) | ~batch.real.to(answer.device)
        self._refuse_unsound(finite.all(-1), batch)

    def digest(self) -> str:
        """A hash of every weight and its name, of the configuration and of the tokenizer."""
        digest = hashlib.sha256(_described(self.module, self.tokenizer).encode())
        for name, tensor in sorted(self.module.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()


@runtime_checkable
class Pipeline(Protocol):
    """A pipeline of transformers: a model with its tokenizer."""

    model: Any
    tokenizer: Any


ModelSource: TypeAlias = str | Path | PreTrainedModel | LoadedModel | tuple[Any, Any] | list[Any] | Pipeline
"""What `measure`, `explain` and the others accept as a model: a folder, a Hub id, a module (whose tokenizer is found where it was
loaded from), (model, tokenizer), a pipeline of transformers, a LoadedModel."""


def load_model(
    source: ModelSource,
    tokenizer: PreTrainedTokenizerBase | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    trust_remote_code: bool = False,
) -> LoadedModel:
    """Load a model from a folder, a Hub id, a module, (model, tokenizer) or a pipeline of transformers.

    A folder is loaded in float32, and on a GPU if there is one, unless `dtype` or `device` says otherwise. A model in memory is
    not changed; ModelError if it has another dtype, device or tokenizer than given here. A module without a tokenizer gets
    that of the folder or the Hub id that it was loaded from.
    """
    source, tokenizer = _parts_of(source, tokenizer)
    if isinstance(source, LoadedModel):
        refuse_elsewhere(source.module, source.name, device, dtype)
        if tokenizer is not None and tokenizer is not source.tokenizer:
            raise ModelError(f"{source.name} is loaded with a tokenizer already; give load_model(module, tokenizer) the module")
        return source
    if isinstance(source, PreTrainedModel):
        module, name = source, type(source).__name__
        tokenizer = tokenizer or _own_tokenizer(module, name, trust_remote_code)
        refuse_elsewhere(module, name, device, dtype)
    else:
        name = str(source)
        refuse_missing(name)
        module, tokenizer = from_pretrained(name, tokenizer, dtype_of(dtype), trust_remote_code)
        module = module.to(device_of(device))
    refuse_broken(module, name)
    return LoadedModel(module.eval(), ready(tokenizer, name), name, _labels(module, name))


def load_and_tell(
    source: ModelSource, device: str | torch.device | None = None, dtype: str | torch.dtype | None = None
) -> LoadedModel:
    """The same, told where progress is shown."""
    doing(f"loading {source}" if isinstance(source, str | Path) else "reading the model")
    return load_model(source, device=device, dtype=dtype)


def is_model(source: object) -> bool:
    """Whether a value can only be a model: loaded, a module, (model, tokenizer) or a pipeline."""
    if isinstance(source, tuple):
        return len(source) == 2 and (is_model(source[0]) or isinstance(source[1], PreTrainedTokenizerBase))
    return isinstance(source, PreTrainedModel | LoadedModel) or _is_pipeline(source)


def _is_pipeline(source: object) -> bool:
    return isinstance(source, Pipeline) and isinstance(source.model, PreTrainedModel)


def _parts_of(
    source: ModelSource, tokenizer: PreTrainedTokenizerBase | None
) -> tuple[str | Path | PreTrainedModel | LoadedModel, PreTrainedTokenizerBase | None]:
    """The model and the tokenizer of a pair or a pipeline; ModelError if it is no model, or a second tokenizer is given."""
    if isinstance(source, tuple | list) and len(source) == 2:
        parts = source[0], source[1]
    elif _is_pipeline(source):
        parts = source.model, source.tokenizer  # type: ignore[union-attr]
    elif isinstance(source, str | os.PathLike | PreTrainedModel | LoadedModel):
        return source, tokenizer
    else:
        what = "is a module, but not of transformers" if isinstance(source, nn.Module) else "is no model"
        raise ModelError(
            f"{type(source).__name__} {what}; give a folder, a Hub id, a transformers model, (model, tokenizer) or a pipeline"
        )
    model, own = parts
    if own is not None and not isinstance(own, PreTrainedTokenizerBase):
        raise ModelError(f"the second part of the model is of type {type(own).__name__}; give (model, tokenizer)")
    if tokenizer is not None and own is not None and tokenizer is not own:
        raise ModelError("two tokenizers are given for one model; give one")
    return _parts_of(model, own or tokenizer)


def _own_tokenizer(module: PreTrainedModel, name: str, trust: bool) -> PreTrainedTokenizerBase:
    """The tokenizer of the folder or the Hub id that a module was loaded from; ModelError if there is none."""
    origin = str(getattr(module, "name_or_path", "") or "")
    try:
        return load_tokenizer(origin, trust) if origin else refuse_without_tokenizer(name)
    except ModelError:
        raise
    except Exception as error:  # third-party files can fail in any way
        return refuse_without_tokenizer(name, error)


def refuse_without_tokenizer(name: str, error: Exception | None = None) -> NoReturn:
    """Raise the ModelError for a module without a tokenizer."""
    raise ModelError(
        f"{name} came without a tokenizer; pass load_model(module, tokenizer=...), or (module, tokenizer)"
    ) from error


def _described(module: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str:
    """Configuration and tokenizer as text, without paths and without the tokenizer's last padding and truncation."""
    config = {
        key: value
        for key, value in module.config.to_dict().items()
        if key not in ("_name_or_path", "transformers_version", "dtype")
    }
    return json.dumps([config, described_tokenizer(tokenizer)], sort_keys=True, default=str)


def described_tokenizer(tokenizer: PreTrainedTokenizerBase) -> dict[str, object]:
    """The content of a fast tokenizer, without its last padding and truncation."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    return {key: value for key, value in content.items() if key not in ("padding", "truncation")}


def refuse_broken(module: PreTrainedModel, name: str) -> None:
    """ModelError if a weight is NaN or infinite."""
    for key, tensor in module.state_dict().items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"{name} holds NaN or infinity in {key!r}: nothing can be measured; give another checkpoint")


def ready(tokenizer: PreTrainedTokenizerBase, name: str) -> PreTrainedTokenizerBase:
    """The tokenizer; ModelError if it has no character offsets or no maximum length."""
    if not tokenizer.is_fast:
        raise ModelError(
            f"the tokenizer of {name} ({type(tokenizer).__name__}) knows no character offsets; give a fast one (tokenizer.json)"
        )
    if not isinstance(tokenizer.model_max_length, (int, float)) or not tokenizer.model_max_length >= 1:
        raise ModelError(f"the tokenizer of {name} gives {tokenizer.model_max_length!r} as model_max_length; set a number")
    return tokenizer


def _labels(module: PreTrainedModel, name: str) -> tuple[str, ...]:
    if not classifies(type(module).__name__):
        return ()
    names = module.config.id2label
    if sorted(names) != list(range(len(names))):
        raise ModelError(f"{name} numbers its labels {one_of(names)}; set id2label from 0 on")
    return distinct([str(names[number]) for number in range(len(names))], name)
