"""Merging: the outcomes of an ablation beside its tables, from which the parts of a corpus are put together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from conoscope.causes.effects import Effects
from conoscope.causes.outcomes import Outcomes
from conoscope.causes.parts import Part
from conoscope.causes.tables import INDEX, MEASURED, tables_of
from conoscope.causes.telling import told_ablation
from conoscope.common.errors import OutputError
from conoscope.common.sealing import FILES, check_files, digests, read_sealed, sealed
from conoscope.common.textfiles import is_there
from conoscope.common.writing import as_output_error, write_text
from conoscope.results.merging import joined
from conoscope.results.store import first_shard, read_index, read_provenance, read_table

ARRAYS, PARTS = "outcomes.safetensors", "parts.json"


@dataclass(frozen=True)
class Asked:
    """What outcomes are of, and how often texts are resampled."""

    parts: Sequence[Part]
    hows: Sequence[str]
    resamples: int


def effects_from(outcomes: Outcomes, asked: Asked, provenance: Mapping[str, Any], measured: pd.DataFrame | None) -> Effects:
    """The tables of outcomes."""
    tables = tables_of(outcomes, asked.parts, asked.hows, asked.resamples, measured)
    return Effects(tables, provenance, {name: INDEX[name] for name in tables}, told_ablation(tables, provenance["seen"]))


def seen_of(outcomes: Outcomes, truncated: int) -> dict[str, int]:
    """The numbers of texts, of those with a label, of right answers, and of texts that were cut."""
    labelled = ~np.isnan(outcomes.correct)
    right = int(outcomes.correct[labelled].sum())
    return {"examples": len(outcomes.places), "labelled": int(labelled.sum()), "correct": right, "truncated": truncated}


def keep_outcomes(folder: Path, outcomes: Outcomes, parts: Sequence[Part]) -> None:
    """Write the outcomes by text, and what they are of."""
    with as_output_error(folder):
        outcomes.save(folder / ARRAYS)
        listed = [asdict(part) for part in parts]
        write_text(folder / PARTS, sealed({"parts": listed, FILES: digests(folder, [ARRAYS])}))


def holds_outcomes(folder: str | Path) -> bool:
    """Whether a folder was written by an ablation."""
    return is_there(Path(folder) / PARTS)


def merge_ablations(folders: Iterable[str | Path]) -> Effects:
    """The ablation of a whole corpus from those of its shards, in any order; OutputError if they are not parts of one."""
    paths = sorted(map(Path, folders), key=first_shard)
    provenance = reduce(joined, (read_provenance(path) for path in paths))
    kept = [_kept(path) for path in paths]
    if any(parts != kept[0][1] for _, parts in kept):
        raise OutputError("these ablations are of other heads or layers; merge those of one model")
    outcomes = reduce(lambda one, other: one + other, (outcomes for outcomes, _ in kept))
    options = provenance["options"]
    asked = Asked(kept[0][1], options["how"], options["resamples"])
    return effects_from(outcomes, asked, provenance, _measured(paths[0]))


def _kept(folder: Path) -> tuple[Outcomes, list[Part]]:
    try:
        content = read_sealed(folder / PARTS)
        # Earlier versions wrote the parts alone, without digests.
        parts = [Part(**part) for part in (content["parts"] if isinstance(content, dict) else content)]
        check_files(folder, content[FILES] if isinstance(content, dict) else {})
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise OutputError(f"no outcomes can be read from {folder / PARTS}: {error}; ablate again") from error
    return Outcomes.load(folder / ARRAYS), parts


def _measured(folder: Path) -> pd.DataFrame | None:
    """What was measured of heads, as it stands beside their effects."""
    if "ablation.heads" not in (read_index(folder) or {}):
        return None
    heads = read_table(folder, "ablation.heads")
    columns = [name for name in MEASURED if name in heads]
    return heads[["layer", "head", *columns]].drop_duplicates() if columns else None
