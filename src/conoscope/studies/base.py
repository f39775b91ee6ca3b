"""Study: a published table or claim that can be run again. What one looks like:

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

A condition is what is trained and looked at, `read` says what is read of one model (`Made` in made.py has the model, its texts,
its scores, and measures it), a claim is a number for each case and seed that should lie above a bound. All else is done for
every study alike: runs side by side and kept (running.py), means and intervals over seeds (judging.py), the table, the record
and the page (telling.py, records.py, pages.py). Enter the study in `__init__.py`, then `conoscope reproduce example --quick`.
Finished runs are kept in the study's folder: after a change of `read`, give -o another one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from conoscope.training.settings import Training

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

Keys = Mapping[str, Any]
"""What tells a condition, or a number, from others: {"corpus": "hatexplain", "layers": 3}."""
Row = dict[str, Any]
"""A number that was read: `quantity`, `value`, and what else tells it, such as `layer`."""
TAGS = {
    "S": "in a source document",
    "P": "in the paper's text",
    "C": "in the authors' code",
    "N": "printed in an authors' notebook",
    "F": "read by eye off a figure",
    "R": "recalled, and not verified",
}
"""How a published figure is known."""
MINILM = "minilm"
"""Stands for all-MiniLM-L6-v2, or for the checkpoint that the user names in its place."""
QUICK: Mapping[str, Any] = {"epochs": 1, "vectors": None, "width": 8, "max_length": 64}
"""What the quick form changes of a training."""
QUICK_CHECKPOINT: Mapping[str, Any] = {"epochs": 1, "max_length": 64}
"""And what it changes of fine-tuning."""
QUICK_TEXTS = 60
"""How many texts of each split it reads."""
NEW_BERT = "bert"
"""Stands for a BERT with the words of the corpus that has learned nothing yet; layers, width and heads are its shape."""


@dataclass(frozen=True)
class Condition:
    """What is trained, or taken as it is, and which texts it is looked at on.

    `training` leaves seed and device to the run; `vectors="glove"` in it stands for GloVe 6B 100d, wherever it lies, and
    `checkpoint="minilm"`, like `model="minilm"`, for all-MiniLM-L6-v2, or what the user names in its place; `checkpoint="bert"`
    is a BERT that has learned nothing yet. Without `training`, `model` is taken as it is, and each seed reads a part of the
    texts of its own (`parts` in all). `texts` is by default the corpus's test split, of which `balanced` takes the first n // C
    of each class. The quick form runs the condition too where `quick` is set, on bistro where the corpus is not there.
    """

    keys: Keys
    corpus: str
    training: Training | None = None
    model: str | None = None
    texts: str | None = None
    balanced: int | None = None
    parts: int = 1
    quick: bool = True

    @property
    def test(self) -> str:
        """The corpus and split that the model is looked at on."""
        return self.texts or f"{self.corpus}:test"

    @property
    def wants_checkpoint(self) -> bool:
        """Whether a checkpoint is to be put in the place of `minilm`."""
        return MINILM in (self.model, self.training and self.training.checkpoint)

    def smaller(self) -> "Condition":
        """The same in a form that takes a second, to try the plumbing."""
        if self.training is None:
            training = Training(checkpoint=NEW_BERT, layers=2, heads=2, learning_rate=1e-3, **QUICK)
            keys = {**self.keys, "model": "small BERT"}
            return replace(self, keys=keys, model=None, training=training, corpus="bistro", texts=None, parts=1)
        changes = QUICK if self.training.checkpoint in (None, NEW_BERT) else QUICK_CHECKPOINT
        return replace(self, training=replace(self.training, **changes))


@dataclass(frozen=True)
class Published:
    """A published figure: what it is of, its value, how it is known (`TAGS`), and how far off it may be, read off a figure.

    `model` names the model that it was found in, where ours may be another one: then it stands beside ours, and is not judged;
    what it says of single layers is left out.
    """

    keys: Keys
    value: float
    tag: str
    tolerance: float = 0.0
    model: str | None = None


@dataclass(frozen=True)
class Claim:
    """A testable statement. `contrast` makes of the rows a table with the columns case, seed and value (contrasts.py helps): the
    claim holds for a case where the interval of the value over seeds lies above `above`."""

    name: str
    statement: str
    contrast: "Callable[[pd.DataFrame], pd.DataFrame]"
    above: float = 0.0


@dataclass(frozen=True)
class Study:
    """A published table: what was published, what is run again, what is claimed, where ours differs, and what came of it."""

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
