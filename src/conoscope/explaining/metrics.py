"""Plausibility metrics, scores against rationales: of rankings, of selected words, and over thresholds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from conoscope.common.bounds import COUNT, check
from conoscope.common.errors import MeasureError, one_of
from conoscope.common.keywords import refuse_unknown_fields
from conoscope.explaining.intervals import RESAMPLES, mean_of
from conoscope.explaining.ranking import Ranking, divided
from conoscope.explaining.selecting import NORMALIZATIONS, Selection

SENTENCES = ("rationale", "label", "all")
THRESHOLDS = np.linspace(0, 1, 50)
Key = tuple[str, str]
"""A metric and an average."""
Sentence = tuple[Float[np.ndarray, "_"], Bool[np.ndarray, "_"]]
"""The scores of a sentence's words, and which of them people marked."""


@refuse_unknown_fields
@dataclass(frozen=True)
class Judging:
    """Options of `plausibility()`: which sentences count, how scores are normalized before they are pooled, how words are
    selected, and the number of bootstrap resamples."""

    sentences: str = "rationale"
    normalize: str = "minmax"
    binary: str = "threshold=0.5"
    resamples: int = RESAMPLES

    def __post_init__(self) -> None:
        check(self, resamples=COUNT)
        for option, known in (("sentences", SENTENCES), ("normalize", NORMALIZATIONS)):
            if getattr(self, option) not in known:
                raise MeasureError(f"no {option} {getattr(self, option)!r}; known: {one_of(known)}")
        Selection.of(self.binary)


class PlausibilityMetrics:
    """The plausibility metrics of one map: `values(weights)` returns every metric for each row of sentence weights."""

    def __init__(self, sentences: Sequence[Sentence], judging: Judging) -> None:
        normalize, selection = NORMALIZATIONS[judging.normalize], Selection.of(judging.binary)
        scores = [normalize(scores) for scores, _ in sentences]
        marks = [marked for _, marked in sentences]
        chosen = [selection.chosen(scores, marked) for scores, marked in sentences]
        self.lengths = np.array([len(marked) for marked in marks])
        self._ranking = Ranking(np.concatenate(scores), np.concatenate(marks))
        self._counts = np.array([_counts(*pair) for pair in zip(chosen, marks, strict=True)], dtype=np.float64)
        self._curves = np.stack([_curve(*pair) for pair in zip(scores, marks, strict=True)])
        self.alone = self._of_each(scores, marks)

    def _of_each(self, scores: Sequence[np.ndarray], marks: Sequence[np.ndarray]) -> dict[str, Float[np.ndarray, " s"]]:
        """Every metric of each sentence; NaN where undefined."""
        ranked = [Ranking(*pair).metrics(np.ones((1, len(pair[0])))) for pair in zip(scores, marks, strict=True)]
        return {
            **{name: np.concatenate([metrics[name] for metrics in ranked]) for name in ("auroc", "auprc")},
            **shares(self._counts),
            **areas(self._curves, self._counts),
        }

    def values(self, weights: Float[np.ndarray, "r s"]) -> dict[Key, Float[np.ndarray, " r"]]:
        """Every metric by both averages: micro over all words together, macro over the sentences that have a value."""
        counts, curves = weights @ self._counts, np.einsum("rs,skt->rkt", weights, self._curves, optimize=True)
        words = np.repeat(weights, self.lengths, axis=1)
        pooled = {**self._ranking.metrics(words), **shares(counts), **areas(curves, counts)}
        return {
            **{(metric, "micro"): value for metric, value in pooled.items()},
            **{(metric, "macro"): mean_of(weights, values) for metric, values in self.alone.items()},
        }

    def counts(self) -> dict[Key, tuple[int, int]]:
        """For each metric and average: n (words for micro, sentences for macro) and the number of undefined sentences."""
        defined = {metric: int((~np.isnan(values)).sum()) for metric, values in self.alone.items()}
        return {
            **{(metric, "micro"): (int(self.lengths.sum()), 0) for metric in defined},
            **{(metric, "macro"): (count, len(self.lengths) - count) for metric, count in defined.items()},
        }

    def curve(self) -> dict[str, Float[np.ndarray, " t"]]:
        """Precision and recall over all words at each threshold; precision is NaN where no word reaches it."""
        hits, chosen = self._curves.sum(0)
        return {
            "threshold": THRESHOLDS,
            "precision": divided(hits, chosen),
            "recall": divided(hits, hits * 0 + self._counts[:, 2].sum()),
        }


def _counts(chosen: Bool[np.ndarray, " w"], marked: Bool[np.ndarray, " w"]) -> tuple[int, int, int, int]:
    return int((chosen & marked).sum()), int(chosen.sum()), int(marked.sum()), len(marked)


def _curve(scores: Float[np.ndarray, " w"], marked: Bool[np.ndarray, " w"]) -> Float[np.ndarray, "2 t"]:
    """The numbers of marked words, and of all words, that reach each threshold."""
    reach = scores[:, None] >= THRESHOLDS
    return np.stack([reach[marked].sum(0), reach.sum(0)]).astype(np.float64)


def shares(counts: Float[np.ndarray, "s 4"]) -> dict[str, Float[np.ndarray, " s"]]:
    """Precision, recall, F1 and intersection over union of selected against marked words, and the share that is marked."""
    hits, chosen, marked, words = counts.T
    iou, neither = divided(hits, chosen + marked - hits), words - chosen - marked + hits
    return {
        "precision": divided(hits, chosen),
        "recall": divided(hits, marked),
        "f1": divided(2 * hits, chosen + marked),
        "iou": iou,
        "iou_both_classes": (iou + divided(neither, words - hits)) / 2,
        "density": divided(marked, words),
    }


def areas(curves: Float[np.ndarray, "s 2 t"], counts: Float[np.ndarray, "s 4"]) -> dict[str, Float[np.ndarray, " s"]]:
    """The areas under precision and recall over the thresholds; a threshold that no word reaches has a precision of 0."""
    hits, chosen, marked = curves[:, 0], curves[:, 1], counts[:, 2]
    precision = np.where(marked[:, None] > 0, np.nan_to_num(divided(hits, chosen)), np.nan)
    recall = divided(hits, np.broadcast_to(marked[:, None], hits.shape))
    return {name: ((y[:, 1:] + y[:, :-1]) / 2).mean(1) for name, y in (("au_precision", precision), ("au_recall", recall))}
