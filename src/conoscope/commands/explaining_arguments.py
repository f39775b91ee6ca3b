"""The options of the commands that explain, and judge explanations."""

import argparse

from conoscope.commands.shared_arguments import data_options, pool_option, positive, seed
from conoscope.common.textfiles import readable

CORPUS = "a corpus and split, as in bistro:test, a file of texts, or hub:ID:SPLIT"
MODEL = "a folder written by conoscope train or save_pretrained, or a Hub id"


def explain_options(command: argparse.ArgumentParser) -> None:
    """Maps of a text, or of every text of a corpus."""
    command.add_argument("model", help=MODEL)
    command.add_argument("corpus", nargs="?", help=f"{CORPUS}; or give --words")
    command.add_argument("--words", type=readable, metavar="TEXT", help="explain this one text, and print a table")
    command.add_argument("-o", "--out", metavar="FILE", help="write JSON lines here, one example a line")
    _making_options(command)


def plausibility_options(command: argparse.ArgumentParser) -> None:
    """Maps against what people marked."""
    command.add_argument("corpus", help=f"{CORPUS}; with rationales")
    command.add_argument("--model", help=f"{MODEL}; none where scores come from files alone")
    _judging_options(command)
    command.add_argument(
        "--sentences", default="rationale", help="rationale (something is marked), label (any label but the first), or all"
    )
    command.add_argument("--normalize", default="minmax", help="scores of a sentence: minmax, softmax_rescale or none")
    command.add_argument(
        "--binary", default="threshold=0.5", metavar="HOW",
        help="which words count as chosen: threshold=0.5 (after minmax), top (as many as are marked), share=0.2 or mass=0.8",
    )  # fmt: skip
    _making_options(command)


def faithfulness_options(command: argparse.ArgumentParser) -> None:
    """Maps against what the model does without their words."""
    command.add_argument("model", help=MODEL)
    command.add_argument("corpus", help=CORPUS)
    _judging_options(command)
    command.add_argument("--erase", default="remove", help="remove words, or mask them by the mask or unknown token")
    _making_options(command)


def _judging_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("-o", "--out", help="the folder for tables (parquet, CSV) and provenance")
    command.add_argument(
        "--scores", action="append", default=[], metavar="FILE",
        help='JSON lines of scores from any tool: {"id" or "text": ..., "scores": [one for each word]}; again for more',
    )  # fmt: skip
    command.add_argument("--resamples", type=positive, default=1000, metavar="N", help="draws of sentences for the intervals")


def _making_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--map", action="append", dest="maps", metavar="NAME",
        help="a map, as attention or attention:layer=1 (conoscope list maps); again for more; default attention, norms, rollout",
    )  # fmt: skip
    pool_option(command)
    command.add_argument("--word-score", default="sum", help="a word's score from its tokens': sum or max")
    command.add_argument("--batch-size", type=positive, default=16, help="texts in a batch")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts")
    command.add_argument(
        "--max-length", type=positive, metavar="N", help="tokens of a text, the rest is cut off; default what the model takes"
    )
    command.add_argument("--device", help="auto, cpu, cuda or cuda:1; default auto")
    command.add_argument("--dtype", help="float32, float64, bfloat16 or float16; default float32")
    command.add_argument("--seed", type=seed, default=0, help="of a generated corpus, or of a cut by chance")
    data_options(command)
