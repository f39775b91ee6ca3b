"""reproduce(): run a study, judge it, write its tables and its record."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from typing import Any

from conoscope.common.bounds import POSITIVE, WEIGHT, check
from conoscope.common.claiming import claims, hold
from conoscope.common.errors import MeasureError, one_of
from conoscope.common.terminal import say
from conoscope.common.writing import make_folder
from conoscope.studies import STUDIES
from conoscope.studies.base import QUICK_TEXTS, QUICK_TEXTS_CHECKPOINT, Condition, Study
from conoscope.studies.checkpoints import name_of, with_checkpoint, without_checkpoint
from conoscope.studies.contrasts import words
from conoscope.studies.made import Place, least, on_bistro_where_absent, require_data
from conoscope.studies.records import read_record, recorded, write_record
from conoscope.studies.rejudging import Record
from conoscope.studies.running import Job, adopt, jobs_of, kept, run_all
from conoscope.studies.sources import refuse_other_texts
from conoscope.studies.vectors import with_vectors

QUICK_SEEDS = 2


@dataclass(frozen=True)
class Reproducing:
    """Options of a reproduction; `seeds` defaults to the number that the study sets, `jobs` to the number of cores,
    or to one for the quick form.

    `model` is the checkpoint to fine-tune, or to use unchanged, in place of MiniLM; `vectors` are word vectors in place of GloVe.
    `records`: records whose runs count as done. `only`: conditions to run, as in ("corpus=hatexplain", "layers=5"): of the same
    key, any value; of several keys, all. After `minutes`, no further run starts. All finished runs are judged; the record
    says which are left.
    """

    seeds: int | None = None
    limit: int | None = None
    device: str = "auto"
    jobs: int | None = None
    quick: bool = False
    data_dir: str | Path | None = None
    model: str | Path | None = None
    vectors: str | Path | None = None
    records: Sequence[str | Path] = ()
    only: Sequence[str] = ()
    minutes: float | None = None
    keep_models: bool = False
    progress: bool = False

    def __post_init__(self) -> None:
        check(self, names=("data_dir", "model", "vectors"), seeds=POSITIVE, limit=POSITIVE, jobs=POSITIVE, minutes=WEIGHT)
        for name in ("records", "only"):
            if isinstance(getattr(self, name), str):
                raise MeasureError(f"{name}={getattr(self, name)!r} is one text; give a list")


def study_of(name: str) -> Study:
    """A study by name."""
    if name not in STUDIES:
        raise MeasureError(f"no study {name!r}; known studies: {one_of(STUDIES)}")
    return STUDIES[name]


@claims()
def reproduce(name: str, out: str | Path, options: Reproducing | None = None) -> Record:
    """Run a study, or resume it, in the folder `out`; return its record, which is also written to `out/record.json`."""
    study, chosen = study_of(name), options or Reproducing()
    data_dir = None if chosen.data_dir is None else str(chosen.data_dir)
    conditions, seeds = _conditions(study, chosen), chosen.seeds or (QUICK_SEEDS if chosen.quick else study.seeds)
    wanted = selected(study, conditions, chosen.only)
    if not chosen.quick:
        for condition in wanted:
            require_data(condition, data_dir)
    _refuse_twice_the_same(conditions, chosen.seeds or 1)
    records = [_record_of(study, path) for path in chosen.records]
    where = make_folder(Path(out))
    hold(where)
    models = str(where / "models") if chosen.keep_models else None
    jobs = [
        job
        for condition in conditions
        for job in jobs_of(study, [condition], seeds, Place(data_dir, chosen.device, _limit(condition, chosen), models), where)
    ]
    _refuse_other_texts(jobs)
    for path, record in zip(chosen.records, records, strict=True):
        taken = adopt(jobs, record)
        if chosen.progress:
            say(_taken(taken, len(record["runs"]), path), error=True)
    _refuse_other_texts(jobs)
    todo = [job for job in jobs if job.condition in wanted]
    # Starting processes takes longer than the runs of a quick form.
    processes = chosen.jobs or (1 if chosen.quick else cpu_count()) or 1
    failed = run_all(todo, processes, chosen.progress, chosen.minutes)
    runs = _refuse_other_texts(jobs)
    record = recorded(study, runs, failed, _how(chosen, seeds))
    write_record(where, record)
    return record


def _refuse_other_texts(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """The finished runs; an error if those of a condition read different texts."""
    runs = [rows for job in jobs if (rows := kept(job)) is not None]
    refuse_other_texts(runs)
    return runs


def _taken(count: int, of: int, path: str | Path) -> str:
    """How many runs of a record count as done, and why if none does."""
    why = "" if count else ": its runs are of other conditions, seeds or versions, or are in the folder already"
    return f"{count or 'none'} of {of} runs taken from {path}{why}"


def _limit(condition: Condition, chosen: Reproducing) -> int | None:
    quick = QUICK_TEXTS_CHECKPOINT if condition.fine_tunes else QUICK_TEXTS
    return least(chosen.limit, quick if chosen.quick else None)


def _how(chosen: Reproducing, seeds: int) -> dict[str, Any]:
    """The options that a record names: files by their names alone, models of the Hub as they are given."""
    files = {"model": chosen.model, "vectors": chosen.vectors}
    named = {name: None if given is None else name_of(given) for name, given in files.items()}
    return {"quick": chosen.quick, "limit": chosen.limit, **named, "wanted": seeds}


def _record_of(study: Study, path: str | Path) -> Record:
    record = read_record(path)
    if record["study"] != study.name:
        raise MeasureError(f"{path} is a record of {record['study']}; give one of {study.name}")
    return record


def selected(study: Study, conditions: Sequence[Condition], only: Sequence[str]) -> list[Condition]:
    """The conditions that `only` names; all if it names nothing."""
    values: dict[str, set[str]] = {}
    for each in only:
        key, mark, value = each.partition("=")
        if not mark or not any(key in condition.keys for condition in conditions):
            keys = dict.fromkeys(key for condition in conditions for key in condition.keys)
            raise MeasureError(f"{each!r} selects no condition of {study.name}; give KEY=VALUE, with a key of {one_of(keys)}")
        known = dict.fromkeys(_shown(c.keys[key]) for c in conditions if key in c.keys)
        if not (meant := {one for one in known if _is_same(value, one)}):
            raise MeasureError(f"{each!r} selects no condition of {study.name}; values of {key}: {one_of(known)}")
        values.setdefault(key, set()).update(meant)
    found = [c for c in conditions if all(k in c.keys and _shown(c.keys[k]) in v for k, v in values.items())]
    if not found:
        raise MeasureError(f"no condition of {study.name} has {' and '.join(only)}; leave one out")
    return found


def _is_same(given: str, value: str) -> bool:
    """Whether two values are the same text or the same number: 1e-4 is 0.0001."""
    try:
        return given == value or float(given) == float(value)
    except ValueError:
        return False


def _shown(value: Any) -> str:
    return words({"": value}).strip()


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
    if chosen.vectors is not None and not any(with_vectors([one], "own") != [one] for one in study.conditions):
        raise MeasureError(f"{study.name} has no word vectors that others could replace; leave --vectors out")
    vectors = None if chosen.vectors is None else str(chosen.vectors)
    if chosen.quick:
        some = without_checkpoint([condition.smaller() for condition in study.conditions if condition.quick], model)
        return list(on_bistro_where_absent(with_checkpoint(some, model), data_dir))
    return with_vectors(with_checkpoint(study.conditions, model), vectors)
