"""`conoscope measure`: measure a model on a corpus."""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from conoscope.commands.base import Command, Unused
from conoscope.commands.option_types import Named, kind, positive, shard
from conoscope.commands.printing import print_result
from conoscope.commands.shared_options import (
    CORPUS,
    CORPUS_OPTIONS,
    corpus_from,
    data_options,
    fields_from,
    inference_options,
    pool_option,
)
from conoscope.common.textfiles import is_there

GENERIC = ("model", "best", "final", "checkpoint")
"""Names of models' folders that tell nothing without the folder above."""


def _options(command: ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="a folder written by save_pretrained, or a Hub id")
    command.add_argument("corpus", nargs="?", metavar="CORPUS", help=f"{CORPUS}; leave it out to measure the weights alone")
    command.add_argument(
        "-m", "--measure", action="append", metavar="NAME",
        help="a measure, such as sim or sim:mask=real; repeat for more, or sim,gates; default all that apply",
    )  # fmt: skip
    command.add_argument(
        "-o", "--out",
        help="folder for tables (parquet, CSV), provenance and sums; default conoscope-MODEL-CORPUS, numbered if that holds "
        "another run",
    )  # fmt: skip
    command.add_argument("--tables", action="store_true", help="print every table, not only findings and key numbers")
    command.add_argument("--batch-size", type=positive, metavar="N", help="texts per batch; default 32, on a GPU 128")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts")
    command.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="only part I of N, for conoscope merge")
    inference_options(command)
    command.add_argument(
        "--kind", action=Named, dest="kinds", type=kind, default={}, metavar="NAME=WORDS",
        help='your own kind of token, such as negation="not no never"; repeat for more',
    )  # fmt: skip
    command.add_argument("--verbose", action="store_true", help="print the device, and how attention is computed there")
    pool_option(command)
    command.add_argument("--frequencies", metavar="FILE", help="file with ranks or counts of tokens, for the measure frequency")
    command.add_argument("--no-labels", dest="labels", action="store_false", help="ignore the labels of the corpus")
    data_options(command)


def _run(args: Namespace) -> None:
    from conoscope.measuring.pipeline import Options, measure
    from conoscope.results.store import NumberedFolder

    corpus = None if args.corpus is None else corpus_from(args)
    options = Options(**fields_from(args, Options), progress=True)
    default = NumberedFolder(_default_folder(args))
    result = measure(args.model, corpus, named_measures(args.measure), options, default if args.out is None else args.out)
    print_result(result, args.out or default.path or default.base, args)


def named_measures(given: Sequence[str] | None) -> list[str] | None:
    """The measures asked for; `sim,gates` is two, and a comma before an option's name belongs to the options of one."""
    if given is None:
        return None
    return [name for names in given for name in re.split(r",(?=[A-Za-z_]+(?:[:,]|$))", names)]


def _default_folder(args: Namespace) -> Path:
    """`conoscope-MODEL-CORPUS`, with the shard if there are several, in characters that every system has in names."""
    *above, model = Path(args.model).parts or (args.model,)
    named = [*above[-1:], model] if model in GENERIC else [model]
    # A folder called reviews.csv would pass for a file.
    corpus = re.sub(r"\.(csv|tsv|jsonl?|parquet)(\.gz)?(?=:|$)", "", Path(args.corpus or "weights").name)
    shard = [] if args.shard == (1, 1) else ["{}-of-{}".format(*args.shard)]
    return Path("-".join(("conoscope", *(_safe(part) for part in (*named, corpus, *shard)))))


def _left(args: Namespace) -> bool:
    """Whether sums of a run that was stopped are in its folder, or in one of those that it takes without -o."""
    default = _default_folder(args)
    folders = default.parent.glob(f"{default.name}*") if args.out is None else [Path(args.out)]
    return any(is_there(folder / "partial" / "provenance.json") for folder in folders)


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:60]


def _unused(args: Namespace) -> Unused:
    if args.corpus is None:
        yield CORPUS_OPTIONS, "without a corpus"


COMMAND = Command(
    name="measure",
    help="measure a model on a corpus",
    example="conoscope measure runs/pure bistro:test -m sim -o out/\n"
    "conoscope measure bert-base-uncased reviews.csv --text review --label stars",
    options=_options,
    run=_run,
    unused=_unused,
    loads_models=True,
    as_json=True,
    resumes=_left,
)
