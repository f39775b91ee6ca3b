"""Documentation is under test: what is not documented, or no longer true, fails."""

import argparse
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import conoscope
from conoscope.capture.loading import LoadedModel
from conoscope.cli import parser
from conoscope.commands import COMMANDS
from conoscope.corpora import CORPORA
from conoscope.figures import FIGURES
from conoscope.measures import CATALOGUE
from conoscope.studies import STUDIES
from conoscope.studies.pages import write_page
from conoscope.studies.records import read_record

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HEADINGS = ["What it measures", "Why", "Definition", "How to read it", "What it needs and costs", "Example", "Pitfalls", "Source"]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_measure_has_a_page_with_the_fixed_headings(name: str) -> None:
    page = (ROOT / "docs" / "measures" / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == HEADINGS
    assert f"docs/measures/{name}.md" in README


@pytest.mark.parametrize("name", CORPORA)
def test_every_corpus_has_a_section(name: str) -> None:
    assert f"\n## {name}\n" in (ROOT / "docs" / "corpora.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_on_the_page_for_reports_with_its_title_and_its_tables(name: str) -> None:
    figure = FIGURES[name]
    needs = ", ".join(f"`{need}`" for need in figure.needs)
    assert f"\n| `{name}` | {figure.title} | {needs} |\n" in (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    assert len(figure.caption) > 80


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_readme_and_every_option_says_what_it_does(name: str) -> None:
    assert f"conoscope {name}" in README
    commands = next(action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    assert all(option.help for option in commands.choices[name]._actions)


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("overhead-*.json")), ids=lambda path: path.stem)
def test_the_page_on_cost_has_the_figures_of_the_committed_runs(path: Path) -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for shape, sides in json.loads(path.read_text(encoding="utf-8"))["shapes"].items():
        every = next(side for side in sides if side["side"] == "all")
        size = re.sub(r"(\d)(\d{3})$", r"\1,\2", shape.replace(" x ", " × "))
        rows = [line for line in page.splitlines() if f"| {size} |" in line]
        assert any(f"| {every['ratio']:.2f} × |" in row and f"{every['peak_ratio']:.2f} × |" in row for row in rows), size


def test_every_study_was_run_in_full_or_is_said_not_to_be() -> None:
    records = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "results").glob("*.json")}
    assert set(records) <= set(STUDIES)
    assert not any(record["quick"] for record in records.values())
    rows = (ROOT / "docs" / "studies" / "README.md").read_text(encoding="utf-8").splitlines()
    for name in STUDIES:
        if name in records:
            assert any(row.startswith(f"| [{name}]({name}.md) |") for row in rows), name
        else:
            assert any(row.startswith(f"| {name} |") and row.endswith("| not run yet |") for row in rows), name


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*.json")), ids=lambda path: path.stem)
def test_the_page_of_a_study_is_what_its_record_says(path: Path, tmp_path: Path) -> None:
    written = write_page(read_record(path), tmp_path / f"{path.stem}.md")
    assert (ROOT / "docs" / "studies" / written.name).read_text(encoding="utf-8") == written.read_text(encoding="utf-8")
    assert all((ROOT / "docs" / "studies" / figure.name).is_file() for figure in tmp_path.glob("*.svg"))


@pytest.mark.parametrize("name", conoscope.__all__)
def test_every_public_name_is_on_the_page_for_python(name: str) -> None:
    assert re.search(rf"^\| `{name}\b", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.MULTILINE)


def paths_of_the_tree(block: str) -> Iterator[str]:
    """The files of the tree, each below the folders that it stands under."""
    above: list[str] = []
    for line in block.strip().splitlines():
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        above = [*above[:depth], name.rstrip("/")]
        if name.endswith(".py"):
            yield "/".join(above)


def test_the_tree_in_the_readme_is_true() -> None:
    named = list(paths_of_the_tree(README.split("## The tree")[1].split("```")[1]))
    source = ROOT / "src" / "conoscope"
    there = [path for path in source.rglob("*.py") if path.parent == source or path.name != "__init__.py"]
    scripts = list((ROOT / "benchmarks").glob("*.py"))
    assert sorted(named) == sorted(path.relative_to(ROOT).as_posix() for path in (*there, *scripts))


def test_commands_in_the_readme_parse() -> None:
    commands = re.findall(r"^\$ conoscope ([^#\n]*)", README, re.MULTILINE)
    assert len(commands) > 5
    for command in commands:
        parser().parse_args(shlex.split(command))


@pytest.fixture
def beside_the_demo(tmp_path: Path, pure: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in which the demonstration has left its model."""
    pure.module.save_pretrained(tmp_path / "conoscope-demo" / "model")
    pure.tokenizer.save_pretrained(tmp_path / "conoscope-demo" / "model")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("beside_the_demo")
@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_python_in_the_documentation_runs(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for code in blocks:  # later blocks go on with the names of earlier ones
        exec(compile(code, page, "exec"), names)
    assert {"corpus"} <= names.keys()


def cells_of_the_notebook() -> list[dict[str, Any]]:
    cells = json.loads((ROOT / "docs" / "example.ipynb").read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_the_notebook_was_run_from_top_to_bottom_without_an_error() -> None:
    cells = cells_of_the_notebook()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert {output["output_type"] for cell in cells for output in cell["outputs"]} <= {"execute_result", "display_data", "stream"}
    assert all(cell["outputs"] for cell in cells)


@pytest.mark.usefixtures("beside_the_demo")
def test_the_notebook_still_runs() -> None:
    names: dict[str, object] = {}
    for cell in cells_of_the_notebook():
        exec(compile("".join(cell["source"]), "docs/example.ipynb", "exec"), names)
    assert Path("report.html").is_file()
    written = "".join(cells_of_the_notebook()[0]["outputs"][0]["data"]["text/html"])
    assert begun(written) == begun(names["trained"]._repr_html_())  # type: ignore[attr-defined]


def begun(markup: str) -> list[str]:
    """How findings and descriptions of figures begin, whatever their numbers are: what is written was said by this version."""
    said = re.findall(r"<li>(\S+ \S+)", markup) + re.findall(r'alt="([^"]{200})', markup)
    assert len(said) > 4
    return [re.sub(r"\d+", "#", text) for text in said]


@pytest.mark.parametrize(
    "page", sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        assert ((ROOT / page).parent / target).exists(), target
