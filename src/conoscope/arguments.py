"""The commands and their options; nothing heavy is imported, so that help comes at once."""

import argparse
from collections.abc import Callable

from conoscope import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("train on the built-in corpus, measure, print and write the tables", "conoscope demo"),
    "train": ("train a self-attention classifier", "conoscope train bistro -o runs/pure --layers 3"),
    "measure": ("measure a model on a corpus", "conoscope measure runs/pure bistro:test -m sim -o out/"),
    "merge": ("add up results that were measured in shards", "conoscope merge part-1/ part-2/ -o out/"),
    "corpus": ("show what is in a corpus: counts, balance, lengths, samples", "conoscope corpus imdb --data-dir data/"),
    "fetch": ("download a corpus or word vectors", "conoscope fetch imdb"),
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
        "corpus": _corpus_options,
        "fetch": _fetch_options,
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


def _data_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--data-dir", metavar="DIR", help="the folder of downloaded corpora; default $CONOSCOPE_DATA or a cache")
    columns = command.add_argument_group("columns, for a .csv, .tsv, .jsonl or .parquet file or a data set of the Hub")
    columns.add_argument("--text", default="text", metavar="NAME", help="the texts")
    columns.add_argument("--pair", metavar="NAME", help="the second texts of pairs")
    columns.add_argument("--label", metavar="NAME", help="the labels (a column called label is found by itself)")
    columns.add_argument("--rationale", metavar="NAME", help='a flag for each whitespace word: "0 1 1"')


def _train_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("corpus", help="a corpus (conoscope list corpora), a file of labelled texts, or hub:ID")
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
    command.add_argument(
        "--seed", type=_seed, default=0, help="of the weights, the order, and a corpus that is generated or cut by chance"
    )
    command.add_argument("--device", default="auto", help="auto, cpu or cuda")
    _data_options(command)


def _measure_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", help="a folder written by save_pretrained, or a Hub id")
    command.add_argument("corpus", help="a corpus and split, as in bistro:test, a file of texts, or hub:ID:SPLIT")
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
    command.add_argument("--seed", type=_seed, default=0, help="of a generated corpus, or of a cut by chance")
    command.add_argument("--no-labels", dest="labels", action="store_false", help="leave the corpus's labels out")
    _data_options(command)


def _merge_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("parts", nargs="+", help="folders written by conoscope measure --shard")
    command.add_argument("-o", "--out", required=True, help="the folder for the whole")


def _corpus_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("corpus", help="a corpus (all splits, or one as in imdb:test), a file of texts, or hub:ID:SPLIT")
    command.add_argument("--limit", type=_positive, metavar="N", help="only the first N texts of each split")
    command.add_argument("--samples", type=_count, metavar="N", help="texts to show; default 3, and 0 where they are offensive")
    command.add_argument("--vectors", metavar="SOURCE", help="also say how many words have a vector in this file or package")
    command.add_argument("--seed", type=_seed, default=0, help="of a generated corpus, or of a cut by chance")
    _data_options(command)


def _fetch_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", help="a corpus (conoscope list corpora), or glove for word vectors")
    command.add_argument("--data-dir", metavar="DIR", help="the folder to download to; default $CONOSCOPE_DATA or a cache")


def _list_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("what", choices=("measures", "corpora", "presets"), help="what to list")


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:19]) <= 10**18:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _count(text: str) -> int:
    return 0 if text == "0" else _positive(text)


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
