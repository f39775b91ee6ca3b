"""`conoscope merge`: add up results that were measured in shards."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from conoscope.commands.base import Command
from conoscope.commands.printing import print_effects, print_result
from conoscope.common.claiming import claims
from conoscope.common.terminal import complain, doing

if TYPE_CHECKING:
    from conoscope.causes.effects import Effects


def _options(command: ArgumentParser) -> None:
    command.add_argument(
        "parts", nargs="+", metavar="PART", help="folders written by conoscope measure --shard, or by ablate or attribute"
    )
    command.add_argument("-o", "--out", required=True, help="folder for the merged result")
    command.add_argument("--tables", action="store_true", help="print every table, not only findings and key numbers")


@claims()
def _run(args: Namespace) -> None:
    from conoscope.causes.attribution_merging import holds_attribution, merge_attributions
    from conoscope.causes.merging import holds_outcomes, merge_ablations
    from conoscope.measuring.pipeline import merge

    if all(map(holds_outcomes, args.parts)):
        _merge_effects(merge_ablations, args)
        return
    if all(map(holds_attribution, args.parts)):
        _merge_effects(merge_attributions, args)
        return
    doing("reading the sums")
    result = merge(args.parts)
    doing("reading the sums into tables")
    result.save(args.out)
    print_result(result, args.out, args)
    if result.missing:
        complain(f"not the whole corpus: no shard {', '.join(result.missing)}")


def _merge_effects(merge: "Callable[[Sequence[str]], Effects]", args: Namespace) -> None:
    from conoscope.results.store import missing_shards

    effects = merge(args.parts)
    effects.save(args.out)
    print_effects(effects, args)
    if missing := missing_shards(effects.provenance):
        complain(f"not the whole corpus: no shard {', '.join(missing)}")


COMMAND = Command(
    name="merge",
    help="add up results that were measured in shards",
    example="conoscope merge part-1/ part-2/ -o out/",
    options=_options,
    run=_run,
    as_json=True,
)
