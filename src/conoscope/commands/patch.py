"""`conoscope patch`: move what one text left in a model to another text, and watch the answer."""

from argparse import ArgumentParser, Namespace

from conoscope.commands.base import Command, Unused
from conoscope.commands.option_types import positive
from conoscope.commands.printing import print_effects
from conoscope.commands.shared_options import (
    CORPUS,
    CORPUS_OPTIONS,
    MODEL,
    corpus_from,
    data_options,
    fields_from,
    inference_options,
    out_option,
    resamples_option,
)
from conoscope.common.errors import CorpusError
from conoscope.common.textfiles import readable


def _options(command: ArgumentParser) -> None:
    command.usage = "conoscope patch [OPTIONS] MODEL [CORPUS | --from TEXT --to TEXT]"
    command.add_argument("model", metavar="MODEL", help=MODEL)
    command.add_argument("corpus", nargs="?", metavar="CORPUS", help=f"{CORPUS}; every two texts in a row are a pair")
    command.add_argument("--from", dest="source", type=readable, metavar="TEXT", help="the text whose vectors are moved")
    command.add_argument(
        "--to", dest="target", type=readable, metavar="TEXT", help="the text that runs with them, of as many tokens"
    )
    command.add_argument(
        "--site",
        default="hidden",
        help="what is moved: hidden (states), output (of attention), forward or context (head by head)",
    )
    out_option(command)
    resamples_option(command, "pairs")
    command.add_argument("--batch-size", type=positive, default=16, metavar="N", help="pairs per batch")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N pairs")
    inference_options(command)
    data_options(command)


def _run(args: Namespace) -> None:
    from conoscope.causes.patch import Patching, patch

    given = args.source is not None, args.target is not None
    if any(given) and args.corpus is not None:
        raise CorpusError(f"two things to patch, {args.corpus!r} and a pair of texts; give one of them")
    if not all(given) and args.corpus is None:
        raise CorpusError('nothing to patch; give --from "the soup was good" --to "the soup was bad", or a corpus of pairs')
    options = Patching(**fields_from(args, Patching), progress=args.corpus is not None)
    source, target = (corpus_from(args), None) if args.corpus is not None else (args.source, args.target)
    print_effects(patch(args.model, source, target, options, args.out), args)


def _unused(args: Namespace) -> Unused:
    if args.corpus is None:
        yield CORPUS_OPTIONS, "without a corpus"


COMMAND = Command(
    name="patch",
    help="move what one text left in a model to another text, and show where the answer follows",
    example='conoscope patch runs/pure --from "the soup was good" --to "the soup was bad"\n'
    "conoscope patch runs/pure bistro-pairs:test -o patched/",
    options=_options,
    run=_run,
    unused=_unused,
    loads_models=True,
    as_json=True,
)
