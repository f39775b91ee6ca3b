"""Joining: examples of several batches as one batch, in the CPU's memory."""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.token_kinds import PAD

FILLS: dict[Hashable, int] = {"real": 0, "kind": PAD, "named": PAD, "unknown": 0, "word": -1, ("input", "attention_mask"): 0}
"""What stands at padding, where it is the same for every tokenizer."""


def rows_of(batch: Batch, rows: Int[Tensor, " n"]) -> Batch:
    """Some examples of a batch, as wide as it is: at their padding one sees how the model is padded."""
    names = tuple(batch.ids[row] for row in rows.tolist())
    texts = tuple(batch.texts[row] for row in rows.tolist()) if batch.texts else ()
    return replace(batch.with_tensors({name: x[rows] for name, x in batch.tensors().items()}), ids=names, texts=texts)


def trimmed(batch: Batch) -> Batch:
    """A batch without the columns at its ends in which all is padding."""
    columns = batch.real.any(0).nonzero()[:, 0]
    begin, end = (int(columns[0]), int(columns[-1]) + 1) if len(columns) else (0, batch.real.shape[1])
    cut = {name: x[:, begin:end] if _is_by_token(x, batch) else x for name, x in batch.tensors().items()}
    cut["cls"] = (batch.cls - begin).where(batch.cls >= 0, -1)
    return batch.with_tensors(cut)


def joined(parts: Sequence[Batch]) -> Batch | None:
    """The examples of all parts; None if they cannot share a batch: another padding token, or another side, or no padding is
    known to fill shorter ones up with."""
    first, width = parts[0], max(part.real.shape[1] for part in parts)
    alike = all((part.pad, part.inputs.keys()) == (first.pad, first.inputs.keys()) for part in parts)
    fills = {name: _fill(name, parts) for name in first.tensors()}
    even = all(part.real.shape[1] == width for part in parts)
    left, right = (any(bool((~part.real[:, end]).any()) for part in parts) for end in (0, -1))
    if not alike or (left and right) or not (even or (first.pad is None and (left or right) and None not in fills.values())):
        return None
    tensors = {}
    for name in first.tensors():
        rows = []
        for part in parts:
            x, missing = part.tensors()[name], width - part.real.shape[1]
            if name == "cls" and left:
                x = (x + missing).where(x >= 0, -1)
            elif _is_by_token(x, part) and missing:
                x = torch.nn.functional.pad(x.long() if x.dtype == torch.bool else x, _sides(missing, left), value=fills[name])
            rows.append(x)
        tensors[name] = torch.cat([row.to(part.tensors()[name].dtype) for row, part in zip(rows, parts, strict=True)])
    ids, texts = (tuple(each for part in parts for each in getattr(part, name)) for name in ("ids", "texts"))
    return trimmed(replace(first.with_tensors(tensors), ids=ids, texts=texts))


def _sides(missing: int, left: bool) -> tuple[int, int]:
    return (missing, 0) if left else (0, missing)


def _is_by_token(x: Shaped[Tensor, "..."], batch: Batch) -> bool:
    return x.ndim == 2 and x.shape == batch.real.shape


def _fill(name: Hashable, parts: Sequence[Batch]) -> float | None:
    """What stands at padding in these tensors; None if there is no padding to see it at."""
    if name in FILLS or name in ("cls", "label", "place"):
        return FILLS.get(name, 0)
    for part in parts:
        x = part.tensors()[name]
        if _is_by_token(x, part) and not bool(part.real.all()):
            return x[~part.real][0].item()
    return None
