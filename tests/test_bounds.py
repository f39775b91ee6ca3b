"""Bounds: every number of every kind of options, and of the command line."""

import math
from dataclasses import MISSING, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conoscope.capture.loading import LoadedModel
from conoscope.cli import main, parser
from conoscope.common.bounds import COUNT, POSITIVE, RATE, SEED, SHARDS, WEIGHT, Bounds
from conoscope.common.errors import ConoscopeError
from conoscope.corpora import Example, load_corpus, splits_of
from conoscope.corpora.describe import Survey
from conoscope.explaining import Erasing, Explaining, Judging
from conoscope.measuring.pipeline import Options
from conoscope.studies.reproducing import Reproducing
from conoscope.training.comparison import compare
from conoscope.training.geometry_callback import GeometryCallback
from conoscope.training.trainer import Training

KINDS = (Options, Explaining, Erasing, Judging, Training, Survey, Reproducing)
NO_NUMBER = (math.nan, math.inf, -math.inf, "3", "", b"3", True, False, [3], 3 + 0j, np.nan, np.bool_(True))
LEAST = {
    "minutes": 0,
    "resamples": 0,
    "samples": 0,
    "seed": 0,
    "entropy_penalty": 0,
    "rationale_penalty": 0,
    "lagrange_penalty": 0,
}


def numbers_of(kind: type) -> list[str]:
    return [f.name for f in fields(kind) if f.type in (int, float) or str(f.type).startswith(("int |", "float |"))]


def made(kind: Any, **given: Any) -> Any:
    """Options with these fields, without the check of types that only the tests have."""
    options = object.__new__(kind)
    for field in fields(kind):
        usual = field.default if field.default is not MISSING else field.default_factory()
        object.__setattr__(options, field.name, given.get(field.name, usual))
    options.__post_init__()
    return options


OF_OPTIONS = [(kind, name) for kind in KINDS for name in numbers_of(kind)]


@pytest.mark.parametrize(("kind", "name"), OF_OPTIONS, ids=lambda value: getattr(value, "__name__", value))
def test_every_number_of_options_is_checked_when_they_are_made(kind: type, name: str) -> None:
    whole = name not in ("minutes", "learning_rate", "position_scale", "entropy_penalty", "rationale_penalty", "lagrange_penalty")
    least = LEAST.get(name, 1)
    wrong: list[Any] = [*NO_NUMBER, -1, least - 1, 10**400, *([0.5, 3.0] if whole else [])]
    for value in wrong:
        with pytest.raises(ConoscopeError, match=f"{name}=.* is not a .*number") as refused:
            made(kind, **{name: value})
        assert "\n" not in str(refused.value)
    for value in (max(least, 1), np.int64(3)):
        kept = getattr(made(kind, **{name: value}), name)
        assert kept == value
        assert type(kept) in (int, float)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_yes_or_no_is_nothing_else_and_a_text_is_a_text(kind: type) -> None:
    for field in fields(kind):
        if field.type in ("bool", bool):
            for value in ("no", 0, 1, None):
                with pytest.raises(ConoscopeError, match=f"{field.name}=.* is neither True nor False"):
                    made(kind, **{field.name: value})
        if field.type in ("str", str):
            with pytest.raises(ConoscopeError, match=f"{field.name}=5 is no text"):
                made(kind, **{field.name: 5})


@pytest.mark.parametrize("pair", [(0, 1), (2, 1), (1, 0), (1,), (1, 2, 3), 1, "12", (1.0, 2), (True, 2), (1, math.inf), None])
def test_a_part_of_how_many_is_checked(pair: Any) -> None:
    with pytest.raises(ConoscopeError, match=r"shard=.* is not two whole numbers"):
        made(Options, shard=pair)
    with pytest.raises(ConoscopeError, match=r"penalty_layers=.* is not two whole numbers"):
        made(Training, penalty_layers=pair)


def test_names_may_be_paths_and_become_texts() -> None:
    assert Training(checkpoint=Path("a"), vectors=Path("b")).checkpoint == "a"
    assert Options(frequencies=Path("a.csv")).frequencies == "a.csv"
    assert Reproducing(model=Path("m"), data_dir=Path("d")).data_dir == "d"
    assert Survey(vectors=Path("v")).vectors == "v"
    with pytest.raises(ConoscopeError, match="checkpoint=3 is neither a name nor a path"):
        made(Training, checkpoint=3)


def test_numbers_that_are_arguments_are_checked_too(pure: LoadedModel) -> None:
    texts = [Example("good soup", "positive"), Example("cold soup", "negative")]
    corpus = load_corpus("bistro:test")
    for wrong in (-1, True):
        for call in (
            lambda value: compare([pure], texts, batch_size=value),
            lambda value: corpus.first(value),
            lambda value: corpus.shard(value, 2),
            lambda value: corpus.shard(1, value),
            lambda value: load_corpus("bistro:test", seed=value),
            lambda value: splits_of("bistro", seed=value),
            lambda value: GeometryCallback(pure.tokenizer, texts, every=value),
            lambda value: GeometryCallback(pure.tokenizer, texts, size=value),
        ):
            with pytest.raises(ConoscopeError):
                call(wrong)


@pytest.mark.parametrize("bounds", [POSITIVE, COUNT, SEED, SHARDS, RATE, WEIGHT], ids=lambda bounds: bounds.description)
def test_a_text_is_read_as_the_number_would_be_checked(bounds: Bounds) -> None:
    for text in ("nan", "inf", "-inf", "-1", "", " ", "x", "1e999", "9" * 5000, "True", "0x10", "1,5"):
        with pytest.raises(ValueError, match=r"is not a .*number"):
            bounds.read(text)
    for value in (bounds.least, bounds.least + 1, 7):
        if bounds.holds(value if not bounds.whole else int(value)):
            assert bounds.read(str(int(value))) == value
    assert not bounds.holds(bounds.least - 1)
    assert not bounds.holds(None)
    assert RATE.holds(Fraction(1, 2))


def numeric_options() -> list[tuple[str, str]]:
    """Every option of the command line that takes a number, with its command."""
    names = {"positive", "count", "seed", "rate", "weight", "seeds", "shard", "layers"}
    commands = parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    return [
        (command, action.option_strings[-1])
        for command, of in commands.items()  # type: ignore[union-attr]
        for action in of._actions
        if getattr(action.type, "__name__", "") in names
    ]


POSITIONALS = {
    "train": ["c", "-o", "o"], "measure": ["m", "c"], "compare": ["m", "--corpus", "c"], "explain": ["m", "c"],
    "plausibility": ["c"], "faithfulness": ["m", "c"], "figure": ["sim", "-o", "o"], "corpus": ["c"], "reproduce": ["s"],
}  # fmt: skip


@pytest.mark.parametrize(("command", "option"), numeric_options())
@pytest.mark.parametrize("value", ["-1", "nan", "inf", "1.5x", "", "9" * 5000])
def test_every_number_of_the_command_line_is_refused_in_one_line(
    command: str, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, *POSITIONALS.get(command, []), f"{option}={value}"])
    assert stopped.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"argument {option}" in said or f"/{option}" in said
    assert "is not" in said
    assert len(said) < 1000


def test_there_are_numbers_to_check() -> None:
    assert len(OF_OPTIONS) >= 25
    assert len(numeric_options()) >= 30
