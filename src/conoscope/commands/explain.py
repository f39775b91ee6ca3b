"""`conoscope explain`: print the scores of the words of some texts, or write those of every text of a corpus."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from conoscope.commands.base import Command, Unused
from conoscope.commands.printing import plain, print_notes
from conoscope.commands.shared_options import CORPUS, CORPUS_OPTIONS, MODEL, corpus_from, explaining_options, fields_from
from conoscope.common.errors import CorpusError, OutputError
from conoscope.common.terminal import answer, complain, doing, say
from conoscope.common.textfiles import readable

if TYPE_CHECKING:
    from conoscope.corpora import Corpus

STDIN = "-"
GIVE = '--words "the soup was not good"'


def _options(command: ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    command.add_argument("corpus", nargs="?", metavar="CORPUS", help=f"{CORPUS}; or - for standard input; or give --words")
    command.add_argument(
        "--words", type=readable, action="append", metavar="TEXT",
        help="explain this text instead of a corpus, and print a table; repeat for more; - reads standard input, one text a line",
    )  # fmt: skip
    command.add_argument("-o", "--out", metavar="FILE", help="write JSON lines to this file, one example per line")
    explaining_options(command)


def _run(args: Namespace) -> None:
    from conoscope.capture.loading import load_model
    from conoscope.explaining import Explaining, Explanation, explain, write_explanations
    from conoscope.explaining.records import DEFAULT_MAPS
    from conoscope.explaining.showing import painted

    texts = _texts(args)
    options = Explaining(**fields_from(args, Explaining), progress=args.words is None)
    doing(f"loading {args.model}")
    model = load_model(args.model, device=options.device, dtype=options.dtype)
    doing("explaining")
    explanations: Iterable[Explanation] = explain(model, texts, args.maps or DEFAULT_MAPS, options)
    if args.words is not None or args.json:
        found = list(explanations)
        if args.json:
            answer([{**plain(one.record()), "probabilities": plain(one.probabilities)} for one in found])
        for number, one in enumerate([] if args.json else found):
            say("") if number else None
            say(painted(one))
        explanations = found
    if args.out is not None:
        say(f"{write_explanations(explanations, args.out)} examples explained; written to {args.out}")
    print_notes(model.notes)


def _texts(args: Namespace) -> "Corpus":
    """The texts to explain: a corpus, whose maps go to a file, or some texts, whose maps are printed."""
    from conoscope.corpora import Corpus, Example

    if args.corpus == STDIN:
        args.corpus, args.words = None, [*(args.words or ()), STDIN]
    if (args.corpus is None) == (args.words is None):
        raise CorpusError(f"nothing, or two things, to explain; give a corpus, or {GIVE}")
    if args.words is None:
        if args.out is None and not args.json:
            raise OutputError("the maps of a corpus are written, not printed; give -o scores.jsonl")
        return corpus_from(args)
    texts = [text for given in args.words for text in (_lines() if given == STDIN else [given])]
    if not texts or not all(text.split() for text in texts):
        raise CorpusError(f"--words has no words; give a text, as in {GIVE}")
    return Corpus.of([Example(text) for text in texts], "words")


def _lines() -> Sequence[str]:
    """The lines of standard input that have words."""
    if sys.stdin.isatty():
        complain("one text a line; end with Ctrl-D")
    return [readable(line.rstrip("\r\n")) for line in sys.stdin if line.strip()]


def _unused(args: Namespace) -> Unused:
    if args.corpus in (None, STDIN):
        yield CORPUS_OPTIONS, "together with --words"


COMMAND = Command(
    name="explain",
    help="score how much each word contributes, by attention, rollout, gradients and other methods",
    example='conoscope explain runs/pure --words "the soup was not good"\n'
    "conoscope explain runs/pure - < texts.txt\n"
    "conoscope explain runs/pure bistro:test --map gradient -o scores.jsonl",
    options=_options,
    run=_run,
    unused=_unused,
    loads_models=True,
    as_json=True,
)
