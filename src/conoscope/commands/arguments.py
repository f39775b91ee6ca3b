"""The commands and their options; nothing heavy is imported, so that help comes at once."""

import argparse
from collections.abc import Callable

from conoscope import __version__
from conoscope.commands.explaining_arguments import explain_options, faithfulness_options, plausibility_options
from conoscope.commands.shared_arguments import (
    Named,
    count,
    data_options,
    kind,
    layers,
    pool_option,
    positive,
    rate,
    seed,
    seeds,
    shard,
    weight,
)
from conoscope.common.terminal import Parser
from conoscope.common.textfiles import readable

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("train on the built-in corpus, measure, print tables, write the report", "conoscope demo"),
    "train": ("train a self-attention classifier", "conoscope train bistro -o runs/pure --layers 3"),
    "measure": ("measure a model on a corpus", "conoscope measure runs/pure bistro:test -m sim -o out/"),
    "merge": ("add up results that were measured in shards", "conoscope merge part-1/ part-2/ -o out/"),
    "explain": (
        "say how much each word counts, by attention, rollout, gradients and others",
        'conoscope explain runs/pure --words "the soup was not good"',
    ),
    "plausibility": (
        "compare maps with what people marked",
        "conoscope plausibility hatexplain:test --model runs/pure --map attention -o out/",
    ),
    "faithfulness": (
        "see what becomes of the answer without the words that a map puts first",
        "conoscope faithfulness runs/pure bistro:test --map attention -o out/",
    ),
    "compare": ("compare models on a corpus: accuracy, F1, paired tests", "conoscope compare runs/a runs/b --corpus bistro:test"),
    "report": ("write one page of HTML with every figure and table", "conoscope report out/ -o report.html"),
    "figure": ("draw a figure", "conoscope figure sim out/ -o sim.pdf"),
    "gates": ("show what kind of gate each head is, by any thresholds", "conoscope gates out/ --threshold open.entropy=0.7"),
    "corpus": ("show what is in a corpus: counts, balance, lengths, samples", "conoscope corpus imdb --data-dir data/"),
    "fetch": ("download a corpus or word vectors", "conoscope fetch imdb"),
    "reproduce": ("run a published table or claim again, with several seeds", "conoscope reproduce fosse-table-1 --quick"),
    "list": ("list the measures, maps, figures, corpora, presets or studies", "conoscope list measures"),
}


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = Parser(
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
        "explain": explain_options,
        "plausibility": plausibility_options,
        "faithfulness": faithfulness_options,
        "compare": _compare_options,
        "report": _report_options,
        "figure": _figure_options,
        "gates": _gates_options,
        "corpus": _corpus_options,
        "fetch": _fetch_options,
        "reproduce": _reproduce_options,
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
    command.add_argument("--seed", type=seed, default=0, help="of the corpus and the training")


def _train_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("corpus", help="a corpus (conoscope list corpora), a file of labelled texts, or hub:ID")
    command.add_argument("-o", "--out", required=True, help="the folder for the model; with --seeds, for a folder of each")
    _model_options(command.add_argument_group("the model"))
    _penalty_options(command.add_argument_group("penalties on attention, added to the loss"))
    command.add_argument("--epochs", type=positive, default=50, help="passes over the corpus, at most")
    command.add_argument("--patience", type=positive, default=5, help="epochs to go on without a lower validation loss")
    command.add_argument("--lr", type=rate, dest="learning_rate", help="of Adam; default 1e-3, for a checkpoint 5e-5")
    command.add_argument("--batch-size", type=positive, default=64, help="texts in a step")
    command.add_argument("--max-length", type=positive, default=512, help="tokens of a text, the rest is cut off")
    command.add_argument("--seed", type=seed, default=0, help="of the weights, the order, and a corpus made or cut by chance")
    command.add_argument("--seeds", type=seeds, metavar="A..B", help="several runs instead of one, as 0..4 or 0,2,5")
    command.add_argument("--resume", action="store_true", help="go on with a run that was stopped")
    command.add_argument("--device", default="auto", help="auto, cpu or cuda")
    command.add_argument("--precision", default="auto", help="auto (bfloat16 for checkpoints on a GPU), float32 or bfloat16")
    command.add_argument("--gradient-checkpointing", action="store_true", help="less memory for more time")
    command.add_argument("--report-to", default="none", metavar="NAME", help="the Trainer's loggers: tensorboard, wandb, ...")
    data_options(command)


def _model_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--preset", default="pure-attention", help="one of the family (conoscope list presets)")
    group.add_argument("--from", dest="checkpoint", metavar="MODEL", help="fine-tune this folder or Hub id instead")
    group.add_argument("--layers", type=positive, help="attention layers; default 3")
    group.add_argument("--width", type=positive, help="coordinates of an embedding; default 64, or the vectors'")
    group.add_argument("--heads", type=positive, help="attention heads in a layer; default 1")
    group.add_argument("--vectors", metavar="SOURCE", help="word vectors to begin with: a GloVe file or a package")
    group.add_argument("--freeze", action="store_true", help="leave the embeddings as they begin")
    group.add_argument("--special", default="zeros", help="how <cls>, <unk> and <sep> begin: zeros or random")


def _penalty_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--entropy-penalty", type=weight, default=0.0, metavar="λ", help="times the entropy of attention")
    group.add_argument("--rationale-penalty", type=weight, default=0.0, metavar="λ", help="times 1 - IoU with what people marked")
    group.add_argument("--lagrange-penalty", type=weight, default=0.0, metavar="λ", help="times the distance to their entropy")
    group.add_argument("--penalty-rows", default="cls", help="cls, all, or columns (their sums after a softmax)")
    group.add_argument("--penalty-layers", type=layers, default=(1, 1), metavar="A..B", help="as 1 or 4..10, counted from 1")
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
    command.add_argument("--batch-size", type=positive, metavar="N", help="texts in a batch; default 32, on a GPU 128")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts")
    command.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="only part I of N, for conoscope merge")
    command.add_argument(
        "--max-length", type=positive, metavar="N", help="tokens of a text, the rest is cut off; default what the model takes"
    )
    command.add_argument("--device", help="auto, cpu, cuda or cuda:1; default auto")
    command.add_argument("--dtype", help="float32, float64, bfloat16 or float16; default float32")
    command.add_argument("--seed", type=seed, default=0, help="of a generated corpus, or of a cut by chance")
    command.add_argument(
        "--kind", action=Named, dest="kinds", type=kind, default={}, metavar="NAME=WORDS",
        help='a kind of token of your own, as negation="not no never"; again for more',
    )  # fmt: skip
    pool_option(command)
    command.add_argument("--frequencies", metavar="FILE", help="ranks or counts of tokens, for the measure frequency")
    command.add_argument("--no-labels", dest="labels", action="store_false", help="leave the corpus's labels out")
    data_options(command)


