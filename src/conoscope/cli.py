"""The command line: the same verbs as in Python, and no logic of its own.

Nothing heavy is imported before a command runs, so that help comes at once.
"""

import argparse
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from conoscope.arguments import parser
from conoscope.errors import ConoscopeError, OutputError
from conoscope.terminal import complain, say
from conoscope.unused import refuse_unused


def _demo(given: argparse.Namespace) -> None:
    from conoscope.demo import demo

    demo(Path(given.out), given.seed)


def _train(given: argparse.Namespace) -> None:
    from conoscope.corpora import splits_of
    from conoscope.seeds import train_seeds
    from conoscope.training import Training, train

    settings = Training(**_options(given, Training), progress=True)

    def splits(seed: int) -> Any:
        return splits_of(given.corpus, _columns(given), seed, given.data_dir)

    if given.seeds is not None:
        say(train_seeds(splits, given.out, settings, given.seeds).to_string(index=False))
        return
    trained = train(splits(given.seed), given.out, settings)
    for split, scores in trained.scores.items():
        said = (f"{name.replace('_', ' ')} {scores[name]:.4f}" for name in ("accuracy", "macro_f1", "loss"))
        say(f"{split}: {', '.join(said)}")
    say(f"model written to {trained.folder} after {trained.epochs} epochs")


def _compare(given: argparse.Namespace) -> None:
    from conoscope.compare import compare

    found = compare(given.models, _texts(given).first(given.limit), given.device, given.batch_size, progress=True)
    say(found)
    _tell(found.notes)
    if given.out is not None:
        found.save(given.out)


def _figure(given: argparse.Namespace) -> None:
    from conoscope.figures import positions, save
    from conoscope.gathering import drawings_of

    if given.name == "positions":
        say(save(positions(given.count or 100, given.width or 50), given.out))
    else:
        chart, narrow = drawings_of(given.name, given.results)
        say(save(chart, given.out, narrow))


def _report_page(given: argparse.Namespace) -> None:
    from conoscope.reporting import report

    say(report(given.results, given.out, given.title))


def _measure(given: argparse.Namespace) -> None:
    from conoscope.pipeline import Options, measure

    corpus = None if given.corpus is None else _texts(given)
    _report(measure(given.model, corpus, given.measure, Options(**_options(given, Options), progress=True), given.out), given.out)


def _merge(given: argparse.Namespace) -> None:
    from conoscope.pipeline import merge

    result = merge(given.parts)
    result.save(given.out)
    _report(result, given.out)
    if result.missing:
        complain(f"not the whole corpus: no shard {', '.join(result.missing)}")


def _report(result: Any, out: str | None) -> None:
    say(result.summary())
    _tell(result.provenance.get("notes", ()))
    for gap in result.provenance.get("gaps", ()):
        complain(f"{gap}; the tables lack it")
    if note := result.provenance.get("pool", {}).get("note"):
        complain(note)
    if not result.tables:
        complain(f"nothing to measure in this shard; {'nothing is' if out is None else 'its sums are'} kept for conoscope merge")
    seen = result.provenance["seen"]
    if seen["truncated"]:
        complain(f"{seen['truncated']} of {seen['examples']} texts were cut off at the longest input")
    if out is not None:
        say(f"\n{seen['examples']} examples; tables, provenance and sums written to {out}")


def _tell(notes: Iterable[str]) -> None:
    """What should be known of the numbers, each note once, a line each."""
    for note in dict.fromkeys(notes):
        complain(note)


def _gates(given: argparse.Namespace) -> None:
    from conoscope.gates import gate_map, sort_gates, thresholds
    from conoscope.result import Result

    limits = thresholds(given.threshold)
    say(gate_map(sort_gates(Result.load(given.results), limits)))


def _explain(given: argparse.Namespace) -> None:
    from conoscope.explaining import Explaining, Explanation, explain, write_explanations
    from conoscope.explaining.records import DEFAULT_MAPS, texts_asked
    from conoscope.loading import load_model

    corpus = None if given.corpus is None else _texts(given)
    texts = texts_asked(corpus, given.words, given.out)
    options = Explaining(**_options(given, Explaining), progress=given.words is None)
    model = load_model(given.model, device=options.device, dtype=options.dtype)
    made: Iterable[Explanation] = explain(model, texts, given.maps or DEFAULT_MAPS, options)
    if given.words is not None:
        made = list(made)
        say(made[0])
    if given.out is not None:
        say(f"{write_explanations(made, given.out)} examples explained; written to {given.out}")
    _tell(model.notes)


