"""What an interrupted ablation left, from which the same command goes on."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conoscope.capture.batch import Batch
from conoscope.causes.outcomes import Outcomes
from conoscope.common.errors import OutputError
from conoscope.common.sealing import FILES, check_files, digests, read_sealed, sealed
from conoscope.common.writing import as_output_error, atomic_folder, remove_folder, write_text
from conoscope.measuring.checkpoint import EVERY
from conoscope.results.merging import differences
from conoscope.results.store import read_provenance, write_provenance

STATE, ARRAYS = "state.json", "outcomes.safetensors"


@dataclass
class Saved:
    """The folder `partial` inside a run's folder; does nothing for a run without one.

    Batches of one size are the same and in the same order each time, so what was done is their number and a digest of their
    texts. `size`: how many texts a batch has.
    """

    out: Path | None
    provenance: Mapping[str, Any]
    size: int
    batches: int = 0
    digest: str = ""
    _at: float = field(default_factory=time.monotonic)

    @property
    def folder(self) -> Path | None:
        """The folder of the outcomes so far."""
        return None if self.out is None else self.out / "partial"

    def resume(self, batches: Iterator[Batch], nothing: Outcomes) -> Outcomes:
        """The outcomes of an interrupted run of the same command, whose batches are then read; else none."""
        if self.folder is None or not (self.folder / "provenance.json").is_file():
            return nothing
        try:
            before, state = read_provenance(self.folder), read_sealed(self.folder / STATE)
            check_files(self.folder, state.get(FILES, {}))
            found = Outcomes.load(self.folder / ARRAYS)
            count, digest, size = int(state["batches"]), str(state["digest"]), int(state["size"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError, OutputError) as error:
            raise OutputError(
                f"{self.folder} cannot be read, so the run cannot go on; remove it to begin anew ({error})"
            ) from error
        if size != self.size:
            raise OutputError(
                f"{self.folder} was left by a run with batches of {size} texts, and this one has {self.size}; "
                f"give --batch-size {size} to go on, or remove it to begin anew"
            )
        for _ in range(count):
            if (batch := next(batches, None)) is not None:
                self.count(batch)
        if self.digest != digest or differences(before, self.provenance) is not None:
            raise OutputError(f"{self.folder} was left by another run, or the corpus has changed since; remove it to begin anew")
        return found

    def count(self, batch: Batch) -> None:
        """Count a batch as done."""
        texts = json.dumps([self.digest, batch.ids, batch.texts, batch.label.tolist()])
        self.batches, self.digest = self.batches + 1, hashlib.sha256(texts.encode("utf-8", "backslashreplace")).hexdigest()

    def is_due(self) -> bool:
        """Whether the outcomes should be saved now: at most once a minute."""
        return self.folder is not None and time.monotonic() - self._at >= EVERY

    def keep(self, outcomes: Outcomes) -> None:
        """Save the outcomes so far."""
        assert self.folder is not None
        state = {"batches": self.batches, "digest": self.digest, "size": self.size}
        with as_output_error(self.folder), atomic_folder(self.folder) as new:
            outcomes.save(new / ARRAYS)
            write_text(new / STATE, sealed({**state, FILES: digests(new, [ARRAYS])}))
            write_provenance(new, {**self.provenance, "seen": {}})
        self._at = time.monotonic()

    def clear(self) -> None:
        """Remove what was left of a complete run."""
        if self.folder is not None:
            remove_folder(self.folder)
