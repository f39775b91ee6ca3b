"""Earlier: whether a record is of an earlier version of its study."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from conoscope.studies import STUDIES
from conoscope.studies.base import Study
from conoscope.studies.checkpoints import with_checkpoint
from conoscope.studies.made import OF_RUNS, setting_of
from conoscope.studies.rejudging import Record
from conoscope.studies.rows import plain
from conoscope.studies.vectors import with_vectors
from conoscope.training.settings import Training

EARLIER = (
    "Earlier version: the record is of conditions that the study no longer has. There, models on word vectors were 100 wide "
    "(published: 300), and batches were grouped by length (published: shuffled)."
)


def is_earlier(record: Record) -> bool:
    """Whether a run of the record is of another configuration than its condition has now, or of no present condition."""
    settings, study = record.get("settings"), STUDIES.get(record["study"])
    if settings is None or study is None:
        return True
    now = _settings(study, record)
    return any(_text(_whole(settings[run["setting"]])) != now.get(_text(run["keys"])) for run in record["runs"])


def is_dated(record: Record) -> bool:
    """Whether a record must say that it is of an earlier version: one of the quick form only tests the code."""
    return not record["quick"] and is_earlier(record)


def _settings(study: Study, record: Record) -> dict[str, str]:
    """The configuration that each condition has now, by its keys, with the record's own model, word vectors and limit."""
    named, conditions = record.get("model"), with_vectors(study.conditions, record.get("vectors"))
    chosen = with_checkpoint(conditions, named) if named else conditions
    return {_text(plain(condition.keys)): _text(setting_of(condition, record.get("limit"))) for condition in chosen}


def _whole(setting: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with options that came later, which it had at their defaults."""
    training = setting.get("training")
    later = {name: value for name, value in asdict(Training()).items() if name not in OF_RUNS}
    return setting if training is None else {**setting, "training": {**later, **training}}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