def _plausibility(given: argparse.Namespace) -> None:
    from conoscope.explaining import Explaining, Judging, plausibility

    options, judging = Explaining(**_options(given, Explaining), progress=True), Judging(**_options(given, Judging))
    _judged(plausibility(_texts(given), given.model, given.maps, given.scores, options, judging, given.out), given.out)


def _faithfulness(given: argparse.Namespace) -> None:
    from conoscope.explaining import Erasing, Explaining, faithfulness

    options, erasing = Explaining(**_options(given, Explaining), progress=True), Erasing(**_options(given, Erasing))
    _judged(faithfulness(given.model, _texts(given), given.maps, given.scores, options, erasing, given.out), given.out)


def _judged(found: Any, out: str | None) -> None:
    say(found)
    _tell(found.remarks)
    if out is not None:
        say(f"\n{found.provenance['seen']['examples']} examples; tables and provenance written to {out}")


def _texts(given: argparse.Namespace) -> Any:
    from conoscope.corpora import load_corpus

    return load_corpus(given.corpus, _columns(given), given.seed, given.data_dir)


def _corpus(given: argparse.Namespace) -> None:
    from conoscope.survey import Survey, survey

    width = shutil.get_terminal_size((120, 24)).columns
    say(
        survey(
            given.corpus, _columns(given), given.seed, given.data_dir, Survey(given.samples, given.vectors, given.limit, width)
        )
    )


def _fetch(given: argparse.Namespace) -> None:
    from conoscope.fetch import fetch

    for path in fetch(given.name, given.data_dir, progress=sys.stderr.isatty()):
        say(path)


def _reproduce(given: argparse.Namespace) -> None:
    from conoscope.studies.records import read_record
    from conoscope.studies.reproducing import Reproducing, reproduce
    from conoscope.studies.telling import told

    out = given.out or f"study-{given.name}"
    options = Reproducing(**_options(given, Reproducing), progress=True)
    record = reproduce(given.name, out, options) if given.record is None else read_record(given.record)
    if record["study"] != given.name:
        raise OutputError(f"{given.record} is a record of {record['study']}; give that name in the place of {given.name}")
    say(told(record))
    for failure in record["failed"]:
        complain(failure)
    if given.page is not None:
        from conoscope.studies.pages import write_page

        say(f"\npage written to {write_page(record, given.page)}")
    if given.record is None:
        say(f"\n{len(record['runs'])} runs; runs, tables and record.json written to {out}")


def _list(given: argparse.Namespace) -> None:
    from conoscope.catalogue import listing

    say(listing(given.what))


def _columns(given: argparse.Namespace) -> Any:
    from conoscope.corpora import Columns

    return Columns(given.text, given.label, given.pair, given.rationale)


def _options(given: argparse.Namespace, kind: Any) -> dict[str, Any]:
    """The given options that a dataclass of options has."""
    return {name: value for name, value in vars(given).items() if name in kind.__dataclass_fields__}


RUN: dict[str, Callable[[argparse.Namespace], None]] = {
    "demo": _demo,
    "train": _train,
    "measure": _measure,
    "merge": _merge,
    "explain": _explain,
    "plausibility": _plausibility,
    "faithfulness": _faithfulness,
    "compare": _compare,
    "figure": _figure,
    "report": _report_page,
    "gates": _gates,
    "corpus": _corpus,
    "fetch": _fetch,
    "reproduce": _reproduce,
    "list": _list,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the answer is the exit code: 0, or 2 for what the user can mend."""
    _spell_out()
    given = parser().parse_args(arguments)
    try:
        if given.command not in ("list", "corpus", "fetch"):
            _quiet()
        refuse_unused(given)
        RUN[given.command](given)
        sys.stdout.flush()
    except ConoscopeError as error:
        complain(error)
        return 2
    except KeyboardInterrupt:
        complain("stopped")
        return 130
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _spell_out() -> None:
    """Let what a terminal cannot show be spelled out, in an ASCII locale say, instead of ending the run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _quiet() -> None:
    """Transformers' own bars and remarks would stand between our lines."""
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging

    hub_logging.set_verbosity(50)
    logging.set_verbosity(50)
    logging.disable_progress_bar()


if __name__ == "__main__":
    sys.exit(main())
