"""The public names, the direction of imports, and what importing does."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import conoscope

SOURCE = Path(conoscope.__file__).parent
FLOORS = (
    {"errors", "memory", "attending"},
    {"terminal", "writing"},
    {"textfiles", "layers", "markup", "options", "resampling", "bounds", "labels", "placing", "pooling"},
    {"joining", "facts"},
    {"corpora", "models", "tokenizer", "vectors"},
    {"kinds", "calls", "reading"},
    {"frequencies", "batches", "normalising", "native", "softmax", "fetch", "penalties", "scores"},
    {"passing", "wiring", "statistics", "masks"},
    {"loading", "looks"},
    {"traces", "retraining"},
    {"capture", "samples", "waiting", "settings", "encoding"},
    {"quantities", "maps", "weights", "building", "resuming", "text_vector"},
    {"tally", "penalised"},
    {"measures"},
    {"figures"},
    {"findings"},
    {"showing"},
    {"result"},
    {"checkpoint", "card", "provenance"},
    {"pipeline", "training", "compare", "callback", "gates", "explaining", "shared_arguments"},
    {"seeds", "explaining_arguments", "gathering"},
    {"reporting"},
    {"studies"},
    {"demo", "catalogue", "describe", "arguments", "unused"},
    {"survey"},
    {"cli"},
)
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def floor(module: str) -> int:
    return next(number for number, names in enumerate(FLOORS) if module in names)


def imported(path: Path) -> set[str]:
    """The top modules of conoscope that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        found |= {name.split(".")[1] for name in names if name.startswith("conoscope.")}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert all(floor(other) < floor(own) for other in imported(path) - {own})


def test_the_public_names_are_these_and_all_resolve() -> None:
    assert len(conoscope.__all__) <= 20
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
