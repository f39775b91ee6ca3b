"""`conoscope plausibility`: compare the scores of words with human rationales."""

from argparse import SUPPRESS, ArgumentParser, Namespace
from typing import Any

from conoscope.commands.base import Command
from conoscope.commands.printing import print_evaluation
from conoscope.commands.shared_options import CORPUS, MODEL, corpus_from, evaluation_options, explaining_options, fields_from
from conoscope.common.errors import ModelError
from conoscope.common.terminal import complain


def _options(command: ArgumentParser) -> None:
    command.add_argument(
        "model", nargs="?", metavar="MODEL", help=f"{MODEL}; leave it out if all scores come from files (--scores)"
    )
    command.add_argument("corpus", metavar="CORPUS", help=f"{CORPUS}; with rationales")
    command.add_argument("--model", dest="old_model", help=SUPPRESS)
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

    _take_the_model(args)
    options, judging = Explaining(**fields_from(args, Explaining), progress=True), Judging(**fields_from(args, Judging))
    sources: dict[str, Any] = {"corpus": corpus_from(args), "model": args.model, "maps": args.maps, "scores": args.scores}
    print_evaluation(plausibility(**sources, options=options, judging=judging, out=args.out), args)


def _take_the_model(args: Namespace) -> None:
    """Take the model from --model, as before, if it is given there."""
    if args.old_model is None:
        return
    if args.model is not None:
        raise ModelError(f"two models, {args.model!r} and {args.old_model!r}; give one, as in {COMMAND.example}")
    complain(f"--model goes with the next version; type conoscope plausibility {args.old_model} {args.corpus}")
    args.model = args.old_model


COMMAND = Command(
    name="plausibility",
    help="compare the scores of words with human rationales",
    example="conoscope plausibility runs/pure hatexplain:test --map attention -o out/\n"
    "conoscope plausibility hatexplain:test --scores shap.jsonl",
    options=_options,
    run=_run,
    loads_models=True,
    as_json=True,
)
