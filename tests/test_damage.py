"""What was written carries digests: a file that changed since is refused by its name, and never read into other numbers."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from conoscope.capture.loading import LoadedModel, load_model
from conoscope.causes.ablation import ablate
from conoscope.causes.merging import merge_ablations
from conoscope.cli import main
from conoscope.common.errors import ModelError, OutputError
from conoscope.common.sealing import read_sealed, sealed
from conoscope.common.writing import write_text
from conoscope.corpora import Example
from conoscope.measuring import checkpoint
from conoscope.measuring.pipeline import measure
from conoscope.results.store import INDEX
from conoscope.training.trainer import train

TEXTS = [
    Example("the soup was cold", "negative"),
    Example("we loved the bread", "positive"),
    Example("no soup today", "negative"),
    Example("good wine and good bread", "positive"),
]
MEASURES = ["sim", "class_cones"]


@pytest.fixture(scope="module")
def whole(pure: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "out"
    measure(pure, TEXTS, MEASURES, out=folder)
    return folder


@pytest.fixture(scope="module")
def ablated(pure: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ablated") / "out"
    ablate(pure, TEXTS, out=folder, resamples=10, how="zero")
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train("bistro", folder, limit=20, epochs=1, layers=1, width=8)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def flipped(path: Path, at: float) -> None:
    """Change one bit of a file, at a share of its length."""
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 1
    path.write_bytes(bytes(content))


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize("at", [0.0, 0.3, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("name", ["tally.safetensors", "tally.json", "provenance.json"])
def test_a_flipped_bit_ends_merging_in_one_line_or_changes_nothing(
    name: str, at: float, folder: Path, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flipped(folder / name, at)
    if name == "tally.safetensors" or 0 < at < 1:
        assert str(folder) in refused(capsys, "merge", folder, "-o", tmp_path / "merged")
        assert not (tmp_path / "merged" / "tally.json").exists()


def test_every_bit_of_the_sums_is_seen(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    size = (folder / "tally.safetensors").stat().st_size
    for number in range(40):
        flipped(folder / "tally.safetensors", number / 39)
        assert "tally.safetensors is damaged" in refused(capsys, "merge", folder, "-o", tmp_path / "merged")
        flipped(folder / "tally.safetensors", number / 39)
    assert main(["merge", str(folder), "-o", str(tmp_path / "merged")]) == 0
    assert (folder / "tally.safetensors").stat().st_size == size


def test_sums_that_lost_an_option_are_not_merged_without_its_rows(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described = json.loads((folder / "tally.json").read_text(encoding="utf-8"))
    need = next(need for need in described["needs"] if need["options"])
    need["options"].popitem()
    (folder / "tally.json").write_text(json.dumps(described), encoding="utf-8")
    assert "tally.json is damaged: it is not as it was written" in refused(capsys, "merge", folder, "-o", tmp_path / "merged")


def test_a_damaged_table_is_not_reported(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flipped(folder / "sim.parquet", 0.5)
    assert "sim.parquet is damaged" in refused(capsys, "report", folder, "-o", tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_a_damaged_list_of_tables_is_made_again_from_sums_and_refused_without(
    folder: Path, ablated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flipped(folder / INDEX, 0.5)
    assert main(["report", str(folder), "-o", str(tmp_path / "r.html")]) == 0
    copy = Path(shutil.copytree(ablated, tmp_path / "ablated"))
    flipped(copy / INDEX, 0.5)
    assert INDEX in refused(capsys, "report", copy, "-o", tmp_path / "r.html")
    (copy / INDEX).unlink()
    assert f"holds no {INDEX}" in refused(capsys, "report", copy, "-o", tmp_path / "r.html")


@pytest.mark.parametrize("name", ["outcomes.safetensors", "parts.json"])
def test_damaged_outcomes_are_not_merged(name: str, ablated: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(ablated, tmp_path / "copy"))
    merge_ablations([copy])
    flipped(copy / name, 0.5)
    with pytest.raises(OutputError, match=name):
        merge_ablations([copy])


@pytest.mark.parametrize("name", ["tally.safetensors", "tally.json", "provenance.json"])
def test_a_run_does_not_go_on_from_damaged_sums(
    name: str, pure: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    monkeypatch.setattr("conoscope.results.result.Result.save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        measure(pure, TEXTS, MEASURES, out=tmp_path / "out")
    flipped(tmp_path / "out" / "partial" / name, 0.5)
    with pytest.raises(OutputError, match=rf"the run cannot go on; remove it to begin anew \(.*{name.partition('.')[0]}"):
        measure(pure, TEXTS, MEASURES, out=tmp_path / "out")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_trained_model_that_changed_since_is_not_loaded(name: str, trained: Path, tmp_path: Path) -> None:
    load_model(trained)
    copy = Path(shutil.copytree(trained, tmp_path / "copy"))
    flipped(copy / name, 0.7)
    with pytest.raises(ModelError, match=rf"{name} is damaged.*remove training\.json from its folder"):
        load_model(copy)


def test_a_card_that_was_edited_is_refused(trained: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(trained, tmp_path / "copy"))
    text = (copy / "training.json").read_text(encoding="utf-8")
    (copy / "training.json").write_text(text.replace('"epochs": 1', '"epochs": 2'), encoding="utf-8")
    with pytest.raises(ModelError, match=r"training\.json is damaged"):
        load_model(copy)
    with pytest.raises(OutputError, match=r"training\.json is damaged"):
        train("bistro", copy, limit=20, epochs=1, layers=1, width=8)


def test_a_model_with_a_card_of_an_earlier_version_is_known_by_its_hash(trained: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(trained, tmp_path / "copy"))
    facts = {name: value for name, value in read_sealed(copy / "training.json").items() if name != "files"}
    (copy / "training.json").write_text(json.dumps(facts), encoding="utf-8")
    measure(copy, TEXTS, ["sim"])
    facts["model"]["hash"] = "0" * 64
    (copy / "training.json").write_text(json.dumps(facts), encoding="utf-8")
    with pytest.raises(ModelError, match=r"is not the model that its training\.json describes: its hash differs"):
        measure(copy, TEXTS, ["sim"])


def test_folders_without_digests_are_read_as_before(folder: Path, tmp_path: Path) -> None:
    described = read_sealed(folder / "tally.json")
    del described["files"]
    (folder / "tally.json").write_text(json.dumps({**described, "format": 4}), encoding="utf-8")
    index = read_sealed(folder / INDEX)["tables"]
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")
    (folder / "provenance.json").write_text(json.dumps(read_sealed(folder / "provenance.json")), encoding="utf-8")
    assert main(["merge", str(folder), "-o", str(tmp_path / "merged")]) == 0
    one, other = (load_file(at / "tally.safetensors") for at in (folder, tmp_path / "merged"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert main(["report", str(folder), "-o", str(tmp_path / "r.html")]) == 0


def test_sums_in_the_present_format_without_digests_are_refused(folder: Path, tmp_path: Path) -> None:
    described = read_sealed(folder / "tally.json")
    del described["files"]
    (folder / "tally.json").write_text(json.dumps(described), encoding="utf-8")
    assert main(["merge", str(folder), "-o", str(tmp_path / "merged")]) == 2


@pytest.mark.parametrize("spoil", [lambda text: text.replace("1.5", "1.7"), lambda text: text[:-9], lambda _: "[" * 99999])
def test_what_is_sealed_is_read_as_it_was_written_or_not_at_all(spoil: Callable[[str], str], tmp_path: Path) -> None:
    content = {"numbers": [1.5, None, float("inf")], "é": "\ud83d 🍞", "of": {"b": 1, "a": 2}}
    write_text(tmp_path / "a.json", sealed(content))
    assert read_sealed(tmp_path / "a.json") == content
    write_text(tmp_path / "a.json", spoil(sealed(content)))
    with pytest.raises((OutputError, ValueError)):
        read_sealed(tmp_path / "a.json")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
