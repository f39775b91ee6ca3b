"""The public names, the direction of imports, and what importing does."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import conoscope
from slow import FILES, SLOW

SOURCE = Path(conoscope.__file__).parent
ROOT = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
DOWN, LIGHT, UNDRAWN = (contract["name"] for contract in CONTRACTS)
NAMES = [
    *(
        "Capture",
        "Columns",
        "ConoscopeError",
        "Corpus",
        "Example",
        "GeometryCallback",
        "LoadedModel",
        "Options",
        "Result",
        "Tally",
    ),
    *(
        "Training",
        "ablate",
        "attribute",
        "compare",
        "explain",
        "explore",
        "faithfulness",
        "load_corpus",
        "load_model",
        "load_vectors",
        "measure",
        "merge",
    ),
    *("patch", "plausibility", "report", "steer", "trace", "traces_of", "train", "verify"),
]
"""Every public name: at most thirty."""
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def linted(source: Path) -> subprocess.CompletedProcess[str]:
    """What import-linter says of the contracts in pyproject.toml, for a copy of the source."""
    shutil.copy(ROOT / "pyproject.toml", source.parent)
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    environment = {**os.environ, "PYTHONPATH": str(source)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=source.parent, env=environment, capture_output=True, check=False, encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("common/errors.py", "import conoscope.corpora", DOWN),
        ("sums/samples.py", "def late():\n    from conoscope.measures import CATALOGUE", DOWN),
        ("figures/lines.py", "import torch", LIGHT),
        (
            "reporting/page.py",
            "from conoscope.measures import CATALOGUE",
            "Looking at tables needs neither torch nor the measures",
        ),
        ("training/seeds.py", "def late():\n    import altair", UNDRAWN),
    ],
)
def test_a_planted_import_breaks_its_contract(file: str, line: str, contract: str, tmp_path: Path) -> None:
    planted = Path(shutil.copytree(SOURCE, tmp_path / "src" / "conoscope")) / file
    planted.write_text(f"{planted.read_text(encoding='utf-8')}\n\n{line}\n", encoding="utf-8")
    done = linted(tmp_path / "src")
    assert done.returncode == 1
    assert f"{contract} BROKEN" in " ".join(done.stdout.split())


def test_every_room_has_its_layer() -> None:
    layers = {layer.removeprefix("conoscope.") for layer in CONTRACTS[0]["layers"]}
    assert layers == {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in MODULES} - {"__main__"}


def test_the_public_names_are_these_and_all_resolve() -> None:
    assert len(conoscope.__all__) <= 30
    assert conoscope.__all__ == NAMES
    assert conoscope.__all__ == sorted(conoscope.__all__)
    assert set(conoscope.__all__) == set(conoscope._HOME)
    for name in conoscope.__all__:
        assert getattr(conoscope, name).__doc__
    # Where a module had the name of something public, the module would be found once it was imported.
    assert set(conoscope.__all__).isdisjoint(path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in MODULES)
    with pytest.raises(AttributeError, match="module 'conoscope' has no attribute 'nothing'"):
        _ = conoscope.nothing


def test_importing_conoscope_imports_nothing_heavy() -> None:
    code = "import sys, conoscope; print({'torch', 'transformers', 'numpy', 'pandas'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8").stdout.strip()
        == "set()"
    )


def test_what_is_left_to_the_longer_run_is_there() -> None:
    for name in SLOW:
        file, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), name
    assert all((ROOT / "tests" / file).is_file() for file in FILES)
