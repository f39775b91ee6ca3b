"""load_model: a folder, a Hub id or a module, ready to be looked into."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

import conoscope.models  # noqa: F401  registers our own family with the Auto classes
from conoscope.batches import Batcher
from conoscope.corpora.base import Corpus
from conoscope.errors import ModelError, one_of

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16}
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
        positions = getattr(self.module.config, "max_position_embeddings", None) or LONGEST
        return min(int(min(self.tokenizer.model_max_length, LONGEST)), int(positions))

    def batcher(self, corpus: Corpus, max_length: int | None = None) -> Batcher:
        """What turns this corpus into batches for this model; refuses labels that the model does not have."""
        limit = self.max_length if max_length is None else min(max_length, self.max_length)
        return Batcher(self.tokenizer, self.label_numbers(corpus), limit, last_classifies=bool(self.labels))

    def label_numbers(self, corpus: Corpus) -> Mapping[str, int]:
        """The model's number of each label of the corpus: by name, or by number where the model has no names."""
        if not self.labels:
            return {label: number for number, label in enumerate(corpus.labels)}
        known = {label.casefold(): number for number, label in enumerate(self.labels)}
        if all(label.startswith("LABEL_") for label in self.labels):
            known |= {str(number): number for number in range(len(self.labels))}
        missing = [label for label in corpus.labels if label.casefold() not in known]
        if missing:
            raise ModelError(
                f"{corpus} has the label {missing[0]!r}, which {self.name} does not have (it has {one_of(self.labels)}); "
                "rename the labels, or measure with --no-labels"
            )
        return {label: known[label.casefold()] for label in corpus.labels}

    def digest(self) -> str:
        """A hash of every weight and its name."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.module.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
        return digest.hexdigest()


def load_model(
    source: str | Path | PreTrainedModel | LoadedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    device: str = "auto",
    dtype: str = "float32",
    trust_remote_code: bool = False,
) -> LoadedModel:
    """A model from a folder, a Hub id, or a module with its tokenizer."""
    if isinstance(source, LoadedModel):
        return source
    if isinstance(source, PreTrainedModel):
        module, name = source, type(source).__name__
        if tokenizer is None:
            raise ModelError(f"{name} came without a tokenizer; pass load_model(module, tokenizer=...)")
    else:
        name = str(source)
        module, tokenizer = _from_pretrained(name, tokenizer, _dtype(dtype), trust_remote_code)
        module = module.to(_device(device))
    _refuse_broken(module, name)
    return LoadedModel(module.eval(), _ready(tokenizer, module, name), name, _labels(module))


def _from_pretrained(
    name: str, tokenizer: PreTrainedTokenizerBase | None, dtype: torch.dtype, trust: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=trust)
        classifies = any(_classifies(architecture) for architecture in config.architectures or ())
        kind = AutoModelForSequenceClassification if classifies else AutoModel
        module, report = kind.from_pretrained(name, config=config, dtype=dtype, trust_remote_code=trust, output_loading_info=True)
        tokenizer = tokenizer or AutoTokenizer.from_pretrained(name, trust_remote_code=trust)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"cannot load the model {name!r}: {reason} (expected a folder written by save_pretrained, or a Hub id)"
        ) from error
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    if missing:
        raise ModelError(
            f"{name} lacks the weights {missing[0]!r} and would get random ones ({len(missing)} in all); "
            "give a complete checkpoint"
        )
    return module, tokenizer


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"no device {name!r} on this machine; try --device cpu") from error


def _dtype(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise ModelError(f"no dtype {name!r}; known: {one_of(DTYPES)}")
    return DTYPES[name]


def _refuse_broken(module: PreTrainedModel, name: str) -> None:
    for key, tensor in module.state_dict().items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"{name} holds NaN or infinity in {key!r}: nothing can be measured; give another checkpoint")


def _ready(tokenizer: PreTrainedTokenizerBase, module: PreTrainedModel, name: str) -> PreTrainedTokenizerBase:
    """A tokenizer that knows offsets and can pad."""
    if not tokenizer.is_fast:
        raise ModelError(
            f"the tokenizer of {name} ({type(tokenizer).__name__}) knows no character offsets; give a fast one (tokenizer.json)"
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if module.config.get_text_config().pad_token_id is None:
        module.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    return tokenizer


def _classifies(architecture: str) -> bool:
    return architecture.endswith("ForSequenceClassification")


def _labels(module: PreTrainedModel) -> tuple[str, ...]:
    if not _classifies(type(module).__name__):
        return ()
    return tuple(module.config.id2label[number] for number in range(module.config.num_labels))
