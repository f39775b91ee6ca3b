"""Options of the command line that would do nothing beside the others, refused in one line each."""

import argparse
from collections.abc import Callable, Iterator

from conoscope.common.errors import ConoscopeError, MeasureError

OF_TEXTS = ("text", "pair", "label", "rationale", "data_dir", "limit")
"""What is about a corpus."""
OF_RUNS = ("seeds", "limit", "jobs", "quick", "model", "keep_models", "data_dir", "out")
"""What is about running a study."""
USUAL = {"text": "text", "penalty_rows": "cls", "penalty_layers": (1, 1), "penalty_input": "minmax"}
"""The defaults of options that are not None or False."""
Given = argparse.Namespace


def refuse_unused(given: Given) -> None:
    """Refuse an option that the command, as it was given, would not read."""
    for option, why in UNUSED.get(given.command, _none)(given):
        raise _unused(option, why)


def _unused(option: str, why: str) -> ConoscopeError:
    return MeasureError(f"--{option.replace('_', '-')} does nothing {why}; leave it out")


def _given(given: Given, *options: str) -> Iterator[str]:
    """Those of the options that were given, as far as they differ from the default."""
    return (option for option in options if getattr(given, option) not in (None, False, USUAL.get(option)))


def _none(given: Given) -> Iterator[tuple[str, str]]:
    yield from ()


def _train(given: Given) -> Iterator[tuple[str, str]]:
    if given.seeds is not None and given.seed:
        yield "seed", "beside --seeds"
    if not (given.entropy_penalty or given.rationale_penalty or given.lagrange_penalty):
        for option in _given(given, "penalty_rows", "penalty_layers", "penalty_input"):
            yield option, "without a penalty"
    if not given.rationale_penalty:
        for option in _given(given, "penalty_input"):
            yield option, "without --rationale-penalty"


def _measure(given: Given) -> Iterator[tuple[str, str]]:
    if given.corpus is None:
        for option in _given(given, *OF_TEXTS):
            yield option, "without a corpus"


def _explain(given: Given) -> Iterator[tuple[str, str]]:
    if given.corpus is None:
        for option in _given(given, *OF_TEXTS):
            yield option, "beside --words"


def _figure(given: Given) -> Iterator[tuple[str, str]]:
    if given.name != "positions":
        for option in _given(given, "count", "width"):
            yield option, f"for the figure {given.name}, which shows tables"
    elif given.results:
        raise MeasureError("the figure positions is of no results; leave the folders out")


def _reproduce(given: Given) -> Iterator[tuple[str, str]]:
    if given.record is not None:
        for option in _given(given, *OF_RUNS):
            yield option, "beside --record, which runs nothing"


UNUSED: dict[str, Callable[[Given], Iterator[tuple[str, str]]]] = {
    "train": _train,
    "measure": _measure,
    "explain": _explain,
    "figure": _figure,
    "reproduce": _reproduce,
}
