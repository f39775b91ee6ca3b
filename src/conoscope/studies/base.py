"""Study: a published table or claim that can be reproduced. An example:

    from collections.abc import Iterator

    def _conditions() -> Iterator[Condition]:
        for layers in (1, 3, 5):
            training = Training(layers=layers, vectors="glove")
            yield Condition({"corpus": "hatexplain", "layers": layers}, "hatexplain", training, balanced=999, quick=layers != 3)

    def _read(made: Made) -> Iterator[Row]:
        for _, row in made.measure("sim")["sim"].iterrows():
            yield {"quantity": f"sim.{row['site']}", "layer": row["layer"], "value": row["value"]}

    def _deeper(rows: pd.DataFrame) -> pd.DataFrame:
        key = rows[rows["quantity"] == "sim.key"]
        return difference(key[key["layer"] == key["layers"]], key[key["layer"] == 1], by=("corpus", "layers"))

    STUDY = Study(
        name="example", title="…", source="…",
        conditions=tuple(_conditions()), read=_read,
        published=(Published({"corpus": "hatexplain", "layers": 1, "quantity": "sim.key", "layer": 1}, 0.713, "N"),),
        claims=(Claim("deeper", "Keys gather more in the last layer than in the first.", _deeper),),
        differs=("Word vectors are …",),
        meaning="…",
    )

A condition is a model to train and the texts to measure it on. `read` computes the rows of one model (`Made` in made.py has the
model, its texts and its scores, and measures it). A claim is a number for each case and seed that should be above a bound.

Everything else is the same for all studies: parallel runs and their storage (running.py, workers.py), means and intervals over
seeds (judging.py, intervals.py), the record and its rows (records.py, rows.py), the text and the page (telling.py, pages.py). Add
the study to `__init__.py`, then run `conoscope reproduce example --quick`. Finished runs are kept in the study's folder: after a
change of `read`, give -o another folder.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from conoscope.training.settings import Training

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

Keys = Mapping[str, Any]
"""Keys that identify a condition or a number: {"corpus": "hatexplain", "layers": 3}."""
Row = dict[str, Any]
"""One number of a run: `quantity`, `value`, and other keys that identify it, such as `layer`."""
TAGS = {
    "S": "in a source document",
    "P": "in the paper's text",
    "C": "in the authors' code",
    "N": "printed in an authors' notebook",
    "F": "read by eye off a figure",
    "R": "recalled, and not verified",
}
"""Where a published figure comes from."""
BOUNDS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("accuracy", "majority", "cap", "entropy", "auroc", "auprc", "share", "weight", "nearest"), (0.0, 1.0)),
    **dict.fromkeys(("agreement", "control", "found", "f1", "specificity"), (0.0, 1.0)),
    **dict.fromkeys(("sim", "cosine", "median", "rho", "cancel", "pearson", "spearman"), (-1.0, 1.0)),
}
"""The range of quantities, by the first part of their names: `sim` is that of `sim.key`. Intervals stay in it."""
GATE = 0.05
"""By how much a model must be more often right than the largest class, for claims to be judged on it."""
MINILM = "minilm"
"""Placeholder for all-MiniLM-L6-v2, or for the checkpoint that the user names instead."""
GLOVE, GLOVE_50 = "glove", "glove-50"
"""Placeholders for GloVe 6B in 100 dimensions and, with all its words, in 50, or for the vectors that the user names instead."""
QUICK: Mapping[str, Any] = {"epochs": 1, "vectors": None, "lift": None, "width": 8, "max_length": 32}
"""Settings that the quick form changes for training."""
QUICK_CHECKPOINT: Mapping[str, Any] = {"epochs": 1, "max_length": 24}
"""Settings that the quick form changes for fine-tuning."""
QUICK_TEXTS, QUICK_TEXTS_CHECKPOINT = 60, 24
"""How many texts of each split the quick form reads, to train a model and to fine-tune one."""
NEW_BERT = "bert"
"""Placeholder for an untrained BERT with the vocabulary of the corpus, of the given layers, width and heads."""


@dataclass(frozen=True)
class Condition:
    """A model, trained here or used unchanged, and the texts that it is measured on.

    The run sets seed and device of `training`. In it, `vectors="glove"` stands for GloVe 6B 100d, and `"glove-50"` for 50d with
    all words, wherever they are, or for the vectors that the user names instead; `checkpoint="minilm"`, like `model="minilm"`,
    for all-MiniLM-L6-v2 or the model that the user names instead; and `checkpoint="bert"` for an untrained BERT.

    Without `training`, `model` is used unchanged, and each seed reads another part of the texts (of `parts` in all). `texts` is
    by default the corpus's test split; `balanced` = n takes the first n // C texts of each of the C classes. With `trace`, the
    model is measured at each epoch of its training (`Made.trace`). With `added_words`, the words of the training texts are added
    to those of the checkpoint. If `quick` is set, the quick form runs this condition too, on bistro if the corpus is missing.
    """

    keys: Keys
    corpus: str
    training: Training | None = None
    model: str | None = None
    texts: str | None = None
    balanced: int | None = None
    parts: int = 1
    quick: bool = True
    trace: bool = False
    added_words: bool = False

    @property
    def in_parts(self) -> bool:
        """Whether seeds only number parts of the texts: the model is used unchanged."""
        return self.training is None and self.parts > 1

    @property
    def fine_tunes(self) -> bool:
        """Whether the condition trains a checkpoint that exists already."""
        return self.training is not None and self.training.checkpoint not in (None, NEW_BERT)

    @property
    def test(self) -> str:
        """The corpus and split that the model is measured on."""
        return self.texts or f"{self.corpus}:test"

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the condition uses the placeholder `minilm`."""
        return MINILM in (self.model, self.training and self.training.checkpoint)

    def smaller(self) -> "Condition":
        """The condition at a tiny size that takes a second, to test the code."""
        if self.training is None:
            training = Training(checkpoint=NEW_BERT, layers=2, heads=2, learning_rate=1e-3, **QUICK)
            keys = {**self.keys, "model": "small BERT"}
            return replace(self, keys=keys, model=None, training=training, corpus="bistro", texts=None, parts=1)
        changes = QUICK_CHECKPOINT if self.fine_tunes else QUICK
        return replace(self, training=replace(self.training, **changes))


