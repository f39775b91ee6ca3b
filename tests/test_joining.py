"""Joining shards: the whole says what any of them lacks, in whatever order they come."""

import random
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from conoscope.corpora import load_corpus
from conoscope.errors import OutputError
from conoscope.joining import differences, joined
from conoscope.loading import LoadedModel
from conoscope.pipeline import Options, measure, merge
from conoscope.result import Result

COUNT = 12


@pytest.fixture(scope="module")
def parts(pure: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder, texts = tmp_path_factory.mktemp("parts"), load_corpus("bistro:test").first(30)
    for number in range(1, COUNT + 1):
        measure(pure, texts, ["sim", "attention_entropy"], Options(shard=(number, COUNT)), folder / str(number))
    return [folder / str(number) for number in range(1, COUNT + 1)]


def test_twelve_shards_in_any_order_are_one_result(parts: list[Path]) -> None:
    whole = merge(parts)
    assert whole.provenance["shards"] == [f"{number}/{COUNT}" for number in range(1, COUNT + 1)]
    assert whole.provenance["seen"]["examples"] == 30
    assert whole.missing == []
    for seed in range(5):
        shuffled = random.Random(seed).sample(parts, COUNT)
        other = merge(shuffled)
        assert other.provenance == whole.provenance
        assert list(other.provenance) == list(whole.provenance)
        for name, table in whole.tables.items():
            pd.testing.assert_frame_equal(other.tables[name], table, check_exact=True)
        # However they are bracketed: halves first, then the whole.
        half = merge(shuffled[:5]) + merge(shuffled[5:])
        assert half.provenance == whole.provenance


def test_a_merged_folder_can_be_written_again(parts: list[Path], tmp_path: Path) -> None:
    merge(parts[::-1]).save(tmp_path / "out")
    merge(parts).save(tmp_path / "out")
    assert Result.load(tmp_path / "out").provenance == merge(parts).provenance


def of(shard: str, **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "model": {"name": "m", "hash": "1"}, "corpus": {"name": "c"}, "measures": ["sim"], "options": {}, "shards": [shard],
        "seen": {"examples": 2, "digest": 2**62, "truncated": 1}, "versions": {"torch": "2.11"}, "command": f"measure {shard}",
        "notes": ["a note"], "gaps": [], "every": True,
    }  # fmt: skip
    return {**base, **more}


def test_what_any_shard_lacks_or_notes_is_told_of_the_whole() -> None:
    one, two = of("1/3", gaps=["layer 2"]), of("2/3", gaps=["layer 1", "layer 2"], notes=["another"])
    three = of("3/3", versions={"torch": "2.12", "numpy": "2"})
    found = reduce(joined, (three, one, two))
    assert found == reduce(joined, (one, two, three)) == joined(joined(two, three), one)
    assert found["gaps"] == ["layer 1", "layer 2"]
    assert found["notes"] == ["a note", "another"]
    assert found["versions"] == {"torch": "2.11, 2.12", "numpy": "2"}
    assert found["commands"] == {f"{number}/3": f"measure {number}/3" for number in (1, 2, 3)}
    assert found["command"] == "measure 1/3 && measure 2/3 && measure 3/3"


def test_every_count_of_what_was_seen_is_added_and_one_that_a_part_lacks_is_not_made_up() -> None:
    seen = {"examples": 2, "digest": 2**62, "truncated": 1, "labelled": 2, "correct": 1, "later": 5}
    both = joined(of("1/2", seen=seen), of("2/2", seen=seen))["seen"]
    assert both == {"examples": 4, "digest": 0, "truncated": 2, "labelled": 4, "correct": 2, "later": 10}
    assert "correct" not in joined(of("1/2", seen=seen), of("2/2"))["seen"]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (of("2/2", pool={"vector": "mean", "by": "--pool"}), "pool None, not"),
        (of("2/2", model={"name": "m", "hash": "2"}), "model hash 1, not 2"),
        (of("2/2", options={"limit": 3}), "options limit None, not 3"),
        (of("1/2"), "shard 1/2 is there twice"),
        (of("2/12"), "cut into 2 and into 12"),
    ],
)
def test_what_does_not_go_together_is_refused(other: Mapping[str, Any], said: str) -> None:
    with pytest.raises(OutputError, match=said):
        joined(of("1/2"), other)


def test_what_one_part_does_not_say_and_the_other_says_is_none_is_the_same() -> None:
    old, new = of("1/2"), of("2/2", options={"frequencies": None}, corpus={"name": "c", "seed": None})
    assert differences(old, {**new, "shards": ["1/2"]}) is None
    assert joined(old, new)["shards"] == ["1/2", "2/2"]


def test_folders_without_gaps_and_notes_merge_too() -> None:
    old = {key: value for key, value in of("1/2").items() if key not in ("gaps", "notes", "command")}
    assert joined(old, of("2/2", gaps=["layer 1"]))["gaps"] == ["layer 1"]
