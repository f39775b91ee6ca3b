"""`conoscope report`: write one HTML page."""

from argparse import ArgumentParser, Namespace

from conoscope.commands.base import Command
from conoscope.common.terminal import doing, say
from conoscope.common.textfiles import readable


def _options(command: ArgumentParser) -> None:
    command.add_argument(
        "results", nargs="+", metavar="OUT",
        help="folders written by conoscope demo, measure, merge, plausibility, faithfulness or reproduce, and files of explain; "
        "several are shown side by side; you can name them, as in before=out-1/ after=out-2/",
    )  # fmt: skip
    command.add_argument("-o", "--out", default="report.html", metavar="FILE", help="HTML file to write")
    command.add_argument("--title", type=readable, help="title of the page; default the model and corpus")


def _run(args: Namespace) -> None:
    from conoscope.reporting import report

    doing(f"reading {' '.join(args.results)}")
    say(report(args.results, args.out, args.title, progress=True))


COMMAND = Command(
    name="report",
    help="write one HTML page with every figure and table",
    example="conoscope report conoscope-demo\nconoscope report before=out-1/ after=out-2/ -o both.html",
    options=_options,
    run=_run,
)
