"""`conoscope plausibility`: compare the scores of words with human rationales."""

from argparse import ArgumentParser, Namespace

from conoscope.commands.base import Command
from conoscope.commands.printing import print_evaluation
from conoscope.commands.shared_options import CORPUS, MODEL, corpus_from, evaluation_options, explaining_options, fields_from


def _options(command: ArgumentParser) -> None:
    command.add_argument("corpus", help=f"{CORPUS}; with rationales")
    command.add_argument("--model", help=f"{MODEL}; not needed if all scores come from files")
    evaluation_options(command)
    command.add_argument(
        "--sentences",
        default="rationale",
        help="which sentences: rationale (with a marked word), label (any label but the first), or all",
    )
    command.add_argument(
        "--normalize", default="minmax", help="how to normalize the scores of a sentence: minmax, softmax_rescale or none"
    )
    command.add_argument(
        "--binary", default="threshold=0.5", metavar="HOW",
        help="which words are selected: threshold=0.5 (after minmax), top (as many as are marked), share=0.2 or mass=0.8",
    )  # fmt: skip
    explaining_options(command)


def _run(args: Namespace) -> None:
    from conoscope.explaining import Explaining, Judging, plausibility

    options, judging = Explaining(**fields_from(args, Explaining), progress=True), Judging(**fields_from(args, Judging))
    print_evaluation(plausibility(args.model, corpus_from(args), args.maps, args.scores, options, judging, args.out), args.out)


COMMAND = Command(
    name="plausibility",
    help="compare the scores of words with human rationales",
    example="conoscope plausibility hatexplain:test --model runs/pure --map attention -o out/",
    options=_options,
    run=_run,
    loads_models=True,
)
