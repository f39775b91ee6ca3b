"""`conoscope train`: train a classifier, with one seed or several."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from conoscope.commands.base import Command, Unused, left_in
from conoscope.commands.option_types import layers, positive, rate, seed, seeds, weight
from conoscope.commands.printing import plain
from conoscope.commands.shared_options import columns_from, data_options, fields_from
from conoscope.common.terminal import answer, say

if TYPE_CHECKING:
    from conoscope.corpora import Corpus


def _options(command: ArgumentParser) -> None:
    command.add_argument(
        "corpus",
        metavar="CORPUS",
        help="a corpus (conoscope list corpora), a file of labelled texts, a folder of files called train, validation and test "
        "(as train.csv), or hub:ID",
    )
    command.add_argument(
        "--validation",
        metavar="FILE",
        help="texts to stop by, of the same columns; default a tenth of the texts, set aside by hash",
    )
    command.add_argument("-o", "--out", required=True, help="folder for the model; with --seeds, for one folder per seed")
    _model_options(command)
    _penalty_options(command)
    command.add_argument("--epochs", type=positive, default=50, help="maximum number of epochs")
    command.add_argument(
        "--patience", type=positive, default=5, help="stop after this many epochs without a lower validation loss"
    )
    command.add_argument("--lr", type=rate, dest="learning_rate", help="learning rate of Adam; default 1e-3, with --from 5e-5")
    command.add_argument("--batch-size", type=positive, default=64, help="texts per step")
    command.add_argument("--batches", default="grouped", help="grouped by length, which is faster, or shuffled")
    command.add_argument("--max-length", type=positive, default=512, help="maximum number of tokens per text")
    command.add_argument(
        "--seed", type=seed, default=0, help="seed of the weights, the order of texts, and a generated or randomly split corpus"
    )
    command.add_argument("--seeds", type=seeds, metavar="A..B", help="one run for each seed, such as 0..4 or 0,2,5")
    command.add_argument(
        "--resume", action="store_true", help="not needed: the same command always goes on with a run that was stopped"
    )
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts of each split, to try something out")
    command.add_argument("--device", default="auto", help="auto, cpu or cuda")
    command.add_argument("--precision", default="auto", help="auto (bfloat16 for checkpoints on a GPU), float32 or bfloat16")
    command.add_argument("--gradient-checkpointing", action="store_true", help="use less memory and more time")
    command.add_argument("--report-to", default="none", metavar="NAME", help="the Trainer's loggers: tensorboard, wandb, ...")
    data_options(command)


def _model_options(command: ArgumentParser) -> None:
    group = command.add_argument_group("the model")
    group.add_argument("--preset", default="pure-attention", help="a model of the family (conoscope list presets)")
    group.add_argument("--from", dest="checkpoint", metavar="MODEL", help="fine-tune this folder or Hub id instead")
    group.add_argument("--layers", type=positive, help="number of attention layers; default 3")
    group.add_argument("--width", type=positive, help="width of the embeddings; default 64, or that of --vectors")
    group.add_argument("--heads", type=positive, help="attention heads per layer; default 1")
    group.add_argument("--vectors", metavar="SOURCE", help="initial word vectors: a GloVe file or a package")
    group.add_argument("--lift", type=positive, metavar="N", help="width to which narrower word vectors are lifted, such as 300")
    group.add_argument("--freeze", action="store_true", help="keep the word embeddings fixed")
    group.add_argument("--special", default="zeros", help="initial vectors of <cls>, <unk> and <sep>: zeros or random")
    group.add_argument("--positions", metavar="KIND", help="none, sinusoidal, learned or relative; default that of the preset")
    group.add_argument("--position-scale", type=rate, default=1.0, metavar="X", help="factor of sinusoidal positions")
    group.add_argument("--residual", metavar="KIND", help="none, course, prenorm, postnorm or pure; default that of the preset")


def _penalty_options(command: ArgumentParser) -> None:
    group = command.add_argument_group("penalties on attention, added to the loss")
    group.add_argument("--entropy-penalty", type=weight, default=0.0, metavar="λ", help="weight of the entropy of attention")
    group.add_argument("--rationale-penalty", type=weight, default=0.0, metavar="λ", help="weight of 1 - IoU with the rationale")
    group.add_argument(
        "--lagrange-penalty", type=weight, default=0.0, metavar="λ", help="weight of the distance to the entropy of the rationale"
    )
    group.add_argument(
        "--penalty-rows", default="cls", help="rows of attention to penalize: cls, all, or columns (softmax of column sums)"
    )
    group.add_argument(
        "--penalty-layers",
        type=layers,
        default=(1, 1),
        metavar="A..B",
        help="layers to penalize, such as 1 or 4..10, counted from 1",
    )
    group.add_argument(
        "--penalty-input",
        default="minmax",
        help="how to scale weights before comparing them with rationales: minmax, raw or sigmoid",
    )
    group.add_argument(
        "--penalty-unit",
        default="sentence",
        help="the entropy penalty: sentence (mean normalised entropy) or summed (over a batch, in nats)",
    )


def _run(args: Namespace) -> None:
    from conoscope.corpora import splits_of
    from conoscope.training.finished import text_counts
    from conoscope.training.seeds import train_seeds
    from conoscope.training.trainer import Training, train

    settings = Training(**fields_from(args, Training), progress=True)

    def splits(seed: int) -> "dict[str, Corpus]":
        found = splits_of(args.corpus, columns_from(args), seed, args.data_dir, args.validation)
        return {name: split.first(args.limit) for name, split in found.items()}

    if args.seeds is not None:
        table = train_seeds(splits, args.out, settings, args.seeds)
        if args.json:
            answer(plain({"folder": args.out, "scores": table}))
        else:
            say(table.to_string(index=False))
        return
    trained = train(splits(args.seed), args.out, settings)
    counts = text_counts(trained.folder)
    if args.json:
        answer(plain({"folder": trained.folder, "epochs": trained.epochs, "scores": trained.scores, "texts": counts}))
        return
    for split, scores in trained.scores.items():
        parts = (f"{name.replace('_', ' ')} {scores[name]:.4f}" for name in ("accuracy", "macro_f1", "loss"))
        say(f"{split}: {', '.join(parts)}, {counts[split]} {'text' if counts[split] == 1 else 'texts'}")
    epochs = "1 epoch" if trained.epochs == 1 else f"{trained.epochs} epochs, of which the best is kept"
    say(f"model written to {trained.folder} after {epochs}")


def _unused(args: Namespace) -> Unused:
    if args.seeds is not None:
        yield ("seed",), "together with --seeds"
    if not (args.entropy_penalty or args.rationale_penalty or args.lagrange_penalty):
        yield ("penalty_rows", "penalty_layers", "penalty_input", "penalty_unit"), "without a penalty"
    if not args.rationale_penalty:
        yield ("penalty_input",), "without --rationale-penalty"
    if not args.entropy_penalty:
        yield ("penalty_unit",), "without --entropy-penalty"
    if not args.vectors:
        yield ("lift",), "without --vectors"


COMMAND = Command(
    name="train",
    help="train a self-attention classifier",
    example="conoscope train bistro -o runs/pure --layers 3\n"
    "conoscope train reviews.csv --text review --label stars --validation held-out.csv -o runs/mine\n"
    "conoscope train reviews.tsv --text 0 --label 1 --label-names bad,good --from distilbert-base-uncased -o runs/tuned",
    options=_options,
    run=_run,
    as_json=True,
    resumes=lambda args: left_in(Path(args.out), "conoscope.json", "training.json"),
    unused=_unused,
    loads_models=True,
)
