"""Facts: what is known of a run beside its tables: model, corpus, accuracy, texts that were cut, and the analysed vector."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conoscope.common.pooling import described, sourced, vector_read

if TYPE_CHECKING:
    import pandas as pd

TRAINED = ("preset", "layers", "entropy_penalty", "rationale_penalty", "lagrange_penalty", "seed", "vectors", "accuracy")
"""What is told of a model's training, where it is known."""


def run_facts(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table `runs`; None where something is not known."""
    model, corpus, seen = (provenance.get(part) or {} for part in ("model", "corpus", "seen"))
    training = model.get("training") or {}
    return {
        "model": model.get("name"),
        "type": model.get("type"),
        "corpus": corpus.get("name"),
        "split": corpus.get("split"),
        "marked_by": corpus.get("marked_by"),
        "examples": seen.get("examples"),
        **{name: training.get(name) for name in TRAINED},
        "vector": described(provenance) if sourced(provenance) else None,
        "vector_read": vector_read(provenance),
    }


def screen_facts(provenance: Mapping[str, Any], tables: Mapping[str, "pd.DataFrame"]) -> dict[str, str]:
    """What a reader must know before any finding: accuracy, texts that were cut, the analysed vector; empty if not known."""
    accuracy = accuracy_of(provenance.get("seen") or {}, tables)
    return {
        "Accuracy": "" if accuracy is None else str(accuracy),
        "Texts cut": cut_texts(provenance),
        "Vector of a text": sourced(provenance) or "",
    }


def screen_counts(provenance: Mapping[str, Any], tables: Mapping[str, "pd.DataFrame"]) -> dict[str, float | int | None]:
    """The same as numbers: accuracy, of how many texts, the share of the largest class, texts that were cut; known ones alone."""
    seen = provenance.get("seen") or {}
    found: dict[str, float | int | None] = {}
    if (accuracy := accuracy_of(seen, tables)) is not None:
        found |= {"accuracy": accuracy.right, "accuracy_n": accuracy.n, "largest_class": accuracy.largest}
    return found | ({"texts_cut": seen["truncated"]} if cut_texts(provenance) else {})


@dataclass(frozen=True)
class Accuracy:
    """The share of texts that the model gets right, of how many, and the share of the largest class among them."""

    right: float
    n: int
    largest: float | None
    sampled: bool

    def __str__(self) -> str:
        of = "sampled" if self.sampled else "labelled"
        beside = "share of the largest class not known" if self.largest is None else f"largest class {100 * self.largest:.1f} %"
        return f"{100 * self.right:.1f} % of {self.n:,} {of} {'text' if self.n == 1 else 'texts'} ({beside})"


def accuracy_of(seen: Mapping[str, Any], tables: Mapping[str, "pd.DataFrame"]) -> Accuracy | None:
    """The model's accuracy on labelled texts; None for a model without classifier, or without labels.

    Older results do not count right answers; of these it is that of the examples of `class_cones.nearest`.
    """
    labelled, classes, row = seen.get("labelled"), seen.get("classes") or {}, _scored(tables)
    if labelled:
        counted = max(classes.values()) / labelled if sum(classes.values()) == labelled else None
        read = float(row["chance"]) if row is not None and int(row["n"]) == labelled else None
        return Accuracy(seen["correct"] / labelled, labelled, read if counted is None else counted, False)
    if row is None or not 0 <= row["model"] <= 1:
        return None
    return Accuracy(float(row["model"]), int(row["n"]), float(row["chance"]), True)


def _scored(tables: Mapping[str, "pd.DataFrame"]) -> "pd.Series[Any] | None":
    """The row of the mean directions of hidden states in the last layer, whose examples are all that were sampled."""
    frame = next((tables[name] for name in tables if name.partition(":")[0] == "class_cones.nearest"), None)
    if frame is None:
        return None
    rows = frame[(frame["site"] == "hidden") & (frame["control"] == "none") & (frame["representative"] == "mean")]
    rows = rows.dropna(subset="value")
    return None if rows.empty else rows.sort_values("layer").iloc[-1]


def cut_texts(provenance: Mapping[str, Any]) -> str:
    """How many texts were cut, of how many, and at which length; nothing where no text was read."""
    seen = provenance.get("seen") or {}
    cut, every = seen.get("truncated"), seen.get("examples")
    if cut is None or not every:
        return ""
    longest = provenance.get("options", {}).get("max_length")
    at = f", at {longest:,} tokens" if cut and longest else ""
    return f"{cut:,} of {every:,}{at}" if cut else f"none of {every:,}"
