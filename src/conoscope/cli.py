"""The command line: the same verbs as in Python, and no logic of its own.

Nothing heavy is imported before a command runs, so that help comes at once.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from conoscope import __version__
from conoscope.errors import ConoscopeError

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("train on the built-in corpus, measure, print and write the tables", "conoscope demo"),
    "train": ("train a self-attention classifier", "conoscope train bistro -o runs/pure --layers 3"),
    "measure": ("measure a model on a corpus", "conoscope measure runs/pure bistro:test -m sim -o out/"),
    "merge": ("add up results that were measured in shards", "conoscope merge part-1/ part-2/ -o out/"),
    "list": ("list the measures, corpora or presets", "conoscope list measures"),
}


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(
        prog="conoscope",
        description="See the geometry of self-attention in transformer text classifiers.",
        epilog="start here: conoscope demo",
    )
    top.add_argument("--version", action="version", version=f"conoscope {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build: dict[str, Callable[[argparse.ArgumentParser], None]] = {
        "demo": _demo_options,
        "train": _train_options,
        "measure": _measure_options,
        "merge": _merge_options,
        "list": _list_options,
    }
    for name, (what, example) in COMMANDS.items():
        command = commands.add_parser(
            name, help=what, description=what[0].upper() + what[1:] + ".", epilog=f"example: {example}",
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )  # fmt: skip
        build[name](command)
    return top


def _demo_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("-o", "--out", default="conoscope-demo", help="the folder to write to")
    command.add_argument("--seed", type=_seed, default=0, help="of the corpus and the training")


def _column_options(command: argparse.ArgumentParser) -> None:
    columns = command.add_argument_group("columns, for a .csv, .tsv, .jsonl or .parquet file")
    columns.add_argument("--text", default="text", metavar="NAME", help="the texts")
    columns.add_argument("--pair", metavar="NAME", help="the second texts of pairs")
    columns.add_argument("--label", metavar="NAME", help="the labels (a column called label is found by itself)")
    columns.add_argument("--rationale", metavar="NAME", help='a flag for each whitespace word: "0 1 1"')


def _train_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("corpus", help="a corpus (conoscope list corpora) or a file of labelled texts")
    command.add_argument("-o", "--out", required=True, help="the folder for the model")
    command.add_argument("--preset", default="pure-attention", help="the model (conoscope list presets)")
    command.add_argument("--layers", type=_positive, default=3, help="attention layers")
    command.add_argument("--width", type=_positive, default=64, help="coordinates of an embedding")
    command.add_argument("--heads", type=_positive, default=1, help="attention heads in a layer")
    command.add_argument("--epochs", type=_positive, default=50, help="passes over the corpus, at most")
    command.add_argument("--patience", type=_positive, default=5, help="epochs to go on without a lower validation loss")
    command.add_argument("--lr", type=_rate, default=1e-3, dest="learning_rate", help="learning rate of Adam")
    command.add_argument("--batch-size", type=_positive, default=64, help="texts in a step")
    command.add_argument("--max-length", type=_positive, default=512, help="tokens of a text, the rest is cut off")
    command.add_argument("--seed", type=_seed, default=0, help="of the weights, the order and a generated corpus")
    command.add_argument("--device", default="auto", help="auto, cpu or cuda")
    _column_options(command)


def _measure_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", help="a folder written by save_pretrained, or a Hub id")
    command.add_argument("corpus", help="a corpus and split, as in bistro:test, or a file of texts")
    command.add_argument(
        "-m", "--measure", action="append", metavar="NAME", help="a measure, as sim or sim:mask=real; again for more; default all"
    )
    command.add_argument("-o", "--out", help="the folder for tables (parquet, CSV), provenance and sums")
    command.add_argument("--batch-size", type=_positive, default=32, help="texts in a batch")
    command.add_argument("--limit", type=_positive, metavar="N", help="only the first N texts")
    command.add_argument("--shard", type=_shard, default=(1, 1), metavar="I/N", help="only part I of N, for conoscope merge")
    command.add_argument(
        "--max-length", type=_positive, metavar="N", help="tokens of a text, the rest is cut off; default what the model takes"
    )
    command.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:1")
    command.add_argument("--dtype", default="float32", help="float32, float64, bfloat16 or float16")
    command.add_argument("--seed", type=_seed, default=0, help="of a generated corpus")
    command.add_argument("--no-labels", dest="labels", action="store_false", help="leave the corpus's labels out")
    _column_options(command)


def _merge_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("parts", nargs="+", help="folders written by conoscope measure --shard")
    command.add_argument("-o", "--out", required=True, help="the folder for the whole")


def _list_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("what", choices=("measures", "corpora", "presets"), help="what to list")


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:19]) <= 10**18:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text[:19]) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {2**32 - 1}")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return rate


def _shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N, such as 1/4")
    return int(index), int(count)


def _demo(given: argparse.Namespace) -> None:
    from conoscope.demo import demo

    demo(Path(given.out), given.seed)


def _train(given: argparse.Namespace) -> None:
    from conoscope.corpora import splits_of
    from conoscope.train import Training, train

    settings = Training(**_options(given, Training), progress=True)
    trained = train(splits_of(given.corpus, _columns(given), given.seed), given.out, settings)
    for split, scores in trained.scores.items():
        print(f"{split}: accuracy {scores['accuracy']:.4f}, loss {scores['loss']:.4f}")
    print(f"model written to {trained.folder} after {trained.epochs} epochs")


def _measure(given: argparse.Namespace) -> None:
    from conoscope.corpora import load_corpus
    from conoscope.pipeline import Options, measure

    corpus = load_corpus(given.corpus, _columns(given), given.seed)
    _report(measure(given.model, corpus, given.measure, Options(**_options(given, Options), progress=True), given.out), given.out)


def _merge(given: argparse.Namespace) -> None:
    from conoscope.pipeline import merge

    result = merge(given.parts)
    result.save(given.out)
    _report(result, given.out)
    if result.missing:
        print(f"conoscope: not the whole corpus: no shard {', '.join(result.missing)}", file=sys.stderr)


def _report(result: Any, out: str | None) -> None:
    print(result.summary())
    if not result.tables:
        print("conoscope: nothing to measure in this shard; its sums are kept for conoscope merge", file=sys.stderr)
    seen = result.provenance["seen"]
    if seen["truncated"]:
        print(f"conoscope: {seen['truncated']} of {seen['examples']} texts were cut off at the longest input", file=sys.stderr)
    if out is not None:
        print(f"\n{seen['examples']} examples; tables, provenance and sums written to {out}")


def _list(given: argparse.Namespace) -> None:
    from conoscope.catalogue import listing

    print(listing(given.what))


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
    "list": _list,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the answer is the exit code: 0, or 2 for what the user can mend."""
    given = parser().parse_args(arguments)
    try:
        if given.command != "list":
            _quiet()
        RUN[given.command](given)
        sys.stdout.flush()
    except ConoscopeError as error:
        print(f"conoscope: {_printable(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("conoscope: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _quiet() -> None:
    """Transformers' own bars and remarks would stand between our lines."""
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging

    hub_logging.set_verbosity(50)
    logging.set_verbosity(50)
    logging.disable_progress_bar()


def _printable(text: str) -> str:
    """One line that cannot steer a terminal, whatever file it quotes."""
    return "".join(c if c.isprintable() else " " for c in text)


if __name__ == "__main__":
    sys.exit(main())
