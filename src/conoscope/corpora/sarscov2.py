"""Spike genes of SARS-CoV-2 as sentences of k-mers, labelled by Nextstrain clade or WHO name (Bonino et al. 2025)."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from conoscope.common.errors import CorpusError
from conoscope.common.textfiles import lines
from conoscope.corpora.base import Corpus, Example, Notes
from conoscope.corpora.cutting import dealt, side
from conoscope.corpora.entry import CorpusRequest, Entry
from conoscope.corpora.tables import require, rows

GENOME = 29_903
SPIKE = slice(21_562, 25_384)
"""Bases 21563 to 25384 of the reference, counted from 1: 3,822 of them."""
SHARES = {"train": 70, "validation": 10, "test": 20}
CONSENSUS = ("pango_consensus_spike.fasta", "pango_consensus_labels.tsv")
REAL = ("real_genomes_aligned.fasta", "real_genomes_labels.tsv")
COLUMNS = {"clade": "clade_nextstrain", "who": "who"}
NO_CLASS = ("", "None", "recombinant")


def _load(request: CorpusRequest) -> Corpus:
    """Train, validation and test are splits of the consensus sequences; `real` are genomes as sequenced."""
    folder, column = request.folder(), COLUMNS[request["by"]]
    if max(int(request["k"]), int(request["stride"])) > SPIKE.stop - SPIKE.start:
        raise CorpusError(f"a spike has {SPIKE.stop - SPIKE.start} bases; give a smaller k and stride than {request.given}")
    consensus, classes = (_existing(folder, name) for name in CONSENSUS)
    labels = _classes(consensus, classes, column, int(request["minimum"]))
    sequences, table = (_existing(folder, name) for name in (REAL if request.split == "real" else CONSENSUS))

    def read(notes: Notes) -> Iterator[Example]:
        """The sequences are stored by lineage, so the classes are interleaved."""
        return dealt(_examples(sequences, _class_of(table, column, notes), labels, request, notes))

    seed = None if request.split == "real" else request.seed
    return Corpus("sarscov2", request.split, labels, read, None, seed, request.fingerprint(sequences, table), request.given)


def _existing(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise CorpusError(f"{folder} has no {name} or {name}.gz; conoscope fetch sarscov2 says where it comes from")


def _classes(sequences: Path, table: Path, column: str, least: int) -> tuple[str, ...]:
    """The classes with at least `least` consensus sequences, sorted; a recombinant belongs to no single clade."""
    classes = _class_of(table, column, Notes())
    counts = Counter(classes.get(name, "") for name in {name for _, name, _ in fasta(sequences, Notes())})
    labels = tuple(sorted(name for name, count in counts.items() if count >= least and name not in NO_CLASS))
    if not labels:
        raise CorpusError(f"no class of {table} has {least} sequences; give another minimum than {least}")
    return labels


def _class_of(table: Path, column: str, notes: Notes) -> dict[str, str]:
    """The class of each sequence by its name, from the first column; if a name is repeated, the first row counts."""
    classes: dict[str, str] = {}
    for _, row in rows(table, notes):
        require(table, row, column)
        name = str(next(iter(row.values())))
        notes["names with several labels, the first one taken"] += name in classes
        classes.setdefault(name, str(row[column]).strip())
    return classes


def _examples(
    path: Path, classes: dict[str, str], labels: tuple[str, ...], request: CorpusRequest, notes: Notes
) -> Iterator[Example]:
    """One example per sequence; equal spikes are in the same split."""
    k, stride, seen = int(request["k"]), int(request["stride"]), set()
    for line, name, sequence in fasta(path, notes):
        label = classes.get(name, "")
        if name in seen:
            notes["sequences of a name that was there before, left out"] += 1
        elif label not in labels:
            notes["sequences without a class, or of one with too few, left out"] += 1
        else:
            spike = spike_of(sequence, f"{path}:{line}")
            if request.split == "real" or side(spike, request.seed, SHARES) == request.split:
                yield Example(" ".join(kmers(spike, k, stride)), label, id=name)
        seen.add(name)


def fasta(path: Path, notes: Notes) -> Iterator[tuple[int, str, str]]:
    """Line, name and bases of each record."""
    line, name = 0, ""
    bases: list[str] = []
    for number, text in enumerate(lines(path, notes), 1):
        if text.startswith(">"):
            if line:
                yield line, name, "".join(bases)
            line, name, bases = number, (text[1:].split() or [""])[0], []
        elif text.strip():
            if not line:
                raise CorpusError(f"{path}:{number}: bases before the first '>'; give a FASTA file")
            bases.append(text.strip())
    if line:
        yield line, name, "".join(bases)


def spike_of(sequence: str, where: str = "sequence") -> str:
    """The spike gene, from a spike sequence or a genome aligned to the reference; letters other than a, c, g, t, u become n."""
    if len(sequence) not in (GENOME, SPIKE.stop - SPIKE.start):
        raise CorpusError(
            f"{where}: {len(sequence)} bases are neither a spike gene ({SPIKE.stop - SPIKE.start}) nor a genome aligned to the "
            f"reference ({GENOME}); align it first"
        )
    spike = sequence[SPIKE] if len(sequence) == GENOME else sequence
    return re.sub("[^acgt]", "n", spike.lower().replace("u", "t"))


def kmers(sequence: str, k: int = 12, stride: int = 9) -> list[str]:
    """The k-mers of a sequence, padded with n to a multiple of k: 425 words for 3,822 bases."""
    whole = sequence + "n" * (-len(sequence) % k)
    return [whole[start : start + k] for start in range(0, len(whole) - k + 1, stride)]


ENTRY = Entry(
    "spike genes of SARS-CoV-2 as k-mers, by clade or WHO name",
    _load,
    origin="corneliusroemer/pango-sequences and nextstrain/nextclade_data; open data",
    splits=(*SHARES, "real"),
    choices={"by": tuple(COLUMNS), "minimum": ("20", "N"), "k": ("12", "N"), "stride": ("9", "N")},
)
