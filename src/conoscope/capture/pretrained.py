"""Checkpoints: models and tokenizers read from a folder or the Hub."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from huggingface_hub import try_to_load_from_cache
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

import conoscope.models.family  # noqa: F401  registers our own family with the Auto classes
from conoscope.common.errors import ModelError, OutputError
from conoscope.common.sealing import FILES, check_files, json_of, read_sealed
from conoscope.common.textfiles import is_there
from conoscope.common.writing import is_spelt

CARD = "training.json"
"""The file in which `train` says what it wrote."""
MOST = {
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_attention_heads", "n_head", "n_heads"), 10**4
    ),
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "dim", "intermediate_size", "head_dim", "d_ff", "num_labels"), 10**6),
    **dict.fromkeys(("vocab_size", "max_position_embeddings", "n_positions", "type_vocab_size"), 10**8),
}
"""The largest numbers of a configuration that are taken for a model's."""
UNFINISHED = "checkpoints/conoscope.json"
"""The file by which a training that was stopped is told."""
WORD_MARK = "▁"
"""The beginning of a word, which tokenizers made up by transformers may have beside special tokens."""


def unloadable(name: str, error: Exception) -> ModelError:
    """The error for a checkpoint that cannot be read."""
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return ModelError(f"cannot load the model {name!r}: {reason} (expected a folder written by save_pretrained, or a Hub id)")


def refuse_missing(name: str) -> None:
    """ModelError if a name can only be that of a folder, and there is none, or one whose training is not finished or that is
    damaged."""
    path = Path(name)
    if is_there(path, folder=True):
        if is_there(path / UNFINISHED) and not is_there(path / "config.json"):
            raise ModelError(f"the training in {name!r} is not finished; give its command again, and it goes on from there")
        refuse_damaged(name)
        refuse_absurd(path)
        return
    advice = "give a folder written by save_pretrained, or a Hub id"
    if path.is_absolute() or name.startswith((".", "~")) or name.endswith("/") or name.count("/") > 1:
        raise ModelError(f"no folder {name!r}; {advice}")
    if len(path.parts) > 1 and is_there(path.parent, folder=True) and not _is_cached(name):
        raise ModelError(f"no folder {name!r}; {advice} (an id that begins as the folder {str(path.parent)!r}: from elsewhere)")


def refuse_damaged(name: str) -> None:
    """ModelError if a file of a trained model's folder is not as it was written."""
    folder = Path(name)
    if not is_there(folder / CARD):
        return
    try:
        written = read_sealed(folder / CARD)
        check_files(folder, written.get(FILES, {}) if isinstance(written, dict) else {})
    except OutputError as error:
        raise ModelError(f"{error}; if you changed the model yourself, remove {CARD} from its folder") from error
    except (OSError, ValueError):  # not ours
        return


def refuse_absurd(folder: Path) -> None:
    """ModelError for a pipe or a device in place of a file, and for a configuration of which no model can be: reading the first
    would wait for ever, and making the second would fill the memory."""
    if odd := [path.name for path in sorted(folder.iterdir()) if path.exists() and not path.is_file() and not path.is_dir()]:
        raise ModelError(f"{folder / odd[0]} is a pipe or a device and no file; remove it, or give another folder")
    try:
        config = json_of(folder / "config.json")
    except (OSError, ValueError):  # whoever reads it says so
        return
    said = config if isinstance(config, dict) else {}
    for part in (said, *(inner for inner in said.values() if isinstance(inner, dict))):
        for key, most in MOST.items():
            number = part.get(key)
            if isinstance(number, int | float) and not -most <= number <= most:
                raise ModelError(f"{folder / 'config.json'} has {key}={number:g}, and at most {most:g} are possible; correct it")


def _is_cached(name: str) -> bool:
    """Whether a checkpoint of the Hub was downloaded before."""
    try:
        return isinstance(try_to_load_from_cache(name, "config.json"), str)
    except ValueError:  # no id of the Hub
        return False


def refuse_incomplete(name: str, missing: Sequence[str]) -> None:
    """ModelError if a checkpoint lacks weights."""
    if missing:
        raise ModelError(
            f"{name} lacks the weights {min(missing)!r} and would get random ones ({len(missing)} in all); "
            "give a complete checkpoint"
        )


def from_pretrained(
    name: str, tokenizer: PreTrainedTokenizerBase | None, dtype: torch.dtype, trust: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model of a folder or a Hub id, and its tokenizer; ModelError if they cannot be read or weights are missing."""
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=trust)
        is_classifier = any(classifies(architecture) for architecture in config.architectures or ())
        kind = AutoModelForSequenceClassification if is_classifier else AutoModel
        kwargs = {"dtype": dtype, "trust_remote_code": trust, "use_safetensors": True, "output_loading_info": True}
        with without_bars():
            module, report = kind.from_pretrained(name, config=config, **kwargs)
            if not getattr(module, "_supports_attention_backend", True) and module.config._attn_implementation != "eager":
                # It has its own SDPA attention, which cannot be captured (Falcon).
                module, report = kind.from_pretrained(name, config=config, attn_implementation="eager", **kwargs)
        tokenizer = tokenizer or load_tokenizer(name, trust)
    except ModelError:
        raise
    except Exception as error:  # third-party files can fail in any way
        raise unloadable(name, error) from error
    refuse_incomplete(name, [key for key in report["missing_keys"] if "pooler" not in key])
    _cast(module, dtype)
    return module, tokenizer


@contextmanager
def without_bars(messages: bool = True) -> Iterator[None]:
    """Context manager in which transformers shows no bars, and no `messages` if False; all is as before afterwards."""
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    if shown:
        logging.disable_progress_bar()
    if not messages:
        logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def load_tokenizer(name: str, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or a Hub id; ModelError if there is none, for which transformers makes up one without words."""
    tokenizer = _read_tokenizer(name, trust_remote_code)
    if not set(tokenizer.get_vocab()) - {*tokenizer.all_special_tokens, WORD_MARK}:
        raise ModelError(
            f"no tokenizer in {name}, only special tokens; save the model's there (tokenizer.save_pretrained), or in Python give "
            "(model, tokenizer)"
        )
    return tokenizer


def _read_tokenizer(name: str, trust_remote_code: bool) -> PreTrainedTokenizerBase:
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


def classifies(architecture: str) -> bool:
    """Whether a class of transformers is a classifier of texts."""
    return architecture.endswith("ForSequenceClassification")
