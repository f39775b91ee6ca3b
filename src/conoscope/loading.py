"""load_model: a folder, a Hub id or a module, ready to be looked into."""

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

import conoscope.models  # noqa: F401  registers our own family with the Auto classes
from conoscope.batches import Batch, Batcher, Known
from conoscope.corpora.base import Corpus
from conoscope.errors import ModelError, OverflowedError, one_of
from conoscope.labels import distinct, matched
from conoscope.passing import answer_of, watched, within_memory
from conoscope.placing import device_of, dtype_of, refuse_elsewhere
from conoscope.reading import Reading, ambiguities, known_ids, most_positions, reading_of
from conoscope.textfiles import is_there
from conoscope.writing import is_spelt

LONGEST = 1 << 20
"""A tokenizer that knows no limit reports some huge number; a longer input than this one is not a text."""


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode, its tokenizer and where both came from."""

    module: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    labels: tuple[str, ...] = ()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return torch.device(self.module.device)

    @property
    def max_length(self) -> int:
        """The longest input in tokens: the smaller of what the tokenizer and the positions allow."""
        positions = most_positions(self.module) or LONGEST
        taken = [
            table.padding_idx + 1
            for name, table in self.module.named_modules()
            if isinstance(table, nn.Embedding) and "position" in name and table.padding_idx is not None
        ]
        # RoBERTa's positions begin after that of the padding.
        return int(min(self.tokenizer.model_max_length, positions - max(taken, default=0), LONGEST))

    def length(self, text: str, pair: str | None = None) -> int:
        """How many tokens a text, or a pair, has, special ones included."""
        return len(self.tokenizer(text, pair, verbose=False)["input_ids"])

    def batcher(self, corpus: Corpus, max_length: int | None = None, known: Known | None = None) -> Batcher:
        """What turns this corpus into batches for this model; refuses labels that the model does not have."""
        limit = self.max_length if max_length is None else min(max_length, self.max_length)
        self._refuse_failing()
        vocabulary = known_ids(self.module)
        return Batcher(self.tokenizer, self.label_numbers(corpus), (limit, vocabulary), self.reading, known)

    @cached_property
    def reading(self) -> Reading:
        """Where the model reads the class of a text, and how its texts are padded; found once, by trying."""
        return reading_of(self.module)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What should be known of how its texts are read: where the model itself leaves a doubt, and what was done."""
        return tuple(ambiguities(self.reading, self.module, self.tokenizer, self.name))

    def answer(self, batch: Batch, run: Callable[[Batch], Tensor] | None = None) -> Float[Tensor, "..."]:
        """The logits of a batch, or the last hidden states of a model that has none, by a plain pass or by another (`run`: one
        under capture); refused where they do not fit into memory, or where the model overflows, in the answer or on its way."""
        moved = batch.to(self.device)
        with torch.no_grad(), within_memory(moved):
            found = self._plain(moved) if run is None else run(moved)
        self.refuse_infinite(found, moved)
        return found

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
        # Encoder-decoders want more than tokens, and are told apart by those who cannot take them.
        if fails is not None and not self.module.config.is_encoder_decoder:
            other = f" in {name} ({fails}); try --dtype float32" if name != "float32" else f" alone ({fails}); give another model"
            raise ModelError(f"{self.name} does not run on tokens{other}")

    def label_numbers(self, corpus: Corpus) -> Mapping[str, int]:
        """The model's number of each label of the corpus: by name, or by number where the model has no names."""
        if not self.labels:
            return {label: number for number, label in enumerate(corpus.labels)}
        return matched(corpus.labels, self.labels, str(corpus), self.name)

    def refuse_infinite(self, answer: Tensor, batch: Batch) -> None:
        """An answer that is no number tells of overflow: whatever is read from such a pass would be made up."""
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
    """A model from a folder, a Hub id, or a module with its tokenizer.

    A folder is loaded in float32, and on a GPU where there is one, unless another `dtype` or `device` is asked for. What is in
    memory already stays as it is; a dtype, a device or a tokenizer that it does not have is refused.
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
    """What is said of a checkpoint that cannot be read."""
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return ModelError(f"cannot load the model {name!r}: {reason} (expected a folder written by save_pretrained, or a Hub id)")


def refuse_incomplete(name: str, missing: Sequence[str]) -> None:
    """Refuse a checkpoint that lacks weights."""
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
        how = {"dtype": dtype, "trust_remote_code": trust, "use_safetensors": True, "output_loading_info": True}
        module, report = kind.from_pretrained(name, config=config, **how)
        if not getattr(module, "_supports_attention_backend", True) and module.config._attn_implementation != "eager":
            # It has an attention of its own for SDPA, which cannot be seen into (Falcon).
            module, report = kind.from_pretrained(name, config=config, attn_implementation="eager", **how)
        tokenizer = tokenizer or load_tokenizer(name, trust)
    except Exception as error:  # a folder of somebody else's files can break in any way
        raise unloadable(name, error) from error
    refuse_incomplete(name, [key for key in report["missing_keys"] if "pooler" not in key])
    _cast(module, dtype)
    return module, tokenizer


def load_tokenizer(name: str, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or a Hub id."""
    if is_spelt(name):
        return AutoTokenizer.from_pretrained(name, trust_remote_code=trust_remote_code)
    # It takes names in UTF-8 alone, and an ASCII locale reads others: a link to the folder has a plain one.
    with TemporaryDirectory(prefix="conoscope-") as plain:
        link = Path(plain) / "model"
        link.symlink_to(Path(name).absolute(), target_is_directory=True)
        return AutoTokenizer.from_pretrained(str(link), trust_remote_code=trust_remote_code)


def _cast(module: PreTrainedModel, dtype: torch.dtype) -> None:
    """Give every parameter this type: some are made in float32 whatever transformers is told (XLNet, DeBERTa)."""
    private = ("_keep_in_fp32_modules", "_keep_in_fp32_modules_strict")
    kept = {part for name in private for part in getattr(module, name, None) or ()}
    for name, parameter in module.named_parameters():
        if parameter.is_floating_point() and (dtype == torch.float64 or not kept.intersection(name.split("."))):
            parameter.data = parameter.data.to(dtype)


def _described(module: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str:
    """What a model is besides its weights; not where it lies, nor how a tokenizer was last called."""
    config = {
        key: value
        for key, value in module.config.to_dict().items()
        if key not in ("_name_or_path", "transformers_version", "dtype")
    }
    words = {
        key: value
        for key, value in json.loads(tokenizer.backend_tokenizer.to_str()).items()
        if key not in ("padding", "truncation")
    }
    return json.dumps([config, words], sort_keys=True, default=str)


def refuse_broken(module: PreTrainedModel, name: str) -> None:
    """Refuse weights that are no numbers."""
    for key, tensor in module.state_dict().items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"{name} holds NaN or infinity in {key!r}: nothing can be measured; give another checkpoint")


def ready(tokenizer: PreTrainedTokenizerBase, name: str) -> PreTrainedTokenizerBase:
    """A tokenizer that knows offsets and how long a text may be."""
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
