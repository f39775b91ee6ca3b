"""Tables of single texts: what the parts of all layers together add, and what each word does."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.causes.attribution_path import Part
from conoscope.causes.attribution_split import Split
from conoscope.corpora import Example

GROUPS = {
    "words": "words",
    "positions": "positions",
    "types": "types",
    "head": "heads",
    "forward": "forward",
    "bias": "biases",
    "activation": "activation",
}
"""Parts, and what those of all layers together are called."""
OF_WORDS = ("words", "positions", "types", "heads")
"""The groups that are split by word."""


def grouped(parts: Mapping[Part, Tensor]) -> dict[str, Tensor]:
    """What the parts of each group add together."""
    found: dict[str, Tensor] = {}
    for part, x in parts.items():
        name = GROUPS[part.part]
        found[name] = found[name] + x if name in found else x
    return {name: found[name] for name in GROUPS.values() if name in found}


def texts_table(split: Split, batch: Batch, labels: Sequence[str], examples: Mapping[int, Example]) -> pd.DataFrame:
    """A row for each text and group of parts, the remainder, and the difference."""
    every = {**grouped(split.parts), "remainder": split.remainder, "difference": split.difference}
    values = {name: x.tolist() for name, x in every.items()}
    rows = [
        {**known, "part": name, "value": of_part[row]}
        for row, known in _known(split, batch, labels, examples)
        for name, of_part in values.items()
    ]
    return pd.DataFrame(rows)


def words_table(
    split: Split,
    batch: Batch,
    known: tuple[Sequence[str], Mapping[int, Example]],
    spell: Callable[[int], str],
) -> pd.DataFrame:
    """A row for each text, word or special token, and group of parts, in the order of the text."""
    by_token = {name: x.cpu().numpy() for name, x in grouped(split.tokens).items() if name in OF_WORDS}
    ids, at, real = (x.tolist() for x in (batch.inputs["input_ids"], batch.word, batch.real))
    rows: list[dict[str, Any]] = []
    for row, said in _known(split, batch, *known):
        words = known[1][said["text"]].words
        tokens = [token for token, there in enumerate(real[row]) if there]
        # Tokens of one word have its number; a special token stands alone.
        units = [("word", at[row][token]) if at[row][token] >= 0 else ("token", token) for token in tokens]
        for place, unit in enumerate(dict.fromkeys(units)):
            mine = [token for token, its in zip(tokens, units, strict=True) if its == unit]
            word = words[unit[1]] if unit[0] == "word" else spell(ids[row][unit[1]])
            rows += [
                {**said, "place": place, "word": word, "part": name, "value": _sum(x[row], mine)} for name, x in by_token.items()
            ]
    return pd.DataFrame(rows)


def _sum(x: Float[np.ndarray, " t"], tokens: Sequence[int]) -> float:
    return float(x[list(tokens)].sum())


def _known(
    split: Split, batch: Batch, labels: Sequence[str], examples: Mapping[int, Example]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of the batch that are among the examples, and what is known of each text."""
    classes = torch.stack((split.predicted, split.second), 1).tolist()
    for row, place in enumerate(batch.place.tolist()):
        if place in examples:
            one, other = (labels[number] for number in classes[row])
            label = examples[place].label
            yield (
                row,
                {
                    "measure": "attribution",
                    "text": place,
                    "example": batch.ids[row],
                    "label": label,
                    "predicted": one,
                    "second": other,
                },
            )
