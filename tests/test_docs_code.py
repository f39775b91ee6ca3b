"""Code in docstrings, and what CONTRIBUTING.md and ARCHITECTURE.md name, is under test: it must be there."""

import ast
import builtins
import doctest
import importlib
import inspect
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
import torch

from architectures import padded
from conoscope.capture.trace import Trace
from conoscope.cli import parser
from conoscope.quantities import base
from quantities import computed

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "conoscope"
WHOLE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CONTRIBUTING = re.sub("   ```.*?```\n", "", WHOLE, flags=re.DOTALL)
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
READERS = {"model", "batch", "result", "tokenizer", "trainer", "frame", "pd"}
"""Names in examples that stand for what a reader has."""


def module_of(path: Path) -> ModuleType:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return importlib.import_module(".".join(part for part in parts if part != "__init__"))


def code_in(docstring: str) -> Iterator[str]:
    """What stands after >>> in a docstring, and its indented blocks that are more than a formula."""
    prompted = "".join(example.source for example in doctest.DocTestParser().get_examples(docstring))
    if prompted:
        yield prompted
    for block in re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", f"{inspect.cleandoc(docstring)}\n", re.MULTILINE):
        if re.search(r"^(def|class|import|from) |^[A-Z_]+ = ", dedent(block), re.MULTILINE) and "S.of" not in block:
            yield dedent(block)


def examples() -> Iterator[Any]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                for code in code_in(ast.get_docstring(node) or ""):
                    where = f"{path.relative_to(SOURCE)}:{getattr(node, 'name', '')}"
                    yield pytest.param(code, path, id=where)


@cache
def defined() -> dict[str, Any]:
    """Every public name of every module of ours, by itself."""
    found: dict[str, Any] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = module_of(path)
        own = (name for name, value in vars(module).items() if getattr(value, "__module__", module.__name__) == module.__name__)
        found.update({name: getattr(module, name) for name in own if not name.startswith("_")})
    return found


