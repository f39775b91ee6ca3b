"""parts_of(): what there is to report in a folder, whichever command wrote it: told by the files in it."""

from pathlib import Path

from conoscope.common.errors import OutputError
from conoscope.common.textfiles import is_there
from conoscope.results.difference_files import RECORD

EXPLAINED = "words.jsonl"
"""The file of explanations that the demonstration writes beside its tables."""


def parts_of(folder: Path) -> list[Path]:
    """The folders of tables, and files of explanations, in a folder that any command wrote; itself if it holds tables.

    A demonstration and a study keep their tables in `tables/`. OutputError, with what to type, for a folder without tables.
    """
    if is_there(folder) or _holds_tables(folder):
        return [folder]
    if not is_there(folder, folder=True):
        raise OutputError(f"no folder {folder}; give one written by conoscope measure, or a file of conoscope explain")
    if _holds_tables(folder / "tables"):
        return [folder / "tables", *([folder / EXPLAINED] if is_there(folder / EXPLAINED) else [])]
    found = [path for path in sorted(folder.iterdir()) if is_there(path, folder=True) and _holds_tables(path)]
    if found:
        return found
    if is_there(folder / "partial" / "provenance.json"):
        raise OutputError(f"the run in {folder} was stopped; give its command again, and it goes on, then report")
    if is_there(folder / "checkpoints" / "conoscope.json") and not is_there(folder / "training.json"):
        raise OutputError(f"the training in {folder} is not finished; give its command again, and it goes on")
    if is_there(folder / RECORD):
        raise OutputError(
            f"{folder} holds differences; report the two folders that they are of, as in before=out-1/ after=out-2/"
        )
    if is_there(folder / "config.json") or is_there(folder / "training.json"):
        raise OutputError(
            f"{folder} holds a model and no tables; measure it, as in conoscope measure {folder} CORPUS -o out/, then report out/"
        )
    return [folder]


def holds_results(folder: Path) -> bool:
    """Whether a folder was written by a command that measures, and is no model."""
    return not is_there(folder / "config.json") and (_holds_tables(folder) or _holds_tables(folder / "tables"))


def _holds_tables(folder: Path) -> bool:
    return is_there(folder / "provenance.json")
