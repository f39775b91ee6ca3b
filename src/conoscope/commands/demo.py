"""`conoscope demo`: train on bistro, measure, write the tables and the report. No download."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from conoscope.commands.base import Command, left_in
from conoscope.commands.option_types import seed
from conoscope.commands.printing import plain
from conoscope.common.errors import OutputError
from conoscope.common.terminal import answer, doing, say

SHOWN = ("sim", "attention_entropy", "effective_rank", "class_cones.nearest")
MAPS = ("attention", "norms", "rollout", "gradient")
EXPLAINED = 6
"""How many texts the report shows with a score for each word."""
NEXT = (
    ('explain {model} --words "the soup was not good"', "which words count"),
    ("explore {out}/tables", "the same live: type a text and look at heads, words and cones"),
    ("measure {model} bistro:test -m heads --tables", "one measure, all its tables"),
    ("figure sim {out} -o sim.svg", "one figure, for a paper"),
    ("measure bert-base-uncased FILE.csv --text COLUMN --label COLUMN", "any model, your own texts"),
    ("list measures", "what can be measured"),
)
"""What to type after the demonstration, and what for."""
QUICK: dict[str, Any] = {"epochs": 12, "patience": 4}
"""Training settings that differ from the defaults."""


def _next(**folders: object) -> str:
    """What to type next, one command a line, with what for."""
    lines = [(f"conoscope {command.format(**folders)}", why) for command, why in NEXT]
    width = max(len(command) for command, _ in lines)
    return "\n".join(("what to type next:", *(f"  {command:<{width}}  {why}" for command, why in lines)))


def _options(command: ArgumentParser) -> None:
    command.add_argument("-o", "--out", default="conoscope-demo", help="folder to write to")
    command.add_argument("--seed", type=seed, default=0, help="seed of the corpus and of the training")


def _run(args: Namespace) -> None:
    found = demo(Path(args.out), args.seed)
    if args.json:
        answer(plain(found))


def demo(out: Path, seed: int = 0) -> dict[str, Any]:
    """Where the model, the tables and the report are, and the scores.

    Trains `pure-attention` on bistro (or reuses the model of an earlier demo), measures it, prints tables, writes the report.
    """
    import torch

    from conoscope.common.sealing import read_sealed
    from conoscope.corpora import load_corpus
    from conoscope.explaining import explain, write_explanations
    from conoscope.measuring.pipeline import Options, measure
    from conoscope.reporting import report

    # A second thread does not speed up a model this small, and slows it down much on a busy machine.
    torch.set_num_threads(1)
    model = out / "model"
    if not (model / "training.json").is_file():
        _train(model, seed)
    described = read_sealed(model / "training.json")
    if described["settings"]["seed"] != seed:
        raise OutputError(
            f"{model} was trained with seed {described['settings']['seed']}; give -o another folder for seed {seed}"
        )
    say(f"test accuracy {described['scores']['test']['accuracy']:.3f} after {described['model']['epochs']} epochs")
    texts = load_corpus("bistro:test", seed=seed)
    result = measure(str(model), texts, options=Options(progress=True), out=out / "tables")
    say(f"\n{result.summary(SHOWN)}\n\nmodel in {model}, tables of all measures in {out / 'tables'}")
    doing("explaining a few texts")
    write_explanations(explain(str(model), texts.first(EXPLAINED), MAPS), out / "words.jsonl")
    doing("drawing figures")
    page = report([out / "tables", out / "words.jsonl"], out / "report.html", progress=True)
    say(f"report: {page.resolve().as_uri()}\n\n{_next(model=model, out=out)}")
    return {"model": model, "tables": out / "tables", "report": page, "scores": described["scores"], "seed": seed}


def _train(model: Path, seed: int) -> None:
    from conoscope.corpora import splits_of
    from conoscope.training.trainer import Training, train

    say(f"training pure-attention on bistro, seed {seed}")
    train(splits_of("bistro", seed=seed), model, Training(**QUICK, seed=seed, progress=True))


COMMAND = Command(
    name="demo",
    help="train on the built-in corpus, measure, print tables, write the report",
    example="conoscope demo",
    options=_options,
    run=_run,
    loads_models=True,
    as_json=True,
    resumes=lambda args: left_in(Path(args.out), "conoscope.json", "training.json", "provenance.json"),
)
