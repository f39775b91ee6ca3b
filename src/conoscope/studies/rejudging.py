"""judge_again(): verdicts on a record from its own rows, by the present rules and claims of its study."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from conoscope.studies import STUDIES
from conoscope.studies.base import Condition, Study
from conoscope.studies.checkpoints import keys_with
from conoscope.studies.gating import is_gated, scored
from conoscope.studies.judging import Verdict, compared, judged
from conoscope.studies.rows import keys_of_run, means_without, plain, records_of, rows_of, without
from conoscope.studies.sources import mixed

Record = dict[str, Any]
"""The results of a study, as written to record.json."""
NOT_RUN = "not run"
"""What a claim is called without a case."""
FORMER = {"yes": "not excluded", "no": "excluded"}
"""What published figures were called in earlier records."""


def judge_again(record: Record, study: Study | None = None) -> Record:
    """The record with published figures, claims, gated runs and what is left to run as they follow from its rows.

    Without a known study, only words of earlier records change.
    """
    known = study or STUDIES.get(record["study"])
    runs = [_described(run, known, record) for run in record["runs"]]
    if known is None:
        published = [{**row, "holds": FORMER.get(row["holds"], row["holds"])} for row in record["published"]]
        now = {**record, "runs": runs}
        return {**now, "published": published, "gate": None, "left": [], "mixed": mixed(now)}
    if known.gate is not None:
        runs = scored({**record, "runs": runs}, lambda run: _condition_of(run, known, record))
    gate = known.gate if any("majority" in run for run in runs) else None
    runs = [run if gate is None or "majority" not in run else {**run, "gated": is_gated(run, gate)} for run in runs]
    now = {**record, "runs": runs}
    texts = min((run["examples"] for run in runs if run["examples"]), default=1)
    rows, out = rows_of(now), {number for number, run in enumerate(runs) if run.get("gated")}
    passing = rows_of(now, out) if out else None
    claims = [_claim(judged(claim, rows, passing, texts)) for claim in known.claims]
    kept = None if gate is None else pd.DataFrame(means_without(now, out))
    published = records_of(compared(pd.DataFrame(record["means"]), known.published, texts, kept))
    found = {"gate": gate, "left": left_of(known, now), "published": published, "claims": claims, "mixed": mixed(now)}
    return {**now, **found}


def _described(run: Record, study: Study | None, record: Record) -> Record:
    """The run with its keys apart, and with the number of parts if it reads one of them, as in present records."""
    keys = keys_of_run(run)
    facts = without(run, ("keys", "gated") if "keys" in run else keys)
    parts = [
        condition.parts
        for condition in (study.conditions if study else ())
        if condition.in_parts and _keys(condition, record) == keys
    ]
    return {"keys": keys, **facts, **({"parts": parts[0]} if parts else {})}


def _condition_of(run: Mapping[str, Any], study: Study, record: Record) -> Condition | None:
    """The present condition with the keys of a run."""
    return next((condition for condition in study.conditions if _keys(condition, record) == run["keys"]), None)


def _keys(condition: Condition, record: Record) -> dict[str, Any]:
    keys: dict[str, Any] = plain(keys_with(condition, record.get("model")))
    return keys


def left_of(study: Study, record: Record) -> list[Record]:
    """The conditions of the study with seeds that are not in the record, and these seeds; nothing for the quick form."""
    return [] if record["quick"] else list(_left(study, record))


def _left(study: Study, record: Record) -> Iterator[Record]:
    seeds = record.get("wanted") or max(record["seeds"], default=0) + 1
    for condition in study.conditions:
        keys = _keys(condition, record)
        there = {run["seed"] for run in record["runs"] if run["keys"] == keys}
        if missing := [seed for seed in range(seeds) if seed not in there]:
            yield {"keys": keys, "seeds": missing}


def _claim(verdict: Verdict) -> Record:
    found: Record = plain(
        {
            "name": verdict.name,
            "statement": verdict.statement,
            "bound": verdict.bound,
            "answer": verdict.answer if verdict.cases else NOT_RUN,
            "all_answer": verdict.all_answer if verdict.cases else NOT_RUN,
            "cases": [case.flat() for case in verdict.cases],
        }
    )
    return found
