"""The commands and their options; nothing heavy is imported, so that help comes at once."""

import argparse
from collections.abc import Callable
from typing import Any

from conoscope import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("train on the built-in corpus, measure, print and write the tables", "conoscope demo"),
    "train": ("train a self-attention classifier", "conoscope train bistro -o runs/pure --layers 3"),
    "measure": ("measure a model on a corpus", "conoscope measure runs/pure bistro:test -m sim -o out/"),
    "merge": ("add up results that were measured in shards", "conoscope merge part-1/ part-2/ -o out/"),
    "compare": ("compare models on a corpus: accuracy, F1, paired tests", "conoscope compare runs/a runs/b --corpus bistro:test"),
    "figure": ("draw a figure", "conoscope figure positions -o positions.svg"),
    "gates": ("show what kind of gate each head is, by any thresholds", "conoscope gates out/ --threshold open.entropy=0.7"),
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
        "compare": _compare_options,
        "figure": _figure_options,
        "gates": _gates_options,
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
    command.add_argument("-o", "--out", required=True, help="the folder for the model; with --seeds, for a folder of each")
    _model_options(command.add_argument_group("the model"))
    _penalty_options(command.add_argument_group("penalties on attention, added to the loss"))
    command.add_argument("--epochs", type=_positive, default=50, help="passes over the corpus, at most")
    command.add_argument("--patience", type=_positive, default=5, help="epochs to go on without a lower validation loss")
    command.add_argument("--lr", type=_rate, dest="learning_rate", help="of Adam; default 1e-3, for a checkpoint 5e-5")
    command.add_argument("--batch-size", type=_positive, default=64, help="texts in a step")
    command.add_argument("--max-length", type=_positive, default=512, help="tokens of a text, the rest is cut off")
    command.add_argument("--seed", type=_seed, default=0, help="of the weights, the order, and a corpus made or cut by chance")
    command.add_argument("--seeds", type=_seeds, metavar="A..B", help="several runs instead of one, as 0..4 or 0,2,5")
    command.add_argument("--resume", action="store_true", help="go on with a run that was stopped")
    command.add_argument("--device", default="auto", help="auto, cpu or cuda")
    command.add_argument("--precision", default="auto", help="auto (bfloat16 for checkpoints on a GPU), float32 or bfloat16")
    command.add_argument("--gradient-checkpointing", action="store_true", help="less memory for more time")
    command.add_argument("--report-to", default="none", metavar="NAME", help="the Trainer's loggers: tensorboard, wandb, ...")
    _data_options(command)


def _model_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--preset", default="pure-attention", help="one of the family (conoscope list presets)")
    group.add_argument("--from", dest="checkpoint", metavar="MODEL", help="fine-tune this folder or Hub id instead")
    group.add_argument("--layers", type=_positive, help="attention layers; default 3")
    group.add_argument("--width", type=_positive, help="coordinates of an embedding; default 64, or the vectors'")
    group.add_argument("--heads", type=_positive, help="attention heads in a layer; default 1")
    group.add_argument("--vectors", metavar="SOURCE", help="word vectors to begin with: a GloVe file or a package")
    group.add_argument("--freeze", action="store_true", help="leave the embeddings as they begin")
    group.add_argument("--special", default="zeros", help="how <cls>, <unk> and <sep> begin: zeros or random")


def _penalty_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--entropy-penalty", type=_weight, default=0.0, metavar="λ", help="times the entropy of attention")
    group.add_argument(
        "--rationale-penalty", type=_weight, default=0.0, metavar="λ", help="times 1 - IoU with what people marked"
    )
    group.add_argument("--lagrange-penalty", type=_weight, default=0.0, metavar="λ", help="times the distance to their entropy")
    group.add_argument("--penalty-rows", default="cls", help="cls, all, or columns (their sums after a softmax)")
    group.add_argument("--penalty-layers", type=_layers, default=(1, 1), metavar="A..B", help="as 1 or 4..10, counted from 1")
    group.add_argument("--penalty-input", default="minmax", help="what is compared with rationales: minmax, raw or sigmoid")


def _measure_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", help="a folder written by save_pretrained, or a Hub id")
    command.add_argument(
        "corpus", nargs="?",
        help="a corpus and split, as in bistro:test, a file of texts, or hub:ID:SPLIT; none to measure the weights alone",
    )  # fmt: skip
    command.add_argument(
        "-m", "--measure", action="append", metavar="NAME",
        help="a measure, as sim or sim:mask=real; again for more; default all that fit",
    )  # fmt: skip
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
    command.add_argument(
        "--kind", action=_Named, dest="kinds", type=_kind, default={}, metavar="NAME=WORDS",
        help='a kind of token of your own, as negation="not no never"; again for more',
    )  # fmt: skip
    command.add_argument("--frequencies", metavar="FILE", help="ranks or counts of tokens, for the measure frequency")
    command.add_argument("--no-labels", dest="labels", action="store_false", help="leave the corpus's labels out")
    _data_options(command)


def _merge_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("parts", nargs="+", help="folders written by conoscope measure --shard")
    command.add_argument("-o", "--out", required=True, help="the folder for the whole")


def _compare_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("models", nargs="+", help="folders written by conoscope train or save_pretrained, or Hub ids")
    command.add_argument(
        "--corpus", required=True, help="a corpus and split, as in bistro:test, a file of texts, or hub:ID:SPLIT"
    )
    command.add_argument("-o", "--out", metavar="FILE", help="write the scores here as CSV, and the pairs beside them")
    command.add_argument("--batch-size", type=_positive, default=64, help="texts in a batch")
    command.add_argument("--limit", type=_positive, metavar="N", help="only the first N texts")
    command.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:1")
    command.add_argument("--seed", type=_seed, default=0, help="of a corpus that is generated or cut by chance")
    _data_options(command)


def _figure_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "name", choices=("positions", "capacity"),
        help="positions: products of sinusoidal positions; capacity: cosines between class directions",
    )  # fmt: skip
    command.add_argument("results", nargs="*", metavar="OUT", help="capacity: folders written by conoscope measure")
    command.add_argument("-o", "--out", required=True, metavar="FILE", help="a .svg, .pdf, .png, .html or .json file")
    command.add_argument("--count", type=_positive, default=100, help="positions: how many")
    command.add_argument("--width", type=_positive, default=50, help="positions: coordinates of each")


def _gates_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("results", metavar="OUT", help="a folder written by conoscope measure -m gates")
    command.add_argument(
        "--threshold", action="append", default=[], metavar="NAME=NUMBER",
        help="another threshold, as open.entropy=0.7; again for more",
    )  # fmt: skip


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


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return weight


class _Named(argparse.Action):
    """Gathers pairs of a name and something else."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        """One pair more."""
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), values[0]: values[1]})


def _kind(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, words = text.partition("=")
    if not name.isidentifier() or not words.split():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=WORDS, such as negation='not no never'")
    return name, tuple(words.split())


def _layers(text: str) -> tuple[int, int]:
    first, _, last = text.partition("..")
    return _positive(first), _positive(last or first)


def _seeds(text: str) -> tuple[int, ...]:
    first, dots, last = text.partition("..")
    if dots and first.isdecimal() and last.isdecimal() and int(first) <= int(last) < int(first) + 10_000:
        return tuple(_seed(str(seed)) for seed in range(int(first), int(last) + 1))
    return tuple(_seed(part) for part in text.split(","))


def _shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N, such as 1/4")
    return int(index), int(count)
