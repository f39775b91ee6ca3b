"""`conoscope plausibility`: compare maps with what people marked."""

from argparse import ArgumentParser, Namespace

from conoscope.commands.base import Command
from conoscope.commands.printing import print_evaluation
from conoscope.commands.shared_options import CORPUS, MODEL, corpus_from, evaluation_options, explaining_options, fields_from


def _options(command: ArgumentParser) -> None:
    command.add_argument("corpus", help=f"{CORPUS}; with rationales")
    command.add_argument("--model", help=f"{MODEL}; none where scores come from files alone")
    evaluation_options(command)
    command.add_argument(
        "--sentences", default="rationale", help="rationale (something is marked), label (any label but the first), or all"
    )
    command.add_argument("--normalize", default="minmax", help="scores of a sentence: minmax, softmax_rescale or none")
    command.add_argument(
        "--binary", default="threshold=0.5", metavar="HOW",
        help="which words count as chosen: threshold=0.5 (after minmax), top (as many as are marked), share=0.2 or mass=0.8",
    )  # fmt: skip
    explaining_options(command)


def _run(args: Namespace) -> None:
    from conoscope.explaining import Explaining, Judging, plausibility

    options, judging = Explaining(**fields_from(args, Explaining), progress=True), Judging(**fields_from(args, Judging))
    print_evaluation(plausibility(corpus_from(args), args.model, args.maps, args.scores, options, judging, args.out), args.out)


COMMAND = Command(
    name="plausibility",
    help="compare maps with what people marked",
    example="conoscope plausibility hatexplain:test --model runs/pure --map attention -o out/",
    options=_options,
    run=_run,
    loads_models=True,
)