def _merge_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("parts", nargs="+", help="folders written by conoscope measure --shard")
    command.add_argument("-o", "--out", required=True, help="the folder for the whole")


def _compare_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("models", nargs="+", help="folders written by conoscope train or save_pretrained, or Hub ids")
    command.add_argument(
        "--corpus", required=True, help="a corpus and split, as in bistro:test, a file of texts, or hub:ID:SPLIT"
    )
    command.add_argument("-o", "--out", metavar="FILE", help="write the scores here as CSV, and the pairs beside them")
    command.add_argument("--batch-size", type=positive, default=64, help="texts in a batch")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts")
    command.add_argument("--device", help="auto, cpu, cuda or cuda:1; default auto")
    command.add_argument("--seed", type=seed, default=0, help="of a corpus that is generated or cut by chance")
    data_options(command)


def _report_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "results", nargs="+", metavar="OUT",
        help="folders written by conoscope measure, plausibility or faithfulness, and files of conoscope explain; several are "
        "shown side by side, under names that you may give, as in before=out-1/ after=out-2/",
    )  # fmt: skip
    command.add_argument("-o", "--out", default="report.html", metavar="FILE", help="the page to write")
    command.add_argument("--title", type=readable, help="of the page; default what was measured")


def _figure_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "name", help="a figure (conoscope list figures), as sim, class-cones or gates",
    )  # fmt: skip
    command.add_argument("results", nargs="*", metavar="OUT", help="folders written by conoscope measure; none for positions")
    command.add_argument("-o", "--out", required=True, metavar="FILE", help="a .svg, .pdf, .png, .html or .json file")
    command.add_argument("--count", type=positive, metavar="N", help="positions: how many; default 100")
    command.add_argument("--width", type=positive, metavar="N", help="positions: coordinates of each; default 50")


def _gates_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("results", metavar="OUT", help="a folder written by conoscope measure -m gates")
    command.add_argument(
        "--threshold", action="append", default=[], metavar="NAME=NUMBER",
        help="another threshold, as open.entropy=0.7; again for more",
    )  # fmt: skip


def _corpus_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("corpus", help="a corpus (all splits, or one as in imdb:test), a file of texts, or hub:ID:SPLIT")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts of each split")
    command.add_argument("--samples", type=count, metavar="N", help="texts to show; default 3, and 0 where they are offensive")
    command.add_argument("--vectors", metavar="SOURCE", help="also say how many words have a vector in this file or package")
    command.add_argument("--seed", type=seed, default=0, help="of a generated corpus, or of a cut by chance")
    data_options(command)


def _fetch_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", help="a corpus (conoscope list corpora), or glove for word vectors")
    command.add_argument("--data-dir", metavar="DIR", help="the folder to download to; default $CONOSCOPE_DATA or a cache")


def _reproduce_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", help="a study (conoscope list studies)")
    command.add_argument("-o", "--out", help="the folder for runs, tables and the record; default study-NAME")
    command.add_argument("--seeds", type=positive, metavar="N", help="trainings of each model; default what the study asks for")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts of each split")
    command.add_argument("--device", default="auto", help="auto, cpu or cuda")
    command.add_argument("--jobs", type=positive, metavar="N", help="runs side by side; default as many as there are cores")
    command.add_argument("--quick", action="store_true", help="tiny sizes, to try the plumbing; bistro where data are absent")
    command.add_argument(
        "--model", metavar="MODEL", help="a folder or Hub id in the place of all-MiniLM-L6-v2, where a study has it"
    )
    command.add_argument("--keep-models", action="store_true", help="keep the trained models in the folder")
    command.add_argument("--record", metavar="FILE", help="tell what this record says, and run nothing")
    command.add_argument("--page", metavar="FILE", help="also write a page of markdown, with its figure beside it")
    command.add_argument("--data-dir", metavar="DIR", help="the folder of downloaded corpora; default $CONOSCOPE_DATA or a cache")


def _list_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("what", choices=("measures", "maps", "figures", "corpora", "presets", "studies"), help="what to list")
