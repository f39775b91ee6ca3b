"""Result: what was measured, as tables, with the sums they were read from and where they came from."""

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope import __version__
from conoscope.errors import MeasureError, OutputError, one_of
from conoscope.measures import Part, Reading, Request, request
from conoscope.tally import Tally

if TYPE_CHECKING:
    import pandas as pd

IDENTITY = ("model", "corpus", "measures", "options")
"""What two results must share to be parts of one."""
PARTIAL = ("partial", "partial.new")
"""What a run that was stopped leaves in its folder."""


@dataclass(frozen=True)
class Result:
    """Tables by measure: `result["sim"]` is a DataFrame in long form."""

    tally: Tally
    provenance: Mapping[str, Any]

    @cached_property
    def tables(self) -> dict[str, "pd.DataFrame"]:
        """Every measure's table, read from the sums; of a part of a corpus, those that have something to say."""
        asked = [request(name) for name in self.provenance["measures"]]
        return {wanted.name: table(wanted, self.tally) for wanted in asked if not self.missing or counted(wanted, self.tally)}

    def __getitem__(self, name: str) -> "pd.DataFrame":
        if name not in self.tables:
            raise MeasureError(f"{name!r} was not measured; measured: {one_of(self.tables)}")
        return self.tables[name]

    def __add__(self, other: "Result") -> "Result":
        joined = _joined(self.provenance, other.provenance)
        return Result(self.tally + other.tally, joined)

    def save(self, folder: str | Path) -> Path:
        """Write each table as parquet and CSV, provenance.json, and the sums that `merge` adds up."""
        where = claim(folder, self.provenance)
        try:
            # Provenance first: it says whose the folder is, should the rest be cut short.
            write_provenance(where, self.provenance)
            self.tally.save(where)
            for name, frame in self.tables.items():
                stem = name.replace(":", "-").replace("=", "-").replace(",", "-")
                _write_parquet(frame, where / f"{stem}.parquet", self.provenance)
                frame.to_csv(where / f"{stem}.csv", index=False)
        except OSError as error:
            raise OutputError(f"cannot write to {where}: {error.strerror or error}; give -o another folder") from error
        return where

    @classmethod
    def load(cls, folder: str | Path) -> "Result":
        """Read what `save` wrote."""
        where = Path(folder)
        tally = Tally.load(where)
        return cls(tally, read_provenance(where))

    @property
    def missing(self) -> list[str]:
        """The shards of the corpus that are not in it."""
        count = self.provenance["shards"][0].partition("/")[2]
        return [shard for number in range(int(count)) if (shard := f"{number + 1}/{count}") not in self.provenance["shards"]]

    def summary(self) -> str:
        """The tables as text, one line per site and layer, means over heads beside whole vectors."""
        return "\n\n".join(_summarized(name, frame) for name, frame in self.tables.items())


def claim(folder: str | Path, provenance: Mapping[str, Any]) -> Path:
    """The folder, made if need be; refused where it holds other results or other files."""
    where = make_folder(Path(folder))
    if any(path.name not in PARTIAL for path in where.iterdir()):
        if not (where / "provenance.json").is_file():
            raise OutputError(f"{where} holds files that are not conoscope's; give -o an empty or new folder")
        if (differing := differences(read_provenance(where), provenance)) is not None:
            raise OutputError(f"{where} holds other results ({differing}); give -o another folder, or remove this one")
    return where


