"""Every figure in every form that it is written in, of names that would be scripts: nothing of them runs, and they are shown."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import altair as alt
import pandas as pd
import pytest
from playwright.sync_api import Browser, Page, expect

import conoscope
from conoscope.capture.loading import LoadedModel
from conoscope.corpora import Example
from conoscope.figures import FIGURES, FORMATS, positions, save, spec, svg
from conoscope.measuring.pipeline import measure
from conoscope.results.result import Result
from drawings import GUESS, every_table
from test_figures_hostile import named

SCRIPTS = ("</script><script>", "+alert(window.ran=1)//", "\"'><img src=x onerror=window.ran=1>")
"""The second is a name that was a script once the first had ended the one that it stood in."""
MARKS = ("</script", "+alert", "<img")
Open = Callable[[Path], Page]


@pytest.fixture(scope="module")
def tables(pure: LoadedModel) -> dict[str, pd.DataFrame]:
    """Tables for every figure, of two runs, whose every name is a script."""
    return named(every_table(pure), SCRIPTS[0], 2, *SCRIPTS[1:])


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Opens a file; what it asks for, says on the console or throws, and what runs in it, is in `told`, which must stay empty."""
    told: list[str] = []
    context = browser.new_context(reduced_motion="reduce")
    shown = context.new_page()

    def open_file(path: Path) -> Page:
        shown.on("request", lambda request: told.append(request.url) if request.url != path.as_uri() else None)
        shown.on("console", lambda message: told.append(message.text))
        shown.on("pageerror", lambda error: told.append(str(error)))
        shown.on("dialog", lambda dialog: (told.append(dialog.message), dialog.dismiss()))
        shown.goto(path.as_uri())
        return shown

    yield open_file
    assert shown.evaluate("typeof window.ran") == "undefined"
    context.close()
    assert [one for one in told if not one.startswith(("data:", GUESS))] == []


def hostile(texts: list[str]) -> set[str]:
    """The texts that hold a name that would be a script."""
    return {text for text in texts if any(mark in text for mark in MARKS)}


def drawn_texts(chart: Any) -> list[str]:
    """The texts of a chart's drawing, as they are read."""
    return ["".join(text.itertext()) for text in fromstring(svg(chart)).iter("{http://www.w3.org/2000/svg}text")]


def is_bare(shown: Page) -> bool:
    """Whether an SVG has nothing that could run or be fetched."""
    found: bool = shown.evaluate(
        """[...document.querySelectorAll("svg, svg *")].every((element) =>
          !/^(script|foreignObject|iframe|a|use|animate|set)$/i.test(element.localName) &&
          [...element.attributes].every(({ name, value }) =>
            !/^on/i.test(name) && (!/href$|src$/i.test(name) || /^data:image\\/png;base64,/.test(value))))"""
    )
    return found


@pytest.mark.parametrize("name", FIGURES)
def test_a_page_of_a_figure_runs_nothing_and_shows_every_name(
    name: str, tables: dict[str, pd.DataFrame], opened: Open, tmp_path: Path
) -> None:
    chart = FIGURES[name].draw(tables)
    assert chart is not None
    written = save(chart, tmp_path / "figure.html")
    shown = opened(written)
    expect(shown.locator(".vega-embed svg")).to_be_visible()
    assert hostile(shown.locator("svg text").all_text_contents()) == hostile(drawn_texts(chart))
    assert shown.locator("h1").text_content() == FIGURES[name].title
    assert " ".join((shown.locator("figcaption").text_content() or "").split()) == FIGURES[name].caption_of(spec(chart))
    assert shown.locator("script:not([type])").count() == 2
    assert shown.locator("img, iframe, object").count() == 0
    assert is_bare(shown)


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_of_a_figure_holds_nothing_that_runs(
    name: str, tables: dict[str, pd.DataFrame], opened: Open, tmp_path: Path
) -> None:
    chart = FIGURES[name].draw(tables)
    shown = opened(save(chart, tmp_path / "figure.svg"))
    assert is_bare(shown)
    assert hostile(shown.locator("text").all_text_contents()) == hostile(drawn_texts(chart))


