"""`conoscope explain`: print or write the scores of the words of one text, or of every text of a corpus."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from conoscope.commands.base import Command, Unused
from conoscope.commands.printing import print_notes
from conoscope.commands.shared_options import CORPUS, CORPUS_OPTIONS, MODEL, corpus_from, explaining_options, fields_from
from conoscope.common.terminal import say
from conoscope.common.textfiles import readable


def _options(command: ArgumentParser) -> None:
    command.add_argument("model", help=MODEL)
    command.add_argument("corpus", nargs="?", help=f"{CORPUS}; or give --words")
    command.add_argument(
        "--words", type=readable, metavar="TEXT", help="explain this text instead of a corpus, and print a table"
    )
    command.add_argument("-o", "--out", metavar="FILE", help="write JSON lines to this file, one example per line")
    explaining_options(command)


def _run(args: Namespace) -> None:
    from conoscope.capture.loading import load_model
    from conoscope.explaining import Explaining, Explanation, explain, write_explanations
    from conoscope.explaining.records import DEFAULT_MAPS, texts_asked

    corpus = None if args.corpus is None else corpus_from(args)
    texts = texts_asked(corpus, args.words, args.out)
    options = Explaining(**fields_from(args, Explaining), progress=args.words is None)
    model = load_model(args.model, device=options.device, dtype=options.dtype)
    explanations: Iterable[Explanation] = explain(model, texts, args.maps or DEFAULT_MAPS, options)
    if args.words is not None:
        explanations = list(explanations)
        say(explanations[0])
    if args.out is not None:
        say(f"{write_explanations(explanations, args.out)} examples explained; written to {args.out}")
    print_notes(model.notes)


def _unused(args: Namespace) -> Unused:
    if args.corpus is None:
        yield CORPUS_OPTIONS, "together with --words"


COMMAND = Command(
    name="explain",
    help="score how much each word contributes, by attention, rollout, gradients and other methods",
    example='conoscope explain runs/pure --words "the soup was not good"',
    options=_options,
    run=_run,
    unused=_unused,
    loads_models=True,
)
