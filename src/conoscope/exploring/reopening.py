"""Reopening: the model and the corpus of a result, found again by what its provenance says."""

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conoscope.common.errors import CorpusError
from conoscope.common.textfiles import is_there
from conoscope.corpora import Columns, Corpus, load_corpus
from conoscope.corpora.folders import split_files

ABOVE = 3
"""How many folders above the results are searched."""
COLUMNS = ("text", "label", "pair", "rationale")


def model_folder(name: str, path: str) -> Path | None:
    """The folder of a model: by its name, or near the results at `path`; None if there is none."""
    near = Path(path).absolute() if path else Path.cwd()
    around = [*near.parents][:ABOVE]
    candidates = [Path(name), *(folder / name for folder in around), *(folder / Path(name).name for folder in around)]
    return next((folder for folder in candidates if is_there(folder / "config.json")), None) if name else None


def corpus_again(provenance: Mapping[str, Any], path: str) -> Corpus | None:
    """The corpus that was measured; None if there was none, CorpusError if it is not the same any more or cannot be found."""
    said = provenance["corpus"]
    name, split = str(said.get("name") or ""), str(said.get("split") or "")
    if not provenance["seen"].get("examples") or not name:
        return None
    if name.startswith("hub:"):
        raise CorpusError(f"{name} is a data set of the Hub, which is not asked for without your word")
    options = _options_of(str(provenance.get("command", "")))
    columns = Columns(**{key: options[key] for key in COLUMNS if options[key]}, label_names=options["label_names"] or ())
    files = (load_corpus(spec, columns) for spec in _files(options["words"], name, path))
    found = next((texts for texts in files if (texts.name, texts.split) == (name, split)), None)
    if found is None:
        spec = ":".join(filter(None, (name, split, str(said.get("options") or ""))))
        names = columns if columns.label_names else None
        found = load_corpus(spec, names, seed=said.get("seed") or 0, data_dir=options["data_dir"])
    # What names a file without knowing it may name any file of this machine.
    if found.fingerprint and said.get("fingerprint") != found.fingerprint:
        raise CorpusError(f"{found} has changed since it was measured")
    return found


def _options_of(command: str) -> dict[str, Any]:
    """The options of a command line that name columns, and its other words."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    for name in (*COLUMNS, "label-names", "data-dir"):
        parser.add_argument(f"--{name}")
    try:
        known, rest = parser.parse_known_args(shlex.split(command))
    except (ValueError, argparse.ArgumentError, SystemExit):
        known, rest = parser.parse_args([]), []
    return {**vars(known), "words": rest}


def _files(words: Sequence[str], name: str, path: str) -> Iterator[str]:
    """The files and folders of splits in a command line that may have this name, as given or in folders above the results."""
    near = Path(path).absolute() if path else Path.cwd()
    for word in (word for word in words if name in word):
        for spec in (word, *(str(folder / word) for folder in [*near.parents][:ABOVE])):
            if is_there(Path(spec)) or split_files(spec.rpartition(":")[0] or spec) or split_files(spec):
                yield spec
