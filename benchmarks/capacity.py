"""How many class directions fit: trains on corpora of more and more classes, and reads the directions of [CLS].

    python benchmarks/capacity.py [--processes 4] [--data-dir DIR] [-o FILE]

`pure-attention` of three layers on bistro-topics of several sizes and widths, and, where its files are there, on the twenty
newsgroups.
"""

import argparse
import json
import multiprocessing
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

from conoscope.corpora import load_corpus, splits_of
from conoscope.measuring.pipeline import Options, measure
from conoscope.training.trainer import Training, train

TOPICS = [(classes, width, seed) for classes in (5, 20, 80) for width in (16, 64) for seed in range(3)]


def run(job: tuple[str, int, int, str | None, str]) -> dict[str, Any]:
    corpus, width, seed, data, device = job
    torch.set_num_threads(1)
    settings = Training(width=width, layers=3, seed=seed, device=device, epochs=30, patience=4)
    with tempfile.TemporaryDirectory() as folder:
        trained = train(splits_of(corpus, data_dir=data), Path(folder) / "run", settings)
        test = load_corpus(f"{corpus}:test", data_dir=data)
        result = measure(str(trained.folder), test, ["capacity", "class_cones"], Options(device=device))
    last = {key: frame[(frame["site"] == "hidden") & (frame["layer"] == 3)] for key, frame in result.tables.items()}
    row: dict[str, Any] = {"corpus": corpus, "width": width, "seed": seed, "accuracy": trained.scores["test"]["accuracy"]}
    nearest = last["class_cones.nearest"]
    row |= {f"nearest {kind} {control}": one for kind, control, one in nearest[["representative", "control", "value"]].to_numpy()}
    row["agreement"] = float(nearest[(nearest["representative"] == "mean") & (nearest["control"] == "none")]["agreement"].iloc[0])
    if "class_cones.correlation" in last:  # not where the accuracy of all classes is the same
        row["correlation"] = last["class_cones.correlation"][["representative", "value", "spearman"]].to_dict("records")
    columns = ["classes", "value", "mean", "centred", "simplex", "random", "effective_rank"]
    row["capacity"] = last["capacity"][columns].round(4).to_dict("records")
    print({key: value for key, value in row.items() if key not in ("capacity", "correlation")}, row["capacity"][-1], flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--data-dir", help="the folder of downloaded corpora; without it, bistro-topics alone")
    parser.add_argument("-o", "--out", type=Path, help="a JSON file")
    arguments = parser.parse_args()
    data, gpu = arguments.data_dir, "cuda" if torch.cuda.is_available() else "cpu"
    jobs: list[Any] = [("newsgroups", 64, seed, data, gpu) for seed in range(3) if data]
    jobs += [(f"bistro-topics-{classes}", width, seed, data, "cpu") for classes, width, seed in TOPICS]
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        rows = pool.map(run, jobs, chunksize=1)
    if arguments.out:
        versions = {"torch": torch.__version__, "transformers": transformers.__version__, "python": platform.python_version()}
        command = " ".join(["python", "benchmarks/capacity.py", *sys.argv[1:]])
        arguments.out.write_text(
            json.dumps({"command": command, "versions": versions, "rows": rows}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
