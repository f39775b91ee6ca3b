"""`conoscope figure`: draw one figure."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from conoscope.commands.base import Command, Unused
from conoscope.commands.option_types import positive
from conoscope.common.errors import MeasureError
from conoscope.common.terminal import doing, say
from conoscope.common.textfiles import is_there


def _options(command: ArgumentParser) -> None:
    command.add_argument("name", metavar="FIGURE", help="a figure (conoscope list figures), such as sim, class-cones or gates")
    command.add_argument(
        "results", nargs="*", metavar="OUT", help="folders, as for conoscope report; none for the figure positions"
    )
    command.add_argument("-o", "--out", required=True, metavar="FILE", help="a .svg, .pdf, .png, .html or .json file")
    command.add_argument("--count", type=positive, metavar="N", help="number of positions, for the figure positions; default 100")
    command.add_argument(
        "--width", type=positive, metavar="N", help="coordinates of a position, for the figure positions; default 50"
    )


def _run(args: Namespace) -> None:
    from conoscope.figures import positions, save

    if args.name == "positions":
        say(save(positions(args.count or 100, args.width or 50), args.out))
        return
    from conoscope.figures import FIGURES
    from conoscope.reporting.gathering import drawings_of

    if args.name not in FIGURES and is_there(Path(args.name), folder=True):
        known = [name for name in args.results if name in FIGURES]
        others = [name for name in args.results if name not in FIGURES]
        typed = shlex.join(["conoscope", "figure", known[0] if known else "sim", args.name, *others, "-o", args.out])
        raise MeasureError(f"{args.name} is a folder: the figure comes first, folders after it; type {typed}")
    doing(f"drawing {args.name}")
    chart, narrow = drawings_of(args.name, args.results)
    say(save(chart, args.out, narrow))


def _unused(args: Namespace) -> Unused:
    if args.name != "positions":
        yield ("count", "width"), f"for the figure {args.name}, which shows tables"
    elif args.results:
        raise MeasureError("the figure positions takes no folders; leave them out")


COMMAND = Command(
    name="figure",
    help="draw a figure",
    example="conoscope figure sim out/ -o sim.pdf",
    options=_options,
    run=_run,
    unused=_unused,
)
