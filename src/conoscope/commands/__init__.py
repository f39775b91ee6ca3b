"""The commands of `conoscope`, one file each: options, help, and what runs. `COMMANDS` lists them in the order of `--help`."""

from conoscope.commands import (
    ablate,
    attribute,
    compare,
    completion,
    corpus,
    demo,
    explain,
    explore,
    faithfulness,
    fetch,
    figure,
    gates,
    measure,
    merge,
    patch,
    plausibility,
    report,
    reproduce,
    steer,
    train,
)
from conoscope.commands import list as listing
from conoscope.commands.base import Command

ORDER = (
    demo, train, measure, merge, explain, plausibility, faithfulness, ablate, attribute, patch, steer, compare, report, explore,
    figure, gates, corpus, fetch, reproduce, listing, completion,
)  # fmt: skip
COMMANDS: dict[str, Command] = {module.COMMAND.name: module.COMMAND for module in ORDER}
