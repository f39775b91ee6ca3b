"""The demonstration: train on bistro, measure, write the tables and the report. No download."""

import json
from dataclasses import replace
from pathlib import Path

import torch

from conoscope.common.errors import OutputError
from conoscope.common.terminal import say
from conoscope.corpora import load_corpus, splits_of
from conoscope.explaining import explain, write_explanations
from conoscope.measuring.pipeline import Options, measure
from conoscope.reporting import report
from conoscope.training.trainer import Training, train

SHOWN = ("sim", "attention_entropy", "effective_rank", "class_cones.nearest")
MAPS = ("attention", "norms", "rollout", "gradient")
EXPLAINED = 6
"""How many texts are shown word by word."""
QUICK = Training(epochs=12, patience=4, progress=True)


def demo(out: Path, seed: int = 0) -> None:
    """Train `pure-attention` on bistro (or take the model of an earlier demonstration), measure it, print the tables, and
    write the report."""
    # A model this small gains nothing from a second thread, and loses much where the machine is busy.
    torch.set_num_threads(1)
    model = out / "model"
    if not (model / "training.json").is_file():
        say(f"training pure-attention on bistro, seed {seed}")
        train(splits_of("bistro", seed=seed), model, replace(QUICK, seed=seed))
    described = json.loads((model / "training.json").read_text(encoding="utf-8"))
    if described["settings"]["seed"] != seed:
        raise OutputError(
            f"{model} was trained with seed {described['settings']['seed']}; give -o another folder for seed {seed}"
        )
    say(f"test accuracy {described['scores']['test']['accuracy']:.3f} after {described['model']['epochs']} epochs")
    texts = load_corpus("bistro:test", seed=seed)
    result = measure(str(model), texts, options=Options(progress=True), out=out / "tables")
    say(f"\n{result.summary(SHOWN)}\n\nmodel in {model}, tables of all measures in {out / 'tables'}")
    write_explanations(explain(str(model), texts.first(EXPLAINED), MAPS), out / "words.jsonl")
    page = report([out / "tables", out / "words.jsonl"], out / "report.html")
    say(f"report: {page.resolve().as_uri()}")
