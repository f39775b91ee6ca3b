"""load_for_training(): a checkpoint with a new head for these labels, ready for training in padded batches."""

from collections.abc import Sequence

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from conoscope.capture.class_token import known_ids, named_pad
from conoscope.capture.loading import ready, refuse_broken
from conoscope.capture.pretrained import load_tokenizer, refuse_incomplete, unloadable, without_bars
from conoscope.common.errors import ModelError


def load_for_training(name: str, labels: Sequence[str]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A checkpoint with a new head for these labels, and its tokenizer; raises if weights of its body are missing."""
    numbered = dict(enumerate(labels))
    try:
        config = AutoConfig.from_pretrained(name)
        before = [str(config.id2label[number]) for number in sorted(config.id2label)]
        names = {"id2label": numbered, "label2id": {label: number for number, label in numbered.items()}}
        plain = {"problem_type": "single_label_classification", "output_hidden_states": False, "output_attentions": False}
        config.update({"num_labels": len(labels), **names, **plain})
        options = {"dtype": torch.float32, "use_safetensors": True, "output_loading_info": True, "ignore_mismatched_sizes": True}
        with without_bars(messages=False):  # they tell that the head is new
            module, report = AutoModelForSequenceClassification.from_pretrained(name, config=config, **options)
        tokenizer = load_tokenizer(name)
    except ModelError:
        raise
    except Exception as error:  # foreign files can fail to load in any way
        raise unloadable(name, error) from error
    if config.is_encoder_decoder:
        raise ModelError(f"{name} is an encoder-decoder, which is not trained here; give an encoder or a decoder")
    head_name, head = _head(module, len(labels))
    odd = [*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])]
    refuse_incomplete(name, [key for key in odd if not _of_head(key, head_name, module) and "pooler" not in key])
    if f"{head_name}.weight" not in odd:
        _relabel(head, before, labels)
    refuse_broken(module, name)
    return module, _one_padding(ready(tokenizer, name), module, name)


def padding_note(name: str, module: PreTrainedModel) -> str | None:
    """What is said where the configuration of a checkpoint names another padding token than it did."""
    before = getattr(AutoConfig.from_pretrained(name).get_text_config(), "pad_token_id", None)
    now = module.config.get_text_config().pad_token_id
    which = "no padding token" if before is None else f"the padding token {before}, which it does not have"
    said = f"{name} names {which}; it is trained with token {now}, and saved so, with its tokenizer"
    return None if before == now else said


def _head(module: PreTrainedModel, labels: int) -> tuple[str, nn.Linear]:
    """The name and module of the last linear layer with as many outputs as labels."""
    linear = [
        (name, part) for name, part in module.named_modules() if isinstance(part, nn.Linear) and part.out_features == labels
    ]
    if not linear:
        raise ModelError(f"{type(module).__name__} has no linear map to {labels} labels to train; give another checkpoint")
    return linear[-1]


def _relabel(head: nn.Linear, before: Sequence[str], labels: Sequence[str]) -> None:
    """Reorder the rows of a trained head to the order of these labels; reinitialise it if the labels differ."""
    if sorted(before) != sorted(labels):
        head.reset_parameters()
        return
    order = [before.index(label) for label in labels]
    with torch.no_grad():
        head.weight.copy_(head.weight[order])
        if head.bias is not None:
            head.bias.copy_(head.bias[order])


def _of_head(key: str, head: str, module: PreTrainedModel) -> bool:
    """Whether a weight belongs to the head: it is outside the body, or in the last layer if the model has no separate body."""
    body = module.base_model_prefix
    return not key.startswith(f"{body}.") if hasattr(module, body) else key.startswith(f"{head}.")


def _one_padding(tokenizer: PreTrainedTokenizerBase, module: PreTrainedModel, name: str) -> PreTrainedTokenizerBase:
    """The tokenizer, set to the configuration's padding token, so that both are saved alike.

    The configuration's token stays, since the model uses it. If it names none, one is chosen: training in batches needs it.
    """
    pad = named_pad(module)
    if pad is None:
        vocabulary = known_ids(module)
        known = (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id)
        pad = next((token for token in known if token is not None and token < vocabulary), None)
        if pad is None:
            raise ModelError(f"the tokenizer of {name} has no token to pad with; set its pad_token")
        module.config.pad_token_id = module.config.get_text_config().pad_token_id = pad
    # A word must not become a special token: the tokenizer would split it out of other words.
    if tokenizer.pad_token_id != pad and pad in tokenizer.all_special_ids:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(pad)
    return tokenizer