@pytest.mark.parametrize("name", FIGURES)
def test_a_chart_as_json_is_json_that_ends_no_element_that_it_is_put_into(
    name: str, tables: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    chart = FIGURES[name].draw(tables)
    text = save(chart, tmp_path / "figure.json").read_text(encoding="utf-8")
    assert json.loads(text) == json.loads(json.dumps(spec(chart)))
    assert "<" not in text


@pytest.mark.parametrize("ending", [".pdf", ".png"])
@pytest.mark.parametrize("name", FIGURES)
def test_paper_and_pixels_hold_nothing_that_runs(name: str, ending: str, tables: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    written = save(FIGURES[name].draw(tables), tmp_path / f"figure{ending}").read_bytes()
    assert written.startswith({".pdf": b"%PDF", ".png": b"\x89PNG"}[ending])
    if ending == ".png":
        assert set(chunks(written)) <= {b"IHDR", b"pHYs", b"PLTE", b"tRNS", b"IDAT", b"IEND"}
    # What is packed may spell anything by chance.
    plain = re.sub(rb"stream\r?\n.*?endstream", b"", written, flags=re.DOTALL) if ending == ".pdf" else b""
    assert not any(key in plain for key in (b"/JavaScript", b"/JS", b"/URI", b"/Launch", b"/OpenAction", b"/ObjStm"))


def chunks(png: bytes) -> Iterator[bytes]:
    """The kinds of the parts of a PNG."""
    place = 8
    while place < len(png):
        yield png[place + 4 : place + 8]
        place += 12 + int.from_bytes(png[place : place + 4], "big")


def test_these_are_all_formats() -> None:
    assert set(FORMATS) == {".html", ".svg", ".json", ".pdf", ".png"}


def test_a_chart_of_no_figure_has_a_page_too(opened: Open, tmp_path: Path) -> None:
    shown = opened(save(positions(8, 4), tmp_path / "positions.html"))
    expect(shown.locator(".vega-embed svg")).to_be_visible()
    assert shown.locator("h1").count() == 0


def test_a_figure_has_its_caption_and_is_there_without_scripts_in_the_light_and_in_the_dark(
    browser: Browser, tables: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    chart = FIGURES["sim"].draw(tables)
    written, caption = save(chart, tmp_path / "figure.html"), FIGURES["sim"].caption_of(spec(chart))
    inks = set()
    for scheme in ("light", "dark"):
        context = browser.new_context(java_script_enabled=False, color_scheme=scheme)
        shown = context.new_page()
        shown.goto(written.as_uri())
        expect(shown.locator("svg")).to_be_visible()
        assert shown.locator("figcaption").text_content() == caption.replace(" %", "\u00a0%")
        inks.add(shown.locator(".role-axis-label text").first.evaluate("(text) => getComputedStyle(text).fill"))
        context.close()
    assert len(inks) == 2


def in_notebooks(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("_repr_")


def test_what_shows_itself_in_notebooks_is_tested_here() -> None:
    source = Path(conoscope.__file__).parent
    classes = [
        node.name
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and any(map(in_notebooks, node.body))
    ]
    assert sorted(classes) == ["Differences", "Explanation", "Explanations", "Result", "Shown"]


def test_a_result_in_a_notebook_runs_nothing(pure: LoadedModel, opened: Open, tmp_path: Path) -> None:
    texts = [Example("the soup was cold", SCRIPTS[0]), Example("we loved it", SCRIPTS[1]), Example("great wine", SCRIPTS[1])]
    result = measure(replace(pure, labels=SCRIPTS[:2]), texts, ["sim", "attention_entropy", "class_cones"])
    told = {**result.provenance, "model": {**result.provenance["model"], "name": SCRIPTS[0]}}
    told["corpus"] = {"name": SCRIPTS[2], "split": SCRIPTS[1]}
    page = tmp_path / "notebook.html"
    page.write_text(f"<!DOCTYPE html><meta charset=utf-8>{Result(result.tally, told)._repr_html_()}", encoding="utf-8")
    shown = opened(page)
    assert shown.locator("script").count() == 0
    images = [image.get_attribute("src") for image in shown.locator("img").all()]
    assert images
    assert all(image and image.startswith("data:image/svg+xml;base64,") for image in images)
    assert all(script in (shown.locator("p b").text_content() or "") for script in SCRIPTS)


@pytest.mark.parametrize("renderer", ["html", "mimetype", "svg", "png"])
def test_a_chart_in_a_notebook_has_no_text_that_ends_a_script(renderer: str, tables: dict[str, pd.DataFrame]) -> None:
    chart = FIGURES["class-cones"].draw(tables).properties(background="white")
    with alt.renderers.enable(renderer):
        found: Any = chart._repr_mimebundle_()
    bundle = found[0] if isinstance(found, tuple) else found
    html = bundle.get("text/html", "")
    assert bool(html) == (renderer == "html")
    assert SCRIPTS[0] not in html
    assert "\\u003c/script>" in html or not html