@dataclass(frozen=True)
class Published:
    """A published figure: its keys, its value, its origin (`TAGS`), and its tolerance if it was read off a figure.

    `model` names the published model if ours may be another one. For another model, the figure is shown beside ours without a
    verdict, and figures of single layers are left out.
    """

    keys: Keys
    value: float
    tag: str
    tolerance: float = 0.0
    model: str | None = None


@dataclass(frozen=True)
class Claim:
    """A testable statement. `contrast` turns the rows into a table with the columns case, seed and value (see contrasts.py). The
    claim holds for a case if the interval of the value over seeds lies above `above`.

    `within` is the range of the value, in which its interval stays: (0, 1) for a share, (-1, 1) for a correlation or for a
    difference of shares, (-2, 2) for a difference of cosines. `coarse`: the value has few possible steps, as a rank correlation
    over some weights or layers, or a share of some heads, and its interval is that of plain numbers, cut to the range. `counts`:
    the value is a count, with an exact Poisson interval.
    `found`: the value is 1 where a run has what is looked for and 0 where not, with the exact interval of the share of ones.
    `gated`: the claim is judged on the runs that pass the study's gate; False for a claim about accuracy itself.
    """

    name: str
    statement: str
    contrast: "Callable[[pd.DataFrame], pd.DataFrame]"
    above: float = 0.0
    within: tuple[float, float] | None = None
    counts: bool = False
    found: bool = False
    gated: bool = True
    coarse: bool = False


@dataclass(frozen=True)
class Study:
    """A published table: its figures, the conditions to run, its claims, where our setup differs, and what the results mean.

    `gate`: claims are judged on the runs whose accuracy is at least that of the largest class plus this margin, and again on all
    runs; None to judge all runs only.
    """

    name: str
    title: str
    source: str
    conditions: tuple[Condition, ...]
    read: "Callable[[Made], Iterable[Row]]"
    published: tuple[Published, ...] = ()
    claims: tuple[Claim, ...] = ()
    differs: tuple[str, ...] = ()
    meaning: str = ""
    seeds: int = 5
    gate: float | None = GATE