def faults(code: str, module: ModuleType) -> list[str]:
    """The imports, names and arguments of a piece of code that are not there."""
    tree, found = ast.parse(code), []
    known: dict[str, Any] = {**vars(builtins), **defined(), **vars(module), **dict.fromkeys(READERS)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names: dict[str, Any] = {}
            try:
                exec(compile(ast.Module([node], []), "an example", "exec"), names)
            except ImportError as error:
                found.append(str(error))
            known.update(names)
        made = [node.name] if isinstance(node, ast.FunctionDef) else [node.arg] if isinstance(node, ast.arg) else []
        made += [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else []
        known.update(dict.fromkeys(made))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in known:
            found.append(f"no name {node.id}")
        if isinstance(node, ast.Call) and (wrong := misfit(node, lambda name: known.get(name))):
            found.append(wrong)
    return found


def misfit(call: ast.Call, known: Callable[[str], Any]) -> str:
    """Why what is called does not take these arguments; nothing where it does, or is not ours."""
    called = value_of(call.func, known)
    if called is None or not getattr(called, "__module__", "").startswith("conoscope"):
        return ""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args) or any(k.arg is None for k in call.keywords)
    try:
        if not starred:
            inspect.signature(called).bind(*call.args, **{str(k.arg): k for k in call.keywords})
    except TypeError as error:
        return f"{ast.unparse(call)}: {error}"
    return ""


def value_of(node: ast.expr, known: Callable[[str], Any]) -> Any:
    if isinstance(node, ast.Name):
        return known(node.id)
    return getattr(value_of(node.value, known), node.attr, None) if isinstance(node, ast.Attribute) else None


@pytest.mark.parametrize(("code", "path"), list(examples()))
def test_examples_in_docstrings_name_what_is_there(code: str, path: Path) -> None:
    assert faults(code, module_of(path)) == []


def test_a_wrong_example_is_found() -> None:
    module = importlib.import_module("conoscope.studies")
    assert faults("from conoscope.studies import reproduce\n", module)
    assert faults("from conoscope.studies.reproducing import reproduce\nreproduce('a', 'b', nothing=1)\n", module)
    assert faults("import conoscope as cs\ncs.measure()\n", module)
    assert faults("nowhere(1)\n", module) == ["no name nowhere"]
    assert faults("from conoscope.studies.reproducing import reproduce\nreproduce('a', 'b')\n", module) == []
    assert len(list(examples())) >= 12


@cache
def words() -> frozenset[str]:
    """Every identifier of the source and of the tests: names, attributes, arguments, and names of modules."""
    found: set[str] = set()
    for path in [*SOURCE.rglob("*.py"), *(ROOT / "tests").glob("*.py")]:
        if path == Path(__file__):
            continue
        found.add(path.stem if path.stem != "__init__" else path.parent.name)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and re.fullmatch(r"[A-Z][A-Z_]+", str(node.value)):
                found.add(str(node.value))  # a variable of the environment
            found |= {
                str(getattr(node, name)) for name in ("id", "attr", "name", "arg") if isinstance(getattr(node, name, None), str)
            }
    return frozenset(found)


def paragraphs(page: str) -> list[str]:
    """The items of lists, and what stands between them."""
    return [part for part in re.split(r"\n(?=\d\. |- |\n|#)", page) if "`" in part]


def missing(paragraph: str) -> list[str]:
    """What a paragraph names in code that is not there."""
    spans = re.findall(r"`([^`]+)`", paragraph.replace("\n", " "))
    calls = [span.lstrip("@").replace("…", "None") for span in spans if re.match(r"@?\w+\(", span)]
    takes = {name for call in calls for name in parameters(call.partition("(")[0])}
    takes |= {name for span in spans if span.startswith("@") for name in parameters(span.lstrip("@").partition("(")[0])}
    found = [call for call in calls if not set(re.findall(r"(\w+)=", call)) <= takes]
    for span in spans:
        if re.fullmatch(r"[\w./-]*(/|\.(py|md|json|toml))(?<!\.\.)", span.replace("NAME", "fosse-table-1")):
            found += [] if there(span.replace("NAME", "fosse-table-1")) else [span]
        elif option := re.fullmatch(r"(\w+)=.*", span):
            found += [] if option[1] in takes else [span]
        elif re.fullmatch(r"@?[A-Za-z_]\w*(\.\w+)*", span):
            found += [part for part in span.lstrip("@").split(".") if part not in words() | {"conoscope"}]
    return found


def parameters(name: str) -> set[str]:
    called = defined().get(name)
    return set(inspect.signature(called).parameters) if callable(called) else set()


def there(name: str) -> bool:
    if name == "record.json":  # what a study leaves in its folder
        return True
    return any((folder / name).exists() for folder in (ROOT, SOURCE)) or ("/" not in name and any(SOURCE.rglob(name)))


@pytest.mark.parametrize("paragraph", paragraphs(CONTRIBUTING), ids=lambda text: text.strip()[:30])
def test_contributing_names_what_is_there(paragraph: str) -> None:
    assert missing(paragraph) == []


@pytest.fixture
def registries() -> Iterator[tuple[dict[str, Any], ...]]:
    """The quantities and reductions as they are before the test, and after it again."""
    known: tuple[dict[str, Any], ...] = (base.QUANTITIES, base.REDUCTIONS)
    before = tuple(dict(registry) for registry in known)
    yield before
    for registry, was in zip(known, before, strict=True):
        registry.clear()
        registry.update(was)


def quantities_shown() -> list[Any]:
    """The examples of a quantity for contributors, one in CONTRIBUTING.md and one in a docstring."""
    shown = dedent(re.search(r"   ```python\n(.*?)   ```", WHOLE, re.DOTALL)[1])
    return [pytest.param(shown, id="CONTRIBUTING.md"), pytest.param(*code_in(base.__doc__), id="quantities/base.py")]


@pytest.mark.parametrize("code", quantities_shown())
def test_the_quantities_that_are_shown_run_as_pasted(code: str, registries: tuple[dict[str, Any], ...]) -> None:
    exec(code, {})
    for registry, before in zip((base.QUANTITIES, base.REDUCTIONS), registries, strict=True):
        assert registry.items() >= before.items(), "one of ours is replaced"
    batch, key = padded(), torch.randn(3, 2, 11, 4, generator=torch.Generator().manual_seed(0))
    (found,) = computed("longest", Trace(layer=1, batch=batch, key=key), site="key")
    expected = [[max(vector.norm() for vector in key[text, head, batch.real[text]]) for head in range(2)] for text in range(3)]
    torch.testing.assert_close(found, torch.tensor(expected))


def test_a_wrong_name_is_found() -> None:
    assert missing("decorated with `@quantity()` (`weights=True` if it reads weights)") == ["weights=True"]
    assert missing("`@quantity(weights=True)`") == ["quantity(weights=True)"]
    assert missing("written in `quantities/nowhere.py`") == ["quantities/nowhere.py"]
    assert missing("enter it into `NOT_A_LIST_OF_OURS`") == ["NOT_A_LIST_OF_OURS"]
    assert missing('`@quantity()`, `sparse=True`, `tests/test_laws.py`, `MAKERS`, `@figure("table", question=…)`') == []


def test_commands_of_contributing_are_there() -> None:
    spans = re.findall(r"`([^`]+)`", CONTRIBUTING.replace("\n", " "))
    commands = [span.removeprefix("conoscope ") for span in spans if span.startswith("conoscope ")]
    assert commands
    for command in commands:
        parser().parse_args(shlex.split(re.sub(" +", " ", command)))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    pages = CONTRIBUTING + (ROOT / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:`|\$ )make (\w+)", pages))
    assert {"demo", "test"} <= targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_the_first_lines_of_the_readme_name_the_demonstration_and_the_tests() -> None:
    top = (ROOT / "README.md").read_text(encoding="utf-8").split("\n![")[0]
    assert "$ make demo" in top
    assert "$ make test" in top


def test_the_rooms_of_the_architecture_are_the_layers_of_the_contract() -> None:
    table = ARCHITECTURE.split("|---|---|")[1].split("\n\n")[0]
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
    assert [f"conoscope.{room}" for room in re.findall(r"^\| `(\w+)`", table, re.MULTILINE)] == contract["layers"]


def test_the_walks_of_the_architecture_name_what_is_there_in_the_order_of_imports() -> None:
    walks = re.findall(r"^\d\. \*.*?(?=^\d\. |\n\n)", ARCHITECTURE.split("**Four walks**")[1], re.MULTILINE | re.DOTALL)
    assert len(walks) == 4
    for walk in walks:
        stations = re.findall(r"`([\w/.]+)`", walk)
        assert len(stations) == len(set(stations)) > 5
        assert all((SOURCE / station).exists() for station in stations), stations


def test_the_versions_that_are_said_to_be_tested_are_those_that_are_allowed() -> None:
    allowed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    for package in ("torch", "transformers"):
        first, last = re.search(rf"{package} ([\d.]+) to ([\d.]+)", CONTRIBUTING).groups()
        assert f'"{package}>={first}' in allowed
        assert f"\n{package}=={last}." in pinned
    assert '"transformers>=5.17,<6"' in allowed
