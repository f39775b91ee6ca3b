"""`conoscope steer`: turn the vector that is classified from towards another class, and watch the answer."""

from argparse import ArgumentParser, Namespace

from conoscope.commands.base import Command
from conoscope.commands.option_types import angle, count, positive
from conoscope.commands.printing import print_effects
from conoscope.commands.shared_options import (
    CORPUS,
    MODEL,
    columns_from,
    corpus_from,
    data_options,
    fields_from,
    inference_options,
    out_option,
    resamples_option,
)
from conoscope.common.textfiles import readable


def _options(command: ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    command.add_argument("corpus", metavar="CORPUS", help=f"{CORPUS}; its answers are counted")
    command.add_argument(
        "--layer", action="append", type=count, metavar="N",
        help="a layer whose vectors are turned, 0 for the embeddings; repeat for more; default all",
    )  # fmt: skip
    command.add_argument(
        "--directions", type=readable, metavar="CORPUS",
        help="labelled texts that give the directions of classes; default the train split beside the corpus, or else half of "
        "its texts, which are then not counted",
    )  # fmt: skip
    command.add_argument(
        "--most", type=positive, default=2000, metavar="N", help="how many texts give directions at most, the first"
    )
    command.add_argument(
        "--angle", action="append", type=angle, dest="angles", metavar="DEGREES",
        help="how far to turn, beside quarters of the way to the target; repeat for more; default 10, 20, 30, 45, 60, 90",
    )  # fmt: skip
    out_option(command)
    resamples_option(command)
    command.add_argument("--batch-size", type=positive, default=32, metavar="N", help="texts per batch")
    command.add_argument("--limit", type=positive, metavar="N", help="count only the first N texts")
    inference_options(command)
    data_options(command)


def _run(args: Namespace) -> None:
    from conoscope.causes.steer import Steering, steer
    from conoscope.corpora import load_corpus, train_beside

    corpus, columns = corpus_from(args), columns_from(args)
    if args.directions is None:
        directions = train_beside(args.corpus, columns, args.seed, args.data_dir)
    else:
        directions = load_corpus(args.directions, columns, args.seed, args.data_dir)
    given = fields_from(args, Steering) | {"directions": directions}
    options = Steering(**{name: value for name, value in given.items() if value is not None}, progress=True)
    print_effects(steer(args.model, corpus, options, args.out), args)


COMMAND = Command(
    name="steer",
    help="turn what is classified from towards another class, and show whether the answer follows",
    example="conoscope steer runs/pure bistro:test -o steered/\n"
    "conoscope steer runs/pure bistro:test --layer 2 --directions bistro:train -o steered/",
    options=_options,
    run=_run,
    loads_models=True,
    as_json=True,
)
