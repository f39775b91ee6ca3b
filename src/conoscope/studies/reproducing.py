"""reproduce(): run a study, judge it, write its tables and its record."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path

from conoscope.common.bounds import POSITIVE, check
from conoscope.common.errors import MeasureError, one_of
from conoscope.common.writing import make_folder
from conoscope.studies import STUDIES
from conoscope.studies.base import QUICK_TEXTS, Condition, Study
from conoscope.studies.checkpoints import with_checkpoint, without_checkpoint
from conoscope.studies.made import Place, least, on_bistro_where_absent, require_data
from conoscope.studies.records import Record, recorded, write_record
from conoscope.studies.running import jobs_of, kept, run_all

QUICK_SEEDS = 2


@dataclass(frozen=True)
class Reproducing:
    """Options of a reproduction; `seeds` defaults to the number that the study sets, `jobs` to the number of cores.

    `model` is the checkpoint to fine-tune, or to use unchanged, in place of MiniLM.
    """

    seeds: int | None = None
    limit: int | None = None
    device: str = "auto"
    jobs: int | None = None
    quick: bool = False
    data_dir: str | Path | None = None
    model: str | Path | None = None
    keep_models: bool = False
    progress: bool = False

    def __post_init__(self) -> None:
        check(self, names=("data_dir", "model"), seeds=POSITIVE, limit=POSITIVE, jobs=POSITIVE)


def study_of(name: str) -> Study:
    """A study by name."""
    if name not in STUDIES:
        raise MeasureError(f"no study {name!r}; known studies: {one_of(STUDIES)}")
    return STUDIES[name]


def reproduce(name: str, out: str | Path, options: Reproducing | None = None) -> Record:
    """Run a study, or resume it, in the folder `out`; return its record, which is also written to `out/record.json`."""
    study, chosen = study_of(name), options or Reproducing()
    data_dir = None if chosen.data_dir is None else str(chosen.data_dir)
    conditions = _conditions(study, chosen)
    _refuse_twice_the_same(conditions, chosen.seeds or 1)
    where = make_folder(Path(out))
    place = Place(
        data_dir,
        chosen.device,
        least(chosen.limit, QUICK_TEXTS if chosen.quick else None),
        str(where / "models") if chosen.keep_models else None,
    )
    jobs = jobs_of(study, conditions, chosen.seeds or (QUICK_SEEDS if chosen.quick else study.seeds), place, where)
    failed = run_all(jobs, chosen.jobs or cpu_count() or 1, chosen.progress)
    runs = [rows for job in jobs if (rows := kept(job)) is not None]
    how = {"quick": chosen.quick, "limit": chosen.limit, "model": None if chosen.model is None else Path(chosen.model).name}
    record = recorded(study, runs, failed, how)
    write_record(where, record)
    return record


def _refuse_twice_the_same(conditions: Sequence[Condition], seeds: int) -> None:
    """Raise an error if there are more seeds than parts: without training, each seed reads one part of the texts."""
    parts = min(
        (condition.parts for condition in conditions if condition.training is None and condition.parts > 1), default=seeds
    )
    if seeds > parts:
        raise MeasureError(f"{seeds} seeds of a model that is not trained would read the same texts again; give --seeds {parts}")


def _conditions(study: Study, chosen: Reproducing) -> Sequence[Condition]:
    if chosen.model is not None and not any(condition.wants_checkpoint for condition in study.conditions):
        raise MeasureError(f"{study.name} has no checkpoint that another model could replace; leave --model out")
    model, data_dir = (None if given is None else str(given) for given in (chosen.model, chosen.data_dir))
    if chosen.quick:
        some = without_checkpoint([condition.smaller() for condition in study.conditions if condition.quick], model)
        return list(on_bistro_where_absent(with_checkpoint(some, model), data_dir))
    for condition in study.conditions:
        require_data(condition, data_dir)
    return list(with_checkpoint(study.conditions, model))
