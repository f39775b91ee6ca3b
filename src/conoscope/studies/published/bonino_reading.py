"""Rows of one model for Bonino's study: predictions by class, gates, cones, lengths, ranks, and attention by domain."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import isnan
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from conoscope.common.vocabulary import GATES, MIXED
from conoscope.explaining import Explaining, explain
from conoscope.explaining.records import Explanation
from conoscope.measuring.pipeline import Options, measure
from conoscope.studies.base import Row
from conoscope.studies.made import holding
from conoscope.studies.published.bonino_figures import HEAD, LAYER, figure_rows
from conoscope.studies.published.bonino_ranks import largest, ranks
from conoscope.studies.published.spike_domains import shares, variety
from conoscope.training.scores import confusion, f1_of

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.results.result import Result
    from conoscope.studies.made import Made

READINGS = {"attention": "columns", "attention.cls": "attention:layer=last"}
"""Attention on a domain: from all tokens in all layers, and from the token that is classified from in the last layer."""

ALL, CORRECT = "all", "correct"
"""The texts of a reading: all, or those that are classified correctly."""
BOTH = ("forward contextual", "backward contextual")
"""The gates that figure 5 shows in one head."""
FEWEST = 4
"""Smallest number of texts that are read."""
SCORES = "gates:examples=64"
MEASURES = (SCORES, "cone_index", "vector_norms", "stream")


def read(made: "Made") -> Iterator[Row]:
    """All rows of one model: of all texts, and of those alone that it classifies correctly, as the paper reads it."""
    options = Explaining(device=made.place.device)
    explanations = list(explain(made.model, made.texts, list(READINGS.values()), options))
    yield from _answers(explanations, made.model.labels)
    yield from _weights(made.measure("directionality")["directionality"])
    yield from largest(made.model, LAYER, HEAD)
    right = [one for one in explanations if one.predicted == one.example.label]
    for name, some in ((ALL, explanations), (CORRECT, right)):
        if len(some) >= FEWEST:
            texts = holding(made.texts, [one.example for one in some])
            result = measure(made.model, texts, MEASURES, Options(device=made.place.device))
            yield from ({**row, "texts": name} for row in _readings(some, result))
            if name == CORRECT:
                yield from ({**row, "texts": name} for row in (*figure_rows(result, SCORES), *ranks(made.model, texts)))


def _readings(explanations: Sequence[Explanation], result: "Result") -> Iterator[Row]:
    yield from _domains(explanations)
    yield from _gates(result)
    yield from _by_layer(result)
    yield from _stream(result["stream"])


def _answers(explanations: Sequence[Explanation], labels: Sequence[str]) -> Iterator[Row]:
    """Accuracy, its upper bound, F1 and specificity; for each class recall, F1, specificity, and what it was confused with."""
    number = {label: place for place, label in enumerate(labels)}
    true, predicted = (np.array([number[str(label)] for label in side]) for side in _sides(explanations))
    table = confusion(predicted, true, len(labels))
    accuracy, cap = float(np.trace(table) / table.sum()), _cap(explanations)
    yield {"quantity": "accuracy", "value": accuracy}
    yield {"quantity": "cap", "value": cap}
    yield {"quantity": "accuracy.of_cap", "value": accuracy / cap}
    present = table.sum(1) > 0
    for name, values in _of_classes(table).items():
        yield {"quantity": name, "value": float(values[present].mean())}
        for place in present.nonzero()[0]:
            yield {"quantity": name, "class": labels[place], "value": float(values[place])}
    for place, other in zip(*(table - np.diag(np.diag(table))).nonzero(), strict=True):
        yield {"quantity": "taken", "class": labels[place], "taken_for": labels[other], "value": int(table[place, other])}


def _sides(explanations: Sequence[Explanation]) -> tuple[list[str | None], list[str | None]]:
    return [one.example.label for one in explanations], [one.predicted for one in explanations]


def _cap(explanations: Sequence[Explanation]) -> float:
    """The highest possible accuracy, given that equal texts have several labels."""
    by_text: dict[str, Counter[str | None]] = defaultdict(Counter)
    for one in explanations:
        by_text[one.example.text][one.example.label] += 1
    return sum(max(labels.values()) for labels in by_text.values()) / len(explanations)


def _of_classes(table: Int[np.ndarray, "c c"]) -> dict[str, np.ndarray]:
    """For each class: recall (`found`), F1, and specificity: the share of other texts that were not assigned to it."""
    others, wrongly = table.sum() - table.sum(1), table.sum(0) - np.diag(table)
    found = np.diag(table) / np.maximum(table.sum(1), 1)
    return {"found": found, "f1": f1_of(table), "specificity": 1 - wrongly / np.maximum(others, 1)}


def _domains(explanations: Sequence[Explanation]) -> Iterator[Row]:
    """For each domain its share of attention, of the words, and of the variation between the texts."""
    length = max(len(one.example.words) for one in explanations)
    longest = [one for one in explanations if len(one.example.words) == length]
    seen = np.logical_and.reduce([one.seen for one in longest])
    means = {name: np.mean([one.maps[map] for one in longest], axis=0)[seen] for name, map in READINGS.items()}
    means |= {"variety": variety([one.example.words for one in longest])[seen], "words": np.ones(seen.sum())}
    for name, scores in means.items():
        yield from ({"quantity": name, "domain": domain, "value": share} for domain, share in shares(scores))


def _gates(result: "Result") -> Iterator[Row]:
    """The number of heads of each gate type, and the number of types that occur; a head may have several."""
    names = result[SCORES.replace("gates", "gates.names")]["gates"]
    counts = Counter(kind for name in names for kind in str(name).split(" + "))
    yield from ({"quantity": "heads", "gate": kind, "value": counts[kind]} for kind in (*GATES, MIXED))
    yield {
        "quantity": "heads",
        "gate": " and ".join(BOTH),
        "value": sum(set(BOTH) <= set(str(name).split(" + ")) for name in names),
    }
    yield {"quantity": "kinds", "value": sum(counts[kind] > 0 for kind in GATES)}


def _by_layer(result: "Result") -> Iterator[Row]:
    """Cone index / n at each stage, and lengths. Means over heads."""
    yield from _means(result["cone_index"], "cone", {"": "share"})
    yield from _means(result["vector_norms"], "norm", {"": "value", ".q05": "q05", ".q95": "q95"})


def _means(frame: "pd.DataFrame", name: str, columns: dict[str, str]) -> Iterator[Row]:
    for _, row in frame.groupby(["site", "layer"], sort=False)[list(columns.values())].mean().reset_index().iterrows():
        for suffix, column in columns.items():
            if not isnan(row[column]):
                yield {"quantity": f"{name}.{row['site']}{suffix}", "layer": int(row["layer"]), "value": float(row[column])}


def _stream(frame: "pd.DataFrame") -> Iterator[Row]:
    """What each layer does to the stream: how far it turns it, and the shares of attention and of the feed-forward part."""
    for _, row in frame.dropna(subset="value").iterrows():
        yield {"quantity": f"stream.{row['what']}", "layer": int(row["layer"]), "value": float(row["value"])}
    for name in ("attention_share", "forward_share"):
        if len(shares_of := frame[frame["what"] == name]["value"].dropna()):
            yield {"quantity": f"share.{name.removesuffix('_share')}", "value": float(shares_of.mean())}


def _weights(frame: "pd.DataFrame") -> Iterator[Row]:
    """Effective rank, rank and skew share of what a head computes, means over heads; over all layers, the share of heads in which
    the sum of W_Q W_Kᵀ and its transpose has twice the rank, so that no direction is both that of a query and that of a key, and
    the rank of the sum over heads as a share of the sum of ranks."""
    of_heads, sums = frame[frame["head"].notna()], frame[frame["head"].isna()]
    columns = {".effective": "value", "": "rank", ".skew": "skew_share", ".symmetric": "rank_with_transpose"}
    yield from _means(of_heads, "rank", columns)
    if len(maps := of_heads[of_heads["map"] == "query-key"]):
        yield {"quantity": "share.directed", "value": float((maps["rank_with_transpose"] == 2 * maps["rank"]).mean())}
    if len(sums := sums[sums["map"] == "query-key"]):
        yield {"quantity": "share.rank.heads", "value": float((sums["rank"] / sums["heads_rank"]).mean())}
