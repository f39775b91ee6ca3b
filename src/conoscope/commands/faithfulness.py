"""`conoscope faithfulness`: test how predictions change when the words with the highest scores are erased."""

from argparse import ArgumentParser, Namespace
from typing import Any

from conoscope.commands.base import Command
from conoscope.commands.printing import print_evaluation
from conoscope.commands.shared_options import CORPUS, MODEL, corpus_from, evaluation_options, explaining_options, fields_from


def _options(command: ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    command.add_argument("corpus", metavar="CORPUS", help=CORPUS)
    evaluation_options(command)
    command.add_argument(
        "--erase", default="remove", help="how to erase words: remove them, or mask them with the mask or unknown token"
    )
    explaining_options(command)


def _run(args: Namespace) -> None:
    from conoscope.explaining import Erasing, Explaining, faithfulness

    options, erasing = Explaining(**fields_from(args, Explaining), progress=True), Erasing(**fields_from(args, Erasing))
    sources: dict[str, Any] = {"model": args.model, "corpus": corpus_from(args), "maps": args.maps, "scores": args.scores}
    print_evaluation(faithfulness(**sources, options=options, erasing=erasing, out=args.out), args)


COMMAND = Command(
    name="faithfulness",
    help="test how predictions change when the words with the highest scores are erased",
    example="conoscope faithfulness runs/pure bistro:test --map attention -o out/",
    options=_options,
    run=_run,
    loads_models=True,
    as_json=True,
)
