"""Text vector: which vector represents a text in a loaded model, by its classifier, its files, the user or a default."""

import torch

from conoscope.capture.forward import answer_of
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Capture
from conoscope.capture.trial_batches import bare_batch, known_tokens
from conoscope.common.pooling import ASKED, CLASSIFIER, DEFAULT, Pool, Vector, chosen_pool, declared_pooling


def text_vector(loaded: LoadedModel, requested: str | None = None) -> Pool:
    """The requested pooling; or else what the classifier reads, what the model's files declare, or a default, in this order.

    The default is the last token of a causal model (the first token sees no other), else [CLS] or the first token.
    """
    chosen = chosen_pool(requested)
    if loaded.labels:
        read = _read_by_classifier(loaded)
        return _pool(loaded, read, CLASSIFIER) if chosen in (None, read) else _pool(loaded, chosen or read, ASKED)
    if chosen is not None:
        return _pool(loaded, chosen, ASKED)
    declared = declared_pooling(loaded.module.name_or_path)
    if declared is not None and declared.vector is not None:
        return _pool(loaded, declared.vector, declared.file)
    note = None
    if declared is not None:
        note = (
            f"{loaded.name} pools by {' and '.join(declared.modes)} ({declared.file}), which is not supported: measured is the "
            "default of a model without classifier; choose another with --pool first, last or mean"
        )
    return _pool(loaded, _default(loaded), DEFAULT, note)


def _pool(loaded: LoadedModel, vector: Vector, by: str, note: str | None = None) -> Pool:
    tokens, tokenizer = loaded.tokenizer("a")["input_ids"], loaded.tokenizer
    special = {"first": tokens[0] if tokens else None, "cls": None if _reads_last(loaded) else tokenizer.cls_token_id}.get(vector)
    named = special is not None and special in tokens and special in tokenizer.all_special_ids
    return Pool(vector, by, str(tokenizer.convert_ids_to_tokens(special)) if named else None, note)


def _read_by_classifier(loaded: LoadedModel) -> Vector:
    """The pooling that the wiring found. "cls", the batch's classifying token, if it found none, as in decoders, which score
    every token, and if the model skips padding tokens at the end of a text."""
    with Capture(loaded.module, "kv") as capture:
        pooling = capture.find_wiring().pooling
    return "cls" if pooling is None or (pooling == "last" and loaded.reading.place == "unpadded") else pooling


def _reads_last(loaded: LoadedModel) -> bool:
    return loaded.reading.place in ("last", "unpadded")


def _default(loaded: LoadedModel) -> Vector:
    if _is_causal(loaded):
        return "last"
    return "cls" if loaded.tokenizer.cls_token_id in loaded.tokenizer("a")["input_ids"] else "first"


def _is_causal(loaded: LoadedModel) -> bool:
    """Whether the first token's last hidden state is independent of the next token, up to rounding."""
    known = known_tokens(loaded.module)
    tokens = torch.stack([known[[0, 0]], known[[0, -1]]])
    batch = bare_batch(loaded.module, tokens, torch.ones_like(tokens, dtype=torch.bool))
    with torch.no_grad():
        one, other = answer_of(loaded.module, batch)[:, 0]
    rounding = 8 * torch.finfo(one.dtype).eps * float(one.abs().max())
    return bool(((one - other).abs() <= rounding).all())
