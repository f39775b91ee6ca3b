"""Trainings of the family, many side by side in processes of one thread: how well each model does, and what penalties do.

python benchmarks/family.py bistro --processes 15 -o benchmarks/results/family-bistro.json
python benchmarks/family.py hatexplain --vectors glove.6B.100d.txt -o benchmarks/results/family-hatexplain.json
python benchmarks/family.py sweep -o benchmarks/results/penalty-sweep-bistro.json
"""

import argparse
import json
import multiprocessing
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from conoscope.corpora import load_corpus, splits_of
from conoscope.measuring.pipeline import Options, measure
from conoscope.models.family import PRESETS
from conoscope.training.trainer import Training, train

PENALTIES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def jobs(what: str, seeds: range, vectors: str | None) -> list[dict[str, Any]]:
    """The settings of every run, as keywords of Training."""
    if what == "bistro":
        plain = [{"preset": preset} for preset in PRESETS]
        random = [{"preset": preset, "special": "random"} for preset in ("tp9-positions", "tp9-cls", "pure-attention")]
        shapes: list[dict[str, Any]] = [*plain, *random]
    elif what == "hatexplain":
        shapes = [{"layers": layers, "vectors": vectors} for layers in (1, 3)]
    else:
        shapes = [{"layers": layers, "entropy_penalty": weight} for layers in (1, 3) for weight in PENALTIES]
    return [{**shape, "seed": seed} for shape in shapes for seed in seeds]


def run(job: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    corpus, settings = job
    torch.set_num_threads(1)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trained = train(splits_of(corpus), Path(folder) / "run", Training(**settings, device="cpu"))
        row = {**settings, "epochs": trained.epochs, "seconds": round(time.perf_counter() - began, 1)}
        row |= {
            f"{split}_{name}": round(scores[name], 4)
            for split, scores in trained.scores.items()
            for name in ("accuracy", "macro_f1")
        }
        if settings.get("entropy_penalty") is not None:
            row |= geometry(trained.folder, corpus)
    row.pop("vectors", None)
    print(row, flush=True)
    return row


def geometry(folder: Path, corpus: str) -> dict[str, float]:
    """Entropy of the first layer's row of [CLS], and SIM of its keys and values."""
    result = measure(folder, load_corpus(f"{corpus}:test"), ["sim", "attention_entropy"], Options(device="cpu"))
    sim, entropy = result["sim"], result["attention_entropy"]
    first = sim[(sim["layer"] == 1) & sim["head"].notna()].set_index("site")["value"]
    cls = entropy[(entropy["layer"] == 1) & (entropy["row"] == "cls")]["value"]
    return {"entropy": round(float(cls.iloc[0]), 4), **{f"sim_{site}": round(float(first[site]), 4) for site in ("key", "value")}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("bistro", "hatexplain", "sweep"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--vectors", help="word vectors, for hatexplain")
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    corpus = "hatexplain" if given.what == "hatexplain" else "bistro"
    todo = [(corpus, job) for job in jobs(given.what, range(given.seeds), given.vectors)]
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        rows = list(pool.imap_unordered(run, todo))
    rows.sort(
        key=lambda row: json.dumps(
            {k: v for k, v in row.items() if k in ("preset", "special", "layers", "entropy_penalty", "seed")}
        )
    )
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "python": platform.python_version()}
    if given.out is not None:
        command = " ".join(["python", "benchmarks/family.py", *sys.argv[1:]])
        given.out.write_text(
            json.dumps({"command": command, "versions": versions, "rows": rows}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
