"""`conoscope reproduce`: run a published table or claim again."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from conoscope.commands.base import Command, Unused, left_in
from conoscope.commands.option_types import positive, weight
from conoscope.commands.printing import plain
from conoscope.commands.shared_options import data_dir_option, fields_from
from conoscope.common.errors import OutputError
from conoscope.common.terminal import answer, complain, say

RUN_OPTIONS = (
    "seeds", "limit", "jobs", "quick", "model", "vectors", "from", "only", "minutes", "keep_models", "data_dir", "out",
)  # fmt: skip
"""Options that have no effect together with --record."""


def _options(command: ArgumentParser) -> None:
    command.add_argument("name", metavar="STUDY", help="a study (conoscope list studies)")
    command.add_argument("-o", "--out", help="folder for runs, tables and the record; default study-NAME")
    command.add_argument("--seeds", type=positive, metavar="N", help="number of seeds for each model; default set by the study")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts of each split")
    command.add_argument("--device", default="auto", help="auto, cpu or cuda")
    command.add_argument(
        "--jobs", type=positive, metavar="N", help="number of parallel runs; default the number of cores, 1 with --quick"
    )
    command.add_argument(
        "--quick", action="store_true", help="run at a tiny size to test the code; use bistro if data are missing"
    )
    command.add_argument(
        "--model", metavar="MODEL", help="a folder or Hub id to use instead of all-MiniLM-L6-v2, in studies that use it"
    )
    command.add_argument("--vectors", metavar="FILE", help="your own word vectors in place of GloVe, in studies that use it")
    command.add_argument(
        "--from", action="append", default=[], metavar="RECORD",
        help="a record whose runs count as done; repeat for more",
    )  # fmt: skip
    command.add_argument(
        "--only", action="append", default=[], metavar="KEY=VALUE",
        help="run only some conditions, as in corpus=hatexplain; repeat for more",
    )  # fmt: skip
    command.add_argument(
        "--minutes", type=weight, metavar="N", help="start no run after N minutes (0: none); the record says which are left"
    )
    command.add_argument("--keep-models", action="store_true", help="keep the trained models in the folder")
    command.add_argument("--record", metavar="FILE", help="print this record, and run nothing")
    command.add_argument("--page", metavar="FILE", help="also write a Markdown page, with its figures beside it")
    data_dir_option(command)


def _run(args: Namespace) -> None:
    from conoscope.studies.records import read_record
    from conoscope.studies.reproducing import Reproducing, reproduce
    from conoscope.studies.telling import mixed_lines, record_text

    out = args.out or f"study-{args.name}"
    options = Reproducing(**fields_from(args, Reproducing), records=getattr(args, "from"), progress=True)
    record = reproduce(args.name, out, options) if args.record is None else read_record(args.record)
    if record["study"] != args.name:
        raise OutputError(f"{args.record} is a record of {record['study']}; give that name instead of {args.name}")
    if args.json:
        answer(plain(record))
    else:
        say(record_text(record))
    for line in (*record["failed"], *mixed_lines(record)):
        complain(line)
    if args.page is not None:
        from conoscope.studies.pages import write_page

        say(f"\npage written to {write_page(record, args.page)}")
    if args.record is None:
        say(f"\n{len(record['runs'])} runs; runs, tables and record.json written to {out}")


def _unused(args: Namespace) -> Unused:
    if args.record is not None:
        yield RUN_OPTIONS, "together with --record, which runs nothing"


COMMAND = Command(
    name="reproduce",
    help="run a published table or claim again, with several seeds",
    example="conoscope reproduce fosse-table-1 --quick",
    options=_options,
    run=_run,
    as_json=True,
    resumes=lambda args: left_in(Path(args.out or f"study-{args.name}"), "*.json"),
    unused=_unused,
    loads_models=True,
)
