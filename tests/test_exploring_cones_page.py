"""Cones, stream and list as a browser shows them: numbers on screen are those of tables and models, with and without WebGL."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

import conoscope as cs
from conftest import BROWSERS
from conoscope.capture.loading import LoadedModel
from conoscope.corpora import Corpus, load_corpus
from conoscope.exploring import bundle, hosts
from conoscope.results.result import Result

BUILT = Path(bundle.__file__).parent / "static" / "explorer.js"
pytestmark = pytest.mark.skipif(not BUILT.is_file(), reason="the explorer's page is not built: make explorer, which needs Node")
TEXT = "the soup was not good"
PAINTED = "(box) => { const {kind, frames} = box.painter; return [kind, frames > 0] }"
INK = """(box) => {
  const canvas = box.painter.picture(box.querySelector("canvas"));
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return seen.size;
}"""


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus.of(list(load_corpus("bistro:test").first(60)), "some")


@pytest.fixture(scope="module")
def result(pure: LoadedModel, corpus: Corpus) -> Result:
    return cs.measure(pure, corpus, ["class_cones"])


@pytest.fixture(scope="module")
def written(pure: LoadedModel, corpus: Corpus, result: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a model with its cones."""
    asking = hosts.opened([pure, result], corpus, words=[TEXT])
    return hosts.write_page(asking, tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="module")
def without_webgl(browser: Browser) -> Iterator[Browser]:
    """A browser whose driver has no WebGL."""
    found = next(path for name in BROWSERS if (path := shutil.which(name)))
    opened = browser.browser_type.launch(executable_path=found, args=["--no-sandbox", "--disable-3d-apis"])
    yield opened
    opened.close()


def shown(browser: Browser, path: Path, fragment: str, width: int = 1440) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    page.goto(f"{path.as_uri()}#{fragment}")
    return page


def numbers(text: str) -> list[float]:
    """The numbers of a line, whatever their minus."""
    return [float(found.replace("−", "-")) for found in re.findall(r"[-−+]?\d+(?:\.\d+)?", text)]


def test_angles_on_screen_are_those_of_the_tables_in_every_layer(browser: Browser, written: Path, result: Result) -> None:
    between, angles = result["class_cones.between"], result["class_cones.angles"]
    means = between[(between["site"] == "hidden") & (between["representative"] == "mean")]
    own = angles[(angles["site"] == "hidden") & (angles["class"] == "negative")]
    for layer in range(4):
        cosine = float(means[means["layer"] == layer]["value"].iloc[0])
        quantile = float(own[own["layer"] == layer]["q90"].iloc[0])
        page = shown(browser, written, f"tab=cones&coneLayer={layer}")
        table = page.locator(".beside table").first
        expect(table).to_contain_text("negative")
        angle, cone = table.locator("tbody tr").first.locator("td").all_inner_texts()[1:3]
        assert numbers(angle)[0] == pytest.approx(np.degrees(np.arccos(np.clip(cosine, -1, 1))), abs=0.051)
        assert cone == "–" if np.isnan(quantile) else numbers(cone) == [pytest.approx(quantile, abs=0.051)]
        page.close()


def test_what_the_stream_sums_to_is_the_difference_of_the_models_logits(
    browser: Browser, written: Path, pure: LoadedModel
) -> None:
    import torch

    with torch.no_grad():
        logits = pure.module(**pure.tokenizer(TEXT, return_tensors="pt")).logits[0]
    page = shown(browser, written, "tab=stream")
    total = page.locator(".waterfall .total .number").first
    expect(total).to_be_visible()
    np.testing.assert_allclose(numbers(total.inner_text())[0], abs(float(logits[0] - logits[1])), atol=0.0051)
    added = [numbers(text)[0] for text in page.locator(".waterfall .step:not(.total) .number:nth-of-type(2)").all_inner_texts()]
    np.testing.assert_allclose(sum(added), numbers(total.inner_text())[0], atol=0.0051 * (len(added) + 1))
    page.close()


def test_cones_are_drawn_with_webgl_and_without_from_the_same_controls(
    browser: Browser, without_webgl: Browser, written: Path
) -> None:
    kinds = []
    for one in (browser, without_webgl):
        page = shown(one, written, "tab=cones")
        box = page.locator(".sphere-box")
        expect(box).to_be_visible()
        page.wait_for_timeout(500)
        kind, drawn = box.evaluate(PAINTED)
        kinds.append(kind)
        assert drawn
        assert box.evaluate(INK) > 20
        page.get_by_label("negative").uncheck()
        box.focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("+")
        page.wait_for_timeout(200)
        assert box.evaluate(INK) > 10
        page.close()
    assert kinds[1] == "2D"


def test_an_example_of_the_cones_is_gone_through_by_keyboard_alone(browser: Browser, written: Path, corpus: Corpus) -> None:
    texts = {example.id: example.text for example in corpus}
    page = shown(browser, written, "tab=cones")
    button = page.get_by_role("button", name="Go through the examples")
    button.focus()
    page.keyboard.press("Enter")
    picked = page.locator(".picked")
    expect(picked.locator("blockquote")).to_have_text(texts[picked.locator(".id").inner_text()])
    first = picked.locator(".id").inner_text()
    picked.get_by_role("button", name="next").press("Enter")
    expect(picked.locator(".id")).not_to_have_text(first)
    expect(picked.locator("blockquote")).to_have_text(texts[picked.locator(".id").inner_text()])
    page.close()


@pytest.mark.parametrize("tab", ["cones", "stream"])
def test_a_narrow_page_is_not_scrolled_sideways(browser: Browser, written: Path, tab: str) -> None:
    page = shown(browser, written, f"tab={tab}", width=390)
    expect(page.locator(".cones-view, .stream-view")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


def test_the_list_has_every_text_of_the_corpus(browser: Browser, written: Path, corpus: Corpus) -> None:
    page = shown(browser, written, "tab=cones")
    rows = page.locator(".corpus-scroll li")
    expect(rows.first).to_have_attribute("aria-setsize", "60")
    texts = [example.text for example in corpus]
    page.locator(".corpus-scroll .text").first.focus()
    page.keyboard.press("End")
    last = page.locator('.corpus-scroll li[aria-posinset="60"] .row-text')
    expect(last).to_have_text(texts[-1][:300])
    page.close()
