"""Training: all settings of a training run."""

from dataclasses import dataclass
from pathlib import Path

from conoscope.common.bounds import POSITIVE, RATE, SEED, WEIGHT, check, ordered
from conoscope.training.penalties import Penalties


@dataclass(frozen=True)
class Training:
    """Settings of a training run; the defaults learn `bistro` in about a minute on one core. None means: set by the model.

    The model is a `preset` of the family, or a `checkpoint` to fine-tune. `vectors`: initial word vectors, fixed with `freeze`.
    `special`: how <cls>, <unk> and other special tokens are initialised, zeros or random. `resume` changes nothing: the same
    call again always resumes.
    """

    preset: str = "pure-attention"
    checkpoint: str | Path | None = None
    layers: int | None = None
    width: int | None = None
    heads: int | None = None
    vectors: str | Path | None = None
    freeze: bool = False
    special: str = "zeros"
    entropy_penalty: float = Penalties.entropy
    rationale_penalty: float = Penalties.rationale
    lagrange_penalty: float = Penalties.lagrange
    penalty_rows: str = Penalties.rows
    penalty_layers: tuple[int, int] = Penalties.layers
    penalty_input: str = Penalties.scale
    epochs: int = 50
    patience: int = 5
    learning_rate: float | None = None
    batch_size: int = 64
    max_length: int = 512
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    gradient_checkpointing: bool = False
    report_to: str = "none"
    resume: bool = False
    progress: bool = False

    def __post_init__(self) -> None:
        sizes = dict.fromkeys(("layers", "width", "heads", "epochs", "patience", "batch_size", "max_length"), POSITIVE)
        weights = dict.fromkeys(("entropy_penalty", "rationale_penalty", "lagrange_penalty"), WEIGHT)
        check(self, names=("checkpoint", "vectors"), learning_rate=RATE, seed=SEED, **sizes, **weights)
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
        )

    @property
    def rate(self) -> float:
        """The learning rate: as given, or else Adam's default for a new model and a small one for a checkpoint."""
        given = self.learning_rate
        return given if given is not None else 1e-3 if self.checkpoint is None else 5e-5