def make_folder(folder: Path) -> Path:
    """The folder, made with those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}; give -o another") from error
    return folder


def versions() -> dict[str, str]:
    """What a result or a model was made with."""
    packages = ("torch", "transformers", "tokenizers", "numpy")
    return {"conoscope": __version__, **{name: version(name) for name in packages}, "python": platform.python_version()}


def write_provenance(folder: Path, provenance: Mapping[str, Any]) -> None:
    """Write provenance.json."""
    (folder / "provenance.json").write_text(json.dumps(provenance, indent=2, ensure_ascii=False) + "\n")


def read_provenance(folder: Path) -> dict[str, Any]:
    """What provenance.json says."""
    try:
        found: dict[str, Any] = json.loads((folder / "provenance.json").read_text())
        kinds = {"model": dict, "corpus": dict, "options": dict, "seen": dict, "measures": list, "shards": list}
        if wrong := [name for name, kind in kinds.items() if not isinstance(found.get(name), kind)]:
            raise ValueError(f"it does not tell {one_of(wrong)}")
    except (OSError, ValueError, AttributeError) as error:
        raise OutputError(
            f"no provenance can be read from {folder}: {error}; expected a folder written by conoscope measure -o"
        ) from error
    return found


def differences(one: Mapping[str, Any], other: Mapping[str, Any], keys: Sequence[str] = (*IDENTITY, "shards")) -> str | None:
    """In what two results are not of the same run; None where they are. A model is the same by its weights, wherever it lies."""
    for key in keys:
        left, right = ({**p[key], "name": ""} if key == "model" else p[key] for p in (one, other))
        if left != right and isinstance(left, Mapping):
            inner = next(name for name in {**left, **right} if left.get(name) != right.get(name))
            return f"{key} {inner} {left.get(inner)}, not {right.get(inner)}"
        if left != right:
            return f"{key} {left}, not {right}"
    return None


def _joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    if (differing := differences(one, other, IDENTITY)) is not None:
        raise OutputError(f"these are not parts of one result ({differing}); merge what was measured alike")
    counts = {shard.partition("/")[2] for shard in (*one["shards"], *other["shards"])}
    if len(counts) > 1:
        raise OutputError(
            f"these shards overlap: the corpus was cut into {' and into '.join(sorted(counts))}; merge the parts of one cut"
        )
    twice = set(one["shards"]) & set(other["shards"])
    if twice:
        raise OutputError(f"shard {one_of(twice)} is there twice and would be counted twice; merge each shard once")
    seen = {
        "examples": one["seen"]["examples"] + other["seen"]["examples"],
        "digest": (one["seen"]["digest"] + other["seen"]["digest"]) % 2**63,
        "truncated": one["seen"]["truncated"] + other["seen"]["truncated"],
    }
    return {**one, "shards": sorted({*one["shards"], *other["shards"]}), "seen": seen}


def table(asked: Request, tally: Tally) -> "pd.DataFrame":
    """A measure's rows: measure, site, layer, head, its own keys, value, sd, n, its own further columns."""
    import pandas as pd

    rows = list(_rows(asked, tally))
    if not any(row["n"] for row in rows):
        raise MeasureError(f"{asked.name}: nothing to measure; no text had enough tokens, or the model has no such site")
    frame = pd.DataFrame(rows)
    return frame.astype({"layer": "Int64", "head": "Int64", "n": "Int64"})


def counted(asked: Request, tally: Tally) -> bool:
    """Whether anything at all was counted for a measure."""
    return any(row["n"] for row in _rows(asked, tally))


def _rows(asked: Request, tally: Tally) -> Iterator[dict[str, Any]]:
    for part in asked.parts():
        yield from _part_rows(asked, part, tally)


def _part_rows(asked: Request, part: Part, tally: Tally) -> Iterator[dict[str, Any]]:
    layers = [dict(tally.of(need)) for need in part.needs.values()]
    for layer in layers[0]:
        reading = asked.measure.read(**{name: sums[layer] for name, sums in zip(part.needs, layers, strict=True)})
        for head in range(len(reading.value)):
            yield {
                "measure": asked.measure.name,
                "site": part.keys.get("site", "weights"),
                "layer": layer,
                "head": head + 1 if part.by_head else None,
                **{key: value for key, value in part.keys.items() if key != "site"},
                **_numbers(reading, head),
            }


def _numbers(reading: Reading, head: int) -> dict[str, Any]:
    """The numbers of one row; where nothing was counted there is no value."""
    n = int(reading.n[head])
    value = float(reading.value[head]) if n else None
    return {
        "value": value,
        "sd": float(reading.sd[head]),
        "n": n,
        **{name: array[head].item() for name, array in reading.more.items()},
    }


def _write_parquet(frame: "pd.DataFrame", path: Path, provenance: Mapping[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = pa.Table.from_pandas(frame, preserve_index=False)
    metadata = {**(written.schema.metadata or {}), b"conoscope": json.dumps(provenance).encode()}
    pq.write_table(written.replace_schema_metadata(metadata), path)


def _summarized(name: str, frame: "pd.DataFrame") -> str:
    """One line per block and layer: the mean over heads where there are heads."""
    keys = [key for key in ("site", "mask", "row") if key in frame]
    of = frame["head"].isna().map({True: "whole", False: "mean over heads"})
    wide = frame.assign(of=of).groupby([*keys, "of", "layer"], sort=False)["value"].mean().unstack("layer")
    return f"{name}, by layer\n{wide.to_string(float_format='{:.3f}'.format, na_rep='')}"
