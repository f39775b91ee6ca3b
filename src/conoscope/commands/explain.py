"""`conoscope explain`: print the scores of the words of some texts, or write those of every text of a corpus."""

import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from conoscope.commands.base import Command, Unused
from conoscope.commands.printing import plain, print_notes
from conoscope.commands.shared_options import CORPUS, CORPUS_OPTIONS, MODEL, corpus_from, explaining_options, fields_from
from conoscope.common.errors import CorpusError, OutputError, listed
from conoscope.common.terminal import answer, complain, doing, say
from conoscope.common.textfiles import is_there, readable

if TYPE_CHECKING:
    from conoscope.corpora import Corpus

STDIN = "-"
GIVE = '--words "the soup was not good"'


def _options(command: ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    command.usage = "conoscope explain [OPTIONS] MODEL [CORPUS | TEXT ...]"
    command.add_argument(
        "corpus", nargs="*", metavar="CORPUS",
        help=f"{CORPUS}; or a text of several words, or several texts; or - for standard input",
    )  # fmt: skip
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

    _sort_out(args)
    if args.words is None:
        _refuse_plain_text(args)
        corpus = corpus_from(args)
        if args.out is None and not args.json:
            raise OutputError("the maps of a corpus are written, not printed; give -o scores.jsonl")
        return corpus
    texts = [text for given in args.words for text in (_lines() if given == STDIN else [given])]
    if not texts or not all(text.split() for text in texts):
        raise CorpusError(f"--words has no words; give a text, as in {GIVE}")
    return Corpus.of([Example(text) for text in texts], "words")


def _sort_out(args: Namespace) -> None:
    """Tell the corpus from texts among the arguments: `-`, and what has white space and names nothing, is text."""
    given = list(args.corpus)
    texts = [text for text in given if _is_said(text)]
    if texts and len(texts) == len(given):
        args.corpus, args.words = None, [*(args.words or ()), *map(readable, texts)]
    elif args.words is not None and given:
        raise CorpusError(
            f"two things to explain, {args.words[0]!r} and {given[0]!r}; repeat --words for each text, or give the corpus alone"
        )
    elif len(given) > 1:
        raise CorpusError(f"several things to explain, {listed(map(repr, given))}; give one corpus, or {GIVE} for each text")
    else:
        args.corpus = given[0] if given else None
    if args.corpus is None and args.words is None:
        raise CorpusError(f"nothing to explain; give a corpus, or {GIVE}, or - to read texts from standard input")


def _is_said(given: str) -> bool:
    from conoscope.corpora import is_text

    return given == STDIN or is_text(given)


def _refuse_plain_text(args: Namespace) -> None:
    """Raise CorpusError for a file of plain text, which is read from standard input."""
    from conoscope.corpora.tables import READERS, kind_of

    path = Path(args.corpus)
    if is_there(path) and kind_of(path) not in READERS:
        typed = f"conoscope explain {shlex.quote(args.model)} - < {shlex.quote(args.corpus)}"
        raise CorpusError(f"{path} is no {listed(READERS)} file; if it has one text a line, type {typed}")


def _lines() -> Sequence[str]:
    """The lines of standard input that have words."""
    if sys.stdin.isatty():
        complain("one text a line; end with Ctrl-D")
    return [readable(line.rstrip("\r\n")) for line in sys.stdin if line.strip()]


def _unused(args: Namespace) -> Unused:
    if all(_is_said(given) for given in args.corpus):
        yield CORPUS_OPTIONS, "together with --words"


COMMAND = Command(
    name="explain",
    help="score how much each word contributes, by attention, rollout, gradients and other methods",
    example='conoscope explain runs/pure "the soup was not good"\n'
    "conoscope explain runs/pure - < texts.txt\n"
    "conoscope explain runs/pure bistro:test --map gradient -o scores.jsonl",
    options=_options,
    run=_run,
    unused=_unused,
    loads_models=True,
    as_json=True,
)
