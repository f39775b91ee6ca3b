"""Options that several commands share, and functions that turn parsed arguments into objects."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.commands.option_types import label_names, positive, seed
from conoscope.common.errors import CorpusError
from conoscope.common.textfiles import is_there, readable

if TYPE_CHECKING:
    from conoscope.corpora import Columns, Corpus

CORPUS = (
    "a corpus and split, as in bistro:test, a file of texts, a folder of files called train, validation and test (as in "
    "reviews/:test), or hub:ID:SPLIT"
)
MODEL = "a folder written by conoscope train or save_pretrained, or a Hub id"
CORPUS_OPTIONS = ("text", "pair", "label", "rationale", "label_names", "data_dir", "limit")
"""Options that have no effect without a corpus."""


def data_options(command: ArgumentParser) -> None:
    """Add the options for the folder of corpora and the columns of a file."""
    data_dir_option(command)
    columns = command.add_argument_group("columns, for a .csv, .tsv, .jsonl or .parquet file or a data set of the Hub")
    columns.add_argument(
        "--text", default="text", type=readable, metavar="NAME",
        help="the texts; without a header the number of the column, from 0 on",
    )  # fmt: skip
    columns.add_argument("--pair", type=readable, metavar="NAME", help="the second texts of pairs")
    columns.add_argument(
        "--label", type=readable, metavar="NAME", help="the labels; default the column called label, if there is one"
    )
    columns.add_argument("--rationale", type=readable, metavar="NAME", help='a flag for each whitespace word: "0 1 1"')
    columns.add_argument(
        "--label-names", type=label_names, default=(), metavar="A,B",
        help="what to call the labels, in their order: bad,good; or by label: 0=bad,1=good",
    )  # fmt: skip


def data_dir_option(command: ArgumentParser) -> None:
    """Add the option for the folder of downloaded corpora."""
    command.add_argument("--data-dir", metavar="DIR", help="folder of downloaded corpora; default $CONOSCOPE_DATA or a cache")


def pool_option(command: ArgumentParser) -> None:
    """Add the option for the vector that represents a text."""
    command.add_argument(
        "--pool", metavar="NAME",
        help="the vector that represents a text: first (token), last or mean, for example --pool mean for a sentence encoder; "
        "default what the classifier reads, or what the model's 1_Pooling says",
    )  # fmt: skip


def inference_options(command: ArgumentParser) -> None:
    """Add options for running the model over the texts."""
    command.add_argument(
        "--max-length", type=positive, metavar="N", help="maximum number of tokens per text; default that of the model"
    )
    command.add_argument("--device", help="auto, cpu, cuda or cuda:1; default auto")
    command.add_argument("--dtype", help="float32, float64, bfloat16 or float16; default float32")
    command.add_argument("--seed", type=seed, default=0, help="seed of a generated corpus, or of a random split")


def explaining_options(command: ArgumentParser) -> None:
    """Add options for the maps (scores of words) to compute, and how."""
    command.add_argument(
        "--map", action="append", dest="maps", metavar="NAME",
        help="a map, such as attention or attention:layer=1 (conoscope list maps); repeat for more; "
        "default attention, norms, rollout",
    )  # fmt: skip
    pool_option(command)
    command.add_argument("--word-score", default="sum", help="how to combine the scores of a word's tokens: sum or max")
    command.add_argument("--batch-size", type=positive, default=16, help="texts per batch")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts")
    inference_options(command)
    data_options(command)


def evaluation_options(command: ArgumentParser) -> None:
    """Add the options of plausibility and faithfulness: output folder, scores from files, resampling."""
    out_option(command)
    command.add_argument(
        "--scores", action="append", default=[], metavar="FILE",
        help='JSON lines of scores from any tool: {"id" or "text": ..., "scores": [one for each word]}; repeat for more',
    )  # fmt: skip
    resamples_option(command, "sentences")


def out_option(command: ArgumentParser) -> None:
    """Add the folder to write to."""
    command.add_argument("-o", "--out", help="folder for tables (parquet, CSV) and provenance")


def resamples_option(command: ArgumentParser, of: str = "texts") -> None:
    """Add the number of resamples, which are `of` texts or other items."""
    command.add_argument(
        "--resamples", type=positive, default=1000, metavar="N", help=f"number of bootstrap resamples of {of}, for the intervals"
    )


def corpus_from(args: Namespace) -> "Corpus":
    """Return the corpus that the arguments name; CorpusError if the model stands where the corpus belongs."""
    from conoscope.corpora import load_corpus

    model = getattr(args, "model", None)
    if isinstance(model, str) and is_there(Path(args.corpus) / "config.json") and not is_there(Path(model), folder=True):
        raise CorpusError(f"{args.corpus} is a model: models come first, the corpus last; type {args.corpus} {model}")
    return load_corpus(args.corpus, columns_from(args), args.seed, args.data_dir)


def columns_from(args: Namespace) -> "Columns":
    """Return the columns that the arguments name."""
    from conoscope.corpora import Columns

    return Columns(args.text, args.label, args.pair, args.rationale, args.label_names)


def fields_from(args: Namespace, dataclass: Any) -> dict[str, Any]:
    """Return the parsed arguments that are fields of a dataclass of options."""
    return {name: value for name, value in vars(args).items() if name in dataclass.__dataclass_fields__}
