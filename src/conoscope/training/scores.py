"""Scores of predictions: accuracy, macro F1, and the recall of each class."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int


def accuracy(predicted: Int[np.ndarray, " n"], true: Int[np.ndarray, " n"]) -> float:
    """The share of correct predictions."""
    return float(np.mean(predicted == true))


def confusion(predicted: Int[np.ndarray, " n"], true: Int[np.ndarray, " n"], classes: int) -> Int[np.ndarray, "c c"]:
    """The confusion matrix: counts by true class (row) and predicted class (column)."""
    return np.bincount(true * classes + predicted, minlength=classes**2).reshape(classes, classes)


def macro_f1(predicted: Int[np.ndarray, " n"], true: Int[np.ndarray, " n"], classes: int) -> float:
    """2 TP / (2 TP + FP + FN) of each class, averaged over the classes that occur or are predicted, as in scikit-learn."""
    return mean_f1(confusion(predicted, true, classes))


def mean_f1(table: Int[np.ndarray, "c c"] | Float[np.ndarray, "c c"]) -> float:
    """F1 averaged over the classes that have one, from a confusion matrix."""
    by_class = f1_of(table)
    return float(by_class[~np.isnan(by_class)].mean())


def f1_of(table: Int[np.ndarray, "*shape c c"] | Float[np.ndarray, "*shape c c"]) -> Float[np.ndarray, "*shape c"]:
    """F1 of each class from a confusion matrix; NaN for a class that neither occurs nor is predicted."""
    hits = np.diagonal(table, axis1=-2, axis2=-1)
    either = table.sum(-1) + table.sum(-2)
    shares: np.ndarray = np.divide(2.0 * hits, either, out=np.full(hits.shape, np.nan), where=either > 0)
    return shares


def per_class(predicted: Int[np.ndarray, " n"], true: Int[np.ndarray, " n"], labels: Sequence[str]) -> dict[str, Any]:
    """The recall of each class; None for a class without examples."""
    return {
        label: float(np.mean(predicted[true == number] == number)) if (true == number).any() else None
        for number, label in enumerate(labels)
    }
