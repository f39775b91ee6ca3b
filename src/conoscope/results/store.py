"""The folder of a result on disk: tables, their descriptions, and provenance. Nothing here needs torch.

A folder that `Result.save` wrote holds a parquet and a CSV file for each table; tables.json, the index of the tables, which is
written last; provenance.json; and the sums, tally.json and tally.safetensors.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.claiming import hold, is_held
from conoscope.common.errors import OutputError, one_of
from conoscope.common.sealing import FILES, damaged, digest_of, digests, read_sealed, sealed
from conoscope.common.writing import BESIDE, atomic, make_folder, recover_folder, write_text
from conoscope.results.merging import differences, shard_number

if TYPE_CHECKING:
    import pandas as pd

INDEX, TABLES = "tables.json", "tables"
PARTIAL = ("partial", "partial.old", "partial.new")
"""The names of what an interrupted run leaves in its folder."""


@dataclass(frozen=True)
class TableInfo:
    """The description of a table: a summary, the question that it helps to answer (`common.questions`) and its place among the
    tables of that question, and the bounds of its column `value` (None for no bound)."""

    summary: str = ""
    question: str = ""
    place: int = 0
    low: float | None = None
    high: float | None = None


class StoredTables(Mapping[str, "pd.DataFrame"]):
    """Tables by name, each read from its parquet file on first access."""

    def __init__(self, folder: Path, index: Mapping[str, TableInfo]) -> None:
        self.folder, self.index = folder, index
        self._read: dict[str, pd.DataFrame] = {}

    def __getitem__(self, name: str) -> "pd.DataFrame":
        if name not in self.index:
            raise KeyError(name)
        if name not in self._read:
            self._read[name] = read_table(self.folder, name)
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self.index

    def __iter__(self) -> Iterator[str]:
        return iter(self.index)

    def __len__(self) -> int:
        return len(self.index)


def read_index(folder: Path) -> dict[str, TableInfo] | None:
    """The descriptions in tables.json; None if it is missing, or if tables can be computed from sums and it or a table's file is
    not whole. OutputError for a damaged index of tables without sums."""
    path = folder / INDEX
    if not path.exists():
        return None
    try:
        index = {str(name): TableInfo(**info) for name, info in _listed(folder)[0].items()}
        for name in index:
            file = f"{stem_of(name)}.parquet"
            # A name is a file of this folder, whoever wrote the list.
            if {"/", "\\"} & {*file} or not (folder / file).is_file():
                raise OutputError(f"{path} lists a table {name} that is not there; make it again, or take a copy")
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, OutputError) as error:
        if (folder / "tally.json").is_file():
            return None
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"no tables can be read from {path}: {error}; make it again, or take a copy") from error
    return index


def _listed(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The descriptions of tables and the digests of their files; earlier versions wrote no digests."""
    content = read_sealed(folder / INDEX)
    return (content[TABLES], dict(content[FILES])) if FILES in content else (content, {})


def read_table(folder: Path, name: str) -> "pd.DataFrame":
    """A table that tables.json lists; OutputError if its file is not as it was written."""
    path = folder / f"{stem_of(name)}.parquet"
    try:
        return read_parquet(path, _listed(folder)[1].get(path.name))
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise OutputError(f"no tables can be read from {folder / INDEX}: {error}; make it again, or take a copy") from error


def read_parquet(path: Path, digest: str | None = None) -> "pd.DataFrame":
    """The table in a parquet file; OutputError if it is damaged or has another digest than given."""
    import pandas as pd

    try:
        # Opened here: Arrow accepts only UTF-8 file names, and an ASCII locale has others.
        with path.open("rb") as file:
            if digest is not None and digest_of(file) != digest:
                raise damaged(path)
            file.seek(0)
            return pd.read_parquet(file)
    except Exception as error:  # pyarrow raises many kinds of errors for a damaged file
        raise OutputError(f"no table can be read from {path}: {error}; measure again, or remove the file") from error


def write_tables(
    folder: Path, tables: Mapping[str, "pd.DataFrame"], provenance: Mapping[str, Any], index: Mapping[str, TableInfo]
) -> None:
    """Write each table as parquet, with provenance and description as metadata, and as CSV.

    tables.json is written last, so that it lists only complete tables.
    """
    (folder / INDEX).unlink(missing_ok=True)
    for name, frame in tables.items():
        write_parquet(frame, folder / f"{stem_of(name)}.parquet", provenance, {"name": name, **asdict(index[name])})
        write_text(folder / f"{stem_of(name)}.csv", frame.to_csv(index=False, lineterminator="\n"))
    listed = {name: asdict(index[name]) for name in tables}
    written = digests(folder, [f"{stem_of(name)}.parquet" for name in tables])
    write_text(folder / INDEX, sealed({TABLES: listed, FILES: written}, 1))


