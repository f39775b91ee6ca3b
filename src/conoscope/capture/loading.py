"""load_model: a model from a folder, a Hub id or a module, ready for capture."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

import conoscope.models.family  # noqa: F401  registers our own family with the Auto classes
from conoscope.capture.batch import Batch
from conoscope.capture.batcher import Batcher, TokenAnnotations
from conoscope.capture.class_token import Reading, ambiguities, known_ids, most_positions, reading_of
from conoscope.capture.device import device_of, dtype_of, refuse_elsewhere
from conoscope.capture.forward import answer_of, watched, within_memory
from conoscope.capture.labels import distinct, matched
from conoscope.common.errors import ModelError, OverflowedError, one_of
from conoscope.common.textfiles import is_there
from conoscope.common.writing import is_spelt
from conoscope.corpora.base import Corpus

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

    def length(self, text: str, pair: str | None = None) -> int:
        """The number of tokens of a text or a pair, special tokens included."""
        return len(self.tokenizer(text, pair, verbose=False)["input_ids"])

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

    def answer(self, batch: Batch, run: Callable[[Batch], Tensor] | None = None) -> Float[Tensor, "..."]:
        """The logits of a batch, or the last hidden states of a model without logits.

        The pass is a plain one, or `run` (one under capture). ModelError if memory is too small; OverflowedError if NaN or
        infinity appears, in the output or in a layer.
        """
        moved = batch.to(self.device)
        with torch.no_grad(), within_memory(moved):
            result = self._plain(moved) if run is None else run(moved)
        self.refuse_infinite(result, moved)
        return result

    def _plain(self, batch: Batch) -> Float[Tensor, "..."]:
        with watched(self.module, batch) as sound:
            found = answer_of(self.module, batch)
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


def load_model(
    source: str | Path | PreTrainedModel | LoadedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    trust_remote_code: bool = False,
) -> LoadedModel:
    """Load a model from a folder, a Hub id, or a module with its tokenizer.

    A folder is loaded in float32, and on a GPU if there is one, unless `dtype` or `device` says otherwise. A model in memory is
    not changed; ModelError if it has another dtype, device or tokenizer than given here.
    """
    if isinstance(source, LoadedModel):
        refuse_elsewhere(source.module, source.name, device, dtype)
        if tokenizer is not None and tokenizer is not source.tokenizer:
            raise ModelError(f"{source.name} is loaded with a tokenizer already; give load_model(module, tokenizer) the module")
        return source
    if isinstance(source, PreTrainedModel):
        module, name = source, type(source).__name__
        if tokenizer is None:
            raise ModelError(f"{name} came without a tokenizer; pass load_model(module, tokenizer=...)")
        refuse_elsewhere(module, name, device, dtype)
    else:
        name = str(source)
        if not is_there(Path(name), folder=True) and (
            Path(name).is_absolute() or name.startswith((".", "~")) or name.count("/") > 1
        ):
            raise ModelError(f"no folder {name!r}; give a folder written by save_pretrained, or a Hub id")
        module, tokenizer = _from_pretrained(name, tokenizer, dtype_of(dtype), trust_remote_code)
        module = module.to(device_of(device))
    refuse_broken(module, name)
    return LoadedModel(module.eval(), ready(tokenizer, name), name, _labels(module, name))


def unloadable(name: str, error: Exception) -> ModelError:
    """The error for a checkpoint that cannot be read."""
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return ModelError(f"cannot load the model {name!r}: {reason} (expected a folder written by save_pretrained, or a Hub id)")


def refuse_incomplete(name: str, missing: Sequence[str]) -> None:
    """ModelError if a checkpoint lacks weights."""
    if missing:
        raise ModelError(
            f"{name} lacks the weights {min(missing)!r} and would get random ones ({len(missing)} in all); "
            "give a complete checkpoint"
        )


def _from_pretrained(
    name: str, tokenizer: PreTrainedTokenizerBase | None, dtype: torch.dtype, trust: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=trust)
        classifies = any(_classifies(architecture) for architecture in config.architectures or ())
        kind = AutoModelForSequenceClassification if classifies else AutoModel
        kwargs = {"dtype": dtype, "trust_remote_code": trust, "use_safetensors": True, "output_loading_info": True}
        module, report = kind.from_pretrained(name, config=config, **kwargs)
        if not getattr(module, "_supports_attention_backend", True) and module.config._attn_implementation != "eager":
            # It has its own SDPA attention, which cannot be captured (Falcon).
            module, report = kind.from_pretrained(name, config=config, attn_implementation="eager", **kwargs)
        tokenizer = tokenizer or load_tokenizer(name, trust)
    except Exception as error:  # third-party files can fail in any way
        raise unloadable(name, error) from error
    refuse_incomplete(name, [key for key in report["missing_keys"] if "pooler" not in key])
    _cast(module, dtype)
    return module, tokenizer


def load_tokenizer(name: str, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or a Hub id."""
    if is_spelt(name):
        return AutoTokenizer.from_pretrained(name, trust_remote_code=trust_remote_code)
    # tokenizers accepts only UTF-8 names, and an ASCII locale decodes them otherwise: a link to the folder has a plain name.
    with TemporaryDirectory(prefix="conoscope-") as plain:
        link = Path(plain) / "model"
        link.symlink_to(Path(name).absolute(), target_is_directory=True)
        return AutoTokenizer.from_pretrained(str(link), trust_remote_code=trust_remote_code)


def _cast(module: PreTrainedModel, dtype: torch.dtype) -> None:
    """Cast every parameter to this dtype: some are created in float32 regardless of the dtype requested (XLNet, DeBERTa)."""
    private = ("_keep_in_fp32_modules", "_keep_in_fp32_modules_strict")
    kept = {part for name in private for part in getattr(module, name, None) or ()}
    for name, parameter in module.named_parameters():
        if parameter.is_floating_point() and (dtype == torch.float64 or not kept.intersection(name.split("."))):
            parameter.data = parameter.data.to(dtype)


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


def _classifies(architecture: str) -> bool:
    return architecture.endswith("ForSequenceClassification")


def _labels(module: PreTrainedModel, name: str) -> tuple[str, ...]:
    if not _classifies(type(module).__name__):
        return ()
    names = module.config.id2label
    if sorted(names) != list(range(len(names))):
        raise ModelError(f"{name} numbers its labels {one_of(names)}; set id2label from 0 on")
    return distinct([str(names[number]) for number in range(len(names))], name)
