"""Model folders that no model can be are refused before anything is read that waits, or made that fills the memory."""

import json
import os
import resource
import shutil
import time
from pathlib import Path

import pytest

from conoscope.capture.loading import load_model
from conoscope.common.errors import ModelError


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", 10**6),
        ("num_labels", 10**9),
        ("hidden_size", 10**12),
        ("vocab_size", 10**15),
        ("num_hidden_layers", 1e300),
    ],
)
def test_numbers_of_which_no_model_can_be_are_refused_at_once(folder: Path, key: str, value: float) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, key: value}), encoding="utf-8")
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(ModelError, match=rf"config\.json has {key}=.*are possible; correct it"):
        load_model(folder)
    assert time.monotonic() - began < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_numbers_inside_a_part_of_a_configuration_are_seen_too(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "text_config": {"hidden_size": 10**9}}), encoding="utf-8")
    with pytest.raises(ModelError, match="hidden_size"):
        load_model(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "training.json", "model.safetensors"])
def test_a_pipe_in_place_of_a_file_is_refused(name: str, folder: Path) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(ModelError, match="is a pipe or a device and no file"):
        load_model(folder)
