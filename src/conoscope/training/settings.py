"""Training: all settings of a training run."""

from dataclasses import dataclass
from pathlib import Path

from conoscope.common.bounds import POSITIVE, RATE, SEED, WEIGHT, check, ordered
from conoscope.common.errors import ModelError, one_of
from conoscope.common.keywords import refuse_unknown_fields
from conoscope.training.penalties import Penalties

SIZES = ("layers", "width", "heads", "lift", "epochs", "patience", "batch_size", "max_length")
SAMPLING = {"grouped": "group_by_length", "shuffled": "random"}
"""How the texts of a batch are chosen, and the Trainer's name for it."""


@refuse_unknown_fields
@dataclass(frozen=True)
class Training:
    """Settings of a training run; the defaults learn `bistro` in about a minute on one core. None means: set by the model.

    The model is a `preset` of the family, or a `checkpoint` to fine-tune. `vectors`: initial word vectors, fixed with `freeze`;
    narrower ones are lifted to the width `lift`. `special`: how <cls>, <unk> and other special tokens are initialised, zeros or
    random. `positions` and `residual` replace those of the preset; `position_scale` multiplies sinusoidal positions. `batches`:
    grouped by length, or shuffled. `penalty_unit`: the entropy penalty is a mean over texts of the normalised entropy (sentence),
    or a sum over the texts of a batch in nats (summed). `resume` changes nothing: the
    same call again always resumes.
    """

    preset: str = "pure-attention"
    checkpoint: str | Path | None = None
    layers: int | None = None
    width: int | None = None
    heads: int | None = None
    vectors: str | Path | None = None
    lift: int | None = None
    freeze: bool = False
    special: str = "zeros"
    positions: str | None = None
    residual: str | None = None
    position_scale: float = 1.0
    entropy_penalty: float = Penalties.entropy
    rationale_penalty: float = Penalties.rationale
    lagrange_penalty: float = Penalties.lagrange
    penalty_rows: str = Penalties.rows
    penalty_layers: tuple[int, int] = Penalties.layers
    penalty_input: str = Penalties.scale
    penalty_unit: str = Penalties.unit
    epochs: int = 50
    patience: int = 5
    learning_rate: float | None = None
    batch_size: int = 64
    batches: str = "grouped"
    max_length: int = 512
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    gradient_checkpointing: bool = False
    report_to: str = "none"
    resume: bool = False
    progress: bool = False

    def __post_init__(self) -> None:
        sizes = dict.fromkeys(SIZES, POSITIVE)
        weights = dict.fromkeys(("entropy_penalty", "rationale_penalty", "lagrange_penalty"), WEIGHT)
        names = ("checkpoint", "vectors", "positions", "residual")
        check(self, names=names, learning_rate=RATE, position_scale=RATE, seed=SEED, **sizes, **weights)
        if self.batches not in SAMPLING:
            raise ModelError(f"no batches {self.batches!r}; known: {one_of(SAMPLING)}")
        object.__setattr__(self, "penalty_layers", ordered("penalty_layers", self.penalty_layers, POSITIVE))

    @property
    def penalties(self) -> Penalties:
        """The penalties that are added to the loss."""
        return Penalties(
            entropy=self.entropy_penalty,
            rationale=self.rationale_penalty,
            lagrange=self.lagrange_penalty,
            rows=self.penalty_rows,
            layers=self.penalty_layers,
            scale=self.penalty_input,
            unit=self.penalty_unit,
        )

    @property
    def rate(self) -> float:
        """The learning rate: as given, or else Adam's default for a new model and a small one for a checkpoint."""
        given = self.learning_rate
        return given if given is not None else 1e-3 if self.checkpoint is None else 5e-5
