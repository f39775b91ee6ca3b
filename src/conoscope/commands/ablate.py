"""`conoscope ablate`: take each head, attention output and feed-forward output away, and watch the answers."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from conoscope.commands.base import Command
from conoscope.commands.option_types import positive, shard
from conoscope.commands.printing import print_effects
from conoscope.commands.shared_options import (
    CORPUS,
    MODEL,
    corpus_from,
    data_options,
    fields_from,
    inference_options,
    out_option,
    resamples_option,
)
from conoscope.common.textfiles import is_there


def _options(command: ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    command.add_argument("corpus", metavar="CORPUS", help=CORPUS)
    out_option(command)
    command.add_argument(
        "--how", action="append", metavar="NAME",
        help="what vectors become: zero, or their mean over the texts; repeat for both; default both",
    )  # fmt: skip
    command.add_argument(
        "--measured", metavar="FOLDER",
        help="a folder that conoscope measure wrote of the same model: gates, norms and SIM of heads are joined to their effects",
    )  # fmt: skip
    command.add_argument("--no-estimates", dest="estimates", action="store_false", help="compute no first-order estimates")
    resamples_option(command)
    command.add_argument("--batch-size", type=positive, metavar="N", help="texts per batch; default 32, on a GPU 128")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts")
    command.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="only part I of N, for conoscope merge")
    inference_options(command)
    data_options(command)


def _run(args: Namespace) -> None:
    from conoscope.causes.ablation import Ablating, ablate

    given = {name: value for name, value in fields_from(args, Ablating).items() if name != "how" or value is not None}
    options = Ablating(**given, progress=True)
    print_effects(ablate(args.model, corpus_from(args), options, args.out), args)


def _left(args: Namespace) -> bool:
    """Whether outcomes of a run that was stopped are in its folder."""
    return args.out is not None and is_there(Path(args.out) / "partial" / "provenance.json")


COMMAND = Command(
    name="ablate",
    help="take each head and each layer's outputs away, and show how the answers change",
    example="conoscope ablate runs/pure bistro:test -o ablated/\n"
    "conoscope ablate runs/pure bistro:test --how mean --measured out/ -o ablated/",
    options=_options,
    run=_run,
    loads_models=True,
    as_json=True,
    resumes=_left,
)
