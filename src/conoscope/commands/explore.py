"""`conoscope explore`: a local page that shows models and results live, or the same as one file."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import suppress

from conoscope.commands.base import Command, Unused
from conoscope.commands.option_types import port, positive, seed
from conoscope.commands.printing import print_notes
from conoscope.commands.shared_options import CORPUS, columns_from, data_options
from conoscope.common.terminal import say
from conoscope.common.textfiles import readable

OPENING = ("corpus", "limit", "device", "dtype", "seed", "text", "pair", "label", "rationale", "label_names", "data_dir")
"""Options that say what is opened: a page shows them where it shows the command that opens the same."""
COLUMNS = ("text", "pair", "label", "rationale", "label_names", "data_dir", "limit", "seed")
"""Options that have no effect without a corpus."""


def _options(command: ArgumentParser) -> None:
    command.add_argument(
        "paths", nargs="+", metavar="PATH",
        help="a model (a folder or a Hub id), a run of train, or a folder that demo, measure or merge wrote, which say their "
        "model and texts; two models are shown side by side",
    )  # fmt: skip
    command.add_argument("--corpus", type=readable, metavar="CORPUS", help=f"{CORPUS}; default that of the results")
    command.add_argument(
        "--words", type=readable, action="append", default=[], metavar="TEXT", help="a text to begin with; repeat for more"
    )
    command.add_argument("--port", type=port, default=0, help="port of this machine to listen on; default a free one")
    command.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")
    command.add_argument("--export", metavar="FILE", help="write one HTML file that needs no server, and end")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts of the corpus")
    command.add_argument("--device", help="auto, cpu, cuda or cuda:1; default auto")
    command.add_argument("--dtype", help="float32, float64, bfloat16 or float16; default float32")
    command.add_argument("--seed", type=seed, default=0, help="seed of a generated corpus, or of a random split")
    data_options(command)


def _run(args: Namespace) -> None:
    from conoscope.corpora import load_corpus
    from conoscope.exploring.bundle import built, refuse_missing
    from conoscope.exploring.hosts import browse, opened, refuse_words, serve_page, write_page
    from conoscope.exploring.server import NEEDED

    # What is missing is said before a model is loaded.
    built("explorer.js")
    refuse_words(args.words)
    if args.export is None:
        refuse_missing(*NEEDED)
    columns = columns_from(args)
    corpus = None if args.corpus is None else load_corpus(args.corpus, columns, args.seed, args.data_dir)
    if corpus is not None and args.limit is not None:
        corpus = corpus.first(args.limit)
    typed = (*args.paths, *_typed(args))
    asking = opened(args.paths, corpus, words=args.words, device=args.device, dtype=args.dtype, typed=typed)
    print_notes(asking.session.opened.notes)
    if args.export is not None:
        say(write_page(asking, args.export))
        return
    with suppress(KeyboardInterrupt):  # the way to end it
        serve_page(asking, args.port, None if args.no_browser else browse)


def _typed(args: Namespace) -> Iterator[str]:
    """The options that say what is opened, as they were typed, but for those at their defaults."""
    parser = ArgumentParser(add_help=False)
    _options(parser)
    for name in OPENING:
        value = getattr(args, name)
        if value != parser.get_default(name):
            yield from (f"--{name.replace('_', '-')}", ",".join(value) if isinstance(value, tuple) else str(value))


def _unused(args: Namespace) -> Unused:
    if args.corpus is None:
        yield COLUMNS, "without --corpus"
    if args.export is not None:
        yield ("port", "no_browser"), "together with --export"


COMMAND = Command(
    name="explore",
    help="show models and results live in a page of this machine, or write them as one page",
    example="conoscope explore conoscope-demo/tables\n"
    'conoscope explore runs/pure --corpus bistro:test --words "the soup was not good"\n'
    "conoscope explore before/ after/ --export page.html",
    options=_options,
    run=_run,
    unused=_unused,
    loads_models=True,
)
