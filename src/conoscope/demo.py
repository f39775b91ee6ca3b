"""The demonstration: train on bistro, measure, write the tables. No download."""

import json
from dataclasses import replace
from pathlib import Path

import torch

from conoscope.corpora import load_corpus, splits_of
from conoscope.errors import OutputError
from conoscope.pipeline import Options, measure
from conoscope.train import Training, train

SHOWN = ("sim", "attention_entropy", "effective_rank", "class_cones.nearest")
QUICK = Training(epochs=12, patience=4, progress=True)


def demo(out: Path, seed: int = 0) -> None:
    """Train `pure-attention` on bistro (or take the model of an earlier demonstration), measure it, print the tables."""
    # A model this small gains nothing from a second thread, and loses much where the machine is busy.
    torch.set_num_threads(1)
    model = out / "model"
    if not (model / "training.json").is_file():
        print(f"training pure-attention on bistro, seed {seed}")
        train(splits_of("bistro", seed=seed), model, replace(QUICK, seed=seed))
    described = json.loads((model / "training.json").read_text())
    if described["settings"]["seed"] != seed:
        raise OutputError(
            f"{model} was trained with seed {described['settings']['seed']}; give -o another folder for seed {seed}"
        )
    print(f"test accuracy {described['scores']['test']['accuracy']:.3f} after {described['model']['epochs']} epochs")
    result = measure(str(model), load_corpus("bistro:test", seed=seed), options=Options(progress=True), out=out / "tables")
    print(f"\n{result.summary(SHOWN)}\n\nmodel in {model}, tables of all measures in {out / 'tables'}")
