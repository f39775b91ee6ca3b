"""Sources: whether the runs of a condition read the same data, by the digests of what each of them read."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from conoscope.common.errors import MeasureError
from conoscope.studies.contrasts import ranges, words

TEXTS = {"train": "texts to learn from", "validation": "texts for validation", "test": "test texts"}
"""Digests of content, of what a model learns from and is measured on."""
FILES = {"vectors": "word vectors", "checkpoint": "checkpoints", "model": "models"}
"""Digests of files, which may differ though what is in them does not, as compressed and unpacked ones do."""

Read = tuple[Mapping[str, Any], int, Mapping[str, str]]
"""The keys of a run, its seed and its digests; a part of texts has the digest of the whole."""


def refuse_other_texts(runs: Iterable[Mapping[str, Any]]) -> None:
    """Raise an error if runs of one condition, as kept in a folder, are of different texts."""
    read = [(run["keys"], run["seed"], run["source"]) for run in runs]
    if found := next(_differing(read, TEXTS), None):
        raise MeasureError(f"{found}; give -o another folder, and --from records of the same texts only")


def mixed(record: Mapping[str, Any]) -> list[str]:
    """A line for each condition whose runs are of different texts, word vectors or checkpoints; earlier records do not say."""
    if "sources" not in record:
        return []
    read = [(run["keys"], run["seed"], record["sources"][run["source"]]) for run in record["runs"]]
    return list(_differing(read, {**TEXTS, **FILES}))


def _differing(runs: Iterable[Read], what: Mapping[str, str]) -> Iterator[str]:
    """A line for each condition and kind of data of which there is more than one."""
    seeds: dict[tuple[str, str], dict[str, list[int]]] = {}
    for keys, seed, source in runs:
        for name, digest in source.items():
            if name in what:
                seeds.setdefault((words(dict(keys)), name), {}).setdefault(digest, []).append(seed)
    for (condition, name), digests in seeds.items():
        if len(digests) > 1:
            each = "; ".join(f"{digest} in {ranges(sorted(those))}" for digest, those in digests.items())
            yield f"runs of {condition} are of different {what[name]}: {each}"
