"""The folder of a result on disk: tables, what they hold, and provenance. Nothing here needs torch.

A folder that `Result.save` wrote holds, for each table, a parquet and a CSV file; tables.json, the index of the tables, which is
written last; provenance.json; and the sums, tally.json and tally.safetensors.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.errors import OutputError, one_of
from conoscope.common.writing import BESIDE, atomic, make_folder, write_text
from conoscope.results.merging import differences

if TYPE_CHECKING:
    import pandas as pd

INDEX = "tables.json"
PARTIAL = ("partial", "partial.new")
"""What a run that was stopped leaves in its folder."""


@dataclass(frozen=True)
class TableInfo:
    """What a reader of a table must know: what it holds, the question that it helps to answer (`common.questions`) and its place
    among the tables of that question, and the bounds of its column `value` (None where there are none)."""

    summary: str = ""
    question: str = ""
    place: int = 0
    low: float | None = None
    high: float | None = None


class StoredTables(Mapping[str, "pd.DataFrame"]):
    """Tables by name, each read from its parquet file when it is first asked for."""

    def __init__(self, folder: Path, index: Mapping[str, TableInfo]) -> None:
        self.folder, self.index = folder, index
        self._read: dict[str, pd.DataFrame] = {}

    def __getitem__(self, name: str) -> "pd.DataFrame":
        if name not in self.index:
            raise KeyError(name)
        if name not in self._read:
            self._read[name] = read_parquet(self.folder / f"{stem_of(name)}.parquet")
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self.index

    def __iter__(self) -> Iterator[str]:
        return iter(self.index)

    def __len__(self) -> int:
        return len(self.index)


def read_index(folder: Path) -> dict[str, TableInfo] | None:
    """What tables.json says of each table; None where it is missing or not readable, or lacks the file of a table."""
    try:
        listed = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        index = {str(name): TableInfo(**info) for name, info in listed.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return index if all((folder / f"{stem_of(name)}.parquet").is_file() for name in index) else None


def read_parquet(path: Path) -> "pd.DataFrame":
    """The table in a parquet file."""
    import pandas as pd

    try:
        # Opened here: Arrow takes names in UTF-8 alone, and an ASCII locale reads others.
        with path.open("rb") as file:
            return pd.read_parquet(file)
    except Exception as error:  # pyarrow has many ways to say that a file is torn
        raise OutputError(f"no table can be read from {path}: {error}; measure again, or remove the file") from error


def write_tables(
    folder: Path, tables: Mapping[str, "pd.DataFrame"], provenance: Mapping[str, Any], index: Mapping[str, TableInfo]
) -> None:
    """Write each table as parquet, with its provenance and what it holds as metadata, and as CSV; tables.json comes last, so that
    it lists only tables that are there whole."""
    (folder / INDEX).unlink(missing_ok=True)
    for name, frame in tables.items():
        _write_parquet(frame, folder / f"{stem_of(name)}.parquet", provenance, {"name": name, **asdict(index[name])})
        write_text(folder / f"{stem_of(name)}.csv", frame.to_csv(index=False, lineterminator="\n"))
    listed = {name: asdict(index[name]) for name in tables}
    write_text(folder / INDEX, json.dumps(listed, indent=1, ensure_ascii=False) + "\n")


def _write_parquet(frame: "pd.DataFrame", path: Path, provenance: Mapping[str, Any], info: Mapping[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = pa.Table.from_pandas(frame, preserve_index=False)
    ours = {b"conoscope": json.dumps(provenance).encode(), b"conoscope.table": json.dumps(info).encode()}
    with atomic(path) as beside, beside.open("wb") as file:
        pq.write_table(written.replace_schema_metadata({**(written.schema.metadata or {}), **ours}), file)


def stem_of(name: str) -> str:
    """What the files of a table are called, without their ending."""
    return name.replace(":", "-").replace("=", "-").replace(",", "-")


def claim(folder: str | Path, provenance: Mapping[str, Any]) -> Path:
    """The folder, made if need be; refused where it holds other results or other files."""
    where = make_folder(Path(folder))
    there = {path.name for path in where.iterdir() if path.name not in PARTIAL and not path.name.startswith(BESIDE)}
    if not there:
        return where
    if "provenance.json" not in there:
        raise OutputError(f"{where} holds files that are not conoscope's; give -o an empty or new folder")
    try:
        before = read_provenance(where)
    except OutputError as error:
        if not _is_torn(where / "provenance.json"):
            raise
        # Alone it is the remnant of a run that could not write it.
        if there == {"provenance.json"}:
            return where
        raise OutputError(f"{where / 'provenance.json'} is not whole; give -o another folder, or remove this one") from error
    if (differing := differences(before, provenance)) is not None:
        raise OutputError(f"{where} holds other results ({differing}); give -o another folder, or remove this one")
    return where


def _is_torn(path: Path) -> bool:
    """Whether a file of JSON is empty or ends too soon; what is no JSON of ours at all is somebody else's."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
        json.loads(text)
    except OSError:
        return False
    except ValueError:
        return not text or text.startswith("{")
    return False


def write_provenance(folder: Path, provenance: Mapping[str, Any]) -> None:
    """Write provenance.json."""
    write_text(folder / "provenance.json", json.dumps(provenance, indent=2, ensure_ascii=False) + "\n")


def read_provenance(folder: Path) -> dict[str, Any]:
    """What provenance.json says."""
    try:
        found: dict[str, Any] = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        kinds = {"model": dict, "corpus": dict, "options": dict, "seen": dict, "measures": list, "shards": list}
        if wrong := [name for name, kind in kinds.items() if not isinstance(found.get(name), kind)]:
            raise ValueError(f"it does not tell {one_of(wrong)}")
        if not all(isinstance(shard, str) and re.fullmatch("[0-9]{1,9}/[0-9]{1,9}", shard) for shard in found["shards"]):
            raise ValueError("its shards are not such as 1/4")
    except (OSError, ValueError, AttributeError) as error:
        raise OutputError(
            f"no provenance can be read from {folder}: {error}; expected a folder written by conoscope measure -o"
        ) from error
    return found


def missing_shards(provenance: Mapping[str, Any]) -> list[str]:
    """The shards of the corpus that a result is not of."""
    count = provenance["shards"][0].partition("/")[2]
    return [shard for number in range(int(count)) if (shard := f"{number + 1}/{count}") not in provenance["shards"]]


def measured(provenance: Mapping[str, Any]) -> str:
    """The model, the corpus and how many texts."""
    corpus = ":".join(part for part in (provenance["corpus"].get("name"), provenance["corpus"].get("split")) if part)
    seen = provenance["seen"]["examples"]
    texts = f" on {corpus}, {seen} {'text' if seen == 1 else 'texts'}" if corpus and seen else ", the weights alone"
    return f"{provenance['model']['name']}{texts}"
