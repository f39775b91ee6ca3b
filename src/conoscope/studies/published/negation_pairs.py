"""Pairs of bistro's sentences that negation tells apart, and how a model of the family answers them.

`added`: "the soup was good." and "the soup was not good." `moved`: "the soup was not good but bad." and "the soup was not bad but
good.", the same words in another order. The grammar knows the answers, and the two of a pair are always opposite.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture.loading import LoadedModel
from conoscope.corpora import bistro_words as words
from conoscope.corpora.bistro import split_of
from conoscope.studies.base import Row

ADDED, MOVED = "added", "moved"
KINDS = (ADDED, MOVED)
NEGATIVE, POSITIVE = "negative", "positive"
NOT = "not"
SPLIT = "test"
BATCH = 256


@dataclass(frozen=True)
class Pair:
    """Two sentences of opposite labels: `one` is `label`, and `other` is not."""

    kind: str
    one: str
    other: str
    label: str


def pairs(kind: str) -> Iterator[Pair]:
    """All pairs of a kind whose second sentence is in bistro's test split, so that no model has learnt from it."""
    for pair in _added() if kind == ADDED else _moved():
        if split_of(pair.other.rstrip(".")) == SPLIT:
            yield pair


def _added() -> Iterator[Pair]:
    negations = dict.fromkeys(_plain(negation) for negation in words.NEGATIONS)
    for aspect in words.ASPECTS:
        for label, adjectives in ((POSITIVE, aspect.praise), (NEGATIVE, aspect.blame)):
            for subject in aspect.subjects:
                for adjective in adjectives:
                    for negation in negations:
                        plain = f"the {subject} was {adjective}."
                        yield Pair(ADDED, plain, f"the {subject} was {negation} {adjective}.", label)


def _moved() -> Iterator[Pair]:
    frames = [plain for frame in words.SCOPES if NOT in (plain := _plain(frame)).split()]
    for aspect in words.ASPECTS:
        for frame in frames:
            for subject in aspect.subjects:
                for praise in aspect.praise:
                    for blame in aspect.blame:
                        one = frame.format(subject=subject, lesser=blame, greater=praise)
                        other = frame.format(subject=subject, lesser=praise, greater=blame)
                        yield Pair(MOVED, f"{one}.", f"{other}.", POSITIVE)


def _plain(marked: str) -> str:
    return marked.replace("*", "")


def answers_to_pairs(model: LoadedModel) -> Iterator[Row]:
    """For each kind of pair the mean cosine of the two vectors of a text, the share of pairs with two different answers, and the
    share with two right ones."""
    for kind in KINDS:
        chosen = list(pairs(kind))
        one, other = (_answered(model, texts) for texts in ([pair.one for pair in chosen], [pair.other for pair in chosen]))
        true = torch.tensor([model.labels.index(pair.label) for pair in chosen])
        opposite = torch.tensor([model.labels.index(NEGATIVE if pair.label == POSITIVE else POSITIVE) for pair in chosen])
        flipped, right = one[1] != other[1], (one[1] == true) & (other[1] == opposite)
        yield {"quantity": f"cosine.{kind}", "value": float(torch.cosine_similarity(one[0], other[0]).mean())}
        yield {"quantity": f"share.flipped.{kind}", "value": _share(flipped)}
        yield {"quantity": f"share.right.{kind}", "value": _share(right)}


def _share(which: Bool[Tensor, " n"]) -> float:
    return float(which.double().mean())


def _answered(model: LoadedModel, texts: Sequence[str]) -> tuple[Float[Tensor, "n d"], Int[Tensor, " n"]]:
    """The vector of each text that the classifier reads, in double, and the number of the predicted class."""
    vectors, predicted = [], []
    for start in range(0, len(texts), BATCH):
        batch = model.tokenizer(list(texts[start : start + BATCH]), padding=True, return_tensors="pt").to(model.device)
        with torch.no_grad():
            found = model.module(**batch, output_hidden_states=True)
            vectors.append(model.module.pooling(found.hidden_states[-1], batch["attention_mask"].bool()).double().cpu())
            predicted.append(found.logits.argmax(-1).cpu())
    return torch.cat(vectors), torch.cat(predicted)