def write_parquet(frame: "pd.DataFrame", path: Path, provenance: Mapping[str, Any], info: Mapping[str, Any]) -> None:
    """Write a table as parquet, with provenance and description as metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = pa.Table.from_pandas(frame, preserve_index=False)
    ours = {b"conoscope": json.dumps(provenance).encode(), b"conoscope.table": json.dumps(info).encode()}
    with atomic(path) as beside, beside.open("wb") as file:
        pq.write_table(written.replace_schema_metadata({**(written.schema.metadata or {}), **ours}), file)


def stem_of(name: str) -> str:
    """The file name of a table, without its extension."""
    return name.replace(":", "-").replace("=", "-").replace(",", "-")


def claim(folder: str | Path, provenance: Mapping[str, Any]) -> Path:
    """The output folder, created if needed and claimed; OutputError if it holds other results or other files, if it cannot be
    written, or if another process writes it."""
    where = make_folder(Path(folder))
    _refuse_others(where, provenance)
    hold(where)
    _refuse_others(where, provenance)
    recover_folder(where / PARTIAL[0])
    return where


def _refuse_others(where: Path, provenance: Mapping[str, Any]) -> None:
    """OutputError for a folder that holds other results or other files."""
    present = {path.name for path in where.iterdir() if path.name not in PARTIAL and not path.name.startswith(BESIDE)}
    if not present:
        return
    if "provenance.json" not in present:
        raise OutputError(f"{where} holds files that are not conoscope's; give -o an empty or new folder")
    try:
        before = read_provenance(where)
    except OutputError as error:
        if not _is_torn(where / "provenance.json"):
            raise
        # Alone, it is left by a run that was interrupted while writing it.
        if present == {"provenance.json"}:
            return
        raise OutputError(f"{where / 'provenance.json'} is not whole; give -o another folder, or remove this one") from error
    if (differing := differences(before, provenance)) is not None:
        raise OutputError(f"{where} holds other results ({differing}); give -o another folder, or remove this one")


@dataclass
class NumberedFolder:
    """A function from a run's provenance to its folder: `base`, or `base-2`, `base-3`, ..., so that no other run is overwritten.

    It is the first that is new, or that holds this very run; `path` is the one that was chosen.
    """

    base: Path
    path: Path | None = None

    def __call__(self, provenance: Mapping[str, Any]) -> Path:
        """The folder of the run with this provenance."""
        numbered = (self.base if number == 1 else self.base.with_name(f"{self.base.name}-{number}") for number in count(1))
        self.path = next(folder for folder in numbered if _is_free(folder, provenance))
        return self.path


def _is_free(folder: Path, provenance: Mapping[str, Any]) -> bool:
    """Whether a folder is not there, is empty, or holds this run, finished or not."""
    if not os.path.lexists(folder):
        return True
    try:
        _refuse_others(make_folder(folder), provenance)
        partial = [folder / name for name in PARTIAL if (folder / name / "provenance.json").is_file()]
        if not partial:
            return (folder / "provenance.json").is_file() or not is_held(folder)
        return differences(read_provenance(partial[0]), provenance) is None
    except OutputError:
        return False


def _is_torn(path: Path) -> bool:
    """Whether a JSON file is empty or truncated; a file that does not begin as our JSON belongs to somebody else."""
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
    write_text(folder / "provenance.json", sealed(provenance, 2))


def read_provenance(folder: Path) -> dict[str, Any]:
    """The content of provenance.json, checked."""
    try:
        provenance: dict[str, Any] = read_sealed(folder / "provenance.json")
        kinds = {"model": dict, "corpus": dict, "options": dict, "seen": dict, "measures": list, "shards": list}
        if wrong := [name for name, kind in kinds.items() if not isinstance(provenance.get(name), kind)]:
            raise ValueError(f"it does not tell {one_of(wrong)}")
        if not all(isinstance(shard, str) and re.fullmatch("[0-9]{1,9}/[0-9]{1,9}", shard) for shard in provenance["shards"]):
            raise ValueError("its shards are not such as 1/4")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise OutputError(
            f"no provenance can be read from {folder}: {error}; expected a folder written by conoscope measure -o"
        ) from error
    return provenance


def first_shard(folder: Path) -> int:
    """The smallest shard number in a result."""
    if not (shards := read_provenance(folder)["shards"]):
        raise OutputError(f"{folder / 'provenance.json'} names no shards; give folders that were made of a corpus")
    return min(map(shard_number, shards))


def missing_shards(provenance: Mapping[str, Any]) -> list[str]:
    """The shards of the corpus that a result does not include."""
    count = provenance["shards"][0].partition("/")[2]
    return [shard for number in range(int(count)) if (shard := f"{number + 1}/{count}") not in provenance["shards"]]


def measured(provenance: Mapping[str, Any]) -> str:
    """A short text: the model, the corpus and the number of texts."""
    corpus = ":".join(part for part in (provenance["corpus"].get("name"), provenance["corpus"].get("split")) if part)
    seen = provenance["seen"]["examples"]
    texts = f" on {corpus}, {seen} {'text' if seen == 1 else 'texts'}" if corpus and seen else ", the weights alone"
    return f"{provenance['model']['name']}{texts}"
