"""Checkpoint: the sums of an interrupted run, from which the same command resumes."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from jaxtyping import Int
from torch import Tensor

from conoscope.common.errors import OutputError
from conoscope.common.writing import as_output_error, atomic_folder, remove_folder
from conoscope.corpora import Example
from conoscope.measures.tally import Tally
from conoscope.measures.tally_files import save_tally
from conoscope.results.merging import differences
from conoscope.results.result import Result
from conoscope.results.store import write_provenance

EVERY = 60.0


@dataclass
class StreamDigest:
    """Counts of the examples read, and the sum of their hashes: a digest that merges as the sums do."""

    examples: int = 0
    digest: int = 0
    truncated: int = 0
    labelled: int = 0
    correct: int = 0
    classes: dict[str, int] = field(default_factory=dict)

    def watch(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Yield the same examples, counting them."""
        for example in examples:
            self.examples += 1
            self.digest = (self.digest + example.digest) % 2**63
            if example.label is not None:
                self.classes[example.label] = self.classes.get(example.label, 0) + 1
            yield example

    def count_correct(self, label: Int[Tensor, " b"], predicted: Int[Tensor, " b"] | None, classes: int) -> None:
        """Count the examples of a batch whose label is among the model's classes, and those predicted correctly."""
        if predicted is not None:
            labelled = (label >= 0) & (label < classes)
            self.labelled += int(labelled.sum())
            self.correct += int((labelled & (predicted == label)).sum())


@dataclass
class Checkpoint:
    """The folder `partial` inside a run's output folder; does nothing for a run without an output folder.

    `capture`: on which devices, and how, attention was computed so far.
    """

    out: Path | None
    provenance: Mapping[str, Any]
    capture: list[str] = field(default_factory=list)
    _saved: float = field(default_factory=time.monotonic)

    @property
    def folder(self) -> Path | None:
        """The folder of the sums so far."""
        return None if self.out is None else self.out / "partial"

    def resume(self, examples: Iterator[Example], tally: Tally) -> tuple[Tally, StreamDigest]:
        """The tally of an interrupted run of the same command, with its examples skipped; else the given tally."""
        if self.folder is None or not (self.folder / "provenance.json").is_file():
            return tally, StreamDigest()
        try:
            before = Result.load(self.folder)
            tally = before.tally  # read when it is asked for
            done = StreamDigest(**before.provenance["seen"])
        except (OutputError, TypeError) as error:
            raise OutputError(
                f"{self.folder} cannot be read, so the run cannot go on; remove it to begin anew ({error})"
            ) from error
        skipped = replace(done, examples=0, digest=0, classes={})
        for _ in skipped.watch(islice(examples, done.examples)):
            pass
        if skipped != done or differences(before.provenance, self.provenance) is not None:
            raise OutputError(f"{self.folder} was left by another run, or the corpus has changed since; remove it to begin anew")
        self.capture = list(before.provenance.get("capture", ()))
        return tally, done

    def is_due(self) -> bool:
        """Whether the sums should be saved now: at most once a minute."""
        return self.folder is not None and time.monotonic() - self._saved >= EVERY

    def keep(self, tally: Tally, seen: StreamDigest) -> None:
        """Save the sums so far."""
        assert self.folder is not None
        with as_output_error(self.folder), atomic_folder(self.folder) as new:
            save_tally(tally, new)
            write_provenance(new, {**self.provenance, "seen": vars(seen), "capture": self.capture})
        self._saved = time.monotonic()

    def clear(self) -> None:
        """Remove the checkpoint of a complete run."""
        if self.folder is not None:
            remove_folder(self.folder)
